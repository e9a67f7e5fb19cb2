//! Resources, their types and projects.

use cleveragents_testkit::Agents;
use serde_json::{Value, json};

use super::{agents, refuse};

/// A home with folders `a` and `b`, both registered, and a project `p` that links `a`.
fn agents_with_data() -> Agents {
    let agents = agents();
    for name in ["a", "b"] {
        std::fs::create_dir(agents.cwd().join(name)).expect("a folder");
        agents.data(&["resource", "add", "fs-directory", name, "--path", name]);
    }
    agents.data(&["project", "create", "p", "--resource", "a"]);
    agents
}

/// The stored resources, types and projects.
fn stored(agents: &Agents) -> Value {
    json!([
        agents.data(&["resource", "list"]),
        agents.data(&["resource", "type", "list"]),
        agents.data(&["resource", "tree"]),
        agents.data(&["project", "list"]),
        agents.data(&["project", "show", "p"]),
    ])
}

/// Asserts that every command is refused with its exit code and error, and changes nothing.
fn assert_all_refused(table: &[(Vec<&str>, i32, &str)]) {
    let agents = agents_with_data();
    let before = stored(&agents);
    for (arguments, exit, code) in table {
        refuse(&agents, arguments).with(*exit, code);
        assert_eq!(stored(&agents), before, "{arguments:?}");
    }
}

#[test]
fn a_resource_that_cannot_be_registered_is_refused() {
    assert_all_refused(&[
        (vec!["resource", "add"], 2, "CA-0101"),
        (vec!["resource", "add", "fs-directory"], 2, "CA-0101"),
        (vec!["resource", "add", "fs-directory", "x"], 2, "CA-0101"),
        (
            vec!["resource", "add", "fs-directory", "x", "y", "--path", "a"],
            2,
            "CA-0101",
        ),
        (
            vec!["resource", "add", "fs-directory", "x", "--path"],
            2,
            "CA-0101",
        ),
        (
            vec![
                "resource",
                "add",
                "fs-directory",
                "x",
                "--path",
                "a",
                "--format",
                "gold",
            ],
            2,
            "CA-0101",
        ),
        (vec!["resource", "add", "no-such-type", "x"], 3, "CA-0604"),
        (vec!["resource", "add", "", "x"], 3, "CA-0604"),
        (vec!["resource", "add", "git", "x"], 2, "CA-0610"),
        (vec!["resource", "add", "commit", "x"], 2, "CA-0610"),
        (
            vec!["resource", "add", "fs-directory", "a", "--path", "b"],
            4,
            "CA-0603",
        ),
        (
            vec![
                "resource", "add", "fs-mount", "a", "--path", "b", "--update",
            ],
            4,
            "CA-0603",
        ),
        (
            vec!["resource", "add", "fs-directory", "x y", "--path", "a"],
            2,
            "CA-0102",
        ),
        (
            vec!["resource", "add", "fs-directory", "admin/x", "--path", "a"],
            2,
            "CA-0102",
        ),
        (
            vec!["resource", "add", "fs-directory", "x", "--path", "nowhere"],
            3,
            "CA-0612",
        ),
        (
            vec!["resource", "add", "git-checkout", "x", "--path", "a"],
            2,
            "CA-0613",
        ),
        (
            vec!["resource", "add", "sqlite", "x", "--path", "a"],
            2,
            "CA-0613",
        ),
        (
            vec!["resource", "add", "fs-directory", "x", "--path", ""],
            2,
            "CA-0611",
        ),
        (
            vec!["resource", "add", "postgres", "x", "--url", "nowhere"],
            2,
            "CA-0611",
        ),
        (
            vec!["resource", "add", "postgres", "x", "--url", "http://host/a"],
            2,
            "CA-0611",
        ),
        (
            vec![
                "resource",
                "add",
                "postgres",
                "x",
                "--url",
                "postgres://me@host/a?port=many",
            ],
            2,
            "CA-0611",
        ),
    ]);
}

#[test]
fn invalid_resource_commands_are_refused() {
    assert_all_refused(&[
        (vec!["resource", "show", "nobody"], 3, "CA-0601"),
        (
            vec!["resource", "inspect", "'; DROP TABLE resources"],
            3,
            "CA-0601",
        ),
        (vec!["resource", "tree", "nobody"], 3, "CA-0601"),
        (vec!["resource", "tree", "--type", "nobody"], 3, "CA-0604"),
        (vec!["resource", "list", "--type", "nobody"], 3, "CA-0604"),
        (
            vec!["resource", "list", "--project", "nobody"],
            3,
            "CA-0631",
        ),
        (vec!["resource", "remove", "nobody", "--yes"], 3, "CA-0601"),
        (vec!["resource", "remove", "a", "--yes"], 4, "CA-0614"),
        (vec!["resource", "remove", "b"], 5, "CA-0106"),
        (vec!["resource", "link-child", "a", "a"], 4, "CA-0616"),
        (vec!["resource", "link-child", "a", "nobody"], 3, "CA-0601"),
        (vec!["resource", "unlink-child", "a", "b"], 3, "CA-0617"),
        (vec!["resource", "type", "show", "nobody"], 3, "CA-0604"),
        (
            vec!["resource", "type", "remove", "git-checkout", "--yes"],
            4,
            "CA-0609",
        ),
        (
            vec!["resource", "type", "remove", "nobody", "--yes"],
            3,
            "CA-0604",
        ),
        (
            vec!["resource", "type", "add", "--config", "nowhere.yaml"],
            1,
            "CA-0105",
        ),
    ]);
}

#[test]
fn invalid_project_commands_are_refused() {
    assert_all_refused(&[
        (vec!["project", "create", "p"], 4, "CA-0633"),
        (vec!["project", "create", "x y"], 2, "CA-0102"),
        (vec!["project", "create", "root/x"], 2, "CA-0102"),
        (
            vec!["project", "create", "x", "--resource", "nobody"],
            3,
            "CA-0601",
        ),
        (
            vec!["project", "create", "x", "--resource", "a:not ok"],
            2,
            "CA-0637",
        ),
        (
            vec![
                "project",
                "create",
                "x",
                "--resource",
                "a:z",
                "--resource",
                "b:z",
            ],
            4,
            "CA-0634",
        ),
        (
            vec![
                "project",
                "create",
                "x",
                "--resource",
                "a",
                "--resource",
                "local/a",
            ],
            4,
            "CA-0635",
        ),
        (vec!["project", "create", "x", "--tag", ""], 2, "CA-0637"),
        (
            vec!["project", "create", "x", "--invariant", " "],
            2,
            "CA-0637",
        ),
        (
            vec!["project", "create", "x", "--invariant-actor", "a b"],
            2,
            "CA-0102",
        ),
        (
            vec!["project", "create", "x", "--automation-profile", "a b"],
            2,
            "CA-0637",
        ),
        (vec!["project", "show", "nobody"], 3, "CA-0631"),
        (vec!["project", "delete", "nobody", "--yes"], 3, "CA-0631"),
        (vec!["project", "delete", "p"], 5, "CA-0106"),
        (vec!["project", "link-resource", "p", "a"], 4, "CA-0635"),
        (
            vec!["project", "link-resource", "p", "b", "--alias", "a"],
            4,
            "CA-0634",
        ),
        (
            vec!["project", "link-resource", "nobody", "b"],
            3,
            "CA-0631",
        ),
        (vec!["project", "unlink-resource", "p", "b"], 3, "CA-0636"),
        (
            vec!["project", "unlink-resource", "p", "nobody"],
            3,
            "CA-0601",
        ),
    ]);
}

#[test]
fn errors_for_misspelt_flags_and_types_have_suggestions() {
    let agents = agents_with_data();
    let error = refuse(
        &agents,
        &["resource", "add", "fs-directory", "x", "--pth", "a"],
    )
    .with(2, "CA-0101");
    assert!(
        error["hint"].as_str().expect("a hint").contains("--path"),
        "{error:#}"
    );
    let error = refuse(
        &agents,
        &["resource", "add", "fs-diretory", "x", "--path", "a"],
    )
    .with(3, "CA-0604");
    assert_eq!(error["details"]["nearest"], "fs-directory");
    assert!(
        error["hint"]
            .as_str()
            .expect("a hint")
            .contains("fs-directory"),
        "{error:#}"
    );
}

#[test]
fn an_invalid_type_file_is_refused_with_its_position() {
    let agents = agents_with_data();
    let before = stored(&agents);
    for (yaml, code, line) in [
        ("", "CA-0606", None),
        ("- a list\n", "CA-0606", None),
        ("name: x\n  typo: y\n", "CA-0606", Some(2)),
        ("name: x\nhandlr: y\n", "CA-0606", Some(2)),
        (
            "resource_type:\n  name: x\n  sandbox_strategy: magic\n",
            "CA-0606",
            Some(3),
        ),
        (
            "name: x\ndescription: ${NOBODY_SET_THIS}\n",
            "CA-0606",
            Some(2),
        ),
        (
            "name: x\ncli_args: [{name: a, validation_pattern: '('}]\n",
            "CA-0606",
            Some(2),
        ),
        (
            "name: x\ncli_args: [{name: path}, {name: path}]\n",
            "CA-0607",
            None,
        ),
        ("name: x\nkind: virtual\n", "CA-0607", None),
        ("name: x\ninherits: missing\n", "CA-0607", None),
        ("name: git-checkout\n", "CA-0609", None),
        ("name: system/x\n", "CA-0102", None),
    ] {
        let exit = if code == "CA-0609" { 4 } else { 2 };
        let refusal = refuse(&agents, &["resource", "type", "add", "--config", "-"]).reading(yaml);
        let error = refusal.with(exit, code);
        if let Some(line) = line {
            assert_eq!(error["details"]["line"], line, "{yaml}: {error:#}");
            assert!(error["details"]["column"].is_u64(), "{yaml}: {error:#}");
        }
    }
    let file = agents.cwd().join("wrong.yaml");
    std::fs::write(&file, "name: x\nkind: physical\ninherits: x\n").expect("a file");
    let config = file.to_str().expect("text");
    let error =
        refuse(&agents, &["resource", "type", "add", "--config", config]).with(2, "CA-0607");
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains("wrong.yaml"), "{message}");
    assert!(message.contains("inherits from itself"), "{message}");
    refuse(&agents, &["resource", "type", "add", "--config", "-"])
        .reading(b"name: \xff\n")
        .with(2, "CA-0107");
    let long = "#".repeat((1 << 20) + 1);
    refuse(&agents, &["resource", "type", "add", "--config", "-"])
        .reading(&long)
        .with(2, "CA-0606");
    assert_eq!(stored(&agents), before);
}

#[test]
fn errors_for_definitions_in_use_name_the_command_that_frees_them() {
    let agents = agents_with_data();
    agents.data(&["resource", "link-child", "a", "b"]);
    let error = refuse(&agents, &["resource", "remove", "a", "--yes"]).with(4, "CA-0614");
    let hint = error["hint"].as_str().expect("a hint");
    assert!(
        hint.contains("`agents project unlink-resource local/p local/a`"),
        "{hint}"
    );
    assert!(
        hint.contains("`agents resource unlink-child local/a local/b`"),
        "{hint}"
    );
    agents.data(&["project", "unlink-resource", "local/p", "local/a"]);
    agents.data(&["resource", "unlink-child", "local/a", "local/b"]);
    agents.data(&["resource", "remove", "a", "--yes"]);
}
