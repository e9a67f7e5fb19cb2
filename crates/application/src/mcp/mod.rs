//! Registered servers of the Model Context Protocol.

mod service;

pub use service::{McpService, McpServiceError, hide_secrets};
