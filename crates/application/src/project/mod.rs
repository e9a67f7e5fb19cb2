//! Projects: named scopes that link resources and define the rules for plans that work on them.

mod error;
mod folder;
pub mod operations;
mod service;

pub use error::ProjectError;
pub use service::{LinkRequest, NewProject, ProjectService, ProjectTarget};

pub(crate) use error::shown;
pub(crate) use service::find as find_project;
