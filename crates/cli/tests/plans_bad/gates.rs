//! Runs of plans without approval under each automation profile, and guards that stop them.

use crate::world::{GOOD_EDIT, ONE_STEP, World};

/// Profile, and phase and progress of a plan after `plan use` without further input.
const PROGRESS_BY_PROFILE: [(&str, &str); 8] = [
    ("manual", "strategize: nothing"),
    // The decisions need approval, so the plan stops before it executes.
    ("review", "strategize: strategy"),
    ("supervised", "strategize: strategy"),
    ("cautious", "strategize: nothing"),
    ("trusted", "execute: strategy, steps"),
    ("auto", "execute: strategy, steps"),
    ("ci", "apply: strategy, steps, applied"),
    ("full-auto", "apply: strategy, steps, applied"),
];

#[test]
fn each_profile_opens_its_gates_between_phases() {
    for (profile, expected) in PROGRESS_BY_PROFILE {
        let world = World::new();
        let before = world.every_byte();
        let answer = world.begin(profile);
        assert_eq!(answer.code, Some(0), "{profile}: {answer:?}");
        let plan = world.plan();
        let status = world.status();
        let phase = status["phase"].as_str().expect("a phase").to_owned();
        let mut progress = Vec::new();
        let rows = world.rows();
        let has_step = |path: &str| {
            let steps = &rows["plan_steps"];
            steps
                .iter()
                .any(|row| row.iter().any(|cell| cell.starts_with(path)))
        };
        if has_step("strategize/") {
            progress.push("strategy");
        }
        if has_step("step/") {
            progress.push("steps");
        }
        let is_applied = status["state"] == "applied";
        if is_applied {
            progress.push("applied");
        }
        let progress = if progress.is_empty() {
            "nothing".to_owned()
        } else {
            progress.join(", ")
        };
        assert_eq!(format!("{phase}: {progress}"), expected, "{profile}");
        assert_eq!(world.every_byte() == before, !is_applied, "{profile}");
        if is_applied {
            continue;
        }
        assert_eq!(status["state"], "awaiting_input", "{profile}: {status:#}");
        // The user passes each remaining gate with one command. Only the last command changes the
        // user's files.
        while world.status()["phase"] != "execute" {
            world.ok(&["plan", "execute", &plan]);
        }
        assert_eq!(world.every_byte(), before, "{profile}");
        world.ok(&["plan", "apply", &plan, "--yes"]);
        assert_eq!(world.stage(), "apply/applied", "{profile}");
    }
}

/// Adds the profile `local/guarded`, which is limited only by these guards.
fn add_guarded_profile(world: &World, guards: &str) {
    world.file(
        "guarded.yaml",
        &format!(
            "name: local/guarded\ndescription: Guarded\nextends: full-auto\nguards: {guards}\n"
        ),
    );
    world.ok(&["automation-profile", "add", "--config", "guarded.yaml"]);
}

#[test]
fn writes_that_need_approval_wait_for_it_and_continue() {
    let world = World::new();
    add_guarded_profile(&world, "{require_approval_for_writes: true}");
    let before = world.every_byte();
    let waits = world.begin("local/guarded");
    assert_eq!(waits.code, Some(5), "{waits:?}");
    assert_eq!(waits.json()["data"]["error"]["code"], "CA-1144");
    assert_eq!(world.stage(), "execute/awaiting_input");
    assert_eq!(
        world.status()["waiting"]["request"]["tool"],
        "builtin/file-edit"
    );
    // A resumed plan without an answer asks again.
    let plan = world.plan();
    world.fails(&["plan", "execute", &plan], 5, "CA-1144");
    assert_eq!(world.every_byte(), before);
    world.ok(&["plan", "approve", &plan]);
    world.is_refused(&["plan", "approve", &plan], 4, "CA-1142");
    world.ok(&["plan", "execute", &plan]);
    assert_eq!(world.stage(), "apply/applied");
    let now = std::fs::read_to_string(world.app().join("health.sh")).expect("a file");
    assert_eq!(now, "status=200\n");
}

#[test]
fn a_model_receives_the_refusal_of_the_user() {
    let world = World::new();
    add_guarded_profile(&world, "{require_approval_for_writes: true}");
    world.file(
        "executor.yaml",
        &format!("{GOOD_EDIT}- {{when: 'too risky', text: The user finds it too risky.}}\n"),
    );
    assert_eq!(world.begin("local/guarded").code, Some(5));
    let plan = world.plan();
    world.ok(&["plan", "reject", &plan, "--reason", "too risky"]);
    // The plan stops without changes and reports how to finish it.
    world.fails(&["plan", "execute", &plan], 1, "CA-1148");
    let tree = world.ok(&["plan", "tree", &plan]).to_string();
    assert!(tree.contains("The user finds it too risky."), "{tree}");
    assert!(world.trouble().contains("too risky"), "{}", world.trouble());
    world.ok(&["plan", "apply", &plan, "--allow-empty", "--yes"]);
    assert_eq!(world.stage(), "apply/applied");
}

#[test]
fn a_tool_on_the_denylist_is_not_called() {
    let world = World::new();
    add_guarded_profile(&world, "{tool_denylist: ['builtin/file-*']}");
    let before = world.every_byte();
    let answer = world.begin("local/guarded");
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert!(world.trouble().contains("denylist"), "{}", world.trouble());
    assert_eq!(world.every_byte(), before);
}

/// A script whose answers have a cost.
fn priced(text: &str) -> String {
    format!(
        "price: {{input: 100, output: 100}}\ncapabilities: {{context_window: 20000, max_output: 1000}}{text}"
    )
}

#[test]
fn an_unknown_cost_is_not_shown_as_zero() {
    let strategists = [ONE_STEP.to_owned(), priced(ONE_STEP)];
    let executors = [GOOD_EDIT.to_owned(), priced(GOOD_EDIT)];
    for (strategist, executor, is_known, has_known_part) in [
        (&strategists[0], &executors[0], false, false),
        (&strategists[1], &executors[0], false, true),
        (&strategists[1], &executors[1], true, true),
    ] {
        let world = World::new();
        world.file("strategist.yaml", strategist);
        world.file("executor.yaml", executor);
        let created = world.begin("trusted");
        assert_eq!(created.code, Some(0), "{created:?}");
        let plan = world.plan();
        let check = |reported: &serde_json::Value, field: &str| {
            assert_eq!(
                reported[field].is_number(),
                is_known,
                "{field}: {reported:#}"
            );
            assert_eq!(
                reported.get("cost_known").is_none(),
                is_known,
                "{reported:#}"
            );
            if !is_known {
                assert_eq!(reported["cost_known"], false, "{reported:#}");
                let part = reported["cost_known_part"].as_f64().expect("a number");
                assert_eq!(part > 0.0, has_known_part, "{reported:#}");
            }
        };
        check(&world.status()["cost"], "cost_so_far");
        check(&world.ok(&["plan", "list"])["plans"][0], "cost_usd");
        check(&world.ok(&["plan", "guard", &plan])["spent"], "cost_usd");
        let shown = world
            .agents
            .run(&["--format", "plain", "plan", "status", &plan]);
        let text = if has_known_part {
            "at least $"
        } else {
            "unknown"
        };
        assert_eq!(shown.out.contains(text), !is_known, "{shown:?}");
        let runs = world.ok(&["run", "list"]);
        let executor_runs = runs["runs"].as_array().into_iter().flatten();
        let mut executor_runs = executor_runs.filter(|run| run["actor"] == "local/executor");
        let run = executor_runs.next().expect("a run of the executor");
        assert_eq!(run["usage"]["cost_usd"].is_null(), !is_known, "{run:#}");
        let id = run["id"].as_str().expect("an id");
        let run = world.ok(&["run", "show", id])["run"].clone();
        assert_eq!(run["usage"]["cost_usd"].is_null(), !is_known, "{run:#}");
        let applied = world.ok(&["plan", "apply", &plan, "--yes"]);
        check(&applied["lifecycle"], "total_cost");
    }
}

#[test]
fn a_plan_over_budget_continues_with_a_higher_budget() {
    let world = World::new();
    world.file("strategist.yaml", &priced(crate::world::ONE_STEP));
    world.file("executor.yaml", &priced(GOOD_EDIT));
    let mut arguments = vec!["plan", "use", "local/fix", "local/shop"];
    arguments.extend(["--automation-profile", "trusted", "--max-cost", "0.000001"]);
    world.fails(&arguments, 1, "CA-1145");
    let plan = world.plan();
    world.fails(&["plan", "execute", &plan], 1, "CA-1145");
    for wrong in ["-1", "much", ""] {
        let refused = world.run(&["plan", "guard", &plan, "--max-cost", wrong]);
        assert_eq!(refused.code, Some(2), "{refused:?}");
    }
    let raised = world.ok(&["plan", "guard", &plan, "--max-cost", "1000"]);
    assert_eq!(raised["guards"]["max_cost_per_plan"], 1000.0, "{raised:#}");
    world.ok(&["plan", "execute", &plan]);
    assert_eq!(world.stage(), "execute/awaiting_input");
    // With a budget below the current cost, finished work stays and no model is called.
    world.ok(&["plan", "guard", &plan, "--max-cost", "0.000001"]);
    world.ok(&["plan", "prompt", &plan, "once more"]);
    let error = world.fails(&["plan", "execute", &plan], 1, "CA-1145");
    assert!(error["message"].to_string().contains("budget"), "{error}");
    world.ok(&["plan", "cancel", &plan]);
    world.is_refused(&["plan", "guard", &plan, "--max-cost", "5"], 4, "CA-1142");
}

#[test]
fn a_plan_stops_when_its_budget_is_exceeded() {
    for (profile, guards, max_cost) in [
        ("local/guarded", "{max_total_cost: 0.000001}", None),
        ("full-auto", "{}", Some("0.000001")),
    ] {
        let world = World::new();
        add_guarded_profile(&world, guards);
        world.file("strategist.yaml", &priced(crate::world::ONE_STEP));
        world.file("executor.yaml", &priced(GOOD_EDIT));
        let before = world.every_byte();
        let mut arguments = vec!["plan", "use", "local/fix", "local/shop"];
        arguments.extend(["--automation-profile", profile]);
        if let Some(max_cost) = max_cost {
            arguments.extend(["--max-cost", max_cost]);
        }
        let error = world.fails(&arguments, 1, "CA-1145");
        assert!(error["message"].to_string().contains("budget"), "{error}");
        assert!(world.stage().ends_with("/errored"), "{}", world.stage());
        assert_eq!(world.every_byte(), before, "{profile}");
    }
}

#[test]
fn a_guard_asks_before_apply_regardless_of_thresholds() {
    let world = World::new();
    add_guarded_profile(&world, "{require_approval_for_apply: true}");
    let before = world.every_byte();
    let answer = world.begin("local/guarded");
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert_eq!(world.stage(), "execute/awaiting_input");
    assert_eq!(world.every_byte(), before);
    let plan = world.plan();
    world.ok(&["plan", "apply", &plan, "--yes"]);
    assert_eq!(world.stage(), "apply/applied");
}

/// Adds the profile `local/asks`: like `full-auto` with these thresholds, and it asks before apply.
fn add_asking_profile(world: &World, thresholds: &str) {
    let text = format!("name: local/asks\nextends: full-auto\nselect_tool: 1.0\n{thresholds}");
    world.file("asks.yaml", &text);
    world.ok(&["automation-profile", "add", "--config", "asks.yaml"]);
}

/// A validation that did not run on the result blocks the apply. `access_network` decides whether
/// the plan returns to execution to run it.
#[test]
fn a_refused_apply_returns_to_execution_if_its_gate_is_open() {
    for (thresholds, is_open) in [("", true), ("access_network: 1.0\n", false)] {
        let world = World::new();
        add_asking_profile(&world, thresholds);
        world.begin("local/asks");
        assert_eq!(world.stage(), "execute/awaiting_input");
        let plan = world.plan();
        let before = world.every_byte();
        world.validated();
        let apply = ["plan", "apply", &plan, "--yes"];
        if is_open {
            // The changes may differ now, so the plan asks again.
            world.fails(&apply, 5, "CA-1144");
            assert_eq!(world.stage(), "execute/awaiting_input");
            assert_eq!(world.every_byte(), before, "nothing was applied");
            let results = &world.rows()["validation_results"];
            assert_eq!(results.len(), 1, "the execution validated the result");
        } else {
            world.fails(&apply, 1, "CA-1147");
            assert_eq!(world.stage(), "apply/constrained");
            assert_eq!(world.every_byte(), before, "nothing was applied");
            assert!(world.rows()["validation_results"].is_empty());
            // The user returns the plan to execution.
            world.ok(&["plan", "execute", &plan]);
        }
        world.ok(&apply);
        assert_eq!(world.stage(), "apply/applied");
        assert_ne!(world.every_byte(), before);
    }
}

#[test]
fn gates_without_effect_cannot_be_changed() {
    let world = World::new();
    for (gate, other, same) in [
        ("install_dependency", "0.5", "0.0"),
        ("approve_plan", "0.5", "0.0"),
    ] {
        for (value, is_valid) in [(other, false), (same, true)] {
            let text = format!("name: local/idle\nextends: full-auto\n{gate}: {value}\n");
            world.file("idle.yaml", &text);
            let add = [
                "automation-profile",
                "add",
                "--config",
                "idle.yaml",
                "--update",
            ];
            if is_valid {
                world.ok(&add);
                continue;
            }
            let answer = world.run(&add);
            assert_eq!(answer.code, Some(2), "{gate}: {answer:?}");
            let error = &answer.json()["data"]["error"];
            assert!(
                error["message"]
                    .as_str()
                    .is_some_and(|text| text.contains(gate))
            );
        }
    }
}
