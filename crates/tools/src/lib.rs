//! Tools, and the gate that calls them.
//!
//! A [`Registry`] contains the built-in tools and tools from the user's files ([`custom`]). Only a
//! [`Gate`] can run them: [`Tool::prepare`] has no effect, and [`PreparedCall::run`] needs a [`Permit`],
//! which only the gate can create. Before a tool runs, the gate checks its arguments, the plan, the
//! safety profile, guards, permission rules and the sandbox, and asks the user for approval where it
//! is required. Every refusal is a result for the model and a row in the [`Ledger`].
//!
//! The crate is synchronous and has no access to databases or models, except through the traits of
//! [`ports`].

mod argument_errors;
pub mod builtin;
mod capability;
pub mod custom;
mod gate;
mod loop_guard;
mod model_tools;
mod name;
mod output;
pub mod ports;
mod registry;
pub mod run_command;
mod safety;
mod spec;
mod tool;
mod tool_search;
pub mod untrusted;

pub use argument_errors::example_arguments;
pub use builtin::{SandboxLocation, image_media_type, locate};
pub use capability::{Access, Capability, CapabilityChange, Environment, OverrideError};
pub use gate::{
    CallContext, CallFailure, CallOutcome, CallRequest, CallSuccess, Gate, GateError, Permit,
    Phase, Picture, PlanMode, Refusal, RefusalReason, data_for_model,
};
pub use loop_guard::{LoopGuard, Verdict};
pub use model_tools::{
    Declaration, EditTool, ToolOffer, called_tool, resolve_call, with_model_names, without_bounds,
};
pub use name::{ToolName, ToolNameError};
pub use output::{DEFAULT_SHOWN_BYTES, LineRange, Log, Output, ShownOutput, SpooledOutput};
pub use registry::{Registry, RegistryError, TightenError, check_schema, check_value};
pub use safety::{
    AllowList, Decision, Effect, Guards, PathPermissions, PermissionRules, Rule, RuleError,
    STANDARD_PROFILE, Safety, SafetyProfile, ToolPattern, matches_pattern,
};
pub use spec::{Binding, Category, DEFAULT_TIMEOUT, Slot, Source, ToolSpec, WorkspaceNeed};
pub use tool::{
    Answer, Body, Call, Failure, FailureKind, PrepareContext, PrepareError, PreparedCall, Subject,
    Tool, TouchedPaths,
};
pub use tool_search::{SearchableTool, ToolSearch};

#[doc(no_inline)]
pub use ports::Ledger;
