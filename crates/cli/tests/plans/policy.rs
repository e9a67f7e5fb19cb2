//! Configuration of automatic checkpoints and of the removal of sandboxes.

use std::path::PathBuf;

use super::world::{World, error, git};

const CHECKPOINTS: &str = "CLEVERAGENTS_CHECKPOINT_AUTO_CREATE_ON";
const CLEANUP: &str = "CLEVERAGENTS_SANDBOX_CLEANUP";

/// A home with an action that writes two files and then fails.
fn world_with_failing_action() -> World {
    let world = World::new();
    world.action(
        "local/fails",
        &[
            "write `one` to `one.txt`",
            "run `echo two > two.txt`",
            "run `exit 3`",
        ],
    );
    world
}

/// Executes a plan of [`world_with_failing_action`] and returns the labels of its checkpoints.
fn labels(world: &World) -> Vec<String> {
    let plan = world.plan("local/fails", &[]);
    let failed = world.run(&["plan", "execute", &plan]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    let listed = world.agents.data(&["plan", "checkpoint", "list", &plan]);
    let checkpoints = listed["checkpoints"].as_array().expect("checkpoints");
    checkpoints
        .iter()
        .filter_map(|checkpoint| checkpoint["label"].as_str().map(str::to_owned))
        .collect()
}

#[test]
fn checkpoints_are_created_on_configured_events() {
    let always = ["step/1/1", "step/1/2", "step/1/3"];
    let before = ["builtin/file-write", "builtin/shell", "builtin/shell"];
    let after = ["after builtin/file-write", "after builtin/shell"];
    let cases: [(&str, Vec<&str>); 5] = [
        ("none", vec![]),
        ("on_subplan_spawn", vec![]),
        ("on_tool_write", before.to_vec()),
        ("on_tool_write_complete, on_subplan_spawn", after.to_vec()),
        ("on_error", vec!["on_error"]),
    ];
    let mut world = world_with_failing_action();
    let expected = [&always[..], &before, &after, &["on_error"]].concat();
    assert_eq!(sorted(labels(&world)), sorted(expected), "by default");
    for (value, expected) in cases {
        world.agents = world.agents.with(CHECKPOINTS, value);
        let expected = [&always[..], &expected].concat();
        assert_eq!(sorted(labels(&world)), sorted(expected), "{value}");
    }
}

fn sorted(labels: Vec<impl Into<String>>) -> Vec<String> {
    let mut labels: Vec<String> = labels.into_iter().map(Into::into).collect();
    labels.sort();
    labels
}

#[test]
fn a_project_and_a_file_can_configure_checkpoints() {
    let world = world_with_failing_action();
    let folder = world.agents.cwd().join(".cleveragents");
    std::fs::create_dir(&folder).expect("a folder");
    for (value, count) in [("[]", 3), ("[\"on_tool_write\", \"on_error\"]", 7)] {
        let text = format!("[sandbox.checkpoint]\nauto-create-on = {value}\n");
        std::fs::write(folder.join("config.toml"), text).expect("a file");
        assert_eq!(labels(&world).len(), count, "{value}");
    }
    let key = "sandbox.checkpoint.auto-create-on";
    for value in ["on_tool_writes", "on_error,", "none,on_error"] {
        let refused = world.run(&["config", "set", key, value]);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(
            refused.out.contains("on_tool_write_complete"),
            "{refused:?}"
        );
    }
    world.agents.data(&["config", "set", key, "on_error"]);
    assert_eq!(
        world.agents.data(&["config", "get", key])["value"],
        "on_tool_write,on_error",
        "the project setting takes precedence"
    );
}

/// Sandbox folder of a plan.
fn folder(world: &World, plan: &str) -> PathBuf {
    let rows = world.ask(&format!(
        "SELECT sandbox_id FROM sandboxes WHERE origin = 'plan {plan}'"
    ));
    let id = rows[0][0].to_lowercase();
    world.agents.home().join("sandboxes").join(id)
}

/// Names and states of sandboxes that are listed without `--all`.
fn listed(world: &World) -> Vec<(String, String)> {
    let listed = world.agents.data(&["sandbox", "list"]);
    let sandboxes = listed["sandboxes"].as_array().expect("sandboxes");
    sandboxes
        .iter()
        .map(|sandbox| {
            let text = |name: &str| sandbox[name].as_str().expect("a word").to_owned();
            (text("name"), text("state"))
        })
        .collect()
}

#[test]
fn the_sandbox_of_a_plan_is_removed_as_configured() {
    for (value, after_apply, after_cancel) in [
        (None, false, true),
        (Some("on_apply"), false, true),
        (Some("on_terminal"), false, false),
        (Some("manual"), true, true),
    ] {
        let mut world = World::new();
        world.action("local/one", &["write `one` to `one.txt`"]);
        if let Some(value) = value {
            world.agents = world.agents.with(CLEANUP, value);
        }
        let applied = world.executed("local/one");
        assert!(folder(&world, &applied).exists(), "{value:?}");
        world.agents.data(&["plan", "apply", &applied, "--yes"]);
        assert_eq!(world.stage(&applied), "apply/applied");
        assert!(world.repository().join("one.txt").exists(), "{value:?}");
        let cancelled = world.executed("local/one");
        world.agents.data(&["plan", "cancel", &cancelled]);
        let mut expected = Vec::new();
        for (plan, exists, state) in [
            (&cancelled, after_cancel, "active"),
            (&applied, after_apply, "applied"),
        ] {
            assert_eq!(folder(&world, plan).exists(), exists, "{value:?} {state}");
            if exists {
                let name = format!("plan-{}", plan.to_lowercase());
                expected.push((name, state.to_owned()));
            }
        }
        assert_eq!(listed(&world), expected, "{value:?}");
        // The user can remove the remaining sandbox, and the repository then has no trace of it.
        for (name, _) in expected {
            world.agents.data(&["sandbox", "discard", &name, "--yes"]);
            let again = world.run(&["sandbox", "discard", &name, "--yes"]);
            assert_ne!(again.code, Some(0), "{again:?}");
        }
        assert_eq!(listed(&world), [], "{value:?}");
        assert!(!folder(&world, &applied).exists(), "{value:?}");
        assert_eq!(world.stage(&applied), "apply/applied");
        let repository = world.repository();
        let worktrees = git(&repository, &["worktree", "list"]);
        assert_eq!(worktrees.lines().count(), 1, "{worktrees}");
        let references = git(&repository, &["for-each-ref"]);
        assert_eq!(references.lines().count(), 1, "{references}");
        assert_eq!(git(&repository, &["status", "--porcelain"]), "");
    }
}

#[test]
fn a_plan_cancelled_while_running_leaves_no_sandbox_if_configured() {
    let mut world = World::new();
    world.agents = world.agents.with(CLEANUP, "on_terminal");
    world.action("local/waits", &["run `touch started; sleep 600`"]);
    let plan = world.plan("local/waits", &[]);
    let first = world.start(&["plan", "execute", &plan]);
    World::wait_until("a step that waits", || {
        let sandboxes = world.ask(&format!(
            "SELECT sandbox_id FROM sandboxes WHERE origin = 'plan {plan}'"
        ));
        !sandboxes.is_empty() && folder(&world, &plan).join("work/repo/started").exists()
    });
    world.agents.data(&["plan", "cancel", &plan]);
    let answer = first.answer();
    assert_ne!(answer.code, Some(0), "{answer:?}");
    assert_eq!(world.stage(&plan), "execute/cancelled");
    assert!(!folder(&world, &plan).exists(), "{}", error(&answer));
    assert_eq!(listed(&world), []);
}

#[test]
fn a_repeated_call_undoes_no_work_of_earlier_calls() {
    let mut world = World::new();
    world.action(
        "local/waits",
        &[
            "run `echo one > one.txt`",
            "run `test -e go && echo two > two.txt`",
            "run `touch started; until test -e on; do test -e go || exit 9; sleep 0.05; done; echo late >> late.txt`",
        ],
    );
    let plan = world.plan("local/waits", &[]);
    let failed = world.run(&["plan", "execute", &plan]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    // From here on, calls create no checkpoints. The last checkpoint before a call of this tool is
    // older than `two.txt`.
    world.agents = world.agents.with(CHECKPOINTS, "none");
    let work = folder(&world, &plan).join("work/repo");
    std::fs::write(work.join("go"), "").expect("a file");
    let running = world.start(&["plan", "execute", &plan]);
    World::wait_until("a step that waits", || work.join("started").exists());
    assert!(running.kill(), "the program was running");
    std::fs::write(work.join("on"), "").expect("a file");
    world.agents.data(&["plan", "execute", &plan, "--redo"]);
    let tree = world.tree(&plan);
    assert_eq!(tree["two.txt"], "two\n");
    assert_eq!(tree["late.txt"], "late\n");
}
