//! `plan/cancel`, `plan/approve`, `plan/reject`, `plan/prompt` and `plan/edit`.

use cleveragents_domain::identity::Permission;
use cleveragents_domain::{
    DecisionId, DecisionType, Plan, PlanId, PlanPhase, PlanStage, PlanState, PlanStrategy,
    SandboxState, Suggestion, Timestamp, Waiting, suggest,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{find_chosen, find_plan, next_steps, no_strategy, requires};
use crate::operation::{Operation, OperationContext, OperationError, Requirement, Resolver};
use crate::plan::{DETERMINISTIC, QueueEntry};

/// Cancels a plan: at once if no process works on it, otherwise asks that process to stop.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelPlan {
    /// Id, prefix of at least 6 characters, or name.
    pub reference: String,
    /// The reason, for the log.
    #[serde(default = "cancelled_by_user")]
    pub reason: String,
}

fn cancelled_by_user() -> String {
    "cancelled by the user".to_owned()
}

/// The response of `plan/cancel`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CancelledPlan {
    pub plan_id: PlanId,
    pub phase: PlanPhase,
    pub reason: String,
    pub state: CancellationState,
    /// Phase and state of the plan, such as `execute/cancelled`.
    pub stage: PlanStage,
    pub cancelled_at: Option<Timestamp>,
    pub sandbox: CancelledSandbox,
    /// Operations that show or discard the changes of the plan.
    pub recovery: Vec<Suggestion>,
}

/// The progress of a cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CancellationState {
    Cancelled,
    /// The process that works on the plan was asked to stop.
    Cancelling,
}

/// The sandbox of a cancelled plan.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CancelledSandbox {
    /// `preserved`, or the state of a sandbox that is not active; `null` without a sandbox.
    pub status: Option<String>,
    pub files_modified: usize,
    pub checkpoints: usize,
}

impl Operation for CancelPlan {
    const NAME: &'static str = "plan/cancel";
    const SUMMARY: &'static str = "Cancel a plan";
    const REQUIREMENT: Requirement = requires(Permission::Write);
    type Response = CancelledPlan;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.plan(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<CancelledPlan, OperationError> {
        let id = find_plan(context, &self.reference)?.id;
        let is_cancelled = context.plan_control().cancel(id, &self.reason)?;
        let plans = context.plans();
        let plan = plans.get(id)?;
        let sandbox = plans.sandbox(&plan)?;
        let files_modified = match &sandbox {
            Some(_) => plans.recorded_changes(&plan)?.files.len(),
            None => 0,
        };
        let checkpoints = sandbox.as_ref().map_or(0, |view| view.checkpoints.len());
        let status = sandbox.as_ref().map(|view| {
            match view.sandbox.state {
                SandboxState::Active => "preserved",
                other => other.as_str(),
            }
            .to_owned()
        });
        let name = plan.sandbox.as_ref().filter(|_| sandbox.is_some());
        let recovery = name
            .into_iter()
            .flat_map(|name| [suggest::sandbox_diff(name), suggest::sandbox_discard(name)]);
        Ok(CancelledPlan {
            plan_id: id,
            phase: plan.stage.phase(),
            reason: self.reason,
            state: if is_cancelled {
                CancellationState::Cancelled
            } else {
                CancellationState::Cancelling
            },
            stage: plan.stage,
            cancelled_at: if is_cancelled {
                plan.completed_at
            } else {
                Some(Timestamp::now())
            },
            sandbox: CancelledSandbox {
                status,
                files_modified,
                checkpoints,
            },
            recovery: recovery.collect(),
        })
    }
}

/// Approves the pending request of a plan, or answers its question.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovePlan {
    /// Id, prefix of at least 6 characters, or name. Only local callers may leave it out; it
    /// then defaults to the plan of their folder that waits for input.
    #[serde(default)]
    pub reference: Option<String>,
    /// The answer to a question.
    #[serde(default)]
    pub answer: Option<String>,
}

/// Rejects the pending request of a plan.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RejectPlan {
    /// Id, prefix of at least 6 characters, or name. Only local callers may leave it out; it
    /// then defaults to the plan of their folder that waits for input.
    #[serde(default)]
    pub reference: Option<String>,
    /// The reason, for the actor and the log.
    #[serde(default)]
    pub reason: Option<String>,
}

/// The response of `plan/approve` and `plan/reject`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanAnswerReport {
    pub plan_id: PlanId,
    pub phase: PlanPhase,
    pub state: PlanState,
    /// A sentence about the input that the plan waited for.
    pub answered: Option<String>,
    pub verdict: Verdict,
    /// The answer or the reason.
    pub answer: Option<String>,
    /// The user or token that answered.
    pub person: String,
    /// True if a worker continues the plan.
    pub queued: bool,
    /// Operations to run next.
    pub next_steps: Vec<Suggestion>,
}

/// The answer to a waiting plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Approved,
    Rejected,
}

impl Operation for ApprovePlan {
    const NAME: &'static str = "plan/approve";
    const SUMMARY: &'static str = "Approve the pending request of a plan, or answer its question";
    const REQUIREMENT: Requirement = requires(Permission::Write);
    type Response = PlanAnswerReport;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.given_or_only_waiting_plan(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<PlanAnswerReport, OperationError> {
        let plan = find_chosen(context, self.reference.as_deref())?;
        answer(context, &plan, Verdict::Approved, self.answer)
    }
}

impl Operation for RejectPlan {
    const NAME: &'static str = "plan/reject";
    const SUMMARY: &'static str = "Reject the pending request of a plan";
    const REQUIREMENT: Requirement = requires(Permission::Write);
    type Response = PlanAnswerReport;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.given_or_only_waiting_plan(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<PlanAnswerReport, OperationError> {
        let plan = find_chosen(context, self.reference.as_deref())?;
        answer(context, &plan, Verdict::Rejected, self.reason)
    }
}

fn answer(
    context: &OperationContext,
    before: &Plan,
    verdict: Verdict,
    text: Option<String>,
) -> Result<PlanAnswerReport, OperationError> {
    let person = context.caller().identity().to_owned();
    let is_approved = verdict == Verdict::Approved;
    let control = context.plan_control();
    let plan = control.answer(before.id, is_approved, text.as_deref(), &person)?;
    // A worker does not continue a plan that a server ran: the caller resumes it with `plan/execute`.
    let queued = QueueEntry::from_plan(&plan).is_some_and(|entry| entry.served.is_none());
    if queued {
        context.start_worker()?;
    }
    Ok(PlanAnswerReport {
        plan_id: plan.id,
        phase: plan.stage.phase(),
        state: plan.shown_state(),
        answered: before.waiting.as_ref().map(Waiting::sentence),
        verdict,
        answer: text,
        person,
        queued,
        next_steps: next_steps(&plan),
    })
}

/// Gives a plan guidance for its next step.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptPlan {
    /// Id, prefix of at least 6 characters, or name.
    pub reference: String,
    pub guidance: String,
}

/// The response of `plan/prompt`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GivenGuidance {
    pub guidance_added: GuidanceAdded,
    pub decision_created: CreatedDecision,
    pub queue: GuidanceQueue,
    /// `false` when the actor that executes the plan cannot read guidance; the guidance then stays pending.
    pub is_readable: bool,
}

/// The guidance, and the new state of the plan.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GuidanceAdded {
    pub plan: PlanId,
    pub guidance: String,
    /// `next step`.
    pub scope: String,
    pub phase: PlanPhase,
    /// For example `awaiting_input -> queued`.
    pub state_transition: String,
}

/// The decision that records guidance.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CreatedDecision {
    #[serde(rename = "type")]
    pub kind: DecisionType,
    pub id: DecisionId,
    pub parent: Option<DecisionId>,
}

/// Number of pending and of applied guidance entries.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GuidanceQueue {
    pub pending: usize,
    pub applied: usize,
}

impl Operation for PromptPlan {
    const NAME: &'static str = "plan/prompt";
    const SUMMARY: &'static str = "Give a plan guidance for its next step";
    const REQUIREMENT: Requirement = requires(Permission::Write);
    type Response = GivenGuidance;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.plan(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<GivenGuidance, OperationError> {
        let before = find_plan(context, &self.reference)?;
        let (plan, decision) = context.plan_control().prompt(before.id, &self.guidance)?;
        let all = context.plans().guidance(plan.id)?;
        let pending = all
            .iter()
            .filter(|entry| entry.applied_at.is_none())
            .count();
        let (old_state, new_state) = (before.shown_state(), plan.shown_state());
        Ok(GivenGuidance {
            guidance_added: GuidanceAdded {
                plan: plan.id,
                guidance: self.guidance.trim().to_owned(),
                scope: "next step".to_owned(),
                phase: plan.stage.phase(),
                state_transition: format!("{old_state} -> {new_state}"),
            },
            decision_created: CreatedDecision {
                kind: decision.kind,
                id: decision.id,
                parent: decision.parent,
            },
            queue: GuidanceQueue {
                pending,
                applied: all.len() - pending,
            },
            is_readable: plan.inputs.actors.execution != DETERMINISTIC,
        })
    }
}

/// Replaces the strategy of a plan before it is executed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EditStrategy {
    /// Id, prefix of at least 6 characters, or name.
    pub reference: String,
    /// The new strategy as Markdown, in the form that `plan/show` returns.
    pub text: String,
}

/// The response of `plan/edit`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct EditedStrategy {
    pub plan_id: PlanId,
    pub phase: PlanPhase,
    pub state: PlanState,
    /// The number of steps.
    pub steps: usize,
    pub strategy: Option<PlanStrategy>,
    /// Operations to run next.
    pub next_steps: Vec<Suggestion>,
    /// `false` when the text equals the current strategy.
    pub is_changed: bool,
}

impl Operation for EditStrategy {
    const NAME: &'static str = "plan/edit";
    const SUMMARY: &'static str = "Replace the strategy of a plan before it is executed";
    const REQUIREMENT: Requirement = requires(Permission::Write);
    type Response = EditedStrategy;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.plan(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<EditedStrategy, OperationError> {
        let before = find_plan(context, &self.reference)?;
        let Some(strategy) = &before.strategy else {
            return Err(no_strategy(&before));
        };
        let is_changed = self.text != strategy.to_markdown();
        let plan = if is_changed {
            context.plan_control().edit(before.id, &self.text)?
        } else {
            before
        };
        Ok(EditedStrategy {
            plan_id: plan.id,
            phase: plan.stage.phase(),
            state: plan.shown_state(),
            steps: plan
                .strategy
                .as_ref()
                .map_or(0, |strategy| strategy.steps.len()),
            next_steps: next_steps(&plan),
            strategy: plan.strategy,
            is_changed,
        })
    }
}
