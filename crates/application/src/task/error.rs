//! [`TaskError`]: errors of requests to tasks.

use cleveragents_domain::TaskId;
use cleveragents_store::Error;

/// Errors of requests to a task.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The task does not exist.
    #[error("the task `{0}` does not exist")]
    NotFound(TaskId),
    /// The task is in a final state.
    #[error("the task is finished")]
    Over,
    /// A server works on the task, so it is not waiting for input.
    #[error("a server is working on the task")]
    Busy,
    /// The task has the maximum number of push addresses.
    #[error("a task can be pushed to at most {0} addresses")]
    TooManyPushConfigs(u64),
    /// Another process created the context of the task at the same time, twice in a row.
    #[error("the context is being created")]
    ContextBusy,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] Error),
}
