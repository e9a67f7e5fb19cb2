//! `version`, `info`, `db …`, `cleanup …`, `diagnostics`, `demo`.

use cleveragents_testkit::{Agents, Answer};

use super::{agents, assert_shown, shown, weekly, with_weekly};

fn nothing(_: &Agents) {}

#[test]
fn version() {
    assert_shown("version", &shown(nothing, &["version"]));
}

#[test]
fn info() {
    assert_shown("info", &shown(weekly, &["info"]));
    assert_shown("info_of_nothing", &shown(nothing, &["info"]));
}

#[test]
fn read_commands_create_nothing() {
    let agents = agents();
    let commands: [&[&str]; 6] = [
        &["version"],
        &["info"],
        &["diagnostics"],
        &["config", "list"],
        &["config", "get", "core.format"],
        &["completion", "bash"],
    ];
    for command in commands {
        let answer = agents.run(command);
        assert_eq!(answer.code, Some(0), "{answer:?}");
        assert!(!agents.home().exists(), "{command:?} makes no home");
    }
}

#[test]
fn db_status() {
    assert_shown("db_status", &shown(weekly, &["db", "status"]));
}

#[test]
fn db_status_without_a_database() {
    assert_shown("db_status_of_nothing", &shown(nothing, &["db", "status"]));
}

#[test]
fn db_upgrade() {
    assert_shown("db_upgrade", &shown(nothing, &["db", "upgrade"]));
    assert_shown("db_upgrade_again", &shown(weekly, &["db", "upgrade"]));
}

#[test]
fn db_check() {
    assert_shown("db_check", &shown(weekly, &["db", "check"]));
}

#[test]
fn db_vacuum() {
    assert_shown("db_vacuum", &shown(weekly, &["db", "vacuum"]));
}

#[test]
fn vacuum_reclaims_the_space_of_deleted_sessions() {
    let agents = with_weekly();
    let lines: String = (0..3_000)
        .map(|index| {
            serde_json::json!({"content": format!("{index} {}", "x".repeat(500))}).to_string()
                + "\n"
        })
        .collect();
    let answer = agents.run_with(
        &["session", "append", "weekly", "--jsonl", "-"],
        lines.as_bytes(),
    );
    assert_eq!(answer.code, Some(0), "{answer:?}");
    agents.data(&["session", "delete", "weekly", "--yes"]);
    let size = || std::fs::metadata(agents.database()).expect("a file").len();
    let before = size();
    let freed = agents.data(&["db", "vacuum"]);
    assert!(
        freed["freed_bytes"].as_u64().expect("a number") > 500_000,
        "{freed:#}"
    );
    assert!(
        size() + 500_000 < before,
        "{before} bytes became {}",
        size()
    );
}

#[test]
fn cleanup_status() {
    assert_shown("cleanup_status", &shown(weekly, &["cleanup", "status"]));
}

#[test]
fn cleanup_run() {
    assert_shown("cleanup_run", &shown(weekly, &["cleanup", "run"]));
    assert_shown(
        "cleanup_dry_run",
        &shown(weekly, &["cleanup", "run", "--dry-run"]),
    );
}

#[test]
fn diagnostics() {
    assert_shown("diagnostics", &shown(weekly, &["diagnostics"]));
    assert_shown("diagnostics_of_nothing", &shown(nothing, &["diagnostics"]));
}

#[test]
fn diagnostics_restrict_a_database_that_others_could_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let agents = with_weekly();
    let path = agents.database();
    let mode = || {
        std::fs::metadata(&path)
            .expect("a file")
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode(), 0o600, "a new database is private");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("mode");
    let report = agents.run(&["--format", "json", "diagnostics"]);
    assert_eq!(
        (report.code, report.json()["status"].as_str()),
        (Some(0), Some("warn"))
    );
    assert_eq!(mode(), 0o644, "looking changes nothing");
    agents.data(&["diagnostics", "--repair"]);
    assert_eq!(mode(), 0o600);
}

#[test]
fn the_demo_succeeds_and_leaves_nothing() {
    let agents = agents();
    let answer = agents.run(&["demo"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(!agents.home().exists(), "it works on a temporary database");
}

/// The field `facts` of the demo step whose title contains these words.
fn facts<'d>(data: &'d serde_json::Value, words: &str) -> &'d serde_json::Value {
    let stops = data["stops"].as_array().expect("stops");
    let stop = stops.iter().find(|stop| {
        let title = stop["title"].as_str().expect("a title");
        title.contains(words)
    });
    &stop.unwrap_or_else(|| panic!("no stop `{words}`: {data}"))["facts"]
}

#[test]
fn the_demo_runs_a_whole_plan() {
    let agents = agents();
    // The user's settings do not affect the demo.
    let output = agents
        .command(["--format", "json", "demo"])
        .env("CLEVERAGENTS_AUTOMATION_PROFILE", "full-auto")
        .env("CLEVERAGENTS_MODEL_DEFAULT", "openai/nobody")
        .output();
    let answer = Answer::from_output(&output.expect("the program starts"));
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(!agents.home().exists(), "it works in a temporary folder");
    let data = &answer.json()["data"];
    assert_eq!(data["needs_key"], false);
    let calls = facts(data, "session")["calls"].as_array().expect("calls");
    let outcomes: Vec<&str> = calls
        .iter()
        .filter_map(|call| call["outcome"].as_str())
        .collect();
    assert_eq!(outcomes, ["succeeded", "refused"]);
    let validated = facts(data, "validated");
    assert_eq!(validated["exit_code"], 5);
    let found = validated["test_in_sandbox"].as_str().expect("a line");
    assert!(found.starts_with("FAILED: ten pieces"), "{found}");
    let progress = validated["progress"].as_array().expect("lines");
    assert!(
        progress.iter().any(|line| line
            .as_str()
            .is_some_and(|line| line.contains("local/tests"))),
        "{progress:?}"
    );
    assert_eq!(facts(data, "fixes")["passed"][0], "local/tests");
    let patch = facts(data, "review")["patch"].as_str().expect("a patch");
    assert!(patch.contains("-  echo $(( $1 + $2 ))"), "{patch}");
    assert!(patch.contains("9 / 10"), "{patch}");
    let back = facts(data, "redo");
    assert_eq!(back["test_when_back"], validated["test_in_sandbox"]);
    let applied = facts(data, "Applied");
    assert_eq!(applied["refused_with"], "CA-0645");
    assert_eq!(applied["state"], "applied");
    assert_eq!(applied["changes"]["insertions"], 5);
    assert_eq!(applied["changes"]["deletions"], 1);
    assert_eq!(applied["status"], "?? todo.txt");
    assert_eq!(
        applied["commits"],
        serde_json::json!([
            "Make the tests of the shop pass",
            "Say how long prices hold",
            "A shop"
        ])
    );
    let stages = facts(data, "log")["stages"].as_array().expect("stages");
    assert_eq!(stages.last().expect("one"), "apply/applied");
}
