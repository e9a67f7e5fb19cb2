//! `config`: output of each command, precedence of the levels, and concurrent processes.

use cleveragents_testkit::{Agents, Answer, Gate, proof_size};

use super::{agents, assert_shown, shown};

fn no_setup(_: &Agents) {}

fn set_connections(agents: &Agents) {
    agents.data(&["config", "set", "store.connections", "3"]);
}

#[test]
fn config_get() {
    assert_shown(
        "config_get",
        &shown(set_connections, &["config", "get", "store.connections"]),
    );
    let arguments = ["config", "get", "--verbose", "store.connections"];
    assert_shown("config_get_verbose", &shown(set_connections, &arguments));
}

#[test]
fn config_set() {
    let arguments = ["config", "set", "store.connections", "5"];
    assert_shown("config_set", &shown(set_connections, &arguments));
    assert_shown("config_set_on_a_new_home", &shown(no_setup, &arguments));
}

#[test]
fn config_unset() {
    let arguments = ["config", "unset", "store.connections"];
    assert_shown("config_unset", &shown(set_connections, &arguments));
    assert_shown("config_unset_of_nothing", &shown(no_setup, &arguments));
}

#[test]
fn config_list() {
    // The default path of the database varies in length, so the test sets a fixed path.
    let prepare = |agents: &Agents| {
        set_connections(agents);
        let url = "sqlite:///srv/agents.db";
        agents.data(&["config", "set", "core.database-url", url]);
    };
    assert_shown("config_list", &shown(prepare, &["config", "list"]));
}

#[test]
fn a_password_is_never_shown() {
    let agents = agents();
    let url = "postgres://me:hunter2@db.example/agents";
    for arguments in [
        vec!["config", "set", "core.database-url", url],
        vec!["config", "get", "core.database-url"],
        vec!["config", "get", "--verbose", "core.database-url"],
        vec!["config", "list"],
        vec!["info"],
        vec!["config", "unset", "core.database-url"],
    ] {
        for format in ["plain", "json"] {
            let answer = agents.run(&[&["--format", format], arguments.as_slice()].concat());
            assert!(!answer.out.contains("hunter2"), "{arguments:?}: {answer:?}");
            assert!(!answer.err.contains("hunter2"), "{arguments:?}: {answer:?}");
        }
    }
}

#[test]
fn flag_beats_environment_beats_project_beats_home_beats_default() {
    let agents = agents();
    let value = |agents: &Agents| {
        let data = agents.data(&["config", "get", "session.max-message-bytes"]);
        (data["value"].clone(), data["level"].clone())
    };
    assert_eq!(value(&agents), (1_048_576.into(), "default".into()));
    agents.data(&["config", "set", "session.max-message-bytes", "1000"]);
    assert_eq!(value(&agents), (1000.into(), "global".into()));
    agents.data(&[
        "config",
        "set",
        "--project",
        "session.max-message-bytes",
        "2000",
    ]);
    assert_eq!(value(&agents), (2000.into(), "project".into()));
    let agents = agents.with("CLEVERAGENTS_SESSION_MAX_MESSAGE_BYTES", "3000");
    assert_eq!(value(&agents), (3000.into(), "environment".into()));
    let format = agents.data(&["config", "get", "core.format"]);
    assert_eq!(format["level"], "flag", "{format:#}");
}

/// Report 7106: a change read and wrote the whole file, so concurrent changes were lost.
#[test]
fn defect_7106_changes_of_many_processes_are_all_kept() {
    let keys = [
        ("core.format", "plain"),
        ("core.automation-profile", "trusted"),
        ("core.database-url", "sqlite:///tmp/not-used.db"),
        ("session.max-message-bytes", "4096"),
        ("store.busy-timeout-seconds", "12"),
        ("store.connections", "5"),
        ("cleanup.events-days", "7"),
    ];
    for round in 0..proof_size(5, 50) {
        let agents = agents();
        let gate = Gate::default();
        let mut started: Vec<_> = keys
            .iter()
            .map(|(key, value)| agents.behind(&gate, &["config", "set", key, value]))
            .collect();
        // The eighth process sets the same key as the seventh.
        started.push(agents.behind(&gate, &["config", "set", "cleanup.events-days", "7"]));
        gate.open();
        // The file is complete at every moment, so a concurrent reader can parse it.
        let concurrent_read = agents.run(&["config", "list"]);
        assert_eq!(
            concurrent_read.code,
            Some(0),
            "round {round}: {concurrent_read:?}"
        );
        for child in started {
            let answer = Answer::from_output(&child.wait_with_output().expect("the program ends"));
            assert_eq!(answer.code, Some(0), "round {round}: {answer:?}");
        }
        for (key, value) in keys {
            let setting = agents.data(&["config", "get", "--verbose", key]);
            let global = setting["chain"]
                .as_array()
                .expect("levels")
                .iter()
                .find(|step| step["level"] == "global")
                .expect("the global level")["value"]
                .clone();
            let text = global
                .as_str()
                .map_or_else(|| global.to_string(), str::to_owned);
            assert_eq!(text, value, "round {round}: {key} is kept");
        }
    }
}

#[test]
fn comments_and_order_of_the_file_are_kept() {
    let agents = agents();
    std::fs::create_dir(agents.home()).expect("a folder");
    let text = "# mine\n[store]\nconnections = 3 # few\n\n[core]\nformat = \"plain\"\n";
    std::fs::write(agents.config_file(), text).expect("a file");
    agents.data(&["config", "set", "store.connections", "4"]);
    let now = std::fs::read_to_string(agents.config_file()).expect("a file");
    assert_eq!(now, text.replace("= 3 #", "= 4 #"));
    agents.data(&["config", "unset", "store.connections"]);
    let now = std::fs::read_to_string(agents.config_file()).expect("a file");
    assert!(
        now.contains("# mine") && now.contains("format = \"plain\""),
        "{now}"
    );
}
