//! [`PhaseFailure`]: the reason of a failed phase, as stored with the plan; [`Recovery`]: the proposed recovery.

use cleveragents_domain::{
    FailureCategory, Hint, Placeholder, Plan, PlanPhase, REVERSION_LIMIT, Suggestion, hint, suggest,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::built_in::DETERMINISTIC;

/// Reason of a failed phase.
#[derive(Debug)]
pub(super) struct PhaseFailure {
    pub(super) category: FailureCategory,
    pub(super) message: String,
    pub(super) facts: FailureFacts,
}

impl PhaseFailure {
    pub(super) fn new(category: FailureCategory, message: impl Into<String>) -> Self {
        Self {
            category,
            message: message.into(),
            facts: FailureFacts::default(),
        }
    }

    pub(super) fn with_facts(self, facts: FailureFacts) -> Self {
        Self { facts, ..self }
    }

    /// The error of the plan as it is stored and shown.
    pub(super) fn document(&self, phase: PlanPhase, recovery: &Recovery) -> Map<String, Value> {
        let mut error = Map::new();
        let mut insert = |name: &str, value: Value| error.insert(name.to_owned(), value);
        insert("message", self.message.clone().into());
        insert("error_category", self.category.as_str().into());
        insert("error_phase", phase.as_str().into());
        insert("recovery_hint", recovery.hint.neutral().into());
        insert("recovery_suggestions", json!(recovery.hint.suggestions()));
        if let Some(first) = &recovery.first {
            insert("recovery_command", json!(first));
        }
        if let Ok(Value::Object(facts)) = serde_json::to_value(&self.facts) {
            error.extend(facts);
        }
        error
    }
}

/// Details of a failure. The JSON omits fields that are `None`.
#[derive(Debug, Default, Serialize)]
pub(super) struct FailureFacts {
    /// The error code of the cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) is_retriable: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) retry_count: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_retries: Option<u32>,
    /// The title of the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) step: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) step_path: Option<String>,
    /// The checkpoint to roll back to, such as `cp_7`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) checkpoint: Option<String>,
    /// Number of validation attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) validation_attempts: Option<u64>,
    /// The details of the cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) details: Option<Value>,
}

/// The recovery that is proposed to the user.
#[derive(Debug)]
pub(super) struct Recovery {
    pub(super) hint: Hint,
    /// The first operation to run.
    pub(super) first: Option<Suggestion>,
}

impl Recovery {
    /// The recovery from a failure of the current phase of a plan.
    pub(super) fn for_failure(plan: &Plan, failure: &PhaseFailure) -> Self {
        let id = plan.id;
        let mut first = suggest::plan_execute(id);
        let hint = match failure.category {
            FailureCategory::Validation => validation_hint(plan),
            FailureCategory::Blocked => {
                first = suggest::plan_prompt(id, Placeholder("TEXT"));
                hint!(
                    "give guidance with {}, then continue with {}",
                    first.clone(),
                    suggest::plan_execute(id)
                )
            }
            FailureCategory::MergeConflict => hint!(
                "restore the files, or return to the strategy with {}; then {}",
                suggest::plan_revert(id),
                suggest::plan_apply(id)
            ),
            FailureCategory::Strategy | FailureCategory::Invariant
                if plan.stage.phase() == PlanPhase::Strategize =>
            {
                hint!(
                    "give guidance with {}; {} makes a new strategy",
                    suggest::plan_prompt(id, Placeholder("TEXT")),
                    suggest::plan_execute(id)
                )
            }
            FailureCategory::Invariant => {
                let back = if let Some(checkpoint) = &failure.facts.checkpoint {
                    first = suggest::plan_rollback(id, checkpoint);
                    hint!("roll the step back with {}", first.clone())
                } else {
                    hint!("return to the strategy with {}", suggest::plan_revert(id))
                };
                hint!(
                    "{}, give guidance with {}, and continue with {}",
                    back,
                    suggest::plan_prompt(id, Placeholder("TEXT")),
                    suggest::plan_execute(id)
                )
            }
            FailureCategory::Strategy
            | FailureCategory::Failure
            | FailureCategory::Transient
            | FailureCategory::Resource => hint!(
                "{} shows the details; {} retries from where it stopped",
                suggest::plan_errors(id),
                suggest::plan_execute(id)
            ),
        };
        Self {
            hint,
            first: Some(first),
        }
    }

    /// The recovery from a result that may not be applied.
    pub(super) fn of_constraint(plan: &Plan) -> Self {
        let id = plan.id;
        Self {
            hint: hint!(
                "{} and {}, or {}",
                suggest::plan_prompt(id, Placeholder("TEXT")),
                suggest::plan_execute(id),
                suggest::plan_revert(id)
            ),
            first: None,
        }
    }
}

fn validation_hint(plan: &Plan) -> Hint {
    let id = plan.id;
    let back = if plan.reversions < REVERSION_LIMIT {
        hint!(
            ", or return to the strategy with {}",
            suggest::plan_revert(id)
        )
    } else {
        Hint::default()
    };
    // Guidance has no effect without a model.
    let fix = if plan.inputs.actors.execution == DETERMINISTIC {
        hint!("retry with {}", suggest::plan_execute(id))
    } else {
        hint!(
            "give guidance for the fix with {} and continue with {}",
            suggest::plan_prompt(id, Placeholder("TEXT")),
            suggest::plan_execute(id)
        )
    };
    hint!(
        "{} shows the complete output; {}{}",
        suggest::plan_errors(id),
        fix,
        back
    )
}
