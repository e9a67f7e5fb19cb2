//! Session commands with invalid references, roles, contents, metadata and names.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use serde_json::json;

use super::{agents_with_data, contents, refuse};

#[test]
fn an_unknown_session_is_not_found_by_any_command() {
    let agents = agents_with_data();
    let before = contents(&agents);
    let unknown = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    for reference in [unknown, "01ARZ3", "no such name", "01", "0", "💥", "-"] {
        for command in ["show", "messages", "export", "fork"] {
            let error = refuse(&agents, &["session", command, reference]).with(3, "CA-0301");
            assert_eq!(
                error["details"],
                json!({"reference": reference}),
                "{command}"
            );
        }
        refuse(&agents, &["session", "append", reference, "text"]).with(3, "CA-0301");
        refuse(&agents, &["session", "rename", reference, "name"]).with(3, "CA-0301");
        refuse(&agents, &["session", "delete", reference, "--yes"]).with(3, "CA-0301");
        refuse(&agents, &["session", "search", "x", "--session", reference]).with(3, "CA-0301");
        refuse(&agents, &["session", "append", reference, "--jsonl", "-"])
            .reading("{\"content\":\"x\"}\n")
            .with(3, "CA-0301");
    }
    assert_eq!(contents(&agents), before);
}

#[test]
fn an_id_prefix_that_is_too_short_is_refused() {
    let agents = agents_with_data();
    let session = contents(&agents)["sessions"][0]["id"].clone();
    let short = &session.as_str().expect("an id")[..5];
    let error = refuse(&agents, &["session", "show", short]).with(3, "CA-0301");
    let hint = error["hint"].as_str().expect("a hint");
    assert!(hint.contains("6 or more characters"), "{hint}");
}

fn id_of(contents: &serde_json::Value, index: usize) -> &str {
    contents["sessions"][index]["id"].as_str().expect("an id")
}

#[test]
fn the_error_for_an_ambiguous_session_lists_the_candidates() {
    // The first six characters of an id are the time in units of about a quarter of an hour. Repeat
    // until both ids share them.
    let (agents, before) = loop {
        let agents = agents_with_data();
        let before = contents(&agents);
        if id_of(&before, 0)[..6] == id_of(&before, 1)[..6] {
            break (agents, before);
        }
    };
    let ids = [id_of(&before, 0), id_of(&before, 1)];
    let prefix = &ids[0][..6];
    let refusal = refuse(&agents, &["session", "append", prefix, "text"]);
    let error = refusal.with(2, "CA-0302");
    // Sessions are listed newest first, candidates by id.
    let expected = [(ids[1], "one"), (ids[0], "two")];
    assert_eq!(
        error["details"]["candidates"],
        json!(expected.map(|(id, name)| json!({"id": id, "name": name})))
    );
    // Human formats also show the candidates.
    let shown = refusal.run("plain").err;
    for (id, name) in expected {
        assert!(shown.contains(&format!("{id} {name}")), "{shown}");
    }
    refuse(&agents, &["session", "delete", prefix, "--yes"]).with(2, "CA-0302");
    assert_eq!(contents(&agents), before);

    agents.data(&["session", "rename", ids[0], "same"]);
    agents.data(&["session", "rename", ids[1], "same"]);
    let error = refuse(&agents, &["session", "show", "same"]).with(2, "CA-0302");
    assert_eq!(
        error["details"]["candidates"].as_array().map(Vec::len),
        Some(2)
    );
}

#[test]
fn a_role_that_does_not_exist_is_refused() {
    let agents = agents_with_data();
    let before = contents(&agents);
    for role in ["robot", "", "USER ", "user\n"] {
        let error =
            refuse(&agents, &["session", "append", "one", "--role", role, "x"]).with(2, "CA-0303");
        assert_eq!(error["details"], json!({"role": role}));
        assert!(
            error["hint"]
                .as_str()
                .expect("a hint")
                .contains("assistant")
        );
    }
    refuse(&agents, &["session", "search", "first", "--role", "robot"]).with(2, "CA-0303");
    assert_eq!(contents(&agents), before);
}

#[test]
fn an_empty_message_is_refused() {
    let agents = agents_with_data();
    let before = contents(&agents);
    for text in ["", " ", "\n", " \t\r\n ", "\u{2003}\u{a0}"] {
        refuse(&agents, &["session", "append", "one", text]).with(2, "CA-0304");
        refuse(&agents, &["session", "append", "one", "-"])
            .reading(text)
            .with(2, "CA-0304");
    }
    assert_eq!(contents(&agents), before);
}

#[test]
fn a_message_above_the_limit_is_refused_wherever_the_limit_is_set() {
    let agents = agents_with_data();
    agents.data(&["config", "set", "session.max-message-bytes", "10"]);
    let before = contents(&agents);
    let refused = |agents: &cleveragents_testkit::Agents, bytes: usize, limit: usize| {
        let text = "x".repeat(bytes);
        let error = refuse(agents, &["session", "append", "one", &text]).with(2, "CA-0305");
        assert_eq!(error["details"], json!({"bytes": bytes, "limit": limit}));
        refuse(agents, &["session", "append", "one", "-"])
            .reading(&text)
            .with(2, "CA-0305");
        refuse(agents, &["session", "append", "one", "--jsonl", "-"])
            .reading(&format!("{}\n", json!({"content": text})))
            .with(2, "CA-0305");
    };
    refused(&agents, 11, 10);
    // The limit counts bytes, not characters.
    refuse(&agents, &["session", "append", "one", "éééééé"]).with(2, "CA-0305");
    assert_eq!(contents(&agents), before);
    agents.data(&["session", "append", "one", "ten bytes!"]);

    let agents = agents.with("CLEVERAGENTS_SESSION_MAX_MESSAGE_BYTES", "4");
    refused(&agents, 5, 4);
    agents.data(&["session", "append", "one", "four"]);

    // Text far beyond the limit is not read completely.
    refuse(&agents, &["session", "append", "one", "-"])
        .reading(&vec![b'x'; 3_000_000])
        .with(2, "CA-0305");
    refuse(&agents, &["session", "append", "one", "--jsonl", "-"])
        .reading(&vec![b'x'; 3_000_000])
        .with(2, "CA-0308");
}

#[test]
fn metadata_that_is_not_a_json_object_is_refused() {
    let agents = agents_with_data();
    let before = contents(&agents);
    for metadata in [
        "",
        "{",
        "nonsense",
        "[1]",
        "\"text\"",
        "1",
        "null",
        "{\"a\":1} x",
        "{a:1}",
    ] {
        refuse(
            &agents,
            &["session", "append", "one", "--metadata", metadata, "x"],
        )
        .with(2, "CA-0306");
    }
    assert_eq!(contents(&agents), before);
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    let agents = agents_with_data();
    let before = contents(&agents);
    let broken = OsStr::from_bytes(b"caf\xe9");
    for arguments in [
        ["session", "append", "one"].map(OsStr::new).as_slice(),
        ["session", "show"].map(OsStr::new).as_slice(),
        ["session", "create", "--name"].map(OsStr::new).as_slice(),
        ["config", "get"].map(OsStr::new).as_slice(),
    ] {
        let arguments = [arguments, &[broken]].concat();
        refuse(&agents, &arguments).with(2, "CA-0107");
    }
    let error = refuse(&agents, &["session", "append", "one", "-"])
        .reading(b"caf\xe9 and more")
        .with(2, "CA-0107");
    assert_eq!(error["details"], json!({"byte": 3}));
    assert_eq!(contents(&agents), before);
}

#[test]
fn an_invalid_name_is_refused() {
    let agents = agents_with_data();
    let before = contents(&agents);
    let long = "x".repeat(201);
    for name in ["", "  ", "two\nlines", "bell\u{7}", &long] {
        refuse(&agents, &["session", "create", "--name", name]).with(2, "CA-0313");
        refuse(&agents, &["session", "rename", "one", name]).with(2, "CA-0313");
        refuse(&agents, &["session", "fork", "one", "--name", name]).with(2, "CA-0313");
    }
    for actor in ["", "a/b/c/d", "Sp ace/x", "../up"] {
        refuse(&agents, &["session", "create", "--actor", actor]).with(2, "CA-0102");
    }
    assert_eq!(contents(&agents), before);
}

#[test]
fn a_fork_after_the_last_message_is_refused() {
    let agents = agents_with_data();
    let before = contents(&agents);
    let error = refuse(&agents, &["session", "fork", "one", "--at", "3"]).with(3, "CA-0312");
    assert_eq!(error["details"]["messages"], 3);
    refuse(&agents, &["session", "fork", "two", "--at", "0"]).with(3, "CA-0312");
    refuse(
        &agents,
        &["session", "fork", "one", "--at", "18446744073709551615"],
    )
    .with(3, "CA-0312");
    assert_eq!(contents(&agents), before);
}

#[test]
fn a_rename_with_an_outdated_version_is_a_conflict() {
    let agents = agents_with_data();
    let before = contents(&agents);
    let error = refuse(
        &agents,
        &["session", "rename", "one", "new", "--if-version", "99"],
    )
    .with(4, "CA-0210");
    assert_eq!(error["details"]["expected"], 99);
    assert_eq!(contents(&agents), before);
}

#[test]
fn an_empty_search_is_refused() {
    let agents = agents_with_data();
    for query in ["", " ", "\"\"", "*", "?!"] {
        refuse(&agents, &["session", "search", query]).with(2, "CA-0314");
    }
}

#[test]
fn deleting_needs_confirmation_or_yes() {
    let agents = agents_with_data();
    let before = contents(&agents);
    let error = refuse(&agents, &["session", "delete", "one"])
        .reading("y\n")
        .with(5, "CA-0106");
    assert!(error["hint"].as_str().expect("a hint").contains("--yes"));
    assert_eq!(contents(&agents), before);
}
