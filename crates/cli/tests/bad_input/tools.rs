//! Tools, permission rules and schemas.

use cleveragents_testkit::Agents;
use serde_json::{Value, json};

use super::{agents, refuse};

const GOOD: &str = "name: local/good\ndescription: does\ncommand: ['true']\n";

/// A home with one tool, one rule and a sandbox.
fn agents_with_data() -> Agents {
    let agents = agents();
    std::fs::write(agents.cwd().join("good.yaml"), GOOD).expect("a file");
    std::fs::create_dir(agents.cwd().join("src")).expect("a folder");
    agents.data(&["tool", "add", "--config", "good.yaml"]);
    agents.data(&["permission", "add", "deny builtin/shell(rm *)"]);
    agents.data(&["sandbox", "create", "box", "--path", "src"]);
    agents
}

/// The stored tools, permission rules and sandboxes.
fn stored(agents: &Agents) -> Value {
    json!([
        agents.data(&["tool", "list"]),
        agents.data(&["tool", "show", "local/good"]),
        agents.data(&["permission", "list"]),
        agents.data(&["sandbox", "list", "--all"]),
    ])
}

#[test]
fn invalid_commands_are_refused() {
    let agents = agents_with_data();
    let before = stored(&agents);
    let cases: [(&[&str], i32, &str); 28] = [
        (&["tool", "add"], 2, "CA-0101"),
        (&["tool", "add", "--config", "none.yaml"], 1, "CA-0105"),
        (&["tool", "add", "--config", "src"], 1, "CA-0105"),
        (&["tool", "add", "--config", "good.yaml"], 4, "CA-0902"),
        (&["tool", "list", "--type", "gate"], 2, "CA-0101"),
        (&["tool", "list", "--source", "mine"], 2, "CA-0101"),
        (&["tool", "list", "--category", "cats"], 2, "CA-0101"),
        (&["tool", "show", "local/goood"], 3, "CA-0901"),
        (&["tool", "show", ""], 3, "CA-0901"),
        (&["tool", "remove", "local/none", "--yes"], 3, "CA-0901"),
        (&["tool", "remove", "builtin/shell", "--yes"], 4, "CA-0905"),
        (&["tool", "remove", "local/good"], 5, "CA-0106"),
        (&["tool", "run", "local/good", "n"], 2, "CA-0101"),
        (&["tool", "run", "local/good", "=1"], 2, "CA-0101"),
        (&["tool", "run", "local/good", "n=1", "n=2"], 2, "CA-0101"),
        (
            &["tool", "run", "local/good", "n=1", "--input", "{}"],
            2,
            "CA-0101",
        ),
        (
            &["tool", "run", "local/good", "--rule", "may all"],
            2,
            "CA-0906",
        ),
        (&["tool", "calls", "--outcome", "fine"], 2, "CA-0101"),
        (&["tool", "calls", "--session", "nobody"], 3, "CA-0301"),
        (&["tool", "call", "01JX3Q"], 3, "CA-0923"),
        (&["tool", "call", "x"], 3, "CA-0923"),
        (&["tool", "call", "01JX3Q", "--page", "0"], 2, "CA-0101"),
        (
            &["tool", "call", "01JX3Q", "--output", "--log"],
            2,
            "CA-0101",
        ),
        (&["permission", "add", "forbid shell"], 2, "CA-0906"),
        (&["permission", "add", ""], 2, "CA-0906"),
        (
            &["permission", "remove", "deny builtin/shell"],
            3,
            "CA-0914",
        ),
        (&["permission", "remove", "nonsense"], 3, "CA-0914"),
        (&["schema", "plan"], 2, "CA-0101"),
    ];
    for (arguments, exit, code) in cases {
        refuse(&agents, arguments).with(exit, code);
        assert_eq!(stored(&agents), before, "{arguments:?}");
    }
    let sandbox = ["tool", "run", "local/good", "--sandbox", "none"];
    let missing = refuse(&agents, &sandbox).run("json");
    assert_eq!(missing.code, Some(3), "{missing:?}");
    assert_eq!(stored(&agents), before);
}

/// The parser tests cover the whole corpus of broken files; this test has some of each kind.
#[test]
fn a_broken_file_is_refused_with_position_and_hint() {
    let agents = agents_with_data();
    let before = stored(&agents);
    for (text, code, line, message) in [
        ("name: local/x\ndescription: [\n", "CA-0903", 2, ""),
        (
            "name: local/x\ndescripton: d\ncommand: [a]\n",
            "CA-0903",
            2,
            "descripton",
        ),
        (
            "name: Local/X\ndescription: d\ncommand: [a]\n",
            "CA-0904",
            1,
            "capital",
        ),
        (
            "name: local/x\ndescription: d\nread_only: true\nwrites: true\ncommand: [a]\n",
            "CA-0904",
            3,
            "read_only",
        ),
        (
            "name: local/x\ndescription: ${NOT_SET}\ncommand: [a]\n",
            "CA-0903",
            2,
            "NOT_SET",
        ),
    ] {
        std::fs::write(agents.cwd().join("broken.yaml"), text).expect("a file");
        let error = refuse(&agents, &["tool", "add", "--config", "broken.yaml"]).with(2, code);
        assert_eq!(error["details"]["line"], line, "{error:#}");
        assert!(error["details"]["column"].is_u64(), "{error:#}");
        let reported = error["message"].as_str().expect("a message");
        let prefix = format!("broken.yaml:{line}:");
        assert!(
            reported.contains(&prefix) && reported.contains(message),
            "{reported}"
        );
        assert_eq!(stored(&agents), before, "{text}");
    }
}

#[test]
fn a_binary_or_oversized_file_is_refused() {
    let agents = agents_with_data();
    let before = stored(&agents);
    let add = ["tool", "add", "--config", "-"];
    refuse(&agents, &add)
        .reading(b"name: \xff\n")
        .with(2, "CA-0107");
    let long = format!("{GOOD}# {}\n", "x".repeat(1 << 20));
    refuse(&agents, &add).reading(&long).with(2, "CA-0903");
    refuse(&agents, &add).reading("").with(2, "CA-0903");
    assert_eq!(stored(&agents), before);
}
