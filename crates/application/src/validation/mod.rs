//! Validations: what they are, what they are tied to, and how one judges a sandbox.

mod definition;
mod error;
mod file;
pub mod operations;
mod places;
mod runner;
mod service;

pub use definition::{CommandCheck, CommandLine, Keys, Validation, ValidationCheck, WrappedCheck};
pub use error::ValidationError;
pub use file::schema as validation_schema;
pub use runner::{Judgement, ValidationRunner, WrappedTool};
pub use service::{
    AddedValidation, AttachRequest, AttachmentQuery, AttachmentView, InEffect,
    RegisteredValidation, ValidationService,
};
