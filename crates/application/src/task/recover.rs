//! Takes over the tasks of dead servers. A server holds a lease while it is alive.

use std::collections::HashMap;
use std::sync::Arc;

use cleveragents_domain::LeaseSubject;
use cleveragents_store::tasks::{self, Task as TaskRecord};

use super::service::TaskService;
use crate::lease::{LeaseError, LeaseService};
use crate::plan::SERVER_LEASE;

impl TaskService {
    /// Takes over the open tasks of dead servers, and returns the tasks that `runner` took over. Each task is taken
    /// over by only one server.
    pub fn take_over_orphans(&self, runner: &str) -> Result<Vec<TaskRecord>, LeaseError> {
        let open = self.engine.read(|reader| tasks::open(reader))?;
        let leases = LeaseService::new(Arc::clone(&self.engine));
        let mut liveness: HashMap<String, bool> = HashMap::new();
        let mut taken_over = Vec::new();
        for task in open {
            let is_alive = if let Some(is_alive) = liveness.get(&task.runner) {
                *is_alive
            } else {
                let subject = LeaseSubject::new(SERVER_LEASE, &task.runner);
                let is_alive = leases.worker(&subject)?.is_some();
                liveness.insert(task.runner.clone(), is_alive);
                is_alive
            };
            if is_alive {
                continue;
            }
            let (id, from, to) = (task.id, task.runner.clone(), runner.to_owned());
            let is_taken_over = self
                .engine
                .write(move |unit| tasks::take_over(unit, id, &from, &to))?;
            if is_taken_over {
                tracing::info!(task = %task.id, from = task.runner, "task of a dead server taken over");
                taken_over.push(task);
            }
        }
        Ok(taken_over)
    }
}
