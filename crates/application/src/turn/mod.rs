//! [`TurnService`]: runs a turn, which is one question of the user with all model requests and tool
//! calls until the answer.
//!
//! A turn is a loop: it sends a request to the model, runs the called tools through the gate, and
//! sends their results, until an answer has no calls. Each step is stored before the next step
//! starts: the question, every answer with its cost, and every call both before and after its
//! effect. When the turn ends, all of its messages are appended to the session in one unit of work,
//! so messages of different turns never interleave. Only one turn of a session runs at a time; other
//! turns wait.
//!
//! After a crash, the next process resumes the turn from the stored steps ([`resume`](self)): it
//! reuses stored results, and asks the user about calls whose outcome is unknown instead of
//! repeating them.

mod answer_stream;
mod ask;
mod background;
mod calls;
mod compaction;
mod context;
mod error;
mod history;
mod images;
mod repeats;
mod report;
mod request;
mod resume;
mod secrets;
mod service;
mod session_lock;
mod system;
mod tool_declarations;
mod tool_limit;

pub(crate) use ask::DEFAULT_WINDOW;
pub(crate) use calls::{log_tool_outcome, tool_span};
pub use compaction::CompactionReport;
pub use error::TurnError;
pub(crate) use history::{chat_message, set_chat_message};
pub use images::{PromptImage, prompt_images};
pub(crate) use report::{REPORT, is_refusal};
pub use report::{ReportTool, ReportTools, TextAnswer};
pub use request::{
    Ending, InterruptedTurnSummary, TurnAllowance, TurnReport, TurnRequest, TurnSettings,
    TurnTools, UnlimitedAllowance,
};
pub(crate) use resume::needs_absent_user;
pub(crate) use secrets::Secrets;
pub use service::TurnService;
pub use session_lock::{LockedSession, Waiting};
pub(crate) use system::{instruction_tag, tagged_instruction};
pub use system::{instructions, project_instructions};
