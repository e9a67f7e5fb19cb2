//! [`RunContext`]: what a run works with. The runtime assembles it (`runtime/`).

use std::collections::BTreeSet;
use std::sync::Arc;

use cleveragents_actors::ports::RunObserver;
use cleveragents_actors::ports::StepPath;
use cleveragents_domain::{PlanId, RemoteAgent};
use cleveragents_models::{Model, Redactor, Retry, ToolCall};
use cleveragents_process::Cancel;
use cleveragents_tools::ports::Approver;
use cleveragents_tools::{
    CallOutcome, Guards, PermissionRules, PlanMode, Registry, SafetyProfile, ToolName,
};

use crate::tool::{SandboxWorkspace, SpendScope};

/// Opens models by name.
pub trait ModelSource: Sync {
    /// A model; the usual one when no name is given.
    fn open(&self, name: Option<&str>) -> Result<Arc<dyn Model>, String>;

    /// An agent on another machine, which answers like a model. `name` is that of its actor.
    fn agent(&self, name: &str, _agent: &RemoteAgent) -> Result<Arc<dyn Model>, String> {
        Err(format!(
            "`{name}` is an agent on another machine, and none is asked here"
        ))
    }
}

/// Says which tools skills and servers bring.
pub trait ToolSources: Sync {
    /// The tools of a skill.
    fn skill(&self, name: &str) -> Result<Vec<ToolName>, String>;

    /// The tools of a server.
    fn server(&self, name: &str) -> Result<Vec<ToolName>, String>;

    /// What a model is told about the skills it has, beside their tools.
    fn disclosure(&self, _skills: &[String]) -> Option<String> {
        None
    }
}

/// What to do about a call that was started and whose outcome is unknown, because its process died.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnknownOutcome {
    /// Ask the user.
    #[default]
    Ask,
    /// Run it again.
    Retry,
    /// Assume that it was done; its result is lost.
    AssumeDone,
}

/// Who watches a run: its steps, and what goes on in them.
pub trait RunWatcher: RunObserver {
    /// A piece of the answer that people wait for.
    fn text(&self, _path: &StepPath, _piece: &str) {}
    /// An attempt to get an answer failed, and another follows. `shown` says whether pieces of the failed answer
    /// were passed to [`text`](Self::text): they are void, and the answer restarts.
    fn retrying(&self, _path: &StepPath, _retry: &Retry, _shown: bool) {}
    /// The answer is whole.
    fn answered(&self, _path: &StepPath) {}
    /// A tool is about to be called.
    fn calling(&self, _path: &StepPath, _tool: &ToolCall) {}
    /// A tool was called.
    fn called(&self, _path: &StepPath, _tool: &ToolCall, _outcome: &CallOutcome) {}
    /// What a person must know before relying on an answer, such as that it is cut.
    fn caveat(&self, _path: &StepPath, _what: &str) {}
}

/// Nobody watches.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unheard;

impl RunObserver for Unheard {
    fn watches(&self) -> bool {
        false
    }
}

impl RunWatcher for Unheard {}

/// What a run works with.
pub struct RunContext<'a> {
    /// Models.
    pub models: &'a dyn ModelSource,
    /// Every tool there is.
    pub registry: &'a Registry,
    /// What skills and servers bring of them.
    pub sources: &'a dyn ToolSources,
    /// Tools that models are not told of: they find them by searching.
    pub deferred: &'a BTreeSet<ToolName>,
    /// Tools that every agent has beside its own.
    pub extra_tools: &'a [ToolName],
    /// The plan for which it runs.
    pub plan: Option<PlanId>,
    /// What the run may do.
    pub mode: PlanMode,
    /// How careful to be.
    pub profile: &'a SafetyProfile,
    /// Limits of what runs by itself.
    pub guards: &'a Guards,
    /// What is allowed, asked and denied.
    pub rules: &'a PermissionRules,
    /// The sandbox.
    pub workspace: Option<&'a SandboxWorkspace>,
    /// Who is asked.
    pub approver: &'a dyn Approver,
    /// What may be spent, by whom.
    pub scopes: Vec<SpendScope>,
    /// Standing instructions for every model.
    pub instructions: Vec<String>,
    /// How freely models choose words, over what the actor says.
    pub temperature: Option<f64>,
    /// Takes secrets out of what is stored and shown.
    pub redactor: Redactor,
    /// Who watches.
    pub watcher: &'a dyn RunWatcher,
    /// What stops the run.
    pub cancel: &'a Cancel,
    /// What to do about a call whose outcome is unknown.
    pub unknown_outcome: UnknownOutcome,
}
