//! Queries with the pending changes, recorded statements, and their history.

use serde_json::json;

use super::world::{World, assert_no_password};

#[test]
fn a_query_sees_the_pending_changes_and_stores_nothing() {
    let Some(world) = World::with_sandbox() else {
        return;
    };
    world.write("INSERT INTO t VALUES (2, 'new');\nUPDATE t SET v = NULL WHERE id = 1;\n");
    let answer = world.query("SELECT id, v FROM t ORDER BY id");
    assert_eq!(answer["columns"], json!(["id", "v"]));
    assert_eq!(answer["rows"], json!([["1", null], ["2", "new"]]));
    assert_eq!(answer["statements_before"], 2);
    assert_eq!(answer["recorded"], false);
    assert_eq!(world.rows(), [["1", "old"]]);
    // Statements that write are run and rolled back.
    let answer = world.query("DELETE FROM t");
    assert_eq!(
        answer["statements"],
        json!([{"line": 1, "word": "delete", "rows": 2}])
    );
    assert_eq!(
        world.query("SELECT count(*) FROM t")["rows"],
        json!([["2"]])
    );
    assert_eq!(world.rows(), [["1", "old"]]);
}

#[test]
fn rows_are_printed_in_every_format_up_to_the_limit() {
    let Some(world) = World::with_sandbox() else {
        return;
    };
    for format in ["rich", "color", "table", "plain", "yaml", "json"] {
        let answer = world.agents.run(&[
            "-f",
            format,
            "sandbox",
            "query",
            "fix",
            "SELECT 'swan' AS bird",
        ]);
        assert_eq!(answer.code, Some(0), "{answer:?}");
        assert!(
            answer.out.contains("swan") && answer.out.contains("bird"),
            "{answer:?}"
        );
        assert_no_password(&answer);
    }
    let many = [
        "sandbox",
        "query",
        "fix",
        "--limit",
        "3",
        "SELECT generate_series(1, 10)",
    ];
    let answer = world.agents.data(&many);
    assert_eq!(answer["rows"], json!([["1"], ["2"], ["3"]]));
    assert_eq!(answer["rows_left_out"], 7);
    let explained = world.query("EXPLAIN SELECT * FROM t");
    assert_eq!(explained["columns"], json!(["QUERY PLAN"]));
    let row_count = explained["rows"].as_array().expect("rows").len();
    assert_eq!(explained["statements"][0]["rows"], row_count);
    // The script itself can create types that only the database knows.
    world.write("CREATE TYPE colour AS ENUM ('red', 'blue');");
    let answer =
        world.query("SELECT 'red'::colour, ARRAY[1, NULL], '{\"a\": 1}'::jsonb, DATE '2026-02-03'");
    assert_eq!(
        answer["rows"],
        json!([["red", "{1,NULL}", "{\"a\": 1}", "2026-02-03"]])
    );
}

#[test]
fn statements_can_be_read_from_standard_input() {
    let Some(world) = World::with_sandbox() else {
        return;
    };
    let answer = world.agents.run_with(
        &["sandbox", "query", "fix"],
        b"SELECT 1;\nSELECT v FROM t;\n",
    );
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(answer.out.contains("old"), "{answer:?}");
    world.refused(&["sandbox", "query", "fix"], 2, "CA-0101");
}

#[test]
fn recorded_statements_are_changes_that_can_be_rolled_back() {
    let Some(world) = World::with_sandbox() else {
        return;
    };
    let record = |sql: &str| {
        world
            .agents
            .data(&["sandbox", "query", "fix", "--record", sql])
    };
    let first = record("INSERT INTO t VALUES (2, 'two') -- a note");
    assert_eq!(first["recorded"], true);
    assert_eq!(first["changes"][0]["path"], "changes.sql");
    assert_eq!(first["changes"][0]["operation"], "modify");
    record("INSERT INTO t VALUES (3, 'three'); UPDATE t SET v = 'x' WHERE id = 3;");
    assert_eq!(
        world.query("SELECT count(*) FROM t")["rows"],
        json!([["3"]])
    );
    assert_eq!(world.rows(), [["1", "old"]]);
    let patch = world
        .agents
        .run(&["sandbox", "diff", "fix", "--part", "shop"])
        .out;
    assert!(
        patch.contains("+INSERT INTO t VALUES (2, 'two');\n"),
        "{patch}"
    );
    assert!(
        patch.contains("+UPDATE t SET v = 'x' WHERE id = 3;\n"),
        "{patch}"
    );
    // A rollback removes one recorded statement.
    world
        .agents
        .data(&["sandbox", "checkpoint", "fix", "--label", "both"]);
    world.agents.data(&["sandbox", "rollback", "fix"]);
    assert_eq!(
        world.query("SELECT count(*) FROM t")["rows"],
        json!([["2"]])
    );
    world.agents.data(&["sandbox", "redo", "fix"]);
    assert_eq!(
        world.query("SELECT count(*) FROM t")["rows"],
        json!([["3"]])
    );
    world
        .agents
        .data(&["sandbox", "rollback", "fix", "--to", "1"]);
    assert_eq!(
        world.query("SELECT count(*) FROM t")["rows"],
        json!([["1"]])
    );
    // A failed statement is not recorded.
    world.refused(
        &["sandbox", "query", "fix", "--record", "SELECT nothing"],
        1,
        "CA-0659",
    );
    let diff = world.agents.data(&["sandbox", "diff", "fix"]);
    assert_eq!(diff["count"], 0, "{diff}");
}

#[test]
fn a_sandbox_explains_how_to_change_its_database() {
    let Some(world) = World::with_sandbox() else {
        return;
    };
    let shown = world.agents.run(&["sandbox", "show", "fix"]);
    assert!(shown.out.contains("transaction_rollback"), "{shown:?}");
    let output = format!("{}{}", shown.out, shown.err);
    assert!(
        output.contains("agents sandbox query fix --part shop SQL"),
        "{shown:?}"
    );
    let script = std::fs::read_to_string(world.part("shop").join("changes.sql")).expect("a text");
    assert!(script.starts_with("-- "), "{script}");
    // A command may write the script like any file.
    let exec = [
        "sandbox",
        "exec",
        "fix",
        "--unconfined",
        "--in",
        "shop",
        "--",
        "sh",
        "-c",
        "echo 'DELETE FROM t' >> changes.sql",
    ];
    world.agents.data(&exec);
    assert_eq!(world.query("SELECT 1 FROM t")["rows"], json!([]));
    assert_eq!(world.rows(), [["1", "old"]]);
}

#[test]
fn a_read_only_link_can_be_queried_but_not_changed() {
    let Some(world) = World::new() else { return };
    world.agents.data(&["project", "create", "p"]);
    world
        .agents
        .data(&["project", "link-resource", "p", "shop", "--read-only"]);
    world
        .agents
        .data(&["sandbox", "create", "fix", "--project", "p"]);
    assert_eq!(world.query("SELECT v FROM t")["rows"], json!([["old"]]));
    for sql in [
        "DELETE FROM t",
        "SET TRANSACTION READ WRITE",
        "SET transaction_read_only = off",
        "SELECT set_config('transaction_read_only', 'off', false)",
        "SELECT nextval('s')",
    ] {
        world.refused(&["sandbox", "query", "fix", sql], 1, "CA-0659");
    }
    world.refused(
        &["sandbox", "query", "fix", "--record", "SELECT 1"],
        1,
        "CA-0647",
    );
    std::fs::write(world.part("shop").join("changes.sql"), "DELETE FROM t;").expect("written");
    world.refused(&["sandbox", "apply", "fix", "--dry-run"], 1, "CA-0647");
    world.refused(&["sandbox", "apply", "fix"], 1, "CA-0647");
    assert_eq!(world.rows(), [["1", "old"]]);
}
