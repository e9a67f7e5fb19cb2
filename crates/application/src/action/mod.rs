//! Registered actions, the templates of plans.

pub mod operations;
mod service;

pub use service::{ActionFilter, ActionService, RegisteredAction};

pub(crate) use service::find_action;
