//! Sessions: stored conversations.

mod append;
mod error;
mod export;
pub(crate) mod folder;
mod import;
mod markdown;
pub mod operations;
mod service;

pub use append::{AppendOutcome, AppendRequest, AppendResponder, BatchAppender};
pub use error::SessionError;
pub use export::{EXPORT_SCHEMA, ExportSummary};
pub use folder::SessionOverview;
pub use import::{ImportCheck, ImportSummary};
pub use markdown::without_data_tags;
pub use service::{Answer, Failure, Question, SessionService, SessionView, StoredMessage};
