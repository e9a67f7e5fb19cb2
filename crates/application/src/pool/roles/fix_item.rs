//! The operation `pool/fix`: takes one work item through its roles in the foreground.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

use cleveragents_domain::identity::Permission;
use cleveragents_domain::{
    Attempt, AttemptOutcome, GateResult, PoolDefinition, PoolRole, RegressionProof, Tier, WorkItem,
    WorkItemKind, WorkItemState,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::attempt_report::AttemptReport;
use super::item_run::{ItemRun, ItemStep};
use super::operations::{default_actors, definition, requires, runner};
use crate::operation::{Operation, OperationContext, OperationError, Requirement, Resolver};
use crate::work_item::WorkItemService;

/// Maximum number of steps of an item in one command.
const MAX_STEPS: usize = 40;

/// Takes a work item through triage, capture, fix and review, and merges the change if requested.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FixItem {
    /// Id of the work item.
    pub item: String,
    /// Actors or models of the tiers, cheapest first; the configured one when empty.
    #[serde(default)]
    pub tiers: Vec<String>,
    /// Actor or model of triage and capture; the configured one when not given.
    #[serde(default)]
    pub actor: Option<String>,
    /// Actor or model of the review. It must differ from those of the tiers.
    #[serde(default)]
    pub reviewer: Option<String>,
    /// Attempts per tier.
    #[serde(default = "default_attempts_per_tier")]
    pub attempts_per_tier: u32,
    /// Whether an approved change is merged.
    #[serde(default)]
    pub merge: bool,
    /// Only triage and capture.
    #[serde(default)]
    pub only_capture: bool,
}

const fn default_attempts_per_tier() -> u32 {
    2
}

/// The response of `pool/fix`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct FixReport {
    pub item: WorkItem,
    /// The attempts of this call, oldest first.
    pub attempts: Vec<ReportedAttempt>,
    /// The reason why the item went no further.
    pub stopped: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ReportedAttempt {
    pub role: PoolRole,
    pub number: u64,
    pub tier: String,
    pub actor: String,
    pub outcome: Option<AttemptOutcome>,
    pub reason: Option<String>,
    pub gates: Vec<GateResult>,
    pub regression: Option<RegressionProof>,
    pub cost_usd: f64,
    /// State of the item after the attempt.
    pub state: WorkItemState,
    /// The report of the attempt, rendered from its row.
    pub comment: String,
}

impl ReportedAttempt {
    fn new(attempt: &Attempt, item: &WorkItem, tier_number: u64, changed: Vec<String>) -> Self {
        let report = AttemptReport::from_attempt(attempt, item, tier_number, changed, None);
        Self {
            role: attempt.role,
            number: attempt.number,
            tier: attempt.tier.clone(),
            actor: attempt.actor.clone(),
            outcome: attempt.outcome,
            reason: attempt.reason.clone(),
            gates: attempt.gates.clone(),
            regression: attempt.regression.clone(),
            cost_usd: attempt.cost.as_usd(),
            state: item.state,
            comment: report.to_comment(),
        }
    }
}

/// The paths that the plan of an attempt changed.
fn changed_paths(
    context: &OperationContext,
    attempt: &Attempt,
) -> Result<Vec<String>, OperationError> {
    let Some(plan) = attempt
        .plan
        .filter(|_| matches!(attempt.role, PoolRole::Fix | PoolRole::Capture))
    else {
        return Ok(Vec::new());
    };
    let plan = context.plan_service().get(plan)?;
    let changes = context.plans().recorded_changes(&plan)?;
    let files = changes.files.into_iter().filter(|file| !file.is_folder);
    Ok(files.map(|file| file.path).collect())
}

impl Operation for FixItem {
    const NAME: &'static str = "pool/fix";
    const SUMMARY: &'static str = "Take a work item through triage, capture, fix, review and merge";
    const REQUIREMENT: Requirement = requires(Permission::Write);
    const RUNS_AGENTS: bool = true;
    type Response = FixReport;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.local_only("item")
    }

    fn run(self, context: &OperationContext) -> Result<FixReport, OperationError> {
        let id = WorkItemService::new(context.engine())
            .resolve(&self.item)?
            .id;
        let runner = runner(context);
        let run = ItemRun {
            engine: context.engine(),
            runner: &runner,
            cancel: context.cancel(),
        };
        let mut report = FixReport {
            item: run.item(id)?,
            attempts: Vec::new(),
            stopped: None,
        };
        for _ in 0..MAX_STEPS {
            if context.cancel().is_cancelled() {
                report.stopped = Some("it was cancelled".to_owned());
                break;
            }
            let role = match self.next_role(&report.item) {
                Ok(role) => role,
                Err(reason) => {
                    report.stopped = reason;
                    break;
                }
            };
            let pool = self.pool(context, role, &report.item.project)?;
            let title = &report.item.title;
            context
                .front_end()
                .observer
                .note(&format!("{role}: {title}"));
            match run.attempt(&pool, id)? {
                ItemStep::Stopped(reason) => {
                    report.item = run.item(id)?;
                    report.stopped = Some(reason);
                    break;
                }
                ItemStep::Attempted(attempted) => {
                    let attempt = &attempted.attempt;
                    let number = pool.tier_number(&attempt.tier);
                    let changed = changed_paths(context, attempt)?;
                    let reported = ReportedAttempt::new(attempt, &attempted.item, number, changed);
                    report.attempts.push(reported);
                    report.item = attempted.item;
                    if role == PoolRole::Merge && report.item.state == WorkItemState::Approved {
                        report.stopped.clone_from(&attempt.reason);
                        break;
                    }
                }
            }
        }
        Ok(report)
    }
}

impl FixItem {
    /// The role that takes the item next; otherwise the reason why none does.
    fn next_role(&self, item: &WorkItem) -> Result<PoolRole, Option<String>> {
        match item.state {
            WorkItemState::Unverified => Ok(PoolRole::Triage),
            WorkItemState::Verified if item.kind == WorkItemKind::Bug && !item.is_captured => {
                Ok(PoolRole::Capture)
            }
            WorkItemState::Completed => Err(None),
            _ if self.only_capture => Err(None),
            WorkItemState::Verified | WorkItemState::Captured | WorkItemState::InProgress => {
                Ok(PoolRole::Fix)
            }
            WorkItemState::InReview => Ok(PoolRole::Review),
            WorkItemState::Approved if self.merge => Ok(PoolRole::Merge),
            WorkItemState::Approved => Err(Some(
                "the change is approved and waits for its merge".to_owned(),
            )),
            state => Err(Some(
                item.reason
                    .clone()
                    .unwrap_or_else(|| format!("the item is {state}")),
            )),
        }
    }

    /// The pool of a role, with the tiers of the request.
    fn pool(
        &self,
        context: &OperationContext,
        role: PoolRole,
        project: &str,
    ) -> Result<PoolDefinition, OperationError> {
        let mut actors = default_actors(context);
        if let Some(actor) = &self.actor {
            actors.default.clone_from(actor);
        }
        if let Some(reviewer) = &self.reviewer {
            actors.reviewer.clone_from(reviewer);
        }
        let mut pool = definition(role.as_str(), project, &actors)?;
        if role == PoolRole::Fix {
            // Work that needs no test is fixed from the state in which triage leaves it.
            pool.states = role.default_states().to_vec();
            pool.attempts_per_tier = self.attempts_per_tier;
            let names = |actors: &[String]| -> Vec<Tier> {
                let tiers = actors.iter().zip(1..);
                tiers
                    .map(|(actor, number)| Tier {
                        name: format!("tier-{number}"),
                        actor: actor.clone(),
                    })
                    .collect()
            };
            pool.tiers = if self.tiers.is_empty() {
                names(std::slice::from_ref(&actors.default))
            } else {
                names(&self.tiers)
            };
        }
        Ok(pool)
    }
}
