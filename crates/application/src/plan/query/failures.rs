//! [`PlanFailures`]: the failures of a plan, and the operations to recover from them.

use cleveragents_domain::{
    Decision, DecisionType, InvocationOutcome, Placeholder, Plan, PlanStage, REVERSION_LIMIT,
    StepRecord, StepState, Suggestion, Timestamp, ToolInvocation, suggest,
};
use cleveragents_store::validations::StoredResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{PlanQueries, PlanQueryError};
use crate::plan::validate::FailedCheck;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PlanFailureKind {
    /// A step failed.
    Step,
    /// A tool call failed.
    Call,
    /// A tool call was refused.
    Refusal,
    /// A decision about a retry after a failure.
    Recovery,
    /// A validation failed, or a decision about the fix of a failed validation.
    Validation,
}

impl PlanFailureKind {
    /// The kind as shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Call => "call",
            Self::Refusal => "refusal",
            Self::Recovery => "recovery",
            Self::Validation => "validation",
        }
    }
}

/// One failure.
#[derive(Debug, Clone)]
pub struct PlanFailure {
    pub kind: PlanFailureKind,
    /// Time of the event.
    pub at: Timestamp,
    /// Title of the step, name of the tool or validation, or question of the decision.
    pub what: String,
    /// The error message, or the chosen option of a decision.
    pub message: String,
    /// The id of the call or decision, or the path of the step.
    pub id: String,
    /// True if a later rollback undid the failed work.
    pub is_undone: bool,
    /// The failed command, if a command failed.
    pub command: Option<String>,
    /// The exit status of the command.
    pub exit_code: Option<i64>,
    /// The complete stored output.
    pub output: Option<String>,
}

#[derive(Debug)]
pub struct PlanFailures {
    pub plan: Plan,
    /// The stored error of the plan; `None` if the plan did not fail.
    pub error: Option<Map<String, Value>>,
    /// The failures, oldest first.
    pub history: Vec<PlanFailure>,
    /// Operations to recover the plan, the most useful first.
    pub recovery: Vec<Suggestion>,
}

impl PlanQueries {
    pub fn failures(&self, plan: Plan) -> Result<PlanFailures, PlanQueryError> {
        let mut history: Vec<PlanFailure> = Vec::new();
        history.extend(self.steps(plan.id)?.iter().filter_map(step_failure));
        for call in self.calls(plan.id)? {
            if let Some(mut failure) = call_failure(&call) {
                let mut output = self.stored_text(call.output)?;
                output.push_str(&self.stored_text(call.log)?);
                failure.output = Some(output).filter(|output| !output.trim().is_empty());
                history.push(failure);
            }
        }
        for stored in self.validations(plan.id)? {
            if let Some(check) = self.failed_check(&stored)? {
                history.push(validation_failure(&stored, check));
            }
        }
        history.extend(self.decisions(plan.id)?.iter().filter_map(decision_failure));
        history.sort_by_key(|failure| failure.at);
        Ok(PlanFailures {
            error: plan.error.clone(),
            recovery: recovery(&plan),
            history,
            plan,
        })
    }
}

fn step_failure(step: &StepRecord) -> Option<PlanFailure> {
    (step.state == StepState::Failed).then(|| PlanFailure {
        kind: PlanFailureKind::Step,
        at: step.finished_at.unwrap_or(step.started_at),
        what: step.title.clone(),
        message: step.summary.clone().unwrap_or_default(),
        id: step.path.clone(),
        is_undone: step.undone_by.is_some(),
        command: None,
        exit_code: None,
        output: None,
    })
}

fn call_failure(call: &ToolInvocation) -> Option<PlanFailure> {
    let kind = match call.outcome {
        InvocationOutcome::Failed => PlanFailureKind::Call,
        InvocationOutcome::Refused => PlanFailureKind::Refusal,
        InvocationOutcome::Running | InvocationOutcome::Succeeded => return None,
    };
    Some(PlanFailure {
        kind,
        at: call.finished_at.unwrap_or(call.started_at),
        what: call.tool.clone(),
        message: call.error.clone().unwrap_or_default(),
        id: call.id.to_string(),
        is_undone: false,
        command: call.arguments["command"].as_str().map(str::to_owned),
        exit_code: None,
        output: None,
    })
}

fn validation_failure(stored: &StoredResult, check: FailedCheck) -> PlanFailure {
    PlanFailure {
        kind: PlanFailureKind::Validation,
        at: stored.created_at,
        what: check.validation,
        message: check.message,
        id: format!("validation/{}", stored.number),
        is_undone: false,
        command: check.command,
        exit_code: check.exit_code,
        output: Some(check.output).filter(|output| !output.trim().is_empty()),
    }
}

fn decision_failure(decision: &Decision) -> Option<PlanFailure> {
    let kind = match decision.content.kind {
        DecisionType::ErrorRecovery => PlanFailureKind::Recovery,
        DecisionType::ValidationResponse => PlanFailureKind::Validation,
        _ => return None,
    };
    Some(PlanFailure {
        kind,
        at: decision.created_at,
        what: decision.content.question.clone(),
        message: decision.content.chosen.clone(),
        id: decision.content.id.to_string(),
        is_undone: !decision.holds(),
        command: None,
        exit_code: None,
        output: None,
    })
}

/// Operations to recover a plan: first the operation that its error proposes, then those that its stage allows.
pub(super) fn recovery(plan: &Plan) -> Vec<Suggestion> {
    use PlanStage as S;
    if plan.stage.is_terminal() {
        return Vec::new();
    }
    let id = plan.id;
    let (execute, apply) = (suggest::plan_execute(id), suggest::plan_apply(id));
    let prompt = suggest::plan_prompt(id, Placeholder("GUIDANCE"));
    let (revert, cancel) = (suggest::plan_revert(id), suggest::plan_cancel(id));
    let usual = match plan.stage {
        S::StrategizeErrored => vec![execute, prompt, cancel],
        S::ExecuteErrored => vec![execute, prompt, revert.clone(), cancel],
        S::ApplyConstrained => vec![prompt, apply, revert.clone(), cancel],
        S::ApplyErrored => vec![apply, revert.clone(), cancel],
        _ => Vec::new(),
    };
    let proposed = plan.error.as_ref();
    let proposed = proposed.and_then(|error| error.get("recovery_command"));
    // Earlier versions stored a text here, which is ignored.
    let proposed = proposed.and_then(|first| serde_json::from_value(first.clone()).ok());
    let may_revert = plan.reversions < REVERSION_LIMIT;
    let mut suggestions: Vec<Suggestion> = proposed.into_iter().collect();
    for suggestion in usual {
        if (may_revert || suggestion != revert) && !suggestions.contains(&suggestion) {
            suggestions.push(suggestion);
        }
    }
    suggestions
}
