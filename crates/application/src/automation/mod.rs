//! Automation profiles, built in or defined in files of the user.

mod file;
mod mode;
pub mod operations;
mod service;

pub use mode::Mode;
pub use service::AutomationService;

pub(crate) use service::require;
