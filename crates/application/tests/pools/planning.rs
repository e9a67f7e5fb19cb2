//! The pure decision of a cycle.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use cleveragents_application::{
    PoolSnapshot, PoolView, RunningAttempt, WaitReason, plan_dispatches,
};
use cleveragents_domain::{
    MicroUsd, PoolDefinition, PoolRole, PoolState, Priority, Timestamp, WorkItemId, WorkItemKind,
    WorkItemState,
};
use cleveragents_store::work_items::OpenItem;

const NOW: i64 = 1_900_000_000_000_000;

fn pool(name: &str, more: &str) -> PoolView {
    let text = format!(
        "name: {name}\nrole: fix\nproject: shop\nquery: {{labels: [{name}]}}\n\
         tiers: [{{name: cheap, actor: local/cheap}}]\n{more}\n"
    );
    let definition = PoolDefinition::read(&text, &|_| None).expect("a valid pool");
    PoolView {
        definition: Arc::new(definition),
        state: PoolState::Active,
        budget_left: None,
        average_costs: BTreeMap::new(),
    }
}

fn open_item(label: &str, priority: Priority, age_seconds: i64) -> OpenItem {
    let since = Timestamp::from_micros(NOW).plus_seconds(-age_seconds);
    OpenItem {
        id: WorkItemId::generate(),
        project: "local/shop".to_owned(),
        kind: WorkItemKind::Bug,
        state: WorkItemState::Verified,
        state_since: since,
        priority,
        milestone: None,
        points: None,
        moscow: None,
        labels: BTreeSet::from([label.to_owned()]),
        change_pool: None,
        is_captured: false,
        round: 1,
        created_at: since,
    }
}

fn snapshot(pools: Vec<PoolView>, items: Vec<OpenItem>, capacity: u64) -> PoolSnapshot {
    PoolSnapshot {
        now: Timestamp::from_micros(NOW),
        capacity,
        pools,
        items,
        past: HashMap::new(),
        running: Vec::new(),
        dependencies: HashMap::new(),
        bases: HashMap::new(),
    }
}

/// Number of attempts that start, per pool.
fn starts(snapshot: &PoolSnapshot) -> Vec<usize> {
    let plan = plan_dispatches(snapshot);
    assert_eq!(
        plan,
        plan_dispatches(snapshot),
        "the same snapshot gives the same plan"
    );
    assert_eq!(
        plan.dispatches.len() + plan.waits.len() + plan.escalations.len(),
        snapshot.items.len(),
        "each item starts or has a reason"
    );
    (0..snapshot.pools.len())
        .map(|index| {
            plan.dispatches
                .iter()
                .filter(|start| start.pool == index)
                .count()
        })
        .collect()
}

fn many(label: &str, count: usize) -> Vec<OpenItem> {
    (0..count)
        .map(|_| open_item(label, Priority::Medium, 60))
        .collect()
}

#[test]
fn workers_are_shared_by_weight_after_the_minimum_shares() {
    let pools = || {
        vec![
            pool("a", "limits: {workers: 100}\nshare: {weight: 3}"),
            pool("b", "limits: {workers: 100}\nshare: {weight: 1}"),
        ]
    };
    let items: Vec<OpenItem> = many("a", 40).into_iter().chain(many("b", 40)).collect();
    assert_eq!(starts(&snapshot(pools(), items.clone(), 12)), [9, 3]);
    // A pool without work leaves its share to the others.
    assert_eq!(starts(&snapshot(pools(), many("b", 40), 12)), [0, 12]);
    let with_minimum = vec![
        pool("a", "limits: {workers: 100}\nshare: {weight: 50}"),
        pool(
            "b",
            "limits: {workers: 100}\nshare: {weight: 1, minimum: 2}",
        ),
    ];
    assert_eq!(starts(&snapshot(with_minimum, items, 6)), [4, 2]);
}

#[test]
fn running_attempts_count_towards_all_limits() {
    let items = many("a", 10);
    let mut busy = snapshot(vec![pool("a", "limits: {workers: 4}")], items, 100);
    assert_eq!(starts(&busy), [4]);
    for item in busy.items.iter().take(3) {
        busy.running.push(RunningAttempt {
            item: item.id,
            pool: "local/a".to_owned(),
            role: PoolRole::Fix,
            started_at: busy.now,
        });
    }
    assert_eq!(starts(&busy), [1]);
    busy.capacity = 3;
    assert_eq!(starts(&busy), [0]);
    let plan = plan_dispatches(&busy);
    let full = |wait: &WaitReason| matches!(wait, WaitReason::Capacity { limit: 3 });
    assert_eq!(plan.waits.iter().filter(|(_, wait)| full(wait)).count(), 7);
}

#[test]
fn urgent_started_early_and_old_items_come_first() {
    let pools = || vec![pool("a", "limits: {workers: 1, deadline: 1h}")];
    let first = |items: &[OpenItem]| {
        plan_dispatches(&snapshot(pools(), items.to_vec(), 9)).dispatches[0].item
    };
    let urgent = open_item("a", Priority::Critical, 1);
    let ordinary = open_item("a", Priority::Medium, 60);
    let blocker = open_item("a", Priority::CiBlocker, 0);
    assert_eq!(first(&[ordinary.clone(), urgent.clone()]), urgent.id);
    assert_eq!(first(&[urgent.clone(), blocker.clone()]), blocker.id);
    // Work that has begun is finished before equal work begins.
    let mut begun = open_item("a", Priority::Medium, 10);
    begun.state = WorkItemState::InProgress;
    assert_eq!(first(&[ordinary.clone(), begun.clone()]), begun.id);
    // Earlier milestones first, by number.
    let mut next = ordinary.clone();
    next.milestone = Some("v1.10".to_owned());
    let mut present = open_item("a", Priority::Medium, 1);
    present.milestone = Some("v1.9".to_owned());
    assert_eq!(first(&[next, present.clone()]), present.id);
    // Each deadline that passes raises the priority: a low item is not overtaken forever, and never passes a blocker.
    let old = open_item("a", Priority::Backlog, 5 * 3_600);
    assert_eq!(first(&[urgent.clone(), old.clone()]), old.id);
    assert_eq!(first(&[blocker.clone(), old]), blocker.id);
}

#[test]
fn an_overdue_change_goes_to_the_user_and_an_overdue_queue_is_counted() {
    let mut begun = open_item("a", Priority::Medium, 7_200);
    begun.state = WorkItemState::InProgress;
    let waiting = open_item("a", Priority::Medium, 7_200);
    let plan = plan_dispatches(&snapshot(
        vec![pool("a", "limits: {workers: 1, deadline: 1h}")],
        vec![begun.clone(), waiting],
        9,
    ));
    assert_eq!(plan.escalations.len(), 1);
    assert_eq!(plan.escalations[0].item, begun.id);
    assert_eq!(plan.overdue.get(&0), Some(&1));
    assert_eq!(plan.dispatches.len(), 1);
}

#[test]
fn a_budget_limits_the_number_of_starts() {
    let mut rich = pool("a", "limits: {workers: 10}\nbudget: {attempt: 1}");
    rich.budget_left = Some(MicroUsd(2_500_000));
    assert_eq!(starts(&snapshot(vec![rich], many("a", 5), 9)), [2]);
}

#[test]
fn items_that_no_pool_takes_are_named() {
    let plan = plan_dispatches(&snapshot(vec![pool("a", "")], many("other", 3), 9));
    assert_eq!(plan.ownerless.len(), 3);
    assert!(
        plan.waits
            .iter()
            .all(|(_, wait)| *wait == WaitReason::NoPool)
    );
}
