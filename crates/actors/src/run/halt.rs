//! [`Halt`]: why a part of a run does not go on, before anybody decided what that means for the run.

use super::error::{LimitKind, RunError};
use super::reach::Reach;
use crate::expression::ExpressionError;
use crate::ports::{Failure, FailureKind, Taken};
use crate::state::Mismatch;

/// Why a part of a run does not go on.
#[derive(Debug)]
pub(super) enum Halt {
    /// Somebody above cancelled it, or its time is over: who, is known above.
    Stopped,
    /// The actor at this depth reached a limit of its own.
    Limit {
        kind: LimitKind,
        limit: u64,
        depth: u32,
    },
    /// Something of its own.
    Error(RunError),
}

/// What a node that has `on_error`, or a map that keeps failures, is told.
pub(super) struct Caught {
    pub(super) kind: FailureKind,
    pub(super) message: String,
}

impl Halt {
    /// A question or a call failed.
    pub(super) fn failed(path: &str, failure: Failure, reach: &Reach<'_>) -> Self {
        let path = path.to_owned();
        let message = failure.message.clone();
        match failure.kind {
            FailureKind::Cancelled | FailureKind::Timeout if reach.is_over() => Self::Stopped,
            FailureKind::Cancelled => Self::Error(RunError::Cancelled),
            FailureKind::HumanNeeded => Self::Error(RunError::HumanNeeded { path, message }),
            FailureKind::Broken => Self::Error(RunError::Broken { path, message }),
            FailureKind::Failed
            | FailureKind::Misfit
            | FailureKind::Refused
            | FailureKind::Timeout => Self::Error(RunError::Node { path, failure }),
        }
    }

    /// The node itself failed, and would again.
    pub(super) fn refused(path: &str, message: String) -> Self {
        Self::own(path, FailureKind::Refused, message)
    }

    /// The time of one attempt at the node was over.
    pub(super) fn late(path: &str, message: String) -> Self {
        Self::own(path, FailureKind::Timeout, message)
    }

    fn own(path: &str, kind: FailureKind, message: String) -> Self {
        Self::Error(RunError::Node {
            path: path.to_owned(),
            failure: Failure {
                kind,
                message,
                taken: Taken::default(),
            },
        })
    }

    /// An expression of the node has no value.
    pub(super) fn expression(path: &str, why: ExpressionError) -> Self {
        Self::Error(RunError::Expression {
            path: path.to_owned(),
            why,
        })
    }

    /// An update does not join the state.
    pub(super) fn mismatch(path: &str, why: &Mismatch) -> Self {
        Self::refused(path, why.to_string())
    }

    /// The log is not of this actor.
    pub(super) fn broken(path: &str, message: String) -> Self {
        Self::Error(RunError::Broken {
            path: path.to_owned(),
            message,
        })
    }

    /// Whether another attempt may succeed.
    pub(super) const fn is_repeatable(&self) -> bool {
        matches!(
            self,
            Self::Error(RunError::Node { failure, .. })
                if matches!(failure.kind, FailureKind::Failed | FailureKind::Misfit | FailureKind::Timeout)
        )
    }

    /// What the step with this path, in an actor at this depth, can be told about it; nothing when the
    /// run cannot go on all the same.
    pub(super) fn caught(&self, path: &str, depth: u32) -> Option<Caught> {
        match self {
            Self::Error(error @ RunError::Node { path: at, failure }) => Some(Caught {
                kind: failure.kind,
                message: if at == path {
                    failure.message.clone()
                } else {
                    error.to_string()
                },
            }),
            Self::Error(error @ (RunError::Expression { .. } | RunError::Nowhere { .. })) => {
                Some(Caught {
                    kind: FailureKind::Refused,
                    message: error.to_string(),
                })
            }
            Self::Limit {
                kind,
                limit,
                depth: owner,
            } if *owner > depth => Some(Caught {
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

    /// The rank of what waits for a person.
    pub(super) const WAITING: u8 = 1;

    /// How much it says about why things done at the same time ended: the least first.
    pub(super) const fn rank(&self) -> u8 {
        match self {
            Self::Stopped => 0,
            Self::Error(RunError::HumanNeeded { .. }) => Self::WAITING,
            Self::Error(_) | Self::Limit { .. } => 2,
        }
    }
}
