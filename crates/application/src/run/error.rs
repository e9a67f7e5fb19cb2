//! Why a run cannot begin, or did not come to its end.

use cleveragents_actors::RunError;
use cleveragents_domain::{Code, Diagnose, RunId};
use serde_json::{Value, json};

use crate::lease::LeaseError;

/// A run that stopped before its end.
#[derive(Debug)]
pub struct StoppedRun {
    /// The run.
    pub run: RunId,
    /// Why.
    pub why: RunError,
}

/// Why a run cannot be had, begun or gone on with.
#[derive(Debug, thiserror::Error)]
pub enum RunServiceError {
    /// There is no such run, or there are several.
    #[error("{} run has an id that begins with `{reference}`", if .candidates.is_empty() { "no" } else { "more than one" })]
    NotFound {
        /// The id as it was given.
        reference: String,
        /// Some that begin with it.
        candidates: Vec<RunId>,
    },
    /// The run came to its end.
    #[error("the run {run} is over: it is {state}")]
    Over {
        /// The run.
        run: RunId,
        /// How it ended.
        state: &'static str,
    },
    /// Somebody else works on it.
    #[error("the run {run} is being worked on by {owner}")]
    Busy {
        /// The run.
        run: RunId,
        /// By whom.
        owner: String,
    },
    /// It stopped before its end.
    #[error("{}", .0.why)]
    Stopped(Box<StoppedRun>),
    /// The replay came to another result.
    #[error("the replay of {run} came to another state than the run: `{key}` differs")]
    ReplayDiffers {
        /// The run.
        run: RunId,
        /// The first key that differs.
        key: String,
    },
    /// The lease failed.
    #[error(transparent)]
    Lease(Box<LeaseError>),
    /// The store failed.
    #[error(transparent)]
    Store(Box<cleveragents_store::Error>),
}

impl From<cleveragents_store::Error> for RunServiceError {
    fn from(error: cleveragents_store::Error) -> Self {
        Self::Store(Box::new(error))
    }
}

impl From<LeaseError> for RunServiceError {
    fn from(error: LeaseError) -> Self {
        Self::Lease(Box::new(error))
    }
}

impl Diagnose for RunServiceError {
    fn code(&self) -> Code {
        match self {
            Self::NotFound { .. } => Code::RunNotFound,
            Self::Over { .. } => Code::RunOver,
            Self::Busy { .. } => Code::RunBusy,
            Self::Stopped(stopped) => stopped.why.code(),
            Self::ReplayDiffers { .. } => Code::ReplayDiffers,
            Self::Lease(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NotFound { .. } => Some(
                "give six or more characters of an id; `agents run list` shows them".to_owned(),
            ),
            Self::Over { run, .. } => Some(format!("`agents run show {run}` shows what it did")),
            Self::Busy { run, .. } => Some(format!(
                "watch it with `agents run show {run}`, or stop it with `agents run cancel {run}`"
            )),
            Self::Stopped(stopped) if stopped.why.would_repeat() => {
                let what = stopped.why.hint().unwrap_or_default();
                Some(format!(
                    "{what}. A run keeps the files it began with: correct the actor and run it anew; \
                     `agents run show {}` shows the steps that were finished",
                    stopped.run
                ))
            }
            Self::Stopped(stopped) if matches!(stopped.why, RunError::HumanNeeded { .. }) => {
                Some(format!(
                    "`agents run show {0}` shows the question; answer it at a terminal with \
                     `agents run resume {0}`, or anywhere with `agents run resume {0} --answer TEXT`",
                    stopped.run
                ))
            }
            Self::Stopped(stopped) => {
                let what = match &stopped.why {
                    RunError::Node { .. } | RunError::Limit { .. } => stopped.why.hint(),
                    _ => None,
                };
                let what = what.map(|what| format!("{what}; ")).unwrap_or_default();
                Some(format!(
                    "{what}finished steps are kept: `agents run show {0}` shows them, \
                     `agents run resume {0}` goes on",
                    stopped.run
                ))
            }
            Self::ReplayDiffers { run, .. } => Some(format!(
                "the actor or the program is not what it was: `agents run show {run}` tells the \
                 hash of the actor's file"
            )),
            Self::Lease(error) => error.hint(),
            Self::Store(error) => error.hint(),
        }
    }

    fn details(&self) -> Value {
        match self {
            Self::NotFound { candidates, .. } => json!({"candidates": candidates}),
            Self::Over { run, state } => json!({"run": run, "state": state}),
            Self::Busy { run, owner } => json!({"run": run, "owner": owner}),
            Self::Stopped(stopped) => {
                let mut details = match stopped.why.details() {
                    Value::Object(fields) => fields,
                    _ => serde_json::Map::new(),
                };
                details.insert("run".to_owned(), json!(stopped.run));
                Value::Object(details)
            }
            Self::ReplayDiffers { run, key } => json!({"run": run, "key": key}),
            Self::Lease(error) => error.details(),
            Self::Store(error) => error.details(),
        }
    }
}
