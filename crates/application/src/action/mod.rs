//! Actions, the templates of plans, as they are registered.

mod error;
pub mod operations;
mod service;

pub use error::{ActionError, ActionFileError};
pub use service::{ActionFilter, ActionService, AddedAction, RegisteredAction};

pub(crate) use service::find as find_action;
