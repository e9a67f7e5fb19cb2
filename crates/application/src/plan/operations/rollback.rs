//! `plan/rollback`, `plan/redo` and `plan/revert`.

use cleveragents_domain::identity::Permission;
use cleveragents_domain::{PlanId, PlanPhase, PlanStage, PlanState, REVERSION_LIMIT, Suggestion};
use cleveragents_store::plan_steps::RollbackCounts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{find_plan, next_steps, requires};
use crate::operation::{
    Operation, OperationContext, OperationError, Requirement, Resolver, require_confirmation,
};
use crate::plan::{PlanRolledBack, checkpoint_name};

/// Rolls a plan back to a checkpoint: files, steps, decisions and tool calls together. `plan/redo`
/// undoes the rollback.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RollBackPlan {
    /// Id, prefix of at least 6 characters, or name.
    pub reference: String,
    /// For example `cp_3` or `3`, or a label.
    pub checkpoint: String,
    /// Only report what would be rolled back.
    #[serde(default)]
    pub preview: bool,
    /// Confirms the rollback.
    #[serde(default)]
    pub yes: bool,
}

/// Undoes the last rollback of a plan.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RedoRollback {
    /// Id, prefix of at least 6 characters, or name.
    pub reference: String,
}

/// The response of `plan/rollback` and `plan/redo`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RollbackReport {
    /// `true` when nothing was changed; missing otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<bool>,
    pub rollback_summary: RollbackSummary,
    /// Changed paths, as `part/path`.
    pub changes_reverted: Vec<String>,
    pub impact: RollbackImpact,
    /// Missing in a preview.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_rollback_state: Option<PostRollbackState>,
}

/// The checkpoint of a rollback.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RollbackSummary {
    pub plan: PlanId,
    /// For example `cp_3`; missing when a correction was undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    pub label: Option<String>,
    pub files_reverted: usize,
}

/// The records after the checkpoint, other than files.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RollbackImpact {
    /// The name of the sandbox.
    pub sandbox: Option<String>,
    pub decisions_after_cp: u64,
    pub tool_calls_after_cp: u64,
    pub steps_after_cp: u64,
}

impl RollbackImpact {
    fn new(sandbox: Option<String>, undone: RollbackCounts) -> Self {
        Self {
            sandbox,
            decisions_after_cp: undone.decisions,
            tool_calls_after_cp: undone.calls,
            steps_after_cp: undone.steps,
        }
    }
}

/// A plan after a rollback or redo.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PostRollbackState {
    pub phase: PlanPhase,
    pub state: PlanState,
    pub checkpoints_remaining: usize,
}

impl RollbackReport {
    fn new(
        context: &OperationContext,
        rolled_back: PlanRolledBack,
    ) -> Result<Self, OperationError> {
        let plan = rolled_back.plan;
        let checkpoints_remaining = context.plans().checkpoints(&plan)?.len();
        Ok(Self {
            preview: None,
            rollback_summary: RollbackSummary {
                plan: plan.id,
                checkpoint: rolled_back
                    .checkpoint
                    .as_ref()
                    .map(|checkpoint| checkpoint_name(checkpoint.number)),
                label: rolled_back
                    .checkpoint
                    .and_then(|checkpoint| checkpoint.label),
                files_reverted: rolled_back.paths.len(),
            },
            changes_reverted: rolled_back.paths,
            post_rollback_state: Some(PostRollbackState {
                phase: plan.stage.phase(),
                state: plan.shown_state(),
                checkpoints_remaining,
            }),
            impact: RollbackImpact::new(plan.sandbox, rolled_back.undone),
        })
    }
}

impl Operation for RollBackPlan {
    const NAME: &'static str = "plan/rollback";
    const SUMMARY: &'static str = "Roll a plan back to a checkpoint";
    const REQUIREMENT: Requirement = requires(Permission::Write);
    type Response = RollbackReport;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.plan(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<RollbackReport, OperationError> {
        let plan = find_plan(context, &self.reference)?;
        let control = context.plan_control();
        if self.preview {
            let preview = control.preview_rollback(plan.id, &self.checkpoint)?;
            return Ok(RollbackReport {
                preview: Some(true),
                rollback_summary: RollbackSummary {
                    plan: plan.id,
                    checkpoint: Some(checkpoint_name(preview.checkpoint.number)),
                    label: preview.checkpoint.label,
                    files_reverted: preview.paths.len(),
                },
                changes_reverted: preview.paths,
                impact: RollbackImpact::new(plan.sandbox, preview.undone),
                post_rollback_state: None,
            });
        }
        require_confirmation(self.yes)?;
        RollbackReport::new(context, control.rollback(plan.id, &self.checkpoint)?)
    }
}

impl Operation for RedoRollback {
    const NAME: &'static str = "plan/redo";
    const SUMMARY: &'static str = "Undo the last rollback of a plan";
    const REQUIREMENT: Requirement = requires(Permission::Write);
    type Response = RollbackReport;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.plan(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<RollbackReport, OperationError> {
        let plan = find_plan(context, &self.reference)?;
        RollbackReport::new(context, context.plan_control().redo(plan.id)?)
    }
}

/// Returns a plan to the strategize phase, which makes a new strategy with the results so far.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RevertPlan {
    /// Id, prefix of at least 6 characters, or name.
    pub reference: String,
    /// The phase to return to; only `strategize`.
    #[serde(default = "strategize")]
    pub to_phase: PlanPhase,
    /// The reason, for the strategist and the log.
    #[serde(default = "asked_by_user")]
    pub reason: String,
}

const fn strategize() -> PlanPhase {
    PlanPhase::Strategize
}

fn asked_by_user() -> String {
    "requested by the user".to_owned()
}

/// The response of `plan/revert`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RevertedPlan {
    pub plan_id: PlanId,
    pub from: PlanStage,
    pub to: PlanStage,
    pub reason: String,
    /// The number of the new attempt.
    pub attempt: u64,
    pub reversion_count: u64,
    pub reversions_left: u64,
    /// Operations to run next.
    pub next_steps: Vec<Suggestion>,
}

impl Operation for RevertPlan {
    const NAME: &'static str = "plan/revert";
    const SUMMARY: &'static str = "Return a plan to the strategize phase for a new strategy";
    const REQUIREMENT: Requirement = requires(Permission::Write);
    type Response = RevertedPlan;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.plan(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<RevertedPlan, OperationError> {
        if self.to_phase != PlanPhase::Strategize {
            let message = format!("a plan cannot return to `{}`", self.to_phase);
            return Err(OperationError::usage(message).with_hint("`strategize` is the only phase"));
        }
        let before = find_plan(context, &self.reference)?;
        let plan = context.plan_control().revert(before.id, &self.reason)?;
        Ok(RevertedPlan {
            plan_id: plan.id,
            from: before.stage,
            to: plan.stage,
            reason: self.reason,
            attempt: plan.attempt,
            reversion_count: plan.reversions,
            reversions_left: REVERSION_LIMIT.saturating_sub(plan.reversions),
            next_steps: next_steps(&plan),
        })
    }
}
