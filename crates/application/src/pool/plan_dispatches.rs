//! [`plan_dispatches`]: the pure decision of a cycle. The same snapshot always gives the same plan.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use cleveragents_domain::{
    MicroUsd, NextAttempt, PoolDefinition, PoolRole, PoolState, Priority, Tier, Timestamp,
    WorkItemId, WorkItemState,
};
use cleveragents_store::work_items::OpenItem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::snapshot::{PoolSnapshot, PoolView};

/// Reason for which an item is not dispatched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum WaitReason {
    /// An attempt runs.
    Running { pool: String },
    /// No pool takes items of this kind in this state.
    NoPool,
    /// It waits for the user.
    Person { state: WorkItemState },
    /// It waits for other items.
    Dependencies { items: Vec<WorkItemId> },
    /// The base fails its gates; only work that fixes it starts.
    RedBase { gates: Vec<String> },
    /// The pool is not active.
    PoolState { pool: String, state: PoolState },
    /// All workers of the pool are busy.
    Workers { pool: String, limit: u64 },
    /// All workers of all pools are busy.
    Capacity { limit: u64 },
    /// The pool has as many unmerged changes as it may have.
    OpenChanges { pool: String, limit: u64 },
    /// A queue behind the pool is full.
    QueueFull {
        pool: String,
        state: WorkItemState,
        limit: u64,
    },
    /// The budget of the pool does not allow another attempt.
    Budget { pool: String },
}

impl fmt::Display for WaitReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running { pool } => write!(formatter, "an attempt of {pool} runs"),
            Self::NoPool => formatter.write_str("no pool takes it"),
            Self::Person { state } => write!(formatter, "{state}: waits for the user"),
            Self::Dependencies { items } => {
                write!(formatter, "waits for {} open items", items.len())
            }
            Self::RedBase { gates } => {
                write!(formatter, "the base fails its gates: {}", gates.join(", "))
            }
            Self::PoolState { pool, state } => write!(formatter, "{pool} is {state}"),
            Self::Workers { pool, limit } => {
                write!(formatter, "all {limit} workers of {pool} are busy")
            }
            Self::Capacity { limit } => write!(formatter, "all {limit} workers are busy"),
            Self::OpenChanges { pool, limit } => {
                write!(
                    formatter,
                    "{pool} has {limit} unmerged changes, its maximum"
                )
            }
            Self::QueueFull { pool, state, limit } => {
                write!(
                    formatter,
                    "{pool} stops while {limit} items are {state}, its maximum"
                )
            }
            Self::Budget { pool } => write!(formatter, "the budget of {pool} is used up"),
        }
    }
}

/// An attempt to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedDispatch {
    /// Position of the pool in the snapshot.
    pub pool: usize,
    pub item: WorkItemId,
    pub tier: Tier,
    /// Number of the attempt within the tier.
    pub number: u32,
    /// Average cost of such attempts, or the budget of one.
    pub estimated_cost: MicroUsd,
}

/// An item that a rule hands to the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Escalation {
    pub item: WorkItemId,
    pub state: WorkItemState,
    pub reason: String,
    /// Pool whose rule it is.
    pub pool: usize,
    pub are_tiers_exhausted: bool,
}

/// The decision of a cycle.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DispatchPlan {
    /// In the order in which they start.
    pub dispatches: Vec<PlannedDispatch>,
    /// Eligible items that did not get a worker, per pool, in their order: the next ones if an item of `dispatches` is
    /// gone.
    pub alternates: HashMap<usize, Vec<WorkItemId>>,
    pub escalations: Vec<Escalation>,
    /// Every open item without a dispatch and the reason.
    pub waits: Vec<(WorkItemId, WaitReason)>,
    /// Items that no pool takes.
    pub ownerless: Vec<WorkItemId>,
    /// Items that wait in a queue for longer than the deadline of their pool, per pool.
    pub overdue: BTreeMap<usize, u64>,
}

/// Position of an item in the order of a pool; smaller is earlier.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct OrderKey {
    priority: u64,
    is_new: bool,
    milestone: usize,
    moscow: u64,
    created_at: Timestamp,
    item: WorkItemId,
}

/// An item that a pool may start.
struct Candidate<'a> {
    key: OrderKey,
    item: &'a OpenItem,
    tier: Tier,
    number: u32,
}

/// Compares two milestones: numbers by value, `v1.9` before `v1.10`.
fn compare_milestones(one: &str, other: &str) -> Ordering {
    let parts = |text: &str| -> Vec<(bool, u64, String)> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let is_digit = first.is_ascii_digit();
            let end = rest
                .find(|letter: char| letter.is_ascii_digit() != is_digit)
                .unwrap_or(rest.len());
            let (part, after) = rest.split_at(end);
            parts.push((
                is_digit,
                part.parse().unwrap_or(u64::MAX),
                if is_digit {
                    String::new()
                } else {
                    part.to_lowercase()
                },
            ));
            rest = after;
        }
        parts
    };
    parts(one).cmp(&parts(other))
}

struct Planner<'a> {
    snapshot: &'a PoolSnapshot,
    milestones: HashMap<&'a str, usize>,
    busy: HashMap<WorkItemId, &'a str>,
    /// Running attempts per pool, with those planned so far.
    running: HashMap<&'a str, u64>,
    running_total: u64,
    open_changes: HashMap<&'a str, u64>,
    queue_lengths: HashMap<(&'a str, WorkItemState), u64>,
    planned_cost: HashMap<usize, u64>,
    plan: DispatchPlan,
}

/// Decides which attempts start now, and why every other item waits.
pub fn plan_dispatches(snapshot: &PoolSnapshot) -> DispatchPlan {
    let mut planner = Planner::new(snapshot);
    let mut queues = planner.queues();
    planner.fill_slots(&mut queues);
    planner.explain_rest(&queues);
    planner.plan
}

impl<'a> Planner<'a> {
    fn new(snapshot: &'a PoolSnapshot) -> Self {
        let mut names: Vec<&str> = snapshot
            .items
            .iter()
            .filter_map(|item| item.milestone.as_deref())
            .collect();
        names.sort_unstable();
        names.dedup();
        names.sort_by(|one, other| compare_milestones(one, other));
        let mut planner = Self {
            snapshot,
            milestones: names
                .into_iter()
                .enumerate()
                .map(|(index, name)| (name, index))
                .collect(),
            busy: HashMap::new(),
            running: HashMap::new(),
            running_total: snapshot.running.len() as u64,
            open_changes: HashMap::new(),
            queue_lengths: HashMap::new(),
            planned_cost: HashMap::new(),
            plan: DispatchPlan::default(),
        };
        for attempt in &snapshot.running {
            planner.busy.insert(attempt.item, &attempt.pool);
            *planner.running.entry(&attempt.pool).or_default() += 1;
        }
        for item in &snapshot.items {
            let key = (item.project.as_str(), item.state);
            *planner.queue_lengths.entry(key).or_default() += 1;
            if let (Some(pool), true) = (&item.change_pool, item.state.has_open_change()) {
                *planner.open_changes.entry(pool).or_default() += 1;
            }
        }
        planner
    }

    /// The items that each pool may start, in its order. Items for the user are escalated.
    fn queues(&mut self) -> Vec<Vec<Candidate<'a>>> {
        let mut queues: Vec<Vec<Candidate<'a>>> =
            self.snapshot.pools.iter().map(|_| Vec::new()).collect();
        for item in &self.snapshot.items {
            if let Some(reason) = self.common_wait(item) {
                self.plan.waits.push((item.id, reason));
                continue;
            }
            self.queue_item(item, &mut queues);
        }
        for queue in &mut queues {
            queue.sort_by(|one, other| one.key.cmp(&other.key));
        }
        queues
    }

    /// A reason that holds for every pool.
    fn common_wait(&self, item: &OpenItem) -> Option<WaitReason> {
        if let Some(pool) = self.busy.get(&item.id) {
            let pool = (*pool).to_owned();
            return Some(WaitReason::Running { pool });
        }
        if item.state.waits_for_person() {
            return Some(WaitReason::Person { state: item.state });
        }
        let waits_for = self.snapshot.dependencies.get(&item.id)?;
        // Triage does not depend on other work.
        (item.state != WorkItemState::Unverified).then(|| WaitReason::Dependencies {
            items: waits_for.clone(),
        })
    }

    fn queue_item(&mut self, item: &'a OpenItem, queues: &mut [Vec<Candidate<'a>>]) {
        let snapshot = self.snapshot;
        let mut wait = None;
        let mut is_taken = false;
        for (index, pool) in snapshot.pools.iter().enumerate() {
            let definition = &*pool.definition;
            if !definition.takes(item.facts()) {
                continue;
            }
            is_taken = true;
            if self.escalate_overdue(item, index, definition) {
                return;
            }
            if let Some(reason) = Self::pool_wait(snapshot, item, pool) {
                wait.get_or_insert(reason);
                continue;
            }
            let past = snapshot.past.get(&item.id).map_or(&[][..], Vec::as_slice);
            match definition
                .tier_rule()
                .next(definition.role, item.round, past)
            {
                NextAttempt::Run { tier, number, .. } => queues[index].push(Candidate {
                    key: self.order(item, definition),
                    item,
                    tier,
                    number,
                }),
                NextAttempt::ReferToUser {
                    reason,
                    are_tiers_exhausted,
                } => {
                    self.plan.escalations.push(Escalation {
                        item: item.id,
                        state: item.state,
                        reason,
                        pool: index,
                        are_tiers_exhausted,
                    });
                    return;
                }
            }
            wait = None;
        }
        if !is_taken {
            self.plan.ownerless.push(item.id);
            self.plan.waits.push((item.id, WaitReason::NoPool));
        } else if let Some(reason) = wait
            && !queues
                .iter()
                .any(|queue| queue.last().is_some_and(|last| last.item.id == item.id))
        {
            self.plan.waits.push((item.id, reason));
        }
    }

    /// Hands an item with an open change to the user when its deadline is over. Items without a change stay in their
    /// queue, where age raises their priority, and are counted.
    fn escalate_overdue(
        &mut self,
        item: &OpenItem,
        index: usize,
        definition: &PoolDefinition,
    ) -> bool {
        let waited = self.snapshot.now.seconds_since(item.state_since);
        let deadline = definition.limits.deadline_seconds;
        #[expect(clippy::cast_precision_loss, reason = "deadlines are below 100 years")]
        if waited <= deadline as f64 {
            return false;
        }
        if !item.state.has_open_change() {
            *self.plan.overdue.entry(index).or_default() += 1;
            return false;
        }
        self.plan.escalations.push(Escalation {
            item: item.id,
            state: item.state,
            reason: format!(
                "it was {} for longer than the deadline of the pool {}",
                item.state, definition.name
            ),
            pool: index,
            are_tiers_exhausted: false,
        });
        true
    }

    /// A reason for which a pool does not start an item, whatever its number of workers.
    fn pool_wait(snapshot: &PoolSnapshot, item: &OpenItem, pool: &PoolView) -> Option<WaitReason> {
        let definition = &*pool.definition;
        let is_started = item.state.has_open_change();
        if !pool.state.may_start() || (pool.state == PoolState::Draining && !is_started) {
            return Some(WaitReason::PoolState {
                pool: definition.name.clone(),
                state: pool.state,
            });
        }
        let is_red = definition.role != PoolRole::Triage
            && item.priority != Priority::CiBlocker
            && snapshot.is_base_red(&item.project);
        is_red.then(|| WaitReason::RedBase {
            gates: snapshot
                .bases
                .get(&item.project)
                .map(|base| base.failing_gates.clone())
                .unwrap_or_default(),
        })
    }

    fn order(&self, item: &OpenItem, definition: &PoolDefinition) -> OrderKey {
        let rank = item.priority.rank();
        // Each deadline that passed raises the priority by one, so that nothing waits forever; only blockers of the
        // base come first.
        let waited = self.snapshot.now.seconds_since(item.state_since);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "a small number of whole deadlines"
        )]
        let passed = (waited.max(0.0) / definition.limits.deadline_seconds.max(1) as f64) as u64;
        OrderKey {
            priority: if rank == 0 {
                0
            } else {
                rank.saturating_sub(passed).max(1)
            },
            is_new: !item.state.has_open_change(),
            milestone: item
                .milestone
                .as_deref()
                .and_then(|name| self.milestones.get(name).copied())
                .unwrap_or(usize::MAX),
            moscow: item.moscow.map_or(4, |moscow| moscow as u64),
            created_at: item.created_at,
            item: item.id,
        }
    }

    /// A reason for which a pool cannot start one more attempt on an item now.
    fn limit(&self, index: usize, item: &OpenItem) -> Option<WaitReason> {
        let pool = &self.snapshot.pools[index];
        let definition = &*pool.definition;
        let name = || definition.name.clone();
        if self.running_total >= self.snapshot.capacity {
            return Some(WaitReason::Capacity {
                limit: self.snapshot.capacity,
            });
        }
        let running = self.running.get(definition.name.as_str()).copied();
        let running = running.unwrap_or_default();
        let workers = u64::from(definition.limits.workers);
        if running >= workers {
            return Some(WaitReason::Workers {
                pool: name(),
                limit: workers,
            });
        }
        let starts = definition.role == PoolRole::Fix && !item.state.has_open_change();
        if let (true, Some(limit)) = (starts, definition.limits.open_changes) {
            let open = self.open_changes.get(definition.name.as_str()).copied();
            if open.unwrap_or_default() >= u64::from(limit) {
                return Some(WaitReason::OpenChanges {
                    pool: name(),
                    limit: u64::from(limit),
                });
            }
        }
        for (state, limit) in &definition.limits.downstream {
            let queue = self
                .queue_lengths
                .get(&(definition.project.as_str(), *state))
                .copied()
                .unwrap_or_default();
            // Running attempts will fill the queue too.
            if queue + running >= u64::from(*limit) {
                return Some(WaitReason::QueueFull {
                    pool: name(),
                    state: *state,
                    limit: u64::from(*limit),
                });
            }
        }
        let planned = self.planned_cost.get(&index).copied().unwrap_or_default();
        let needed = planned + definition.budgets.attempt.0;
        if pool.budget_left.is_some_and(|left| left.0 < needed) {
            return Some(WaitReason::Budget { pool: name() });
        }
        None
    }

    /// Gives free workers to pools: first up to their minimum, then by weight.
    fn fill_slots(&mut self, queues: &mut [Vec<Candidate<'a>>]) {
        let mut taken: HashSet<WorkItemId> = HashSet::new();
        let mut next: Vec<usize> = vec![0; queues.len()];
        loop {
            let mut best: Option<(usize, (bool, f64, usize))> = None;
            for index in 0..queues.len() {
                let queue = &queues[index];
                while next[index] < queue.len()
                    && (taken.contains(&queue[next[index]].item.id)
                        || self
                            .limit(index, queue[next[index]].item)
                            .is_some_and(|reason| {
                                // Another item of the pool may need no new change.
                                matches!(reason, WaitReason::OpenChanges { .. })
                            }))
                {
                    next[index] += 1;
                }
                let Some(candidate) = queue.get(next[index]) else {
                    continue;
                };
                if self.limit(index, candidate.item).is_some() {
                    continue;
                }
                let rank = self.share_rank(index);
                let is_better = best
                    .as_ref()
                    .is_none_or(|(_, known)| rank.partial_cmp(known) == Some(Ordering::Less));
                if is_better {
                    best = Some((index, rank));
                }
            }
            let Some((index, _)) = best else {
                break;
            };
            let candidate = &queues[index][next[index]];
            taken.insert(candidate.item.id);
            next[index] += 1;
            self.start(index, candidate);
        }
        for queue in queues {
            queue.retain(|candidate| !taken.contains(&candidate.item.id));
        }
    }

    /// Rank of a pool for the next worker; the smallest gets it.
    fn share_rank(&self, index: usize) -> (bool, f64, usize) {
        let definition = &*self.snapshot.pools[index].definition;
        let running = self.running.get(definition.name.as_str()).copied();
        let running = u32::try_from(running.unwrap_or_default()).unwrap_or(u32::MAX);
        let share = definition.share;
        (
            running >= share.minimum,
            f64::from(running.saturating_add(1)) / f64::from(share.weight.max(1)),
            index,
        )
    }

    fn start(&mut self, index: usize, candidate: &Candidate<'a>) {
        let pool = &self.snapshot.pools[index];
        let definition = &*pool.definition;
        self.running_total += 1;
        *self.running.entry(&definition.name).or_default() += 1;
        *self.planned_cost.entry(index).or_default() += definition.budgets.attempt.0;
        if definition.role == PoolRole::Fix && !candidate.item.state.has_open_change() {
            *self.open_changes.entry(&definition.name).or_default() += 1;
        }
        self.plan.dispatches.push(PlannedDispatch {
            pool: index,
            item: candidate.item.id,
            tier: candidate.tier.clone(),
            number: candidate.number,
            estimated_cost: pool
                .average_costs
                .get(&candidate.tier.name)
                .copied()
                .unwrap_or(definition.budgets.attempt),
        });
    }

    /// Records why the items that remain in the queues wait.
    fn explain_rest(&mut self, queues: &[Vec<Candidate<'a>>]) {
        let mut explained: HashSet<WorkItemId> = HashSet::new();
        for (index, queue) in queues.iter().enumerate() {
            let mut rest = Vec::with_capacity(queue.len());
            for candidate in queue {
                rest.push(candidate.item.id);
                if explained.insert(candidate.item.id)
                    && let Some(reason) = self.limit(index, candidate.item)
                {
                    self.plan.waits.push((candidate.item.id, reason));
                }
            }
            if !rest.is_empty() {
                self.plan.alternates.insert(index, rest);
            }
        }
    }
}
