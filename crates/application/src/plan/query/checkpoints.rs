//! Deletes checkpoints of a plan.

use cleveragents_domain::{Checkpoint, CheckpointNumber, CheckpointReason, Plan, Ttl};

use super::{PlanQueries, PlanQueryError, subject};
use crate::lease::LeaseError;

/// The prefix of the number of a checkpoint.
const PREFIX: &str = "cp_";

/// The name of a checkpoint as shown: `cp_3`.
pub fn written(number: CheckpointNumber) -> String {
    format!("{PREFIX}{number}")
}

impl PlanQueries {
    /// Finds a checkpoint of a plan by `cp_3`, `3` or its label.
    pub fn checkpoint(&self, plan: &Plan, reference: &str) -> Result<Checkpoint, PlanQueryError> {
        let number = reference
            .strip_prefix(PREFIX)
            .unwrap_or(reference)
            .parse()
            .ok()
            .map(CheckpointNumber);
        let mut all = self.checkpoints(plan)?;
        let at = all
            .iter()
            .position(|one| Some(one.number) == number)
            .or_else(|| {
                let is_called = |one: &Checkpoint| one.label.as_deref() == Some(reference);
                all.iter().rposition(is_called)
            });
        match at {
            Some(at) => Ok(all.swap_remove(at)),
            None => Err(PlanQueryError::CheckpointNotFound {
                id: plan.id,
                checkpoint: reference.to_owned(),
            }),
        }
    }

    /// Deletes checkpoints of a plan that no process works on, all of them or none, and returns the
    /// remaining ones. The first, the newest, and those that a redo needs stay.
    pub fn delete_checkpoints(
        &self,
        plan: &Plan,
        references: &[String],
    ) -> Result<Vec<Checkpoint>, PlanQueryError> {
        let lease = self
            .leases
            .acquire(subject(plan.id), Ttl::default())
            .map_err(|error| match error {
                LeaseError::Held { owner, .. } => PlanQueryError::Busy { id: plan.id, owner },
                other @ LeaseError::Store(_) => other.into(),
            })?;
        // Read again under the lease.
        let plan = self.get(plan.id)?;
        let refused = |why: String| {
            Err(PlanQueryError::NotReady {
                id: plan.id,
                stage: plan.stage,
                why,
            })
        };
        if plan.stage.is_processing() {
            return refused("it was interrupted, and resumes from its checkpoints".to_owned());
        }
        let newest = self.checkpoints(&plan)?.last().map(|last| last.number);
        let mut numbers = Vec::new();
        for reference in references {
            let meant = self.checkpoint(&plan, reference)?;
            let name = written(meant.number);
            match meant.reason {
                CheckpointReason::Created => {
                    return refused(format!("{name} is the first one, and stays"));
                }
                CheckpointReason::BeforeRollback if !meant.undone => {
                    let why = format!("{name} is needed to undo a rollback, and stays");
                    return refused(why);
                }
                _ if Some(meant.number) == newest => {
                    return refused(format!("{name} is the newest one, and stays"));
                }
                _ => numbers.push(meant.number),
            }
        }
        numbers.sort_unstable();
        numbers.dedup();
        let name = plan.sandbox.as_deref().unwrap_or_default();
        let mut open = self.sandboxes.open(name)?;
        self.sandboxes.delete_checkpoints(&mut open, &numbers)?;
        let left = open.view.checkpoints.clone();
        drop(open);
        // The checkpoints are deleted. A lease that cannot be released expires on its own, so its
        // error is ignored.
        drop(lease);
        Ok(left)
    }
}
