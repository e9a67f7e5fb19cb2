//! Tasks that are plans.

use std::sync::Arc;

use crate::harness::{Double, Server, Way, message, product, state};
use cleveragents_domain::identity::Scope;
use cleveragents_domain::{Move, PlanId, PlanStage, Waiting};
use cleveragents_store::plans::Along;
use cleveragents_store::{Engine, Error, plans};
use cleveragents_testkit::TestDatabase;
use serde_json::{Value, json};

/// Moves a plan.
fn moves(engine: &Engine, id: PlanId, ways: &'static [Move]) {
    engine
        .write(move |unit| {
            for way in ways {
                plans::advance(unit, id, *way, &Along::default())?.expect("it can be moved");
            }
            Ok::<_, Error>(())
        })
        .expect("moved");
}

fn question(engine: &Engine, id: PlanId) {
    let waiting = Waiting::Question {
        text: "which one?".to_owned(),
        options: Vec::new(),
        subject: "s".to_owned(),
    };
    engine
        .write(move |unit| plans::wait_for(unit, id, &waiting))
        .expect("waits");
}

const EXECUTED: &[Move] = &[
    Move::StartStrategize,
    Move::CompleteStrategize,
    Move::QueueExecute,
    Move::StartExecute,
    Move::CompleteExecute,
];

fn server(database: &TestDatabase) -> (Server, PlanId) {
    let double = Arc::new(Double::default());
    let server = Server::lending(database, product(), Arc::clone(&double));
    let mut new = cleveragents_testkit::plans::new_plan("fix");
    for project in &mut new.made_with.projects {
        "acme/shop".clone_into(&mut project.name);
    }
    let id = cleveragents_testkit::plans::store(&server.engine, &new);
    *double.plan.lock().expect("not poisoned") = Some(id);
    (server, id)
}

fn asked() -> Value {
    let mut asked = message("m", "please");
    asked["metadata"] = json!({"cleveragents": {
        "action": "acme/fix", "projects": ["acme/shop"], "arguments": {"issue": 17, "why": "broken"},
    }});
    asked
}

#[test]
fn a_plan_is_made_asks_and_is_applied() {
    let database = TestDatabase::sqlite();
    let (server, id) = server(&database);
    // What comes last is done first.
    *server.double.drives.lock().expect("not poisoned") = vec![
        Box::new(|engine, id| {
            moves(
                engine,
                id,
                &[Move::QueueApply, Move::StartApply, Move::CompleteApply],
            );
        }),
        Box::new(|engine, id| moves(engine, id, EXECUTED)),
        Box::new(question),
    ];
    let client = server.client();
    let answer = client.call(Way::Rpc, "SendMessage", &json!({"message": asked()}));
    let task = answer.expect("a task")["task"].clone();
    assert_eq!(state(&task), "TASK_STATE_INPUT_REQUIRED", "{task}");
    assert_eq!(task["metadata"]["planId"], id.to_string());
    assert_eq!(
        task["status"]["message"]["parts"][0]["text"],
        "an answer: which one?"
    );
    let say = |text: &str| {
        let mut answer = message("m", text);
        answer["taskId"] = task["id"].clone();
        let answer = client.call(Way::Rest, "SendMessage", &json!({"message": answer}));
        answer.expect("a task")["task"].clone()
    };
    let executed = say("the second");
    assert_eq!(state(&executed), "TASK_STATE_INPUT_REQUIRED", "{executed}");
    let names: Vec<_> = executed["artifacts"]
        .as_array()
        .expect("results")
        .iter()
        .map(|one| one["artifactId"].as_str().expect("an id"))
        .collect();
    assert_eq!(names, ["diff", "result"]);
    let diff = &executed["artifacts"][0]["parts"][0]["data"];
    assert_eq!(diff["diff_summary"]["plan"], json!(id));
    let answers = database.ask("SELECT verdict, answer FROM plan_answers");
    assert_eq!(answers, [["answered", "the second"]]);
    let unclear = say("hm");
    assert_eq!(state(&unclear), "TASK_STATE_INPUT_REQUIRED");
    let done = say("yes, please");
    assert_eq!(state(&done), "TASK_STATE_COMPLETED", "{done}");
    let calls = server.double.calls.lock().expect("calls").clone();
    let called: Vec<_> = calls.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(called, ["plan/use", "plan/apply"]);
    assert_eq!(
        calls[0].1,
        json!({
            "action": "acme/fix", "projects": ["acme/shop"],
            "arguments": ["issue=17", "why=broken"], "no_start": true,
        })
    );
}

#[test]
fn a_plan_that_stops_fails_its_task_and_one_that_is_cancelled_is_given_up() {
    let database = TestDatabase::sqlite();
    let (server, id) = server(&database);
    let client = server.client();
    *server.double.drives.lock().expect("not poisoned") = vec![Box::new(|engine, id| {
        moves(engine, id, &[Move::StartStrategize, Move::FailStrategize]);
    })];
    // In a part that is data, too.
    let mut sent = message("m", "x");
    sent["parts"] = json!([{"data": {"cleveragents": {"action": "acme/fix"}}}]);
    let task = client.call(Way::Rpc, "SendMessage", &json!({"message": sent}));
    assert_eq!(state(&task.expect("a task")["task"]), "TASK_STATE_FAILED");

    *server.double.drives.lock().expect("not poisoned") = vec![Box::new(|engine, id| {
        moves(engine, id, &[Move::Retry]);
        question(engine, id);
    })];
    let task = client.call(Way::Rpc, "SendMessage", &json!({"message": asked()}));
    let task = task.expect("a task")["task"].clone();
    assert_eq!(state(&task), "TASK_STATE_INPUT_REQUIRED", "{task}");
    client
        .call(Way::Rpc, "CancelTask", &json!({"id": task["id"]}))
        .expect("cancelled");
    let begun = std::time::Instant::now();
    loop {
        let plan = server.engine.read(|reader| plans::get(reader, id));
        let plan = plan.expect("readable").expect("a plan");
        if plan.stage == PlanStage::StrategizeCancelled {
            break;
        }
        assert!(
            begun.elapsed() < crate::harness::PATIENCE,
            "the plan was not given up"
        );
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn who_may_make_no_plans_begins_no_task() {
    let database = TestDatabase::sqlite();
    let (server, _) = server(&database);
    let caller = server.with_grants("caller", &["acme=editor"], &[Scope::Tasks]);
    let answer = caller.rpc_answer("SendMessage", &json!({"message": asked()}));
    assert_eq!(answer.status, 403);
    assert_eq!(answer.json()["error"]["code"], -32012);
    let mut wrong = asked();
    wrong["metadata"]["cleveragents"]["action"] = json!(1);
    let refused = server
        .client()
        .call(Way::Rpc, "SendMessage", &json!({"message": wrong}));
    refused
        .expect_err("refused")
        .assert(Way::Rpc, -32602, 400, "INVALID_PARAMS");
    assert_eq!(database.count("SELECT COUNT(*) FROM tasks"), 0);
}
