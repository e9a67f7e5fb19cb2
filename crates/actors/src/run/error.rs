//! [`RunError`]: why a run came to no end.

use cleveragents_domain::{Code, Diagnose};
use serde_json::{Value, json};

use crate::expression::ExpressionError;
use crate::ports::{Failure, FailureKind, LogError};

/// A limit of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LimitKind {
    /// `max_steps`.
    Steps,
    /// `max_depth`.
    Depth,
    /// `max_model_calls`.
    ModelCalls,
    /// `max_tool_calls`.
    ToolCalls,
    /// `timeout`, in milliseconds.
    Timeout,
    /// `max_cost`, in millionths of a dollar.
    Cost,
}

impl LimitKind {
    /// The limit as files name it.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Steps => "max_steps",
            Self::Depth => "max_depth",
            Self::ModelCalls => "max_model_calls",
            Self::ToolCalls => "max_tool_calls",
            Self::Timeout => "timeout",
            Self::Cost => "max_cost",
        }
    }

    const fn unit(self) -> &'static str {
        match self {
            Self::Steps => "finished nodes",
            Self::Depth => "subgraphs inside each other",
            Self::ModelCalls => "questions to models",
            Self::ToolCalls => "calls of tools",
            Self::Timeout => "milliseconds",
            Self::Cost => "millionths of a dollar",
        }
    }
}

/// Why a run came to no end. All but the first four can be gone on with by running again once the reason
/// is gone.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A node failed, and has no `on_error`.
    #[error("step `{path}` failed: {failure}")]
    Node {
        /// Which step.
        path: String,
        /// Why.
        failure: Failure,
    },
    /// An expression or a template has no value.
    #[error("step `{path}`: {why}")]
    Expression {
        /// Which step.
        path: String,
        /// Why.
        why: ExpressionError,
    },
    /// No edge of a node matches, and it is no exit.
    #[error("no edge leads on from step `{path}`, and its node is no exit")]
    Nowhere {
        /// Which step.
        path: String,
    },
    /// The run reached a limit.
    #[error("the run reached its limit of {limit} {} (`{}`)", kind.unit(), kind.key())]
    Limit {
        /// Which limit.
        kind: LimitKind,
        /// How much it allows, in the unit of the kind.
        limit: u64,
    },
    /// The run was stopped on request.
    #[error("the run was stopped")]
    Cancelled,
    /// A person has to do something first.
    #[error("step `{path}` waits for a person: {message}")]
    HumanNeeded {
        /// Which step.
        path: String,
        /// What is asked for.
        message: String,
    },
    /// A finished step could not be written down.
    #[error("a finished step could not be written down: {0}")]
    Log(#[from] LogError),
    /// The store or the system failed, or the log is not of this actor.
    #[error("step `{path}` could not go on: {message}")]
    Broken {
        /// Which step.
        path: String,
        /// Why.
        message: String,
    },
}

impl RunError {
    /// Whether going on with the run, which keeps the files it began with, would come to the same.
    pub const fn would_repeat(&self) -> bool {
        match self {
            // The time begins anew.
            Self::Limit { kind, .. } => !matches!(kind, LimitKind::Timeout),
            Self::Expression { .. } | Self::Nowhere { .. } => true,
            Self::Node { .. }
            | Self::Cancelled
            | Self::HumanNeeded { .. }
            | Self::Log(_)
            | Self::Broken { .. } => false,
        }
    }
}

impl Diagnose for RunError {
    fn code(&self) -> Code {
        match self {
            Self::Limit { .. } => Code::RunLimit,
            Self::Cancelled => Code::RunCancelled,
            Self::HumanNeeded { .. } => Code::RunWaiting,
            Self::Node { failure, .. } if failure.kind == FailureKind::Misfit => {
                Code::AnswerMismatch
            }
            Self::Node { .. }
            | Self::Expression { .. }
            | Self::Nowhere { .. }
            | Self::Log(_)
            | Self::Broken { .. } => Code::RunFailed,
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Node { failure, .. } if failure.kind == FailureKind::Misfit => {
                "begin another run, give the node `retries`, choose a model that can be bound to a \
                 schema, or make the schema simpler"
            }
            Self::Node { .. } => {
                "run it again to go on from there, or give the node `retries` or `on_error`"
            }
            Self::Expression { .. } => {
                "correct the expression, or set the key before this node: \
                 `x is defined` and `x | default(…)` speak about keys that may be missing"
            }
            Self::Nowhere { .. } => {
                "give the node an edge without a condition, or name it in `exit_nodes`"
            }
            Self::Limit { kind, .. } => {
                return Some(format!("raise `{}` if the run is right", kind.key()));
            }
            Self::Cancelled => "run it again to go on from there",
            Self::HumanNeeded { .. } => "do what is asked for, then run it again to go on",
            Self::Log(_) | Self::Broken { .. } => {
                "finished steps are kept: run it again once the cause is gone"
            }
        };
        Some(hint.to_owned())
    }

    fn details(&self) -> Value {
        match self {
            Self::Node { path, failure } => json!({"step": path, "kind": failure.kind}),
            Self::Expression { path, .. }
            | Self::Nowhere { path }
            | Self::HumanNeeded { path, .. }
            | Self::Broken { path, .. } => json!({ "step": path }),
            Self::Limit { kind, limit } => json!({"limit": kind.key(), "allowed": limit}),
            Self::Cancelled | Self::Log(_) => Value::Null,
        }
    }
}
