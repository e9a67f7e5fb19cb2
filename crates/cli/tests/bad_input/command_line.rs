//! The command line itself.

use super::{agents, agents_with_data, contents, files, refuse};

#[test]
fn an_invalid_command_line_is_a_usage_error() {
    let agents = agents();
    for arguments in [
        vec!["sesion"],
        vec!["session", "lst"],
        vec!["session", "list", "--bogus"],
        vec!["session", "list", "--limit", "many"],
        vec!["session", "list", "--limit", "-1"],
        vec!["session", "list", "--sort", "colour"],
        vec!["session", "list", "--since", "yesterday"],
        vec!["session", "list", "extra"],
        vec!["session", "append", "one"],
        vec!["session", "append", "one", "text", "--jsonl", "-"],
        vec![
            "session",
            "append",
            "one",
            "--jsonl",
            "-",
            "--metadata",
            "{}",
        ],
        vec!["session", "messages"],
        vec!["session", "messages", "one", "--after", "x"],
        vec!["session", "search"],
        vec!["config", "set", "core.format"],
        vec!["completion", "cmd"],
        vec!["version", "--format"],
        vec!["session", "list", "--database-url"],
    ] {
        refuse(&agents, &arguments).with(2, "CA-0101");
    }
    assert!(!agents.home().exists(), "nothing was created");
}

#[test]
fn the_error_for_a_misspelt_command_or_flag_suggests_the_nearest() {
    let agents = agents();
    let error = refuse(&agents, &["sesion", "list"]).with(2, "CA-0101");
    assert!(
        error["hint"].as_str().expect("a hint").contains("session"),
        "{error:#}"
    );
    let error = refuse(&agents, &["session", "list", "--limt", "1"]).with(2, "CA-0101");
    assert!(
        error["hint"].as_str().expect("a hint").contains("--limit"),
        "{error:#}"
    );
}

#[test]
fn a_format_that_does_not_exist_is_refused() {
    let agents = agents();
    for arguments in [
        ["--format", "xml", "version"],
        ["version", "--format", "xml"],
        ["version", "-f", "JSON"],
    ] {
        let answer = agents.run(&arguments);
        assert_eq!(answer.code, Some(2), "{answer:?}");
        assert_eq!(answer.out, "");
        assert!(answer.err.starts_with("error[CA-0101]: "), "{answer:?}");
        assert!(
            answer.err.contains("rich, color, table, plain, json, yaml"),
            "{answer:?}"
        );
    }
    // If `--format` is invalid, the environment sets the format of the error.
    let agents = agents.with("CLEVERAGENTS_FORMAT", "json");
    let answer = agents.run(&["version", "--format", "xml"]);
    assert_eq!(answer.code, Some(2));
    assert_eq!(answer.json()["data"]["error"]["code"], "CA-0101");
}

#[test]
fn markdown_is_not_a_report_format() {
    let agents = agents();
    for format in ["markdown", "md"] {
        let answer = agents.run(&["--format", format, "version"]);
        assert_eq!(answer.code, Some(2), "{answer:?}");
        assert!(answer.err.starts_with("error[CA-0101]: "), "{answer:?}");
    }
}

#[test]
fn no_command_at_all_shows_the_help_and_fails() {
    let agents = agents();
    let answer = agents.run(&[]);
    assert_eq!(answer.code, Some(2), "{answer:?}");
    assert!(answer.err.contains("Usage: agents"), "{answer:?}");
    let answer = agents.run(&["session"]);
    assert_eq!(answer.code, Some(2), "{answer:?}");
}

#[test]
fn a_refused_command_line_changes_nothing() {
    let agents = agents_with_data();
    let (before, bytes) = (contents(&agents), files(&agents.cwd()));
    refuse(&agents, &["session", "delete", "one", "--yes", "--bogus"]).with(2, "CA-0101");
    refuse(&agents, &["init", "--force", "--yes", "--bogus"]).with(2, "CA-0101");
    assert_eq!(contents(&agents), before);
    assert!(files(&agents.cwd()) == bytes, "no file changed");
}

/// A control character in an argument must not reach a terminal.
#[test]
fn control_characters_are_made_visible_in_errors() {
    let agents = agents_with_data();
    let answer = agents.run(&["session", "show", "\u{1b}[31mred\u{7}"]);
    assert_eq!(answer.code, Some(3));
    assert!(
        !answer.err.contains(['\u{1b}', '\u{7}']),
        "{:?}",
        answer.err
    );
    let answer = agents.run(&["\u{1b}[31mred"]);
    assert_eq!(answer.code, Some(2));
    assert!(!answer.err.contains('\u{1b}'), "{:?}", answer.err);
}
