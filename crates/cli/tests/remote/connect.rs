//! `agents server connect` is atomic, and local data stays local.

use std::os::unix::fs::PermissionsExt as _;

use cleveragents_testkit::TestDatabase;

use crate::{Server, agents, token};

#[test]
fn defect_2166_a_connection_is_stored_atomically() {
    let (host, client) = (agents(), agents());
    let secret = token(&host, "ada", &["acme=editor"]);
    let server = Server::start(&host, &[]);
    let stored_url = || client.data(&["config", "get", "server.url"])["value"].clone();
    let token_file = client.home().join("server-token");

    let refusals: [(&[&str], &str); 4] = [
        (&[&server.url, "--token", "ca_wrong"], "CA-1201"),
        (&[&server.url], "CA-1201"),
        (&["http://127.0.0.1:1", "--token", &secret], "CA-1207"),
        (
            &[&server.url, "--token", &secret, "--namespace", "other"],
            "CA-1202",
        ),
    ];
    for (arguments, code) in refusals {
        let arguments = [&["--format", "json", "server", "connect"], arguments].concat();
        let answer = client.run(&arguments);
        assert_eq!(
            answer.json()["data"]["error"]["code"],
            code,
            "{arguments:?}"
        );
        assert!(
            stored_url().is_null() && !token_file.exists(),
            "{arguments:?}"
        );
        assert!(!answer.out.contains(&secret));
    }

    client.data(&[
        "server",
        "connect",
        &server.url,
        "--token",
        &secret,
        "--namespace",
        "acme",
    ]);
    let mode = token_file.metadata().expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let config = std::fs::read_to_string(client.config_file()).expect("a file");
    assert!(
        !config.contains(&secret),
        "the token is not in the configuration"
    );
    let status = client.data(&["server", "status"]);
    assert_eq!(
        (&status["mode"], &status["identity"]),
        (&"connected".into(), &"ada".into())
    );

    // A failed attempt changes nothing.
    let answer = client.run(&[
        "server",
        "connect",
        "http://127.0.0.1:1",
        "--token",
        "ca_other",
    ]);
    assert_eq!(answer.code, Some(1));
    assert_eq!(stored_url(), server.url.as_str());
    assert_eq!(
        std::fs::read_to_string(&token_file).expect("a file"),
        secret
    );

    client.data(&["server", "disconnect"]);
    assert!(stored_url().is_null() && !token_file.exists());
    assert_eq!(client.data(&["server", "status"])["mode"], "disabled");
}

#[test]
fn local_data_never_leaves_the_machine() {
    let (host, client) = (agents(), agents());
    let secret = token(&host, "ada", &["*=owner"]);
    let server = Server::start(&host, &[]);
    client.data(&[
        "server",
        "connect",
        &server.url,
        "--token",
        &secret,
        "--namespace",
        "acme",
    ]);
    host.data(&["project", "create", "secret"]);
    host.data(&["session", "create", "--name", "secret"]);
    // The client refuses these commands without a request to the server.
    for arguments in [
        &["project", "create", "local/shop"][..],
        &["project", "show", "LOCAL/shop"],
        &["session", "create", "--namespace", "local"],
    ] {
        let answer = client.run(&[&["--format", "json"], arguments].concat());
        assert_eq!(answer.code, Some(2), "{arguments:?}");
        assert_eq!(
            answer.json()["data"]["error"]["code"],
            "CA-1210",
            "{arguments:?}"
        );
    }
    let denied = host.data(&["audit", "list", "--kind", "access_denied"]);
    assert_eq!(denied["summary"]["total"], 0);
    // Even an owner of all namespaces cannot see local data.
    assert_eq!(client.data(&["project", "list"])["summary"]["total"], 0);
    assert_eq!(
        client.data(&["session", "list"])["sessions"]
            .as_array()
            .map(Vec::len),
        Some(0)
    );
    let answer = client.run(&["session", "show", "secret"]);
    assert_eq!(answer.code, Some(3));
    // With --local the same commands use this machine.
    client.data(&["--local", "project", "create", "local/shop"]);
    assert_eq!(
        client.data(&["--local", "project", "list"])["summary"]["total"],
        1
    );
}

/// A connected client never silently runs a command locally that could be meant for the server.
#[test]
fn a_connected_command_line_never_silently_runs_locally() {
    let agents = crate::agents();
    let server = crate::Server::start(&agents, &["--insecure-local"]);
    let client = crate::agents();
    client.data(&["server", "connect", &server.url]);
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().to_str().expect("a path");
    let answer = client.run(&["--format", "json", "do", "tidy up", "--folder", folder]);
    assert_eq!(answer.code, Some(2), "{answer:?}");
    let error = answer.json()["data"]["error"].clone();
    assert_eq!(error["code"], "CA-1210", "{error}");
    assert!(error["hint"].as_str().expect("a hint").contains("--local"));
    for home in [&client, &agents] {
        let plans = home.data(&["--local", "plan", "list"]);
        assert_eq!(plans["plans"].as_array().map(Vec::len), Some(0), "{plans}");
    }
    // Lists work without parameters.
    for line in [
        &["run", "list"][..],
        &["tool", "calls"],
        &["session", "search", "anything"],
    ] {
        client.data(line);
    }
    let listed = client.run(&["--format", "json", "token", "list"]).json();
    let message = listed["messages"].to_string();
    assert!(message.contains(&server.url), "{message}");
    let listed = client.run(&["--format", "json", "--local", "token", "list"]);
    assert!(!listed.out.contains(&server.url), "{}", listed.out);
}

/// Neither the root of the file system nor the program's home can be a task folder, and nothing is
/// stored.
#[test]
fn a_task_for_the_root_or_the_home_is_refused_before_anything_is_stored() {
    let agents = crate::agents().with("ANTHROPIC_API_KEY", "no-key-at-all");
    agents.create_session();
    let home = agents.home().to_str().expect("a path").to_owned();
    for folder in ["/", "/usr/..", &home] {
        let answer = agents.run(&["--format", "json", "do", "tidy up", "--folder", folder]);
        assert_eq!(
            answer.json()["data"]["error"]["code"],
            "CA-0646",
            "{folder}: {answer:?}"
        );
        for table in ["plans", "projects", "resources", "definitions"] {
            let count = format!("SELECT COUNT(*) FROM {table}");
            let rows = TestDatabase::read_file(&agents.database(), &count);
            assert_eq!(rows, [["0"]], "{folder}: {table}");
        }
    }
}

/// A plan for such a folder is also refused if the folder is a resource of a project.
#[test]
fn no_plan_is_stored_for_the_root_of_the_file_system() {
    let agents = crate::agents();
    let action = agents.cwd().join("action.yaml");
    let text =
        "name: local/write\ndescription: write\ndefinition_of_done: \"- write `a` to `x`\"\n";
    std::fs::create_dir_all(agents.cwd()).expect("a folder");
    std::fs::write(&action, text).expect("a file");
    let action = action.to_str().expect("a path");
    agents.data(&[
        "resource",
        "add",
        "fs-directory",
        "local/root",
        "--path",
        "/",
    ]);
    agents.data(&[
        "project",
        "create",
        "local/root",
        "--resource",
        "local/root",
    ]);
    agents.data(&["action", "create", "--config", action]);
    let answer = agents.run(&[
        "--format",
        "json",
        "plan",
        "use",
        "local/write",
        "local/root",
    ]);
    let error = answer.json()["data"]["error"].clone();
    assert_eq!(error["code"], "CA-0646", "{answer:?}");
    let count = "SELECT COUNT(*) FROM plans";
    assert_eq!(TestDatabase::read_file(&agents.database(), count), [["0"]]);
}
