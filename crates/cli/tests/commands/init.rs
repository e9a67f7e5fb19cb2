//! `init`: creates the home folder and never deletes files.

use cleveragents_testkit::Agents;

use super::{agents, assert_shown, files, shown, weekly, with_weekly};

fn no_setup(_: &Agents) {}

#[test]
fn init() {
    assert_shown("init", &shown(no_setup, &["init"]));
    assert_shown(
        "init_again",
        &shown(|agents| drop(agents.data(&["init"])), &["init"]),
    );
    let arguments = ["init", "--force", "--yes"];
    assert_shown("init_force", &shown(weekly, &arguments));
}

#[test]
fn a_second_init_changes_nothing() {
    let agents = with_weekly();
    agents.data(&["init"]);
    agents.data(&["config", "set", "store.connections", "3"]);
    let before = files(agents.home());
    agents.data(&["init"]);
    assert!(files(agents.home()) == before, "no file changed");
}

#[test]
fn a_new_home_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let agents = agents();
    agents.data(&["init"]);
    let mode = |path: &std::path::Path| {
        let metadata = std::fs::metadata(path).expect("the path exists");
        metadata.permissions().mode() & 0o777
    };
    assert_eq!(mode(agents.home()), 0o700);
    assert_eq!(mode(&agents.database()), 0o600);
    assert_eq!(mode(&agents.config_file()), 0o600);
}

/// The template describes every key and sets none.
#[test]
fn the_first_configuration_file_can_be_read() {
    let agents = agents();
    agents.data(&["init"]);
    let text = std::fs::read_to_string(agents.config_file()).expect("a file");
    let listed = agents.data(&["config", "list"]);
    for key in listed["keys"].as_array().expect("a list") {
        let name = key["key"].as_str().expect("a name");
        let (_, key_name) = name.split_once('.').expect("a table and a key");
        assert!(
            text.contains(&format!("# {key_name} = ")),
            "{name} is in {text}"
        );
        assert_ne!(key["level"], "global", "{name} is not set");
    }
}

#[test]
fn reset_needs_confirmation() {
    let agents = with_weekly();
    agents.data(&["config", "set", "store.connections", "3"]);
    let before = files(agents.home());
    let answer = agents.run_with(&["--format", "json", "init", "--force"], b"y\n");
    assert_eq!(answer.code, Some(5), "{answer:?}");
    assert_eq!(answer.json()["data"]["error"]["code"], "CA-0106");
    assert!(files(agents.home()) == before, "no file changed");
}

#[test]
fn reset_moves_everything_to_a_backup() {
    let agents = with_weekly();
    agents.data(&["config", "set", "store.connections", "3"]);
    let before = files(agents.home());
    let report = agents.data(&["init", "--force", "--yes"]);
    let backup = report["backup"].as_str().expect("a folder");
    assert!(
        std::path::Path::new(backup).starts_with(agents.home().join("backups")),
        "{backup}"
    );
    for name in ["cleveragents.db", "config.toml"] {
        let old = &before[&agents.home().join(name).display().to_string()];
        let saved = std::fs::read(std::path::Path::new(backup).join(name)).expect("a backup file");
        assert!(saved == *old, "{name} has the same bytes");
    }
    assert_eq!(
        agents.data(&["session", "list"])["sessions"],
        serde_json::json!([])
    );
    assert_eq!(
        agents.data(&["config", "get", "store.connections"])["level"],
        "default"
    );
    // The backup is a working database.
    let url = format!("sqlite://{backup}/cleveragents.db");
    let old = agents.data(&["session", "list", "--database-url", &url]);
    assert_eq!(old["sessions"][0]["name"], "weekly");
    // A second reset creates a second backup.
    let again = agents.data(&["init", "--force", "--yes"]);
    assert_ne!(again["backup"], report["backup"]);
    assert!(std::path::Path::new(backup).exists());
}

#[test]
fn reset_of_a_new_home_is_a_plain_init() {
    let agents = agents();
    let report = agents.data(&["init", "--force"]);
    assert_eq!(report["backup"], serde_json::json!(null));
}
