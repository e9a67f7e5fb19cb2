//! Tools, and the one gate through which all of them are called.
//!
//! A [`Registry`] holds tools: the built-in ones and those of the user's files ([`custom`]). A
//! [`Gate`] is the only thing that runs them: [`Tool::prepare`] has no effect, and
//! [`Prepared::run`] needs a [`Permit`], which nothing outside the gate can make. Before a tool runs
//! the gate has looked at its arguments, the plan, the safety profile, guards, permission rules, the
//! sandbox, and asked a person where one is demanded; every refusal is an answer that the model can
//! read and a row in the [`Ledger`].
//!
//! The crate is synchronous and knows neither a database nor a model. What it needs of them are the
//! traits of [`ports`].

pub mod builtin;
mod capability;
pub mod custom;
mod file_error;
mod gate;
mod loop_guard;
mod name;
mod output;
pub mod ports;
mod registry;
pub mod running;
mod safety;
mod spec;
mod tool;
mod tool_search;
pub mod untrusted;

pub use builtin::{Located, locate};
pub use capability::{Access, Capability, CapabilityChange, Environment, Loosened};
pub use file_error::{About, Complaint, FileError};
pub use gate::{
    CallContext, CallOutcome, CallRequest, Failed, Gate, GateError, Permit, Phase, Picture,
    PlanMode, Refusal, RefusalReason, Succeeded,
};
pub use loop_guard::{LoopGuard, Verdict};
pub use name::{ToolName, ToolNameError};
pub use output::{DEFAULT_SHOWN_BYTES, Log, Output, Shown, Spool};
pub use registry::{Registry, RegistryError, TightenError, check_schema, check_value};
pub use safety::{
    AllowList, Decision, Effect, Fence, Guards, PermissionRules, Rule, RuleError, STANDARD, Safety,
    SafetyProfile, ToolPattern, fits,
};
pub use spec::{Binding, Category, DEFAULT_TIMEOUT, Ground, Slot, Source, ToolSpec};
pub use tool::{
    Answer, Body, Call, Failure, FailureKind, Grounds, Prepared, Subject, Tool, Touched, Unprepared,
};
pub use tool_search::{Findable, ToolSearch};

#[doc(no_inline)]
pub use ports::Ledger;
