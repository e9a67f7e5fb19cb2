//! Skills: commands, files and folders that are refused, with nothing changed.

use cleveragents_testkit::Agents;
use serde_json::{Value, json};

use super::{agents, files, refuse};

fn write(agents: &Agents, name: &str, text: &[u8]) {
    let path = agents.cwd().join(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    std::fs::write(path, text).expect("written");
}

/// A home with two skills, one of which includes the other.
fn agents_with_data() -> Agents {
    let agents = agents();
    write(
        &agents,
        "base.yaml",
        b"name: local/base\ndescription: d\ntools: [builtin/shell]\n",
    );
    write(
        &agents,
        "above.yaml",
        b"name: local/above\ndescription: d\nincludes: [local/base]\n",
    );
    for file in ["base.yaml", "above.yaml"] {
        agents.data(&["skill", "add", file]);
    }
    std::fs::create_dir(agents.cwd().join("empty")).expect("a folder");
    agents
}

/// The stored skills.
fn stored(agents: &Agents) -> Value {
    json!([
        agents.data(&["skill", "list"]),
        agents.data(&["skill", "show", "local/above"]),
    ])
}

#[test]
fn invalid_commands_are_refused() {
    let agents = agents_with_data();
    let before = stored(&agents);
    let cases: [(&[&str], i32, &str); 17] = [
        (&["skill", "add"], 2, "CA-0101"),
        (
            &["skill", "add", "base.yaml", "--config", "base.yaml"],
            2,
            "CA-0101",
        ),
        (&["skill", "add", "none.yaml"], 1, "CA-0105"),
        (&["skill", "add", "empty"], 2, "CA-1063"),
        (&["skill", "add", "none/SKILL.md"], 2, "CA-1063"),
        (&["skill", "add", "base.yaml"], 4, "CA-1062"),
        (&["skill", "show", "local/bsae"], 3, "CA-1061"),
        (&["skill", "show", ""], 3, "CA-1061"),
        (&["skill", "tools", "a b"], 3, "CA-1061"),
        (&["skill", "refresh", "local/none"], 3, "CA-1061"),
        (&["skill", "validate", "none.yaml"], 1, "CA-0105"),
        (&["skill", "validate", "empty"], 2, "CA-1063"),
        (&["skill", "validate"], 2, "CA-0101"),
        (&["skill", "remove", "local/none", "--yes"], 3, "CA-1061"),
        (&["skill", "remove", "local/base", "--yes"], 4, "CA-1065"),
        (&["skill", "remove", "local/above"], 5, "CA-0106"),
        (
            &[
                "tool",
                "run",
                "builtin/shell",
                "--skill",
                "none",
                "command=ls",
            ],
            3,
            "CA-1061",
        ),
    ];
    for (arguments, exit, code) in cases {
        refuse(&agents, arguments).with(exit, code);
        assert_eq!(stored(&agents), before, "{arguments:?}");
    }
}

/// Path, content, error code, line, and part of the message.
const BROKEN: [(&str, &[u8], &str, u64, &str); 14] = [
    (
        "x.yaml",
        b"name: local/x\ndescription: [\n",
        "CA-1063",
        2,
        "",
    ),
    (
        "x.yaml",
        b"name: local/x\ndescripton: d\n",
        "CA-1063",
        2,
        "descripton",
    ),
    (
        "x.yaml",
        b"name: local/x\ndescription: ${NOT_SET}\n",
        "CA-1063",
        2,
        "NOT_SET",
    ),
    (
        "x.yaml",
        b"name: local/x\ndescription: d\ntools: [builtin/shel]\n",
        "CA-1064",
        3,
        "builtin/shel",
    ),
    (
        "x.yaml",
        b"name: local/x\ndescription: d\nincludes: [local/bsae]\n",
        "CA-1064",
        3,
        "local/bsae",
    ),
    (
        "x.yaml",
        b"name: local/x\ndescription: d\nincludes: [local/x]\n",
        "CA-1064",
        3,
        "cycle",
    ),
    (
        "x.yaml",
        b"name: local/x\ndescription: d\n",
        "CA-1064",
        1,
        "empty",
    ),
    (
        "x/SKILL.md",
        b"no front matter\n",
        "CA-1063",
        1,
        "front matter",
    ),
    (
        "x/SKILL.md",
        b"---\nname: y\ndescription: d\n---\n",
        "CA-1064",
        2,
        "named",
    ),
    (
        "x/SKILL.md",
        b"---\nname: x\n---\n",
        "CA-1064",
        1,
        "description",
    ),
    (
        "x/SKILL.md",
        b"---\nname: x\nname: x\n---\n",
        "CA-1063",
        3,
        "twice",
    ),
    (
        "x/SKILL.md",
        b"---\nname: x\ndescription: caf\xe9\n---\n",
        "CA-1063",
        3,
        "UTF-8",
    ),
    (
        "x/SKILL.md",
        b"---\nname: x\ndescription: &a d\n---\n",
        "CA-1063",
        3,
        "anchor",
    ),
    (
        "x/SKILL.md",
        b"---\nname: [x]\ndescription: d\n---\n",
        "CA-1064",
        2,
        "not a text",
    ),
];

/// The parser tests cover the whole corpus of broken files; this test has some of each kind.
#[test]
fn a_broken_file_or_folder_is_refused_with_position_and_hint() {
    let agents = agents_with_data();
    let before = stored(&agents);
    let long = format!("name: local/x\ndescription: {}\n", "x".repeat(2 << 20));
    for (path, text, code, line, message) in BROKEN {
        write(&agents, path, text);
        for command in ["add", "validate"] {
            let arguments = ["skill", command, path];
            let error = refuse(&agents, &arguments).with(2, code);
            assert_eq!(error["details"]["line"], line, "{error}");
            assert!(
                error["message"]
                    .as_str()
                    .is_some_and(|reported| reported.contains(message)),
                "{error}"
            );
            assert!(
                error["hint"].as_str().is_some_and(|hint| !hint.is_empty()),
                "{error}"
            );
        }
        assert_eq!(stored(&agents), before, "{path} {message}");
    }
    write(&agents, "long.yaml", long.as_bytes());
    refuse(&agents, &["skill", "add", "long.yaml"]).with(2, "CA-1063");
    write(&agents, "y/SKILL.md", long.as_bytes());
    refuse(&agents, &["skill", "add", "y"]).with(2, "CA-1063");
    assert_eq!(stored(&agents), before);
    assert!(!files(agents.home()).is_empty());
}

#[test]
fn an_update_that_would_break_another_skill_is_refused() {
    let agents = agents_with_data();
    let before = stored(&agents);
    write(
        &agents,
        "base.yaml",
        b"name: local/base\ndescription: d\nincludes: [local/above]\n",
    );
    let error = refuse(&agents, &["skill", "add", "base.yaml", "--update"]).with(2, "CA-1064");
    let reported = error["message"].as_str().expect("a text");
    assert!(
        reported.contains("local/base → local/above → local/base"),
        "{reported}"
    );
    assert_eq!(stored(&agents), before);
}
