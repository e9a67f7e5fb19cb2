//! Finds and deletes checkpoints of a plan.

use cleveragents_domain::{Checkpoint, CheckpointNumber, CheckpointReason, Plan, Ttl};

use super::{PlanQueries, PlanQueryError, subject};
use crate::lease::LeaseError;

/// The prefix of the number of a checkpoint.
const PREFIX: &str = "cp_";

/// The name of a checkpoint as shown: `cp_3`.
pub fn checkpoint_name(number: CheckpointNumber) -> String {
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
            .position(|checkpoint| Some(checkpoint.number) == number)
            .or_else(|| {
                let has_label =
                    |checkpoint: &Checkpoint| checkpoint.label.as_deref() == Some(reference);
                all.iter().rposition(has_label)
            });
        match at {
            Some(at) => Ok(all.swap_remove(at)),
            None => Err(PlanQueryError::CheckpointNotFound {
                id: plan.id,
                checkpoint: reference.to_owned(),
            }),
        }
    }

    /// Deletes all of the given checkpoints or none, and returns the remaining checkpoints. Fails if a process works on
    /// the plan. The first checkpoint, the newest one, and those that a redo needs cannot be deleted.
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
        // The plan may have changed before this process held the lease.
        let plan = self.get(plan.id)?;
        let numbers = self.deletable(&plan, references)?;
        let name = plan.sandbox.as_deref().unwrap_or_default();
        let mut open = self.sandboxes.open(name)?;
        self.sandboxes.delete_checkpoints(&mut open, &numbers)?;
        let remaining = open.view.checkpoints.clone();
        drop(open);
        // The checkpoints are deleted. If releasing the lease fails, it expires on its own, so the error is ignored.
        drop(lease);
        Ok(remaining)
    }

    /// The checkpoints that remain if the given ones are deleted. Fails where the deletion would, except that another
    /// process may work on the plan.
    pub fn checkpoints_to_keep(
        &self,
        plan: &Plan,
        references: &[String],
    ) -> Result<Vec<Checkpoint>, PlanQueryError> {
        let numbers = self.deletable(plan, references)?;
        let mut remaining = self.checkpoints(plan)?;
        remaining.retain(|checkpoint| !numbers.contains(&checkpoint.number));
        Ok(remaining)
    }

    /// Numbers of checkpoints, if all of them can be deleted.
    fn deletable(
        &self,
        plan: &Plan,
        references: &[String],
    ) -> Result<Vec<CheckpointNumber>, PlanQueryError> {
        let refusal = |why: String| {
            Err(PlanQueryError::NotReady {
                id: plan.id,
                stage: plan.stage,
                why,
            })
        };
        if plan.stage.is_processing() {
            return refusal("it was interrupted, and resumes from its checkpoints".to_owned());
        }
        let newest = self.checkpoints(plan)?.last().map(|last| last.number);
        let mut numbers = Vec::new();
        for reference in references {
            let checkpoint = self.checkpoint(plan, reference)?;
            let name = checkpoint_name(checkpoint.number);
            match checkpoint.reason {
                CheckpointReason::Created => {
                    return refusal(format!(
                        "{name} is the first checkpoint and cannot be deleted"
                    ));
                }
                CheckpointReason::BeforeRollback if !checkpoint.undone => {
                    let why = format!("{name} is needed to undo a rollback and cannot be deleted");
                    return refusal(why);
                }
                _ if Some(checkpoint.number) == newest => {
                    return refusal(format!(
                        "{name} is the newest checkpoint and cannot be deleted"
                    ));
                }
                _ => numbers.push(checkpoint.number),
            }
        }
        numbers.sort_unstable();
        numbers.dedup();
        Ok(numbers)
    }
}
