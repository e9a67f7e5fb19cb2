//! Applying a script to the database together with other parts, accurate previews, and concurrent
//! applies.

use cleveragents_testkit::{Agents, Answer, Gate, TestDatabase};
use serde_json::json;

use super::world::World;

const APPLY: [&str; 3] = ["sandbox", "apply", "fix"];
const PREVIEW: [&str; 4] = ["sandbox", "apply", "fix", "--dry-run"];

#[test]
fn script_and_files_are_applied_together() {
    let Some(world) = World::with_sandbox() else {
        return;
    };
    let old = world.state();
    world.write("-- two statements\nINSERT INTO t VALUES (2, 'new'), (3, 'more');\nUPDATE t\nSET v = 'x';\n");
    let statements = json!([
        {"line": 2, "word": "insert", "rows": 2},
        {"line": 3, "word": "update", "rows": 3},
    ]);
    let preview = world.agents.data(&PREVIEW);
    assert_eq!(preview["parts"][1]["statements"], statements);
    assert_eq!(world.state(), old, "a preview changes nothing");
    let applied = world.agents.data(&APPLY);
    assert_eq!(applied["parts"][1]["statements"], statements);
    let (files, rows) = world.state();
    assert_eq!(rows, [["1", "x"], ["2", "x"], ["3", "x"]]);
    let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    assert_eq!(files, [file("file", "after\n"), file("new", "new\n")]);
    let shown = world.agents.data(&["sandbox", "list", "--all"]);
    assert_eq!(shown["sandboxes"][0]["state"], "applied");
    assert_eq!(
        shown["sandboxes"][0]["result"]["parts"][1]["statements"],
        statements
    );
}

#[test]
fn a_migration_with_many_kinds_of_statements_is_applied() {
    let Some(world) = World::with_sandbox() else {
        return;
    };
    world.write(
        "CREATE TYPE colour AS ENUM ('red');
ALTER TABLE t ADD COLUMN c colour DEFAULT 'red';
CREATE FUNCTION twice(n int) RETURNS int LANGUAGE plpgsql AS $body$
BEGIN
    -- a semicolon; in a body
    RETURN n * 2;
END $body$;
CREATE FUNCTION thrice(n int) RETURNS int BEGIN ATOMIC SELECT 1; SELECT n * 3; END;
CREATE TABLE parents (id int PRIMARY KEY);
CREATE TABLE children (parent int REFERENCES parents DEFERRABLE INITIALLY DEFERRED);
INSERT INTO children VALUES (7);
INSERT INTO parents VALUES (7);
SAVEPOINT here;
DELETE FROM t;
ROLLBACK TO here;
DO $$ BEGIN UPDATE t SET id = twice(id) + thrice(id); END $$;
SET CONSTRAINTS ALL IMMEDIATE;
COMMENT ON TABLE t IS 'it''s; done'",
    );
    world.agents.data(&PREVIEW);
    world.agents.data(&APPLY);
    assert_eq!(
        world.database.ask("SELECT id, v, c FROM t"),
        [["5", "old", "red"]]
    );
    assert_eq!(world.database.count("SELECT count(*) FROM children"), 1);
}

#[test]
fn a_preview_reports_what_will_fail_and_where() {
    let Some(world) = World::with_sandbox() else {
        return;
    };
    let old = world.state();
    for (sql, line, state) in [
        (
            "INSERT INTO t VALUES (2, 'a');\n\nINSERT INTO t VALUES (1, 'b');",
            3,
            "23505",
        ),
        ("INSERT INTO t\nVALUES (2, nope);", 2, "42703"),
        ("INSERT INTO t VALUES (2, 'a');\nSELEC", 2, ""),
        (
            "CREATE TABLE p (id int PRIMARY KEY);\nCREATE TABLE c (p int REFERENCES p DEFERRABLE INITIALLY DEFERRED);\nINSERT INTO c VALUES (1);",
            3,
            "23503",
        ),
        (
            "INSERT INTO t VALUES (2, 'a');\nCREATE DATABASE half;",
            2,
            "25001",
        ),
        (
            "INSERT INTO t VALUES (2, 'a');\nCREATE INDEX CONCURRENTLY i ON t (v);",
            2,
            "25001",
        ),
        (
            "INSERT INTO t VALUES (2, 'a');\nALTER SYSTEM SET work_mem = '1MB';",
            2,
            "25001",
        ),
        ("INSERT INTO t VALUES (2, $1);", 1, ""),
    ] {
        world.write(sql);
        let code = if state.is_empty() {
            "CA-0660"
        } else {
            "CA-0659"
        };
        for arguments in [PREVIEW.as_slice(), &APPLY] {
            let message = world.refused(arguments, 1, code);
            assert!(
                message.contains(&format!("changes.sql, line {line}:")),
                "{message}"
            );
            assert!(message.contains(state), "{message}");
            assert!(message.ends_with("nothing was changed"), "{message}");
            assert_eq!(world.state(), old, "{sql}");
        }
    }
    // The sandbox is unchanged and can be corrected.
    world.write("INSERT INTO t VALUES (2, 'good');");
    world.agents.data(&APPLY);
    assert_eq!(world.rows(), [["1", "old"], ["2", "good"]]);
}

#[test]
fn concurrent_database_changes_are_detected_before_anything_is_changed() {
    let Some(world) = World::with_sandbox() else {
        return;
    };
    world.write("INSERT INTO t VALUES (2, 'mine');");
    world.agents.data(&PREVIEW);
    world
        .database
        .execute_sql("INSERT INTO t VALUES (2, 'theirs')");
    let old = world.state();
    let message = world.refused(&APPLY, 1, "CA-0659");
    assert!(message.contains("23505"), "{message}");
    assert_eq!(world.state(), old);
}

#[test]
fn a_failing_statement_leaves_a_repository_unchanged() {
    let Some(world) = World::new() else { return };
    let repository = world.place("code");
    std::fs::create_dir(&repository).expect("a folder");
    let git = |arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.args(["-c", "user.name=T", "-c", "user.email=t@localhost"]);
        let output = command.args(arguments).current_dir(&repository).output();
        let answer = Answer::from_output(&output.expect("git starts"));
        assert_eq!(answer.code, Some(0), "{answer:?}");
        answer.out
    };
    git(&["init", "-q", "-b", "main"]);
    std::fs::write(repository.join("a"), "a\n").expect("a file");
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "first"]);
    let create = [
        "sandbox",
        "create",
        "fix",
        "--path",
        "code",
        "--path",
        "plain",
        "--resource",
        "shop",
    ];
    world.agents.data(&create);
    world.write("DELETE FROM t; DELETE FROM nowhere;");
    std::fs::write(world.part("code").join("a"), "b\n").expect("a file");
    let snapshot = || {
        let index = std::fs::read(repository.join(".git/index")).expect("an index");
        let head = git(&["rev-parse", "HEAD"]);
        (
            world.state(),
            index,
            head,
            std::fs::read(repository.join("a")).expect("a file"),
        )
    };
    let old = snapshot();
    world.refused(&APPLY, 1, "CA-0659");
    assert_eq!(snapshot(), old);
    world.write("DELETE FROM t;");
    world.agents.data(&APPLY);
    assert_eq!(std::fs::read(repository.join("a")).expect("a file"), b"b\n");
    assert!(world.rows().is_empty());
}

#[test]
fn an_empty_script_and_a_removed_script_change_nothing() {
    let Some(world) = World::with_sandbox() else {
        return;
    };
    world.write("-- nothing\n;;\n");
    world.agents.data(&APPLY);
    assert_eq!(world.rows(), [["1", "old"]]);
    world.create();
    std::fs::remove_file(world.part("shop").join("changes.sql")).expect("removed");
    assert_eq!(world.query("SELECT v FROM t")["rows"], json!([["old"]]));
    world
        .agents
        .data(&["sandbox", "query", "fix", "--record", "DELETE FROM t"]);
    world.agents.data(&APPLY);
    assert!(world.rows().is_empty());
}

#[test]
fn a_script_that_is_a_link_reads_nothing_from_outside() {
    let Some(world) = World::with_sandbox() else {
        return;
    };
    let outside = world.place("outside.sql");
    std::fs::write(&outside, "DELETE FROM t;").expect("a file");
    let script = world.part("shop").join("changes.sql");
    std::fs::remove_file(&script).expect("removed");
    std::os::unix::fs::symlink(&outside, &script).expect("a link");
    world.refused(&["sandbox", "query", "fix", "SELECT 1"], 1, "CA-0660");
    world.refused(&APPLY, 1, "CA-0647");
    assert_eq!(world.rows(), [["1", "old"]]);
}

#[test]
fn concurrent_applies_are_serialized() {
    let Some(world) = World::with_sandbox() else {
        return;
    };
    // Another user has a separate home, so only the server can serialize the two applies.
    let other = Agents::new(env!("CARGO_BIN_EXE_agents"));
    other.data(&[
        "resource",
        "add",
        "postgres",
        "shop",
        "--url",
        &world.database.url,
    ]);
    other.data(&["sandbox", "create", "fix", "--resource", "shop"]);
    // Each script counts the existing rows and writes the next number. Concurrent scripts would
    // write the same number.
    world.database.execute_sql("CREATE TABLE numbers (n int)");
    let sql = "INSERT INTO numbers SELECT count(*) FROM numbers; SELECT pg_sleep(0.05)";
    for agents in [&world.agents, &other] {
        agents.data(&["sandbox", "query", "fix", "--part", "shop", "--record", sql]);
    }
    let gate = Gate::default();
    let started = [&world.agents, &other].map(|agents| agents.behind(&gate, &APPLY));
    gate.open();
    for child in started {
        let answer = Answer::from_output(&child.wait_with_output().expect("the program ends"));
        assert_eq!(answer.code, Some(0), "{answer:?}");
    }
    assert_eq!(
        world.database.ask("SELECT n FROM numbers ORDER BY n"),
        [["0"], ["1"]]
    );
}

#[test]
fn only_one_of_two_databases_can_be_changed_together_with_other_parts() {
    let Some(world) = World::new() else { return };
    let Some(second) = TestDatabase::postgres() else {
        return;
    };
    world
        .agents
        .data(&["resource", "add", "postgres", "other", "--url", &second.url]);
    world.agents.data(&[
        "sandbox",
        "create",
        "fix",
        "--path",
        "plain",
        "--resource",
        "shop",
        "--resource",
        "other",
    ]);
    world.refused(&["sandbox", "query", "fix", "SELECT 1"], 2, "CA-0101");
    world.refused(
        &["sandbox", "query", "fix", "--part", "plain", "SELECT 1"],
        2,
        "CA-0101",
    );
    world.refused(
        &["sandbox", "query", "fix", "--part", "none", "SELECT 1"],
        3,
        "CA-0640",
    );
    world.write("DELETE FROM t;");
    std::fs::write(
        world.part("other").join("changes.sql"),
        "CREATE TABLE u ();",
    )
    .expect("written");
    let old = world.state();
    for arguments in [PREVIEW.as_slice(), &APPLY] {
        world.refused(arguments, 1, "CA-0647");
        assert_eq!(world.state(), old);
    }
}
