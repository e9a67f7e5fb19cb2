//! `kill -9` at random instants of `plan execute`, `plan apply`, `plan rollback` and `plan redo`:
//! the next process finds all finished steps, repeats no call that must not be repeated, and
//! reaches the same result.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::{Duration, Instant};

use cleveragents_testkit::{Dice, proof_size};
use serde_json::Value;

use super::world::{STEPS, World, error};

/// Result of a plan, without values that vary.
#[derive(Debug, PartialEq)]
struct PlanResult {
    tree: BTreeMap<String, String>,
    changes: Value,
    steps: Vec<Vec<String>>,
}

fn came(world: &World, plan: &str) -> PlanResult {
    let steps = world.ask(&format!(
        "SELECT path, title, state FROM plan_steps WHERE plan_id = '{plan}' AND path LIKE 'step/%' \
         AND undone_by IS NULL ORDER BY number"
    ));
    let mut changes = world.changes(plan);
    // The writer of a file is unknown for an interrupted call that was assumed done.
    for file in changes[0].as_array_mut().into_iter().flatten() {
        file["is_made_by_command"] = false.into();
    }
    PlanResult {
        tree: world.tree(plan),
        changes,
        steps,
    }
}

/// Complete rows of the finished steps.
fn done(world: &World, plan: &str) -> Vec<Vec<String>> {
    world.ask(&format!(
        "SELECT number, path, run_id, checkpoint, position_before, position_after, summary, finished_at \
         FROM plan_steps WHERE plan_id = '{plan}' AND state = 'done' ORDER BY number"
    ))
}

fn calls(world: &World, plan: &str) -> Vec<Vec<String>> {
    world.ask(&format!(
        "SELECT invocation_id, tool, outcome FROM tool_invocations WHERE plan_id = '{plan}' ORDER BY 1"
    ))
}

/// Starts a command and kills it; returns whether it was still running.
fn kill_after(world: &World, arguments: &[&str], wait: Duration) -> bool {
    let child = world.start(arguments);
    std::thread::sleep(wait);
    child.kill()
}

/// A random instant of a duration.
fn instant(took: Duration, dice: &mut Dice) -> Duration {
    let micros = u64::try_from(took.as_micros()).expect("a short time");
    Duration::from_micros(dice.roll(micros + micros / 8 + 1))
}

/// Resumes until the plan is executed. Returns the number of retried calls with unknown outcome.
fn resume_plan(world: &World, plan: &str, here: &str) -> usize {
    let (mut redone, mut redo) = (0, false);
    while world.stage(plan) != "execute/complete" {
        let before = calls(world, plan);
        let arguments: &[&str] = if redo {
            &["plan", "execute", plan, "--redo"]
        } else {
            &["plan", "execute", plan]
        };
        let answer = world.run(arguments);
        if answer.code == Some(5) {
            assert_eq!(error(&answer)["code"], "CA-1156", "{here}: {answer:?}");
            assert!(!redo, "{here}: asked again after the answer: {answer:?}");
            assert_eq!(calls(world, plan), before, "{here}: repeated by itself");
            (redone, redo) = (redone + 1, true);
            continue;
        }
        redo = false;
        assert_eq!(answer.code, Some(0), "{here}: {answer:?}");
    }
    redone
}

/// Repeatedly kills a plan until it is executed or was killed often enough. Returns the number of
/// kills that interrupted it, and the number of calls with unknown outcome.
fn disturb(
    world: &World,
    action: &str,
    expected: &PlanResult,
    took: Duration,
    dice: &mut Dice,
) -> (usize, usize) {
    let plan = if dice.once_in(4) {
        world.plan(action, &["--no-start"])
    } else {
        world.plan(action, &[])
    };
    let mut here = format!("{action}, {plan}, of {took:?}: killed after");
    let (mut kills, mut redone) = (0, 0);
    let mut known = done(world, &plan);
    // Some plans are killed anywhere, some every few steps.
    let stretch = took / *dice.pick(&[1, 2, 4, 6]);
    for _ in 0..=dice.roll(9) {
        if world.stage(&plan) == "execute/complete" {
            break;
        }
        let wait = instant(stretch, dice);
        let _written = write!(here, " {wait:?}");
        // Half of the calls with unknown outcome are retried, which may be interrupted again.
        let arguments = ["plan", "execute", &plan, "--redo"];
        let is_redo = dice.once_in(2);
        let arguments = &arguments[..if is_redo { 4 } else { 3 }];
        let was_running = kill_after(world, arguments, wait);
        redone += usize::from(is_redo);
        kills += usize::from(was_running && world.stage(&plan).ends_with("/processing"));
        let now = done(world, &plan);
        assert_eq!(now[..known.len()], known, "{here}: steps were changed");
        known = now;
    }
    let doubts = resume_plan(world, &plan, &here);
    redone += doubts;
    let now = done(world, &plan);
    assert_eq!(now[..known.len()], known, "{here}: steps were changed");
    let came = came(world, &plan);
    assert_eq!(came, *expected, "{here}");
    let twice = world.ask(&format!(
        "SELECT session_id, turn_id, call_id, count(*) FROM tool_invocations WHERE plan_id = '{plan}' \
         AND outcome = 'succeeded' GROUP BY 1, 2, 3 HAVING count(*) > 1"
    ));
    assert!(twice.is_empty(), "{here}: calls succeeded twice: {twice:?}");
    let again = world.ask(&format!(
        "SELECT tool FROM tool_invocations WHERE plan_id = '{plan}' AND repeatable = 0 AND outcome = 'failed'"
    ));
    assert!(
        again.len() <= redone,
        "{here}: {again:?} were made again, and that was asked for {redone} times"
    );
    let open = world.ask(&format!(
        "SELECT tool FROM tool_invocations WHERE plan_id = '{plan}' AND outcome = 'running'"
    ));
    assert!(open.is_empty(), "{here}: calls without an end: {open:?}");
    // Removed, so that it does not slow down the next one.
    world.agents.data(&["plan", "cancel", &plan]);
    (kills, doubts)
}

/// Executes plans of an action, with kills, until the required number of kills interrupted them.
fn prove(world: &World, action: &str, wanted: usize) {
    let plan = world.plan(action, &[]);
    let begun = Instant::now();
    world.agents.data(&["plan", "execute", &plan]);
    let took = begun.elapsed();
    let expected = came(world, &plan);
    assert_eq!(expected.steps.len(), STEPS, "{expected:?}");
    assert_eq!(expected.tree["notes.log"].lines().count(), STEPS / 4);
    assert_eq!(expected.tree["log.txt"].lines().count(), STEPS / 4);
    let mut dice = Dice::default();
    let (mut kills, mut doubts, mut plans) = (0, 0, 0);
    while kills < wanted {
        let (hit, unknown_outcome) = disturb(world, action, &expected, took, &mut dice);
        (kills, doubts, plans) = (kills + hit, doubts + unknown_outcome, plans + 1);
        let reported = format!(
            "{action}: {kills} kills in {plans} plans, {doubts} calls with unknown outcome, {:?}\n",
            begun.elapsed()
        );
        // Progress output for the long version of this test.
        let _sent = std::io::stderr().write_all(reported.as_bytes());
    }
    world.agents.assert_sound();
}

#[test]
fn a_plan_killed_at_any_instant_reaches_the_same_result() {
    let world = World::new();
    world.long_action("local/steps");
    prove(&world, "local/steps", proof_size(4, 220));
}

#[test]
fn a_plan_of_models_killed_at_any_instant_reaches_the_same_result() {
    let world = World::new();
    world.modelled_action("local/models");
    prove(&world, "local/models", proof_size(2, 80));
}

/// One step that creates, changes and removes many files.
fn broad_action(world: &World) {
    let many = "seq 80 | split -l 1 -a 3 - part-";
    let items = [
        format!("run `{many}`"),
        "run `rm a.txt && mkdir -p d/e && echo new > d/e/f.txt && echo v9 > v.txt`".to_owned(),
    ];
    let items: Vec<&str> = items.iter().map(String::as_str).collect();
    world.action("local/broad", &items);
}

#[test]
fn an_apply_killed_at_any_instant_is_atomic() {
    let world = World::new();
    broad_action(&world);
    let old = world.seen();
    let plan = world.executed("local/broad");
    let begun = Instant::now();
    world.agents.data(&["plan", "apply", &plan, "--yes"]);
    let took = begun.elapsed();
    let new = world.seen();
    assert_ne!(old, new);
    let mut dice = Dice::default();
    let (mut kills, mut whole) = (0, [0, 0]);
    while kills < proof_size(2, 60) {
        world.put_back();
        let plan = world.executed("local/broad");
        let mut here = format!("{plan}: apply of {took:?} killed after");
        for _ in 0..=dice.roll(2) {
            let wait = instant(took, &mut dice);
            let _written = write!(here, " {wait:?}");
            let was_running = kill_after(&world, &["plan", "apply", &plan, "--yes"], wait);
            kills += usize::from(was_running && world.stage(&plan) == "apply/processing");
            // Any next command finishes an interrupted one.
            world.agents.data(&["sandbox", "list"]);
            let seen = world.seen();
            assert!(seen == old || seen == new, "{here}: a mixture: {seen:#?}");
            whole[usize::from(seen == new)] += 1;
        }
        if world.stage(&plan) != "apply/applied" {
            let answer = world.run(&["plan", "apply", &plan, "--yes"]);
            assert_eq!(answer.code, Some(0), "{here}: {answer:?}");
        }
        assert_eq!(world.seen(), new, "{here}");
        assert_eq!(world.stage(&plan), "apply/applied", "{here}");
        let again = world.run(&["plan", "apply", &plan, "--yes"]);
        assert_eq!(again.code, Some(4), "{here}: {again:?}");
        assert_eq!(world.seen(), new, "{here}");
        eprintln!("apply: {kills} kills in its middle, {whole:?} times old and new");
    }
    world.agents.assert_sound();
}

#[test]
fn a_rollback_and_a_redo_killed_at_any_instant_are_finished_by_the_next_command() {
    let world = World::new();
    world.long_action("local/steps");
    let plan = world.executed("local/steps");
    let whole = came(&world, &plan);
    let marks = world.ask(&format!(
        "SELECT checkpoint FROM plan_steps WHERE plan_id = '{plan}' AND path = 'step/1/11'"
    ));
    let target = format!("cp_{}", marks[0][0]);
    let back = ["plan", "rollback", &plan, &target, "--yes"];
    let forward = ["plan", "redo", &plan];
    let begun = Instant::now();
    world.agents.data(&back);
    let took = begun.elapsed();
    let short = came(&world, &plan);
    assert_eq!(short.steps.len(), 10, "{short:?}");
    world.agents.data(&forward);
    assert_eq!(came(&world, &plan), whole);
    let last = || {
        let states = world.ask("SELECT state FROM plan_rollbacks ORDER BY number DESC LIMIT 1");
        states[0][0].clone()
    };
    let mut dice = Dice::default();
    for round in 0..proof_size(3, 20) {
        let wait = instant(took, &mut dice);
        let here = format!("round {round}, killed after {wait:?} of {took:?}");
        kill_after(&world, &back, wait);
        // The next command finishes an interrupted one; a finished one is not repeated.
        world.agents.data(&back);
        assert_eq!(came(&world, &plan), short, "{here}");
        let wait = instant(took, &mut dice);
        kill_after(&world, &forward, wait);
        if last() != "redone" {
            world.agents.data(&forward);
        }
        assert_eq!(came(&world, &plan), whole, "{here}, then after {wait:?}");
        assert_eq!(world.stage(&plan), "execute/complete", "{here}");
    }
    world.agents.assert_sound();
    // The next execution repeats the rolled back steps, with the same result.
    world.agents.data(&back);
    world.agents.data(&["plan", "execute", &plan]);
    let again = came(&world, &plan);
    assert_eq!(again.tree, whole.tree);
    assert_eq!(again.changes, whole.changes);
}

#[test]
fn a_repeated_call_finds_the_same_state_as_the_first() {
    let world = World::new();
    // In the temporary folder: a rollback would also remove files of the copy.
    let wait = "echo line >> log.txt; until test -e $TMPDIR/go; do sleep 0.05; done";
    world.action("local/cut", &[&format!("run `{wait}`")]);
    let plan = world.plan("local/cut", &[]);
    let child = world.start(&["plan", "execute", &plan]);
    let folder = || {
        let folders = world.ask("SELECT sandbox_id FROM sandboxes");
        let id = folders.first()?[0].to_lowercase();
        Some(world.agents.home().join("sandboxes").join(id))
    };
    World::wait_until("the line", || {
        folder().is_some_and(|folder| folder.join("work/repo/log.txt").exists())
    });
    assert!(child.kill(), "it was running");
    std::fs::write(folder().expect("a sandbox").join("tmp/go"), "").expect("a file");
    assert_eq!(
        resume_plan(&world, &plan, "interrupted"),
        1,
        "its outcome was unknown"
    );
    assert_eq!(world.tree(&plan)["log.txt"], "line\n");
}
