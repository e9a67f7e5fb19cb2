//! `plan/apply`: applies the result of a plan to the user's files.

use std::time::Duration;

use cleveragents_domain::identity::Permission;
use cleveragents_domain::{
    Code, Plan, PlanId, PlanPhase, PlanStage, Timestamp, ValidationResult, hint, suggest,
};
use cleveragents_sandbox::BranchUpdate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::execute::latest_results;
use super::{find_chosen, project_names, requires, run_plan};
use crate::operation::{Operation, OperationContext, OperationError, Requirement, Resolver};
use crate::plan::{DriveOptions, PlanError};
use crate::scheduler::APPLICABLE_STAGES;

/// Applies the result of a plan to the real resources atomically.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyPlan {
    /// Id, prefix of at least 6 characters, or name. Only local callers may leave it out; it
    /// then defaults to the plan of their folder that can be applied.
    #[serde(default)]
    pub reference: Option<String>,
    /// Confirms the apply. Without it the request fails with `CA-0106` and the `plan_id` in its details.
    #[serde(default)]
    pub yes: bool,
    /// Finish a plan that changed nothing.
    #[serde(default)]
    pub allow_empty: bool,
    /// Merge the commit of the plan instead of adding one commit on top of the branch.
    #[serde(default)]
    pub merge: bool,
    /// The message of the commit.
    #[serde(default)]
    pub message: Option<String>,
    /// Commit on a new branch of this name, which starts at the commit from which the sandbox was created. The current
    /// branch and the files stay unchanged.
    #[serde(default)]
    pub branch: Option<String>,
}

/// The response of `plan/apply`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AppliedPlan {
    pub plan_id: PlanId,
    /// The number of changed files.
    pub artifacts: usize,
    pub changes: AppliedLines,
    /// The names of the plan's projects, joined by commas.
    pub project: Option<String>,
    pub applied_at: Option<Timestamp>,
    /// The effect on each resource, such as the commit.
    pub parts: Value,
    /// The new branch with the changes; missing when they were applied to the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    pub validation: AppliedValidation,
    pub sandbox_cleanup: SandboxCleanupReport,
    pub lifecycle: PlanLifecycle,
}

/// Changed lines; `null` when an interrupted apply was recovered.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AppliedLines {
    pub insertions: Option<u64>,
    pub deletions: Option<u64>,
}

/// The validations that the apply relied on.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AppliedValidation {
    pub ran: usize,
    pub passed: usize,
    /// The last result of each validation.
    pub results: Vec<ValidationResult>,
    pub duration_s: f64,
}

/// The state of the sandbox after the apply; `null` when the plan had none.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SandboxCleanupReport {
    pub worktree: Option<String>,
    pub checkpoint: Option<String>,
}

/// Totals of a plan from its creation to its end.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanLifecycle {
    pub phase: PlanPhase,
    pub state: String,
    /// Seconds since the plan was created.
    pub total_duration: f64,
    pub decisions_made: usize,
    /// US dollars; `null` when a model without a known price was called.
    pub total_cost: Option<f64>,
    /// `false` when a model without a known price was called; missing otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_known: Option<bool>,
    /// The cost of the calls whose price is known; missing if all prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_known_part: Option<f64>,
}

impl Operation for ApplyPlan {
    const NAME: &'static str = "plan/apply";
    const SUMMARY: &'static str = "Apply the result of a plan atomically";
    const REQUIREMENT: Requirement = requires(Permission::Write);
    const RUNS_AGENTS: bool = true;
    type Response = AppliedPlan;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.plan_or_only_in(&mut self.reference, &APPLICABLE_STAGES, "to be applied")
    }

    fn run(self, context: &OperationContext) -> Result<AppliedPlan, OperationError> {
        let plan = find_chosen(context, self.reference.as_deref())?;
        require_applicable(&plan)?;
        if !self.yes {
            let message = format!("applying the plan {} was not confirmed", plan.id);
            return Err(OperationError::new(Code::ConfirmationNeeded, message)
                .with_hint("confirm it with `yes`")
                .with_details(json!({"plan_id": plan.id})));
        }
        let options = DriveOptions {
            consent: Some(PlanPhase::Apply),
            landing: if self.merge {
                BranchUpdate::Merge
            } else {
                BranchUpdate::Commit
            },
            message: self.message,
            branch: self.branch,
            allow_empty: self.allow_empty,
            ..DriveOptions::default()
        };
        let plan = run_plan(context, &plan, &options)?;
        require_applied(&plan)?;
        AppliedPlan::new(context, &plan)
    }
}

/// Refuses plans that are not executed yet, or are finished.
fn require_applicable(plan: &Plan) -> Result<(), PlanError> {
    if APPLICABLE_STAGES.contains(&plan.stage) {
        return Ok(());
    }
    let (reason, hint) = if plan.stage.is_terminal() {
        (
            "it is finished",
            hint!("{} lists the other plans", suggest::plan_list()),
        )
    } else {
        (
            "only an executed plan can be applied",
            hint!("execute it first: {}", suggest::plan_execute(plan.id)),
        )
    };
    Err(PlanError::NotReady {
        plan: plan.id,
        stage: plan.stage,
        reason: reason.to_owned(),
        hint,
    })
}

fn require_applied(plan: &Plan) -> Result<(), OperationError> {
    let id = plan.id;
    match plan.stage {
        PlanStage::ApplyApplied => Ok(()),
        // The plan returned to execution, and its result may differ from the confirmed one.
        PlanStage::ExecuteComplete => {
            let message = format!(
                "the apply of the plan {id} was refused; it was executed and validated again, and is not applied yet"
            );
            Err(
                OperationError::new(Code::PlanWaiting, message).with_hint(hint!(
                    "{} shows the result, {} applies it",
                    suggest::plan_diff(id),
                    suggest::plan_apply(id)
                )),
            )
        }
        stage => {
            let message = format!("the plan {id} is {stage}, not applied");
            Err(OperationError::new(Code::PlanFailed, message)
                .with_hint(hint!("{} shows the details", suggest::plan_status(id))))
        }
    }
}

impl AppliedPlan {
    /// The result of the apply, if the plan is applied.
    pub(super) fn find(
        context: &OperationContext,
        plan: &Plan,
    ) -> Result<Option<Box<Self>>, OperationError> {
        if plan.stage != PlanStage::ApplyApplied {
            return Ok(None);
        }
        Ok(Some(Box::new(Self::new(context, plan)?)))
    }

    /// The result of the apply, from stored records.
    fn new(context: &OperationContext, plan: &Plan) -> Result<Self, OperationError> {
        let plans = context.plans();
        let report = plan.report.clone().unwrap_or_default();
        let results = latest_results(context, plan.id)?;
        let duration_ms = results.iter().map(|result| result.duration_ms).sum();
        let sandbox = plans.sandbox(plan)?;
        let state = sandbox.map(|view| view.sandbox.state.as_str().to_owned());
        let end = plan.completed_at.unwrap_or_else(Timestamp::now);
        let is_cost_known = plans.is_cost_known(plan.id)?;
        let cost = plan.usage.cost_micro_usd.as_usd();
        Ok(Self {
            plan_id: plan.id,
            artifacts: report["changed"].as_array().map_or(0, Vec::len),
            changes: AppliedLines {
                insertions: report["insertions"].as_u64(),
                deletions: report["deletions"].as_u64(),
            },
            project: project_names(plan),
            applied_at: plan.completed_at,
            parts: report["parts"].clone(),
            branch: report["branch"].as_str().map(str::to_owned),
            validation: AppliedValidation {
                ran: results.len(),
                passed: results.iter().filter(|result| result.passed).count(),
                results,
                duration_s: Duration::from_millis(duration_ms).as_secs_f64(),
            },
            sandbox_cleanup: SandboxCleanupReport {
                worktree: state.clone(),
                checkpoint: state,
            },
            lifecycle: PlanLifecycle {
                phase: plan.stage.phase(),
                state: plan.stage.state().to_owned(),
                total_duration: end.seconds_since(plan.created_at),
                decisions_made: plans.decisions(plan.id)?.len(),
                total_cost: is_cost_known.then_some(cost),
                cost_known: (!is_cost_known).then_some(false),
                cost_known_part: (!is_cost_known).then_some(cost),
            },
        })
    }
}
