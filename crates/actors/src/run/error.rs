//! [`RunError`]: reason why a run failed or stopped.

use cleveragents_domain::{Code, Diagnose, Hint, hint};
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
    /// Name of the limit in files.
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
            Self::Depth => "nested subgraphs",
            Self::ModelCalls => "model calls",
            Self::ToolCalls => "tool calls",
            Self::Timeout => "milliseconds",
            Self::Cost => "millionths of a dollar",
        }
    }
}

/// A run failed or stopped. Unless [`would_repeat`](Self::would_repeat) returns true, it can be resumed once the cause
/// is fixed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A node without `on_error` failed.
    #[error("step `{path}` failed: {failure}")]
    Node {
        /// Path of the step.
        path: String,
        /// Failure of the node.
        failure: Failure,
    },
    /// An expression or a template cannot be evaluated.
    #[error("step `{path}`: {why}")]
    Expression {
        /// Path of the step.
        path: String,
        why: ExpressionError,
    },
    /// No edge of a node matches, and the node is not an exit.
    #[error("no edge of step `{path}` matches, and its node is not an exit")]
    NoMatchingEdge {
        /// Path of the step.
        path: String,
    },
    /// The run reached a limit.
    #[error("the run reached its limit of {limit} {} (`{}`)", kind.unit(), kind.key())]
    Limit {
        kind: LimitKind,
        /// Value of the limit, in the unit of the kind.
        limit: u64,
    },
    /// The run was cancelled on request.
    #[error("the run was cancelled")]
    Cancelled,
    /// The user has to act first.
    #[error("step `{path}` waits for the user: {message}")]
    HumanNeeded {
        /// Path of the step.
        path: String,
        /// Request to the user.
        message: String,
    },
    /// A finished step could not be stored.
    #[error("a finished step could not be stored: {0}")]
    Log(#[from] LogError),
    /// The store or the system failed, or the log belongs to another actor.
    #[error("step `{path}` could not continue: {message}")]
    Broken {
        /// Path of the step.
        path: String,
        message: String,
    },
}

impl RunError {
    /// Whether a resumed run would fail in the same way, because it uses the same actor files.
    pub const fn would_repeat(&self) -> bool {
        match self {
            // A resumed run gets a new time limit.
            Self::Limit { kind, .. } => !matches!(kind, LimitKind::Timeout),
            Self::Expression { .. } | Self::NoMatchingEdge { .. } => true,
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
            Self::Node { failure, .. } if failure.kind == FailureKind::InvalidFormat => {
                Code::AnswerMismatch
            }
            Self::Node { .. }
            | Self::Expression { .. }
            | Self::NoMatchingEdge { .. }
            | Self::Log(_)
            | Self::Broken { .. } => Code::RunFailed,
        }
    }

    fn hint(&self) -> Option<Hint> {
        let text = match self {
            Self::Node { failure, .. } if failure.kind == FailureKind::InvalidFormat => {
                "start another run, give the node `retries`, choose a model that supports structured \
                 output, or simplify the schema"
            }
            Self::Node { .. } => {
                "run it again to resume from there, or give the node `retries` or `on_error`"
            }
            Self::Expression { .. } => {
                "correct the expression, or set the key before this node: \
                 `x is defined` and `x | default(…)` handle keys that may be missing"
            }
            Self::NoMatchingEdge { .. } => {
                "give the node an edge without a condition, or name it in `exit_nodes`"
            }
            Self::Limit { kind, .. } => {
                return Some(hint!("raise `{}` if the run needs more", kind.key()));
            }
            Self::Cancelled => "run it again to resume from there",
            Self::HumanNeeded { .. } => "do what the step asks for, then run it again to resume",
            Self::Log(_) | Self::Broken { .. } => {
                "finished steps are stored: run it again when the cause is fixed"
            }
        };
        Some(text.into())
    }

    fn details(&self) -> Value {
        match self {
            Self::Node { path, failure } => json!({"step": path, "kind": failure.kind}),
            Self::Expression { path, .. }
            | Self::NoMatchingEdge { path }
            | Self::HumanNeeded { path, .. }
            | Self::Broken { path, .. } => json!({ "step": path }),
            Self::Limit { kind, limit } => json!({"limit": kind.key(), "allowed": limit}),
            Self::Cancelled | Self::Log(_) => Value::Null,
        }
    }
}
