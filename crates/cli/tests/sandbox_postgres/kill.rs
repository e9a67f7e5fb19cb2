//! `kill -9` at every step of an apply and of its recovery, and a lost connection to the server:
//! folder and database are both old or both new.

use cleveragents_testkit::proof_size;

use super::world::World;

const APPLY: [&str; 3] = ["sandbox", "apply", "fix"];
const NEXT: [&str; 2] = ["sandbox", "list"];
const SQL: &str = "INSERT INTO t VALUES (2, 'new');\nALTER TABLE t ADD COLUMN w int;\n";

/// Files and rows.
type State = (Vec<(String, String)>, Vec<Vec<String>>);

/// Restores the user's data, and makes changes in a new sandbox. Returns the state before an apply.
fn prepare(world: &World) -> State {
    world.database.execute_sql("DELETE FROM t WHERE id <> 1; UPDATE t SET v = 'old'; ALTER TABLE t DROP COLUMN IF EXISTS w");
    std::fs::remove_dir_all(world.place("plain")).expect("removed");
    std::fs::create_dir(world.place("plain")).expect("a folder");
    std::fs::write(world.place("plain/file"), "before\n").expect("a file");
    let old = world.state();
    world.create();
    world.write(SQL);
    old
}

/// Runs a command that kills itself at a step boundary. Returns false if it finished before.
fn dies(world: &World, step: usize, arguments: &[&str]) -> bool {
    let mut command = world.agents.command(arguments);
    let output = command
        .env("CLEVERAGENTS_DIE_AT_STEP", step.to_string())
        .output()
        .expect("the program starts");
    match output.status.code() {
        None => true,
        Some(0) => false,
        Some(code) => panic!(
            "{arguments:?}, step {step}: exit code {code}: {}",
            String::from_utf8_lossy(&output.stderr)
        ),
    }
}

fn new_state() -> State {
    let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let row = |id: &str, v: &str| vec![id.to_owned(), v.to_owned()];
    (
        vec![file("file", "after\n"), file("new", "new\n")],
        vec![row("1", "old"), row("2", "new")],
    )
}

/// Runs the next command, and asserts that the state is completely old or completely new. Returns
/// true if the state is new.
fn assert_consistent(world: &World, old: &State, context: &str) -> bool {
    let listed = world.agents.data(&NEXT);
    let count = listed["sandboxes"].as_array().expect("a list").len();
    let state = world.state();
    let is_new = state == new_state();
    if is_new {
        assert_eq!(count, 0, "{context}: the sandbox is closed");
    } else {
        assert_eq!(state, *old, "{context}: neither old nor new");
        assert_eq!(count, 1, "{context}: the sandbox still exists");
        world.agents.data(&APPLY);
        assert_eq!(
            world.state(),
            new_state(),
            "{context}: it can still be applied"
        );
    }
    assert_eq!(
        world
            .database
            .count("SELECT count(*) FROM information_schema.columns WHERE table_name = 't'"),
        3,
        "{context}"
    );
    is_new
}

#[test]
fn an_apply_killed_at_any_step_is_finished_or_undone() {
    let Some(world) = World::new() else { return };
    let (mut finished, mut undone) = (0, 0);
    for step in 1.. {
        let old = prepare(&world);
        if !dies(&world, step, &APPLY) {
            break;
        }
        if assert_consistent(&world, &old, &format!("step {step}")) {
            finished += 1;
        } else {
            undone += 1;
        }
    }
    assert!(finished > 1 && undone > 5, "{finished} and {undone}");
    println!("{finished} killed applies finished, {undone} undone");
}

#[test]
fn a_recovery_killed_at_any_step_is_itself_recovered() {
    let Some(world) = World::new() else { return };
    let mut killed = 0;
    'steps: for step in (4..).step_by(proof_size(3, 1)) {
        for recovery_step in (1..).step_by(proof_size(2, 1)) {
            let old = prepare(&world);
            if !dies(&world, step, &APPLY) {
                break 'steps;
            }
            if !dies(&world, recovery_step, &NEXT) {
                assert_consistent(&world, &old, &format!("step {step}"));
                break;
            }
            killed += 1;
            assert_consistent(
                &world,
                &old,
                &format!("step {step}, then step {recovery_step}"),
            );
        }
    }
    assert!(killed > 3, "{killed}");
    println!("{killed} killed recoveries recovered");
}

#[test]
fn an_unreachable_server_postpones_the_recovery_of_an_apply() {
    let Some(world) = World::new() else { return };
    // At this step, the journal has the transaction id, and nothing is committed.
    let old = prepare(&world);
    assert!(dies(&world, 5, &APPLY));
    let url = super::world::with_password(&world.database.url);
    let nowhere = "postgres://nobody@127.0.0.1:1/nothing";
    let update = |url: &str| {
        world.agents.data(&[
            "resource", "add", "postgres", "shop", "--update", "--url", url,
        ]);
    };
    update(nowhere);
    let listed = world.agents.run(&NEXT);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    assert!(listed.err.contains("could not be recovered"), "{listed:?}");
    world.refused(&APPLY, 1, "CA-0656");
    world.refused(&["sandbox", "discard", "fix", "--yes"], 1, "CA-0656");
    update(&url);
    assert!(!assert_consistent(&world, &old, "server reachable again"));
}

#[test]
fn a_sandbox_whose_database_is_no_longer_registered_can_be_discarded() {
    let Some(world) = World::new() else { return };
    prepare(&world);
    assert!(dies(&world, 5, &APPLY));
    world.agents.data(&["resource", "remove", "shop", "--yes"]);
    world.agents.data(&["sandbox", "discard", "fix", "--yes"]);
    assert_eq!(world.rows(), [["1", "old"]]);
}

#[test]
fn a_connection_lost_during_an_apply_changes_nothing() {
    let Some(world) = World::with_sandbox() else {
        return;
    };
    let old = world.state();
    let folder = world.part("plain");
    for statement in [
        "SELECT pg_terminate_backend(pg_backend_pid());",
        // Closes the connection while the files are replaced, even if the disk is fast.
        "SET idle_in_transaction_session_timeout = '1ms';",
    ] {
        world.write(&format!("INSERT INTO t VALUES (2, 'new');\n{statement}\n"));
        for number in 0..1_000 {
            std::fs::write(folder.join(format!("many-{number}")), "x\n").expect("a file");
        }
        let answer = world.agents.run(&APPLY);
        assert_eq!(answer.code, Some(1), "{answer:?}");
        println!(
            "{statement} {}",
            answer.err.lines().next().unwrap_or_default()
        );
        super::world::assert_no_password(&answer);
        assert_eq!(world.state(), old, "{statement}: {answer:?}");
        assert_eq!(
            world.agents.data(&NEXT)["sandboxes"]
                .as_array()
                .map(Vec::len),
            Some(1)
        );
    }
    world.write("INSERT INTO t VALUES (2, 'new');");
    world.agents.data(&APPLY);
    assert_eq!(world.rows(), [["1", "old"], ["2", "new"]]);
}
