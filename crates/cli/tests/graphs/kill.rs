//! `kill -9` at random instants of runs of every shape: a resumed run finds all finished steps,
//! repeats none of them, and ends in the same state as an undisturbed run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cleveragents_testkit::{Dice, proof_size};
use serde_json::Value;

use super::world::{SHAPES, Shape, World, files};

/// Result of a run, without values that vary.
#[derive(Debug, PartialEq)]
struct RunResult {
    result: Value,
    /// Update and next node of each step.
    steps: BTreeMap<String, (Value, Value)>,
    files: BTreeMap<String, String>,
}

fn came(world: &World, run: &str, folder: Option<&std::path::Path>) -> RunResult {
    // A call that was interrupted after its effect and then repeated finds its file.
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
fn undisturbed(world: &World, shape: Shape) -> (RunResult, Duration) {
    let sandbox = shape.has_sandbox.then(|| world.sandbox());
    let name = sandbox.as_ref().map(|(name, _)| name.as_str());
    let begun = Instant::now();
    let output = world
        .start(&World::arguments(shape, name))
        .wait_with_output()
        .expect("it ends");
    let took = begun.elapsed();
    let reported = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shape:?}: {reported}");
    let run = world.newest().expect("a run")["id"].clone();
    let folder = sandbox.as_ref().map(|(_, folder)| folder.as_path());
    (came(world, run.as_str().expect("an id"), folder), took)
}

fn kill_after(world: &World, arguments: &[String], wait: Duration) {
    let mut child = world.start(arguments);
    std::thread::sleep(wait);
    child.kill().expect("a program that is not reaped");
    child.wait().expect("a killed program is reaped");
}

/// The first difference.
fn difference(came: &RunResult, expected: &RunResult) -> String {
    if came.result != expected.result {
        return format!("{}\ninstead of\n{}", came.result, expected.result);
    }
    let steps = expected.steps.iter();
    let step = steps.map(|(path, step)| (path, came.steps.get(path), step));
    let other = step.into_iter().find(|(_, came, step)| *came != Some(step));
    format!("{other:?}, or {:?}", came.files)
}

/// Kills one run of a shape at a random instant, sometimes also its continuation, and resumes it.
/// `false` if it was killed before it started.
fn disturb(
    world: &World,
    shape: Shape,
    expected: &RunResult,
    took: Duration,
    dice: &mut Dice,
) -> bool {
    let sandbox = shape.has_sandbox.then(|| world.sandbox());
    let name = sandbox.as_ref().map(|(name, _)| name.as_str());
    let folder = sandbox.as_ref().map(|(_, folder)| folder.as_path());
    let before = world.newest().map(|run| run["id"].clone());
    let instant = |dice: &mut Dice| {
        let micros = u64::try_from(took.as_micros()).expect("a short run");
        Duration::from_micros(dice.roll(micros + micros / 8 + 1))
    };
    let wait = instant(dice);
    let here = format!("{} killed after {wait:?} of {took:?}", shape.actor);
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
    let mut known = rows(world, &id);
    if run["state"] == "running" && dice.once_in(3) {
        kill_after(world, &resume, instant(dice));
        let now = rows(world, &id);
        assert_eq!(now[..known.len()], known, "{here}: steps were changed");
        known = now;
    }
    if world.show(&id)["run"]["state"] == "running" {
        let answer = world.run(&["run", "resume", &id, "--redo"]);
        assert_eq!(answer.code, Some(0), "{here}: {answer:?}");
    }
    let now = rows(world, &id);
    assert_eq!(now[..known.len()], known, "{here}: steps were changed");
    let came = came(world, &id, folder);
    assert!(came == *expected, "{here}: {}", difference(&came, expected));
    let twice = world.ask(&format!(
        "SELECT call_id, count(*) FROM tool_invocations invocation JOIN sessions session \
         ON session.session_id = invocation.session_id WHERE session.owner = 'run {id}' \
         AND outcome = 'succeeded' GROUP BY call_id HAVING count(*) > 1"
    ));
    assert!(twice.is_empty(), "{here}: calls succeeded twice: {twice:?}");
    let turns = world.ask(&format!(
        "SELECT turn.session_id, count(*) FROM turns turn JOIN sessions session \
         ON session.session_id = turn.session_id WHERE session.owner = 'run {id}' \
         GROUP BY turn.session_id HAVING count(*) > 1 OR min(turn.state) <> 'complete'"
    ));
    assert!(turns.is_empty(), "{here}: questions asked twice: {turns:?}");
    true
}

#[test]
fn a_run_killed_at_any_instant_reaches_the_same_result() {
    let world = World::new();
    let mut dice = Dice::seeded(5);
    for shape in SHAPES {
        let (expected, took) = undisturbed(&world, shape);
        assert!(expected.result["output"].is_string(), "{expected:?}");
        let mut disturbed = 0;
        while disturbed < proof_size(3, 100) {
            disturbed += usize::from(disturb(&world, shape, &expected, took, &mut dice));
        }
    }
    world.agents.assert_sound();
}
