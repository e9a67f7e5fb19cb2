//! [`TurnService`]: one question of the user, and everything a model does to answer it.
//!
//! A turn is a loop: the model is asked, the tools it calls run through the gate, their results go
//! back to it, until it makes no more calls. Each step is stored before the next starts: the
//! question, every answer of the model with its cost, every call before it has an effect and after.
//! When the turn ends, all of its messages join the session in one unit of work, so turns never
//! mix. One turn of a session runs at a time; the others wait.
//!
//! After a crash the next process finds the steps ([`resume`](self)): it reuses stored results, and
//! asks the user about calls whose outcome is unknown instead of repeating them.

mod ask;
mod calls;
mod compaction;
mod context;
mod error;
mod history;
mod report;
mod request;
mod resume;
mod secrets;
mod service;
mod session_lock;
mod system;
mod tool_limit;

pub(crate) use ask::USUAL_WINDOW;
pub(crate) use calls::{log_tool_outcome, tool_span};
pub use error::TurnError;
pub(crate) use history::{chat_message, set_chat_message};
pub(crate) use report::{REPORT, is_refusal};
pub use report::{ReportTool, ReportTools, TextAnswer};
pub use request::{
    Ending, InterruptedTurnSummary, TurnAllowance, TurnReport, TurnRequest, TurnSettings,
    TurnTools, UnlimitedAllowance,
};
pub(crate) use resume::is_for_a_person;
pub(crate) use secrets::Secrets;
pub use service::TurnService;
pub use session_lock::{LockedSession, Waiting};
pub(crate) use system::{instruction_tag, tagged_instruction};
pub use system::{instructions, project_instructions};
