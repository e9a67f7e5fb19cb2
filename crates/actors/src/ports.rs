//! What the runner needs of the rest of the program, as traits: the engine implements them.

use std::time::Instant;

use cleveragents_domain::TokenUsage;
use cleveragents_process::Cancel;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::graph::{Actor, Agent};

/// Where a step is in a run, such as `review#0/parts#2[17]`: the node with the number of the visit, inside
/// the subgraph it belongs to; items of maps in brackets, branches after a colon as in `fan#0:1/check#0`,
/// repeated subgraphs after a tilde as in `part#0~1/check#0`. The same step has the same path in every
/// attempt at a run, whatever ran at the same time.
pub type StepPath = str;

/// A question to a model.
pub struct AgentCall<'a> {
    /// Which step this is.
    pub path: &'a StepPath,
    /// The actor it belongs to.
    pub actor: &'a Actor,
    /// Who is asked.
    pub agent: &'a Agent,
    /// Standing instructions, filled in.
    pub system: Option<String>,
    /// What was said before, oldest first: maps with `role` and `content`.
    pub messages: &'a [Value],
    /// The question.
    pub prompt: String,
    /// Whether the answer is what people wait for, so that it is shown as it comes.
    pub is_streamed: bool,
    /// When the attempt, or the run, has to be over.
    pub deadline: Option<Instant>,
    /// Which attempt this is, from 0.
    pub attempt: u32,
    /// What the limits of the run leave for it.
    pub allowance: &'a dyn Allowance,
    /// What stops it.
    pub cancel: &'a Cancel,
}

/// What the limits of a run leave for a node that asks a model, which may take many questions and calls.
/// Whoever does its work says each of them before it is made; other nodes at work share the limits.
pub trait Allowance: Sync {
    /// Counts what earlier attempts at the run took for this node.
    fn count(&self, taken: Taken);

    /// Claims a question to a model. Where that is refused, the node has to end with a failure.
    fn ask(&self) -> bool;

    /// Claims calls of tools, in the same way: all of them or none.
    fn call(&self, calls: u64) -> bool;
}

/// A call of a tool.
pub struct ToolStep<'a> {
    /// Which step this is.
    pub path: &'a StepPath,
    /// Which call of the step, from 0.
    pub number: usize,
    /// The actor it belongs to.
    pub actor: &'a Actor,
    /// The tool, by name.
    pub tool: &'a str,
    /// Its arguments, filled in.
    pub arguments: Value,
    /// When the attempt, or the run, has to be over.
    pub deadline: Option<Instant>,
    /// Which attempt this is, from 0.
    pub attempt: u32,
    /// What stops it.
    pub cancel: &'a Cancel,
}

/// What came of a question or a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The answer: text, or JSON when a schema or the tool says so.
    pub value: Value,
    /// What it took.
    pub taken: Taken,
}

/// What a step took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// Tokens and money.
    pub usage: TokenUsage,
    /// Questions to models.
    pub model_calls: u64,
    /// Calls of tools.
    pub tool_calls: u64,
}

impl Taken {
    /// The sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            usage: self.usage.plus(other.usage),
            model_calls: self.model_calls.saturating_add(other.model_calls),
            tool_calls: self.tool_calls.saturating_add(other.tool_calls),
        }
    }
}

/// Why a question or a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// How it failed.
    pub kind: FailureKind,
    /// Why, as a sentence.
    pub message: String,
    /// What it took all the same.
    pub taken: Taken,
}

/// How a question or a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// It may succeed another time.
    Failed,
    /// The answer does not have the form that was asked for; another time it may.
    Misfit,
    /// It will fail again: refused, wrong arguments, no such tool.
    Refused,
    /// It took too long, or whoever was asked could not answer at this time.
    Timeout,
    /// It was stopped on request: the run is cancelled.
    Cancelled,
    /// A person is needed: the run waits.
    HumanNeeded,
    /// The store or the system failed: the run stops where it is and can be gone on with.
    Broken,
}

/// Does the work of nodes.
///
/// Calls may come from several threads at a time. A call whose path was begun in an earlier attempt at the
/// run goes on with what that left behind.
pub trait Executor: Sync {
    /// Asks a model.
    fn agent(&self, call: &AgentCall<'_>) -> Result<Answer, Failure>;

    /// Calls a tool.
    fn tool(&self, step: &ToolStep<'_>) -> Result<Answer, Failure>;
}

/// A finished step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Where it is.
    pub path: String,
    /// The kind of its node, as files say it.
    pub kind: String,
    /// What it changes: each key with its update, to be joined by the reducer of the key.
    pub update: Map<String, Value>,
    /// The node that comes next; nothing at an end, and for items of maps.
    pub next: Option<String>,
    /// Why it failed, when it did and the run went on by `on_error`.
    pub error: Option<String>,
    /// What it took by itself: the sum over all steps is what the run took.
    pub taken: Taken,
    /// What was done inside it: of subgraphs, maps and parallel nodes.
    #[serde(default)]
    pub inside: Inside,
    /// When it began, in milliseconds since 1970.
    pub started_ms: u64,
    /// When it ended.
    pub ended_ms: u64,
}

/// What was done inside a step. A run that recalls the step does not look inside, and counts this.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inside {
    /// Finished nodes.
    pub steps: u64,
    /// What they, and items of maps, took.
    pub taken: Taken,
}

/// Why a step could not be written down.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LogError(pub String);

/// Remembers finished steps.
pub trait StepLog: Sync {
    /// What an earlier attempt at the run finished.
    fn recall(&self, path: &StepPath) -> Option<Step>;

    /// Writes a finished step down; when this returns, it is remembered whatever happens.
    fn record(&self, step: &Step) -> Result<(), LogError>;

    /// Whether anything is remembered. Where not, the runner need not ask, nor put steps together.
    fn remembers(&self) -> bool {
        true
    }
}

/// Remembers nothing: for runs that need not survive.
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

/// Who watches a run. Called from the thread that does the step.
pub trait RunObserver: Sync {
    /// A node begins.
    fn started(&self, _path: &StepPath, _kind: &str) {}
    /// A node is finished, now or, when `is_recalled`, in an earlier attempt.
    fn finished(&self, _step: &Step, _is_recalled: bool) {}
    /// Whether anybody looks. Where not, the runner need not put steps together.
    fn watches(&self) -> bool {
        true
    }
}

/// Nobody watches.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl RunObserver for Unwatched {
    fn watches(&self) -> bool {
        false
    }
}
