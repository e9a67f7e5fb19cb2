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

/// Result of a plan, without values that differ between runs.
#[derive(Debug, PartialEq)]
struct PlanResult {
    tree: BTreeMap<String, String>,
    changes: Value,
    steps: Vec<Vec<String>>,
}

fn result_of(world: &World, plan: &str) -> PlanResult {
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
fn finished_steps(world: &World, plan: &str) -> Vec<Vec<String>> {
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

/// Starts a command and kills it. Returns true if the command was still running.
fn kill_after(world: &World, arguments: &[&str], wait: Duration) -> bool {
    let child = world.start(arguments);
    std::thread::sleep(wait);
    child.kill()
}

/// A random instant within a duration or shortly after it.
fn instant(duration: Duration, dice: &mut Dice) -> Duration {
    let micros = u64::try_from(duration.as_micros()).expect("a short time");
    Duration::from_micros(dice.roll(micros + micros / 8 + 1))
}

/// Resumes a plan until it is executed. Returns the number of retried calls with unknown outcome.
fn resume_plan(world: &World, plan: &str, context: &str) -> usize {
    let (mut retried, mut redo) = (0, false);
    while world.stage(plan) != "execute/complete" {
        let before = calls(world, plan);
        let arguments: &[&str] = if redo {
            &["plan", "execute", plan, "--redo"]
        } else {
            &["plan", "execute", plan]
        };
        let answer = world.run(arguments);
        if answer.code == Some(5) {
            assert_eq!(error(&answer)["code"], "CA-1156", "{context}: {answer:?}");
            assert!(!redo, "{context}: asked again after the answer: {answer:?}");
            assert_eq!(
                calls(world, plan),
                before,
                "{context}: retried without a request"
            );
            (retried, redo) = (retried + 1, true);
            continue;
        }
        redo = false;
        assert_eq!(answer.code, Some(0), "{context}: {answer:?}");
    }
    retried
}

/// Repeatedly kills the execution of a new plan, then resumes the plan to its end. Returns the
/// number of kills that interrupted the plan, and the number of calls with unknown outcome.
fn kill_and_resume(
    world: &World,
    action: &str,
    expected: &PlanResult,
    duration: Duration,
    dice: &mut Dice,
) -> (usize, usize) {
    let plan = if dice.once_in(4) {
        world.plan(action, &["--no-start"])
    } else {
        world.plan(action, &[])
    };
    let mut context = format!("{action}, {plan}, of {duration:?}: killed after");
    let (mut kills, mut retried) = (0, 0);
    let mut rows_before = finished_steps(world, &plan);
    // Some plans are killed at any point, others every few steps.
    let interval = duration / *dice.pick(&[1, 2, 4, 6]);
    for _ in 0..=dice.roll(9) {
        if world.stage(&plan) == "execute/complete" {
            break;
        }
        let wait = instant(interval, dice);
        let _written = write!(context, " {wait:?}");
        // Half of the calls with unknown outcome are retried, which may be interrupted again.
        let arguments = ["plan", "execute", &plan, "--redo"];
        let is_redo = dice.once_in(2);
        let arguments = &arguments[..if is_redo { 4 } else { 3 }];
        let was_running = kill_after(world, arguments, wait);
        retried += usize::from(is_redo);
        kills += usize::from(was_running && world.stage(&plan).ends_with("/processing"));
        let now = finished_steps(world, &plan);
        assert_eq!(
            now[..rows_before.len()],
            rows_before,
            "{context}: steps were changed"
        );
        rows_before = now;
    }
    let unknown_outcomes = resume_plan(world, &plan, &context);
    retried += unknown_outcomes;
    let now = finished_steps(world, &plan);
    assert_eq!(
        now[..rows_before.len()],
        rows_before,
        "{context}: steps were changed"
    );
    let actual = result_of(world, &plan);
    assert_eq!(actual, *expected, "{context}");
    let repeated_calls = world.ask(&format!(
        "SELECT session_id, turn_id, call_id, count(*) FROM tool_invocations WHERE plan_id = '{plan}' \
         AND outcome = 'succeeded' GROUP BY 1, 2, 3 HAVING count(*) > 1"
    ));
    assert!(
        repeated_calls.is_empty(),
        "{context}: calls succeeded twice: {repeated_calls:?}"
    );
    let failed_calls = world.ask(&format!(
        "SELECT tool FROM tool_invocations WHERE plan_id = '{plan}' AND repeatable = 0 AND outcome = 'failed'"
    ));
    assert!(
        failed_calls.len() <= retried,
        "{context}: {failed_calls:?} were retried, but only {retried} retries were requested"
    );
    let unfinished_calls = world.ask(&format!(
        "SELECT tool FROM tool_invocations WHERE plan_id = '{plan}' AND outcome = 'running'"
    ));
    assert!(
        unfinished_calls.is_empty(),
        "{context}: unfinished calls: {unfinished_calls:?}"
    );
    // Cancel the plan, so that it does not slow down later plans.
    world.agents.data(&["plan", "cancel", &plan]);
    (kills, unknown_outcomes)
}

/// Executes plans of an action, with kills, until the required number of kills interrupted them.
fn kill_plans(world: &World, action: &str, required: usize) {
    let plan = world.plan(action, &[]);
    let started = Instant::now();
    world.agents.data(&["plan", "execute", &plan]);
    let duration = started.elapsed();
    let expected = result_of(world, &plan);
    assert_eq!(expected.steps.len(), STEPS, "{expected:?}");
    assert_eq!(expected.tree["notes.log"].lines().count(), STEPS / 4);
    assert_eq!(expected.tree["log.txt"].lines().count(), STEPS / 4);
    let mut dice = Dice::default();
    let (mut kills, mut unknown_outcomes, mut plans) = (0, 0, 0);
    while kills < required {
        let (hit, unknown_outcome) = kill_and_resume(world, action, &expected, duration, &mut dice);
        (kills, unknown_outcomes, plans) =
            (kills + hit, unknown_outcomes + unknown_outcome, plans + 1);
        let reported = format!(
            "{action}: {kills} kills in {plans} plans, {unknown_outcomes} calls with unknown outcome, {:?}\n",
            started.elapsed()
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
    kill_plans(&world, "local/steps", proof_size(4, 220));
}

#[test]
fn a_plan_of_models_killed_at_any_instant_reaches_the_same_result() {
    let world = World::new();
    world.modelled_action("local/models");
    kill_plans(&world, "local/models", proof_size(2, 80));
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
    let old = world.repository_state();
    let plan = world.executed("local/broad");
    let started = Instant::now();
    world.agents.data(&["plan", "apply", &plan, "--yes"]);
    let duration = started.elapsed();
    let new = world.repository_state();
    assert_ne!(old, new);
    let mut dice = Dice::default();
    let (mut kills, mut outcomes) = (0, [0, 0]);
    while kills < proof_size(2, 60) {
        world.restore_repository();
        let plan = world.executed("local/broad");
        let mut context = format!("{plan}: apply of {duration:?} killed after");
        for _ in 0..=dice.roll(2) {
            let wait = instant(duration, &mut dice);
            let _written = write!(context, " {wait:?}");
            let was_running = kill_after(&world, &["plan", "apply", &plan, "--yes"], wait);
            kills += usize::from(was_running && world.stage(&plan) == "apply/processing");
            // The next command of any kind finishes an interrupted apply.
            world.agents.data(&["sandbox", "list"]);
            let repository = world.repository_state();
            assert!(
                repository == old || repository == new,
                "{context}: mixed state: {repository:#?}"
            );
            outcomes[usize::from(repository == new)] += 1;
        }
        if world.stage(&plan) != "apply/applied" {
            let answer = world.run(&["plan", "apply", &plan, "--yes"]);
            assert_eq!(answer.code, Some(0), "{context}: {answer:?}");
        }
        assert_eq!(world.repository_state(), new, "{context}");
        assert_eq!(world.stage(&plan), "apply/applied", "{context}");
        let again = world.run(&["plan", "apply", &plan, "--yes"]);
        assert_eq!(again.code, Some(4), "{context}: {again:?}");
        assert_eq!(world.repository_state(), new, "{context}");
        eprintln!("apply: {kills} kills during the apply, {outcomes:?} times old and new");
    }
    world.agents.assert_sound();
}

#[test]
fn a_rollback_and_a_redo_killed_at_any_instant_are_finished_by_the_next_command() {
    let world = World::new();
    world.long_action("local/steps");
    let plan = world.executed("local/steps");
    let complete = result_of(&world, &plan);
    let checkpoints = world.ask(&format!(
        "SELECT checkpoint FROM plan_steps WHERE plan_id = '{plan}' AND path = 'step/1/11'"
    ));
    let target = format!("cp_{}", checkpoints[0][0]);
    let rollback = ["plan", "rollback", &plan, &target, "--yes"];
    let redo = ["plan", "redo", &plan];
    let started = Instant::now();
    world.agents.data(&rollback);
    let duration = started.elapsed();
    let rolled_back = result_of(&world, &plan);
    assert_eq!(rolled_back.steps.len(), 10, "{rolled_back:?}");
    world.agents.data(&redo);
    assert_eq!(result_of(&world, &plan), complete);
    let last_state = || {
        let states = world.ask("SELECT state FROM plan_rollbacks ORDER BY number DESC LIMIT 1");
        states[0][0].clone()
    };
    let mut dice = Dice::default();
    for round in 0..proof_size(3, 20) {
        let wait = instant(duration, &mut dice);
        let context = format!("round {round}, killed after {wait:?} of {duration:?}");
        kill_after(&world, &rollback, wait);
        // The next command finishes an interrupted rollback and does not repeat a finished one.
        world.agents.data(&rollback);
        assert_eq!(result_of(&world, &plan), rolled_back, "{context}");
        let wait = instant(duration, &mut dice);
        kill_after(&world, &redo, wait);
        if last_state() != "redone" {
            world.agents.data(&redo);
        }
        assert_eq!(
            result_of(&world, &plan),
            complete,
            "{context}, then after {wait:?}"
        );
        assert_eq!(world.stage(&plan), "execute/complete", "{context}");
    }
    world.agents.assert_sound();
    // The next execution repeats the rolled back steps, with the same result.
    world.agents.data(&rollback);
    world.agents.data(&["plan", "execute", &plan]);
    let again = result_of(&world, &plan);
    assert_eq!(again.tree, complete.tree);
    assert_eq!(again.changes, complete.changes);
}

#[test]
fn a_repeated_call_finds_the_same_state_as_the_first() {
    let world = World::new();
    // The file `go` is in the temporary folder, because a rollback would remove it from the
    // sandbox.
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
    assert!(child.kill(), "the program was running");
    std::fs::write(folder().expect("a sandbox").join("tmp/go"), "").expect("a file");
    assert_eq!(
        resume_plan(&world, &plan, "interrupted"),
        1,
        "the outcome of the call was unknown"
    );
    assert_eq!(world.tree(&plan)["log.txt"], "line\n");
}

/// Runs a command that kills itself at a step boundary of the sandbox. Returns false if it finished before.
fn dies_at(world: &World, step: usize, arguments: &[&str]) -> bool {
    let output = world
        .agents
        .command(arguments)
        .env("CLEVERAGENTS_DIE_AT_STEP", step.to_string())
        .output()
        .expect("the program starts");
    assert!(
        matches!(output.status.code(), None | Some(0)),
        "step {step}: {output:?}"
    );
    output.status.code().is_none()
}

#[test]
fn a_correction_and_its_undo_killed_at_any_step_are_done_or_not_begun() {
    let world = World::new();
    world.long_action("local/steps");
    let plan = world.executed("local/steps");
    let before = (result_of(&world, &plan), world.stage(&plan));
    let decision = world.ask(&format!(
        "SELECT decision_id FROM plan_decisions WHERE plan_id = '{plan}' AND question = 'What is step 5?'"
    ));
    let decision = decision[0][0].as_str();
    let correct = ["plan", "correct", decision, "--guidance", "better", "--yes"];
    let redo = ["plan", "redo", &plan];
    world.agents.data(&correct);
    let after = (result_of(&world, &plan), world.stage(&plan));
    assert_ne!(before, after);
    world.agents.data(&redo);
    assert_eq!((result_of(&world, &plan), world.stage(&plan)), before);
    for (command, from, to) in [
        (&correct[..], &before, &after),
        (&redo[..], &after, &before),
    ] {
        let mut deaths = 0;
        for step in 1.. {
            let is_dead = dies_at(&world, step, command);
            // The next command restores files that were not recorded.
            world.agents.data(&["sandbox", "list"]);
            let found = (result_of(&world, &plan), world.stage(&plan));
            assert!(found == *from || found == *to, "step {step}: {found:#?}");
            assert!(is_dead || found == *to, "step {step}");
            if !is_dead {
                break;
            }
            deaths += 1;
            if found == *to {
                break;
            }
        }
        assert!(deaths > 0, "it has steps");
    }
    world.agents.assert_sound();
}
