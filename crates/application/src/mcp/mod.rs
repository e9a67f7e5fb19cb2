//! Servers of the Model Context Protocol as they are registered.

mod service;

pub use service::{AddedServer, McpService, McpServiceError, RegisteredServer, hide_secrets};
