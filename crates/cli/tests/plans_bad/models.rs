//! Misbehaving models.

use crate::world::{GOOD_EDIT, ONE_STEP, ONLY_WORDS, World};

/// Script of a strategist with this answer.
fn strategy(text: &str) -> String {
    let answer = serde_json::json!({"at_end": "repeat_last", "answers": [{"text": text}]});
    answer.to_string()
}

/// Script of an executor that calls a tool and then reports that it is done.
fn call(tool: &str, arguments: &str) -> String {
    format!(
        "at_end: repeat_last\nanswers:\n- calls:\n  - {{name: {tool}, arguments: {arguments}}}\n- text: Done.\n"
    )
}

#[test]
fn an_invalid_strategy_is_requested_again() {
    let cycle = r#"{"summary": "Round", "steps": [{"title": "A", "description": "", "after": [2]},
        {"title": "B", "description": "", "after": [1]}]}"#;
    let bad = [
        (cycle, "cycle"),
        (r#"{"summary": "cut", "steps": [{"title": "#, "JSON"),
        (r#"{"summary": "nothing", "steps": []}"#, "no steps"),
        (r#"{"song": "la la"}"#, "JSON"),
        ("I would rather sing.", "no steps"),
        (
            "1 song or 2 would be better.\n-- The strategist",
            "no steps",
        ),
    ];
    let world = World::new();
    let before = world.every_byte();
    for (answer, reason) in bad {
        world.file("strategist.yaml", &strategy(answer));
        let failed = world.begin("trusted");
        assert_eq!(failed.code, Some(1), "{failed:?}");
        let error = failed.json()["data"]["error"].clone();
        assert_eq!(error["code"], "CA-1145", "{error}");
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains(reason), "{message}");
        assert_eq!(world.stage(), "strategize/errored");
        assert_eq!(world.every_byte(), before, "{reason}");
        // The command of the hint works: the strategist is asked again and answers correctly.
        world.file("strategist.yaml", ONE_STEP);
        let hint = error["hint"].as_str().expect("a hint");
        let plan = world.plan();
        assert!(
            hint.contains(&format!("`agents plan execute {plan}`")),
            "{hint}"
        );
        world.ok(&["plan", "execute", &plan]);
        assert_eq!(world.stage(), "execute/awaiting_input", "{reason}");
        assert_eq!(world.every_byte(), before, "{reason}");
    }
}

#[test]
fn a_strategy_in_a_code_block_is_parsed() {
    let world = World::new();
    world.file(
        "strategist.yaml",
        &strategy("```json\n{\"summary\": \"Fenced\", \"steps\": [{\"title\": \"Edit it\", \"description\": \"\"}]}\n```"),
    );
    world.ok(&["plan", "use", "local/fix", "local/shop"]);
    let shown = world.ok(&["plan", "show", &world.plan()]);
    assert!(shown.to_string().contains("Fenced"), "{shown:#}");
    assert!(!shown.to_string().contains("json"), "{shown:#}");
}

#[test]
fn a_list_is_a_strategy() {
    let world = World::new();
    world.file(
        "strategist.yaml",
        &strategy("This is how:\n\n1. Edit it\n2) Look\n   at it again\n"),
    );
    world.ok(&["plan", "use", "local/fix", "local/shop"]);
    let shown = world.ok(&["plan", "show", &world.plan()]).to_string();
    assert!(shown.contains("Edit it"), "{shown}");
    assert!(shown.contains("Look at it again"), "{shown}");
}

#[test]
fn the_deterministic_strategist_refuses_invalid_items() {
    let world = World::new();
    let before = world.every_byte();
    world.file("singer.yaml", &strategy("I would rather sing."));
    world.ok(&["config", "set", "model.default", "scripted/singer.yaml"]);
    let error = world.fails(
        &[
            "plan",
            "use",
            "local/fix",
            "local/shop",
            "--strategy-actor",
            "builtin/strategist",
        ],
        1,
        "CA-1145",
    );
    assert!(
        error["message"].to_string().contains("strategize"),
        "{error}"
    );
    assert_eq!(world.stage(), "strategize/errored");
    assert_eq!(world.every_byte(), before);
}

#[test]
fn a_call_of_an_unknown_tool_changes_nothing_and_fails_the_validation() {
    let world = World::new();
    world.validated();
    let before = world.every_byte();
    world.file("executor.yaml", &call("local/launch", "{}"));
    let failed = world.begin("trusted");
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert_eq!(world.stage(), "execute/errored");
    assert!(
        world.trouble().contains("local/launch"),
        "{}",
        world.trouble()
    );
    assert_eq!(world.every_byte(), before);
    // With guidance and a working model, the failure is fixed and the plan can be applied.
    let plan = world.plan();
    world.file("executor.yaml", GOOD_EDIT);
    world.ok(&["plan", "prompt", &plan, "edit the file instead"]);
    world.ok(&["plan", "execute", &plan]);
    world.ok(&["plan", "apply", &plan, "--yes"]);
    assert_eq!(world.stage(), "apply/applied");
}

#[test]
fn nothing_outside_the_project_can_be_written() {
    let world = World::new();
    let absolute = world.agents.cwd().join("escaped").display().to_string();
    let outside = [
        "../escaped",
        "../../escaped",
        &absolute,
        ".git/hooks/pre-commit",
        ".git/config",
        "secret/../../escaped",
    ];
    let (before, around) = (world.every_byte(), world.surrounding_entries());
    let calls: Vec<String> = outside
        .iter()
        .map(|path| {
            format!(
                "  - {{name: builtin/file-write, arguments: {{path: '{path}', content: bad}}}}\n"
            )
        })
        .collect();
    world.file(
        "executor.yaml",
        &format!(
            "at_end: repeat_last\nanswers:\n- calls:\n{}- text: Done.\n",
            calls.concat()
        ),
    );
    let answer = world.begin("trusted");
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let plan = world.plan();
    let trouble = world.ok(&["plan", "errors", &plan]);
    let refused = trouble["history"].as_array().map(Vec::len);
    assert_eq!(refused, Some(outside.len()), "{trouble:#}");
    let error = world.fails(&["plan", "apply", &plan, "--yes"], 1, "CA-1148");
    assert_eq!(world.every_byte(), before);
    assert_eq!(world.surrounding_entries(), around);
    for command in World::named_in(error["hint"].as_str().expect("a hint")) {
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        world.ok(&[&command[..], &["--yes"]].concat());
    }
    assert_eq!(world.stage(), "apply/applied");
    assert_eq!(world.every_byte(), before);
}

#[test]
fn a_false_report_of_success_fails_the_validation() {
    let world = World::new();
    world.validated();
    let before = world.every_byte();
    world.file("executor.yaml", ONLY_WORDS);
    let failed = world.begin("auto");
    assert_eq!(failed.code, Some(1), "{failed:?}");
    let error = failed.json()["data"]["error"].clone();
    assert_eq!(error["code"], "CA-1145");
    let status = world.status();
    let plan = world.plan();
    assert_eq!(world.stage(), "execute/errored");
    // The plan re-planned three times and made three fixes in each of its four attempts.
    assert_eq!(
        (&status["attempt"], &status["reversions"]),
        (&4.into(), &3.into())
    );
    let count = |table: &str, prefix: &str| {
        let rows = world.rows().remove(table).expect("rows");
        rows.iter()
            .filter(|row| row.iter().any(|cell| cell.starts_with(prefix)))
            .count()
    };
    assert_eq!(count("plan_steps", "fix/"), 12);
    assert_eq!(count("plan_steps", "strategize/"), 4);
    assert_eq!(world.every_byte(), before);
    // The plan cannot re-plan again, and its messages do not suggest it.
    world.is_refused(&["plan", "revert", &plan], 4, "CA-1151");
    let reported = format!("{error} {status} {}", world.trouble());
    assert!(!reported.contains("plan revert"), "{reported}");
    // The suggested command works.
    world.file("executor.yaml", GOOD_EDIT);
    world.ok(&["plan", "prompt", &plan, "really do it"]);
    world.ok(&["plan", "execute", &plan]);
    assert_eq!(world.stage(), "execute/awaiting_input");
}

#[test]
fn under_supervision_the_user_is_asked_before_a_fix() {
    let world = World::new();
    world.validated();
    let before = world.every_byte();
    world.file("executor.yaml", ONLY_WORDS);
    world.ok(&["plan", "use", "local/fix", "local/shop"]);
    let plan = world.plan();
    let error = world.fails(&["plan", "execute", &plan], 5, "CA-1144");
    assert!(
        error["message"]
            .to_string()
            .contains("before fixing failed validations"),
        "{error}"
    );
    assert_eq!(world.stage(), "execute/awaiting_input");
    world.is_refused(&["plan", "apply", &plan, "--yes"], 4, "CA-1142");
    // An approval counts once: the second fix asks again.
    world.ok(&["plan", "approve", &plan]);
    world.fails(&["plan", "execute", &plan], 5, "CA-1144");
    world.file("executor.yaml", GOOD_EDIT);
    world.ok(&["plan", "approve", &plan]);
    world.ok(&["plan", "execute", &plan]);
    assert_eq!(world.every_byte(), before);
    world.ok(&["plan", "apply", &plan, "--yes"]);
    assert_eq!(world.stage(), "apply/applied");
}

#[test]
fn a_refusal_of_the_user_ends_the_fixes() {
    let world = World::new();
    world.validated();
    world.file("executor.yaml", ONLY_WORDS);
    world.ok(&["plan", "use", "local/fix", "local/shop"]);
    let plan = world.plan();
    world.fails(&["plan", "execute", &plan], 5, "CA-1144");
    world.ok(&["plan", "reject", &plan, "--reason", "leave it"]);
    let error = world.fails(&["plan", "execute", &plan], 1, "CA-1145");
    assert!(error["message"].to_string().contains("leave it"), "{error}");
    assert_eq!(world.stage(), "execute/errored");
}

#[test]
fn a_model_that_never_stops_calling_is_stopped() {
    let world = World::new();
    let before = world.every_byte();
    world.file(
        "executor.yaml",
        "at_end: repeat_last\nanswers:\n- calls:\n  - {name: builtin/file-read, arguments: {path: health.sh}}\n",
    );
    let failed = world.begin("trusted");
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert_eq!(world.stage(), "execute/errored");
    assert!(failed.out.contains("same call"), "{failed:?}");
    assert_eq!(world.every_byte(), before);
    // Another model continues with the same step.
    let plan = world.plan();
    world.file("executor.yaml", ONLY_WORDS);
    world.ok(&["plan", "execute", &plan]);
    assert_eq!(world.stage(), "execute/awaiting_input");
}

#[test]
fn a_model_that_calls_something_else_each_time_is_stopped_by_the_guard() {
    let world = World::new();
    let before = world.every_byte();
    world.file(
        "few.yaml",
        "name: local/few\ndescription: Few calls\nextends: trusted\nguards: {max_tool_calls_per_step: 3}\n",
    );
    world.ok(&["automation-profile", "add", "--config", "few.yaml"]);
    let calls: Vec<String> = (0..8)
        .map(|number| {
            format!("- calls:\n  - {{name: builtin/file-write, arguments: {{path: f{number}, content: x}}}}\n")
        })
        .collect();
    let calls = calls.concat();
    world.file(
        "executor.yaml",
        &format!("at_end: repeat_last\nanswers:\n{calls}- text: Tired.\n"),
    );
    world.begin("local/few");
    let written = world.ok(&["plan", "artifacts", &world.plan()]).to_string();
    for (name, is_written) in [("f0", true), ("f2", true), ("f3", false), ("f7", false)] {
        assert_eq!(
            written.contains(&format!("\"{name}\"")),
            is_written,
            "{name}: {written}"
        );
    }
    assert_eq!(world.every_byte(), before);
}
