//! Sessions: keeping conversations without losing, misordering or half-storing anything.

mod error;
mod export;
mod import;
mod markdown;
mod service;

pub use error::SessionError;
pub use export::{EXPORT_SCHEMA, ExportSummary};
pub use import::{ImportCheck, ImportSummary};
pub use service::{Answer, Failure, Question, SessionService, SessionView, Stored};
