//! `plan/errors`.

use cleveragents_domain::identity::Permission;
use cleveragents_domain::{PlanId, PlanPhase, PlanState, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{find_chosen, requires};
use crate::operation::{Operation, OperationContext, OperationError, Requirement, Resolver};
use crate::plan::{Trouble, TroubleKind};

/// Lists what failed for a plan, and the commands that may help.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListPlanErrors {
    /// Id, prefix of at least 6 characters, or name. Only local callers may leave it out, when one
    /// plan is going on or there is only one.
    #[serde(default)]
    pub reference: Option<String>,
}

/// The response of `plan/errors`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanErrors {
    pub plan_id: PlanId,
    pub phase: PlanPhase,
    pub state: PlanState,
    /// Why the plan stopped; `null` when it did not fail.
    pub current: Option<Map<String, Value>>,
    /// Oldest first.
    pub history: Vec<PlanErrorInfo>,
    /// Commands to run, the likeliest first.
    pub recovery: Vec<String>,
    pub summary: PlanErrorCount,
}

/// One failure.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanErrorInfo {
    pub kind: TroubleKind,
    pub time: Timestamp,
    /// The step, tool, validation or question.
    pub what: String,
    pub message: String,
    /// The id of the call or decision, or the path of the step.
    pub id: String,
    /// Whether a rollback undid it since.
    pub taken_back: bool,
    pub command: Option<String>,
    pub exit_code: Option<i64>,
    /// Everything that was printed and stored.
    pub output: Option<String>,
}

/// The number of failures, the current one included.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanErrorCount {
    pub total: usize,
}

impl From<Trouble> for PlanErrorInfo {
    fn from(trouble: Trouble) -> Self {
        Self {
            kind: trouble.kind,
            time: trouble.at,
            what: trouble.what,
            message: trouble.message,
            id: trouble.id,
            taken_back: trouble.is_undone,
            command: trouble.command,
            exit_code: trouble.exit_code,
            output: trouble.output,
        }
    }
}

impl Operation for ListPlanErrors {
    const NAME: &'static str = "plan/errors";
    const SUMMARY: &'static str = "List what failed for a plan, and the commands that may help";
    const REQUIREMENT: Requirement = requires(Permission::Read);
    type Response = PlanErrors;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.plan_or_only(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<PlanErrors, OperationError> {
        let plan = find_chosen(context, self.reference.as_deref())?;
        let trouble = context.plans().trouble(plan)?;
        let plan = trouble.plan;
        Ok(PlanErrors {
            plan_id: plan.id,
            phase: plan.stage.phase(),
            state: plan.shown_state(),
            summary: PlanErrorCount {
                total: trouble.history.len() + usize::from(trouble.error.is_some()),
            },
            current: trouble.error,
            history: trouble.history.into_iter().map(Into::into).collect(),
            recovery: trouble.recovery,
        })
    }
}
