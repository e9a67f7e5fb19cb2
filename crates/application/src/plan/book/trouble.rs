//! [`PlanTrouble`]: everything that went wrong for a plan, and what can be done about it.

use cleveragents_domain::{
    Decision, DecisionType, InvocationOutcome, Plan, PlanStage, REVERSION_LIMIT, StepRecord,
    StepState, Timestamp, ToolInvocation,
};
use cleveragents_store::validations::StoredResult;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{BookError, PlanBook};
use crate::plan::failed_check::FailedCheck;

/// What it was that went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TroubleKind {
    /// A step failed.
    Step,
    /// A call of a tool failed.
    Call,
    /// A call of a tool was not allowed.
    Refusal,
    /// Something was done about a failure.
    Recovery,
    /// A validation failed, or something was done about one.
    Validation,
}

impl TroubleKind {
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

/// One thing that went wrong.
#[derive(Debug, Clone)]
pub struct Trouble {
    /// What it was.
    pub kind: TroubleKind,
    /// When.
    pub at: Timestamp,
    /// The step, the tool or the question.
    pub what: String,
    /// What is known of it.
    pub message: String,
    /// The id of the call or the decision, the path of the step.
    pub id: String,
    /// Whether a rollback took it back since.
    pub is_undone: bool,
    /// The command that failed, if it was one.
    pub command: Option<String>,
    /// How the command ended.
    pub exit_code: Option<i64>,
    /// All that was printed, as far as it is stored.
    pub output: Option<String>,
}

/// Everything that went wrong for a plan.
#[derive(Debug)]
pub struct PlanTrouble {
    /// The plan.
    pub plan: Plan,
    /// Why it stands, when it does.
    pub error: Option<Map<String, Value>>,
    /// What went wrong, oldest first.
    pub history: Vec<Trouble>,
    /// What to run, the likeliest first.
    pub recovery: Vec<String>,
}

impl PlanBook {
    /// Everything that went wrong for a plan.
    pub fn trouble(&self, plan: Plan) -> Result<PlanTrouble, BookError> {
        let mut history: Vec<Trouble> = Vec::new();
        history.extend(self.steps(plan.id)?.iter().filter_map(of_step));
        for call in self.calls(plan.id)? {
            if let Some(mut trouble) = of_call(&call) {
                let mut output = self.stored_text(call.output)?;
                output.push_str(&self.stored_text(call.log)?);
                trouble.output = Some(output).filter(|output| !output.trim().is_empty());
                history.push(trouble);
            }
        }
        for stored in self.validations(plan.id)? {
            if let Some(check) = self.failed_check(&stored)? {
                history.push(of_validation(&stored, check));
            }
        }
        history.extend(self.decisions(plan.id)?.iter().filter_map(of_decision));
        history.sort_by_key(|trouble| trouble.at);
        Ok(PlanTrouble {
            error: plan.error.clone(),
            recovery: recovery(&plan),
            history,
            plan,
        })
    }
}

fn of_step(step: &StepRecord) -> Option<Trouble> {
    (step.state == StepState::Failed).then(|| Trouble {
        kind: TroubleKind::Step,
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

fn of_call(call: &ToolInvocation) -> Option<Trouble> {
    let kind = match call.outcome {
        InvocationOutcome::Failed => TroubleKind::Call,
        InvocationOutcome::Refused => TroubleKind::Refusal,
        InvocationOutcome::Running | InvocationOutcome::Succeeded => return None,
    };
    Some(Trouble {
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

fn of_validation(found: &StoredResult, check: FailedCheck) -> Trouble {
    Trouble {
        kind: TroubleKind::Validation,
        at: found.created_at,
        what: check.validation,
        message: check.message,
        id: format!("validation/{}", found.number),
        is_undone: false,
        command: check.command,
        exit_code: check.exit_code,
        output: Some(check.output).filter(|output| !output.trim().is_empty()),
    }
}

fn of_decision(decision: &Decision) -> Option<Trouble> {
    let kind = match decision.said.kind {
        DecisionType::ErrorRecovery => TroubleKind::Recovery,
        DecisionType::ValidationResponse => TroubleKind::Validation,
        _ => return None,
    };
    Some(Trouble {
        kind,
        at: decision.created_at,
        what: decision.said.question.clone(),
        message: decision.said.chosen.clone(),
        id: decision.said.id.to_string(),
        is_undone: !decision.holds(),
        command: None,
        exit_code: None,
        output: None,
    })
}

/// What to run when a plan stands: what its error names first, then what its stage allows.
pub(super) fn recovery(plan: &Plan) -> Vec<String> {
    use PlanStage as S;
    let id = plan.id;
    let named = plan
        .error
        .as_ref()
        .and_then(|error| error.get("recovery_command"))
        .and_then(Value::as_str)
        .map(str::to_owned);
    let usual: &[&str] = match plan.stage {
        S::StrategizeErrored => &["execute {}", "prompt {} 'GUIDANCE'", "cancel {}"],
        S::ExecuteErrored => &[
            "execute {}",
            "prompt {} 'GUIDANCE'",
            "revert {}",
            "cancel {}",
        ],
        S::ApplyConstrained => &["prompt {} 'GUIDANCE'", "apply {}", "revert {}", "cancel {}"],
        S::ApplyErrored => &["apply {}", "revert {}", "cancel {}"],
        _ => &[],
    };
    let mut commands: Vec<String> = named
        .filter(|_| !plan.stage.is_terminal())
        .into_iter()
        .collect();
    let may_revert = plan.reversions < REVERSION_LIMIT;
    for command in usual
        .iter()
        .filter(|word| may_revert || **word != "revert {}")
    {
        let command = format!("agents plan {}", command.replace("{}", &id.to_string()));
        if !commands.contains(&command) {
            commands.push(command);
        }
    }
    commands
}
