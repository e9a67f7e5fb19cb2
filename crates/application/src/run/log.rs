//! [`StoreLog`]: stores finished steps as rows.

use std::collections::HashMap;
use std::sync::Arc;

use cleveragents_actors::StepLog;
use cleveragents_actors::ports::{LogError, Step, StepPath};
use cleveragents_domain::{LeaseSubject, LeaseToken, RunId};
use cleveragents_models::Redactor;
use cleveragents_store::{Engine, Error, leases, runs};
use serde_json::Value;

/// Stores the steps of a run, under the lease of the run.
pub(super) struct StoreLog {
    engine: Arc<Engine>,
    run: RunId,
    fence: (LeaseSubject, LeaseToken),
    redactor: Redactor,
    stored_steps: HashMap<String, Step>,
}

impl StoreLog {
    /// The log of a run, with its stored steps.
    pub(super) fn open(
        engine: Arc<Engine>,
        run: RunId,
        fence: (LeaseSubject, LeaseToken),
        redactor: Redactor,
    ) -> Result<Self, Error> {
        let steps = engine.read(|reader| runs::steps(reader, run))?;
        let stored_steps = steps
            .into_iter()
            .map(|stored| {
                let step = read(&stored)?;
                Ok((step.path.clone(), step))
            })
            .collect::<Result<_, Error>>()?;
        Ok(Self {
            engine,
            run,
            fence,
            redactor,
            stored_steps,
        })
    }
}

/// Parses a stored step.
pub(super) fn read(stored: &runs::StoredStep) -> Result<Step, Error> {
    serde_json::from_value(stored.step.clone())
        .map_err(|error| Error::stored("a step of a run", error.to_string()))
}

impl StepLog for StoreLog {
    fn recall(&self, path: &StepPath) -> Option<Step> {
        self.stored_steps.get(path).cloned()
    }

    fn record(&self, step: &Step) -> Result<(), LogError> {
        let to_json =
            |step: &Step| serde_json::to_string(step).map_err(|error| LogError(error.to_string()));
        let text = match self.redactor.value(&Value::Object(step.update.clone())) {
            Value::Object(update) if update != step.update => to_json(&Step {
                update,
                ..step.clone()
            })?,
            _ => to_json(step)?,
        };
        let (run, fence, path) = (self.run, self.fence.clone(), step.path.clone());
        self.engine
            .write(move |unit| {
                leases::require(unit, &fence.0, fence.1)?;
                runs::add_step(unit, run, &path, &text)
            })
            .map_err(|error: Error| LogError(error.to_string()))
    }
}

/// A read-only log for replays: returns stored steps and records nothing.
pub(super) struct ReplayLog(pub(super) HashMap<String, Step>);

impl StepLog for ReplayLog {
    fn recall(&self, path: &StepPath) -> Option<Step> {
        self.0.get(path).cloned()
    }

    fn record(&self, step: &Step) -> Result<(), LogError> {
        Err(LogError(format!("the run has no step `{}`", step.path)))
    }
}
