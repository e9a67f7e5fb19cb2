//! `kill -9` at random instants of runs of every shape: a resumed run finds all finished steps,
//! repeats none of them, and ends in the same state as an undisturbed run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cleveragents_testkit::{Dice, proof_size};
use serde_json::Value;

use super::world::{SHAPES, Shape, World, files};

/// Result of a run, without values that differ between runs.
#[derive(Debug, PartialEq)]
struct RunResult {
    result: Value,
    /// Update and next node of each step.
    steps: BTreeMap<String, (Value, Value)>,
    files: BTreeMap<String, String>,
}

fn result_of(world: &World, run: &str, folder: Option<&std::path::Path>) -> RunResult {
    // A call that was interrupted after it created its file replaces the file when it is retried,
    // so both outcomes count as equal.
    let shown = world
        .show(run)
        .to_string()
        .replace("replaced `", "created `");
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    let steps = shown["steps"].as_array().expect("steps");
    RunResult {
        result: shown["result"].clone(),
        steps: steps
            .iter()
            .map(|step| {
                let path = step["path"].as_str().expect("a path").to_owned();
                (path, (step["update"].clone(), step["next"].clone()))
            })
            .collect(),
        files: folder.map(files).unwrap_or_default(),
    }
}

/// Complete rows of the steps of a run.
fn rows(world: &World, run: &str) -> Vec<Vec<String>> {
    world.ask(&format!(
        "SELECT number, path, step, stored_at FROM run_steps WHERE run_id = '{run}' ORDER BY number"
    ))
}

/// Result and duration of an undisturbed run of the shape.
fn run_undisturbed(world: &World, shape: Shape) -> (RunResult, Duration) {
    let sandbox = shape.has_sandbox.then(|| world.sandbox());
    let name = sandbox.as_ref().map(|(name, _)| name.as_str());
    let started = Instant::now();
    let output = world
        .start(&World::arguments(shape, name))
        .wait_with_output()
        .expect("the program ends");
    let duration = started.elapsed();
    let reported = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shape:?}: {reported}");
    let run = world.newest().expect("a run")["id"].clone();
    let folder = sandbox.as_ref().map(|(_, folder)| folder.as_path());
    (
        result_of(world, run.as_str().expect("an id"), folder),
        duration,
    )
}

fn kill_after(world: &World, arguments: &[String], wait: Duration) {
    let mut child = world.start(arguments);
    std::thread::sleep(wait);
    child.kill().expect("a program that is not reaped");
    child.wait().expect("a killed program is reaped");
}

/// Describes the first difference between two results.
fn difference(actual: &RunResult, expected: &RunResult) -> String {
    if actual.result != expected.result {
        return format!("{}\ninstead of\n{}", actual.result, expected.result);
    }
    let steps = expected.steps.iter();
    let step = steps.map(|(path, step)| (path, actual.steps.get(path), step));
    let first = step
        .into_iter()
        .find(|(_, actual, step)| *actual != Some(step));
    format!("{first:?}, or {:?}", actual.files)
}

/// Kills one run of a shape at a random instant, sometimes kills the resumed run as well, and
/// resumes it to its end. Returns false if the program was killed before it stored a run.
fn kill_and_resume(
    world: &World,
    shape: Shape,
    expected: &RunResult,
    duration: Duration,
    dice: &mut Dice,
) -> bool {
    let sandbox = shape.has_sandbox.then(|| world.sandbox());
    let name = sandbox.as_ref().map(|(name, _)| name.as_str());
    let folder = sandbox.as_ref().map(|(_, folder)| folder.as_path());
    let before = world.newest().map(|run| run["id"].clone());
    let instant = |dice: &mut Dice| {
        let micros = u64::try_from(duration.as_micros()).expect("a short run");
        Duration::from_micros(dice.roll(micros + micros / 8 + 1))
    };
    let wait = instant(dice);
    let context = format!("{} killed after {wait:?} of {duration:?}", shape.actor);
    kill_after(world, &World::arguments(shape, name), wait);
    let Some(run) = world
        .newest()
        .filter(|run| Some(&run["id"]) != before.as_ref())
    else {
        return false;
    };
    let id = run["id"].as_str().expect("an id").to_owned();
    let resume: Vec<String> = ["--format", "json", "run", "resume", &id, "--redo"]
        .map(str::to_owned)
        .into();
    let mut rows_before = rows(world, &id);
    if run["state"] == "running" && dice.once_in(3) {
        kill_after(world, &resume, instant(dice));
        let now = rows(world, &id);
        assert_eq!(
            now[..rows_before.len()],
            rows_before,
            "{context}: steps were changed"
        );
        rows_before = now;
    }
    if world.show(&id)["run"]["state"] == "running" {
        let answer = world.run(&["run", "resume", &id, "--redo"]);
        assert_eq!(answer.code, Some(0), "{context}: {answer:?}");
    }
    let now = rows(world, &id);
    assert_eq!(
        now[..rows_before.len()],
        rows_before,
        "{context}: steps were changed"
    );
    let actual = result_of(world, &id, folder);
    assert!(
        actual == *expected,
        "{context}: {}",
        difference(&actual, expected)
    );
    let repeated_calls = world.ask(&format!(
        "SELECT call_id, count(*) FROM tool_invocations invocation JOIN sessions session \
         ON session.session_id = invocation.session_id WHERE session.owner = 'run {id}' \
         AND outcome = 'succeeded' GROUP BY call_id HAVING count(*) > 1"
    ));
    assert!(
        repeated_calls.is_empty(),
        "{context}: calls succeeded twice: {repeated_calls:?}"
    );
    let repeated_turns = world.ask(&format!(
        "SELECT turn.session_id, count(*) FROM turns turn JOIN sessions session \
         ON session.session_id = turn.session_id WHERE session.owner = 'run {id}' \
         GROUP BY turn.session_id HAVING count(*) > 1 OR min(turn.state) <> 'complete'"
    ));
    assert!(
        repeated_turns.is_empty(),
        "{context}: questions asked twice: {repeated_turns:?}"
    );
    true
}

#[test]
fn a_run_killed_at_any_instant_reaches_the_same_result() {
    let world = World::new();
    let mut dice = Dice::seeded(5);
    for shape in SHAPES {
        let (expected, duration) = run_undisturbed(&world, shape);
        assert!(expected.result["output"].is_string(), "{expected:?}");
        let mut kills = 0;
        while kills < proof_size(3, 100) {
            kills += usize::from(kill_and_resume(
                &world, shape, &expected, duration, &mut dice,
            ));
        }
    }
    world.agents.assert_sound();
}
