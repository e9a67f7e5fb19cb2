//! Commands about plans with invalid input: each reports the problem and changes nothing.

use crate::world::World;

/// An action with arguments that needs no model.
const WRITE: &str = "
name: local/write
description: Write {what}
definition_of_done: |
  - write `{what}` to `a.txt`
strategy_actor: builtin/deterministic
arguments:
- {name: what, type: string}
- {name: times, type: integer, required: false, minimum: 1}
- {name: mode, required: false, choices: [fast, slow]}
";

fn with_arguments() -> World {
    let world = World::new();
    world.file("write.yaml", WRITE);
    world.ok(&["action", "create", "--config", "write.yaml"]);
    world
}

const ACTION: &str = "local/write";
const SHOP: &str = "local/shop";

/// Arguments of `plan use`, with exit code, error code and part of the message.
const CASES: [(&[&str], i32, &str, &str); 18] = [
    (&[ACTION, SHOP], 2, "CA-1106", "`what` is missing"),
    (
        &[ACTION, SHOP, "--arg", "wat=x"],
        2,
        "CA-1106",
        "no argument `wat`",
    ),
    (
        &[ACTION, SHOP, "--arg", "what=x", "--arg", "times=many"],
        2,
        "CA-1106",
        "whole number",
    ),
    (
        &[ACTION, SHOP, "--arg", "what=x", "--arg", "times=0"],
        2,
        "CA-1106",
        "`times`",
    ),
    (
        &[ACTION, SHOP, "--arg", "what=x", "--arg", "mode=odd"],
        2,
        "CA-1106",
        "`mode`",
    ),
    (
        &[ACTION, SHOP, "--arg", "what=x", "--arg", "what=y"],
        2,
        "CA-1106",
        "`what`",
    ),
    (&[ACTION, SHOP, "--arg", "what"], 2, "CA-0101", "NAME=VALUE"),
    (&[ACTION, SHOP, "--arg", "=x"], 2, "CA-0101", "NAME=VALUE"),
    (&[ACTION], 2, "CA-0101", "needs a project"),
    (&["local/writ", SHOP], 3, "CA-1101", "local/writ"),
    (
        &[ACTION, "local/nothing", "--arg", "what=x"],
        3,
        "CA-0631",
        "local/nothing",
    ),
    (
        &[ACTION, "local/empty", "--arg", "what=x"],
        2,
        "CA-1155",
        "links no resource",
    ),
    (
        &[ACTION, SHOP, SHOP, "--arg", "what=x"],
        2,
        "CA-0101",
        "named twice",
    ),
    (
        &[
            ACTION,
            SHOP,
            "--arg",
            "what=x",
            "--automation-profile",
            "bold",
        ],
        3,
        "CA-1111",
        "bold",
    ),
    (
        &[ACTION, SHOP, "--arg", "what=x", "--max-cost", "lots"],
        2,
        "CA-0101",
        "lots",
    ),
    (
        &[ACTION, SHOP, "--arg", "what=x", "--max-cost", "-1"],
        2,
        "CA-0101",
        "-1",
    ),
    (
        &[ACTION, SHOP, "--arg", "what=x", "--invariant", ""],
        2,
        "CA-1122",
        "invariant",
    ),
    (
        &["local/old", SHOP, "--arg", "what=x"],
        4,
        "CA-1105",
        "archived",
    ),
];

#[test]
fn no_plan_is_created_from_invalid_arguments() {
    let world = with_arguments();
    world.ok(&["project", "create", "local/empty"]);
    world.file("old.yaml", &WRITE.replace("local/write", "local/old"));
    world.ok(&["action", "create", "--config", "old.yaml"]);
    world.ok(&["action", "archive", "local/old", "--yes"]);
    for (arguments, exit, code, text) in CASES {
        let command = [&["plan", "use"], arguments].concat();
        let error = world.is_refused(&command, exit, code);
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains(text), "{arguments:?}: {message}");
    }
    assert_eq!(world.ok(&["plan", "list"])["plans"], serde_json::json!([]));
}

#[test]
fn a_value_that_looks_like_a_template_stays_text() {
    let world = with_arguments();
    let value = "{times} {{x}} ${HOME}";
    let argument = format!("what={value}");
    let use_plan = [
        "plan",
        "use",
        "local/write",
        "local/shop",
        "--arg",
        &argument,
    ];
    world.ok(&[&use_plan[..], &["--automation-profile", "ci"]].concat());
    let written = std::fs::read_to_string(world.app().join("a.txt")).expect("a file");
    assert_eq!(written, format!("{value}\n"));
}

#[test]
fn missing_and_ambiguous_plans_are_refused() {
    let world = World::new();
    world.is_refused(&["plan", "execute"], 3, "CA-1149");
    world.is_refused(&["plan", "apply", "--yes"], 3, "CA-1149");
    world.is_refused(&["plan", "approve"], 3, "CA-1149");
    // The first six characters of an id are the time in units of about a quarter of an hour. Two
    // consecutive plans share them, unless a new unit starts between them.
    let mut ambiguous = String::new();
    loop {
        world.ok(&["plan", "use", "local/fix", "local/shop", "--no-start"]);
        let prefix = world.plan()[..6].to_owned();
        if std::mem::replace(&mut ambiguous, prefix.clone()) == prefix {
            break;
        }
    }
    let unknown = "01AAAAAAAAAAAAAAAAAAAAAAAA";
    for command in [
        "status", "execute", "apply", "cancel", "approve", "revert", "resume", "diff", "explain",
    ] {
        for name in [unknown, "local/nothing-01aaaaaa"] {
            let code = if command == "explain" {
                "CA-1150"
            } else {
                "CA-0404"
            };
            world.is_refused(&["plan", command, name], 3, code);
        }
        let error = world.is_refused(&["plan", command, &ambiguous], 2, "CA-1141");
        assert_eq!(
            error["details"]["candidates"].as_array().map(Vec::len),
            Some(2),
            "{error}"
        );
    }
    world.is_refused(&["plan", "prompt", unknown, "hello"], 3, "CA-0404");
    world.is_refused(
        &["plan", "rollback", unknown, "cp_1", "--yes"],
        3,
        "CA-0404",
    );
    world.is_refused(&["plan", "execute"], 2, "CA-1141");
    world.is_refused(
        &["plan", "execute", unknown, "--redo", "--skip"],
        2,
        "CA-0101",
    );
}

#[test]
fn a_missing_resource_is_reported_before_the_start_and_can_be_restored() {
    let world = World::new();
    let (app, away) = (world.app(), world.agents.cwd().join("away"));
    std::fs::rename(&app, &away).expect("moved");
    let error = world.fails(&["plan", "use", "local/fix", "local/shop"], 1, "CA-1146");
    assert!(
        error["message"].to_string().contains("local/app"),
        "{error}"
    );
    assert_eq!(world.stage(), "strategize/queued");
    std::fs::rename(&away, &app).expect("moved");
    for command in World::named_in(error["hint"].as_str().expect("a hint")) {
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        world.ok(&command);
    }
    assert_eq!(world.stage(), "strategize/awaiting_input");
}

#[test]
fn a_resource_that_disappears_before_apply_is_reported_and_the_work_is_kept() {
    let world = World::new();
    world.begin("trusted");
    let plan = world.plan();
    let (app, away) = (world.app(), world.agents.cwd().join("away"));
    std::fs::rename(&app, &away).expect("moved");
    let answer = world.run(&["plan", "apply", &plan, "--yes"]);
    assert!(answer.code.is_some_and(|code| code != 0), "{answer:?}");
    assert!(
        answer.json()["data"]["error"]["hint"].is_string(),
        "{answer:?}"
    );
    std::fs::rename(&away, &app).expect("moved");
    world.ok(&["plan", "apply", &plan, "--yes"]);
    assert_eq!(world.stage(), "apply/applied");
}

#[test]
fn a_missing_actor_is_reported_before_the_start() {
    let world = World::new();
    let error = world.fails(
        &[
            "plan",
            "use",
            "local/fix",
            "local/shop",
            "--execution-actor",
            "local/nobody",
        ],
        1,
        "CA-1146",
    );
    assert!(
        error["message"].to_string().contains("local/nobody"),
        "{error}"
    );
    assert_eq!(world.stage(), "strategize/queued");
    assert_eq!(world.rows()["sandboxes"], Vec::<Vec<String>>::new());
}

#[test]
fn an_unreachable_model_fails_the_plan_which_can_be_retried_or_cancelled() {
    // The operating system just assigned this port as free, so no process listens on it.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a port")
        .port();
    let agents = cleveragents_testkit::Agents::new(env!("CARGO_BIN_EXE_agents"))
        .with("OPENAI_BASE_URL", format!("http://127.0.0.1:{port}"))
        .with("OPENAI_API_KEY", "sk-test-0123456789abcdefghij");
    let world = World::with(agents);
    world.ok(&["config", "set", "model.retries", "0"]);
    world.actor("strategist", "openai/gpt-5.1");
    let before = world.every_byte();
    let failed = world.begin("trusted");
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(!failed.out.contains("sk-test"), "{failed:?}");
    assert_eq!(world.stage(), "strategize/errored");
    assert_eq!(world.every_byte(), before);
    let plan = world.plan();
    let hint = failed.json()["data"]["error"]["hint"]
        .as_str()
        .expect("a hint")
        .to_owned();
    assert!(
        hint.contains(&format!("agents plan execute {plan}")),
        "{hint}"
    );
    world.fails(&["plan", "execute", &plan], 1, "CA-1145");
    world.ok(&["plan", "cancel", &plan]);
    assert_eq!(world.stage(), "strategize/cancelled");
}

#[test]
fn a_validation_whose_command_is_missing_has_not_passed() {
    let world = World::new();
    world.validated_by("no-such-program --check");
    let before = world.every_byte();
    world.ok(&["plan", "use", "local/fix", "local/shop"]);
    let plan = world.plan();
    world.fails(&["plan", "execute", &plan], 5, "CA-1144");
    world.is_refused(&["plan", "apply", &plan, "--yes"], 4, "CA-1142");
    assert_eq!(world.every_byte(), before);
    // The validation stays attached, because a validation that cannot run must be fixed.
    let attached = world.ok(&["validation", "list"]).to_string();
    assert!(attached.contains("local/tests"), "{attached}");
}
