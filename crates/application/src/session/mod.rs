//! Sessions: stored conversations.

mod append;
mod error;
mod export;
mod import;
mod markdown;
pub mod operations;
mod service;

pub use append::{AppendOutcome, AppendRequest, AppendResponder, BatchAppender};
pub use error::SessionError;
pub use export::{EXPORT_SCHEMA, ExportSummary};
pub use import::{ImportCheck, ImportSummary};
pub use service::{Answer, Failure, Question, SessionService, SessionView, StoredMessage};
