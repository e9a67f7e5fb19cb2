//! The operations on plans: requests, responses, and how they are resolved and run.

#![expect(missing_docs, reason = "comments say what names of fields do not")]

mod changes;
mod checkpoints;
mod control;
mod decisions;
mod errors;
mod guard;
mod list;
mod log;
mod rollback;
mod show;
mod status;

pub use changes::{
    Artifact, ArtifactKind, ArtifactSummary, ChangedFile, DiffSummary, FilePreview,
    IncompleteChanges, ListArtifacts, PlanArtifacts, PlanDiff, RiskAssessment, ShowPlanDiff,
    ValidationCount,
};
pub use checkpoints::{
    CheckpointDeletionSummary, CheckpointInfo, CheckpointList, CheckpointListSummary,
    DeleteCheckpoints, DeletedCheckpoints, ListCheckpoints,
};
pub use control::{
    ApprovePlan, CancelPlan, CancellationState, CancelledPlan, CancelledSandbox, CreatedDecision,
    EditStrategy, EditedStrategy, GivenGuidance, GuidanceAdded, GuidanceQueue, PlanAnswerReport,
    PromptPlan, RejectPlan, Verdict,
};
pub use decisions::{
    ChildPlan, DecisionExplanation, DecisionFate, DecisionTreeReport, ExplainDecision, OutlineNode,
    ShowDecisionTree, SnapshotInfo, TreeDecision, TreeDrawing, TreeForm,
};
pub use errors::{ListPlanErrors, PlanErrorCount, PlanErrorInfo, PlanErrors};
pub use guard::{
    GuardLimits, GuardProfile, GuardUsage, LimitPlanCost, PlanGuardReport, ProfileFlags,
    ShowPlanGuard,
};
pub use list::{ListPlans, PlanEntry, PlanList, PlanListFilters, PlanListSummary};
pub use log::{PlanLog, PlanLogEntry, PlanLogSummary, ReadPlanLog};
pub use rollback::{
    PostRollbackState, RedoRollback, RevertPlan, RevertedPlan, RollBackPlan, RollbackImpact,
    RollbackReport, RollbackSummary,
};
pub use show::{PlanAutomation, PlanDetails, ShowPlan, StrategyFormat};
pub use status::{
    AwaitPlan, CurrentStep, ExecutionInfo, PhaseStatus, PlanCost, PlanStatusReport, PlanTiming,
    ShowPlanStatus, StepProgress, WaitingInfo,
};

use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::{Code, Plan, PlanId, PlanStage, Timestamp};
use serde::{Deserialize, Deserializer};

use super::BookError;
use crate::operation::{OperationContext, OperationEntry, OperationError, Requirement};

/// The operations on plans.
pub(crate) static ENTRIES: &[OperationEntry] = &[
    OperationEntry::of::<ListPlans>(),
    OperationEntry::of::<ShowPlanStatus>(),
    OperationEntry::of::<ShowPlan>(),
    OperationEntry::of::<ShowDecisionTree>(),
    OperationEntry::of::<ExplainDecision>(),
    OperationEntry::of::<ListPlanErrors>(),
    OperationEntry::of::<ShowPlanDiff>(),
    OperationEntry::of::<ListArtifacts>(),
    OperationEntry::of::<ShowPlanGuard>(),
    OperationEntry::of::<LimitPlanCost>(),
    OperationEntry::of::<ListCheckpoints>(),
    OperationEntry::of::<DeleteCheckpoints>(),
    OperationEntry::of::<ReadPlanLog>(),
    OperationEntry::of::<AwaitPlan>(),
    OperationEntry::of::<CancelPlan>(),
    OperationEntry::of::<ApprovePlan>(),
    OperationEntry::of::<RejectPlan>(),
    OperationEntry::of::<PromptPlan>(),
    OperationEntry::of::<EditStrategy>(),
    OperationEntry::of::<RollBackPlan>(),
    OperationEntry::of::<RedoRollback>(),
    OperationEntry::of::<RevertPlan>(),
];

const fn requires(permission: Permission) -> Requirement {
    Requirement::new(Scope::Plans, permission)
}

fn parse_id(reference: &str) -> Result<PlanId, OperationError> {
    let id = reference.parse();
    id.map_err(|_| {
        let error = BookError::NotFound {
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

/// The plan of a resolved request that may leave it out: the resolver has filled it in.
fn find_chosen(
    context: &OperationContext,
    reference: Option<&str>,
) -> Result<Plan, OperationError> {
    find_plan(context, reference.unwrap_or_default())
}

/// The names of a plan's projects, joined by commas.
fn project_names(plan: &Plan) -> Option<String> {
    let projects = plan.made_with.projects.iter();
    let names: Vec<&str> = projects.map(|project| project.name.as_str()).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// Seconds since work on a plan began, up to its end.
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
    let whole = seconds.max(0.0) as u64;
    format!(
        "{:02}:{:02}:{:02}",
        whole / 3600,
        whole / 60 % 60,
        whole % 60
    )
}

/// The commands that make sense after one that changed a plan.
pub fn next_steps(plan: &Plan) -> Vec<String> {
    let id = plan.id;
    let mut next = match plan.stage {
        PlanStage::ExecuteComplete => {
            vec![
                format!("agents plan diff {id}"),
                format!("agents plan apply {id}"),
            ]
        }
        PlanStage::ApplyApplied => vec![format!("agents plan log {id}")],
        PlanStage::StrategizeComplete => vec![
            format!("agents plan execute {id}"),
            format!("agents plan show {id} --as markdown"),
        ],
        _ => vec![format!("agents plan execute {id}")],
    };
    next.push(format!("agents plan status {id}"));
    next.push(format!("agents plan tree {id}"));
    next
}

/// The error for a plan that has no strategy yet.
fn no_strategy(plan: &Plan) -> OperationError {
    let message = format!("plan {} has no strategy yet: it is {}", plan.id, plan.stage);
    OperationError::new(Code::PlanNotReady, message)
        .with_hint(format!("let it think: `agents plan execute {}`", plan.id))
}

/// Reads a field that may be missing or `null`, and keeps the two apart.
fn read_present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::clock;

    #[test]
    fn a_duration_is_written_like_a_clock() {
        assert_eq!(clock(0.9), "00:00:00");
        assert_eq!(clock(3_725.2), "01:02:05");
        assert_eq!(clock(360_000.0), "100:00:00");
        assert_eq!(clock(-3.0), "00:00:00");
    }
}
