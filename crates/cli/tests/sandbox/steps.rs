//! `kill -9` at every step boundary of apply, and of its recovery: two repositories, a folder and a
//! database are all old or all new, and no sandbox is lost.

use cleveragents_testkit::{TestDatabase, proof_size};
use serde_json::{Value, json};

use super::world::{World, agents, create, names, write};

/// State of the user's data before and after an apply, and the changes of the sandbox.
struct StatesAndContent {
    old: Vec<String>,
    new: Vec<String>,
    changes: Value,
}

/// Runs a command that kills itself at a step boundary. Returns false if it finished before.
fn dies(world: &World, step: usize, arguments: &[&str]) -> bool {
    let output = world
        .agents
        .command(arguments)
        .env("CLEVERAGENTS_DIE_AT_STEP", step.to_string())
        .output()
        .expect("the program starts");
    match output.status.code() {
        None => true,
        Some(0) => false,
        Some(code) => panic!(
            "{arguments:?}, step {step}: exit code {code}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ),
    }
}

/// Runs the next command, and asserts that the state is completely old or completely new. Returns
/// true if the state is new.
fn assert_consistent(world: &World, states: &StatesAndContent, context: &str) -> bool {
    let sandboxes = names(&world.agents);
    let state = world.state();
    let is_new = state == states.new;
    if !is_new {
        for (part, (current, old)) in state.iter().zip(&states.old).enumerate() {
            assert_eq!(
                current, old,
                "{context}: part {part} is neither old nor new"
            );
        }
    }
    world.assert_nothing_leaked();
    if is_new {
        assert!(sandboxes.is_empty(), "{context}: the sandbox is closed");
    } else {
        assert_eq!(sandboxes, ["all"], "{context}: the sandbox still exists");
        assert_eq!(
            world.changes(),
            states.changes,
            "{context}: with its changes"
        );
        world.agents.data(&["sandbox", "apply", "all"]);
        assert_eq!(
            world.state(),
            states.new,
            "{context}: it can still be applied"
        );
        world.assert_nothing_leaked();
    }
    is_new
}

/// Saves the state before an apply, then applies the sandbox. Returns both states.
fn prepare(world: &World) -> StatesAndContent {
    let old = world.state();
    world.change_everything();
    let changes = world.changes();
    world.save_state();
    world.agents.data(&["sandbox", "apply", "all"]);
    let new = world.state();
    for (part, (old, new)) in old.iter().zip(&new).enumerate() {
        assert_ne!(old, new, "part {part} changes");
    }
    world.assert_nothing_leaked();
    StatesAndContent { old, new, changes }
}

const APPLY: [&str; 3] = ["sandbox", "apply", "all"];
const NEXT: [&str; 2] = ["sandbox", "list"];

#[test]
fn apply_killed_at_any_step_is_finished_or_undone() {
    let world = World::new(agents());
    let states = prepare(&world);
    let (mut finished, mut undone) = (0, 0);
    for step in 1.. {
        world.restore_state();
        if !dies(&world, step, &APPLY) {
            break;
        }
        if assert_consistent(&world, &states, &format!("step {step}")) {
            finished += 1;
        } else {
            undone += 1;
        }
    }
    assert!(finished > 5 && undone > 2, "{finished} and {undone}");
    println!("{finished} killed applies finished, {undone} undone");
}

#[test]
fn rollback_killed_at_any_step_is_finished_and_can_be_undone() {
    let world = World::new(agents());
    let states = prepare(&world);
    let rollback = ["sandbox", "rollback", "all", "--to", "1"];
    let mut killed = 0;
    // CI tests every third boundary.
    for step in (1..).step_by(proof_size(3, 1)) {
        world.restore_state();
        if !dies(&world, step, &rollback) {
            break;
        }
        killed += 1;
        assert_eq!(names(&world.agents), ["all"], "step {step}");
        let changes = world.changes();
        let parts = changes.as_array().map_or(&[][..], Vec::as_slice);
        assert!(
            parts.iter().all(|part| part["changes"] == json!([])),
            "step {step}: the rollback is finished: {changes:#}"
        );
        world.agents.data(&["sandbox", "redo", "all"]);
        assert_eq!(world.changes(), states.changes, "step {step}: after redo");
        world
            .agents
            .data(&["sandbox", "rollback", "all", "--to", "1"]);
        world
            .agents
            .data(&["sandbox", "rollback", "all", "--to", "2"]);
        assert_eq!(
            world.changes(),
            states.changes,
            "step {step}: after a rollback to the later checkpoint"
        );
        world.agents.data(&APPLY);
        assert_eq!(world.state(), states.new, "step {step}");
    }
    assert!(killed > 5, "{killed}");
    println!("{killed} killed rollbacks finished");
}

#[test]
fn recovery_killed_at_any_step_is_itself_recovered() {
    let world = World::new(agents());
    let states = prepare(&world);
    // CI tests the first boundary of each phase and a few more.
    let stride = proof_size(6, 1);
    let mut killed = 0;
    'steps: for step in (1..).step_by(stride) {
        for recovery_step in (1..).step_by(stride) {
            world.restore_state();
            if !dies(&world, step, &APPLY) {
                break 'steps;
            }
            if !dies(&world, recovery_step, &NEXT) {
                break;
            }
            killed += 1;
            let context = format!("step {step}, then step {recovery_step}");
            assert_consistent(&world, &states, &context);
        }
    }
    println!("{killed} killed recoveries recovered");
}

#[test]
fn apply_killed_with_its_history_on_a_server_is_finished_or_undone() {
    let stride = proof_size(9, 3);
    for step in (2..).step_by(stride) {
        let Some(database) = TestDatabase::postgres() else {
            return;
        };
        let world = World::new(agents().on(&database.url));
        let old = world.state();
        world.change_everything();
        let changes = world.changes();
        if !dies(&world, step, &APPLY) {
            return;
        }
        names(&world.agents);
        let state = world.state();
        if state == old {
            assert_eq!(world.changes(), changes, "step {step}: nothing is lost");
            world.agents.data(&APPLY);
        } else {
            assert!(
                state.iter().zip(&old).all(|(new, old)| new != old),
                "step {step}: no mixed state"
            );
        }
        assert!(names(&world.agents).is_empty(), "step {step}");
        world.assert_nothing_leaked();
    }
}

#[test]
fn an_unrecoverable_apply_does_not_block_other_sandboxes() {
    let world = World::new(agents());
    world.change_everything();
    let part = create(&world.agents, "other", &[&world.place("plain")]).remove(0);
    write(part.join("mine"), "mine\n");
    assert!(
        dies(&world, 12, &APPLY),
        "the apply is killed after its first changes"
    );
    let away = world.place("away");
    std::fs::rename(world.place("one"), &away).expect("renamed");
    let listed = world.agents.run(&NEXT);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    assert!(listed.err.contains("could not be recovered"), "{listed:?}");
    let shown = world.agents.run(&["sandbox", "diff", "other", "--stat"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    // Commands of the interrupted sandbox report the reason, and an apply to the same folder is
    // refused.
    let refused = world.agents.run(&["sandbox", "diff", "all"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("was interrupted"), "{refused:?}");
    let refused = world.agents.run(&["sandbox", "apply", "other"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("CA-0656"), "{refused:?}");
    std::fs::rename(&away, world.place("one")).expect("renamed");
    names(&world.agents);
    world.agents.run(&APPLY);
    world.agents.data(&["sandbox", "apply", "other"]);
    assert_eq!(
        std::fs::read(world.place("plain/mine")).expect("a file"),
        b"mine\n"
    );
    assert!(names(&world.agents).is_empty());
    world.assert_nothing_leaked();
}

#[test]
fn a_pipe_in_a_new_folder_is_removed_with_the_folder() {
    let world = World::new(agents());
    let part = create(&world.agents, "pipe", &[&world.place("plain")]).remove(0);
    write(part.join("new/file"), "new\n");
    let status = std::process::Command::new("mkfifo")
        .arg(part.join("new/pipe"))
        .status();
    assert!(status.expect("mkfifo starts").success());
    world.agents.data(&["sandbox", "checkpoint", "pipe"]);
    world
        .agents
        .data(&["sandbox", "rollback", "pipe", "--to", "1"]);
    assert!(!part.join("new").exists(), "the folder is gone");
    assert_eq!(names(&world.agents), ["pipe"]);
}
