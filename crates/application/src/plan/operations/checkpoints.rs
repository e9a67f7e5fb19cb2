//! `plan/checkpoint/list` and `plan/checkpoint/delete`.

use cleveragents_domain::identity::Permission;
use cleveragents_domain::{Checkpoint, CheckpointNumber, CheckpointReason, PlanId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{find_chosen, find_plan, requires};
use crate::operation::{
    Operation, OperationContext, OperationError, Requirement, Resolver, require_confirmation,
};
use crate::plan::checkpoint_name;

/// Lists the checkpoints of a plan, oldest first.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListCheckpoints {
    /// Id, prefix of at least 6 characters, or name. Only local callers may leave it out; it
    /// then defaults to the current plan of their folder.
    #[serde(default)]
    pub reference: Option<String>,
}

/// The response of `plan/checkpoint/list`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointList {
    pub plan_id: PlanId,
    /// The name of the plan's sandbox.
    pub sandbox: Option<String>,
    pub checkpoints: Vec<CheckpointInfo>,
    pub summary: CheckpointListSummary,
}

/// A checkpoint.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointInfo {
    /// For example `cp_3`.
    pub id: String,
    pub number: CheckpointNumber,
    pub label: Option<String>,
    pub reason: CheckpointReason,
    /// Number of changes recorded before the checkpoint.
    pub position: u64,
    pub created: Timestamp,
}

impl From<Checkpoint> for CheckpointInfo {
    fn from(checkpoint: Checkpoint) -> Self {
        Self {
            id: checkpoint_name(checkpoint.number),
            number: checkpoint.number,
            label: checkpoint.label,
            reason: checkpoint.reason,
            position: checkpoint.position,
            created: checkpoint.created_at,
        }
    }
}

/// The number of checkpoints.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointListSummary {
    pub total: usize,
}

impl Operation for ListCheckpoints {
    const NAME: &'static str = "plan/checkpoint/list";
    const SUMMARY: &'static str = "List the checkpoints of a plan";
    const REQUIREMENT: Requirement = requires(Permission::Read);
    type Response = CheckpointList;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.given_or_only_plan(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<CheckpointList, OperationError> {
        let plan = find_chosen(context, self.reference.as_deref())?;
        let checkpoints = context.plans().checkpoints(&plan)?;
        Ok(CheckpointList {
            plan_id: plan.id,
            sandbox: plan.sandbox,
            summary: CheckpointListSummary {
                total: checkpoints.len(),
            },
            checkpoints: checkpoints.into_iter().map(Into::into).collect(),
        })
    }
}

/// Deletes all of the given checkpoints of a plan, or none. Fails while a process works on the plan. The first
/// checkpoint, the newest one, and those that a redo needs cannot be deleted.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteCheckpoints {
    /// Id, prefix of at least 6 characters, or name.
    pub reference: String,
    /// Numbers such as `cp_3` or `3`, or labels.
    pub checkpoints: Vec<String>,
    /// Confirms the deletion, which cannot be undone.
    #[serde(default)]
    pub yes: bool,
    /// Returns what would be removed, and changes nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// The response of `plan/checkpoint/delete`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DeletedCheckpoints {
    pub plan_id: PlanId,
    pub deleted: Vec<String>,
    /// The remaining checkpoints, oldest first.
    pub checkpoints: Vec<CheckpointInfo>,
    pub summary: CheckpointDeletionSummary,
}

/// The result of the deletion.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointDeletionSummary {
    pub deleted: usize,
    pub remaining: usize,
}

impl Operation for DeleteCheckpoints {
    const NAME: &'static str = "plan/checkpoint/delete";
    const SUMMARY: &'static str = "Delete checkpoints of a plan";
    const REQUIREMENT: Requirement = requires(Permission::Manage);
    type Response = DeletedCheckpoints;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.plan(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<DeletedCheckpoints, OperationError> {
        let plan = find_plan(context, &self.reference)?;
        let plans = context.plans();
        let mut deleted = Vec::new();
        for reference in &self.checkpoints {
            let name = checkpoint_name(plans.checkpoint(&plan, reference)?.number);
            if !deleted.contains(&name) {
                deleted.push(name);
            }
        }
        require_confirmation(self.yes)?;
        let remaining = if self.dry_run {
            plans.checkpoints_to_keep(&plan, &deleted)?
        } else {
            plans.delete_checkpoints(&plan, &deleted)?
        };
        Ok(DeletedCheckpoints {
            plan_id: plan.id,
            summary: CheckpointDeletionSummary {
                deleted: deleted.len(),
                remaining: remaining.len(),
            },
            deleted,
            checkpoints: remaining.into_iter().map(Into::into).collect(),
        })
    }
}
