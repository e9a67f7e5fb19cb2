//! Removing checkpoints of a plan.

use cleveragents_domain::{Checkpoint, CheckpointNumber, CheckpointReason, Plan, Ttl};

use super::{BookError, PlanBook, subject};
use crate::lease::LeaseError;

/// What stands before the number of a checkpoint.
const PREFIX: &str = "cp_";

/// A checkpoint as people write it.
pub fn written(number: CheckpointNumber) -> String {
    format!("{PREFIX}{number}")
}

impl PlanBook {
    /// The checkpoint of a plan that is meant: `cp_3`, or `3`, or its label.
    pub fn checkpoint(&self, plan: &Plan, reference: &str) -> Result<Checkpoint, BookError> {
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
            None => Err(BookError::CheckpointNotFound {
                id: plan.id,
                checkpoint: reference.to_owned(),
            }),
        }
    }

    /// Removes checkpoints of a plan on which nobody works, all of them or none, and gives those that
    /// are left. The first, the newest, and those that a rollback can still be taken back to stay.
    pub fn delete_checkpoints(
        &self,
        plan: &Plan,
        references: &[String],
    ) -> Result<Vec<Checkpoint>, BookError> {
        let lease = self
            .leases
            .acquire(subject(plan.id), Ttl::default())
            .map_err(|error| match error {
                LeaseError::Held { owner, .. } => BookError::Busy { id: plan.id, owner },
                other @ LeaseError::Store(_) => other.into(),
            })?;
        // Again, now that nobody else can change it.
        let plan = self.get(plan.id)?;
        let refused = |why: String| {
            Err(BookError::NotReady {
                id: plan.id,
                stage: plan.stage,
                why,
            })
        };
        if plan.stage.is_processing() {
            return refused("it was cut off, and goes on from its checkpoints".to_owned());
        }
        let newest = self.checkpoints(&plan)?.last().map(|last| last.number);
        let mut numbers = Vec::new();
        for reference in references {
            let meant = self.checkpoint(&plan, reference)?;
            let name = written(meant.number);
            match meant.reason {
                CheckpointReason::Created => {
                    return refused(format!("{name} is its beginning, and stays"));
                }
                CheckpointReason::BeforeRollback if !meant.undone => {
                    let why = format!("{name} is what a rollback can be taken back to, and stays");
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
        // They are removed: a lease that cannot be given back ends by itself, and is no reason to say otherwise.
        drop(lease);
        Ok(left)
    }
}
