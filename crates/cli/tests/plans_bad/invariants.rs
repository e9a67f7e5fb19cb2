//! Invariants: a violated invariant stops a plan, contradicting invariants prevent its start, and
//! every model request contains all invariants.

use std::sync::atomic::{AtomicUsize, Ordering};

use cleveragents_testkit::Agents;
use cleveragents_testkit::model_server::{ModelServer, openai};
use serde_json::json;

use crate::world::{GOOD_EDIT, ONE_STEP, World};

const RULE: &str = "Never change `secret/**`";

fn begin(world: &World, invariants: &[&str]) -> cleveragents_testkit::Answer {
    let mut arguments = vec!["plan", "use", "local/fix", "local/shop"];
    arguments.extend(["--automation-profile", "full-auto"]);
    for invariant in invariants {
        arguments.extend(["--invariant", invariant]);
    }
    world.run(&arguments)
}

#[test]
fn a_step_that_violates_an_invariant_stops_the_plan_until_it_is_rolled_back() {
    let violations = [
        "{name: builtin/file-write, arguments: {path: secret/key, content: new}}",
        "{name: builtin/file-delete, arguments: {path: secret/key}}",
        "{name: builtin/file-move, arguments: {from: secret/key, to: key}}",
        "{name: builtin/file-write, arguments: {path: secret/deep/new, content: new}}",
        "{name: builtin/shell, arguments: {command: 'echo new > secret/key'}}",
    ];
    for call in violations {
        let world = World::new();
        let before = world.every_byte();
        world.file(
            "executor.yaml",
            &format!("at_end: repeat_last\nanswers:\n- calls:\n  - {call}\n- text: Done.\n"),
        );
        let failed = begin(&world, &[RULE]);
        assert_eq!(failed.code, Some(1), "{call}: {failed:?}");
        assert_eq!(world.stage(), "execute/errored", "{call}");
        let error = failed.json()["data"]["error"].clone();
        let message = error["message"].as_str().expect("a message");
        assert!(
            message.contains("secret/") && message.contains(RULE),
            "{message}"
        );
        assert_eq!(world.every_byte(), before, "{call}");
        // Neither a retry nor an apply bypasses the invariant.
        let plan = world.plan();
        world.fails(&["plan", "execute", &plan], 1, "CA-1145");
        world.fails(&["plan", "apply", &plan, "--yes"], 4, "CA-1142");
        // The commands in the hint work as printed.
        world.file("executor.yaml", GOOD_EDIT);
        let hint = error["hint"].as_str().expect("a hint");
        let commands = World::named_in(hint);
        assert_eq!(commands.len(), 3, "{hint}");
        for command in commands {
            let command: Vec<&str> = command.iter().map(String::as_str).collect();
            world.ok(&command);
        }
        assert_eq!(world.stage(), "apply/applied", "{call}");
        let mut after = world.every_byte();
        assert_eq!(
            after.remove("secret/key"),
            before.get("secret/key").cloned(),
            "{call}"
        );
        assert_eq!(after["health.sh"], b"status=200\n", "{call}");
    }
}

#[test]
fn a_strategy_that_violates_an_invariant_is_not_executed() {
    let world = World::new();
    let before = world.every_byte();
    world.file(
        "strategist.yaml",
        &ONE_STEP.replace("health.sh", "secret/key"),
    );
    let failed = begin(&world, &[RULE]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert_eq!(world.stage(), "strategize/errored");
    assert_eq!(world.every_byte(), before);
    // The next strategist request contains the reason, and the new strategy is valid.
    let plan = world.plan();
    let better = ONE_STEP.replacen("- text:", "- when: 'It failed: .*secret/key'\n  text:", 1);
    world.file("strategist.yaml", &format!("{better}- text: '{{'\n"));
    world.ok(&["plan", "prompt", &plan, "stay away from it"]);
    world.ok(&["plan", "execute", &plan]);
    assert_eq!(world.stage(), "apply/applied");
}

#[test]
fn contradicting_invariants_prevent_the_start_of_a_plan() {
    let world = World::new();
    let before = world.every_byte();
    let add = |text: &str| world.ok(&["invariant", "add", "--global", text]);
    add("Always log requests");
    let second = add("Never log requests")["invariant"]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let refused = begin(&world, &[]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let error = refused.json()["data"]["error"].clone();
    assert_eq!(error["code"], "CA-1124", "{error}");
    assert!(
        error["hint"]
            .to_string()
            .contains("agents invariant remove"),
        "{error}"
    );
    assert_eq!(world.stage(), "strategize/queued");
    let rows = world.rows();
    for table in ["plan_steps", "runs", "sandboxes", "tool_invocations"] {
        assert_eq!(rows[table], Vec::<Vec<String>>::new(), "{table}");
    }
    assert_eq!(world.every_byte(), before);
    world.ok(&["invariant", "remove", &second, "--yes"]);
    world.ok(&["plan", "execute", &world.plan()]);
    assert_eq!(world.stage(), "apply/applied");
}

/// Text that occurs only in requests for the summary of a long conversation.
const SUMMARY_REQUEST: &str = "You write the summary";

#[test]
fn every_request_contains_all_invariants_and_the_definition_of_done_even_after_compaction() {
    const ROUNDS: usize = 12;
    let requests = AtomicUsize::new(0);
    let server = ModelServer::answering(move |request| {
        let text = request.json().to_string();
        if text.contains(SUMMARY_REQUEST) {
            return openai::text(&["The big files were read."]);
        }
        if !text.contains("Execute step") {
            let steps =
                json!({"summary": "Read", "steps": [{"title": "Read all", "description": ""}]});
            return openai::text(&[&steps.to_string()]);
        }
        let round = requests.fetch_add(1, Ordering::SeqCst);
        if round < ROUNDS {
            let arguments = json!({"path": format!("big{round}.txt")}).to_string();
            let tools = request.json()["tools"].to_string();
            // The name by which the request declares the tool.
            let name = tools.split('"').find(|word| *word == "read_file");
            return openai::calls(&[(
                &format!("c{round}"),
                name.unwrap_or("read_file"),
                &arguments,
            )]);
        }
        openai::text(&["I read everything."])
    });
    let agents = Agents::new(env!("CARGO_BIN_EXE_agents")).with("MINE_BASE_URL", server.url());
    std::fs::create_dir_all(agents.home()).expect("a home");
    std::fs::write(
        agents.home().join("models.yaml"),
        "providers:\n  mine: {base_url: 'http://127.0.0.1:9'}\nmodels:\n  mine/small:\n    \
         capabilities: {context_window: 24000, max_output: 1000}\n",
    )
    .expect("a file");
    let world = World::with(agents);
    for number in 0..ROUNDS {
        let line = format!("file {number}: the quick brown fox jumps over the lazy dog\n");
        world.file(&format!("app/big{number}.txt"), &line.repeat(250));
    }
    crate::world::git(&world.app(), &["add", "-A"]);
    crate::world::git(&world.app(), &["commit", "-q", "-m", "big"]);
    world.actor("strategist", "mine/small");
    world.actor("executor", "mine/small");
    world.ok(&["invariant", "add", "--global", "Keep the log format"]);
    world.ok(&[
        "invariant",
        "add",
        "--project",
        "local/shop",
        "Add no dependency",
    ]);
    world.ok(&["invariant", "add", "--action", "local/fix", "Touch no test"]);
    let answer = begin(&world, &["Write British English"]);
    // The plan only read, so there is nothing to apply.
    assert_eq!(
        answer.json()["data"]["error"]["code"],
        "CA-1148",
        "{answer:?}"
    );
    let received = server.received();
    assert!(received.len() > ROUNDS, "{} requests", received.len());
    for (number, request) in received.iter().enumerate() {
        let text = request.json().to_string();
        if text.contains(SUMMARY_REQUEST) {
            continue;
        }
        for reported in [
            "Keep the log format",
            "Add no dependency",
            "Touch no test",
            "Write British English",
            "the health check answers 200",
        ] {
            assert!(
                text.contains(reported),
                "request {number} contains `{reported}`: {text}"
            );
        }
    }
    let last = received.last().expect("a request").json().to_string();
    assert!(last.contains("The big files were read."), "{last}");
    assert!(last.len() < 120_000, "{} bytes", last.len());
}
