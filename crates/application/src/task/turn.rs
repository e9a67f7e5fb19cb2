//! Starts the turn of a task: from its beginning, or where a dead server left it.

use cleveragents_a2a::Message;
use cleveragents_domain::{Role, Sequence, SessionId};
use cleveragents_store::tasks::{self, Task as TaskRecord};
use cleveragents_store::{Error, messages, sessions, turns};
use serde_json::Value;

use super::service::TaskService;

/// Starting point of the turn of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnStart {
    /// The turn starts from its beginning.
    New,
    /// The turn was interrupted and is resumed.
    Resume,
    /// The turn is complete with this answer, but the task does not have the answer yet.
    Answered(String),
}

impl TaskService {
    /// Determines where the turn of a task starts, and stores that `runner` starts it. If `is_new` is set, no server
    /// has worked on the task before, so no earlier attempt is looked up.
    pub fn begin_turn(
        &self,
        task: &TaskRecord,
        runner: &str,
        session: SessionId,
        is_new: bool,
    ) -> Result<TurnStart, Error> {
        let (count, is_running, requests) = self.engine.read(|reader| {
            let found = sessions::get(reader, session)?;
            let running = turns::running(reader, session)?;
            let requests = tasks::messages::<Message>(reader, task.id, None)?.len() as u64;
            let count = found.map_or(0, |found| found.message_count);
            Ok::<_, Error>((count, running.is_some(), requests))
        })?;
        let stored = |name: &str| task.metadata.get(name).and_then(Value::as_u64);
        // An earlier attempt processed the same message of the client.
        let is_retry = !is_new && stored("messages") == Some(requests);
        if is_retry && is_running {
            return Ok(TurnStart::Resume);
        }
        if is_retry && stored("begun_at").is_some_and(|start| count > start) {
            return self.last_answer(session, count);
        }
        let mut metadata = task.metadata.clone();
        metadata["begun_at"] = count.into();
        metadata["messages"] = requests.into();
        let (id, runner, subject) = (task.id, runner.to_owned(), task.subject.clone());
        self.engine
            .write(move |unit| tasks::set_subject(unit, id, &runner, &subject, &metadata))?;
        Ok(TurnStart::New)
    }

    fn last_answer(&self, session: SessionId, count: u64) -> Result<TurnStart, Error> {
        let last = Sequence(count.saturating_sub(1));
        let last = self
            .engine
            .read(|reader| messages::page(reader, session, last, 1))?;
        Ok(match last.into_iter().next() {
            Some(last) if last.role == Role::Assistant => TurnStart::Answered(last.content),
            // The question is stored, but the turn failed. The question is not asked again.
            _ => TurnStart::Resume,
        })
    }
}
