//! The operations on ready-made pools, and the roles in the foreground: `pool/library`, `pool/hunt`, `pool/fix` and `pool/run`.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

use std::path::PathBuf;
use std::sync::Arc;

use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::{
    Attempt, AttemptOutcome, Code, CodeLocation, GateResult, NewWorkItem, PoolDefinition, PoolRole,
    RegressionProof, TransitionCause, WorkItem, WorkItemId, WorkItemKind, WorkItemState,
};
use cleveragents_store::work_items::{self, ChangeOrigin, ItemFilter};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::attempt_report::{AttemptReport, GateLine};
use super::item_run::{ItemRun, ItemStep};
use super::modules::modules;
pub use super::run_pools::{PoolRun, RunPools};
use super::runner::PlanRoleRunner;
use crate::observer::Observer;
use crate::operation::{
    NamedKind, Operation, OperationContext, OperationEntry, OperationError, Requirement, Resolver,
};
use crate::plan::EXECUTOR;
use crate::pool::library::{PoolActors, READY_MADE_POOLS, ReadyMadePool};
use crate::runtime::SafetySelection;

/// The operations that callers from other machines may use. `pool/hunt`, `pool/fix` and `pool/run` are for callers on
/// the machine of the database, like the sources of work items: they run commands of the project.
pub(crate) static ENTRIES: &[OperationEntry] = &[OperationEntry::new::<ListReadyMadePools>()];

/// Maximum number of steps of an item in one command.
const MAX_STEPS: usize = 40;

pub(super) const fn requires(permission: Permission) -> Requirement {
    Requirement::new(Scope::Plans, permission)
}

/// Lists the ready-made pools with their files.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListReadyMadePools {
    /// Only the pool with this name.
    #[serde(default)]
    pub name: Option<String>,
    /// The project of the files; `local/my-project` when not given.
    #[serde(default)]
    pub project: Option<String>,
}

/// The response of `pool/library`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ReadyMadePoolList {
    pub pools: Vec<ReadyMadePoolFile>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ReadyMadePoolFile {
    pub name: String,
    pub description: String,
    /// The pool as a file.
    pub file: String,
}

impl Operation for ListReadyMadePools {
    const NAME: &'static str = "pool/library";
    const SUMMARY: &'static str = "List the ready-made pools with their files";
    const REQUIREMENT: Requirement = requires(Permission::Read);
    type Response = ReadyMadePoolList;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        match &mut self.project {
            Some(project) => resolver.read_name(project, NamedKind::Project),
            None => Ok(()),
        }
    }

    fn run(self, context: &OperationContext) -> Result<ReadyMadePoolList, OperationError> {
        let project = self.project.as_deref().unwrap_or("local/my-project");
        let actors = default_actors(context);
        let chosen: Vec<ReadyMadePool> = match &self.name {
            None => READY_MADE_POOLS.to_vec(),
            Some(name) => vec![ReadyMadePool::find(name).ok_or_else(|| {
                let names: Vec<&str> = READY_MADE_POOLS.iter().map(|pool| pool.name).collect();
                OperationError::new(
                    Code::ReadyMadePoolNotFound,
                    format!("there is no ready-made pool `{name}`"),
                )
                .with_hint(format!("choose one of: {}", names.join(", ")))
            })?],
        };
        let pools = chosen.into_iter().map(|pool| ReadyMadePoolFile {
            name: pool.name.to_owned(),
            description: pool.description().to_owned(),
            file: pool.file(project, &actors),
        });
        Ok(ReadyMadePoolList {
            pools: pools.collect(),
        })
    }
}

/// The configured actors as the actors of all tiers.
fn default_actors(context: &OperationContext) -> PoolActors {
    let configured = &context.settings().plans.actors;
    let default = configured
        .execution
        .clone()
        .unwrap_or_else(|| EXECUTOR.to_owned());
    let reviewer = configured.review.clone();
    PoolActors {
        cheap: default.clone(),
        frontier: default.clone(),
        default,
        reviewer: reviewer.unwrap_or_else(|| crate::plan::REVIEWER.to_owned()),
    }
}

/// The definition of a ready-made pool.
fn definition(
    name: &str,
    project: &str,
    actors: &PoolActors,
) -> Result<PoolDefinition, OperationError> {
    let pool = ReadyMadePool::find(name)
        .ok_or_else(|| OperationError::internal(format!("there is no ready-made pool `{name}`")))?;
    PoolDefinition::read(&pool.file(project, actors), &|_| None).map_err(|fault| {
        OperationError::usage(format!(
            "the pool `{name}` cannot be used: {}",
            fault.fault().message
        ))
    })
}

/// Hunts for defects in modules of a project, and files the findings as work items.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HuntDefects {
    pub project: String,
    /// A folder or file of the project; the whole project when not given.
    #[serde(default)]
    pub path: Option<String>,
    /// Actor or model; the configured one when not given.
    #[serde(default)]
    pub actor: Option<String>,
    /// Maximum number of modules.
    #[serde(default = "twenty")]
    pub limit: u64,
}

const fn twenty() -> u64 {
    20
}

/// The response of `pool/hunt`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct HuntReport {
    pub project: String,
    pub modules: Vec<HuntedModule>,
    /// The items that the findings belong to.
    pub items: Vec<FoundItem>,
    /// Number of modules that the limit left out.
    pub left_out: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct HuntedModule {
    pub path: String,
    /// The item of the hunt.
    pub item: WorkItemId,
    pub outcome: Option<AttemptOutcome>,
    /// Accepted and rejected findings, and failures of the environment.
    pub summary: String,
    pub reason: Option<String>,
    pub cost_usd: f64,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct FoundItem {
    pub item: WorkItem,
    /// `false` for a sighting of an item that existed before.
    pub is_new: bool,
}

/// The runner and the cancellation of one operation.
pub(super) fn runner(context: &OperationContext) -> PlanRoleRunner {
    let runtime_context = context.clone();
    PlanRoleRunner {
        engine: context.engine(),
        plans: context.plan_service(),
        runtime: Arc::new(move || runtime_context.runtime(&SafetySelection::default(), None)),
        actors: context.settings().plans.actors.clone(),
        variables: Arc::clone(&context.settings().process.variables),
        observer: Arc::clone(&context.front_end().observer) as Arc<dyn Observer>,
    }
}

/// The folder of the only resource of a project.
fn location(context: &OperationContext, project: &str) -> Result<PathBuf, OperationError> {
    let targets = context.projects().targets(project)?;
    let folders: Vec<PathBuf> = targets
        .iter()
        .filter_map(|target| target.resource.location.as_deref().map(PathBuf::from))
        .collect();
    match folders.as_slice() {
        [folder] => Ok(folder.clone()),
        _ => Err(OperationError::new(
            Code::PoolProjectUnsuitable,
            format!(
                "the project `{project}` links {} folders; the roles of pools work on exactly one",
                folders.len()
            ),
        )),
    }
}

impl Operation for HuntDefects {
    const NAME: &'static str = "pool/hunt";
    const SUMMARY: &'static str =
        "Hunt for defects in modules, and file the findings as work items";
    const REQUIREMENT: Requirement = requires(Permission::Write);
    const RUNS_AGENTS: bool = true;
    type Response = HuntReport;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.local_only("project")?;
        resolver.name(&mut self.project, NamedKind::Project)
    }

    fn run(self, context: &OperationContext) -> Result<HuntReport, OperationError> {
        let folder = location(context, &self.project)?;
        let below = self.path.as_deref().unwrap_or("");
        let mut paths = modules(&folder, below);
        if paths.is_empty() {
            let place = if below.is_empty() {
                "the project"
            } else {
                below
            };
            return Err(OperationError::new(
                Code::NoModules,
                format!("no source file of at least 120 bytes is in {place}"),
            ));
        }
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let left_out = paths.len().saturating_sub(limit) as u64;
        paths.truncate(limit);
        let mut actors = default_actors(context);
        if let Some(actor) = self.actor {
            actors.default = actor;
        }
        let pool = definition("hunt", &self.project, &actors)?;
        let runner = runner(context);
        let run = ItemRun {
            engine: context.engine(),
            runner: &runner,
            cancel: context.cancel(),
        };
        let (mut modules, mut items): (Vec<HuntedModule>, Vec<FoundItem>) =
            (Vec::new(), Vec::new());
        for path in paths {
            if context.cancel().is_cancelled() {
                break;
            }
            let id = hunt_item(context, &self.project, &path)?;
            context
                .front_end()
                .observer
                .note(&format!("hunting in {path}"));
            let attempted = match run.attempt(&pool, id)? {
                ItemStep::Attempted(attempted) => attempted,
                ItemStep::Stopped(reason) => {
                    modules.push(HuntedModule {
                        path,
                        item: id,
                        outcome: None,
                        summary: String::new(),
                        reason: Some(reason),
                        cost_usd: 0.0,
                    });
                    continue;
                }
            };
            let attempt = &attempted.attempt;
            modules.push(HuntedModule {
                path,
                item: id,
                outcome: attempt.outcome,
                summary: attempt.summary.clone(),
                reason: attempt.reason.clone(),
                cost_usd: attempt.cost.as_usd(),
            });
            items.extend(found_items(context, &self.project, attempt)?);
        }
        Ok(HuntReport {
            project: self.project,
            modules,
            items,
            left_out,
        })
    }
}

/// The open items that an attempt of a hunt reported.
fn found_items(
    context: &OperationContext,
    project: &str,
    attempt: &Attempt,
) -> Result<Vec<FoundItem>, OperationError> {
    const KNOWN: u64 = 1_000;
    let Some(plan) = attempt.plan else {
        return Ok(Vec::new());
    };
    let filter = ItemFilter {
        project: Some(project.to_owned()),
        kinds: vec![WorkItemKind::Bug],
        visible: cleveragents_domain::identity::Namespaces::All,
        ..ItemFilter::default()
    };
    let found = context.engine().read(|reader| {
        let mut found = Vec::new();
        for item in work_items::page(reader, &filter, None, KNOWN)? {
            let sightings = work_items::sightings(reader, item.id)?;
            if sightings.iter().any(|sighting| sighting.plan == Some(plan)) {
                let is_new = sightings.iter().all(|sighting| sighting.plan == Some(plan));
                found.push(FoundItem { item, is_new });
            }
        }
        Ok::<_, cleveragents_store::Error>(found)
    })?;
    Ok(found)
}

/// Creates the item of a hunt, or finds an open one of the same module.
fn hunt_item(
    context: &OperationContext,
    project: &str,
    path: &str,
) -> Result<WorkItemId, OperationError> {
    const KNOWN: u64 = 500;
    let title = format!("Hunt for defects in `{path}`");
    let mut new = NewWorkItem::new(project, WorkItemKind::Task, title.clone());
    new.state = WorkItemState::Verified;
    new.labels = ["hunt".to_owned()].into();
    new.location = Some(CodeLocation {
        path: path.to_owned(),
        symbol: None,
        line_start: 1,
        line_end: 1,
        commit: None,
        quote: String::new(),
    });
    let by = context.caller().identity().to_owned();
    let filter = ItemFilter {
        project: Some(project.to_owned()),
        states: vec![WorkItemState::Verified],
        kinds: vec![WorkItemKind::Task],
        visible: cleveragents_domain::identity::Namespaces::All,
        ..ItemFilter::default()
    };
    let id = context.engine().write(move |unit| {
        let open = work_items::page(unit, &filter, None, KNOWN)?;
        if let Some(known) = open.iter().find(|item| item.title == title) {
            return Ok::<_, OperationError>(Some(known.id));
        }
        let origin = ChangeOrigin::new(TransitionCause::Person, by.clone());
        Ok(work_items::insert(unit, &new, &origin)?)
    })?;
    id.ok_or_else(|| OperationError::internal("the item of a hunt was not stored"))
}

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
        let gate = |gate: &GateResult| GateLine {
            name: gate.name.clone(),
            command: gate.command.clone(),
            scope: gate.scope.clone(),
            exit_code: gate.exit_code,
            output_tail: gate.output_tail.clone(),
        };
        let report = AttemptReport {
            item: item.id.to_string(),
            title: item.title.clone(),
            tier: tier_number,
            actor: attempt.actor.clone(),
            outcome: attempt
                .outcome
                .map(|outcome| outcome.as_str().replace('_', " "))
                .unwrap_or_default(),
            reason: attempt.reason.clone(),
            base_commit: attempt.base.clone().unwrap_or_default(),
            plan: attempt
                .plan
                .map(|plan| plan.to_string())
                .unwrap_or_default(),
            changed,
            gates: attempt.gates.iter().map(gate).collect(),
            cost_usd: attempt.cost.as_usd(),
            pool: attempt.pool.clone(),
        };
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
        let id = self.find(context)?;
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
                    let tiers = pool.tiers.iter();
                    let number = tiers.zip(1..).find(|(tier, _)| tier.name == attempt.tier);
                    let number = number.map_or(1, |(_, number)| number);
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
    /// Looks up the item by its id or a prefix.
    fn find(&self, context: &OperationContext) -> Result<WorkItemId, OperationError> {
        if let Ok(id) = self.item.parse() {
            return Ok(id);
        }
        let prefix = self.item.to_ascii_uppercase();
        let found = context
            .engine()
            .read(|reader| work_items::with_prefix(reader, &prefix, 2));
        match found?.as_slice() {
            [only] => Ok(only.id),
            [] => Err(OperationError::new(
                Code::WorkItemNotFound,
                format!("there is no work item `{}`", self.item),
            )),
            _ => Err(OperationError::new(
                Code::AmbiguousWorkItem,
                format!("several work items start with `{}`", self.item),
            )),
        }
    }

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
            let names = |actors: &[String]| -> Vec<cleveragents_domain::Tier> {
                let tiers = actors.iter().zip(1..);
                tiers
                    .map(|(actor, number)| cleveragents_domain::Tier {
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
