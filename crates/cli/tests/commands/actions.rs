//! `action` and `invariant`: output of each command.

use cleveragents_testkit::Agents;
use serde_json::json;

use super::{agents, assert_shown, shown};

const COVERAGE: &str = "\
name: local/coverage
description: Raise the coverage of {module} to {target_percent} %
long_description: |
  Adds tests where there are none.
definition_of_done: |
  - the coverage of {module} is at least {target-percent} %
  - all tests pass
strategy_actor: local/strategist
execution_actor: openai/gpt-5
reusable: false
automation_profile: trusted
invariants: ['never delete a test of {module}']
arguments:
  - {name: target_percent, type: integer, minimum: 1, maximum: 100, description: How much}
  - {name: module, type: path, default: src}
  - {name: depth, choices: [shallow, deep], required: false}
  - {name: ticket, pattern: '[A-Z]+-[0-9]+', required: false}
";

const PLAIN: &str = "name: lint\ndescription: Lint it\ndefinition_of_done: no warnings\n";

fn add_actions(agents: &Agents) {
    for (file, text) in [("coverage.yaml", COVERAGE), ("lint.yaml", PLAIN)] {
        std::fs::write(agents.cwd().join(file), text).expect("written");
        agents.data(&["action", "create", "--config", file]);
    }
}

#[test]
fn an_action_is_created_and_shown() {
    let prepare = |agents: &Agents| {
        std::fs::write(agents.cwd().join("coverage.yaml"), COVERAGE).expect("written");
    };
    let create = ["action", "create", "--config", "coverage.yaml"];
    assert_shown("action_create", &shown(prepare, &create));
    let show = ["action", "show", "coverage"];
    assert_shown("action_show", &shown(add_actions, &show));
}

#[test]
fn actions_are_listed_with_their_filters() {
    assert_shown("action_list", &shown(add_actions, &["action", "list"]));
    let agents = agents();
    add_actions(&agents);
    agents.data(&["action", "archive", "lint", "--yes"]);
    let listed = agents.data(&[
        "action",
        "list",
        "--state",
        "available",
        "--namespace",
        "local",
    ]);
    assert_eq!(listed["actions"][0]["name"], "local/coverage");
    assert_eq!(
        listed["summary"],
        json!({
            "total": 1, "available": 1, "archived": 0, "broken": 0, "total_plans_created": 0,
        })
    );
    assert_eq!(
        listed["filters"],
        json!({"state": "available", "namespace": "local", "pattern": null})
    );
    assert_eq!(
        agents.data(&["action", "list", "^local/l"])["summary"]["archived"],
        1
    );
}

#[test]
fn an_action_is_archived_and_restored() {
    let archive = ["action", "archive", "coverage", "--yes"];
    assert_shown("action_archive", &shown(add_actions, &archive));
    let agents = agents();
    add_actions(&agents);
    agents.data(&archive);
    let update = ["action", "create", "--config", "coverage.yaml", "--update"];
    let action = agents.data(&update)["action"].clone();
    assert_eq!(
        (&action["state"], &action["version"], &action["archived"]),
        (&json!("available"), &json!(2), &json!(null))
    );
}

#[test]
fn the_schema_of_actions_is_printed() {
    let answer = agents().run(&["schema", "action"]);
    assert_eq!(answer.code, Some(0));
    assert_eq!(answer.json()["title"], "an action of CleverAgents");
}

/// Adds one global invariant only, because the length of a short id depends on the other ids.
fn with_invariant(agents: &Agents) {
    add_actions(agents);
    let project = [
        "project",
        "create",
        "local/shop",
        "--invariant",
        "Always push to main",
    ];
    agents.data(&project);
    let push = [
        "invariant",
        "add",
        "--global",
        "--non-overridable",
        "Never push to main",
    ];
    agents.data(&push);
}

#[test]
fn an_invariant_is_added_listed_and_removed() {
    let add = ["invariant", "add", "--project", "shop", "Change no test"];
    assert_shown("invariant_add", &shown(with_invariant, &add));
    let list = ["invariant", "list"];
    assert_shown("invariant_list", &shown(with_invariant, &list));
    let agents = agents();
    with_invariant(&agents);
    let api = [
        "invariant",
        "add",
        "-p",
        "shop",
        "--action",
        "lint",
        "Keep the API",
    ];
    assert_eq!(
        agents.data(&api)["invariants"].as_array().map(Vec::len),
        Some(2)
    );
    let listed = agents.data(&["invariant", "list", "--action", "lint", "API"]);
    assert_eq!(listed["summary"]["total"], 1);
    let id = listed["invariants"][0]["id"].as_str().expect("an id");
    let removed = agents.data(&["invariant", "remove", &format!("inv_{id}"), "--yes"]);
    assert_eq!(removed["removed"]["active"], false);
    assert_eq!(agents.data(&list)["summary"]["total"], 2);
}

#[test]
fn an_invariant_is_found_by_the_short_id_of_the_list() {
    let agents = agents();
    for number in 0..5 {
        agents.data(&["invariant", "add", "--global", &format!("rule {number}")]);
    }
    let listed = agents.run(&["--format", "plain", "invariant", "list"]);
    let shown: Vec<&str> = listed
        .out
        .lines()
        .filter(|line| line.contains("rule "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert_eq!(shown.len(), 5, "{listed:?}");
    for prefix in shown {
        agents.data(&["invariant", "remove", prefix, "--yes"]);
    }
    assert_eq!(agents.data(&["invariant", "list"])["summary"]["total"], 0);
}

#[test]
fn effective_and_overridden_invariants_are_shown() {
    let effective = [
        "invariant",
        "list",
        "--effective",
        "--project",
        "shop",
        "--action",
        "coverage",
    ];
    let name = "invariant_list_effective";
    assert_shown(name, &shown(with_invariant, &effective));
    let agents = agents();
    with_invariant(&agents);
    for text in ["always test", "never test"] {
        agents.data(&["invariant", "add", "-p", "shop", text]);
    }
    let answer = agents.run(&[
        "--format",
        "json",
        "invariant",
        "list",
        "--effective",
        "-p",
        "shop",
    ]);
    let document = answer.json();
    assert_eq!(document["status"], "warn");
    let unresolved = document["data"]["unresolved"].as_array();
    assert_eq!(unresolved.map(Vec::len), Some(1));
}
