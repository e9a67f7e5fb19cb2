//! The operations on plans: requests, responses, and how they are resolved and run.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

mod apply;
mod changes;
mod checkpoints;
mod children;
mod conflicts;
mod control;
mod correct;
mod decisions;
mod errors;
mod execute;
mod guard;
mod list;
mod log;
mod rollback;
mod show;
mod spawn;
mod status;
mod undo;
mod use_action;

pub use apply::{
    AppliedLines, AppliedPlan, AppliedValidation, ApplyPlan, PlanLifecycle, SandboxCleanupReport,
};
pub use changes::{
    Artifact, ArtifactKind, ArtifactSummary, ChangedFile, DiffSummary, FilePreview,
    IncompleteChanges, ListArtifacts, PlanArtifacts, PlanDiff, RiskAssessment, ShowPlanDiff,
    ValidationCount,
};
pub use checkpoints::{
    CheckpointDeletionSummary, CheckpointInfo, CheckpointList, CheckpointListSummary,
    DeleteCheckpoints, DeletedCheckpoints, ListCheckpoints,
};
pub use children::{
    ChildPlanInfo, ChildPlanList, ChildPlanSummary, ListChildPlans, ParentPlan, TreeChildPlan,
};
pub use conflicts::{
    ConflictSide, ConflictVersion, ConflictingChild, PlanConflict, PlanConflicts, ResolveConflict,
    ResolvedConflictReport, ResolvedSide, ShowConflicts,
};
pub use control::{
    ApprovePlan, CancelPlan, CancellationState, CancelledPlan, CancelledSandbox, CreatedDecision,
    EditStrategy, EditedStrategy, GivenGuidance, GuidanceAdded, GuidanceQueue, PlanAnswerReport,
    PromptPlan, RejectPlan, Verdict,
};
pub use correct::{
    AffectedSubtree, CorrectDecision, CorrectionAttemptInfo, CorrectionForm, CorrectionInfo,
    CorrectionList, CorrectionReport, DiscardedCall, DiscardedChildPlan, InvalidatedDecision,
    ListCorrections, RepeatedStep,
};
pub use decisions::{
    DecisionExplanation, DecisionStatus, DecisionTreeReport, ExplainDecision, OutlineNode,
    ShowDecisionTree, SnapshotInfo, TreeDecision, TreeDrawing, TreeForm,
};
pub use errors::{ListPlanErrors, PlanErrorCount, PlanErrorInfo, PlanErrors};
pub use execute::{
    CompletedStep, ExecutePlan, ExecutionProgress, ExecutionSandbox, ExecutionStatus,
    PlanExecution, PlanUsage, QueuePlan, QueuedPlan, ResumePlan, ResumePreview, ResumedPlan,
    SandboxPart, StrategySummary,
};
pub use guard::{
    GuardLimits, GuardProfile, GuardUsage, LimitPlanCost, PlanGuardReport, ProfileDemands,
    ShowPlanGuard,
};
pub use list::{ListPlans, PlanEntry, PlanList, PlanListFilters, PlanListSummary};
pub use log::{PlanLog, PlanLogEntry, PlanLogSummary, ReadPlanLog};
pub use rollback::{
    PostRollbackState, RedoRollback, RevertPlan, RevertedPlan, RollBackPlan, RollbackImpact,
    RollbackReport, RollbackSummary,
};
pub use show::{PlanAutomation, PlanDetails, ShowPlan, StrategyFormat};
pub use spawn::{SpawnChildPlan, SpawnedPart};
pub use status::{
    AwaitPlan, CurrentStep, ExecutionInfo, PhaseStatus, PlanCost, PlanStatusReport, PlanTiming,
    ShowPlanStatus, StepProgress, WaitingInfo,
};
pub use undo::{RevertedCommit, UndoPlan, UndoneChange, UndonePlan};
pub use use_action::{CreatedPlan, PlanContextInfo, UsePlan};

use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::{
    Code, Plan, PlanId, PlanStage, PlanStrategy, Suggestion, Timestamp, hint, suggest,
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::{DriveOptions, PlanFrontEnd, PlanQueryError};
use crate::operation::{OperationContext, OperationEntry, OperationError, Requirement};
use crate::runtime::SafetySelection;
use crate::scheduler::Scheduler;

/// The operations on plans that servers offer. [`QueuePlan`] is for local callers only.
pub(crate) static ENTRIES: &[OperationEntry] = &[
    OperationEntry::new::<ListPlans>(),
    OperationEntry::new::<ShowPlanStatus>(),
    OperationEntry::new::<ShowPlan>(),
    OperationEntry::new::<ShowDecisionTree>(),
    OperationEntry::new::<ExplainDecision>(),
    OperationEntry::new::<ListChildPlans>(),
    OperationEntry::new::<ShowConflicts>(),
    OperationEntry::new::<ListCorrections>(),
    OperationEntry::new::<ListPlanErrors>(),
    OperationEntry::new::<ShowPlanDiff>(),
    OperationEntry::new::<ListArtifacts>(),
    OperationEntry::new::<ShowPlanGuard>(),
    OperationEntry::new::<LimitPlanCost>(),
    OperationEntry::new::<ListCheckpoints>(),
    OperationEntry::new::<DeleteCheckpoints>(),
    OperationEntry::new::<ReadPlanLog>(),
    OperationEntry::new::<AwaitPlan>(),
    OperationEntry::new::<CancelPlan>(),
    OperationEntry::new::<ApprovePlan>(),
    OperationEntry::new::<RejectPlan>(),
    OperationEntry::new::<PromptPlan>(),
    OperationEntry::new::<ResolveConflict>(),
    OperationEntry::new::<SpawnChildPlan>(),
    OperationEntry::new::<EditStrategy>(),
    OperationEntry::new::<RollBackPlan>(),
    OperationEntry::new::<RedoRollback>(),
    OperationEntry::new::<RevertPlan>(),
    OperationEntry::new::<CorrectDecision>(),
    OperationEntry::new::<UndoPlan>(),
    OperationEntry::new::<UsePlan>(),
    OperationEntry::new::<ExecutePlan>(),
    OperationEntry::new::<ResumePlan>(),
    OperationEntry::new::<ApplyPlan>(),
];

const fn requires(permission: Permission) -> Requirement {
    Requirement::new(Scope::Plans, permission)
}

fn parse_id(reference: &str) -> Result<PlanId, OperationError> {
    let id = reference.parse();
    id.map_err(|_| {
        let error = PlanQueryError::NotFound {
            reference: reference.to_owned(),
            nearest: Vec::new(),
        };
        error.into()
    })
}

/// The plan of a resolved request.
fn find_plan(context: &OperationContext, reference: &str) -> Result<Plan, OperationError> {
    Ok(context.plans().get(parse_id(reference)?)?)
}

/// The plan of a resolved request with an optional reference, which the resolver has filled in.
fn find_chosen(
    context: &OperationContext,
    reference: Option<&str>,
) -> Result<Plan, OperationError> {
    find_plan(context, reference.unwrap_or_default())
}

/// Waits for a slot and runs a plan in it, with the front end of the operation.
fn run_plan(
    context: &OperationContext,
    plan: &Plan,
    options: &DriveOptions,
) -> Result<Plan, OperationError> {
    let runtime = context.runtime(&SafetySelection::default(), None)?;
    let scheduler = Scheduler::new(context.engine(), context.settings().plans.concurrency);
    let front_end = PlanFrontEnd {
        approver: &*context.front_end().approver,
        observer: &*context.front_end().observer,
        cancel: context.cancel(),
    };
    let service = context.plan_service();
    Ok(scheduler.run(&service, plan, options, &runtime, front_end)?)
}

/// A summary of the strategy of a plan.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct StrategyOutline {
    pub summary: String,
    /// Number of steps.
    pub steps: usize,
    /// From 0 to 1, as rated by the strategist.
    pub risk: Option<f64>,
}

impl From<&PlanStrategy> for StrategyOutline {
    fn from(strategy: &PlanStrategy) -> Self {
        Self {
            summary: strategy.summary.clone(),
            steps: strategy.steps.len(),
            risk: strategy.risk,
        }
    }
}

/// The names of a plan's projects, joined by commas.
fn project_names(plan: &Plan) -> Option<String> {
    let projects = plan.inputs.projects.iter();
    let names: Vec<&str> = projects.map(|project| project.name.as_str()).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// The first line of the task.
fn task_line(plan: &Plan) -> String {
    let mut lines = plan.description.trim().lines();
    lines.next().unwrap_or_default().to_owned()
}

/// Seconds from the start of a plan to its end, or until now; `None` before the start.
fn elapsed(plan: &Plan) -> Option<f64> {
    let end = plan.completed_at.unwrap_or_else(Timestamp::now);
    plan.started_at
        .map(|start| end.seconds_since(start).max(0.0))
}

/// A duration as `HH:MM:SS`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive; the cast saturates"
)]
fn clock(seconds: f64) -> String {
    let total = seconds.max(0.0) as u64;
    format!(
        "{:02}:{:02}:{:02}",
        total / 3600,
        total / 60 % 60,
        total % 60
    )
}

/// The operations to run next, by the stage of a plan.
pub fn next_steps(plan: &Plan) -> Vec<Suggestion> {
    let id = plan.id;
    let mut next = match plan.stage {
        PlanStage::ExecuteComplete => vec![suggest::plan_diff(id), suggest::plan_apply(id)],
        PlanStage::ApplyApplied => vec![suggest::plan_log(id)],
        PlanStage::StrategizeComplete => vec![
            suggest::plan_execute(id),
            suggest::plan_show_as(id, "markdown"),
        ],
        _ => vec![suggest::plan_execute(id)],
    };
    next.extend([suggest::plan_status(id), suggest::plan_tree(id)]);
    next
}

/// The error for a plan that has no strategy yet.
fn no_strategy(plan: &Plan) -> OperationError {
    let message = format!("plan {} has no strategy yet: it is {}", plan.id, plan.stage);
    OperationError::new(Code::PlanNotReady, message)
        .with_hint(hint!("make one: {}", suggest::plan_execute(plan.id)))
}

/// Deserializes a field that is present, so that `null` differs from a missing field.
fn read_present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::clock;

    #[test]
    fn clock_formats_hours_minutes_and_seconds() {
        assert_eq!(clock(0.9), "00:00:00");
        assert_eq!(clock(3_725.2), "01:02:05");
        assert_eq!(clock(360_000.0), "100:00:00");
        assert_eq!(clock(-3.0), "00:00:00");
    }
}
