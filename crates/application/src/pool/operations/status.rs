//! `pool/status`: the board of the pools.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::{AttemptOutcome, PoolRole, PoolState, Timestamp, WorkItemState};
use cleveragents_store::{Error, attempts, pools, work_items};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::service;
use crate::operation::{
    NamedKind, Operation, OperationContext, OperationError, Requirement, Resolver, namespace_of,
};
use crate::pool::snapshot::PoolSnapshot;

/// Default number of days of the history.
const DAYS: u64 = 14;

/// Shows queues, ages, throughput and cost of the pools.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolStatusRequest {
    /// Only this pool.
    #[serde(default)]
    pub name: Option<String>,
    /// Number of days of the history: 14 when not given.
    #[serde(default)]
    #[schemars(range(min = 1, max = 365))]
    pub days: Option<u64>,
}

/// Number of items in a state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StateCount {
    pub state: WorkItemState,
    pub count: u64,
}

/// Attempts of a pool with one tier during the history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TierSuccess {
    pub tier: String,
    pub attempts: u64,
    pub succeeded: u64,
    pub cost_usd: f64,
}

/// A pool on the board.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PoolLane {
    pub name: String,
    pub role: PoolRole,
    pub project: String,
    pub state: PoolState,
    /// Items that the pool may take.
    pub queue: u64,
    /// Age of the oldest one in its state, in seconds.
    pub oldest_seconds: Option<u64>,
    pub running: u64,
    pub workers: u32,
    /// Amount that the budgets of day and total still allow.
    pub budget_left_usd: Option<f64>,
    /// Per tier, during the history.
    pub tiers: Vec<TierSuccess>,
    pub cost_usd: f64,
}

/// A day of the history of all shown projects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BurnDownDay {
    /// In UTC, such as `2026-01-31`.
    pub day: String,
    /// Items that were open at the end of the day.
    pub open: u64,
    pub opened: u64,
    pub merged: u64,
    pub closed: u64,
}

/// An open alert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolAlertInfo {
    pub kind: String,
    /// The item, pool or project that it is about.
    pub subject: String,
    pub message: String,
    pub raised: Timestamp,
}

/// The response of `pool/status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PoolBoard {
    pub pools: Vec<PoolLane>,
    /// Items of the shown projects per state.
    pub items: Vec<StateCount>,
    /// Oldest first.
    pub history: Vec<BurnDownDay>,
    pub alerts: Vec<PoolAlertInfo>,
}

impl Operation for PoolStatusRequest {
    const NAME: &'static str = "pool/status";
    const SUMMARY: &'static str = "Show queues, throughput, cost and alerts of the pools";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Read);
    type Response = PoolBoard;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        match &mut self.name {
            Some(name) => resolver.name(name, NamedKind::Definition),
            None => Ok(()),
        }
    }

    fn run(self, context: &OperationContext) -> Result<PoolBoard, OperationError> {
        let days = self.days.unwrap_or(DAYS);
        if !(1..=365).contains(&days) {
            return Err(OperationError::usage(format!(
                "the history has 1 to 365 days, not {days}"
            )));
        }
        let visible = context.visible(Scope::Registry);
        let only = match &self.name {
            Some(name) => Some(
                service(context)
                    .find_stored(name, context.variables())?
                    .name,
            ),
            None => None,
        };
        let registered = service(context).list_registered(context.variables())?;
        let definitions: Vec<_> = registered
            .into_iter()
            .filter(|pool| visible.contains(namespace_of(&pool.stored.name)))
            .filter(|pool| only.as_ref().is_none_or(|only| pool.stored.name == *only))
            .filter_map(|pool| pool.definition.ok().map(Arc::new))
            .collect();
        let capacity = context.settings().plans.concurrency;
        let mut projects: Vec<String> = definitions
            .iter()
            .map(|pool| pool.project.clone())
            .collect();
        projects.sort_unstable();
        projects.dedup();
        Ok(context.engine().read(|reader| {
            let snapshot = PoolSnapshot::read(reader, &definitions, capacity)?;
            let since = start_of_history(snapshot.now, days);
            let counts = attempts::counts_since(reader, since)?;
            let mut items: BTreeMap<WorkItemState, u64> = BTreeMap::new();
            let mut transitions = Vec::new();
            for project in &projects {
                for (state, count) in work_items::count_by_state(reader, project)? {
                    *items.entry(state).or_default() += count;
                }
                transitions.extend(work_items::transitions_since(reader, project, since)?);
            }
            let alerts = pools::open_alerts(reader, &visible)?;
            let open = items
                .iter()
                .filter(|(state, _)| !state.is_terminal())
                .map(|(_, count)| count)
                .sum();
            Ok::<_, Error>(PoolBoard {
                pools: lanes(&snapshot, &counts),
                items: items
                    .into_iter()
                    .map(|(state, count)| StateCount { state, count })
                    .collect(),
                history: history(snapshot.now, days, open, &transitions),
                alerts: alerts
                    .into_iter()
                    .map(|alert| PoolAlertInfo {
                        kind: alert.kind,
                        subject: alert.subject,
                        message: alert.message,
                        raised: alert.raised_at,
                    })
                    .collect(),
            })
        })?)
    }
}

fn day_of(time: Timestamp) -> String {
    time.to_string().chars().take(10).collect()
}

/// Beginning of the first day of the history.
fn start_of_history(now: Timestamp, days: u64) -> Timestamp {
    let back = i64::try_from(days.saturating_sub(1)).unwrap_or(0);
    let first = day_of(now.plus_seconds(-86_400 * back));
    format!("{first}T00:00:00Z").parse().unwrap_or(now)
}

fn lanes(snapshot: &PoolSnapshot, counts: &[attempts::AttemptCount]) -> Vec<PoolLane> {
    snapshot
        .pools
        .iter()
        .map(|pool| {
            let definition = &*pool.definition;
            let queue: Vec<Timestamp> = snapshot
                .items
                .iter()
                .filter(|item| definition.takes(item.facts()))
                .map(|item| item.state_since)
                .collect();
            let mut tiers: Vec<TierSuccess> = Vec::new();
            let own = counts.iter().filter(|count| count.pool == definition.name);
            for count in own {
                let index = tiers.iter().position(|tier| tier.tier == count.tier);
                let index = index.unwrap_or_else(|| {
                    tiers.push(TierSuccess {
                        tier: count.tier.clone(),
                        attempts: 0,
                        succeeded: 0,
                        cost_usd: 0.0,
                    });
                    tiers.len() - 1
                });
                let tier = &mut tiers[index];
                tier.attempts += count.count;
                tier.cost_usd += count.cost.as_usd();
                if count.outcome == AttemptOutcome::Succeeded {
                    tier.succeeded += count.count;
                }
            }
            let running = snapshot
                .running
                .iter()
                .filter(|attempt| attempt.pool == definition.name);
            PoolLane {
                name: definition.name.clone(),
                role: definition.role,
                project: definition.project.clone(),
                state: pool.state,
                queue: queue.len() as u64,
                oldest_seconds: queue.iter().min().map(|oldest| {
                    let age = snapshot.now.as_micros().saturating_sub(oldest.as_micros());
                    u64::try_from(age / 1_000_000).unwrap_or(0)
                }),
                running: running.count() as u64,
                workers: definition.limits.workers,
                budget_left_usd: pool.budget_left.map(cleveragents_domain::MicroUsd::as_usd),
                cost_usd: tiers.iter().map(|tier| tier.cost_usd).sum(),
                tiers,
            }
        })
        .collect()
}

/// The history of each day, computed backwards from the present number of open items.
fn history(
    now: Timestamp,
    days: u64,
    open: u64,
    transitions: &[cleveragents_domain::StateTransition],
) -> Vec<BurnDownDay> {
    let mut per_day: BTreeMap<String, BurnDownDay> = BTreeMap::new();
    for back in 0..days {
        let back = i64::try_from(back).unwrap_or(0);
        let day = day_of(now.plus_seconds(-86_400 * back));
        let empty = BurnDownDay {
            day: day.clone(),
            open: 0,
            opened: 0,
            merged: 0,
            closed: 0,
        };
        per_day.insert(day, empty);
    }
    for transition in transitions {
        let Some(day) = per_day.get_mut(&day_of(transition.at)) else {
            continue;
        };
        let was_open = transition.from.is_some_and(|from| !from.is_terminal());
        match (was_open, transition.to.is_terminal()) {
            (false, false) => day.opened += 1,
            (true, true) => day.closed += 1,
            _ => {}
        }
        if transition.from == Some(WorkItemState::Approved)
            && transition.to == WorkItemState::Completed
        {
            day.merged += 1;
        }
    }
    let mut days: Vec<BurnDownDay> = per_day.into_values().collect();
    let mut at_end = open;
    for day in days.iter_mut().rev() {
        day.open = at_end;
        at_end = (at_end + day.closed).saturating_sub(day.opened);
    }
    days
}

impl PoolBoard {
    /// The history as a burn-down chart in SVG.
    pub fn burn_down_svg(&self) -> String {
        use std::fmt::Write as _;
        const WIDTH: u64 = 640;
        const HEIGHT: u64 = 240;
        let count = (self.history.len() as u64).max(1);
        let highest = self
            .history
            .iter()
            .map(|day| day.open.max(day.merged))
            .max()
            .unwrap_or(0)
            .max(1);
        let x = |index: usize| 40 + index as u64 * (WIDTH - 60) / count;
        let y = |value: u64| 20 + (HEIGHT - 60) - value * (HEIGHT - 60) / highest;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"11\">\n<title>Open items and merges per day</title>\n"
        );
        let points: Vec<String> = self
            .history
            .iter()
            .enumerate()
            .map(|(index, day)| format!("{},{}", x(index), y(day.open)))
            .collect();
        let bar = ((WIDTH - 60) / count).saturating_sub(4).max(1);
        for (index, day) in self.history.iter().enumerate() {
            // Writing to a string does not fail.
            let _ = writeln!(
                svg,
                "<rect x=\"{}\" y=\"{}\" width=\"{bar}\" height=\"{}\" fill=\"#7fb77e\"><title>{}: {} merged, {} open</title></rect>",
                x(index),
                y(day.merged),
                (20 + HEIGHT - 60).saturating_sub(y(day.merged)),
                day.day,
                day.merged,
                day.open,
            );
        }
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"#b3362c\" stroke-width=\"2\"/>",
            points.join(" ")
        );
        for (text, height) in [(highest.to_string(), y(highest)), ("0".to_owned(), y(0))] {
            let _ = writeln!(svg, "<text x=\"4\" y=\"{}\">{text}</text>", height + 4);
        }
        if let (Some(first), Some(last)) = (self.history.first(), self.history.last()) {
            let _ = writeln!(
                svg,
                "<text x=\"40\" y=\"{}\">{}</text>",
                HEIGHT - 12,
                first.day
            );
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
                WIDTH - 20,
                HEIGHT - 12,
                last.day
            );
        }
        svg.push_str("</svg>\n");
        svg
    }
}
