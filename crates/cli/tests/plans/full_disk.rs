//! A full disk during every command on plans and their definitions: the command does not report
//! success, leaves no partial changes, and works once there is free space.
//!
//! Each command runs repeatedly, each time with a little more space, until it succeeds. So the disk
//! is full once at each of its writes, whatever the size of its files.

use cleveragents_testkit::{Answer, TestDatabase};

use super::faults::{STEPS, rows};
use super::world::{World, files, git};

/// First increment of free space in blocks of 512 bytes; later increments grow by half.
const MORE: u32 = 64;

/// Enough space for everything.
const ROOMY: u32 = 1 << 13;

/// State that a failed command may leave.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LeftoverState {
    /// Nothing: it is one unit of work.
    Nothing,
    /// State from which the same command continues.
    Work,
}

/// Runs a command with `blocks` of free space.
fn squeezed(world: &World, room: u32, arguments: &[&str]) -> Answer {
    let arguments = [&["--format", "json"], arguments].concat();
    let output = world.agents.on_full_disk(room, &arguments).output();
    Answer::from_output(&output.expect("the program starts"))
}

/// Runs a command without space and then with a little more, until it succeeds.
fn squeeze(world: &World, leaves: LeftoverState, arguments: &[&str]) -> Answer {
    let mut arguments = arguments.to_vec();
    let mut room = 0;
    loop {
        let here = format!("{arguments:?} with room for {room} blocks");
        let before = (leaves == LeftoverState::Nothing).then(|| rows(world));
        let seen = files(&world.repository());
        let answer = squeezed(world, room, &arguments);
        if answer.code == Some(0) {
            assert!(room > 0, "{here}: nothing was broken");
            return answer;
        }
        answer.assert_no_claim(&here);
        if !arguments.contains(&"--background") {
            assert_ne!(
                answer.code,
                Some(4),
                "{here}: no other process runs: {answer:?}"
            );
        }
        if let Some(before) = before {
            assert_eq!(rows(world), before, "{here}");
        }
        if arguments[1] != "apply" {
            assert_eq!(files(&world.repository()), seen, "{here}");
        }
        // An interrupted call may have taken effect: the user decides its outcome.
        if answer.code == Some(5) && !arguments.contains(&"--redo") {
            arguments.push("--redo");
        }
        room += MORE.max(room / 2);
        assert!(room < ROOMY, "{here}: {answer:?}");
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
        squeeze(&world, LeftoverState::Nothing, arguments);
        assert_ne!(rows(&world), before, "{arguments:?} does nothing");
    }
    let id = world.ask("SELECT invariant_id FROM invariants")[0][0].clone();
    squeeze(
        &world,
        LeftoverState::Nothing,
        &["invariant", "remove", &id, "--yes"],
    );
}

/// The checkpoint of a step of a plan.
fn checkpoint(world: &World, plan: &str, step: &str) -> String {
    let rows = world.ask(&format!(
        "SELECT checkpoint FROM plan_steps WHERE plan_id = '{plan}' AND path = '{step}'"
    ));
    format!("cp_{}", rows[0][0])
}

/// Asserts that each step took effect once.
fn assert_carried_out(world: &World, plan: &str) {
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
fn making_plans_and_talking_to_them() {
    let world = World::new();
    world.action("local/steps", &STEPS);
    let made = squeeze(
        &world,
        LeftoverState::Work,
        &["plan", "use", "local/steps", "local/p"],
    );
    let data = made.json()["data"].clone();
    let plan = data["plan_id"].as_str().expect("an id");
    assert_eq!(world.stage(plan), "strategize/complete");
    // Plans that were created without a strategy can be resumed.
    for left in world.ask("SELECT plan_id FROM plans WHERE stage LIKE 'strategize/%ed' LIMIT 2") {
        world.agents.data(&["plan", "execute", &left[0]]);
        assert_eq!(world.stage(&left[0]), "strategize/complete");
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
        squeeze(&world, LeftoverState::Nothing, arguments);
        assert_ne!(rows(&world), before, "{arguments:?} does nothing");
    }
}

#[test]
fn carrying_out_taking_back_and_applying() {
    let world = World::new();
    world.action("local/steps", &STEPS);
    let plan = world.plan("local/steps", &[]);
    squeeze(&world, LeftoverState::Work, &["plan", "execute", &plan]);
    assert_carried_out(&world, &plan);
    let mark = checkpoint(&world, &plan, "step/1/2");
    let back = ["plan", "rollback", &plan, &mark, "--yes"];
    squeeze(&world, LeftoverState::Work, &back);
    assert!(!world.tree(&plan).contains_key("log.txt"));
    squeeze(&world, LeftoverState::Work, &["plan", "redo", &plan]);
    assert_carried_out(&world, &plan);
    let last = checkpoint(&world, &plan, "step/1/3");
    let delete = ["plan", "checkpoint", "delete", &plan, &last, "--yes"];
    let count = format!(
        "SELECT count(*) FROM sandbox_checkpoints WHERE number = {}",
        &last[3..]
    );
    squeeze(&world, LeftoverState::Work, &delete);
    assert_eq!(world.ask(&count)[0][0], "0");
    squeeze(
        &world,
        LeftoverState::Work,
        &["plan", "apply", &plan, "--yes"],
    );
    assert_eq!(world.stage(&plan), "apply/applied");
    assert_eq!(world.seen().0["log.txt"], "line\n");
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
    let mut room = 0;
    loop {
        queue(&world, &plan);
        let answer = squeezed(&world, room, &["worker", "--until-idle"]);
        if answer.code == Some(0) {
            break;
        }
        answer.assert_no_claim(&format!("a worker with room for {room} blocks"));
        room += MORE.max(room / 2);
        assert!(room < ROOMY, "{answer:?}");
    }
    assert_ne!(room, 0);
    assert_carried_out(&world, &plan);
}

#[test]
fn leaving_a_plan_to_a_worker() {
    let world = World::new();
    world.action("local/steps", &STEPS);
    let plan = world.plan("local/steps", &[]);
    squeeze(
        &world,
        LeftoverState::Work,
        &["plan", "execute", &plan, "--background"],
    );
    // The started worker has as little space. Another worker finishes its work.
    World::wait_until("an executed plan", || {
        queue(&world, &plan);
        world.run(&["worker", "--until-idle"]);
        world.stage(&plan) == "execute/complete"
    });
    assert_carried_out(&world, &plan);
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
    let seen = world.seen();
    for room in [0, 96, 320, 640, 960] {
        let answer = squeezed(&world, room, &task);
        if answer.code == Some(0) {
            assert_eq!(world.seen().0["one.txt"], "one\n", "{answer:?}");
            break;
        }
        answer.assert_no_claim(&format!("do with room for {room} blocks"));
        assert_eq!(world.seen(), seen, "do with room for {room} blocks");
    }
    world.agents.data(&task);
    assert_eq!(world.seen().0["one.txt"], "one\n");
}

#[test]
fn the_tour() {
    let mut world = World::new();
    let folder = world.agents.cwd().join("tmp");
    std::fs::create_dir(&folder).expect("a folder");
    let path = folder.to_str().expect("a path").to_owned();
    world.agents = world.agents.with("TMPDIR", path);
    for room in [0, 64, 160, 320, 640] {
        let answer = squeezed(&world, room, &["demo"]);
        answer.assert_no_claim(&format!("demo with room for {room} blocks"));
        let left = std::fs::read_dir(&folder).expect("a folder").count();
        assert_eq!(left, 0, "demo with room for {room} blocks leaves something");
    }
}
