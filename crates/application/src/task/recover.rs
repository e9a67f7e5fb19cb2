//! Takes over the tasks of dead servers. A server holds a lease while it is alive.

use std::collections::HashMap;
use std::sync::Arc;

use cleveragents_domain::LeaseSubject;
use cleveragents_store::tasks::{self, Task as TaskRecord};

use super::service::TaskService;
use crate::lease::{LeaseError, LeaseService};
use crate::plan::SERVER_LEASE;

impl TaskService {
    /// Takes over the open tasks of dead servers, and returns those that `runner` has now. Each is
    /// taken by one server only.
    pub fn take_over_orphans(&self, runner: &str) -> Result<Vec<TaskRecord>, LeaseError> {
        let open = self.engine.read(|reader| tasks::open(reader))?;
        let leases = LeaseService::new(Arc::clone(&self.engine));
        let mut is_alive: HashMap<String, bool> = HashMap::new();
        let mut taken = Vec::new();
        for task in open {
            let lives = if let Some(lives) = is_alive.get(&task.runner) {
                *lives
            } else {
                let subject = LeaseSubject::new(SERVER_LEASE, &task.runner);
                let lives = leases.worker(&subject)?.is_some();
                is_alive.insert(task.runner.clone(), lives);
                lives
            };
            if lives {
                continue;
            }
            let (id, from, to) = (task.id, task.runner.clone(), runner.to_owned());
            let is_taken = self
                .engine
                .write(move |unit| tasks::take_over(unit, id, &from, &to))?;
            if is_taken {
                tracing::info!(task = %task.id, from = task.runner, "task of a dead server taken over");
                taken.push(task);
            }
        }
        Ok(taken)
    }
}
