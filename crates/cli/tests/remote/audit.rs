//! Audit log: every audited operation has one entry with the identity of its caller.

use std::collections::BTreeMap;

use cleveragents_domain::EventKind;
use serde_json::Value;

use crate::http::Caller;
use crate::world::World;
use crate::{Server, token};

/// All entries, oldest first.
fn entries(world: &World) -> Vec<Value> {
    let listed = world.agents.data(&["audit", "list", "--limit", "10000"]);
    let mut entries = listed["entries"].as_array().expect("entries").clone();
    entries.reverse();
    entries
}

/// Runs audited operations on plans, the configuration, sessions and tokens, and requests to a server.
fn run_audited_operations(world: &World) {
    let agents = &world.agents;
    let file = |name: &str, content: &str| world.file(name, content);
    world.named_action();
    let guarded = file(
        "guarded.yaml",
        "name: local/guarded\nextends: supervised\nguards: {require_approval_for_writes: true}\n",
    );
    agents.data(&["automation-profile", "add", "--config", &guarded]);
    let careful = ["--automation-profile", "local/guarded"];
    // A plan that is approved and applied.
    world.action(
        "local/asks",
        &["write `one` to `one.txt`", "write `two` to `two.txt`"],
    );
    let plan = world.plan("local/asks", &careful);
    for _ in 0..4 {
        if agents.run(&["plan", "execute", &plan]).code == Some(5) {
            agents.data(&["plan", "approve", &plan]);
        }
    }
    agents.run(&["plan", "apply", &plan, "--yes"]);
    assert_eq!(world.stage(&plan), "apply/applied");
    // A plan that fails, receives guidance, and is cancelled.
    world.action("local/fails", &["run `exit 3`"]);
    let plan = world.plan("local/fails", &[]);
    assert_eq!(agents.run(&["plan", "execute", &plan]).code, Some(1));
    agents.data(&["plan", "prompt", &plan, "Leave it"]);
    agents.data(&["plan", "cancel", &plan]);
    // Other user operations.
    agents.data(&["config", "set", "core.format", "plain"]);
    agents.data(&["session", "create", "--name", "weekly"]);
    agents.data(&["session", "delete", "weekly", "--yes"]);
    let secret = token(agents, "ci", &["acme=viewer"]);
    let server = Server::start(agents, &[]);
    let request = |line: &str, secret: &str| {
        let bearer = format!("authorization: Bearer {secret}");
        let mut caller = Caller::connect(server.address()).expect("a server listens");
        caller
            .ask(line, &[&bearer], r#"{"namespace": "acme"}"#)
            .expect("an answer")
            .status
    };
    for _ in 0..3 {
        assert_eq!(request("GET /api/v1/sessions", &secret), 200);
    }
    assert_eq!(request("GET /api/v1/sessions", "ca_wrong"), 401);
    assert_eq!(request("POST /api/v1/sessions", &secret), 403);
    agents.data(&["token", "revoke", "ci"]);
}

#[test]
fn defect_5813_each_audited_operation_has_one_entry() {
    let world = World::new();
    run_audited_operations(&world);
    let entries = entries(&world);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in &entries {
        *counts
            .entry(entry["kind"].as_str().expect("a kind"))
            .or_default() += 1;
        assert!(
            !entry["identity"].as_str().expect("an identity").is_empty(),
            "{entry}"
        );
    }
    // Each of these operations ran once and has one entry.
    for kind in [
        "access_denied",
        "auth_failure",
        "auth_success",
        "config_changed",
        "entity_deleted",
        "plan_applied",
        "plan_cancelled",
        "plan_errored",
        "plan_guided",
        "resource_modified",
        "token_created",
        "token_revoked",
    ] {
        assert_eq!(counts.get(kind), Some(&1), "{kind}: {counts:#?}");
    }
    assert_eq!(counts["plan_created"], 2);
    // Each audited event has an entry with the subject of the event.
    let mut logged: BTreeMap<(String, String), usize> = BTreeMap::new();
    for entry in &entries {
        if let Some(event) = entry["details"]["event"].as_str() {
            let subject = entry["subject"].as_str().expect("a subject");
            *logged
                .entry((event.to_owned(), subject.to_owned()))
                .or_default() += 1;
        }
    }
    let mut expected: BTreeMap<(String, String), usize> = BTreeMap::new();
    for row in world.ask("SELECT kind, subject FROM events") {
        let kind = EventKind::from_stored(&row[0]).expect("a kind");
        if kind.audited().is_some() {
            *expected
                .entry((row[0].clone(), row[1].clone()))
                .or_default() += 1;
        }
    }
    assert_eq!(logged, expected);
    for kind in [
        "decision_created",
        "plan_answered",
        "plan_phase_changed",
        "session_created",
        "tool_invoked",
        "tool_refused",
    ] {
        assert!(counts.contains_key(kind), "{kind}: {counts:#?}");
    }
    // Each kind is a valid filter.
    let known = cleveragents_domain::audit_kinds();
    for kind in counts.keys() {
        assert!(known.contains(kind), "{kind} is a valid filter");
    }
    world.agents.data(&["audit", "verify"]);
}

#[test]
fn the_error_for_a_misspelt_kind_suggests_the_nearest() {
    let agents = cleveragents_testkit::Agents::new(env!("CARGO_BIN_EXE_agents"));
    let list = |kind: &str| agents.run(&["--format", "json", "audit", "list", "--kind", kind]);
    assert_eq!(list("plan_applied").code, Some(0), "no entry exists yet");
    for (kind, hint) in [("plan_aplied", "`plan_applied`"), ("xyz", "access_denied")] {
        let answer = list(kind);
        assert_eq!(answer.code, Some(2), "{answer:?}");
        let error = answer.json()["data"]["error"].clone();
        assert_eq!(error["code"], "CA-0101");
        assert!(
            error["message"]
                .as_str()
                .is_some_and(|text| text.contains(kind))
        );
        assert!(
            error["hint"]
                .as_str()
                .is_some_and(|text| text.contains(hint)),
            "{error}"
        );
    }
}
