//! `plan/errors`.

use cleveragents_domain::identity::Permission;
use cleveragents_domain::{PlanId, PlanPhase, PlanState, Suggestion, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{find_chosen, requires};
use crate::operation::{Operation, OperationContext, OperationError, Requirement, Resolver};
use crate::plan::{PlanFailure, PlanFailureKind};

/// Lists the failures of a plan, and operations to recover.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListPlanErrors {
    /// Id, prefix of at least 6 characters, or name. Only local callers may leave it out; it
    /// then defaults to the current plan of their folder.
    #[serde(default)]
    pub reference: Option<String>,
}

/// The response of `plan/errors`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanErrors {
    pub plan_id: PlanId,
    pub phase: PlanPhase,
    pub state: PlanState,
    /// Reason of the failure; `null` when the plan did not fail.
    pub current: Option<Map<String, Value>>,
    /// Oldest first.
    pub history: Vec<PlanErrorInfo>,
    /// Operations to run, the most useful first.
    pub recovery: Vec<Suggestion>,
    pub summary: PlanErrorCount,
}

/// One failure.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanErrorInfo {
    pub kind: PlanFailureKind,
    pub time: Timestamp,
    /// The step, tool, validation or question.
    pub what: String,
    pub message: String,
    /// The id of the call or decision, or the path of the step.
    pub id: String,
    /// True if a later rollback undid the failed work.
    #[serde(rename = "taken_back")]
    pub is_rolled_back: bool,
    pub command: Option<String>,
    pub exit_code: Option<i64>,
    /// The complete stored output.
    pub output: Option<String>,
}

/// The number of failures, the current one included.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanErrorCount {
    pub total: usize,
}

impl From<PlanFailure> for PlanErrorInfo {
    fn from(failure: PlanFailure) -> Self {
        Self {
            kind: failure.kind,
            time: failure.at,
            what: failure.what,
            message: failure.message,
            id: failure.id,
            is_rolled_back: failure.is_undone,
            command: failure.command,
            exit_code: failure.exit_code,
            output: failure.output,
        }
    }
}

impl Operation for ListPlanErrors {
    const NAME: &'static str = "plan/errors";
    const SUMMARY: &'static str = "List the failures of a plan, and commands to recover";
    const REQUIREMENT: Requirement = requires(Permission::Read);
    type Response = PlanErrors;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.given_or_only_plan(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<PlanErrors, OperationError> {
        let plan = find_chosen(context, self.reference.as_deref())?;
        let failures = context.plans().failures(plan)?;
        let plan = failures.plan;
        Ok(PlanErrors {
            plan_id: plan.id,
            phase: plan.stage.phase(),
            state: plan.shown_state(),
            summary: PlanErrorCount {
                total: failures.history.len() + usize::from(failures.error.is_some()),
            },
            current: failures.error,
            history: failures.history.into_iter().map(Into::into).collect(),
            recovery: failures.recovery,
        })
    }
}
