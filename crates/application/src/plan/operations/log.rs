//! `plan/log`.

use cleveragents_domain::identity::Permission;
use cleveragents_domain::{Event, EventKind, PlanId, Position, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{find_chosen, requires};
use crate::operation::{Operation, OperationContext, OperationError, Requirement, Resolver};
use crate::plan::query::describe_call;
use crate::plan::{FailedCheck, PlanQueries, PlanQueryError, describe_event};

/// Reads the log of a plan: its last entries, or its first entries after a position.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadPlanLog {
    /// Id, prefix of at least 6 characters, or name. Only local callers may leave it out; it
    /// then defaults to the current plan of their folder.
    #[serde(default)]
    pub reference: Option<String>,
    /// Maximum number of entries.
    #[serde(default = "default_limit")]
    pub limit: u64,
    /// Read the first entries after this position instead of the last ones.
    #[serde(default)]
    pub after: Option<Position>,
}

const fn default_limit() -> u64 {
    100
}

/// The response of `plan/log`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanLog {
    pub plan_id: PlanId,
    /// In chronological order.
    pub events: Vec<PlanLogEntry>,
    pub summary: PlanLogSummary,
    /// True if the plan was applied or cancelled before the log was read: then its run adds no more entries.
    pub is_terminal: bool,
}

/// One entry of the log of a plan.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanLogEntry {
    pub position: Position,
    /// For example `plan.created`. Newer servers may have kinds that older clients do not know.
    pub kind: String,
    pub time: Timestamp,
    /// A short title of the event.
    pub what: String,
    pub detail: String,
    pub payload: Value,
    /// The validation that failed, with at most 64 KiB of its output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_check: Option<FailedCheck>,
}

impl From<Event> for PlanLogEntry {
    fn from(event: Event) -> Self {
        let (what, detail) = describe_event(&event);
        Self {
            position: event.position,
            kind: event.kind.as_str().to_owned(),
            time: event.occurred_at,
            what: what.to_owned(),
            detail,
            payload: event.payload,
            failed_check: None,
        }
    }
}

/// The range of entries that were read.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PlanLogSummary {
    pub shown: usize,
    pub last_position: Option<Position>,
}

impl Operation for ReadPlanLog {
    const NAME: &'static str = "plan/log";
    const SUMMARY: &'static str = "Read the log of a plan";
    const REQUIREMENT: Requirement = requires(Permission::Read);
    type Response = PlanLog;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.given_or_only_plan(&mut self.reference)
    }

    fn run(self, context: &OperationContext) -> Result<PlanLog, OperationError> {
        // The plan is read before the log, so that the log of a finished plan contains its last event.
        let plan = find_chosen(context, self.reference.as_deref())?;
        let plans = context.plans();
        let events = match self.after {
            Some(after) => plans.log(plan.id, after, self.limit)?,
            None => plans.newest_log(plan.id, self.limit)?,
        };
        let events = entries(&plans, plan.id, events)?;
        Ok(PlanLog {
            plan_id: plan.id,
            summary: PlanLogSummary {
                shown: events.len(),
                last_position: events.last().map(|event| event.position),
            },
            events,
            is_terminal: plan.stage.is_terminal(),
        })
    }
}

/// Converts events to entries, with the arguments of tool calls and the outputs of failed validations.
fn entries(
    plans: &PlanQueries,
    plan: PlanId,
    events: Vec<Event>,
) -> Result<Vec<PlanLogEntry>, PlanQueryError> {
    let reports_failure = |event: &Event| {
        event.kind == EventKind::ValidationJudged && event.payload["passed"] == json!(false)
    };
    let results = if events.iter().any(reports_failure) {
        plans.validations(plan)?
    } else {
        Vec::new()
    };
    let is_call =
        |event: &Event| matches!(event.kind, EventKind::ToolFinished | EventKind::ToolRefused);
    let calls = if events.iter().any(is_call) {
        plans.calls(plan)?
    } else {
        Vec::new()
    };
    let entry = |event: Event| {
        let call = is_call(&event)
            .then(|| {
                calls
                    .iter()
                    .find(|call| call.id.to_string() == event.subject)
            })
            .flatten();
        if let Some(call) = call {
            return Ok(PlanLogEntry {
                detail: describe_call(call),
                ..PlanLogEntry::from(event)
            });
        }
        let number = event.payload["number"].as_u64();
        let stored = reports_failure(&event)
            .then(|| results.iter().find(|stored| Some(stored.number) == number))
            .flatten();
        let failed_check = match stored {
            Some(stored) => plans.failed_check(stored)?.map(FailedCheck::bounded),
            None => None,
        };
        Ok(PlanLogEntry {
            failed_check,
            ..PlanLogEntry::from(event)
        })
    };
    events.into_iter().map(entry).collect()
}
