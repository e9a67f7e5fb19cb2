//! The operations on ready-made pools, and the roles in the foreground: `pool/library`, `pool/hunt`, `pool/fix` and `pool/run`.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

use std::path::PathBuf;
use std::sync::Arc;

use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::{
    Attempt, AttemptOutcome, Code, CodeLocation, NewWorkItem, PoolDefinition, TransitionCause,
    WorkItem, WorkItemId, WorkItemKind, WorkItemState,
};
use cleveragents_store::work_items::{self, ChangeOrigin, ItemFilter};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use super::fix_item::{FixItem, FixReport, ReportedAttempt};
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
pub(super) fn default_actors(context: &OperationContext) -> PoolActors {
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
pub(super) fn definition(
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
    /// Whether the modules only become work items, for a pool of the role `hunt`.
    #[serde(default)]
    pub queue: bool,
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
            if self.queue {
                modules.push(HuntedModule {
                    path,
                    item: id,
                    outcome: None,
                    summary: "waits for a pool".to_owned(),
                    reason: None,
                    cost_usd: 0.0,
                });
                continue;
            }
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
