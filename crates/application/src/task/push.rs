//! Push notifications: the addresses for the updates of a task, and their deliveries. Each update
//! is delivered at least once and in order, by the server that claims it.

use cleveragents_a2a::{ProtocolVersion, PushNotificationConfig, v0_3};
use cleveragents_domain::{TaskId, Timestamp};
use cleveragents_store::pushes::{self, PushConfig};
use cleveragents_store::tasks::{self, Task as TaskRecord};
use cleveragents_store::{Error, UnitOfWork};
use serde_json::{Value, json};

use super::document::{TaskView, document};
use super::error::TaskError;
use super::service::TaskService;

/// Maximum number of addresses that a task is pushed to.
const MAX_CONFIGS: u64 = 16;

/// Duration of a server's claim on a delivery, in seconds.
const CLAIM_SECONDS: i64 = 30;

/// Maximum number of attempts at a delivery. With a first pause of one second, which doubles after each attempt up to
/// [`MAX_PAUSE_SECONDS`], the attempts take about a quarter of an hour.
const MAX_ATTEMPTS: u64 = 12;

/// Maximum pause between two attempts, in seconds.
const MAX_PAUSE_SECONDS: i64 = 120;

/// An address with an update to deliver.
#[derive(Debug, Clone)]
pub struct PendingPush(PushConfig);

impl PendingPush {
    /// Due time of the delivery.
    pub const fn due_at(&self) -> Timestamp {
        self.0.next_at
    }
}

/// An update to deliver, claimed by this server.
#[derive(Debug)]
pub struct PushDelivery {
    /// The address, with its credentials and protocol version.
    pub config: PushNotificationConfig,
    /// The JSON to send.
    pub body: Value,
}

/// Reason of a failed delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushFailure {
    /// The error.
    pub reason: String,
    /// Whether another attempt may succeed.
    pub is_transient: bool,
}

fn read_config(push: &PushConfig) -> Result<PushNotificationConfig, Error> {
    serde_json::from_value(push.config.clone())
        .map_err(|error| Error::stored("the address of a push", error.to_string()))
}

/// Stores an address for the updates of a task from now on.
pub(super) fn store_push_config(
    unit: &mut UnitOfWork<'_>,
    task: &TaskRecord,
    config: &PushNotificationConfig,
) -> Result<(), TaskError> {
    if pushes::set(unit, task, &config.id, &json!(config), MAX_CONFIGS)? {
        return Ok(());
    }
    Err(TaskError::TooManyPushConfigs(MAX_CONFIGS))
}

impl TaskService {
    /// Adds an address for the updates of a task, or replaces the configuration with the same id.
    pub fn add_push_config(
        &self,
        id: TaskId,
        config: PushNotificationConfig,
    ) -> Result<PushNotificationConfig, TaskError> {
        let stored = config.clone();
        self.engine.write(move |unit| {
            // The task is read in this unit of work, so that its next update is the first one to be pushed.
            let task = tasks::get(unit, id)?.ok_or(TaskError::NotFound(id))?;
            store_push_config(unit, &task, &stored)
        })?;
        Ok(config.of_task(id.to_string()))
    }

    /// The push addresses of a task, sorted by id.
    pub fn push_configs(&self, id: TaskId) -> Result<Vec<PushNotificationConfig>, Error> {
        let stored = self.engine.read(|reader| pushes::of_task(reader, id))?;
        stored
            .iter()
            .map(|push| Ok(read_config(push)?.of_task(id.to_string())))
            .collect()
    }

    /// Removes a push address.
    pub fn remove_push_config(&self, id: TaskId, config_id: &str) -> Result<(), Error> {
        let config_id = config_id.to_owned();
        self.engine
            .write(move |unit| pushes::remove(unit, id, &config_id))?;
        Ok(())
    }

    /// Addresses with updates to deliver, sorted by due time.
    pub fn pending_pushes(&self, limit: u64) -> Result<Vec<PendingPush>, Error> {
        let found = self
            .engine
            .read(|reader| pushes::undelivered(reader, limit))?;
        Ok(found.into_iter().map(PendingPush).collect())
    }

    /// Claims the next update for an address; `None` if another server claimed it first. If the claim expires before
    /// the outcome is reported, any server can claim the update again.
    pub fn claim_push(&self, pending: &PendingPush) -> Result<Option<PushDelivery>, Error> {
        let until = Timestamp::now().plus_seconds(CLAIM_SECONDS);
        let claimed = pending.clone();
        if !self
            .engine
            .write(move |unit| pushes::claim(unit, &claimed.0, until))?
        {
            return Ok(None);
        }
        let push = &pending.0;
        let config = read_config(push)?;
        let body = self.engine.read(|reader| {
            if config.version() == ProtocolVersion::V0_3
                && let Some(task) = tasks::get(reader, push.task)?
            {
                let current_task = document(reader, &task, TaskView::WHOLE)?;
                return Ok(Some(v0_3::task_from_v1(&json!(current_task))));
            }
            let updates = tasks::updates(reader, push.task, push.next_number, 1)?;
            Ok::<Option<Value>, Error>(updates.into_iter().next())
        })?;
        Ok(body.map(|body| PushDelivery { config, body }))
    }

    /// Stores the outcome of a delivery: delivered, to be retried, or abandoned.
    pub fn finish_push(
        &self,
        pending: &PendingPush,
        outcome: Result<(), PushFailure>,
    ) -> Result<(), Error> {
        let push = pending.0.clone();
        if let Err(failure) = &outcome {
            tracing::warn!(task = %push.task, attempt = push.attempts + 1, reason = failure.reason, "push failed");
        }
        self.engine.write(move |unit| match &outcome {
            Ok(()) => pushes::advance(unit, &push, push.next_number + 1, None),
            Err(failure) if !failure.is_transient || push.attempts + 1 >= MAX_ATTEMPTS => {
                pushes::advance(unit, &push, push.next_number + 1, Some(&failure.reason))
            }
            Err(failure) => {
                let pause = 1_i64 << push.attempts.min(10);
                let next = unit.now().plus_seconds(pause.min(MAX_PAUSE_SECONDS));
                pushes::failed(unit, &push, next, &failure.reason)
            }
        })?;
        Ok(())
    }
}
