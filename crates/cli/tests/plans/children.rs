//! Child plans in one process: `kill -9` at random instants reaches the same result without a merge of only some child
//! plans, and cancelled child plans leave nothing behind.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use cleveragents_testkit::{Dice, TestDatabase, proof_size};
use serde_json::{Value, json};

use super::world::{RunningProgram, World, git};

/// Number of child plans that are killed.
const KILLED: usize = 8;

/// Creates an action whose steps are child plans, with the answer of the model to each.
fn divided_action(world: &World, parts: &[(String, Value)], settings: &Value) {
    let steps: Vec<Value> = parts
        .iter()
        .map(|(title, _)| json!({"title": title, "description": "do it", "child_plan": true}))
        .collect();
    let strategy = json!({"summary": "in parts", "children": settings, "steps": steps});
    let mut answers: Vec<Value> = parts
        .iter()
        .map(|(title, answer)| {
            let mut answer = answer.clone();
            answer["when"] = format!("^Execute step 1 of 1: {title}").into();
            answer
        })
        .collect();
    answers.push(json!({"text": "It is done."}));
    world.scripted_action(
        "local/divided",
        &json!({"at_end": "repeat_last", "answers": [{"text": strategy.to_string()}]}),
        &json!({"at_end": "repeat_last", "answers": answers}),
        "- check `true`",
    );
}

fn killed_action(world: &World) {
    let parts: Vec<(String, Value)> = (1..=KILLED)
        .map(|number| {
            let append = format!("echo line {number} >> part-{number}.log");
            let answer = json!({"calls": [
                {"name": "builtin/file-write",
                 "arguments": {"path": format!("part-{number}.txt"), "content": format!("{number}\n")}},
                {"name": "builtin/shell", "arguments": {"command": append}},
            ]});
            (format!("Part {number}"), answer)
        })
        .collect();
    divided_action(world, &parts, &json!({"max_parallel": 4}));
}

/// Files of the child plans in the sandbox of their parent; `None` before it exists.
fn merged_files(world: &World, plan: &str) -> Option<BTreeMap<String, String>> {
    let name = format!("plan-{}", plan.to_lowercase());
    let rows = world.ask(&format!(
        "SELECT name FROM sandboxes WHERE name = '{name}' AND state = 'active'"
    ));
    let exists = !rows.is_empty();
    exists.then(|| {
        let mut tree = world.tree(plan);
        tree.retain(|path, _| path.starts_with("part-"));
        tree
    })
}

/// Finished steps of a plan and its child plans.
fn finished_steps(world: &World, plan: &str) -> BTreeSet<Vec<String>> {
    let rows = world.ask(&format!(
        "SELECT plan_id, number, path, run_id, position_before, position_after, summary, finished_at \
         FROM plan_steps WHERE state = 'done' AND undone_by IS NULL AND plan_id IN \
         (SELECT plan_id FROM plans WHERE root_plan_id = '{plan}')"
    ));
    rows.into_iter().collect()
}

/// Cancels a plan and removes its sandbox.
fn discard(world: &World, plan: &str) {
    world.agents.data(&["plan", "cancel", plan]);
    let name = format!("plan-{}", plan.to_lowercase());
    world.agents.data(&["sandbox", "discard", &name, "--yes"]);
}

/// Asserts that the child plans are merged all or not at all.
fn assert_not_half_merged(world: &World, plan: &str, context: &str) {
    world.agents.data(&["sandbox", "list"]);
    let count = merged_files(world, plan).map_or(0, |files| files.len());
    assert!(
        count == 0 || count == 2 * KILLED,
        "{context}: {count} files are merged"
    );
}

fn kill_and_resume(
    world: &World,
    expected: &BTreeMap<String, String>,
    duration: Duration,
    dice: &mut Dice,
) -> usize {
    let plan = world.plan("local/divided", &[]);
    let mut context = format!("{plan}, of {duration:?}: killed after");
    let mut kills = 0;
    let mut finished = BTreeSet::new();
    let interval = duration / *dice.pick(&[1, 2, 3]);
    for _ in 0..=dice.roll(5) {
        if world.stage(&plan) == "execute/complete" {
            break;
        }
        let micros = u64::try_from(interval.as_micros()).expect("a short time");
        let wait = Duration::from_micros(dice.roll(micros + micros / 8 + 1));
        let _written = write!(context, " {wait:?}");
        let child = world.start(&["plan", "execute", &plan, "--redo"]);
        std::thread::sleep(wait);
        let was_running = child.kill();
        kills += usize::from(was_running && world.stage(&plan).ends_with("/processing"));
        assert_not_half_merged(world, &plan, &context);
        let now = finished_steps(world, &plan);
        assert!(finished.is_subset(&now), "{context}: steps were changed");
        finished = now;
    }
    for _ in 0..4 {
        if world.stage(&plan) == "execute/complete" {
            break;
        }
        let answer = world.run(&["plan", "execute", &plan, "--redo"]);
        assert!(matches!(answer.code, Some(0 | 5)), "{context}: {answer:?}");
    }
    assert_eq!(world.stage(&plan), "execute/complete", "{context}");
    let now = finished_steps(world, &plan);
    assert!(finished.is_subset(&now), "{context}: steps were changed");
    assert_eq!(
        merged_files(world, &plan).as_ref(),
        Some(expected),
        "{context}"
    );
    let repeated = world.ask(&format!(
        "SELECT session_id, turn_id, call_id, count(*) FROM tool_invocations WHERE outcome = 'succeeded' \
         AND plan_id IN (SELECT plan_id FROM plans WHERE root_plan_id = '{plan}') \
         GROUP BY 1, 2, 3 HAVING count(*) > 1"
    ));
    assert!(
        repeated.is_empty(),
        "{context}: repeated calls {repeated:?}"
    );
    let states = world.ask(&format!(
        "SELECT state, count(*) FROM child_plans WHERE parent_plan_id = '{plan}' GROUP BY 1"
    ));
    assert_eq!(states, [["merged", "8"]], "{context}");
    discard(world, &plan);
    assert_nothing_left(world, 0, &context);
    kills
}

/// Asserts that only this number of sandboxes is left, in the database, in the folder and in the repository.
fn assert_nothing_left(world: &World, sandboxes: usize, context: &str) {
    let active =
        world.ask("SELECT sandbox_id FROM sandboxes WHERE state NOT IN ('applied', 'discarded')");
    let active: BTreeSet<String> = active
        .into_iter()
        .map(|row| row[0].to_lowercase())
        .collect();
    assert_eq!(active.len(), sandboxes, "{context}");
    let folder = world.agents.home().join("sandboxes");
    let is_sandbox = |name: &String| name.len() == 26;
    let folders: BTreeSet<String> = names(&folder).into_iter().filter(is_sandbox).collect();
    assert_eq!(folders, active, "{context}");
    let repository = world.repository();
    let refs = git(&repository, &["for-each-ref", "refs/cleveragents"]);
    assert!(refs.lines().count() <= sandboxes, "{context}: {refs}");
    let worktrees = git(&repository, &["worktree", "list"]);
    assert!(
        worktrees.lines().count() <= 1 + sandboxes,
        "{context}: {worktrees}"
    );
    let locks: Vec<String> = names(&repository.join(".git"))
        .into_iter()
        .filter(|name| {
            std::path::Path::new(name)
                .extension()
                .is_some_and(|ending| ending == "lock")
        })
        .collect();
    assert!(locks.is_empty(), "{context}: {locks:?}");
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect()
}

#[test]
fn child_plans_killed_at_any_instant_are_merged_once_and_together() {
    let world = World::new();
    killed_action(&world);
    let plan = world.plan("local/divided", &[]);
    let started = Instant::now();
    world.agents.data(&["plan", "execute", &plan]);
    let duration = started.elapsed();
    let expected = merged_files(&world, &plan).expect("a sandbox");
    assert_eq!(expected.len(), 2 * KILLED, "{expected:?}");
    discard(&world, &plan);
    let mut dice = Dice::default();
    let mut kills = 0;
    while kills < proof_size(6, 200) {
        kills += kill_and_resume(&world, &expected, duration, &mut dice);
        eprintln!("child plans: {kills} kills, {:?}", started.elapsed());
    }
    world.agents.assert_sound();
}

/// Two workers run a plan with child plans; the one that runs it is killed in the middle.
fn kill_one_of_two_workers(world: &World) {
    let parts: Vec<(String, Value)> = (1..=KILLED)
        .map(|number| {
            let file =
                json!({"path": format!("part-{number}.txt"), "content": format!("{number}\n")});
            let write = json!({"name": "builtin/file-write", "arguments": file});
            let answer = json!({"calls": [write], "first_delay_ms": 100 * number});
            (format!("Part {number}"), answer)
        })
        .collect();
    divided_action(world, &parts, &json!({"max_parallel": 4}));
    let plan = world.plan("local/divided", &[]);
    let mut workers: Vec<RunningProgram> = (0..2).map(|_| world.start(&["worker"])).collect();
    World::wait_until("two workers", || {
        let leases = world
            .ask("SELECT count(*) FROM leases WHERE kind = 'worker' AND owner_pid IS NOT NULL");
        leases[0][0] == "2"
    });
    world
        .agents
        .data(&["plan", "execute", &plan, "--background"]);
    World::wait_until("a finished child plan", || {
        let done = world.ask("SELECT count(*) FROM child_plans WHERE state = 'complete'");
        done[0][0] != "0"
    });
    let owners: BTreeSet<String> = world
        .ask("SELECT owner_pid FROM leases WHERE kind = 'plan' AND owner_pid IS NOT NULL")
        .into_iter()
        .map(|row| row[0].clone())
        .collect();
    let index = workers
        .iter_mut()
        .position(|worker| owners.contains(&worker.id().to_string()))
        .expect("a worker runs the plan");
    assert!(workers.remove(index).kill(), "the worker was running");
    World::wait_until("the other worker", || {
        world.stage(&plan) == "execute/complete"
    });
    let states = world.ask(&format!(
        "SELECT state, count(*) FROM child_plans WHERE parent_plan_id = '{plan}' GROUP BY 1"
    ));
    assert_eq!(states, [["merged", "8"]]);
    let merged = merged_files(world, &plan).expect("a sandbox");
    assert_eq!(merged.len(), KILLED, "{merged:?}");
    let repeated = world.ask(
        "SELECT session_id, turn_id, call_id, count(*) FROM tool_invocations WHERE outcome = 'succeeded' \
         GROUP BY 1, 2, 3 HAVING count(*) > 1",
    );
    assert!(repeated.is_empty(), "repeated calls {repeated:?}");
    drop(workers);
    discard(world, &plan);
    assert_nothing_left(world, 0, "after the end");
}

#[test]
fn the_other_of_two_workers_continues_child_plans_on_sqlite() {
    kill_one_of_two_workers(&World::new());
}

#[test]
fn the_other_of_two_workers_continues_child_plans_on_postgresql() {
    let Some(database) = TestDatabase::postgres() else {
        return;
    };
    kill_one_of_two_workers(&World::on(Some(database)));
}

/// Command lines of the running processes that contain a text.
fn processes(text: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(text))
        .collect()
}

#[test]
fn cancelled_child_plans_leave_nothing_behind() {
    let mut world = World::new();
    let temporary = world.agents.cwd().join("temporary");
    std::fs::create_dir(&temporary).expect("a folder");
    world.agents = world
        .agents
        .with("TMPDIR", temporary.to_str().expect("text"));
    // A duration that no other process on the machine has.
    let seconds = format!("9{}.25", std::process::id());
    let parts: Vec<(String, Value)> = (1..=24)
        .map(|number| {
            let wait = format!("echo started > part-{number}.txt; sleep {seconds}");
            let calls =
                json!({"calls": [{"name": "builtin/shell", "arguments": {"command": wait}}]});
            // The last one fails while the others run.
            let refusal = json!({"text": "I'm unable to help with that.", "first_delay_ms": 4_000});
            let answer = if number == 8 { refusal } else { calls };
            (format!("Part {number:02}"), answer)
        })
        .collect();
    divided_action(&world, &parts, &json!({"max_parallel": 24}));
    let plan = world.plan("local/divided", &[]);
    let before = names(&temporary);
    let program = world.start(&["plan", "execute", &plan]);
    World::wait_until("a running command", || !processes(&seconds).is_empty());
    let answer = program.answer();
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert_eq!(processes(&seconds), Vec::<String>::new());
    let states = world.ask(&format!(
        "SELECT state, count(*) FROM child_plans WHERE parent_plan_id = '{plan}' GROUP BY 1 ORDER BY 1"
    ));
    assert_eq!(states, [["cancelled", "23"], ["failed", "1"]]);
    // The sandboxes of the plan and of the failed child plan, to continue them.
    assert_nothing_left(&world, 2, "after the failure");
    assert_eq!(names(&temporary), before);
    discard(&world, &plan);
    assert_nothing_left(&world, 0, "after the cancellation");
    world.agents.assert_sound();
}
