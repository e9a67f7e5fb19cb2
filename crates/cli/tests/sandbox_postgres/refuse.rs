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
fn a_server_that_does_not_answer_is_named_with_what_to_do() {
    let agents = Agents::new(env!("CARGO_BIN_EXE_agents"));
    let add = ["resource", "add", "postgres", "gone", "--url"];
    let of_another = format!("mysql://me:{PASSWORD}@127.0.0.1/nothing");
    let gone = format!("postgres://me:{PASSWORD}@127.0.0.1:1/nothing");
    let refused = agents.run(&[&add[..], &[&of_another]].concat());
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert_no_password(&refused);
    agents.data(&[&add[..], &[&gone]].concat());
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
        let whole = format!("{}{}", answer.out, answer.err);
        assert!(
            whole.contains("CA-0658") && whole.contains("agents resource show"),
            "{answer:?}"
        );
    }
    let listed = agents.data(&["sandbox", "list"]);
    assert_eq!(
        listed["sandboxes"].as_array().map(Vec::len),
        Some(0),
        "nothing is left"
    );
}

#[test]
fn the_password_is_nowhere_but_in_the_resource() {
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
    // The journal of an apply that was killed with an open transaction, and all other files.
    let mut command = world.agents.command(["sandbox", "apply", "fix"]);
    let killed = command
        .env("CLEVERAGENTS_DIE_AT_STEP", "5")
        .output()
        .expect("it starts");
    assert_eq!(killed.status.code(), None, "it dies");
    let journals = look(&world.agents.home().join("sandboxes"));
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

/// Every file below a folder; none may contain the password.
fn look(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            names.extend(look(&path));
        } else {
            let content = std::fs::read(&path).expect("a file");
            let found = content
                .windows(PASSWORD.len())
                .any(|part| part == PASSWORD.as_bytes());
            assert!(!found, "{} holds the password", path.display());
            names.push(path.display().to_string());
        }
    }
    names
}
