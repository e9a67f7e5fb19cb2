//! Tasks that other agents and programs send over A2A. One server at a time works on a task; another server takes the
//! task over if that server dies. Clients read the updates of a task or receive them as push notifications.
//!
//! A task and its updates are stored before any client sees them, so they survive lost connections and dead servers.
//! Messages, artifacts and updates are stored in the JSON of A2A 1.0 (`cleveragents_a2a`).

mod answer;
mod create;
mod document;
mod error;
mod prompt;
mod push;
mod recover;
mod service;
mod turn;

pub use answer::{MessageActor, MessageOutcome, MessageTurn};
pub use cleveragents_store::tasks::{Task as TaskRecord, TaskFilter};
pub use create::{CreatedTask, NewTask, Snapshot, TaskReply};
pub use document::{TaskView, agent_message};
pub use error::TaskError;
pub use prompt::{prompt_text, task_options};
pub use push::{PendingPush, PushDelivery, PushFailure};
pub use service::{ArtifactChunk, TaskPage, TaskService, plan_of_task};
pub use turn::TurnStart;
