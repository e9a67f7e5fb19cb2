//! Pools: groups of workers with one role on the items of a project. A pool is configuration; the scheduler is code.

mod file;
mod role;
mod tier_rule;

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use role::PoolRole;
pub use tier_rule::{NextAttempt, PastAttempt, TierRule};

use crate::stored_enum::stored_enum;
use crate::{
    MicroUsd, Priority, Severity, StoryPoints, Ttl, WorkItem, WorkItemKind, WorkItemState,
};

/// An actor of a pool with its name in the order of the tiers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tier {
    /// Name, such as `cheap`.
    pub name: String,
    pub actor: String,
}

/// The items that a pool works on. An empty list accepts everything.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct ItemQuery {
    pub kinds: Vec<WorkItemKind>,
    /// Labels that an item needs, all of them.
    pub labels: Vec<String>,
    /// Labels that an item must not have.
    pub without_labels: Vec<String>,
    pub milestones: Vec<String>,
    /// Only items of this priority or a more urgent one.
    pub minimum_priority: Option<Priority>,
    /// Only items with at most this estimate; items without an estimate are accepted.
    pub maximum_points: Option<u32>,
}

/// The facts about an item that decide whether a pool takes it.
#[derive(Debug, Clone, Copy)]
pub struct ItemFacts<'a> {
    pub project: &'a str,
    pub kind: WorkItemKind,
    pub state: WorkItemState,
    pub priority: Priority,
    pub milestone: Option<&'a str>,
    pub points: Option<StoryPoints>,
    pub labels: &'a BTreeSet<String>,
}

impl<'a> From<&'a WorkItem> for ItemFacts<'a> {
    fn from(item: &'a WorkItem) -> Self {
        Self {
            project: &item.project,
            kind: item.kind,
            state: item.state,
            priority: item.priority,
            milestone: item.milestone.as_deref(),
            points: item.points,
            labels: &item.labels,
        }
    }
}

impl ItemQuery {
    /// Whether the query accepts an item.
    pub fn accepts(&self, item: ItemFacts<'_>) -> bool {
        let has = |label: &String| item.labels.contains(label);
        (self.kinds.is_empty() || self.kinds.contains(&item.kind))
            && self.labels.iter().all(has)
            && !self.without_labels.iter().any(has)
            && (self.milestones.is_empty()
                || item
                    .milestone
                    .is_some_and(|milestone| self.milestones.iter().any(|own| own == milestone)))
            && self
                .minimum_priority
                .is_none_or(|minimum| item.priority <= minimum)
            && self
                .maximum_points
                .is_none_or(|maximum| item.points.is_none_or(|points| points.get() <= maximum))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolLimits {
    /// Attempts that run at the same time, on all machines together.
    pub workers: u32,
    /// Items of the pool with a change that is not merged. At the limit, the pool finishes before it starts.
    pub open_changes: Option<u32>,
    /// Maximum number of items of the project in a state. A full queue stops the pool.
    pub downstream: BTreeMap<WorkItemState, u32>,
    /// Time that an item may spend in a state of the pool before the user gets it, in seconds.
    pub deadline_seconds: u64,
    /// Duration of the lease of an attempt without a heartbeat.
    pub lease_ttl: Ttl,
    /// See [`TierRule::uncharged_attempts`].
    pub uncharged_attempts: u32,
    /// See [`TierRule::review_rounds`].
    pub review_rounds: u32,
}

/// Share of a pool in the workers of all pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolShare {
    pub weight: u32,
    /// Workers that the pool gets before others get more than their own minimum.
    pub minimum: u32,
}

/// Maximum amounts; `None` for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolBudgets {
    /// Reserved for each attempt before it starts.
    pub attempt: MicroUsd,
    pub item: Option<MicroUsd>,
    pub day: Option<MicroUsd>,
    pub total: Option<MicroUsd>,
}

/// Rules that turn results into transitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutcomeRules {
    /// Findings of this severity or worse block a review.
    pub blocking_severity: Severity,
    /// Names of the gates that have to pass, in addition to the required validations of the project.
    pub required_gates: Vec<String>,
    /// Findings with a lower confidence are attached to their nearest item or dropped, never filed as new; in percent.
    pub minimum_confidence: u8,
    /// Labels that triage may set.
    pub labels: Vec<String>,
}

/// A pool as its file defines it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolDefinition {
    /// Full name.
    pub name: String,
    pub description: String,
    pub role: PoolRole,
    /// Full name of the project whose items it works on.
    pub project: String,
    pub query: ItemQuery,
    /// States from which it takes items.
    pub states: Vec<WorkItemState>,
    /// Action whose plans do the work; `None` for the built-in one of the role.
    pub action: Option<String>,
    /// Actor that reviews the results of plans.
    pub reviewer: Option<String>,
    /// Not empty, except for roles that run no model.
    pub tiers: Vec<Tier>,
    pub attempts_per_tier: u32,
    pub limits: PoolLimits,
    pub share: PoolShare,
    pub budgets: PoolBudgets,
    pub outcomes: OutcomeRules,
}

/// Name of the tier of roles that run no model.
pub const CODE_TIER: &str = "code";

impl PoolDefinition {
    /// The rule for the next attempt of an item.
    pub fn tier_rule(&self) -> TierRule<'_> {
        TierRule {
            tiers: &self.tiers,
            attempts_per_tier: self.attempts_per_tier,
            uncharged_attempts: self.limits.uncharged_attempts,
            review_rounds: self.limits.review_rounds,
        }
    }

    /// Whether the pool may work on an item in its current state. Limits and dependencies are separate.
    pub fn takes(&self, item: ItemFacts<'_>) -> bool {
        item.project == self.project
            && self.role.accepts(item.kind)
            && self.states.contains(&item.state)
            && self.query.accepts(item)
    }
}

stored_enum! {
    /// Whether a pool starts attempts.
    PoolState {
        /// It starts attempts.
        Active = "active",
        /// It starts no attempt; running attempts finish.
        Paused = "paused",
        /// It starts no new item and finishes the started ones; then it is paused.
        Draining = "draining",
        /// It starts no attempt, and running attempts are cancelled.
        Stopped = "stopped",
    }
}

impl PoolState {
    /// Whether attempts may start.
    pub const fn may_start(self) -> bool {
        matches!(self, Self::Active | Self::Draining)
    }
}

#[cfg(test)]
mod tests {
    use super::ItemQuery;
    use crate::work_item::work_item_sample;
    use crate::{Priority, StoryPoints, WorkItemKind};

    #[test]
    fn a_query_accepts_items_by_all_of_its_conditions() {
        let mut item = work_item_sample();
        assert!(ItemQuery::default().accepts((&item).into()));
        let query = ItemQuery {
            kinds: vec![WorkItemKind::Bug],
            labels: vec!["cart".to_owned()],
            without_labels: vec!["hunt".to_owned()],
            milestones: vec!["v1".to_owned()],
            minimum_priority: Some(Priority::Medium),
            maximum_points: Some(5),
        };
        assert!(!query.accepts((&item).into()));
        item.labels.insert("cart".to_owned());
        item.milestone = Some("v1".to_owned());
        assert!(query.accepts((&item).into()));
        item.points = StoryPoints::new(8).ok();
        assert!(!query.accepts((&item).into()));
        item.points = None;
        item.priority = Priority::Low;
        assert!(!query.accepts((&item).into()));
        item.priority = Priority::Critical;
        item.labels.insert("hunt".to_owned());
        assert!(!query.accepts((&item).into()));
    }
}
