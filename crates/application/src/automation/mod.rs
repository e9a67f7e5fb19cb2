//! Automation profiles: built-in ones and those of the user's files.

mod file;
pub mod operations;
mod service;

pub use service::AutomationService;

pub(crate) use service::require;
