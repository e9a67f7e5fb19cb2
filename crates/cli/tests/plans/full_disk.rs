//! A full disk during every command on plans and their definitions: the command does not report
//! success, leaves no partial changes, and works once there is free space.
//!
//! Each command runs repeatedly, each time with a little more space, until it succeeds. This way,
//! the disk becomes full at each write of the command once, whatever the size of its files.

use cleveragents_testkit::{Answer, TestDatabase};

use super::faults::{STEPS, rows};
use super::world::{World, files, git};

/// Smallest increment of free space, in blocks of 512 bytes. Larger increments are half of the
/// current free space.
const MIN_INCREMENT: u32 = 64;

/// Free space in blocks that suffices for every command.
const ENOUGH_BLOCKS: u32 = 1 << 13;

/// State that a failed command may leave.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LeftoverState {
    /// No changes, because the command is one unit of work.
    Nothing,
    /// State from which the same command resumes.
    Work,
}

/// Runs a command with `free_blocks` blocks of free space.
fn run_with_space(world: &World, free_blocks: u32, arguments: &[&str]) -> Answer {
    let arguments = [&["--format", "json"], arguments].concat();
    let output = world.agents.on_full_disk(free_blocks, &arguments).output();
    Answer::from_output(&output.expect("the program starts"))
}

/// Runs a command without free space, and then each time with more, until it succeeds.
fn run_until_space_suffices(world: &World, leftover: LeftoverState, arguments: &[&str]) -> Answer {
    let mut arguments = arguments.to_vec();
    let mut free_blocks = 0;
    loop {
        let context = format!("{arguments:?} with room for {free_blocks} blocks");
        let before = (leftover == LeftoverState::Nothing).then(|| rows(world));
        let files_before = files(&world.repository());
        let answer = run_with_space(world, free_blocks, &arguments);
        if answer.code == Some(0) {
            assert!(free_blocks > 0, "{context}: the full disk had no effect");
            return answer;
        }
        answer.assert_reports_failure(&context);
        if !arguments.contains(&"--background") {
            assert_ne!(
                answer.code,
                Some(4),
                "{context}: no other process runs: {answer:?}"
            );
        }
        if let Some(before) = before {
            assert_eq!(rows(world), before, "{context}");
        }
        if arguments[1] != "apply" {
            assert_eq!(files(&world.repository()), files_before, "{context}");
        }
        // An interrupted call may have taken effect: the user decides its outcome.
        if answer.code == Some(5) && !arguments.contains(&"--redo") {
            arguments.push("--redo");
        }
        free_blocks += MIN_INCREMENT.max(free_blocks / 2);
        assert!(free_blocks < ENOUGH_BLOCKS, "{context}: {answer:?}");
    }
}

#[test]
fn definitions() {
    let world = World::new();
    let action = world.file(
        "a.yaml",
        "name: local/a\ndescription: d\ndefinition_of_done: done\n",
    );
    let profile = world.file("p.yaml", "name: local/careful\nextends: supervised\n");
    let validation = world.file(
        "v.yaml",
        "name: local/passes\ndescription: d\ncommand: [\"true\"]\n",
    );
    for arguments in [
        &["action", "create", "--config", &action][..],
        &["action", "archive", "local/a", "--yes"],
        &["automation-profile", "add", "--config", &profile],
        &["invariant", "add", "--global", "Change no test"],
        &["validation", "add", "--config", &validation],
        &["validation", "attach", "local/repo", "local/passes"],
    ] {
        let before = rows(&world);
        run_until_space_suffices(&world, LeftoverState::Nothing, arguments);
        assert_ne!(rows(&world), before, "{arguments:?} does nothing");
    }
    let id = world.ask("SELECT invariant_id FROM invariants")[0][0].clone();
    run_until_space_suffices(
        &world,
        LeftoverState::Nothing,
        &["invariant", "remove", &id, "--yes"],
    );
}

/// Reference to the checkpoint of a step of a plan.
fn checkpoint(world: &World, plan: &str, step: &str) -> String {
    let rows = world.ask(&format!(
        "SELECT checkpoint FROM plan_steps WHERE plan_id = '{plan}' AND path = '{step}'"
    ));
    format!("cp_{}", rows[0][0])
}

/// Asserts that each step took effect once.
fn assert_executed_once(world: &World, plan: &str) {
    assert_eq!(world.stage(plan), "execute/complete");
    let tree = world.tree(plan);
    for (name, content) in [
        ("one.txt", "one\n"),
        ("log.txt", "line\n"),
        ("notes.log", "note 1\n"),
    ] {
        assert_eq!(tree[name], content, "{name}");
    }
}

#[test]
fn plans_are_created_and_receive_input() {
    let world = World::new();
    world.action("local/steps", &STEPS);
    let created = run_until_space_suffices(
        &world,
        LeftoverState::Work,
        &["plan", "use", "local/steps", "local/p"],
    );
    let data = created.json()["data"].clone();
    let plan = data["plan_id"].as_str().expect("an id");
    assert_eq!(world.stage(plan), "strategize/complete");
    // Plans that were created without a strategy can be resumed.
    for unfinished in
        world.ask("SELECT plan_id FROM plans WHERE stage LIKE 'strategize/%ed' LIMIT 2")
    {
        world.agents.data(&["plan", "execute", &unfinished[0]]);
        assert_eq!(world.stage(&unfinished[0]), "strategize/complete");
    }
    let document = world.run(&["plan", "show", plan, "--as", "markdown"]).out;
    let document = world.file(
        "s.md",
        &document.replace("in their order", "one after the other"),
    );
    let other = world.plan("local/steps", &[]);
    for arguments in [
        &["plan", "edit", plan, "--file", &document][..],
        &["plan", "prompt", plan, "be careful"],
        &["plan", "approve", &other],
    ] {
        let before = rows(&world);
        run_until_space_suffices(&world, LeftoverState::Nothing, arguments);
        assert_ne!(rows(&world), before, "{arguments:?} does nothing");
    }
}

#[test]
fn plans_are_executed_rolled_back_and_applied() {
    let world = World::new();
    world.action("local/steps", &STEPS);
    let plan = world.plan("local/steps", &[]);
    run_until_space_suffices(&world, LeftoverState::Work, &["plan", "execute", &plan]);
    assert_executed_once(&world, &plan);
    let second_checkpoint = checkpoint(&world, &plan, "step/1/2");
    let rollback = ["plan", "rollback", &plan, &second_checkpoint, "--yes"];
    run_until_space_suffices(&world, LeftoverState::Work, &rollback);
    assert!(!world.tree(&plan).contains_key("log.txt"));
    run_until_space_suffices(&world, LeftoverState::Work, &["plan", "redo", &plan]);
    assert_executed_once(&world, &plan);
    let last = checkpoint(&world, &plan, "step/1/3");
    let delete = ["plan", "checkpoint", "delete", &plan, &last, "--yes"];
    let count = format!(
        "SELECT count(*) FROM sandbox_checkpoints WHERE number = {}",
        &last[3..]
    );
    run_until_space_suffices(&world, LeftoverState::Work, &delete);
    assert_eq!(world.ask(&count)[0][0], "0");
    run_until_space_suffices(
        &world,
        LeftoverState::Work,
        &["plan", "apply", &plan, "--yes"],
    );
    assert_eq!(world.stage(&plan), "apply/applied");
    assert_eq!(world.repository_state().0["log.txt"], "line\n");
    let repository = world.repository();
    assert_eq!(git(&repository, &["rev-list", "--count", "HEAD"]), "2");
    assert_eq!(git(&repository, &["status", "--porcelain"]), "");
}

/// Queues a plan without starting a worker.
fn queue(world: &World, plan: &str) {
    TestDatabase::write_file(
        &world.agents.database(),
        &format!(
            "UPDATE plans SET queued_for = '{{\"redo\": true}}', waiting = NULL WHERE plan_id = '{plan}'"
        ),
    );
}

#[test]
fn a_worker() {
    let world = World::new();
    world.action("local/steps", &STEPS);
    let plan = world.plan("local/steps", &[]);
    let mut free_blocks = 0;
    loop {
        queue(&world, &plan);
        let answer = run_with_space(&world, free_blocks, &["worker", "--until-idle"]);
        if answer.code == Some(0) {
            break;
        }
        answer.assert_reports_failure(&format!("a worker with room for {free_blocks} blocks"));
        free_blocks += MIN_INCREMENT.max(free_blocks / 2);
        assert!(free_blocks < ENOUGH_BLOCKS, "{answer:?}");
    }
    assert_ne!(free_blocks, 0);
    assert_executed_once(&world, &plan);
}

#[test]
fn plans_are_queued_for_a_worker() {
    let world = World::new();
    world.action("local/steps", &STEPS);
    let plan = world.plan("local/steps", &[]);
    run_until_space_suffices(
        &world,
        LeftoverState::Work,
        &["plan", "execute", &plan, "--background"],
    );
    // The worker that the command starts also lacks space. Another worker finishes its work.
    World::wait_until("an executed plan", || {
        queue(&world, &plan);
        world.run(&["worker", "--until-idle"]);
        world.stage(&plan) == "execute/complete"
    });
    assert_executed_once(&world, &plan);
}

#[test]
fn plans_from_task_to_files() {
    let world = World::new();
    let task = [
        "do",
        "write `one` to `one.txt`",
        "--folder",
        "repo",
        "--strategy-actor",
        "builtin/deterministic",
        "--execution-actor",
        "builtin/deterministic",
        "--yes",
    ];
    let repository = world.repository_state();
    for free_blocks in [0, 96, 320, 640, 960] {
        let answer = run_with_space(&world, free_blocks, &task);
        if answer.code == Some(0) {
            assert_eq!(world.repository_state().0["one.txt"], "one\n", "{answer:?}");
            break;
        }
        answer.assert_reports_failure(&format!("do with room for {free_blocks} blocks"));
        assert_eq!(
            world.repository_state(),
            repository,
            "do with room for {free_blocks} blocks"
        );
    }
    world.agents.data(&task);
    assert_eq!(world.repository_state().0["one.txt"], "one\n");
}

#[test]
fn the_tour() {
    let mut world = World::new();
    let folder = world.agents.cwd().join("tmp");
    std::fs::create_dir(&folder).expect("a folder");
    let path = folder.to_str().expect("a path").to_owned();
    world.agents = world.agents.with("TMPDIR", path);
    for free_blocks in [0, 64, 160, 320, 640] {
        let answer = run_with_space(&world, free_blocks, &["demo"]);
        answer.assert_reports_failure(&format!("demo with room for {free_blocks} blocks"));
        let left = std::fs::read_dir(&folder).expect("a folder").count();
        assert_eq!(
            left, 0,
            "demo with room for {free_blocks} blocks leaves something"
        );
    }
}
