//! `kill -9` at random instants of every sandbox command, and a disk that becomes full during an
//! apply.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use cleveragents_testkit::{Dice, TestDatabase, not_run, proof_size};

use super::world::{World, agents, create, names, read, write};

/// Runs a command and kills it at a random instant within 1.25 times its usual duration.
fn run_and_kill(
    world: &World,
    arguments: &[&str],
    duration: Duration,
    dice: &mut Dice,
) -> Option<i32> {
    let limit = u64::try_from(duration.as_micros()).expect("a short time");
    let mut child = world
        .agents
        .command(arguments)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("the program starts");
    std::thread::sleep(Duration::from_micros(dice.roll(limit + limit / 4)));
    child
        .kill()
        .expect("a program that is not reaped can be killed");
    child.wait().expect("a killed program is reaped").code()
}

#[test]
fn a_stale_git_lock_on_our_references_is_ignored() {
    let world = World::new(agents());
    let [repository, _] = world.repositories();
    create(&world.agents, "locked", &[&repository]);
    let mut locked = 0;
    let references = repository.join(".git/refs/cleveragents/sandboxes");
    for sandbox in std::fs::read_dir(references).expect("our references") {
        let sandbox = sandbox.expect("a folder").path();
        for name in std::fs::read_dir(sandbox).expect("a folder") {
            let name = name.expect("a name").path();
            write(name.with_extension("lock"), "");
            locked += 1;
        }
    }
    assert!(locked > 0, "there is a reference to lock");
    world
        .agents
        .data(&["sandbox", "discard", "locked", "--yes"]);
    assert!(!names(&world.agents).contains(&"locked".to_owned()));
}

#[test]
fn any_command_killed_at_any_instant_is_recovered_by_the_next() {
    let world = World::new(agents());
    let old = world.state();
    let places = ["one", "two", "plain", "data.db"].map(|name| world.place(name));
    let text = |path: &Path| path.to_str().expect("a path").to_owned();
    let paths = places.each_ref().map(|path| text(path));
    let create = vec![
        "sandbox", "create", "other", "--path", &paths[0], "--path", &paths[1], "--path", &paths[2],
    ];
    let script = "echo x >> edit; rm -rf gone new; mkdir d; echo y > d/e";
    let commands: [Vec<&str>; 6] = [
        create,
        vec![
            "sandbox",
            "exec",
            "all",
            "--unconfined",
            "--in",
            "one",
            "--",
            "sh",
            "-c",
            script,
        ],
        vec!["sandbox", "checkpoint", "all"],
        vec!["sandbox", "rollback", "all", "--to", "1"],
        vec!["sandbox", "apply", "all"],
        vec!["sandbox", "discard", "all", "--yes"],
    ];
    world.change_everything();
    world.save_state();
    let mut dice = Dice::default();
    for command in &commands {
        world.restore_state();
        let started = Instant::now();
        world.agents.data(command);
        let duration = started.elapsed();
        let new = world.state();
        for round in 0..proof_size(3, 25) {
            world.restore_state();
            let code = run_and_kill(&world, command, duration, &mut dice);
            let context = format!("{command:?}, round {round}");
            let remaining = names(&world.agents);
            let state = world.state();
            assert!(
                state == old || state == new,
                "{context}: mixed state:\n{state:#?}\ninstead of\n{old:#?}\nor\n{new:#?}"
            );
            world.assert_nothing_leaked_but(&remaining);
            if code == Some(0) && command[1] == "create" {
                assert!(
                    remaining.contains(&"other".to_owned()),
                    "{context}: no sandbox"
                );
            }
            // A remaining sandbox works: its changes can still be applied.
            if remaining.contains(&"all".to_owned()) {
                world
                    .agents
                    .data(&["sandbox", "rollback", "all", "--to", "2"]);
                world.agents.data(&["sandbox", "apply", "all"]);
                assert_eq!(read(world.place("plain/edit")), "after\n", "{context}");
            } else {
                assert!(
                    ["apply", "discard"].contains(&command[1]),
                    "{context}: the sandbox is lost"
                );
            }
        }
    }
}

/// A small file system, unmounted on drop.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn new(path: &Path, kibibytes: u32) -> Option<Self> {
        std::fs::create_dir(path).expect("a folder");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={kibibytes}k"), "tmpfs"])
            .arg(path)
            .output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(path.to_owned()));
        }
        not_run(
            "a disk that becomes full during an apply",
            "a small tmpfs cannot be mounted",
        );
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _unmounted = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

#[test]
fn apply_onto_a_full_disk_changes_nothing_and_works_after_space_is_freed() {
    let agents = agents();
    let small = agents.cwd().join("small");
    let Some(_disk) = SmallDisk::new(&small, 1024) else {
        return;
    };
    let (real, other) = (small.join("real"), agents.cwd().join("other"));
    write(real.join("edit"), "before\n");
    write(real.join("ballast"), &"x".repeat(300_000));
    write(other.join("edit"), "before\n");
    let parts = create(&agents, "full", &[&other, &real]);
    write(parts[0].join("edit"), "after\n");
    write(parts[1].join("edit"), "after\n");
    write(parts[1].join("large"), &"y".repeat(900_000));
    let answer = agents.run(&["--format", "json", "sandbox", "apply", "full"]);
    assert_ne!(answer.code, Some(0), "{answer:?}");
    assert!(answer.out.contains("No space left"), "{answer:?}");
    for path in [&real, &other] {
        assert_eq!(read(path.join("edit")), "before\n");
        let count = std::fs::read_dir(path).expect("a folder").count();
        assert_eq!(
            count,
            if *path == real { 2 } else { 1 },
            "no file is left behind"
        );
    }
    assert_eq!(names(&agents), ["full"], "the sandbox still exists");
    std::fs::remove_file(real.join("ballast")).expect("removed");
    agents.data(&["sandbox", "apply", "full"]);
    for path in [&real, &other] {
        assert_eq!(read(path.join("edit")), "after\n");
    }
    assert_eq!(read(real.join("large")).len(), 900_000);
    assert!(names(&agents).is_empty());
}

#[test]
fn a_busy_database_leaves_every_part_unchanged() {
    let world = World::new(agents());
    let old = world.state();
    world.change_everything();
    let reader = TestDatabase::keep_reading(&world.place("data.db"));
    let answer = world.agents.run(&["sandbox", "apply", "all"]);
    assert_ne!(answer.code, Some(0), "{answer:?}");
    assert!(answer.err.contains("nothing was changed"), "{answer:?}");
    drop(reader);
    assert_eq!(world.state(), old);
    assert_eq!(names(&world.agents), ["all"]);
    world.agents.data(&["sandbox", "apply", "all"]);
    assert!(names(&world.agents).is_empty());
    world.assert_nothing_leaked();
}
