//! [`PoolSnapshot`]: everything that a cycle decides on, read in one consistent read.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cleveragents_domain::{
    MicroUsd, PastAttempt, PoolDefinition, PoolRole, PoolState, Timestamp, WorkItemId,
};
use cleveragents_store::pools::ProjectBase;
use cleveragents_store::work_items::OpenItem;
use cleveragents_store::{Error, Reader, attempts, budgets, pools, work_items};

/// A pool with its state and the rest of its budgets.
#[derive(Debug, Clone)]
pub struct PoolView {
    pub definition: Arc<PoolDefinition>,
    pub state: PoolState,
    /// Amount that the day and total budgets still allow; `None` without a limit.
    pub budget_left: Option<MicroUsd>,
    /// Average cost of an attempt per tier, for estimates.
    pub average_costs: BTreeMap<String, MicroUsd>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningAttempt {
    pub item: WorkItemId,
    pub pool: String,
    pub role: PoolRole,
    pub started_at: Timestamp,
}

/// The state of all pools and open items at one moment.
#[derive(Debug, Clone)]
pub struct PoolSnapshot {
    pub now: Timestamp,
    /// Maximum number of attempts of all pools together.
    pub capacity: u64,
    /// By name.
    pub pools: Vec<PoolView>,
    /// Open items of the projects of the pools.
    pub items: Vec<OpenItem>,
    /// Attempts of the current round, oldest first.
    pub past: HashMap<WorkItemId, Vec<PastAttempt>>,
    pub running: Vec<RunningAttempt>,
    /// The open items that an item waits for.
    pub dependencies: HashMap<WorkItemId, Vec<WorkItemId>>,
    /// Bases of the projects that were checked.
    pub bases: HashMap<String, ProjectBase>,
}

/// Budget scope of a pool as a whole.
pub(super) fn total_scope(pool: &str) -> String {
    format!("pool {pool}")
}

/// Budget scope of a pool for the day of a time, in UTC.
pub(super) fn day_scope(pool: &str, now: Timestamp) -> String {
    let day = now.to_string();
    format!("pool {pool} {}", day.get(..10).unwrap_or_default())
}

/// Budget scope of an item.
pub(super) fn item_scope(item: WorkItemId) -> String {
    format!("work-item {item}")
}

fn budget_left(
    reader: &mut dyn Reader,
    pool: &PoolDefinition,
    now: Timestamp,
) -> Result<Option<MicroUsd>, Error> {
    let mut left: Option<u64> = None;
    for (scope, limit) in [
        (total_scope(&pool.name), pool.budgets.total),
        (day_scope(&pool.name, now), pool.budgets.day),
    ] {
        if let Some(limit) = limit {
            let used = budgets::used(reader, &scope)?;
            let rest = limit.0.saturating_sub(used.spent.0 + used.reserved.0);
            left = Some(left.map_or(rest, |left| left.min(rest)));
        }
    }
    Ok(left.map(MicroUsd))
}

impl PoolSnapshot {
    /// Reads the snapshot. `definitions` are all registered pools that can be read.
    pub fn read(
        reader: &mut dyn Reader,
        definitions: &[Arc<PoolDefinition>],
        capacity: u64,
    ) -> Result<Self, Error> {
        let now = Timestamp::now();
        let states: HashMap<String, PoolState> = pools::list(reader)?
            .into_iter()
            .map(|pool| (pool.name, pool.state))
            .collect();
        let mut views = Vec::with_capacity(definitions.len());
        let mut projects: Vec<&str> = Vec::new();
        for definition in definitions {
            views.push(PoolView {
                state: states
                    .get(&definition.name)
                    .copied()
                    .unwrap_or(PoolState::Stopped),
                budget_left: budget_left(reader, definition, now)?,
                average_costs: attempts::average_costs(reader, &definition.name)?
                    .into_iter()
                    .collect(),
                definition: Arc::clone(definition),
            });
            if !projects.contains(&definition.project.as_str()) {
                projects.push(&definition.project);
            }
        }
        views.sort_by(|one, other| one.definition.name.cmp(&other.definition.name));
        let mut snapshot = Self {
            now,
            capacity,
            pools: views,
            items: Vec::new(),
            past: HashMap::new(),
            running: Vec::new(),
            dependencies: HashMap::new(),
            bases: HashMap::new(),
        };
        for project in projects {
            snapshot
                .items
                .append(&mut work_items::open_items(reader, project)?);
            for (item, attempt) in attempts::past_of_project(reader, project)? {
                snapshot.past.entry(item).or_default().push(attempt);
            }
            for (item, on) in work_items::open_dependencies(reader, project)? {
                snapshot.dependencies.entry(item).or_default().push(on);
            }
            if let Some(base) = pools::base(reader, project)? {
                snapshot.bases.insert(project.to_owned(), base);
            }
        }
        snapshot.running = attempts::running(reader)?
            .into_iter()
            .map(|attempt| RunningAttempt {
                item: attempt.item,
                pool: attempt.pool,
                role: attempt.role,
                started_at: attempt.started_at,
            })
            .collect();
        Ok(snapshot)
    }

    /// Whether the base of a project fails its gates.
    pub fn is_base_red(&self, project: &str) -> bool {
        self.bases.get(project).is_some_and(|base| base.is_red)
    }
}
