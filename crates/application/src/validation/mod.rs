//! Validations: their definitions, attachments, and running them on a sandbox.

mod definition;
mod error;
mod file;
pub mod operations;
mod placeholders;
mod runner;
mod service;

pub use definition::{
    CommandCheck, CommandLine, SecretValues, Validation, ValidationCheck, WrappedCheck,
};
pub use error::ValidationError;
pub use runner::{ValidationOutcome, ValidationRunner, WrappedTool};
pub use service::{
    AttachRequest, AttachmentQuery, AttachmentView, EffectiveValidation, ValidationService,
};
