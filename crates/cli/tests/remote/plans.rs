//! Plans through the API: many concurrent plans, and plans of a killed server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use cleveragents_testkit::proof_size;
use serde_json::{Value, json};

use crate::Server;
use crate::http::Caller;
use crate::world::World;

/// Intended end of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IntendedEnd {
    Executed,
    Approved,
    /// Cancelled immediately after it was accepted.
    CancelledEarly,
    /// Cancelled while it runs.
    CancelledLate,
}

const INTENDED_ENDS: [IntendedEnd; 4] = [
    IntendedEnd::Executed,
    IntendedEnd::CancelledLate,
    IntendedEnd::Approved,
    IntendedEnd::CancelledEarly,
];

/// Sends a request; internal errors fail the test.
fn ask(address: &str, line: &str, body: &Value) -> (u16, Value) {
    let mut caller = Caller::connect(address).expect("a server listens");
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let answer = caller.ask(line, &[], &body).expect("a complete answer");
    assert!(answer.status < 500, "{line}: {answer:?}");
    (answer.status, answer.json())
}

fn create_plan(address: &str, action: &str, name: &str) -> String {
    let arguments = json!({
        "action": action, "projects": ["local/p"],
        "arguments": if action == "local/named" { vec![format!("what={name}")] } else { Vec::new() },
    });
    let (status, created) = ask(address, "POST /api/v1/plans", &arguments);
    assert_eq!(status, 201, "{created}");
    created["data"]["plan_id"]
        .as_str()
        .expect("an id")
        .to_owned()
}

fn execute(address: &str, plan: &str) {
    let line = format!("POST /api/v1/plans/{plan}/execute");
    let (status, reported) = ask(address, &line, &json!({}));
    assert_eq!(status, 202, "{reported}");
}

/// Receives the events of a plan until it reaches its intended end, and returns their kinds.
fn watch(address: &str, plan: &str, intended_end: IntendedEnd) -> Vec<String> {
    let line = format!("GET /api/v1/events?kind=plan.&subject={plan}&after=0");
    let caller = Caller::connect(address).expect("a server listens");
    let mut events = caller
        .listen(&line, &[], "")
        .expect("an answer")
        .expect("a stream");
    let (mut kinds, mut last) = (Vec::new(), 0);
    loop {
        let event = events.next().expect("a complete block").expect("no end");
        let Some(data) = event.data else {
            continue;
        };
        let position = event.position.expect("a position");
        assert!(position > last, "in order");
        last = position;
        assert_eq!(data["subject"], plan);
        kinds.push(event.kind.expect("a kind"));
        let stage_suffix = match intended_end {
            IntendedEnd::Executed | IntendedEnd::Approved => "execute/complete",
            IntendedEnd::CancelledEarly | IntendedEnd::CancelledLate => "cancelled",
        };
        let stage = data["payload"]["to"].as_str().unwrap_or_default();
        if stage.ends_with(stage_suffix) {
            return kinds;
        }
    }
}

/// Creates a plan, brings it to its intended end, and reads it meanwhile. Returns its id. `reads`
/// counts the read requests.
fn run_to_intended_end(
    world: &World,
    address: &str,
    name: &str,
    intended_end: IntendedEnd,
    reads: &AtomicUsize,
) -> String {
    let is_slow = matches!(
        intended_end,
        IntendedEnd::CancelledEarly | IntendedEnd::CancelledLate
    );
    let action = if is_slow { "local/slow" } else { "local/named" };
    let plan = create_plan(address, action, name);
    let post = |operation: &str| {
        ask(
            address,
            &format!("POST /api/v1/plans/{plan}/{operation}"),
            &json!({}),
        )
    };
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| watch(address, &plan, intended_end));
        if intended_end == IntendedEnd::Approved {
            let (status, reported) = post("approve");
            assert_eq!(status, 200, "{reported}");
        }
        execute(address, &plan);
        if intended_end == IntendedEnd::CancelledLate {
            World::wait_until("a running plan", || {
                world.stage(&plan) == "execute/processing"
            });
        }
        if is_slow {
            let (status, reported) = post("cancel");
            assert_eq!(status, 200, "{reported}");
        }
        World::wait_until("the plan", || {
            for view in ["", "/tree", "/log", "/strategy", "/checkpoints"] {
                let (status, shown) = ask(
                    address,
                    &format!("GET /api/v1/plans/{plan}{view}"),
                    &Value::Null,
                );
                assert_eq!(status, 200, "{view}: {shown}");
                reads.fetch_add(1, Ordering::Relaxed);
            }
            let stage = world.stage(&plan);
            if is_slow {
                stage.ends_with("/cancelled")
            } else {
                stage == "execute/complete"
            }
        });
        let kinds = watcher.join().expect("the watcher receives the end");
        assert!(kinds.contains(&"plan.created".to_owned()), "{kinds:?}");
    });
    plan
}

/// Eight callers have concurrent plans that are approved, cancelled and watched. Each plan reaches
/// its intended end, each change is in the changeset of its plan, and no request fails because of a
/// lock.
#[test]
fn concurrent_plans_of_eight_callers_reach_their_intended_end() {
    let world = World::new();
    world.named_action();
    world.action(
        "local/slow",
        &["write `slow` to `slow.txt`", "run `sleep 600`"],
    );
    let server = Server::start(&world.agents, &["--insecure-local"]);
    let address = server.address();
    let (each, reads) = (proof_size(1, 2), AtomicUsize::new(0));
    let finished = cleveragents_testkit::at_once(8, |caller| {
        let run_plan = |number: usize| {
            let name = format!("p{caller}n{number}x");
            let intended_end = INTENDED_ENDS[(caller + number) % INTENDED_ENDS.len()];
            (
                run_to_intended_end(&world, address, &name, intended_end, &reads),
                name,
                intended_end,
            )
        };
        // The plans of one caller are also concurrent.
        let run_plan = &run_plan;
        std::thread::scope(|scope| {
            let running: Vec<_> = (0..each)
                .map(|number| scope.spawn(move || run_plan(number)))
                .collect();
            running
                .into_iter()
                .map(|plan| plan.join().expect("the plan reaches its intended end"))
                .collect::<Vec<_>>()
        })
    });
    let plans: Vec<_> = finished.into_iter().flatten().collect();
    assert_eq!(server.end(), Some(0));
    let executed: BTreeMap<String, String> = plans
        .iter()
        .filter(|(_, _, intended_end)| {
            matches!(intended_end, IntendedEnd::Executed | IntendedEnd::Approved)
        })
        .map(|(plan, name, _)| (plan.clone(), name.clone()))
        .collect();
    assert_eq!(executed.len(), 4 * each);
    world.assert_apart(&executed);
    assert_eq!(
        world
            .ask("SELECT 1 FROM plans WHERE queued_for IS NOT NULL")
            .len(),
        0
    );
    println!(
        "{} plans, {} read requests",
        plans.len(),
        reads.load(Ordering::Relaxed)
    );
}

/// An endless model, whose turn occupies a slot.
const ENDLESS: &str = "at_end: repeat_last\nanswers: [{text: 'no end', delay_ms: 600000}]\n";

/// Occupies the only slot of the server with a turn.
fn occupy_only_slot(world: &World, address: &str) -> std::thread::JoinHandle<()> {
    world.file("endless.yaml", ENDLESS);
    let (_, created) = ask(address, "POST /api/v1/sessions", &json!({}));
    let session = created["id"].as_str().expect("an id").to_owned();
    let (address, turn_session) = (address.to_owned(), session.clone());
    let request = std::thread::spawn(move || {
        let mut caller = Caller::connect(&address).expect("a server listens");
        let line = format!("POST /api/v1/sessions/{turn_session}/turns");
        let body = json!({"prompt": "go", "actor": "scripted/endless.yaml"}).to_string();
        // The request ends when the server ends.
        let _ended = caller.ask(&line, &[], &body);
    });
    let sql = format!("SELECT 1 FROM turns WHERE session_id = '{session}' AND state = 'running'");
    World::wait_until("a turn", || !world.ask(&sql).is_empty());
    request
}

/// A home with plans that a server has accepted but not started.
fn waiting_plans(is_killed: bool) -> (World, Vec<String>) {
    let mut world = World::new();
    world.agents = world.agents.with("CLEVERAGENTS_SERVE_MAX_RUNNING", "1");
    world.agents = world.agents.with("CLEVERAGENTS_SERVE_DRAIN_SECONDS", "1");
    world.named_action();
    let mut server = Server::start(&world.agents, &["--insecure-local"]);
    let plans: Vec<String> = ["one", "two"]
        .iter()
        .map(|name| create_plan(server.address(), "local/named", name))
        .collect();
    let request = occupy_only_slot(&world, server.address());
    for plan in &plans {
        execute(server.address(), plan);
        assert_eq!(world.stage(plan), "strategize/complete");
    }
    // No other process runs plans that a live server has accepted.
    let answer = world.run(&["worker", "--until-idle"]);
    assert_eq!(
        (answer.code, &answer.json()["data"]["processed"]),
        (Some(0), &json!(0))
    );
    if is_killed {
        server.kill();
    } else {
        assert_eq!(server.end(), Some(0));
    }
    request.join().expect("the request ends with the server");
    for plan in &plans {
        assert_eq!(world.stage(plan), "strategize/complete");
    }
    (world, plans)
}

fn assert_executed(world: &World, plans: &[String]) {
    World::wait_until("the plans", || {
        plans
            .iter()
            .all(|plan| world.stage(plan) == "execute/complete")
    });
    World::wait_until("no work left", || {
        world
            .ask("SELECT 1 FROM plans WHERE queued_for IS NOT NULL")
            .is_empty()
    });
    world.agents.assert_sound();
}

#[test]
fn a_queued_plan_of_a_killed_server_is_run_by_the_next_server() {
    let (world, plans) = waiting_plans(true);
    let server = Server::start(&world.agents, &["--insecure-local"]);
    assert_executed(&world, &plans);
    assert_eq!(server.end(), Some(0));
}

#[test]
fn a_queued_plan_of_a_stopped_server_is_run_by_a_worker() {
    let (world, plans) = waiting_plans(false);
    let answer = world.run(&["worker", "--until-idle"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert_executed(&world, &plans);
}
