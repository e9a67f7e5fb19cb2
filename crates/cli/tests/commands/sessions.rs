//! `session`: output of each command.

use cleveragents_testkit::Agents;

use super::{assert_shown, shown, weekly, with_weekly};

fn no_setup(_: &Agents) {}

#[test]
fn session_create() {
    let arguments = [
        "session",
        "create",
        "--name",
        "weekly",
        "--actor",
        "Orchestrator",
    ];
    assert_shown("session_create", &shown(no_setup, &arguments));
}

#[test]
fn session_list() {
    assert_shown("session_list", &shown(weekly, &["session", "list"]));
}

#[test]
fn session_list_of_nothing() {
    assert_shown(
        "session_list_of_nothing",
        &shown(no_setup, &["session", "list"]),
    );
}

#[test]
fn session_show() {
    assert_shown(
        "session_show",
        &shown(weekly, &["session", "show", "weekly"]),
    );
}

#[test]
fn session_append() {
    let arguments = [
        "session",
        "append",
        "weekly",
        "--role",
        "tool",
        "exit code 0",
    ];
    assert_shown("session_append", &shown(weekly, &arguments));
}

#[test]
fn session_messages() {
    assert_shown(
        "session_messages",
        &shown(weekly, &["session", "messages", "weekly"]),
    );
}

#[test]
fn session_messages_page() {
    let arguments = ["session", "messages", "weekly", "--limit", "1"];
    assert_shown("session_messages_page", &shown(weekly, &arguments));
}

#[test]
fn session_messages_of_nothing() {
    let empty = |agents: &Agents| drop(agents.data(&["session", "create", "--name", "empty"]));
    assert_shown(
        "session_messages_of_nothing",
        &shown(empty, &["session", "messages", "empty"]),
    );
}

#[test]
fn session_rename() {
    assert_shown(
        "session_rename",
        &shown(weekly, &["session", "rename", "weekly", "monthly"]),
    );
}

#[test]
fn session_delete() {
    assert_shown(
        "session_delete",
        &shown(weekly, &["session", "delete", "weekly", "--yes"]),
    );
}

#[test]
fn session_export() {
    let arguments = ["session", "export", "weekly", "--output", "weekly.json"];
    assert_shown("session_export", &shown(weekly, &arguments));
}

#[test]
fn session_export_documents() {
    assert_shown(
        "session_export_document",
        &shown(weekly, &["session", "export", "weekly"]),
    );
    let arguments = ["session", "export", "weekly", "--as", "markdown"];
    assert_shown("session_export_markdown", &shown(weekly, &arguments));
}

#[test]
fn session_import() {
    let exported = |agents: &Agents| {
        weekly(agents);
        agents.data(&["session", "export", "weekly", "--output", "weekly.json"]);
    };
    let arguments = ["session", "import", "--input", "weekly.json"];
    assert_shown("session_import", &shown(exported, &arguments));
}

#[test]
fn session_fork() {
    let arguments = [
        "session",
        "fork",
        "weekly",
        "--at",
        "0",
        "--name",
        "another way",
    ];
    assert_shown("session_fork", &shown(weekly, &arguments));
}

#[test]
fn session_search() {
    assert_shown(
        "session_search",
        &shown(weekly, &["session", "search", "races"]),
    );
}

#[test]
fn session_search_without_a_match() {
    let arguments = ["session", "search", "elephants"];
    assert_shown("session_search_without_a_match", &shown(weekly, &arguments));
}

#[test]
fn a_stream_is_acknowledged_line_by_line() {
    let agents = with_weekly();
    let input =
        "{\"content\":\"a\"}\n{\"content\":\"b\",\"role\":\"assistant\",\"metadata\":{\"n\":1}}\n";
    let answer = agents.run_with(
        &["session", "append", "weekly", "--jsonl", "-"],
        input.as_bytes(),
    );
    assert_shown("session_append_stream", &answer.out);
    let messages = agents.messages("weekly");
    assert_eq!(messages[2]["role"], "user", "the default role");
    assert_eq!(messages[3]["role"], "assistant");
    assert_eq!(messages[3]["metadata"]["n"], 1);
}

#[test]
fn an_exported_session_is_imported_unchanged() {
    let agents = with_weekly();
    agents.data(&["session", "export", "weekly", "--output", "weekly.json"]);
    let imported = agents.data(&["session", "import", "--input", "weekly.json"]);
    let id = imported["session_import"]["session_id"]
        .as_str()
        .expect("an id");
    let strip = |mut messages: Vec<serde_json::Value>| {
        for message in &mut messages {
            message["message_id"].take();
        }
        messages
    };
    let original = imported["merge"]["existing"].as_str().expect("an id");
    assert_eq!(strip(agents.messages(id)), strip(agents.messages(original)));
    // The two sessions differ only in id and version.
    let show = |id: &str| agents.data(&["session", "show", id])["session_summary"].clone();
    let (mut first, mut second) = (show(original), show(id));
    for summary in [&mut first, &mut second] {
        summary["id"].take();
        summary["version"].take();
    }
    assert_eq!(first, second);
}

#[test]
fn text_from_standard_input_loses_its_last_line_feed() {
    let agents = with_weekly();
    for (input, stored) in [
        ("a\nb\n", "a\nb"),
        ("a\r\n", "a"),
        ("  a  ", "  a  "),
        ("-", "-"),
    ] {
        let answer = agents.run_with(&["session", "append", "weekly", "-"], input.as_bytes());
        assert_eq!(answer.code, Some(0), "{answer:?}");
        let last = agents.contents("weekly").pop();
        assert_eq!(last.as_deref(), Some(stored));
    }
    for text in ["--format", "-1 is a text"] {
        agents.data(&["session", "append", "weekly", "--", text]);
        let last = agents.contents("weekly").pop();
        assert_eq!(
            last.as_deref(),
            Some(text),
            "an argument after `--` is not a flag"
        );
    }
}

#[test]
fn pages_follow_each_other() {
    let agents = with_weekly();
    for index in 2..10 {
        agents.data(&["session", "append", "weekly", &format!("message {index}")]);
    }
    let mut after: Option<u64> = None;
    let mut sequences = Vec::new();
    loop {
        let number = after.map(|number| number.to_string());
        let mut arguments = vec!["session", "messages", "weekly", "--limit", "3"];
        if let Some(number) = &number {
            arguments.extend(["--after", number]);
        }
        let page = agents.data(&arguments);
        for message in page["messages"].as_array().expect("a list") {
            sequences.push(message["sequence"].as_u64().expect("a number"));
        }
        after = page["next_after"].as_u64();
        if after.is_none() {
            break;
        }
    }
    assert_eq!(sequences, (0..10).collect::<Vec<_>>());
    let past_end = agents.data(&["session", "messages", "weekly", "--after", "99"]);
    assert_eq!(past_end["messages"], serde_json::json!([]));
}

#[test]
fn lists_are_filtered_sorted_and_paged() {
    let agents = with_weekly();
    agents.data(&["session", "create", "--name", "alpha"]);
    agents.data(&[
        "session",
        "create",
        "--name",
        "weekend",
        "--actor",
        "openai/gpt-5",
    ]);
    let names = |arguments: &[&str]| -> Vec<String> {
        agents.data(&[&["session", "list"], arguments].concat())["sessions"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|session| session["name"].as_str().expect("a name").to_owned())
            .collect()
    };
    assert_eq!(names(&["--sort", "name"]), ["alpha", "weekend", "weekly"]);
    assert_eq!(
        names(&["--sort", "name", "--reverse"]),
        ["weekly", "weekend", "alpha"]
    );
    assert_eq!(names(&["--sort", "messages"])[0], "weekly");
    assert_eq!(
        names(&["--sort", "name", "--limit", "1", "--offset", "1"]),
        ["weekend"]
    );
    assert_eq!(
        names(&["--name", "week", "--sort", "name"]),
        ["weekend", "weekly"]
    );
    assert_eq!(
        names(&["--actor", "openai/gpt-5", "--sort", "name"]),
        ["weekend", "weekly"]
    );
    assert_eq!(names(&["--since", "2999-01-01T00:00:00Z"]), [""; 0]);
    assert_eq!(names(&["--limit", "0"]), [""; 0]);
    // Wildcards of the database are ordinary characters.
    assert_eq!(names(&["--name", "%"]), [""; 0]);
    assert_eq!(names(&["--name", "week_y"]), [""; 0]);
}

#[test]
fn deleting_a_session_deletes_its_messages() {
    let agents = with_weekly();
    agents.data(&["session", "search", "races"]);
    agents.data(&["session", "delete", "weekly", "--yes"]);
    assert_eq!(
        agents.data(&["session", "search", "races"])["matches"],
        serde_json::json!([])
    );
    assert_eq!(agents.data(&["info"])["messages"], 0);
    agents.assert_sound();
}

#[test]
fn session_compact() {
    let scripted = |agents: &Agents| {
        weekly(agents);
        let script = "price: {input: 1, output: 4}\nanswers: [{text: They meet weekly.}]\nat_end: repeat_last\n";
        std::fs::write(agents.cwd().join("script.yaml"), script).expect("a file");
    };
    let arguments = [
        "session",
        "compact",
        "weekly",
        "the dates",
        "--actor",
        "scripted/script.yaml",
    ];
    assert_shown("session_compact", &shown(scripted, &arguments));
}
