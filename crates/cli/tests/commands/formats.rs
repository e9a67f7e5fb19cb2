//! The six output formats, their selection, and closed pipes.

use std::io::{BufRead as _, BufReader};

use cleveragents_testkit::Agents;
use serde_json::Value;

use super::{agents, assert_shown, transcript, with_weekly};

const FORMATS: [&str; 6] = ["rich", "color", "table", "plain", "json", "yaml"];

#[test]
fn session_list_in_every_format() {
    let agents = with_weekly();
    for format in FORMATS {
        let arguments = ["--format", format, "session", "list"];
        let answer = agents.run(&arguments);
        assert_eq!(answer.code, Some(0), "{answer:?}");
        let text = transcript(&agents, &arguments, &answer);
        assert_shown(&format!("format_{format}"), &text.replace('\u{1b}', "␛"));
    }
}

#[test]
fn the_format_option_works_before_and_after_the_command() {
    let agents = with_weekly();
    let data = |arguments: &[&str]| {
        let answer = agents.run(arguments);
        assert_eq!(answer.code, Some(0), "{answer:?}");
        answer.json()["data"].clone()
    };
    let before = data(&["--format", "json", "session", "list"]);
    for arguments in [
        ["session", "--format", "json", "list"].as_slice(),
        &["session", "list", "--format", "json"],
        &["session", "list", "--format=json"],
        &["-f", "json", "session", "list"],
        &["session", "list", "-fjson"],
    ] {
        assert_eq!(data(arguments), before, "{arguments:?}");
    }
}

/// Detects the format of the command's output.
fn format_of(agents: &Agents, arguments: &[&str]) -> &'static str {
    let answer = agents.run(arguments);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    if serde_json::from_str::<Value>(&answer.out).is_ok() {
        "json"
    } else if answer.out.starts_with("command: ") {
        "yaml"
    } else if answer.out.contains('╭') {
        "rich"
    } else {
        "plain"
    }
}

#[test]
fn flag_beats_environment_beats_configuration() {
    let agents = agents();
    let list = ["session", "list"];
    assert_eq!(format_of(&agents, &list), "plain", "not a terminal");
    agents.run(&["config", "set", "core.format", "json"]);
    assert_eq!(format_of(&agents, &list), "json");
    let agents = agents.with("CLEVERAGENTS_FORMAT", "yaml");
    assert_eq!(format_of(&agents, &list), "yaml");
    assert_eq!(
        format_of(&agents, &["session", "list", "--format", "rich"]),
        "rich"
    );
    // Errors are printed in the selected format too.
    let answer = agents.run(&["session", "show", "nothing"]);
    assert!(answer.out.starts_with("command: "), "{answer:?}");
}

#[test]
fn colour_is_only_used_where_requested() {
    let agents = with_weekly();
    let coloured = |agents: &Agents, format: &str| {
        let answer = agents.run(&["--format", format, "session", "list"]);
        let failure = agents.run(&["--format", format, "session", "show", "nothing"]);
        [answer.out, failure.err].map(|text| text.contains('\u{1b}'))
    };
    for format in FORMATS {
        let expected = format == "color";
        assert_eq!(coloured(&agents, format), [expected; 2], "{format}");
    }
    let agents = agents.with("NO_COLOR", "1");
    for format in FORMATS {
        assert_eq!(
            coloured(&agents, format),
            [false; 2],
            "{format} with NO_COLOR"
        );
    }
}

#[test]
fn text_cannot_imitate_output_of_the_program() {
    let agents = with_weekly();
    agents.data(&["session", "append", "weekly", "\u{1b}[31mred\u{7}\u{9b}1m"]);
    for format in FORMATS {
        let answer = agents.run(&["--format", format, "session", "messages", "weekly"]);
        let forbidden = if format == "color" {
            "\u{1b}[31mred"
        } else {
            "\u{1b}"
        };
        assert!(!answer.out.contains(forbidden), "{format}: {answer:?}");
        assert!(
            !answer.out.contains(['\u{7}', '\u{9b}']),
            "{format}: {answer:?}"
        );
    }
    // The stored text is unchanged.
    let stored = agents.contents("weekly").pop();
    assert_eq!(stored.as_deref(), Some("\u{1b}[31mred\u{7}\u{9b}1m"));
}

/// A session whose messages exceed the pipe buffer.
fn with_long_session() -> Agents {
    let agents = with_weekly();
    let lines: String = (0..300)
        .map(|index| {
            serde_json::json!({"content": format!("{index} {}", "x".repeat(1_000))}).to_string()
                + "\n"
        })
        .collect();
    let answer = agents.run_with(
        &["session", "append", "weekly", "--jsonl", "-"],
        lines.as_bytes(),
    );
    assert_eq!(answer.code, Some(0), "{answer:?}");
    agents
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let agents = with_long_session();
    for arguments in [
        ["session", "messages", "weekly"].as_slice(),
        &["--format", "json", "session", "messages", "weekly"],
        &["--format", "rich", "session", "messages", "weekly"],
        &["session", "export", "weekly"],
        &["session", "export", "weekly", "--as", "markdown"],
        &["session", "show", "weekly", "--recent", "300"],
    ] {
        let mut child = agents
            .command(arguments)
            .spawn()
            .expect("the program starts");
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        out.read_line(&mut line).expect("a line");
        drop(out);
        assert!(!line.is_empty());
        let output = child.wait_with_output().expect("the program ends");
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            (output.status.code(), err.as_ref()),
            (Some(0), ""),
            "{arguments:?}"
        );
    }
}

#[test]
fn a_full_standard_output_is_an_error() {
    let agents = with_long_session();
    let Ok(full) = std::fs::File::options().write(true).open("/dev/full") else {
        cleveragents_testkit::not_run("output to a full device", "there is no /dev/full");
        return;
    };
    for arguments in [
        ["session", "list"].as_slice(),
        &["--format", "json", "session", "messages", "weekly"],
        &["session", "export", "weekly"],
        &["completion", "bash"],
    ] {
        let output = agents
            .command(arguments)
            .stdout(full.try_clone().expect("a file"))
            .output()
            .expect("the program starts");
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {err}");
        assert!(err.contains("error[CA-0105]"), "{arguments:?}: {err}");
    }
}

/// Names of the first column of a list, from its data.
fn names(agents: &Agents, list: &[&str], pointer: &str) -> Vec<String> {
    let data = agents.run(&[list, &["-f", "json"]].concat()).json();
    let rows = data.pointer(pointer).and_then(Value::as_array);
    let name = |row: &Value| row["name"].as_str().map(str::to_owned);
    rows.expect("rows").iter().filter_map(name).collect()
}

#[test]
fn lists_fit_eighty_columns_and_break_no_name() {
    let agents = with_weekly().with("COLUMNS", "80");
    let folder = agents
        .cwd()
        .join("a-folder-with-a-name-of-some-length/projects/customers");
    std::fs::create_dir_all(&folder).expect("made");
    let folder = folder.to_str().expect("UTF-8");
    for arguments in [
        [
            "sandbox",
            "create",
            "fix-the-shopping-basket",
            "--path",
            folder,
        ]
        .as_slice(),
        &[
            "resource",
            "add",
            "fs-directory",
            "local/customers-folder",
            "--path",
            folder,
        ],
    ] {
        let answer = agents.run(arguments);
        assert_eq!(answer.code, Some(0), "{answer:?}");
    }
    for (list, pointer) in [
        (["sandbox", "list"].as_slice(), "/data/sandboxes"),
        (&["session", "list"], "/data/sessions"),
        (&["resource", "list"], "/data/resources"),
        (&["resource", "type", "list"], "/data/resource_types"),
        (&["tool", "list"], "/data/tools"),
        (&["model", "list"], "/data/models"),
        (&["automation-profile", "list"], "/data/automation_profiles"),
        (&["doctor"], "/data/checks"),
    ] {
        let names = names(&agents, list, pointer);
        assert!(!names.is_empty(), "{list:?}");
        for format in ["rich", "table"] {
            let shown = agents.run(&[list, &["-f", format]].concat()).out;
            // The format `table` wraps only at a terminal.
            let is_wrapped = format == "rich";
            for line in shown.lines().filter(|_| is_wrapped) {
                assert!(line.chars().count() <= 80, "{line}\n{shown}");
            }
            for name in &names {
                assert!(shown.contains(name.as_str()), "{name} of {list:?}\n{shown}");
            }
        }
    }
}

#[test]
fn long_reports_use_the_pager_only_at_a_terminal() {
    let agents = agents();
    let paged = agents.cwd().join("paged");
    let agents = agents.with("PAGER", "cat > paged; echo was paged");
    let all = ["help", "--all"];
    let read = || std::fs::read_to_string(&paged).unwrap_or_default();

    let (code, shown) = agents.play(&[("was paged", "")], &all);
    assert_eq!(code, Some(0), "{shown}");
    assert!(read().contains("plan apply"), "{shown}");
    assert!(!shown.contains("plan apply"), "{shown}");
    std::fs::remove_file(&paged).expect("removed");

    let (code, shown) = agents.play(&[("plan apply", "")], &["--no-pager", "help", "--all"]);
    assert_eq!((code, read().as_str()), (Some(0), ""), "{shown}");
    let answer = agents.run(&all);
    assert!(answer.out.contains("plan apply"), "{answer:?}");
    assert_eq!(read(), "", "not in a pipe");
    let set = agents.run(&["config", "set", "ui.pager", "never"]);
    assert_eq!(set.code, Some(0), "{set:?}");
    let (code, shown) = agents.play(&[("plan apply", "")], &all);
    assert_eq!((code, read().as_str()), (Some(0), ""), "{shown}");
}

#[test]
fn times_are_local_for_users_and_utc_for_programs() {
    let agents = with_weekly().with("TZ", "XYZ-12");
    let data = agents.run(&["session", "list", "-f", "json"]).json();
    let updated = data["data"]["sessions"][0]["updated"]
        .as_str()
        .expect("a time");
    assert!(updated.ends_with('Z'), "{updated}");
    let shown = agents.run(&["session", "list"]).out;
    let hour: u32 = updated[11..13].parse().expect("an hour");
    let local = format!(" {:02}:{}", (hour + 12) % 24, &updated[14..19]);
    assert!(shown.contains(&local), "{local} in {shown}");
}
