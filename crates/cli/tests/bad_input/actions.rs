//! Actions and invariants: commands and files that are refused, with nothing changed.

use cleveragents_testkit::Agents;
use serde_json::{Value, json};

use super::{agents, refuse};

fn agents_with_data() -> Agents {
    let agents = agents();
    for (name, text) in [
        (
            "good.yaml",
            "name: good\ndescription: d\ndefinition_of_done: d\n",
        ),
        (
            "place.yaml",
            "name: a\ndescription: fix {modul}\ndefinition_of_done: d\narguments: [{name: module}]\n",
        ),
        ("empty.yaml", ""),
        (
            "blank.yaml",
            "name: a\ndescription: ' '\ndefinition_of_done: d\n",
        ),
        (
            "unset.yaml",
            "name: a\ndescription: ${NO_SUCH_VARIABLE}\ndefinition_of_done: d\n",
        ),
        (
            "schema.yaml",
            "name: a\ndescription: d\ndefinition_of_done: d\ninputs_schema: {}\n",
        ),
    ] {
        std::fs::write(agents.cwd().join(name), text).expect("written");
    }
    agents.data(&["action", "create", "--config", "good.yaml"]);
    agents.data(&["project", "create", "local/shop"]);
    agents.data(&["invariant", "add", "--global", "Never push"]);
    agents
}

fn stored(agents: &Agents) -> Value {
    json!([
        agents.data(&["action", "list"]),
        agents.data(&["action", "show", "good"]),
        agents.data(&["invariant", "list"]),
    ])
}

#[test]
fn invalid_commands_are_refused() {
    let agents = agents_with_data();
    let before = stored(&agents);
    let cases: &[(&[&str], i32, &str)] = &[
        (&["action", "create"], 2, "CA-0101"),
        (&["action", "create", "--config", "none.yaml"], 1, "CA-0105"),
        (&["action", "create", "--config", "good.yaml"], 4, "CA-1102"),
        (
            &["action", "create", "--config", "empty.yaml"],
            2,
            "CA-1103",
        ),
        (
            &["action", "create", "--config", "blank.yaml"],
            2,
            "CA-1104",
        ),
        (
            &["action", "create", "--config", "unset.yaml"],
            2,
            "CA-1103",
        ),
        (
            &["action", "create", "--config", "schema.yaml"],
            2,
            "CA-1103",
        ),
        (&["action", "list", "("], 2, "CA-0101"),
        (&["action", "list", "--state", "draft"], 2, "CA-0101"),
        (&["action", "show", "goood"], 3, "CA-1101"),
        (&["action", "show", ""], 3, "CA-1101"),
        (&["action", "archive", "good"], 5, "CA-0106"),
        (&["action", "archive", "a b", "--yes"], 3, "CA-1101"),
        (&["invariant", "add", "x"], 2, "CA-1122"),
        (&["invariant", "add", "--global"], 2, "CA-0101"),
        (&["invariant", "add", "--global", " "], 2, "CA-1122"),
        (&["invariant", "add", "--global", "a\u{1b}b"], 2, "CA-1122"),
        (
            &["invariant", "add", "--global", "Never push"],
            4,
            "CA-1123",
        ),
        (
            &["invariant", "add", "-p", "shop", "--non-overridable", "x"],
            2,
            "CA-1122",
        ),
        (&["invariant", "add", "-p", "shpo", "x"], 3, "CA-0631"),
        (
            &["invariant", "add", "--action", "goood", "x"],
            3,
            "CA-1101",
        ),
        (
            &[
                "invariant",
                "add",
                "--plan",
                "01ARZ3NDEKTSV4RRFFQ69G5FAV",
                "x",
            ],
            3,
            "CA-0404",
        ),
        (
            &["invariant", "add", "--global", "--plan", "01ARZ3", "x"],
            3,
            "CA-0404",
        ),
        (&["invariant", "list", "["], 2, "CA-0101"),
        (&["invariant", "list", "--effective", "["], 2, "CA-0101"),
        (&["invariant", "list", "--project", "none"], 3, "CA-0631"),
        (
            &[
                "invariant",
                "list",
                "--effective",
                "--action",
                "a",
                "--action",
                "b",
            ],
            2,
            "CA-0101",
        ),
        (
            &["invariant", "remove", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "--yes"],
            3,
            "CA-1121",
        ),
        (&["invariant", "remove", "x", "--yes"], 3, "CA-1121"),
    ];
    for (arguments, exit, code) in cases {
        refuse(&agents, arguments).with(*exit, code);
    }
    assert_eq!(stored(&agents), before, "nothing was changed");
}

#[test]
fn an_invalid_file_is_refused_with_its_position() {
    let agents = agents_with_data();
    let create = ["action", "create", "--config", "place.yaml"];
    let error = refuse(&agents, &create).with(2, "CA-1104");
    let message = error["message"].as_str().expect("a message");
    assert!(
        message.ends_with("place.yaml:2:18: there is no argument for `{modul}`"),
        "{message}"
    );
    let hint = error["hint"].as_str().expect("a hint");
    assert!(hint.contains("`{module}`"), "{hint}");
    assert_eq!(error["details"]["line"], 2);
    let from_pipe = ["action", "create", "--config", "-"];
    let error = refuse(&agents, &from_pipe)
        .reading("name: a\ndescripton: d\n")
        .with(2, "CA-1103");
    assert_eq!(error["hint"], "did you mean `description`?");
}
