//! Plan properties that were reported as defects of an earlier system; see
//! `docs/reference/defects.md`.

use cleveragents_testkit::TestDatabase;
use serde_json::{Value, json};

use super::faults::{STEPS, break_table, fix_project};
use super::world::World;

/// Decisions of a plan, in order.
fn decisions(world: &World, plan: &str) -> Vec<Vec<String>> {
    world.ask(&format!(
        "SELECT decision_id, parent_decision_id, question, chosen, snapshot FROM plan_decisions \
         WHERE plan_id = '{plan}' AND phase = 'strategize' ORDER BY sequence"
    ))
}

#[test]
fn defect_5336_decisions_are_visible_to_the_next_process() {
    let world = World::new();
    world.action("local/steps", &STEPS);
    let plan = world.plan("local/steps", &[]);
    let stored = decisions(&world, &plan);
    // One decision for the root, one for the approach, and one for each step.
    assert_eq!(stored.len(), 2 + STEPS.len(), "{stored:?}");
    let tree = world.agents.data(&["plan", "tree", &plan]);
    assert_eq!(tree["summary"]["nodes"], stored.len(), "{tree}");
    let shown = tree.to_string();
    for row in &stored {
        assert!(shown.contains(&row[0]), "{row:?} is not in {shown}");
        let received = world.agents.data(&["plan", "explain", &row[0]]).to_string();
        assert!(received.contains(&row[2]), "{row:?}: {received}");
    }
    let roots = stored.iter().filter(|row| row[1].is_empty()).count();
    assert_eq!(roots, 1, "{stored:?}");
}

#[test]
fn defect_10874_a_failed_execute_keeps_the_strategy() {
    let world = World::new();
    world.action("local/steps", &STEPS);
    let plan = world.plan("local/steps", &[]);
    let strategy = || {
        world.ask(&format!(
            "SELECT strategy FROM plans WHERE plan_id = '{plan}'"
        ))
    };
    let before = (strategy(), decisions(&world, &plan));
    for table in ["tool_invocations", "sandboxes"] {
        break_table(&world, table, "");
        let answer = world.run(&["plan", "execute", &plan]);
        fix_project(&world);
        answer.assert_reports_failure(table);
        assert_eq!((strategy(), decisions(&world, &plan)), before, "{table}");
    }
    world.agents.data(&["plan", "execute", &plan]);
    assert_eq!((strategy(), decisions(&world, &plan)), before);
}

#[test]
fn defect_3186_a_plan_whose_stage_cannot_be_read_is_refused() {
    let world = World::new();
    world.action("local/steps", &STEPS);
    let plan = world.executed("local/steps");
    let repository = world.repository_state();
    TestDatabase::write_file(
        &world.agents.database(),
        "PRAGMA ignore_check_constraints = ON; UPDATE plans SET stage = 'execute/unknown'",
    );
    for arguments in [
        &["plan", "execute", &plan][..],
        &["plan", "apply", &plan, "--yes"],
        &["plan", "resume", &plan],
    ] {
        let answer = world.run(arguments);
        answer.assert_reports_failure(&format!("{arguments:?}"));
    }
    assert_eq!(world.repository_state(), repository);
}

/// A script of one answer with a cost.
fn priced(text: &str) -> Value {
    json!({
        "price": {"input": 100, "output": 100}, "at_end": "repeat_last",
        "capabilities": {"context_window": 20000, "max_output": 1000},
        "answers": [{"text": text}],
    })
}

/// Answer of a strategist with one step.
fn one_step() -> String {
    let step = json!({"title": "Write one.txt", "description": "Write it.", "files": ["one.txt"]});
    let choice =
        json!({"question": "Which file?", "chosen": "one.txt", "resources": ["local/repo"]});
    json!({"summary": "Write it at once", "decisions": [choice], "steps": [step]}).to_string()
}

/// An action whose strategist creates one step, which the executor executes.
fn add_action(world: &World) {
    world.scripted_action(
        "local/one",
        &priced(&one_step()),
        &json!({"at_end": "repeat_last", "answers": [
            {"calls": [{"name": "builtin/file-write", "arguments": {"path": "one.txt", "content": "one\n"}}]},
            {"text": "It is written."},
        ]}),
        "- check `test -f one.txt`",
    );
}

#[test]
fn defect_4817_the_estimate_of_an_actor_is_stored_and_shown() {
    let world = World::new();
    add_action(&world);
    let estimate = json!({"summary": "A little", "cost_usd": [0.01, 0.05], "seconds": [5, 9]});
    let script = json!({"at_end": "repeat_last", "answers": [
        {"when": "(?s)^Estimate .*Write one.txt", "text": estimate.to_string()},
        {"text": "{}"},
    ]});
    world.file("estimator.yaml", &script.to_string());
    for (name, fields) in [
        ("local/plain", json!({})),
        (
            "local/formed",
            json!({"response_format": {"type": "json_schema", "name": "e", "schema": {
                "type": "object", "required": ["cost_usd"],
            }}}),
        ),
    ] {
        let mut actor = json!({
            "name": name, "type": "llm", "description": "estimates", "role_hint": "estimation",
            "model": "scripted/estimator.yaml", "system_prompt": "Estimate.",
        });
        for (key, value) in fields.as_object().expect("an object") {
            actor[key] = value.clone();
        }
        let file = world.file("estimator-actor.yaml", &actor.to_string());
        world.agents.data(&["actor", "add", "--config", &file]);
        let mut action = json!({
            "name": "local/estimated", "description": "steps", "reusable": true,
            "strategy_actor": "local/strategist", "execution_actor": "local/executor",
            "definition_of_done": "- check `test -f one.txt`",
        });
        action["estimation_actor"] = name.into();
        let file = world.file("action.yaml", &action.to_string());
        world
            .agents
            .data(&["action", "create", "--config", &file, "--update"]);
        let plan = world.plan("local/estimated", &[]);
        let shown = world.agents.data(&["plan", "show", &plan]);
        assert_eq!(shown["estimate"]["actor"], estimate, "{name}: {shown:#}");
        assert_eq!(shown["estimate"]["steps"], 1);
        let status = world.agents.data(&["plan", "status", &plan]);
        assert_eq!(status["cost"]["estimated"], json!([0.01, 0.05]), "{name}");
        assert_eq!(
            status["cost"]["model_calls"], 2,
            "the strategist and the estimator"
        );
        let received = world
            .agents
            .run(&["--format", "plain", "plan", "status", &plan]);
        assert!(received.out.contains("$0.01 to $0.05"), "{received:?}");
        let events = world.ask(&format!(
            "SELECT payload FROM events WHERE kind = 'plan.estimation_complete' AND subject = '{plan}'"
        ));
        assert_eq!(events.len(), 1, "{events:?}");
        assert!(events[0][0].contains("cost_usd"), "{events:?}");
    }
}

#[test]
fn defect_5601_each_exceeded_budget_has_an_event() {
    let mut world = World::new();
    add_action(&world);
    let exhausted_budgets = |world: &World| {
        let rows = world.ask(
            "SELECT subject, payload FROM events WHERE kind = 'budget.exhausted' ORDER BY position",
        );
        let received: Vec<(String, Value)> = rows
            .into_iter()
            .map(|row| (row[0].clone(), row[1].parse().expect("JSON")))
            .collect();
        received
    };
    let refused = world.run(&[
        "plan",
        "use",
        "local/one",
        "local/p",
        "--max-cost",
        "0.000001",
    ]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let plan = world.ask("SELECT plan_id FROM plans")[0][0].clone();
    let received = exhausted_budgets(&world);
    assert_eq!(received.len(), 1, "{received:?}");
    assert_eq!(received[0].0, format!("plan {plan}"));
    assert_eq!(received[0].1["limit_micro_usd"], 1);

    let session = world.agents.create_session();
    let tell = |world: &World, options: &[&str]| {
        let command = ["session", "tell", "--session", &session, "--actor"];
        let model = ["scripted/strategist.yaml", "hello"];
        let answer = world.run(&[&command[..], &model, options].concat());
        assert_eq!(answer.code, Some(1), "{answer:?}");
        let received = exhausted_budgets(world);
        received.last().expect("an event").0.clone()
    };
    let subject = tell(&world, &["--max-cost", "0.000001"]);
    assert_eq!(subject, format!("session {session}"));

    world.agents = world.agents.with("CLEVERAGENTS_BUDGET_DAY_CENTS", "0");
    assert!(tell(&world, &[]).starts_with("day 2"));
    let count = exhausted_budgets(&world).len();
    let refused = world.run(&["plan", "use", "local/one", "local/p"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let received = exhausted_budgets(&world);
    assert_eq!(
        received.len(),
        count + 1,
        "plans also count towards the budget of the day"
    );
    assert!(received[count].0.starts_with("day 2"), "{received:?}");
}

/// Snapshot of each decision of a plan, by the chosen option.
fn snapshots(world: &World, plan: &str) -> Vec<(String, Value)> {
    let rows = world.ask(&format!(
        "SELECT chosen, snapshot FROM plan_decisions WHERE plan_id = '{plan}' ORDER BY sequence"
    ));
    rows.into_iter()
        .map(|row| (row[0].clone(), row[1].parse().expect("JSON")))
        .collect()
}

#[test]
fn defect_3125_a_decision_can_be_resumed_from_stored_data() {
    let world = World::new();
    add_action(&world);
    world.action("local/steps", &STEPS);
    world
        .agents
        .data(&["invariant", "add", "--global", "Keep it short"]);
    let by_models = world.plan("local/one", &[]);
    world
        .agents
        .data(&["plan", "prompt", &by_models, "be careful"]);
    world.agents.data(&["plan", "execute", &by_models]);
    let without_models = world.executed("local/steps");
    for plan in [&by_models, &without_models] {
        let stored = snapshots(&world, plan);
        assert!(stored.len() > 4, "{stored:?}");
        for (chosen, snapshot) in &stored {
            let text = |field: &str| {
                let text = snapshot[field].as_str();
                text.unwrap_or_else(|| panic!("{chosen}: {field} in {snapshot}"))
            };
            let hash = text("hot_context_hash");
            assert!(hash.len() >= 64, "{hash}");
            let resources = snapshot["relevant_resources"].as_array().expect("a list");
            assert_eq!(resources[0], "local/repo", "{chosen}: {snapshot}");
            for field in ["hot_context_ref", "actor_state_ref"] {
                let answer = match text(field).split_once(' ') {
                    // All input and output of the actor is stored, so the run can be replayed.
                    Some(("run", run)) => world.run(&["run", "replay", run]),
                    Some(("plan", id)) => world.run(&["plan", "show", id]),
                    _ => panic!("{chosen}: {snapshot}"),
                };
                assert_eq!(answer.code, Some(0), "{chosen}: {answer:?}");
            }
        }
    }
    let stored = snapshots(&world, &by_models);
    let snapshot_of = |chosen: &str| {
        let snapshot = stored.iter().find(|entry| entry.0 == chosen);
        snapshot.expect("a decision").1.clone()
    };
    let approach = snapshot_of("Write it at once");
    let (choice, step) = (snapshot_of("one.txt"), snapshot_of("Write one.txt"));
    assert_eq!(approach["hot_context_hash"], choice["hot_context_hash"]);
    assert_eq!(step["relevant_resources"], json!(["local/repo", "one.txt"]));
    let response = snapshot_of("It is written.");
    assert!(
        response["actor_state_ref"]
            .as_str()
            .expect("a text")
            .starts_with("run ")
    );
    assert_ne!(response["hot_context_hash"], approach["hot_context_hash"]);
    assert_ne!(response["actor_state_ref"], approach["actor_state_ref"]);
}
