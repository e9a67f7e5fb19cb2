//! Log of commands: destination, content and redaction.

use serde_json::Value;

use crate::{agents, weekly};

/// A log on standard error does not change standard output.
#[test]
fn verbose_commands_log_to_standard_error_only() {
    let agents = agents();
    weekly(&agents);
    let list = ["--format", "json", "session", "list"];
    let quiet = agents.run(&list);
    assert_eq!((quiet.code, quiet.err.as_str()), (Some(0), ""), "{quiet:?}");
    for (verbosity, has_details) in [("-v", false), ("-vv", true)] {
        let verbose = agents.run(&[&[verbosity][..], &list].concat());
        assert_eq!(verbose.code, Some(0), "{verbose:?}");
        assert_eq!(verbose.json()["data"], quiet.json()["data"]);
        let lines: Vec<&str> = verbose.err.lines().collect();
        assert!(
            !lines.is_empty() && lines.iter().all(|line| line.contains(" cleveragents_")),
            "{verbose:?}"
        );
        let logs = |message: &str| verbose.err.contains(message);
        assert!(
            logs("command finished command=\"session list\""),
            "{verbose:?}"
        );
        assert_eq!(logs("command started"), has_details, "{verbose:?}");
    }
    // The logging flags may follow the command and the flags of a resource type.
    let after_command = agents.run(&["--format", "plain", "session", "list", "-v"]);
    assert!(
        after_command.err.contains("command finished"),
        "{after_command:?}"
    );
    let resource = [
        "resource",
        "add",
        "fs-directory",
        "local/x",
        "--path",
        ".",
        "-v",
        "--log-format",
        "json",
    ];
    let resource = agents.run(&resource);
    assert!(
        resource.err.contains("\"message\":\"command "),
        "{resource:?}"
    );
}

#[test]
fn a_malformed_filter_is_refused_with_a_hint() {
    for wrong in ["cleveragents=loud", "info,="] {
        let agents = agents().with("CLEVERAGENTS_LOG", wrong);
        let refused = agents.run(&["--format", "json", "info"]);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        let error = &refused.json()["data"]["error"];
        assert_eq!(error["code"], "CA-0111", "{error}");
        let text = error.to_string();
        assert!(
            text.contains("CLEVERAGENTS_LOG") && text.contains("info,cleveragents_store=debug"),
            "{text}"
        );
        // The command line takes precedence over the environment.
        assert_eq!(agents.run(&["-v", "config", "list"]).code, Some(2));
    }
    let refused = agents().run(&["--log-format", "xml", "info"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
}

/// The log of a turn contains usage, but no messages.
#[test]
fn a_log_file_contains_json_lines_without_messages() {
    let agents = agents().with("CLEVERAGENTS_MODEL_DEFAULT", "scripted/look.yaml");
    let script = "answers:\n\
                  - usage: {input_tokens: 11, output_tokens: 7}\n  calls:\n  \
                  - {id: one, name: builtin_S_output-read, arguments: {invocation: 01ARZ3NDEKTSV4RRFFQ69G5FAV}}\n\
                  - text: the-answer\n";
    std::fs::write(agents.cwd().join("look.yaml"), script).expect("a file");
    let session = agents.create_session();
    let log = agents.home().join("agents.log");
    let path = log.to_str().expect("a path");
    let reported = agents.run(&[
        "--log-file",
        path,
        "--log-format",
        "json",
        "--format",
        "json",
        "session",
        "tell",
        "--session",
        &session,
        "the-question",
    ]);
    assert_eq!(
        (reported.code, reported.err.as_str()),
        (Some(0), ""),
        "{reported:?}"
    );
    let text = std::fs::read_to_string(&log).expect("a log");
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let find = |message: &str| -> Vec<&Value> {
        lines
            .iter()
            .filter(|line| line["message"] == message)
            .collect()
    };
    let calls = find("model call finished");
    assert_eq!(calls.len(), 2, "{text}");
    assert_eq!(calls[0]["provider"], "scripted");
    assert_eq!(calls[0]["model"], "look.yaml");
    assert_eq!(calls[0]["session"], session.as_str());
    assert_eq!(
        (&calls[0]["input_tokens"], &calls[0]["attempts"]),
        (&11.into(), &1.into())
    );
    assert!(calls[0]["duration_ms"].is_u64(), "{}", calls[0]);
    let tools = find("tool call failed");
    assert_eq!(tools.len(), 1, "{text}");
    assert_eq!(tools[0]["tool"], "builtin/output-read");
    assert_eq!(find("turn finished").len(), 1, "{text}");
    for hidden in ["the-question", "the-answer"] {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }
}

#[test]
fn a_log_file_that_cannot_be_written_is_an_error() {
    let agents = agents();
    let refused = agents.run(&[
        "--format",
        "json",
        "--log-file",
        "/nowhere/at/all.log",
        "info",
    ]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let hint = refused.json()["data"]["error"]["hint"].clone();
    assert!(
        hint.as_str()
            .is_some_and(|hint| hint.contains("--log-file")),
        "{hint}"
    );
}
