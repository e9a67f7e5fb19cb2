//! [`TurnService`]: one question of a person, and everything a model does to answer it.
//!
//! A turn is a loop: the model is asked, the tools it calls run through the gate, their results go back
//! to it, until it has nothing more to call. Each step is stored before the next begins: the question,
//! every answer of the model with what it cost, every call before it has an effect and after. When the
//! turn ends, all of its messages join the session in one unit of work, so turns never mix. One turn of
//! a session runs at a time; the others wait.
//!
//! Whoever comes after a crash finds the steps ([`resume`](self)): results that are stored are not
//! asked for again, and a call of which nobody knows what came is asked about, never repeated unasked.

mod ask;
mod calls;
mod context;
mod error;
mod history;
mod request;
mod resume;
mod secrets;
mod service;
mod system;
mod take;
mod tool_limit;

pub(crate) use calls::{log_tool_outcome, tool_span};
pub use error::TurnError;
pub use request::{
    Ending, Interrupted, NoObserver, TurnAllowance, TurnObserver, TurnReport, TurnRequest,
    TurnSettings, TurnTools, Unlimited,
};
pub(crate) use resume::is_for_a_person;
pub(crate) use secrets::Secrets;
pub use service::TurnService;
pub use system::{instructions, project_instructions};
pub use take::{TakenSession, Waiting};
