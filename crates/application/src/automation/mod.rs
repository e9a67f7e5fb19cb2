//! Automation profiles, built in or defined in files of the user.

mod file;
pub mod operations;
mod service;

pub use service::AutomationService;

pub(crate) use service::require;
