use crate::{
    DefinitionFault, MicroUsd, PoolDefinition, PoolRole, Priority, Severity, WorkItemKind,
    WorkItemState,
};

const COMPLETE: &str = "\
name: fix
description: Fixes proven bugs
role: fix
project: shop
query:
  kinds: [bug]
  without_labels: [hunt]
  minimum_priority: low
  maximum_points: 8
states: [captured, in_progress]
action: fix-bug
reviewer: local/reviewer
tiers:
  - {name: cheap, actor: local/cheap}
  - {name: frontier, actor: anthropic/Claude-X}
attempts_per_tier: 3
limits:
  workers: 4
  open_changes: 5
  downstream: {in_review: 10}
  deadline: 12h
  lease: 90s
share: {weight: 3, minimum: 1}
budget: {attempt: 0.5, item: 4, day: 20, total: 100}
outcomes:
  blocking_severity: medium
  required_gates: [unit, lint]
";

fn read(text: &str) -> Result<PoolDefinition, DefinitionFault> {
    PoolDefinition::read(text, &|_| None)
}

/// Message and line of the error in `COMPLETE` after a replacement.
fn refused(old: &str, new: &str) -> (String, u64) {
    assert!(COMPLETE.contains(old), "{old}");
    let fault = read(&COMPLETE.replacen(old, new, 1)).expect_err(new);
    let fault = fault.fault();
    assert!(
        fault.fix.is_some() || fault.nearest.is_some(),
        "{new}: {fault:?}"
    );
    (
        fault.message.clone(),
        fault.place.map_or(0, |place| place.0),
    )
}

#[test]
fn a_complete_file_is_read() {
    let pool = read(COMPLETE).expect("valid");
    assert_eq!(pool.name, "local/fix");
    assert_eq!(pool.project, "local/shop");
    assert_eq!(pool.role, PoolRole::Fix);
    assert_eq!(pool.query.kinds, [WorkItemKind::Bug]);
    assert_eq!(pool.query.minimum_priority, Some(Priority::Low));
    assert_eq!(
        pool.states,
        [WorkItemState::Captured, WorkItemState::InProgress]
    );
    assert_eq!(pool.action.as_deref(), Some("local/fix-bug"));
    assert_eq!(pool.tiers[1].actor, "anthropic/Claude-X");
    assert_eq!(pool.attempts_per_tier, 3);
    assert_eq!(pool.limits.workers, 4);
    assert_eq!(pool.limits.open_changes, Some(5));
    assert_eq!(
        pool.limits.downstream.get(&WorkItemState::InReview),
        Some(&10)
    );
    assert_eq!(pool.limits.deadline_seconds, 43_200);
    assert_eq!(pool.limits.lease_ttl.as_seconds(), 90);
    assert_eq!((pool.share.weight, pool.share.minimum), (3, 1));
    assert_eq!(pool.budgets.attempt, MicroUsd(500_000));
    assert_eq!(pool.budgets.day, Some(MicroUsd(20_000_000)));
    assert_eq!(pool.outcomes.blocking_severity, Severity::Medium);
    assert_eq!(pool.outcomes.required_gates, ["unit", "lint"]);
}

#[test]
fn a_short_file_has_defaults() {
    let pool = read("name: merge\nrole: merge\nproject: shop\n").expect("valid");
    assert_eq!(pool.states, [WorkItemState::Approved]);
    assert_eq!(pool.attempts_per_tier, 2);
    assert_eq!(pool.limits.workers, 1);
    assert_eq!(pool.limits.deadline_seconds, 259_200);
    assert_eq!(pool.tiers.len(), 1);
    assert_eq!(pool.outcomes.blocking_severity, Severity::High);
}

#[test]
fn an_error_names_the_field_and_its_line() {
    for (old, new, message, line) in [
        ("role: fix", "role: fixer", "there is no value `fixer`", 3),
        (
            "states: [captured",
            "states: [approved",
            "the role `fix` takes no items in the state `approved`",
            10,
        ),
        (
            "kinds: [bug]",
            "kinds: [epic]",
            "the role `fix` takes no items of the kind `epic`",
            6,
        ),
        ("workers: 4", "workers: 0", "`workers` cannot be 0", 18),
        (
            "deadline: 12h",
            "deadline: soon",
            "`deadline` cannot be `soon`",
            21,
        ),
        (
            "deadline: 12h",
            "deadline: é",
            "`deadline` cannot be `é`",
            21,
        ),
        (
            "lease: 90s",
            "lease: 2s",
            "a lease of 2 seconds is out of range: from 5 to 3600",
            22,
        ),
        (
            "item: 4",
            "item: 0.1",
            "`item` is less than the budget of one attempt, so nothing could start",
            24,
        ),
        ("attempt: 0.5", "attempt: -1", "`attempt` cannot be -1", 24),
        (
            "reviewer: local/reviewer",
            "reviewer: local/cheap",
            "`local/cheap` would review its own work",
            12,
        ),
        (
            "name: frontier",
            "name: cheap",
            "`cheap` cannot name a tier: a name is not empty and occurs once",
            15,
        ),
        ("share:", "shares:", "there is no field `shares`", 23),
        (
            "required_gates: [unit, lint]",
            "required_gates: [unit, unit]",
            "a gate has a name that occurs once",
            27,
        ),
        (
            "project: shop",
            "project: '${NONE}'",
            "the variable `NONE` is not set",
            4,
        ),
    ] {
        assert_eq!(refused(old, new), (message.to_owned(), line), "{new}");
    }
}

#[test]
fn tiers_are_for_roles_with_models() {
    let error = read("name: m\nrole: merge\nproject: shop\ntiers: [{name: a, actor: local/a}]\n");
    let message = error.expect_err("no model").fault().message.clone();
    assert_eq!(message, "a pool with the role `merge` runs no model");
    let error = read("name: t\nrole: triage\nproject: shop\n");
    let message = error.expect_err("no tier").fault().message.clone();
    assert_eq!(
        message,
        "a pool with the role `triage` needs at least one tier"
    );
}

#[test]
fn the_schema_names_the_fields() {
    let schema = PoolDefinition::schema();
    for field in [
        "role", "project", "query", "tiers", "limits", "share", "budget", "outcomes",
    ] {
        assert!(schema["properties"].get(field).is_some(), "{field}");
    }
}
