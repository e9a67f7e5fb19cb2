//! Tasks that are plans: real plans on a real folder, without a model.

use std::path::PathBuf;
use std::sync::Arc;

use crate::harness::{A2aBinding, Server, TIMEOUT, message, provider_options, state};
use cleveragents_application::{
    ActionService, LinkRequest, NewProject, ProjectService, Register, ResourceService,
};
use cleveragents_domain::PlanId;
use cleveragents_domain::identity::Scope;
use cleveragents_store::plans;
use cleveragents_testkit::TestDatabase;
use serde_json::{Value, json};

const ACTIONS: [&str; 2] = [
    "name: acme/fix
description: Fix issue {issue}
definition_of_done: |
  - write `right {issue} {why}` to `price.txt`
strategy_actor: builtin/deterministic
execution_actor: builtin/deterministic
review_actor: none
arguments:
  - {name: issue, type: integer, description: Which one}
  - {name: why, description: The reason}
",
    "name: acme/vague
description: Be better
definition_of_done: Everything is nice
strategy_actor: builtin/deterministic
execution_actor: builtin/deterministic
review_actor: none
",
];

/// Starts a server with a project of one folder and two actions; also returns the folder.
fn server(database: &TestDatabase) -> (Server, PathBuf) {
    let server = Server::start(database, provider_options());
    let folder = server.folder.path().join("shop");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(folder.join("price.txt"), "wrong\n").expect("a file");
    let engine = || Arc::clone(&server.engine);
    let resource = ResourceService::new(engine()).ensure_path(&folder);
    let project = ProjectService::new(engine()).create(NewProject {
        name: "acme/shop".to_owned(),
        links: vec![LinkRequest {
            resource: resource.expect("a resource").id.to_string(),
            alias: None,
            read_only: false,
        }],
        ..NewProject::default()
    });
    project.expect("a project");
    for action in ACTIONS {
        let actions = ActionService::new(engine());
        let created = actions.add(action, "a test", Register::New, &|_| None);
        created.expect("an action");
    }
    (server, folder)
}

fn plan_message() -> Value {
    let mut plan_message = message("m", "please");
    plan_message["metadata"] = json!({"cleveragents": {
        "action": "acme/fix", "projects": ["acme/shop"], "arguments": {"issue": 17, "why": "broken"},
    }});
    plan_message
}

#[test]
fn a_plan_is_created_asks_for_approval_and_is_applied() {
    let database = TestDatabase::sqlite();
    let (server, folder) = server(&database);
    let client = server.client();
    let answer = client.call(
        A2aBinding::Rpc,
        "SendMessage",
        &json!({"message": plan_message()}),
    );
    let task = answer.expect("a task")["task"].clone();
    assert_eq!(state(&task), "TASK_STATE_INPUT_REQUIRED", "{task}");
    let plan = task["metadata"]["planId"].as_str().expect("a plan");
    let plan: PlanId = plan.parse().expect("an id");
    let reply = |text: &str| {
        let mut answer = message("m", text);
        answer["taskId"] = task["id"].clone();
        let answer = client.call(A2aBinding::Rest, "SendMessage", &json!({"message": answer}));
        answer.expect("a task")["task"].clone()
    };
    let price = || std::fs::read_to_string(folder.join("price.txt")).expect("it exists");
    let unclear = reply("hm");
    assert_eq!(state(&unclear), "TASK_STATE_INPUT_REQUIRED", "{unclear}");
    let stage = || {
        let plan = server.engine.read(|reader| plans::get(reader, plan));
        plan.expect("readable").expect("a plan").stage.to_string()
    };
    assert_eq!(stage(), "strategize/complete", "nothing was approved");
    let mut last = unclear;
    for _ in 0..8 {
        if stage() == "execute/complete" {
            break;
        }
        assert_eq!(price(), "wrong\n", "only the sandbox is changed");
        last = reply("yes");
        assert_eq!(state(&last), "TASK_STATE_INPUT_REQUIRED", "{last}");
    }
    assert_eq!(stage(), "execute/complete");
    let artifacts = last["artifacts"].as_array().expect("results");
    let names: Vec<_> = artifacts
        .iter()
        .map(|artifact| &artifact["artifactId"])
        .collect();
    assert_eq!(names, ["diff", "result"]);
    let data = |number: usize| &artifacts[number]["parts"][0]["data"];
    assert_eq!(data(0)["diff_summary"]["plan"], json!(plan));
    assert_eq!(data(1)["stage"], "execute/complete");
    assert_eq!(price(), "wrong\n");
    let unclear = reply("perhaps");
    assert_eq!(state(&unclear), "TASK_STATE_INPUT_REQUIRED");
    for _ in 0..3 {
        if stage() == "apply/applied" {
            break;
        }
        last = reply("yes, go ahead");
    }
    assert_eq!(state(&last), "TASK_STATE_COMPLETED", "{last}");
    assert_eq!(price(), "right 17 broken\n");
}

#[test]
fn a_failed_plan_fails_its_task_and_a_cancelled_task_cancels_its_plan() {
    let database = TestDatabase::sqlite();
    let (server, _) = server(&database);
    let client = server.client();
    // The options may also be in a data part.
    let mut sent = message("m", "x");
    sent["parts"] = json!([{"data": {"cleveragents": {
        "action": "acme/vague", "projects": "acme/shop",
    }}}]);
    let task = client.call(A2aBinding::Rpc, "SendMessage", &json!({"message": sent}));
    let task = task.expect("a task")["task"].clone();
    assert_eq!(state(&task), "TASK_STATE_FAILED", "{task}");
    let failed = database.ask("SELECT stage FROM plans WHERE action = 'acme/vague'");
    assert_eq!(failed, [["strategize/errored"]]);

    let task = client.call(
        A2aBinding::Rpc,
        "SendMessage",
        &json!({"message": plan_message()}),
    );
    let task = task.expect("a task")["task"].clone();
    assert_eq!(state(&task), "TASK_STATE_INPUT_REQUIRED", "{task}");
    client
        .call(A2aBinding::Rpc, "CancelTask", &json!({"id": task["id"]}))
        .expect("cancelled");
    let started_at = std::time::Instant::now();
    let is_cancelled = || {
        let cancelled =
            "SELECT COUNT(*) FROM plans WHERE action = 'acme/fix' AND stage LIKE '%/cancelled'";
        database.count(cancelled) == 1
    };
    while !is_cancelled() {
        assert!(started_at.elapsed() < TIMEOUT, "the plan was not cancelled");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn callers_that_cannot_create_plans_start_no_task() {
    let database = TestDatabase::sqlite();
    let (server, _) = server(&database);
    let caller = server.with_grants("caller", &["acme=editor"], &[Scope::Tasks]);
    let answer = caller.rpc_answer("SendMessage", &json!({"message": plan_message()}));
    assert_eq!(answer.status, 403);
    assert_eq!(answer.json()["error"]["code"], -32012);
    let mut invalid = plan_message();
    invalid["metadata"]["cleveragents"]["action"] = json!(1);
    let refused =
        server
            .client()
            .call(A2aBinding::Rpc, "SendMessage", &json!({"message": invalid}));
    refused
        .expect_err("refused")
        .assert(A2aBinding::Rpc, -32602, 400, "INVALID_PARAMS");
    assert_eq!(database.count("SELECT COUNT(*) FROM tasks"), 0);
    assert_eq!(database.count("SELECT COUNT(*) FROM plans"), 0);
}
