//! Automation profiles: those of the program and those of the user's files.

mod error;
mod file;
pub mod operations;
mod service;

pub use error::AutomationError;
pub use file::schema as automation_profile_schema;
pub use service::{AddedProfile, AutomationService, RegisteredProfile};

pub(crate) use service::require;
