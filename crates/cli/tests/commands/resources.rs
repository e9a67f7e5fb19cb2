//! `resource`: output of each command, and concurrent processes.

use std::path::PathBuf;
use std::process::Command;

use cleveragents_testkit::{Agents, Answer, Gate, TestDatabase};

use super::{agents, assert_shown, shown};

fn no_setup(_: &Agents) {}

/// Runs git in a folder below the working folder.
fn git(agents: &Agents, folder: &str, arguments: &[&str]) {
    let output = Command::new("git")
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
        .args(arguments)
        .current_dir(agents.cwd().join(folder))
        .env("GIT_COMMITTER_DATE", "2026-01-31T12:00:00Z")
        .env("GIT_AUTHOR_DATE", "2026-01-31T12:00:00Z")
        .output()
        .expect("git runs");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
}

/// Creates a repository `shop` with a development container, and a folder `docs`.
pub(super) fn files(agents: &Agents) {
    let shop = agents.cwd().join("shop");
    std::fs::create_dir_all(shop.join(".devcontainer")).expect("a folder");
    std::fs::create_dir_all(agents.cwd().join("docs")).expect("a folder");
    let described = "{ // comments are allowed\n  \"name\": \"shop-dev\",\n}";
    std::fs::write(shop.join(".devcontainer/devcontainer.json"), described).expect("a file");
    git(agents, "shop", &["init", "-q", "-b", "main"]);
    git(agents, "shop", &["add", "."]);
    git(agents, "shop", &["commit", "-q", "-m", "first"]);
}

/// Creates the folders of [`files`] and registers them as resources.
pub(super) fn shop(agents: &Agents) {
    files(agents);
    agents.data(&["resource", "add", "git-checkout", "shop", "--path", "shop"]);
    agents.data(&[
        "resource",
        "add",
        "fs-directory",
        "docs",
        "--path",
        "docs",
        "--read-only",
    ]);
}

const DATABASE: &str = "cleveragents:\n  version: \"3.0\"\nresource_type:\n  name: database\n  \
    description: A database of the team\n  cli_args:\n    - name: connection-string\n      required: true\n      \
    description: Where it is\n    - name: pool\n      type: integer\n      default: 5\n      \
    description: How many connections\n  sandbox_strategy: transaction_rollback\n";

fn database_type(agents: &Agents) {
    std::fs::write(agents.cwd().join("database.yaml"), DATABASE).expect("a file");
    agents.data(&["resource", "type", "add", "--config", "database.yaml"]);
}

#[test]
fn resource_add() {
    let arguments = [
        "resource",
        "add",
        "git-checkout",
        "shop",
        "--path",
        "./shop/",
        "--branch",
        "main",
    ];
    assert_shown("resource_add", &shown(files, &arguments));
}

#[test]
fn resource_add_update() {
    let arguments = [
        "resource",
        "add",
        "git-checkout",
        "local/shop",
        "--update",
        "--path",
        "shop",
    ];
    assert_shown("resource_add_update", &shown(shop, &arguments));
}

#[test]
fn resource_add_with_a_broken_container() {
    let broken = |agents: &Agents| {
        files(agents);
        let path = agents.cwd().join("shop/.devcontainer/devcontainer.json");
        std::fs::write(path, "{ \"name\": ").expect("a file");
    };
    let arguments = ["resource", "add", "git-checkout", "shop", "--path", "shop"];
    assert_shown(
        "resource_add_with_a_broken_container",
        &shown(broken, &arguments),
    );
}

#[test]
fn resource_list() {
    assert_shown("resource_list", &shown(shop, &["resource", "list"]));
}

#[test]
fn resource_list_of_nothing() {
    assert_shown(
        "resource_list_of_nothing",
        &shown(no_setup, &["resource", "list"]),
    );
}

#[test]
fn resource_show() {
    let linked = |agents: &Agents| {
        shop(agents);
        agents.data(&["project", "create", "site", "--resource", "shop:code"]);
    };
    assert_shown(
        "resource_show",
        &shown(linked, &["resource", "show", "shop"]),
    );
}

#[test]
fn resource_inspect() {
    let changed = |agents: &Agents| {
        shop(agents);
        std::fs::write(agents.cwd().join("shop/new.txt"), "new").expect("a file");
    };
    assert_shown(
        "resource_inspect",
        &shown(changed, &["resource", "inspect", "shop"]),
    );
}

/// Git filters are commands that a repository configures, and comparing a file could run them.
#[test]
fn inspecting_a_repository_runs_no_filter() {
    let agents = agents();
    shop(&agents);
    let trace = agents.cwd().join("trace");
    let filter = format!("sh -c \"touch '{}'; cat\"", trace.display());
    let shop = agents.cwd().join("shop");
    std::fs::write(shop.join(".gitattributes"), "* filter=tracing\n").expect("a file");
    std::fs::write(shop.join("file.txt"), "first\n").expect("a file");
    git(&agents, "shop", &["add", "-A"]);
    git(&agents, "shop", &["commit", "--quiet", "-m", "filtered"]);
    std::fs::write(shop.join("file.txt"), "later\n").expect("a file");
    git(
        &agents,
        "shop",
        &["config", "filter.tracing.clean", &filter],
    );
    let data = agents.data(&["resource", "inspect", "shop"]);
    assert_eq!(data["git"]["dirty"], 1);
    assert!(!trace.exists(), "the filter ran");
    agents.data(&[
        "resource",
        "add",
        "git-checkout",
        "shop",
        "--path",
        "shop",
        "--update",
    ]);
    agents.data(&["sandbox", "create", "fix", "--path", "shop"]);
    assert!(!trace.exists(), "the filter ran");
}

#[test]
fn resource_tree() {
    let linked = |agents: &Agents| {
        shop(agents);
        agents.data(&["resource", "link-child", "shop", "docs"]);
    };
    assert_shown("resource_tree", &shown(linked, &["resource", "tree"]));
    let filtered = ["resource", "tree", "shop", "--type", "container-instance"];
    assert_shown("resource_tree_of_a_type", &shown(linked, &filtered));
}

#[test]
fn resource_links() {
    assert_shown(
        "resource_link_child",
        &shown(shop, &["resource", "link-child", "shop", "docs"]),
    );
    let linked = |agents: &Agents| {
        shop(agents);
        agents.data(&["resource", "link-child", "shop", "docs"]);
    };
    assert_shown(
        "resource_unlink_child",
        &shown(linked, &["resource", "unlink-child", "shop", "docs"]),
    );
}

#[test]
fn resource_remove() {
    assert_shown(
        "resource_remove",
        &shown(shop, &["resource", "remove", "shop", "--yes"]),
    );
}

#[test]
fn resource_types() {
    let file = |agents: &Agents| {
        std::fs::write(agents.cwd().join("database.yaml"), DATABASE).expect("a file");
    };
    let add = ["resource", "type", "add", "--config", "database.yaml"];
    assert_shown("resource_type_add", &shown(file, &add));
    let show = ["resource", "type", "show", "git-checkout"];
    assert_shown("resource_type_show", &shown(no_setup, &show));
    let remove = ["resource", "type", "remove", "database", "--yes"];
    assert_shown("resource_type_remove", &shown(database_type, &remove));
}

#[test]
fn resource_type_list_names_every_type() {
    let agents = agents();
    database_type(&agents);
    let data = agents.data(&["resource", "type", "list"]);
    let listed = data["resource_types"].as_array().expect("a list");
    assert_eq!(data["summary"]["total"], listed.len());
    let custom: Vec<_> = listed
        .iter()
        .filter(|listed| listed["source"] == "custom")
        .collect();
    assert_eq!(custom.len(), 1);
    assert_eq!(custom[0]["name"], "local/database");
    assert!(
        listed
            .iter()
            .any(|listed| listed["inherits"] == "container-instance")
    );
}

#[test]
fn a_type_declares_its_flags() {
    let agents = agents();
    database_type(&agents);
    let help = agents.run(&["resource", "add", "database", "--help"]);
    assert_eq!((help.code, help.err.as_str()), (Some(0), ""), "{help:?}");
    assert_shown("resource_add_help", &help.out);
    let help_after_name = agents.run(&["resource", "add", "database", "x", "--help"]);
    assert_eq!(help_after_name.out, help.out);
    let created = agents.data(&[
        "resource",
        "add",
        "database",
        "--connection-string",
        "db:1",
        "--pool=-2",
        "orders",
    ]);
    assert_eq!(created["resource"]["properties"]["pool"], -2);
    let created = agents.data(&[
        "resource",
        "add",
        "database",
        "other",
        "--connection-string",
        "db:1",
    ]);
    assert_eq!(created["resource"]["properties"]["pool"], 5);
}

#[test]
fn global_options_may_follow_the_flags_of_a_type() {
    let agents = agents();
    files(&agents);
    for (index, option) in [
        &["--format", "json"][..],
        &["--format=json"],
        &["-f", "json"],
        &["-fjson"],
    ]
    .iter()
    .enumerate()
    {
        let name = format!("docs-{index}");
        let arguments = [
            &["resource", "add", "fs-directory", &name, "--path", "docs"],
            *option,
        ]
        .concat();
        assert_eq!(
            agents.run(&arguments).json()["data"]["resource"]["name"],
            format!("local/{name}")
        );
    }
    let elsewhere = [
        "resource",
        "add",
        "fs-directory",
        "far",
        "--path",
        "docs",
        "--database-url",
        "sqlite:other.db",
    ];
    assert_eq!(agents.run(&elsewhere).code, Some(0));
    assert!(agents.cwd().join("other.db").exists());
}

#[test]
fn passwords_are_never_shown() {
    let agents = agents();
    let add = [
        "resource",
        "add",
        "postgres",
        "orders",
        "--url",
        "postgres://ada:secret@host/orders?password=secret",
    ];
    let commands = [
        add.as_slice(),
        &["resource", "show", "orders"],
        &["resource", "list"],
        &["resource", "inspect", "orders"],
        &["resource", "tree"],
        &["project", "create", "p", "--resource", "orders"],
        &["project", "show", "p"],
    ];
    for arguments in commands {
        for format in ["json", "plain"] {
            let answer = agents.run(&[&["--format", format], arguments].concat());
            assert!(
                !answer.out.contains("secret") && !answer.err.contains("secret"),
                "{answer:?}"
            );
        }
    }
    assert_eq!(agents.run(&["resource", "show", "orders"]).code, Some(0));
    let wrong = [
        "resource",
        "add",
        "postgres",
        "x",
        "--url",
        "postgres:/ada:secret@host",
    ];
    let answer = agents.run(&wrong);
    assert_eq!(answer.code, Some(2), "{answer:?}");
    assert!(!answer.err.contains("secret"), "{answer:?}");
}

/// A home with SQLite and, if a server is available, a home with PostgreSQL.
fn homes() -> Vec<(Option<TestDatabase>, Agents)> {
    let server = TestDatabase::postgres().map(|database| {
        let agents = agents().on(&database.url);
        (Some(database), agents)
    });
    std::iter::once((None, agents())).chain(server).collect()
}

fn race(agents: &Agents, commands: &[Vec<&str>]) -> Vec<Answer> {
    let gate = Gate::default();
    let started: Vec<_> = commands
        .iter()
        .map(|arguments| {
            agents.behind(
                &gate,
                &[&["--format", "json"], arguments.as_slice()].concat(),
            )
        })
        .collect();
    gate.open();
    started
        .into_iter()
        .map(|child| Answer::from_output(&child.wait_with_output().expect("the program ends")))
        .collect()
}

#[test]
fn one_of_many_concurrent_registrations_of_a_name_succeeds() {
    for (_database, agents) in homes() {
        files(&agents);
        let command = vec!["resource", "add", "git-checkout", "shop", "--path", "shop"];
        let answers = race(&agents, &vec![command; 6]);
        let mut codes: Vec<_> = answers.iter().map(|answer| answer.code).collect();
        codes.sort_unstable();
        assert_eq!(
            codes,
            [Some(0), Some(4), Some(4), Some(4), Some(4), Some(4)],
            "{answers:?}"
        );
        for refused in answers.iter().filter(|answer| answer.code == Some(4)) {
            assert_eq!(
                refused.json()["data"]["error"]["code"],
                "CA-0603",
                "{refused:?}"
            );
        }
        let listed = agents.data(&["resource", "list"]);
        assert_eq!(listed["summary"]["total"], 4, "{listed:#}");
        agents.assert_sound();
    }
}

#[test]
fn concurrent_links_never_create_a_cycle() {
    for (_database, agents) in homes() {
        for name in ["a", "b"] {
            std::fs::create_dir(agents.cwd().join(name)).expect("a folder");
            agents.data(&["resource", "add", "fs-directory", name, "--path", name]);
        }
        for _ in 0..3 {
            let answers = race(
                &agents,
                &[
                    vec!["resource", "link-child", "a", "b"],
                    vec!["resource", "link-child", "b", "a"],
                ],
            );
            let codes = (answers[0].code, answers[1].code);
            let linked = match codes {
                (Some(0), Some(4)) => ["a", "b"],
                (Some(4), Some(0)) => ["b", "a"],
                _ => panic!("{answers:?}"),
            };
            agents.data(&["resource", "unlink-child", linked[0], linked[1]]);
        }
    }
}

#[test]
fn a_relative_path_starts_at_the_working_folder() {
    let agents = agents();
    files(&agents);
    let created = agents.data(&[
        "resource",
        "add",
        "fs-directory",
        "docs",
        "--path",
        "shop/../docs",
    ]);
    let expected: PathBuf = std::fs::canonicalize(agents.cwd().join("docs")).expect("a path");
    assert_eq!(created["resource"]["location"].as_str(), expected.to_str());
}
