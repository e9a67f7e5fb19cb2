//! `plan/status` and `plan/wait`.

use cleveragents_domain::identity::Permission;
use cleveragents_domain::{
    Code, Owner, Plan, PlanId, PlanPhase, PlanStage, PlanState, Suggestion, Timestamp, Tokens,
    Waiting, hint, suggest,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{clock, find_chosen, project_names, requires, task_line};
use crate::operation::{Operation, OperationContext, OperationError, Requirement, Resolver};
use crate::plan::{FailedCheck, PlanStatus, ProgressState, UndoneApply};

/// Shows the progress of a plan, its usage and what it waits for.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowPlanStatus {
    /// Id, prefix of at least 6 characters, or name. Only local callers may leave it out; it
    /// then defaults to the current plan of their folder.
    #[serde(default)]
    pub reference: Option<String>,
}

/// The response of `plan/status` and `plan/wait`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanStatusReport {
    pub plan_id: PlanId,
    pub name: Option<String>,
    pub phase: PlanPhase,
    pub state: PlanState,
    /// Phase and state, ignoring pending input, such as `execute/complete`.
    pub stage: PlanStage,
    pub action: String,
    /// The first line of the task.
    #[serde(default)]
    pub task: String,
    /// The names of the plan's projects, joined by commas.
    pub project: Option<String>,
    /// The name of the plan's automation profile.
    pub automation: String,
    /// The number of the attempt, from 1; each return to the strategy starts another.
    pub attempt: u64,
    /// The number of returns to the strategy.
    pub reversions: u64,
    /// The process that works on the plan.
    pub owner: Option<Owner>,
    /// True if a process stopped before it finished the current phase.
    pub is_interrupted: bool,
    /// True if the plan is applied or cancelled.
    pub is_terminal: bool,
    pub progress: Vec<PhaseStatus>,
    pub steps: StepProgress,
    pub timing: PlanTiming,
    pub execution: ExecutionInfo,
    pub cost: PlanCost,
    pub waiting: Option<WaitingInfo>,
    /// The result of the apply.
    pub report: Option<Value>,
    /// The undo of the apply: the plan stays applied, and its changes are reverted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone: Option<UndoneApply>,
    /// The validations whose last result did not pass.
    pub failed_checks: Vec<FailedCheck>,
    /// Operations to run next, the most useful first.
    pub next_steps: Vec<Suggestion>,
    /// Reason of a failure, or of a blocked apply: `message`, `tool`, `step`, `checkpoint`, `recoverable`,
    /// `recovery` (operations), and other known facts. Missing for other plans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Map<String, Value>>,
}

/// The progress of one phase.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PhaseStatus {
    /// The phase with a capital letter.
    pub step: String,
    pub status: ProgressState,
}

/// The number of completed steps of the strategy.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct StepProgress {
    pub done: usize,
    pub total: usize,
    pub current: Option<CurrentStep>,
}

/// The step that runs, or that waits for input.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CurrentStep {
    /// For example `step/3`, `fix/1` or `review/1`.
    pub path: String,
    pub title: String,
    pub started: Timestamp,
}

/// Start, end and duration of the work on a plan.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanTiming {
    pub started: Option<Timestamp>,
    /// Time from the start of the plan to its end, or until now, as `HH:MM:SS`.
    pub elapsed: Option<String>,
    /// The elapsed time in seconds.
    pub elapsed_s: Option<f64>,
    /// Estimated time for the remaining steps, as `HH:MM:SS`.
    pub eta: Option<String>,
    /// The estimated time in seconds.
    pub eta_s: Option<f64>,
    pub finished: Option<Timestamp>,
}

/// The records of a plan so far.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ExecutionInfo {
    /// The name of the plan's sandbox.
    pub sandbox: Option<String>,
    pub tool_calls: u64,
    /// Files that are recorded as changed; `null` without a sandbox.
    pub files_modified: Option<usize>,
    /// For example `1/2 complete`; `null` without child plans.
    pub child_plans: Option<String>,
    pub checkpoints: usize,
}

/// The model usage of a plan.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanCost {
    pub tokens_used: u64,
    pub input_tokens: Tokens,
    pub output_tokens: Tokens,
    /// US dollars; `null` when a model without a known price was called.
    pub cost_so_far: Option<f64>,
    /// The cost estimate of the estimation actor in its own form: a number, a range or a text.
    pub estimated: Value,
    pub model_calls: u64,
    /// `false` when a model without a known price was called; missing otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_known: Option<bool>,
    /// The cost of the calls whose price is known; missing if all prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_known_part: Option<f64>,
}

/// The input that a plan waits for.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct WaitingInfo {
    #[serde(rename = "for")]
    pub sentence: String,
    pub request: Waiting,
}

impl Operation for ShowPlanStatus {
    const NAME: &'static str = "plan/status";
    const SUMMARY: &'static str = "Show the progress of a plan, its usage and what it waits for";
    const REQUIREMENT: Requirement = requires(Permission::Read);
    type Response = PlanStatusReport;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.given_or_only_plan(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<PlanStatusReport, OperationError> {
        let plan = find_chosen(context, self.reference.as_deref())?;
        Ok(context.plans().status(plan)?.into())
    }
}

/// Shows the status of a plan that has stopped: it is finished, failed, cannot be applied or waits
/// for input. Fails with `CA-1142` and the `stage` in its details while the plan runs; callers
/// repeat the request until the plan stops.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AwaitPlan {
    /// Id, prefix of at least 6 characters, or name. Only local callers may leave it out; it
    /// then defaults to the current plan of their folder.
    #[serde(default)]
    pub reference: Option<String>,
}

impl AwaitPlan {
    /// The error for a plan that still runs after this number of seconds.
    pub fn still_running(plan: &str, stage: &str, seconds: u64) -> OperationError {
        let message = format!("plan {plan} is still {stage} after {seconds} s");
        OperationError::new(Code::PlanNotReady, message)
            .with_hint(hint!("show its status: {}", suggest::plan_status(plan)))
            .with_details(json!({"plan_id": plan, "stage": stage}))
    }
}

impl Operation for AwaitPlan {
    const NAME: &'static str = "plan/wait";
    const SUMMARY: &'static str = "Show the status of a plan once it has stopped";
    const REQUIREMENT: Requirement = requires(Permission::Read);
    type Response = PlanStatusReport;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.given_or_only_plan(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<PlanStatusReport, OperationError> {
        let plan = find_chosen(context, self.reference.as_deref())?;
        let plans = context.plans();
        if has_stopped(&plan) {
            return Ok(plans.status(plan)?.into());
        }
        let is_idle = plan.queued_for.is_none() && plans.owner(plan.id)?.is_none();
        let (id, stage) = (plan.id.to_string(), plan.stage.to_string());
        Err(Self::still_running(&id, &stage, 0).with_details(json!({
            "plan_id": id, "stage": stage, "is_idle": is_idle,
        })))
    }
}

/// True if a plan does not continue without a user.
const fn has_stopped(plan: &Plan) -> bool {
    plan.stage.is_terminal()
        || plan.stage.is_errored()
        || plan.waiting.is_some()
        || matches!(plan.stage, PlanStage::ApplyConstrained)
}

impl From<PlanStatus> for PlanStatusReport {
    fn from(status: PlanStatus) -> Self {
        let (is_interrupted, current) = (
            status.is_interrupted(),
            status.current_step().map(|step| CurrentStep {
                path: step.path.clone(),
                title: step.title.clone(),
                started: step.started_at,
            }),
        );
        let plan = status.plan;
        let undone = UndoneApply::of_plan(&plan);
        let usage = plan.usage;
        let is_failure =
            plan.stage.is_errored() || matches!(plan.stage, PlanStage::ApplyConstrained);
        let error = plan.error.as_ref().filter(|_| is_failure);
        let error = error.map(|error| described_error(error, &status.next));
        let (finished, children) = status.children;
        let (cost, is_known) = (usage.cost_micro_usd.as_usd(), status.is_cost_known);
        Self {
            plan_id: plan.id,
            phase: plan.stage.phase(),
            state: plan.shown_state(),
            stage: plan.stage,
            project: project_names(&plan),
            task: task_line(&plan),
            name: plan.name,
            action: plan.action,
            automation: plan.inputs.profile.name,
            attempt: plan.attempt,
            reversions: plan.reversions,
            owner: status.owner.map(|lease| lease.owner),
            is_interrupted,
            is_terminal: plan.stage.is_terminal(),
            progress: status.progress.map(PhaseStatus::from).to_vec(),
            steps: StepProgress {
                done: status.steps_done,
                total: status.steps_total,
                current,
            },
            timing: PlanTiming {
                started: plan.started_at,
                elapsed: status.elapsed.map(clock),
                elapsed_s: status.elapsed,
                eta: status.eta.map(clock),
                eta_s: status.eta,
                finished: plan.completed_at,
            },
            execution: ExecutionInfo {
                sandbox: plan.sandbox,
                tool_calls: plan.tool_calls,
                files_modified: status.files,
                child_plans: (children > 0).then(|| format!("{finished}/{children} complete")),
                checkpoints: status.checkpoints,
            },
            cost: PlanCost {
                tokens_used: usage.input_tokens.0 + usage.output_tokens.0,
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
                cost_so_far: is_known.then_some(cost),
                estimated: estimated_cost(plan.estimate.as_ref()),
                model_calls: plan.model_calls,
                cost_known: (!is_known).then_some(false),
                cost_known_part: (!is_known).then_some(cost),
            },
            waiting: plan.waiting.map(|request| WaitingInfo {
                sentence: request.sentence(),
                request,
            }),
            undone,
            report: plan.report,
            failed_checks: status.failed_checks,
            next_steps: status.next,
            error,
        }
    }
}

impl From<crate::plan::PhaseProgress> for PhaseStatus {
    fn from(progress: crate::plan::PhaseProgress) -> Self {
        let step = match progress.phase {
            PlanPhase::Strategize => "Strategize",
            PlanPhase::Execute => "Execute",
            PlanPhase::Apply => "Apply",
        };
        Self {
            step: step.to_owned(),
            status: progress.state,
        }
    }
}

/// Adds to the stored error the fields that every error of a plan has.
fn described_error(error: &Map<String, Value>, next: &[Suggestion]) -> Map<String, Value> {
    let mut described = error.clone();
    let recoverable = error.get("is_retriable").cloned().unwrap_or(Value::Null);
    for (key, value) in [
        ("message", Value::Null),
        ("tool", Value::Null),
        ("step", Value::Null),
        ("checkpoint", Value::Null),
        ("recoverable", recoverable),
    ] {
        described.entry(key).or_insert(value);
    }
    described.insert("recovery".to_owned(), json!(next));
    described
}

/// The cost estimate of the estimation actor.
fn estimated_cost(estimate: Option<&Value>) -> Value {
    let actor_estimate = estimate.map_or(&Value::Null, |estimate| &estimate["actor"]);
    ["cost_usd", "estimated_cost_usd", "estimated_cost", "cost"]
        .into_iter()
        .map(|key| &actor_estimate[key])
        .find(|value| !value.is_null())
        .cloned()
        .unwrap_or(Value::Null)
}
