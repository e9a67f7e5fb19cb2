//! `kill -9` at every step boundary of apply, and at every boundary of the command that recovers: two
//! repositories, a folder and a database are all old or all new, and no sandbox is lost.

use cleveragents_testkit::{TestDatabase, proof_size};
use serde_json::Value;

use super::world::{World, agents, names};

/// The whole world before and after, and what the sandbox holds.
struct Sides {
    old: Vec<String>,
    new: Vec<String>,
    changes: Value,
}

/// Runs a command that dies at a boundary. `false` when it came to its end before.
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

/// The next command, after which the world must be of one piece. `true` when it is the new one.
fn assert_of_one_piece(world: &World, sides: &Sides, here: &str) -> bool {
    let left = names(&world.agents);
    let state = world.state();
    let is_new = state == sides.new;
    if !is_new {
        for (part, (found, old)) in state.iter().zip(&sides.old).enumerate() {
            assert_eq!(found, old, "{here}: part {part} is neither old nor new");
        }
    }
    world.assert_nothing_leaked();
    if is_new {
        assert!(left.is_empty(), "{here}: the sandbox is over");
    } else {
        assert_eq!(left, ["all"], "{here}: the sandbox is there");
        assert_eq!(world.changes(), sides.changes, "{here}: with its changes");
        world.agents.data(&["sandbox", "apply", "all"]);
        assert_eq!(world.state(), sides.new, "{here}: it can still be applied");
        world.assert_nothing_leaked();
    }
    is_new
}

/// A world that is kept before its sandbox is applied, and what applying makes of it.
fn prepare(world: &World) -> Sides {
    let old = world.state();
    world.work();
    let changes = world.changes();
    world.keep();
    world.agents.data(&["sandbox", "apply", "all"]);
    let new = world.state();
    for (part, (old, new)) in old.iter().zip(&new).enumerate() {
        assert_ne!(old, new, "part {part} changes");
    }
    world.assert_nothing_leaked();
    Sides { old, new, changes }
}

const APPLY: [&str; 3] = ["sandbox", "apply", "all"];
const NEXT: [&str; 2] = ["sandbox", "list"];

#[test]
fn apply_killed_at_any_step_is_finished_or_taken_back() {
    let world = World::new(agents());
    let sides = prepare(&world);
    let (mut finished, mut taken_back) = (0, 0);
    for step in 1.. {
        world.put_back();
        if !dies(&world, step, &APPLY) {
            break;
        }
        if assert_of_one_piece(&world, &sides, &format!("step {step}")) {
            finished += 1;
        } else {
            taken_back += 1;
        }
    }
    assert!(
        finished > 5 && taken_back > 2,
        "{finished} and {taken_back}"
    );
    println!("{finished} killed applies finished, {taken_back} taken back");
}

#[test]
fn recovery_killed_at_any_step_is_itself_recovered() {
    let world = World::new(agents());
    let sides = prepare(&world);
    // In CI the first boundary of each phase and a few more.
    let stride = proof_size(6, 1);
    let mut killed = 0;
    'steps: for step in (1..).step_by(stride) {
        for again in (1..).step_by(stride) {
            world.put_back();
            if !dies(&world, step, &APPLY) {
                break 'steps;
            }
            if !dies(&world, again, &NEXT) {
                break;
            }
            killed += 1;
            let here = format!("step {step}, then step {again}");
            assert_of_one_piece(&world, &sides, &here);
        }
    }
    println!("{killed} killed recoveries recovered");
}

#[test]
fn apply_killed_with_its_history_on_a_server_is_finished_or_taken_back() {
    let stride = proof_size(9, 3);
    for step in (2..).step_by(stride) {
        let Some(database) = TestDatabase::postgres() else {
            return;
        };
        let world = World::new(agents().on(&database.url));
        let old = world.state();
        world.work();
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
                "step {step}: never a mixture"
            );
        }
        assert!(names(&world.agents).is_empty(), "step {step}");
        world.assert_nothing_leaked();
    }
}
