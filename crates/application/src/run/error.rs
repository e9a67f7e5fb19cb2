//! Errors that prevent a run from starting or finishing.

use cleveragents_actors::RunError;
use cleveragents_domain::{Code, Diagnose, Hint, Placeholder, RunId, hint, suggest};
use serde_json::{Value, json};

use crate::lease::LeaseError;

/// A run that stopped before it finished.
#[derive(Debug)]
pub struct StoppedRun {
    pub run: RunId,
    /// The reason why the run stopped.
    pub why: RunError,
}

/// Errors of looking up, starting, resuming, cancelling and replaying a run.
#[derive(Debug, thiserror::Error)]
pub enum RunServiceError {
    /// No run, or more than one run, has an id with this prefix.
    #[error("{} run has an id that begins with `{reference}`", if .candidates.is_empty() { "no" } else { "more than one" })]
    NotFound {
        /// The given id or prefix.
        reference: String,
        /// Some runs with this prefix.
        candidates: Vec<RunId>,
    },
    /// The run is finished.
    #[error("the run {run} has ended: it is {state}")]
    Over {
        run: RunId,
        /// The final state of the run.
        state: &'static str,
    },
    /// Another process executes the run.
    #[error("the run {run} is in use by {owner}")]
    Busy {
        run: RunId,
        /// The process that executes the run.
        owner: String,
    },
    /// The run stopped before it finished.
    #[error("{}", .0.why)]
    Stopped(Box<StoppedRun>),
    /// The replay ended in another state.
    #[error("the replay of {run} ended in another state than the run: `{key}` differs")]
    ReplayDiffers {
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

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::NotFound { .. } => Some(hint!(
                "give six or more characters of an id; {} shows them",
                suggest::run_list()
            )),
            Self::Over { run, .. } => Some(hint!("{} shows what it did", suggest::run_show(run))),
            Self::Busy { run, .. } => Some(hint!(
                "watch it with {}, or stop it with {}",
                suggest::run_show(run),
                suggest::run_cancel(run)
            )),
            Self::Stopped(stopped) if stopped.why.would_repeat() => {
                let cause_hint = stopped.why.hint().unwrap_or_default();
                Some(hint!(
                    "{}. A run keeps the files it started with: correct the actor and start a new \
                     run; {} shows the steps that were finished",
                    cause_hint,
                    suggest::run_show(stopped.run)
                ))
            }
            Self::Stopped(stopped) if matches!(stopped.why, RunError::HumanNeeded { .. }) => {
                Some(hint!(
                    "{} shows the question; answer it at a terminal with {}, or anywhere with {}",
                    suggest::run_show(stopped.run),
                    suggest::run_resume(stopped.run),
                    suggest::run_resume_with_answer(stopped.run, Placeholder("TEXT"))
                ))
            }
            Self::Stopped(stopped) => {
                let cause_hint = match &stopped.why {
                    RunError::Node { .. } | RunError::Limit { .. } => stopped.why.hint(),
                    _ => None,
                };
                let cause_hint = cause_hint
                    .map(|cause_hint| hint!("{}; ", cause_hint))
                    .unwrap_or_default();
                Some(hint!(
                    "{}finished steps are kept: {} shows them, {} resumes the run",
                    cause_hint,
                    suggest::run_show(stopped.run),
                    suggest::run_resume(stopped.run)
                ))
            }
            Self::ReplayDiffers { run, .. } => Some(hint!(
                "the actor or the program has changed since the run: {} shows the hash of the \
                 actor's file",
                suggest::run_show(run)
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
