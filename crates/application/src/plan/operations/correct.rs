//! `plan/correct`.

use cleveragents_domain::identity::Permission;
use cleveragents_domain::{
    ChildState, DecisionId, PlanId, PlanStage, Suggestion, Timestamp, ToolInvocationId,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{find_chosen, find_plan, next_steps, requires};
use crate::operation::{
    Operation, OperationContext, OperationError, Requirement, Resolver, require_confirmation,
};
use crate::plan::{CorrectionAttempt, CorrectionMode, CorrectionPreview, Explanation};

/// Kind of a correction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CorrectionForm {
    /// Discards the decision and everything that follows from it, and repeats the discarded work.
    #[default]
    Revert,
    /// Keeps everything, and adds a child plan whose task is the guidance.
    Append,
}

impl From<CorrectionForm> for CorrectionMode {
    fn from(form: CorrectionForm) -> Self {
        match form {
            CorrectionForm::Revert => Self::Revert,
            CorrectionForm::Append => Self::Append,
        }
    }
}

/// Corrects one decision of a plan: discards and repeats only the work that follows from it. Until the plan continues,
/// `plan/redo` undoes the correction.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CorrectDecision {
    /// Id of the decision, or prefix of at least 6 characters.
    pub decision: String,
    #[serde(default)]
    pub mode: CorrectionForm,
    /// Instruction to follow instead (`revert`) or in addition (`append`).
    pub guidance: String,
    /// Only report what would be discarded.
    #[serde(default)]
    pub dry_run: bool,
    /// Confirms the correction.
    #[serde(default)]
    pub yes: bool,
}

/// The response of `plan/correct`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CorrectionReport {
    pub plan_id: PlanId,
    /// `true` when nothing was changed; missing otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    pub correction: CorrectionInfo,
    pub affected_subtree: AffectedSubtree,
    /// Paths that were restored, as `part/path`.
    pub files_reverted: Vec<String>,
    /// Phase and state of the plan afterwards.
    pub stage: PlanStage,
    /// Operations to run next.
    pub next_steps: Vec<Suggestion>,
}

/// The correction.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CorrectionInfo {
    pub mode: CorrectionForm,
    pub corrects: DecisionId,
    pub guidance: String,
    /// The decision that records the correction; missing in a dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_decision: Option<DecisionId>,
    /// Whether the strategist makes a new strategy.
    pub needs_new_strategy: bool,
}

/// The discarded decisions and steps, and the number of decisions that stay.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AffectedSubtree {
    pub decisions_invalidated: Vec<InvalidatedDecision>,
    pub steps_repeated: Vec<RepeatedStep>,
    pub child_plans_rolled_back: Vec<DiscardedChildPlan>,
    pub tool_calls_discarded: Vec<DiscardedCall>,
    pub unaffected_decisions: usize,
    /// Cost of the discarded work in US dollars: the estimate for doing it again.
    pub recompute_cost_usd: f64,
}

/// A child plan whose result is discarded.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DiscardedChildPlan {
    pub plan_id: PlanId,
    /// Position among the child plans, from 1.
    pub number: u64,
    pub title: String,
    pub state: ChildState,
}

/// A discarded tool call.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DiscardedCall {
    pub invocation_id: ToolInvocationId,
    pub tool: String,
}

/// A discarded decision.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct InvalidatedDecision {
    pub decision_id: DecisionId,
    pub question: String,
    pub chosen: String,
}

/// A step that runs again.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RepeatedStep {
    pub number: u64,
    pub title: String,
}

impl From<&CorrectionPreview> for AffectedSubtree {
    fn from(preview: &CorrectionPreview) -> Self {
        Self {
            decisions_invalidated: preview
                .decisions
                .iter()
                .map(|decision| InvalidatedDecision {
                    decision_id: decision.id,
                    question: decision.question.clone(),
                    chosen: decision.chosen.clone(),
                })
                .collect(),
            steps_repeated: preview
                .steps
                .iter()
                .map(|step| RepeatedStep {
                    number: step.number,
                    title: step.title.clone(),
                })
                .collect(),
            child_plans_rolled_back: preview
                .children
                .iter()
                .map(|child| DiscardedChildPlan {
                    plan_id: child.plan,
                    number: child.number,
                    title: child.title.clone(),
                    state: child.state,
                })
                .collect(),
            tool_calls_discarded: preview
                .calls
                .iter()
                .map(|call| DiscardedCall {
                    invocation_id: call.id,
                    tool: call.tool.clone(),
                })
                .collect(),
            unaffected_decisions: preview.kept_decisions,
            recompute_cost_usd: preview.cost.as_usd(),
        }
    }
}

impl Operation for CorrectDecision {
    const NAME: &'static str = "plan/correct";
    const SUMMARY: &'static str = "Correct a decision of a plan";
    const REQUIREMENT: Requirement = requires(Permission::Write);
    type Response = CorrectionReport;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.decision_or_plan(&mut self.decision)
    }

    fn run(self, context: &OperationContext) -> Result<CorrectionReport, OperationError> {
        let Explanation { plan, decision, .. } = context.plans().explain(&self.decision)?;
        let target = decision.content.id;
        let control = context.plan_control();
        let mode = self.mode.into();
        let (preview, new_decision) = if self.dry_run {
            let preview = control.preview_correction(plan.id, target, mode)?;
            (preview, None)
        } else {
            require_confirmation(self.yes)?;
            let corrected = control.correct(plan.id, target, mode, &self.guidance)?;
            (corrected.discarded, Some(corrected.decision))
        };
        let plan = find_plan(context, &plan.id.to_string())?;
        Ok(CorrectionReport {
            plan_id: plan.id,
            dry_run: self.dry_run.then_some(true),
            correction: CorrectionInfo {
                mode: self.mode,
                corrects: target,
                guidance: self.guidance,
                new_decision,
                needs_new_strategy: preview.needs_new_strategy,
            },
            affected_subtree: (&preview).into(),
            files_reverted: preview.paths,
            stage: plan.stage,
            next_steps: next_steps(&plan),
        })
    }
}

/// Lists the corrections of a plan.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListCorrections {
    /// Id, prefix of at least 6 characters, or name. Only local callers may leave it out; it
    /// then defaults to the current plan of their folder.
    #[serde(default)]
    pub reference: Option<String>,
}

/// The response of `plan/corrections`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CorrectionList {
    pub plan_id: PlanId,
    /// The corrections, oldest first.
    pub corrections: Vec<CorrectionAttemptInfo>,
}

/// A correction that was made.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CorrectionAttemptInfo {
    /// Number of the correction in the plan, from 1.
    pub number: usize,
    pub mode: CorrectionForm,
    pub corrects: DecisionId,
    /// The decision that records the correction.
    pub decision_id: DecisionId,
    pub guidance: String,
    pub is_undone: bool,
    pub discarded_decisions: u64,
    pub discarded_steps: u64,
    pub discarded_calls: u64,
    /// Paths that were restored, as `part/path`.
    pub files_reverted: Vec<String>,
    pub created: Timestamp,
}

impl From<CorrectionAttempt> for CorrectionAttemptInfo {
    fn from(made: CorrectionAttempt) -> Self {
        Self {
            number: made.number,
            mode: match made.mode {
                CorrectionMode::Revert => CorrectionForm::Revert,
                CorrectionMode::Append => CorrectionForm::Append,
            },
            corrects: made.target,
            decision_id: made.decision,
            guidance: made.guidance,
            is_undone: made.is_undone,
            discarded_decisions: made.discarded_decisions,
            discarded_steps: made.discarded_steps,
            discarded_calls: made.discarded_calls,
            files_reverted: made.paths,
            created: made.created_at,
        }
    }
}

impl Operation for ListCorrections {
    const NAME: &'static str = "plan/corrections";
    const SUMMARY: &'static str = "List the corrections of a plan";
    const REQUIREMENT: Requirement = requires(Permission::Read);
    type Response = CorrectionList;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.given_or_only_plan(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<CorrectionList, OperationError> {
        let plan = find_chosen(context, self.reference.as_deref())?;
        let corrections = context.plans().corrections(plan.id)?;
        Ok(CorrectionList {
            plan_id: plan.id,
            corrections: corrections.into_iter().map(Into::into).collect(),
        })
    }
}
