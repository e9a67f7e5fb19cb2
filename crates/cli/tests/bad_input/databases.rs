//! Databases that are newer, damaged, on another server or missing.

use cleveragents_testkit::{Agents, Dice, TestDatabase};
use serde_json::{Value, json};

use super::{agents, agents_with_data, contents, files, refuse};

#[test]
fn a_database_newer_than_the_program_is_refused_unchanged() {
    for database in TestDatabase::each() {
        let agents = agents().on(&database.url);
        agents.data(&["session", "create", "--name", "one"]);
        let known = agents.data(&["db", "status"])["newest_version"].clone();
        database.execute_sql("INSERT INTO schema_migrations (version, name, applied_at) VALUES (9000, '9000_future', 0)");
        let bytes = || match database.folder() {
            Some(_) => std::fs::read(database.file()).expect("a file"),
            None => format!("{:?}", database.ask("SELECT * FROM sessions")).into_bytes(),
        };
        let before = bytes();
        for arguments in [
            vec!["session", "list"],
            vec!["session", "create"],
            vec!["session", "append", "one", "x"],
            vec!["db", "upgrade"],
            vec!["db", "check"],
            vec!["db", "vacuum"],
            vec!["cleanup", "run"],
            vec!["init"],
        ] {
            let error = refuse(&agents, &arguments).with(1, "CA-0205");
            assert_eq!(error["details"], json!({"found": 9000, "known": known}));
        }
        for arguments in [
            ["diagnostics", "--format=json"].as_slice(),
            &["diagnostics", "--repair", "--format=json"],
        ] {
            let report = agents.run(arguments);
            assert_eq!(report.code, Some(1), "{report:?}");
            let detail = check_of(&report.json(), "database")["detail"].clone();
            assert!(
                detail.as_str().expect("text").contains("CA-0205"),
                "{report:?}"
            );
        }
        assert!(bytes() == before, "{}: unchanged", database.kind);
    }
}

fn check_of(document: &Value, name: &str) -> Value {
    document["data"]["checks"]
        .as_array()
        .expect("a list of checks")
        .iter()
        .find(|check| check["name"] == name)
        .unwrap_or_else(|| panic!("{name} is checked: {document:#}"))
        .clone()
}

/// Damages the database, then asserts that the damage is reported and that the repair moves the
/// file aside unchanged and creates a new database. Returns the numbers of recovered sessions and
/// messages.
fn assert_repaired(agents: &Agents, damage: impl FnOnce(&mut Vec<u8>)) -> (usize, usize) {
    assert_repaired_after(agents, &["session", "create"], damage)
}

/// Like [`assert_repaired`]; `command` is the command that detects the damage.
fn assert_repaired_after(
    agents: &Agents,
    command: &[&str],
    damage: impl FnOnce(&mut Vec<u8>),
) -> (usize, usize) {
    let path = agents.database();
    assert!(
        !path.with_extension("db-wal").exists(),
        "the write-ahead log is checkpointed into the file"
    );
    let mut bytes = std::fs::read(&path).expect("a database");
    damage(&mut bytes);
    std::fs::write(&path, &bytes).expect("a damaged database");

    let error = refuse(agents, command).with(1, "CA-0204");
    assert!(
        error["hint"]
            .as_str()
            .expect("a hint")
            .contains("diagnostics --repair")
    );
    let report = agents.run(&["--format", "json", "diagnostics"]);
    assert_eq!(report.code, Some(1), "{report:?}");
    let check = check_of(&report.json(), "database");
    assert_eq!(check["severity"], "error", "{check:#}");
    assert!(
        report.out.contains("cleveragents.db"),
        "the file is named: {report:?}"
    );
    assert_eq!(agents.run(&["db", "check"]).code, Some(1));
    assert!(
        std::fs::read(&path).expect("a file") == bytes,
        "diagnostics and `db check` change nothing"
    );

    let repair = agents.run(&["--format", "json", "diagnostics", "--repair"]);
    assert_eq!(repair.code, Some(0), "{repair:?}");
    let facts = repair.json()["data"]["repairs"][0]["facts"].clone();
    let set_aside = facts["set_aside"].as_str().expect("a path");
    assert!(
        set_aside.contains("cleveragents.db.damaged-"),
        "{set_aside}"
    );
    let moved = std::fs::read(set_aside).expect("the damaged file still exists");
    assert!(moved == bytes, "its bytes are unchanged");

    assert_eq!(
        agents.run(&["diagnostics"]).code,
        Some(0),
        "no problems remain"
    );
    agents.assert_sound();
    let recovered = contents(agents);
    let messages = recovered["messages"].as_array().expect("a list").iter();
    let saved = (
        recovered["sessions"].as_array().expect("a list").len(),
        messages
            .map(|page| page["messages"].as_array().map_or(0, Vec::len))
            .sum(),
    );
    let session = agents.create_session();
    agents.data(&["session", "append", &session, "it works again"]);
    saved
}

#[test]
fn a_file_of_random_bytes_is_moved_aside() {
    let agents = agents_with_data();
    let saved = assert_repaired(&agents, |bytes| {
        let mut dice = Dice::default();
        for byte in bytes {
            *byte = u8::try_from(dice.roll(256)).expect("a byte");
        }
    });
    assert_eq!(saved, (0, 0));
}

#[test]
fn a_text_file_in_place_of_the_database_is_moved_aside() {
    let agents = agents_with_data();
    assert_repaired(&agents, |bytes| {
        *bytes = b"this is my shopping list\n".repeat(100);
    });
}

#[test]
fn a_truncated_database_is_moved_aside() {
    let agents = agents_with_data();
    assert_repaired(&agents, |bytes| bytes.truncate(bytes.len() / 2));
    // The second repair does not overwrite the file that the first moved aside.
    let first = files(agents.home()).len();
    assert_repaired(&agents, |bytes| bytes.truncate(5_000));
    assert!(files(agents.home()).len() > first);
}

#[test]
fn readable_data_of_a_damaged_database_is_recovered() {
    let agents = agents_with_data();
    let lines: String = (0..2_000)
        .map(|index| json!({"content": format!("{index} {}", "x".repeat(200))}).to_string() + "\n")
        .collect();
    let answer = agents.run_with(
        &["session", "append", "two", "--jsonl", "-"],
        lines.as_bytes(),
    );
    assert_eq!(answer.code, Some(0), "{answer:?}");
    // Destroy a database page in the middle of the messages.
    let command = ["session", "messages", "two"];
    let (sessions, messages) = assert_repaired_after(&agents, &command, |bytes| {
        let offset = find(bytes, b"1000 xxxx");
        let page = offset / 4096 * 4096;
        bytes[page..page + 4096].fill(0xA5);
    });
    assert_eq!(
        (sessions, messages),
        (2, 2_003),
        "every sequence number has its message or a placeholder"
    );
    let (saved, lost): (Vec<Value>, Vec<Value>) =
        agents.messages("two").into_iter().partition(|message| {
            let opening = format!("{} x", message["sequence"]);
            message["content"]
                .as_str()
                .is_some_and(|content| content.starts_with(&opening))
        });
    assert!(saved.len() >= 1_900, "{} messages are saved", saved.len());
    assert!(!lost.is_empty(), "a page was destroyed");
    for message in lost {
        assert_eq!(message["state"], "failed", "{message}");
        assert!(
            message["content"]
                .as_str()
                .expect("text")
                .contains("could not be read")
        );
    }
    let next = agents.data(&["session", "append", "two", "after the repair"]);
    assert_eq!(next["sequence"], 2_000, "the next message follows the last");
}

fn find(bytes: &[u8], needle: &[u8]) -> usize {
    bytes
        .windows(needle.len())
        .position(|window| window == needle)
        .expect("the text is in the file")
}

#[test]
fn a_wrong_url_is_refused() {
    let agents = agents_with_data();
    let before = contents(&agents);
    for url in [
        "mysql://localhost/x",
        "nonsense",
        "sqlite://relative/path",
        "sqlite:///",
        "sqlite:",
        "sqlite:file:x",
        "postgres:/x",
        "postgres://host:port/x",
        "http://localhost",
    ] {
        refuse(&agents, &["session", "list", "--database-url", url]).with(2, "CA-0201");
        let elsewhere = super::agents().on(url);
        refuse(&elsewhere, &["session", "list"]).with(2, "CA-0201");
        let report = elsewhere.run(&["--format", "json", "diagnostics"]);
        assert_eq!(report.code, Some(1), "{report:?}");
        assert_eq!(check_of(&report.json(), "database")["severity"], "error");
    }
    refuse(&agents, &["session", "list", "--database-url", ""]).with(2, "CA-0111");
    assert_eq!(contents(&agents), before);
}

#[test]
fn a_missing_database_is_reported() {
    let agents = agents_with_data();
    // The operating system just assigned this port as free, so no process listens on it.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a free port")
        .port();
    let server = format!("postgres://someone:secret@127.0.0.1:{port}/x");
    let folder = agents.cwd().join("no/such/folder/x.db");
    let missing = format!("sqlite://{}", folder.display());
    for url in [server.as_str(), &missing] {
        let refusal = refuse(&agents, &["session", "list", "--database-url", url]);
        let error = refusal.with(1, "CA-0202");
        assert!(!error.to_string().contains("secret"), "{error:#}");
        assert!(!refusal.run("plain").err.contains("secret"));
    }
    assert!(!agents.cwd().join("no").exists(), "no folder is created");
    // A folder is not a database.
    let folder = format!("sqlite://{}", agents.cwd().display());
    let answer = agents.run(&[
        "--format",
        "json",
        "session",
        "list",
        "--database-url",
        &folder,
    ]);
    assert_eq!(answer.code, Some(1), "{answer:?}");
}
