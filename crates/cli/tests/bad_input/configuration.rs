//! Invalid configuration: keys, values, files, variables and the home folder.

use std::path::Path;

use cleveragents_testkit::Agents;
use serde_json::json;

use super::{agents, agents_with_data, contents, files, refuse};

#[test]
fn the_error_for_an_unknown_key_names_the_nearest_key() {
    let agents = agents_with_data();
    agents.data(&["config", "set", "core.format", "plain"]);
    let before = files(agents.home());
    for (wrong, nearest) in [
        ("core.fromat", "core.format"),
        ("format", "core.format"),
        ("session.max_message_bytes", "session.max-message-bytes"),
        ("store.busy-timeout", "store.busy-timeout-seconds"),
        ("CORE.FORMAT", "core.format"),
    ] {
        for arguments in [
            vec!["config", "get", wrong],
            vec!["config", "set", wrong, "1"],
            vec!["config", "unset", wrong],
        ] {
            let error = refuse(&agents, &arguments).with(2, "CA-0110");
            assert_eq!(error["details"]["nearest"], nearest, "{error:#}");
            let hint = error["hint"].as_str().expect("a hint");
            assert!(
                hint.contains(&format!("did you mean `{nearest}`?")),
                "{hint}"
            );
        }
    }
    let error = refuse(&agents, &["config", "get", "zzzzzzzzzz"]).with(2, "CA-0110");
    assert_eq!(error["details"]["nearest"], json!(null));
    refuse(&agents, &["config", "get", ""]).with(2, "CA-0110");
    assert!(files(agents.home()) == before, "no file changed");
}

#[test]
fn an_invalid_value_is_refused() {
    let agents = agents_with_data();
    agents.data(&["config", "set", "store.connections", "3"]);
    let before = files(agents.home());
    for (key, value) in [
        ("core.format", "xml"),
        ("core.format", ""),
        ("core.format", "JSON"),
        ("core.database-url", " "),
        ("core.automation-profile", "a b"),
        ("store.connections", "0"),
        ("store.connections", "65"),
        ("store.connections", "many"),
        ("store.connections", "3.0"),
        ("session.max-message-bytes", "0"),
        ("session.max-message-bytes", "1e6"),
        ("session.max-message-bytes", "99999999999999999999"),
        ("cleanup.events-days", "0"),
        ("store.busy-timeout-seconds", "3601"),
        ("model.default", "gpt"),
        ("model.fallback", "a/b;c/d,"),
        ("model.retries", "21"),
        ("model.idle-timeout-seconds", "0"),
    ] {
        let error = refuse(&agents, &["config", "set", key, value]).with(2, "CA-0111");
        assert_eq!(error["details"]["key"], key);
        assert_eq!(error["details"]["value"], value);
    }
    // A value that starts with a dash is parsed as a flag and refused as well.
    refuse(&agents, &["config", "set", "store.connections", "-1"]).with(2, "CA-0101");
    assert!(files(agents.home()) == before, "no file changed");
}

#[test]
fn the_error_for_an_invalid_variable_names_the_variable() {
    for (name, value) in [
        ("CLEVERAGENTS_STORE_CONNECTIONS", "0"),
        ("CLEVERAGENTS_SESSION_MAX_MESSAGE_BYTES", "big"),
        ("CLEVERAGENTS_CLEANUP_EVENTS_DAYS", "-1"),
    ] {
        let agents = agents().with(name, value);
        let error = refuse(&agents, &["session", "list"]).with(2, "CA-0111");
        assert_eq!(error["details"]["source"], name);
        assert!(error["hint"].as_str().expect("a hint").contains(name));
        // Diagnostics still work and report the invalid value.
        let report = agents.run(&["--format", "json", "diagnostics"]);
        assert_eq!(report.code, Some(1), "{report:?}");
        let detail = report.json()["data"]["checks"][0]["detail"].clone();
        assert!(detail.as_str().expect("text").contains(name), "{report:?}");
    }
    let answer = agents()
        .with("CLEVERAGENTS_FORMAT", "xml")
        .run(&["version"]);
    assert_eq!(answer.code, Some(2), "{answer:?}");
    assert!(answer.err.contains("CLEVERAGENTS_FORMAT"), "{answer:?}");
}

#[test]
fn the_error_for_invalid_toml_has_line_and_column() {
    let agents = agents_with_data();
    let before = contents(&agents);
    let file = agents.config_file();
    for (text, line, column) in [
        ("[core]\nformat = \"plain\n".as_bytes(), 2, None),
        (b"[core]\n\n  format == 1\n", 3, Some(11)),
        (b"[core\n", 1, None),
        (b"# \xff\n", 1, Some(3)),
        (b"[core]\nformat = \"plain\"\nformat = \"json\"\n", 3, None),
    ] {
        std::fs::write(&file, text).expect("a file");
        for arguments in [
            vec!["session", "list"],
            vec!["config", "list"],
            vec!["config", "set", "core.format", "json"],
            vec!["config", "unset", "core.format"],
        ] {
            let error = refuse(&agents, &arguments).with(1, "CA-0112");
            assert_eq!(error["details"]["line"], line, "{error:#}");
            assert_eq!(error["details"]["path"], file.display().to_string());
            if let Some(column) = column {
                assert_eq!(error["details"]["column"], column, "{error:#}");
            }
        }
        assert_eq!(
            std::fs::read(&file).expect("a file"),
            text,
            "the file is unchanged"
        );
        let report = agents.run(&["--format", "json", "diagnostics"]);
        assert_eq!(report.code, Some(1), "{report:?}");
        let check = report.json()["data"]["checks"][0].clone();
        assert_eq!(check["severity"], "error", "{check:#}");
        let position = format!("{}:{line}:", file.display());
        assert!(
            check["detail"].as_str().expect("text").contains(&position),
            "{check:#}"
        );
    }
    std::fs::remove_file(&file).expect("the file can be removed");
    assert_eq!(contents(&agents), before);
}

#[test]
fn the_error_for_a_wrong_key_or_value_names_file_and_line() {
    let agents = agents_with_data();
    let file = agents.config_file();
    for (text, exit, code, line) in [
        ("[core]\nfromat = \"plain\"\n", 2, "CA-0110", 2),
        ("[core]\nformat = \"xml\"\n", 2, "CA-0111", 2),
        ("[core]\nformat = 7\n", 2, "CA-0111", 2),
        ("# note\n[store]\nconnections = \"8\"\n", 2, "CA-0111", 3),
        ("core = 1\n", 2, "CA-0110", 1),
    ] {
        std::fs::write(&file, text).expect("a file");
        let error = refuse(&agents, &["session", "list"]).with(exit, code);
        let source = error["details"]["source"].as_str().expect("a source");
        assert_eq!(source, format!("{}:{line}", file.display()), "{error:#}");
        assert_eq!(agents.run(&["diagnostics"]).code, Some(1));
    }
}

#[test]
fn a_project_cannot_set_user_only_keys() {
    let agents = agents_with_data();
    for key in [
        "core.database-url",
        "store.connections",
        "cleanup.events-days",
    ] {
        let value = if key == "core.database-url" {
            "sqlite:///x"
        } else {
            "3"
        };
        refuse(&agents, &["config", "set", "--project", key, value]).with(2, "CA-0113");
    }
    let file = agents.cwd().join(".cleveragents/config.toml");
    assert!(!file.exists());
    std::fs::create_dir(agents.cwd().join(".cleveragents")).expect("a folder");
    std::fs::write(&file, "[core]\ndatabase-url = \"sqlite:///elsewhere\"\n").expect("a file");
    refuse(&agents, &["session", "list"]).with(2, "CA-0113");
    assert!(!Path::new("/elsewhere").exists());
}

fn in_home(home: impl AsRef<Path>) -> Agents {
    agents().at_home(home.as_ref())
}

#[test]
fn a_home_that_cannot_be_created_is_reported() {
    let file = tempfile_with("precious");
    for home in [
        file.path().to_owned(),
        file.path().join("home"),
        file.path().join("deep/home"),
    ] {
        let agents = in_home(&home);
        for arguments in [
            vec!["session", "create"],
            vec!["session", "list"],
            vec!["init"],
            vec!["config", "set", "core.format", "json"],
        ] {
            let error = refuse(&agents, &arguments).with(1, "CA-0104");
            assert_eq!(error["details"]["path"], home.display().to_string());
            assert!(
                error["hint"]
                    .as_str()
                    .expect("a hint")
                    .contains("CLEVERAGENTS_HOME")
            );
        }
        let report = agents.run(&["--format", "json", "diagnostics"]);
        assert_eq!(report.code, Some(1), "{report:?}");
        let checks = report.json()["data"]["checks"].clone();
        let home_check = checks
            .as_array()
            .expect("a list")
            .iter()
            .find(|check| check["name"] == "home")
            .expect("the home is checked");
        assert_eq!(home_check["severity"], "error", "{home_check:#}");
        // Commands that do not need a home folder still work.
        assert_eq!(agents.run(&["version"]).code, Some(0));
    }
    assert_eq!(std::fs::read(file.path()).expect("a file"), b"precious");
}

#[test]
fn a_missing_home_variable_is_reported() {
    let agents = agents();
    let output = agents
        .command(["--format", "json", "session", "list"])
        .env_remove("HOME")
        .env_remove("CLEVERAGENTS_HOME")
        .output()
        .expect("the program starts");
    let answer = cleveragents_testkit::Answer::from_output(&output);
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert_eq!(answer.json()["data"]["error"]["code"], "CA-0104");
}

struct TemporaryFile {
    path: std::path::PathBuf,
    _home: Agents,
}

impl TemporaryFile {
    fn path(&self) -> &Path {
        &self.path
    }
}

/// A file in the working folder of a separate home.
fn tempfile_with(text: &str) -> TemporaryFile {
    let agents = agents();
    let path = agents.cwd().join("file");
    std::fs::write(&path, text).expect("a file");
    TemporaryFile {
        path,
        _home: agents,
    }
}
