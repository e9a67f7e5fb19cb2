//! [`RunContext`]: models, tools, permissions and limits of a run. The runtime (`runtime/`) assembles
//! it.

use std::collections::BTreeSet;
use std::sync::Arc;

use cleveragents_domain::{PlanId, RemoteAgent, RunId};
use cleveragents_models::{Model, Redactor};
use cleveragents_process::Cancel;
use cleveragents_tools::ports::Approver;
use cleveragents_tools::{Guards, PermissionRules, PlanMode, Registry, SafetyProfile, ToolName};

use serde::{Deserialize, Serialize};

use crate::observer::Observer;
use crate::tool::{SandboxWorkspace, SpendScope};
use crate::turn::ReportTools;

/// Opens models by name.
pub trait ModelSource: Sync {
    /// Opens a model; the default model when no name is given.
    fn open(&self, name: Option<&str>) -> Result<Arc<dyn Model>, String>;

    /// Opens a remote agent as a model. `name` is the name of its actor.
    fn agent(&self, name: &str, _agent: &RemoteAgent) -> Result<Arc<dyn Model>, String> {
        Err(format!(
            "`{name}` is an agent on another machine, which cannot be asked here"
        ))
    }
}

/// Lists the tools of skills and servers.
pub trait ToolSources: Sync {
    fn skill(&self, name: &str) -> Result<Vec<ToolName>, String>;

    fn server(&self, name: &str) -> Result<Vec<ToolName>, String>;

    /// The instructions of the skills for a model, in addition to their tools.
    fn disclosure(&self, _skills: &[String]) -> Option<String> {
        None
    }
}

/// Treatment of a tool call whose process died before the outcome was stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnknownOutcome {
    /// Ask the user.
    #[default]
    Ask,
    /// Run the call again.
    Retry,
    /// Assume that the call succeeded. Its result is lost.
    AssumeDone,
}

/// A conversation that a run continues. Its messages are copied when the run starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarriedConversation {
    /// The run whose last conversation is continued.
    pub run: RunId,
    /// The files whose content stays in the copy. Stubs replace other long tool results, which the next
    /// phase does not need. `None` copies everything.
    #[serde(default)]
    pub kept_files: Option<Vec<String>>,
}

/// The state of the changes that a run makes in a sandbox.
pub trait WorkState: Sync {
    /// Whether an answer in plain text may end the work: files changed, or no change is expected.
    fn may_end(&self) -> bool;

    /// The changes so far as a diff; `None` when there are none.
    fn diff(&self) -> Option<String>;
}

/// Models, tools, permissions and limits of a run.
pub struct RunContext<'a> {
    pub models: &'a dyn ModelSource,
    /// All registered tools.
    pub registry: &'a Registry,
    /// The tools of skills and servers.
    pub sources: &'a dyn ToolSources,
    /// Tools that requests declare only after the model found them by searching.
    pub deferred: &'a BTreeSet<ToolName>,
    /// Tools that every agent has in addition to its own.
    pub extra_tools: &'a [ToolName],
    /// The plan that the run belongs to.
    pub plan: Option<PlanId>,
    /// The capabilities that the plan or session allows.
    pub mode: PlanMode,
    pub profile: &'a SafetyProfile,
    /// Limits for calls that run without approval.
    pub guards: &'a Guards,
    pub rules: &'a PermissionRules,
    pub workspace: Option<&'a SandboxWorkspace>,
    /// Asks the user for approvals and answers.
    pub approver: &'a dyn Approver,
    /// Spending limits.
    pub scopes: Vec<SpendScope>,
    /// Standing instructions for every model.
    pub instructions: Vec<String>,
    /// The system prompt for summaries of long conversations; `None` for the built-in prompt.
    pub summary_prompt: Option<String>,
    /// Tools with which agents report their results.
    pub reports: ReportTools<'a>,
    /// The conversation whose copy starts every conversation of this run.
    pub carried: Option<CarriedConversation>,
    /// The state of the work, for reminders and for prompts that continue a failed turn.
    pub work: Option<&'a dyn WorkState>,
    /// Overrides the temperature of the actor.
    pub temperature: Option<f64>,
    /// Removes secrets from text that is stored or displayed.
    pub redactor: Redactor,
    /// Receives progress events.
    pub observer: &'a dyn Observer,
    /// Stops the run.
    pub cancel: &'a Cancel,
    /// Treatment of tool calls whose outcome is unknown.
    pub unknown_outcome: UnknownOutcome,
}
