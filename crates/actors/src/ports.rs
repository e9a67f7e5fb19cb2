//! The ports of the runner: traits that the application crate implements.

use std::time::Instant;

use cleveragents_domain::TokenUsage;
use cleveragents_process::Cancel;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::graph::{Actor, Agent};

/// Position of a step in a run: the ids of nested nodes, each with the number of the visit to the node, from 0.
///
/// `review#0/parts#2[17]` is item 17 of the map node `parts`, at the third visit to it in the subgraph `review`.
/// `parallel#0:1/check#0` is in branch 1 of a parallel node, and `part#0~1/check#0` in the first retry of a subgraph.
/// A step has the same path in every attempt at a run, independent of concurrency.
pub type StepPath = str;

pub struct AgentCall<'a> {
    pub path: &'a StepPath,
    /// Actor that contains the step.
    pub actor: &'a Actor,
    pub agent: &'a Agent,
    /// Rendered system prompt.
    pub system: Option<String>,
    /// Earlier messages, oldest first: maps with `role` and `content`.
    pub messages: &'a [Value],
    /// Rendered prompt.
    pub prompt: String,
    /// Whether the answer is streamed, because the user sees it.
    pub is_streamed: bool,
    /// Deadline of the attempt or of the run, whichever comes first.
    pub deadline: Option<Instant>,
    /// Number of the attempt, from 0.
    pub attempt: u32,
    /// Remaining limits of the run.
    pub allowance: &'a dyn Allowance,
    /// Cancellation of the step.
    pub cancel: &'a Cancel,
}

/// The remaining limits of a run, for a node that calls an agent. The agent may need many model and tool calls. The
/// executor claims each call before it makes the call, because concurrent nodes share the limits.
pub trait Allowance: Sync {
    /// Adds the usage of this node in earlier attempts at the run.
    fn count(&self, usage: StepUsage);

    /// Claims a model call. Returns false when a limit is reached; the node then has to fail.
    fn ask(&self) -> bool;

    /// Claims this number of tool calls: all of them or none. Returns false when a limit is reached.
    fn call(&self, calls: u64) -> bool;
}

/// A tool call.
pub struct ToolStep<'a> {
    pub path: &'a StepPath,
    /// Number of the call in the step, from 0.
    pub number: usize,
    /// Actor that contains the step.
    pub actor: &'a Actor,
    /// Name of the tool.
    pub tool: &'a str,
    /// Rendered arguments.
    pub arguments: Value,
    /// Deadline of the attempt or of the run, whichever comes first.
    pub deadline: Option<Instant>,
    /// Number of the attempt, from 0.
    pub attempt: u32,
    /// Cancellation of the step.
    pub cancel: &'a Cancel,
}

/// Result of a model or tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Text, or JSON when the response format or the tool defines it.
    pub value: Value,
    /// Usage of the call.
    pub usage: StepUsage,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepUsage {
    /// Tokens and cost.
    pub usage: TokenUsage,
    /// Number of model calls.
    pub model_calls: u64,
    /// Number of tool calls.
    pub tool_calls: u64,
}

impl StepUsage {
    /// The sum of two usages.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            usage: self.usage.plus(other.usage),
            model_calls: self.model_calls.saturating_add(other.model_calls),
            tool_calls: self.tool_calls.saturating_add(other.tool_calls),
        }
    }
}

/// Failure of a model or tool call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub kind: FailureKind,
    /// Reason, as a sentence.
    pub message: String,
    /// Usage despite the failure.
    pub usage: StepUsage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// A retry may succeed.
    Failed,
    /// The answer does not have the requested format; a retry may succeed.
    #[serde(rename = "misfit")]
    InvalidFormat,
    /// A retry fails again: refused, wrong arguments, unknown tool.
    Refused,
    /// The call timed out, or the model or tool was temporarily unavailable.
    Timeout,
    /// The call was cancelled on request: the run is cancelled.
    Cancelled,
    /// The user has to act first: the run waits.
    HumanNeeded,
    /// The store or the system failed: the run stops and can be resumed.
    Broken,
}

/// Executes the work of nodes.
///
/// Calls may come from several threads concurrently. A call whose path was started in an earlier attempt at the run
/// resumes where that attempt stopped.
pub trait Executor: Sync {
    fn agent(&self, call: &AgentCall<'_>) -> Result<Answer, Failure>;

    /// Calls a tool.
    fn tool(&self, step: &ToolStep<'_>) -> Result<Answer, Failure>;
}

/// A finished step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    pub path: String,
    /// Kind of its node, as in files.
    pub kind: String,
    /// Updates by key; the reducer of each key merges them into the state.
    pub update: Map<String, Value>,
    /// Next node; `None` at an exit, and for items of maps.
    pub next: Option<String>,
    /// Error message of a failed step, when the run continued with `on_error`.
    pub error: Option<String>,
    /// Usage of the step without nested steps. The sum over all steps is the usage of the run.
    #[serde(rename = "taken")]
    pub usage: StepUsage,
    /// Totals of the nested steps, for subgraphs, maps and parallel nodes.
    #[serde(default, rename = "inside")]
    pub inside: NestedSteps,
    /// Time of the start, in milliseconds since 1970.
    pub started_ms: u64,
    /// Time of the end, in milliseconds since 1970.
    pub ended_ms: u64,
}

/// Totals of the steps inside a subgraph, map or parallel node. A run that reuses such a step counts the nested steps
/// without reading them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NestedSteps {
    /// Number of finished nodes.
    pub steps: u64,
    /// Usage of these nodes and of the items of maps.
    #[serde(rename = "taken")]
    pub usage: StepUsage,
}

/// A step could not be stored.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LogError(pub String);

/// Stores finished steps.
pub trait StepLog: Sync {
    /// Returns the step with this path if an earlier attempt at the run finished it.
    fn recall(&self, path: &StepPath) -> Option<Step>;

    /// Stores a finished step durably before it returns.
    fn record(&self, step: &Step) -> Result<(), LogError>;

    /// Whether steps are stored. If not, the runner need not look them up or build them.
    fn remembers(&self) -> bool {
        true
    }
}

/// Stores nothing, for runs that are never resumed.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoLog;

impl StepLog for NoLog {
    fn recall(&self, _path: &StepPath) -> Option<Step> {
        None
    }

    fn record(&self, _step: &Step) -> Result<(), LogError> {
        Ok(())
    }

    fn remembers(&self) -> bool {
        false
    }
}

/// Observes a run. Called from the thread that executes the step.
pub trait RunObserver: Sync {
    /// A node starts.
    fn started(&self, _path: &StepPath, _kind: &str) {}
    /// A node finished in this attempt or, when `is_recalled`, in an earlier attempt.
    fn finished(&self, _step: &Step, _is_recalled: bool) {}
    /// Whether steps are observed. If not, the runner need not build them.
    fn watches(&self) -> bool {
        true
    }
}

/// Observes nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl RunObserver for NoObserver {
    fn watches(&self) -> bool {
        false
    }
}
