//! Databases that cannot be sandboxed, servers that do not respond, and passwords that must not be
//! shown.

use std::path::Path;

use cleveragents_testkit::{Agents, TestDatabase};

use super::world::{PASSWORD, World, assert_no_password, with_password};

#[test]
fn the_programs_own_database_is_refused_under_any_name() {
    let Some(store) = TestDatabase::postgres() else {
        return;
    };
    let agents = Agents::new(env!("CARGO_BIN_EXE_agents")).on(&store.url);
    let spellings = [
        store.url.clone(),
        with_password(&store.url),
        store.url.replace("127.0.0.1", "localhost"),
        format!("{}?application_name=other", store.url),
    ];
    for (number, url) in spellings.iter().enumerate() {
        let name = format!("own-{number}");
        agents.data(&["resource", "add", "postgres", &name, "--url", url]);
        let answer = agents.run(&[
            "-f",
            "json",
            "sandbox",
            "create",
            "fix",
            "--resource",
            &name,
        ]);
        assert_eq!(answer.code, Some(1), "{answer:?}");
        assert_eq!(
            answer.json()["data"]["error"]["code"],
            "CA-0646",
            "{answer:?}"
        );
        assert_no_password(&answer);
    }
    let listed = agents.data(&["sandbox", "list", "--all"]);
    let active = listed["sandboxes"].as_array().expect("a list");
    assert!(
        active.iter().all(|sandbox| sandbox["state"] == "discarded"),
        "{listed}"
    );
}

#[test]
fn a_database_next_to_the_programs_own_works() {
    let (Some(store), Some(other)) = (TestDatabase::postgres(), TestDatabase::postgres()) else {
        return;
    };
    let agents = Agents::new(env!("CARGO_BIN_EXE_agents")).on(&store.url);
    agents.data(&["resource", "add", "postgres", "shop", "--url", &other.url]);
    agents.data(&["sandbox", "create", "fix", "--resource", "shop"]);
    agents.data(&[
        "sandbox",
        "query",
        "fix",
        "--record",
        "CREATE TABLE made ()",
    ]);
    agents.data(&["sandbox", "apply", "fix"]);
    assert_eq!(other.count("SELECT count(*) FROM made"), 0);
}

#[test]
fn the_error_for_an_unreachable_server_has_a_hint() {
    let agents = Agents::new(env!("CARGO_BIN_EXE_agents"));
    let add = ["resource", "add", "postgres", "gone", "--url"];
    let mysql = format!("mysql://me:{PASSWORD}@127.0.0.1/nothing");
    let unreachable = format!("postgres://me:{PASSWORD}@127.0.0.1:1/nothing");
    let refused = agents.run(&[&add[..], &[&mysql]].concat());
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert_no_password(&refused);
    agents.data(&[&add[..], &[&unreachable]].concat());
    for format in ["json", "plain"] {
        let answer = agents.run(&[
            "-f",
            format,
            "sandbox",
            "create",
            "fix",
            "--resource",
            "gone",
        ]);
        assert_eq!(answer.code, Some(1), "{answer:?}");
        assert_no_password(&answer);
        let output = format!("{}{}", answer.out, answer.err);
        assert!(
            output.contains("CA-0658") && output.contains("agents resource show"),
            "{answer:?}"
        );
    }
    let listed = agents.data(&["sandbox", "list"]);
    assert_eq!(
        listed["sandboxes"].as_array().map(Vec::len),
        Some(0),
        "no sandbox is left behind"
    );
}

#[test]
fn the_password_is_stored_only_in_the_resource() {
    let Some(world) = World::with_sandbox() else {
        return;
    };
    world.write("INSERT INTO t VALUES (2, 'new');");
    let commands: [&[&str]; 11] = [
        &["sandbox", "show", "fix"],
        &["sandbox", "list"],
        &["sandbox", "query", "fix", "SELECT 1"],
        &["sandbox", "query", "fix", "SELECT nothing"],
        &["sandbox", "query", "fix", "COMMIT"],
        &[
            "sandbox",
            "query",
            "fix",
            "--record",
            "DELETE FROM t WHERE id = 7",
        ],
        &["sandbox", "diff", "fix"],
        &["sandbox", "apply", "fix", "--dry-run"],
        &["resource", "show", "shop"],
        &["resource", "inspect", "shop"],
        &["resource", "list"],
    ];
    for format in ["json", "plain"] {
        for arguments in commands {
            let answer = world.agents.run(&[&["-f", format], arguments].concat());
            assert_no_password(&answer);
        }
    }
    // Neither the journal of an apply that was killed with an open transaction nor another file
    // contains the password.
    let mut command = world.agents.command(["sandbox", "apply", "fix"]);
    let killed = command
        .env("CLEVERAGENTS_DIE_AT_STEP", "5")
        .output()
        .expect("the program starts");
    assert_eq!(killed.status.code(), None, "the program is killed");
    let journals = files_without_password(&world.agents.home().join("sandboxes"));
    assert!(
        journals.iter().any(|name| name.ends_with("apply.json")),
        "{journals:?}"
    );
    // In the database the password is only in the row of the resource.
    let rows = TestDatabase::read_file(
        &world.agents.database(),
        &format!("SELECT count(*) FROM events WHERE payload LIKE '%{PASSWORD}%'
            UNION ALL SELECT count(*) FROM sandboxes WHERE result LIKE '%{PASSWORD}%' OR origin LIKE '%{PASSWORD}%'
            UNION ALL SELECT count(*) FROM sandbox_members WHERE location LIKE '%{PASSWORD}%' OR base LIKE '%{PASSWORD}%'"),
    );
    assert!(rows.iter().all(|row| row[0] == "0"), "{rows:?}");
    world.agents.data(&["sandbox", "list"]);
    let answer = world.agents.run(&["sandbox", "apply", "fix"]);
    assert_no_password(&answer);
    assert_eq!(answer.code, Some(0), "{answer:?}");
}

/// Paths of all files below a folder. Asserts that none contains the password.
fn files_without_password(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            names.extend(files_without_password(&path));
        } else {
            let content = std::fs::read(&path).expect("a file");
            let has_password = content
                .windows(PASSWORD.len())
                .any(|part| part == PASSWORD.as_bytes());
            assert!(!has_password, "{} contains the password", path.display());
            names.push(path.display().to_string());
        }
    }
    names
}
