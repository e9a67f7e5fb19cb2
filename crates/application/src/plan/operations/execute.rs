//! `plan/execute`, `plan/resume` and `plan/queue`: run plans.

use cleveragents_domain::identity::Permission;
use cleveragents_domain::{
    DecisionId, DecisionType, InvocationOutcome, Plan, PlanId, PlanPhase, PlanStage, PlanState,
    StepState, Suggestion, Timestamp, Tokens, ValidationMode, ValidationResult, Waiting,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AppliedPlan, StrategyOutline, find_chosen, find_plan, next_steps, requires, run_plan};
use crate::operation::{Operation, OperationContext, OperationError, Requirement, Resolver};
use crate::plan::{DETERMINISTIC, DriveOptions, QueueEntry};
use crate::process::current_owner;
use crate::scheduler::{EXECUTABLE_STAGES, phase_to_execute, phase_to_resume};

/// Runs the next phase of a plan: makes its strategy, or executes an existing strategy. Work completed
/// before a failure or an interruption is kept.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutePlan {
    /// Id, prefix of at least 6 characters, or name. Only local callers may leave it out; it
    /// then defaults to the plan of their folder that can be executed.
    #[serde(default)]
    pub reference: Option<String>,
    /// Retry tool calls whose outcome is unknown.
    #[serde(default)]
    pub redo: bool,
    /// Assume that tool calls whose outcome is unknown were done.
    #[serde(default)]
    pub skip: bool,
}

/// Queues a plan for a worker, which runs its next phase. Only local callers may queue plans,
/// because a worker runs with the configuration of the user of its machine. Remote callers ask the
/// server to run it: `POST /api/v1/plans/ID/execute`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueuePlan {
    /// Id, prefix of at least 6 characters, or name. It may be left out when only one plan can be executed.
    #[serde(default)]
    pub reference: Option<String>,
    /// Retry tool calls whose outcome is unknown.
    #[serde(default)]
    pub redo: bool,
    /// Assume that tool calls whose outcome is unknown were done.
    #[serde(default)]
    pub skip: bool,
}

/// Resumes a plan in the phase in which it stopped.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumePlan {
    /// Id, prefix of at least 6 characters, or name.
    pub reference: String,
    /// Only report where the plan would resume.
    #[serde(default)]
    pub dry_run: bool,
}

/// The response of `plan/queue`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct QueuedPlan {
    pub plan_id: PlanId,
    pub phase: PlanPhase,
    pub state: PlanState,
    pub queued: bool,
    /// True if a worker was started because none was running.
    pub worker_begun: bool,
    /// Operations to run next.
    pub next_steps: Vec<Suggestion>,
}

/// The response of `plan/resume`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("type" = "object"))]
pub enum ResumedPlan {
    /// Without running the plan, because the request sets `dry_run`.
    Preview(ResumePreview),
    Ran(Box<PlanExecution>),
}

/// Position at which a plan would resume.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ResumePreview {
    pub plan_id: PlanId,
    pub phase: PlanPhase,
    pub state: PlanState,
    /// Phase and state, ignoring pending input, such as `execute/processing`.
    pub stage: PlanStage,
    /// True if the plan can be resumed: it is neither applied nor cancelled.
    pub eligible: bool,
    /// The path of the last step, such as `step/3`.
    pub last_step: Option<String>,
    pub last_title: Option<String>,
    pub steps_done: usize,
    pub steps_total: usize,
    pub decision_id: Option<DecisionId>,
    /// Always `true`: nothing was changed.
    pub dry_run: bool,
}

/// The response of `plan/execute` and `plan/resume`: the stored records of a plan that ran.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanExecution {
    pub plan_id: PlanId,
    pub phase: PlanPhase,
    pub state: PlanState,
    /// Phase and state, ignoring pending input, such as `execute/complete`.
    pub stage: PlanStage,
    pub sandbox: ExecutionSandbox,
    /// The process that ran the plan.
    pub worker: String,
    pub started: Option<Timestamp>,
    /// The number of the attempt, from 1; each return to the strategy starts another.
    pub attempt: u64,
    pub strategy_summary: StrategySummary,
    pub progress: Vec<ExecutionProgress>,
    /// The completed steps.
    pub steps: Vec<CompletedStep>,
    /// The last result of each validation.
    pub validations: Vec<ValidationResult>,
    pub waiting: Option<Waiting>,
    /// Missing unless the plan is applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<Box<AppliedPlan>>,
    pub usage: PlanUsage,
    /// True if the plan was already executed, so that this request did nothing.
    pub was_complete: bool,
    /// True for a read-only plan: the summary of its last step is its result.
    pub read_only: bool,
    /// Number of guidance entries that the execution actor cannot read, so that they had no effect; missing
    /// without such entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread_guidance: Option<usize>,
    /// Operations to run next.
    pub next_steps: Vec<Suggestion>,
}

/// The sandbox of a plan that ran. Fields are `null` until it exists.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ExecutionSandbox {
    /// Copy strategy of the first part, such as `git_worktree`.
    pub strategy: Option<String>,
    /// The folder of the first part.
    pub path: Option<String>,
    /// For example `active`.
    pub status: Option<String>,
    pub name: Option<String>,
    pub parts: Vec<SandboxPart>,
}

/// One resource in a sandbox.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SandboxPart {
    pub alias: String,
    pub resource: String,
    pub strategy: String,
    pub path: String,
}

/// The strategy of a plan in numbers.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct StrategySummary {
    /// Number of valid decisions, without superseded and rolled-back ones.
    pub decisions: usize,
    /// Number of valid decisions that enforce an invariant.
    pub invariants: usize,
    /// Number of files that the strategy names; `null` without a strategy.
    pub estimated_files: Option<usize>,
    pub risk: Option<f64>,
    /// Missing until the plan has a strategy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outline: Option<StrategyOutline>,
}

/// The progress of one part of the execution: tool calls, changed files or validations.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ExecutionProgress {
    pub label: String,
    pub status: ExecutionStatus,
    /// Number of successful tool calls, changed files, or validations that ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
}

/// The state of one part of the execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExecutionStatus {
    Pending,
    /// The part has started, and the phase is not finished.
    Partial,
    Done,
    /// The phase is finished, and the part did nothing.
    None,
    Failed,
}

/// A completed step.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CompletedStep {
    /// For example `step/3`, `fix/1/1` or `review/1`.
    pub path: String,
    pub title: String,
    pub summary: Option<String>,
}

/// The model usage of a plan.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanUsage {
    pub input_tokens: Tokens,
    pub output_tokens: Tokens,
    /// US dollars; `null` when a model without a known price was called.
    pub cost_usd: Option<f64>,
    /// `false` when a model without a known price was called; missing otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_known: Option<bool>,
    /// The cost of the calls whose price is known; missing if all prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_known_part: Option<f64>,
}

impl PlanUsage {
    fn new(plan: &Plan, is_cost_known: bool) -> Self {
        let cost = plan.usage.cost_micro_usd.as_usd();
        Self {
            input_tokens: plan.usage.input_tokens,
            output_tokens: plan.usage.output_tokens,
            cost_usd: is_cost_known.then_some(cost),
            cost_known: (!is_cost_known).then_some(false),
            cost_known_part: (!is_cost_known).then_some(cost),
        }
    }
}

impl ExecutionSandbox {
    fn new(context: &OperationContext, plan: &Plan) -> Result<Self, OperationError> {
        let view = context.plans().sandbox(plan)?;
        let members = view
            .iter()
            .flat_map(|view| view.stored.iter().zip(&view.members));
        let parts: Vec<SandboxPart> = members
            .map(|(stored, member)| SandboxPart {
                alias: stored.alias.clone(),
                resource: stored.resource.clone(),
                strategy: stored.strategy.clone(),
                path: member.root.display().to_string(),
            })
            .collect();
        let first = parts.first();
        Ok(Self {
            strategy: first.map(|part| part.strategy.clone()),
            path: first.map(|part| part.path.clone()),
            status: view.map(|view| view.sandbox.state.as_str().to_owned()),
            name: plan.sandbox.clone(),
            parts,
        })
    }
}

impl PlanExecution {
    pub(super) fn new(
        context: &OperationContext,
        plan: Plan,
        was_complete: bool,
    ) -> Result<Self, OperationError> {
        let plans = context.plans();
        let validations = latest_results(context, plan.id)?;
        let steps = plans.steps(plan.id)?;
        let completed = steps
            .into_iter()
            .filter(|step| step.undone_by.is_none() && step.state == StepState::Done)
            .map(|step| CompletedStep {
                path: step.path,
                title: step.title,
                summary: step.summary,
            });
        let sandbox = ExecutionSandbox::new(context, &plan)?;
        let changed = match &sandbox.status {
            Some(_) => plans.recorded_changes(&plan)?.file_count(),
            None => 0,
        };
        let calls = plans.calls(plan.id)?;
        let calls = calls
            .iter()
            .filter(|call| call.outcome == InvocationOutcome::Succeeded)
            .count();
        let guidance = if plan.inputs.actors.execution == DETERMINISTIC {
            plans.pending_guidance(plan.id)?
        } else {
            0
        };
        Ok(Self {
            plan_id: plan.id,
            phase: plan.stage.phase(),
            state: plan.shown_state(),
            stage: plan.stage,
            sandbox,
            worker: current_owner().to_string(),
            started: plan.started_at,
            attempt: plan.attempt,
            strategy_summary: StrategySummary::new(context, &plan)?,
            progress: progress(&plan, calls, changed, &validations),
            steps: completed.collect(),
            validations,
            usage: PlanUsage::new(&plan, plans.is_cost_known(plan.id)?),
            was_complete,
            read_only: plan.inputs.read_only,
            unread_guidance: (guidance > 0).then_some(guidance),
            next_steps: next_steps(&plan),
            applied: AppliedPlan::find(context, &plan)?,
            waiting: plan.waiting,
        })
    }
}

impl StrategySummary {
    fn new(context: &OperationContext, plan: &Plan) -> Result<Self, OperationError> {
        let decisions = context.plans().decisions(plan.id)?;
        let valid = decisions.iter().filter(|decision| decision.holds());
        let enforcing = valid
            .clone()
            .filter(|decision| decision.content.kind == DecisionType::InvariantEnforced);
        let strategy = plan.strategy.as_ref();
        Ok(Self {
            invariants: enforcing.count(),
            decisions: valid.count(),
            estimated_files: strategy.map(|strategy| strategy.files().len()),
            risk: strategy.and_then(|strategy| strategy.risk),
            outline: strategy.map(StrategyOutline::from),
        })
    }
}

/// Derives the progress from records instead of the stage: a phase can be complete without a call or a change.
fn progress(
    plan: &Plan,
    calls: usize,
    changed: usize,
    validations: &[ValidationResult],
) -> Vec<ExecutionProgress> {
    let is_executed =
        plan.stage.phase() > PlanPhase::Execute || plan.stage == PlanStage::ExecuteComplete;
    let amount = |count: usize| match (count, is_executed) {
        (0, true) => ExecutionStatus::None,
        (0, false) => ExecutionStatus::Pending,
        (_, true) => ExecutionStatus::Done,
        (_, false) => ExecutionStatus::Partial,
    };
    let is_blocking =
        |result: &ValidationResult| !result.passed && result.mode == ValidationMode::Required;
    let validated = if validations.iter().any(is_blocking) {
        ExecutionStatus::Failed
    } else {
        amount(validations.len())
    };
    let collected = if plan.strategy.is_some() {
        ExecutionStatus::Done
    } else {
        ExecutionStatus::Pending
    };
    [
        ("Collect context", collected, None),
        ("Run tools", amount(calls), Some(calls)),
        ("Build changeset", amount(changed), Some(changed)),
        ("Validate", validated, Some(validations.len())),
    ]
    .map(|(label, status, count)| ExecutionProgress {
        label: label.to_owned(),
        status,
        count,
    })
    .to_vec()
}

/// The last result of each validation. Earlier results concern earlier states of the sandbox.
pub(super) fn latest_results(
    context: &OperationContext,
    plan: PlanId,
) -> Result<Vec<ValidationResult>, OperationError> {
    let mut last: Vec<ValidationResult> = Vec::new();
    for stored in context.plans().validations(plan)? {
        let result = stored.result;
        last.retain(|known| {
            known.attachment_id != result.attachment_id || known.validation != result.validation
        });
        last.push(result);
    }
    Ok(last)
}

/// Creates a queue entry. Refuses `redo` together with `skip`.
fn queue_entry(redo: bool, skip: bool) -> Result<QueueEntry, OperationError> {
    if redo && skip {
        return Err(OperationError::usage(
            "`redo` and `skip` contradict each other",
        ));
    }
    Ok(QueueEntry {
        redo,
        skip,
        served: None,
    })
}

impl Operation for ExecutePlan {
    const NAME: &'static str = "plan/execute";
    const SUMMARY: &'static str = "Run the next phase of a plan";
    const REQUIREMENT: Requirement = requires(Permission::Write);
    const RUNS_AGENTS: bool = true;
    type Response = PlanExecution;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.plan_or_only_in(&mut self.reference, &EXECUTABLE_STAGES, "to be executed")
    }

    fn run(self, context: &OperationContext) -> Result<PlanExecution, OperationError> {
        let plan = find_chosen(context, self.reference.as_deref())?;
        let options = DriveOptions {
            consent: Some(phase_to_execute(&plan)),
            unknown_outcome: queue_entry(self.redo, self.skip)?.unknown_outcome(),
            ..DriveOptions::default()
        };
        let plans = context.plans();
        let (stage, work) = (plan.stage, plans.recorded_work(plan.id)?);
        let plan = run_plan(context, &plan, &options)?;
        let was_complete = stage == PlanStage::ExecuteComplete
            && plan.stage == stage
            && work == plans.recorded_work(plan.id)?;
        PlanExecution::new(context, plan, was_complete)
    }
}

impl Operation for QueuePlan {
    const NAME: &'static str = "plan/queue";
    const SUMMARY: &'static str = "Queue a plan for a worker";
    const REQUIREMENT: Requirement = requires(Permission::Write);
    type Response = QueuedPlan;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.local_only("plan/queue")?;
        resolver.plan_or_only_in(&mut self.reference, &EXECUTABLE_STAGES, "to be executed")
    }

    fn run(self, context: &OperationContext) -> Result<QueuedPlan, OperationError> {
        let plan = find_chosen(context, self.reference.as_deref())?;
        let entry = queue_entry(self.redo, self.skip)?;
        let plan = context.plan_control().queue(plan.id, &entry)?;
        let worker_begun = context.start_worker()?;
        Ok(QueuedPlan {
            plan_id: plan.id,
            phase: plan.stage.phase(),
            state: plan.shown_state(),
            queued: true,
            worker_begun,
            next_steps: next_steps(&plan),
        })
    }
}

impl Operation for ResumePlan {
    const NAME: &'static str = "plan/resume";
    const SUMMARY: &'static str = "Resume a plan in the phase in which it stopped";
    const REQUIREMENT: Requirement = requires(Permission::Write);
    const RUNS_AGENTS: bool = true;
    type Response = ResumedPlan;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.plan(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<ResumedPlan, OperationError> {
        let plan = find_plan(context, &self.reference)?;
        if self.dry_run {
            return Ok(ResumedPlan::Preview(ResumePreview::new(context, &plan)?));
        }
        let options = DriveOptions {
            consent: Some(phase_to_resume(&plan)),
            ..DriveOptions::default()
        };
        let plan = run_plan(context, &plan, &options)?;
        let execution = PlanExecution::new(context, plan, false)?;
        Ok(ResumedPlan::Ran(Box::new(execution)))
    }
}

impl ResumePreview {
    fn new(context: &OperationContext, plan: &Plan) -> Result<Self, OperationError> {
        let steps = context.plans().steps(plan.id)?;
        let last = steps.iter().rev().find(|step| step.undone_by.is_none());
        let done = steps
            .iter()
            .filter(|step| step.undone_by.is_none() && step.state == StepState::Done)
            .filter(|step| step.path.starts_with("step/"));
        let strategy = plan.strategy.as_ref();
        Ok(Self {
            plan_id: plan.id,
            phase: plan.stage.phase(),
            state: plan.shown_state(),
            stage: plan.stage,
            eligible: !plan.stage.is_terminal(),
            last_step: last.map(|step| step.path.clone()),
            last_title: last.map(|step| step.title.clone()),
            steps_done: done.count(),
            steps_total: strategy.map_or(0, |strategy| strategy.steps.len()),
            decision_id: last.and_then(|step| step.decision),
            dry_run: true,
        })
    }
}
