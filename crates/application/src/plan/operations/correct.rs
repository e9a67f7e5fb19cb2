//! `plan/correct`.

use cleveragents_domain::identity::Permission;
use cleveragents_domain::{DecisionId, PlanId, PlanStage, Suggestion};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{find_plan, next_steps, requires};
use crate::operation::{
    Operation, OperationContext, OperationError, Requirement, Resolver, require_confirmation,
};
use crate::plan::{CorrectionMode, CorrectionPreview, Explanation};

/// Kind of a correction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CorrectionForm {
    /// Discards the decision and everything that follows from it, and does it again.
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

/// Corrects one decision of a plan: only what follows from it is discarded and done again. `plan/redo` undoes the
/// correction until the plan continues.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CorrectDecision {
    /// Id of the decision, or prefix of at least 6 characters.
    pub decision: String,
    #[serde(default)]
    pub mode: CorrectionForm,
    /// What to do instead, or in addition.
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
    /// Whether the strategist makes the strategy again.
    pub needs_new_strategy: bool,
}

/// The discarded decisions and steps, and the number of decisions that stay.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AffectedSubtree {
    pub decisions_invalidated: Vec<InvalidatedDecision>,
    pub steps_repeated: Vec<RepeatedStep>,
    pub unaffected_decisions: usize,
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
            unaffected_decisions: preview.kept_decisions,
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
