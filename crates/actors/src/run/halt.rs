//! [`Halt`]: reason why a part of a run stops. The outer parts decide whether the run continues.

use super::cancel_scope::CancelScope;
use super::error::{LimitKind, RunError};
use crate::expression::ExpressionError;
use crate::ports::{Failure, FailureKind, StepUsage};
use crate::state::Mismatch;

#[derive(Debug)]
pub(super) enum Halt {
    /// The scope was cancelled or its deadline passed. The owner of the scope determines the cause.
    Stopped,
    /// The actor at this depth reached one of its limits.
    Limit {
        kind: LimitKind,
        limit: u64,
        depth: u32,
    },
    /// An error of this part of the run.
    Error(RunError),
}

/// The failure as seen by a node with `on_error`, or by a map that keeps failures.
pub(super) struct HandledFailure {
    pub(super) kind: FailureKind,
    pub(super) message: String,
}

impl Halt {
    /// A model or tool call failed.
    pub(super) fn failed(path: &str, failure: Failure, scope: &CancelScope<'_>) -> Self {
        let path = path.to_owned();
        let message = failure.message.clone();
        match failure.kind {
            FailureKind::Cancelled | FailureKind::Timeout if scope.is_over() => Self::Stopped,
            FailureKind::Cancelled => Self::Error(RunError::Cancelled),
            FailureKind::HumanNeeded => Self::Error(RunError::HumanNeeded { path, message }),
            FailureKind::Broken => Self::Error(RunError::Broken { path, message }),
            FailureKind::Failed
            | FailureKind::InvalidFormat
            | FailureKind::Refused
            | FailureKind::Timeout => Self::Error(RunError::Node { path, failure }),
        }
    }

    /// The node itself failed, and a retry would fail again.
    pub(super) fn refused(path: &str, message: String) -> Self {
        Self::node_failure(path, FailureKind::Refused, message)
    }

    /// One attempt at the node timed out.
    pub(super) fn attempt_timed_out(path: &str, message: String) -> Self {
        Self::node_failure(path, FailureKind::Timeout, message)
    }

    fn node_failure(path: &str, kind: FailureKind, message: String) -> Self {
        Self::Error(RunError::Node {
            path: path.to_owned(),
            failure: Failure {
                kind,
                message,
                usage: StepUsage::default(),
            },
        })
    }

    /// An expression of the node cannot be evaluated.
    pub(super) fn expression(path: &str, why: ExpressionError) -> Self {
        Self::Error(RunError::Expression {
            path: path.to_owned(),
            why,
        })
    }

    /// An update cannot be merged into the state.
    pub(super) fn mismatch(path: &str, why: &Mismatch) -> Self {
        Self::refused(path, why.to_string())
    }

    /// The log belongs to another actor.
    pub(super) fn broken(path: &str, message: String) -> Self {
        Self::Error(RunError::Broken {
            path: path.to_owned(),
            message,
        })
    }

    /// Whether a retry may succeed.
    pub(super) const fn is_repeatable(&self) -> bool {
        matches!(
            self,
            Self::Error(RunError::Node { failure, .. })
                if matches!(failure.kind, FailureKind::Failed | FailureKind::InvalidFormat | FailureKind::Timeout)
        )
    }

    /// Converts the halt to a failure that the step with this path, in an actor at this depth, can handle. Returns
    /// `None` when the run cannot continue.
    pub(super) fn handled_failure(&self, path: &str, depth: u32) -> Option<HandledFailure> {
        match self {
            Self::Error(error @ RunError::Node { path: at, failure }) => Some(HandledFailure {
                kind: failure.kind,
                message: if at == path {
                    failure.message.clone()
                } else {
                    error.to_string()
                },
            }),
            Self::Error(
                error @ (RunError::Expression { .. } | RunError::NoMatchingEdge { .. }),
            ) => Some(HandledFailure {
                kind: FailureKind::Refused,
                message: error.to_string(),
            }),
            Self::Limit {
                kind,
                limit,
                depth: owner,
            } if *owner > depth => Some(HandledFailure {
                kind: match kind {
                    LimitKind::Timeout => FailureKind::Timeout,
                    _ => FailureKind::Refused,
                },
                message: RunError::Limit {
                    kind: *kind,
                    limit: *limit,
                }
                .to_string(),
            }),
            _ => None,
        }
    }

    /// Rank of a halt that waits for the user.
    pub(super) const WAITING: u8 = 1;

    /// Precedence among concurrent halts: a halt with a higher rank is more informative.
    pub(super) const fn rank(&self) -> u8 {
        match self {
            Self::Stopped => 0,
            Self::Error(RunError::HumanNeeded { .. }) => Self::WAITING,
            Self::Error(_) | Self::Limit { .. } => 2,
        }
    }
}
