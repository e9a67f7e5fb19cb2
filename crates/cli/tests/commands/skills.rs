//! `skill`: output of each command, and calls of skill tools by users and models.

use std::path::{Path, PathBuf};

use cleveragents_testkit::{Agents, Gate};
use serde_json::{Value, json};

use super::{agents, assert_shown, shown};

fn write(agents: &Agents, name: &str, text: &str) {
    let path = agents.cwd().join(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    std::fs::write(path, text).expect("a file");
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/skills")
}

/// Copies the examples into the working folder.
fn examples_in(agents: &Agents) {
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(examples().join(&folder)).expect("a folder") {
            let name = folder.join(entry.expect("an entry").file_name());
            let path = examples().join(&name);
            if path.is_dir() {
                folders.push(name);
            } else {
                let text = std::fs::read_to_string(path).expect("a text");
                write(agents, name.to_str().expect("a name"), &text);
            }
        }
    }
}

/// Registers all examples and creates a sandbox `fix` of a folder with a text file.
fn add_skills_and_sandbox(agents: &Agents) {
    examples_in(agents);
    for path in ["files.yaml", "writing.yaml", "text-figures"] {
        agents.data(&["skill", "add", path]);
    }
    write(agents, "src/letter.txt", "one two\nthree\n");
    agents.data(&["sandbox", "create", "fix", "--path", "src"]);
}

#[test]
fn every_example_is_valid_and_registered() {
    let agents = agents();
    add_skills_and_sandbox(&agents);
    let listed = agents.data(&["skill", "list"]);
    assert_eq!(listed["summary"]["total"], 3);
    assert_eq!(listed["summary"]["broken"], 0);
    let validated = agents.data(&["skill", "validate", "text-figures"]);
    assert_eq!(
        (&validated["valid"], &validated["name"]),
        (&json!(true), &json!("local/text-figures"))
    );
}

#[test]
fn skill_add() {
    let arguments = ["skill", "add", "files.yaml"];
    assert_shown("skill_add", &shown(examples_in, &arguments));
    let arguments = ["skill", "add", "text-figures/SKILL.md"];
    assert_shown("skill_add_folder", &shown(examples_in, &arguments));
}

#[test]
fn skill_list() {
    assert_shown(
        "skill_list",
        &shown(add_skills_and_sandbox, &["skill", "list"]),
    );
    assert_shown("skill_list_of_nothing", &shown(|_| (), &["skill", "list"]));
}

#[test]
fn skill_show() {
    assert_shown(
        "skill_show",
        &shown(add_skills_and_sandbox, &["skill", "show", "local/writing"]),
    );
}

#[test]
fn skill_tools() {
    assert_shown(
        "skill_tools",
        &shown(add_skills_and_sandbox, &["skill", "tools", "writing"]),
    );
}

#[test]
fn skill_refresh() {
    let prepare = |agents: &Agents| {
        add_skills_and_sandbox(agents);
        write(
            agents,
            "files.yaml",
            "name: local/files\ndescription: d\nbuiltins: [{group: fil}]\n",
        );
    };
    assert_shown("skill_refresh", &shown(prepare, &["skill", "refresh"]));
}

#[test]
fn skill_remove() {
    let arguments = ["skill", "remove", "local/writing", "--yes"];
    assert_shown("skill_remove", &shown(add_skills_and_sandbox, &arguments));
}

#[test]
fn deviations_from_the_standard_are_added_with_a_warning_and_not_valid() {
    let agents = agents();
    write(
        &agents,
        "odd/SKILL.md",
        "---\nname: odd\ndescription: d\nallowed-tools: [Read]\nversion: 1\n---\nDo it.\n",
    );
    let added = agents.run(&["--format", "plain", "skill", "add", "odd"]);
    assert_eq!(added.code, Some(0), "{added:?}");
    assert!(
        added.out.contains("SKILL.md:5:1") || added.err.contains("SKILL.md:5:1"),
        "{added:?}"
    );
    let refused = agents.run(&["--format", "json", "skill", "validate", "odd"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let problems = refused.json()["data"]["error"]["details"]["problems"].clone();
    assert_eq!(problems.as_array().map(Vec::len), Some(2), "{problems}");
}

#[test]
fn skills_of_the_home_are_found_and_skills_of_a_project_are_only_offered() {
    let agents = agents();
    let text = |name: &str| format!("---\nname: {name}\ndescription: d\n---\nDo it.\n");
    let home = agents.home().join("skills/mine");
    std::fs::create_dir_all(&home).expect("made");
    std::fs::write(home.join("SKILL.md"), text("mine")).expect("written");
    write(&agents, ".agents/skills/theirs/SKILL.md", &text("theirs"));
    let listed = agents.data(&["skill", "list"]);
    assert_eq!(listed["skills"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        (&listed["skills"][0]["name"], &listed["skills"][0]["origin"]),
        (&json!("local/mine"), &json!("found"))
    );
    assert_eq!(listed["offered"].as_array().map(Vec::len), Some(1));
    let refused = agents.run(&["skill", "show", "theirs"]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    agents.data(&["skill", "add", ".agents/skills/theirs"]);
    let listed = agents.data(&["skill", "list"]);
    assert_eq!(listed["summary"]["total"], 2);
    assert_eq!(listed["offered"], json!([]));
}

/// A script of a skill is confined like any other command: it can write only in the sandbox.
#[test]
fn defect_2125_a_script_of_a_skill_runs_in_the_sandbox_only() {
    let agents = agents();
    add_skills_and_sandbox(&agents);
    let input = json!({"name": "text-figures", "script": "scripts/figures.py", "arguments": ["letter.txt"]}).to_string();
    let run = [
        "tool",
        "run",
        "skill/run",
        "--skill",
        "text-figures",
        "--sandbox",
        "fix",
        "--input",
    ];
    let reported = agents.data(&[&run[..], &[&input]].concat());
    assert_eq!(reported["output"], "letter.txt: 3 words, 2 lines\n");
    // Without the skill, the tool does not exist.
    let refused = agents.run(&[
        "tool",
        "run",
        "skill/run",
        "--sandbox",
        "fix",
        "--input",
        &input,
    ]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    // A script cannot write to the folder of its skill.
    write(
        &agents,
        "text-figures/scripts/spoil.sh",
        "touch made-here; touch \"$CLEVERAGENTS_SKILL_FOLDER/spoiled\"\n",
    );
    let input = json!({"name": "text-figures", "script": "scripts/spoil.sh"}).to_string();
    let answer = agents.run(&[&["--format", "json"], &run[..], &[&input]].concat());
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert!(!agents.cwd().join("text-figures/spoiled").exists());
    let changed = agents.data(&["sandbox", "diff", "fix"]);
    assert!(changed.to_string().contains("made-here"), "{changed}");
}

#[test]
fn a_model_has_its_skills_and_reads_the_instructions_of_the_repository() {
    let agents = agents();
    add_skills_and_sandbox(&agents);
    write(&agents, "src/AGENTS.md", "Write in short sentences.\n");
    agents.data(&["sandbox", "create", "other", "--path", "src"]);
    agents.data(&["session", "create", "--name", "weekly"]);
    write(
        &agents,
        "answers.yaml",
        "answers:\n- calls: [{name: skill/activate, arguments: {name: text-figures}}, {name: local/longest-line, arguments: {path: letter.txt}}]\n- text: Done.\n",
    );
    let tell = [
        "session",
        "tell",
        "--session",
        "weekly",
        "--actor",
        "scripted/answers.yaml",
        "--sandbox",
        "other",
        "--record",
        "told.jsonl",
    ];
    let reported = agents.data(&[&tell[..], &["--skill", "writing", "How long is it?"]].concat());
    let outcomes: Vec<&Value> = reported["tool_calls"]
        .as_array()
        .expect("calls")
        .iter()
        .map(|call| &call["outcome"])
        .collect();
    assert_eq!(outcomes, ["succeeded", "succeeded"], "{reported}");
    let recorded = std::fs::read_to_string(agents.cwd().join("told.jsonl")).expect("recorded");
    for phrase in [
        "- text-figures: Counts the words",
        "Write in short sentences.",
        "They grant no permission",
    ] {
        assert!(recorded.contains(phrase), "{phrase} in {recorded}");
    }
}

#[test]
fn defect_4811_concurrent_programs_register_a_name_once() {
    let agents = agents();
    examples_in(&agents);
    agents.data(&["init"]);
    let gate = Gate::default();
    let children: Vec<_> = (0..4)
        .map(|_| agents.behind(&gate, &["skill", "add", "files.yaml"]))
        .collect();
    gate.open();
    let codes = children.into_iter().map(|child| {
        child
            .wait_with_output()
            .expect("the program ends")
            .status
            .code()
    });
    let mut codes: Vec<_> = codes.collect();
    codes.sort_unstable();
    assert_eq!(codes, [Some(0), Some(4), Some(4), Some(4)]);
    assert_eq!(agents.data(&["skill", "list"])["summary"]["total"], 1);
}

#[test]
fn a_secret_in_a_skill_file_is_not_shown() {
    let key = "sk-test-0123456789abcdefghijkl";
    let agents = agents().with("OPENAI_API_KEY", key);
    write(
        &agents,
        "x.yaml",
        "name: local/x\ndescription: uses ${OPENAI_API_KEY}\ntools: [builtin/shell]\nmcp_servers: [{name: a, command: x, env: {K: \"${OPENAI_API_KEY}\"}}]\n",
    );
    for arguments in [
        ["skill", "add", "x.yaml"].as_slice(),
        &["skill", "show", "x"],
        &["skill", "list"],
        &["skill", "tools", "x"],
    ] {
        for format in ["plain", "json"] {
            let options: &[&str] = if arguments[1] == "add" {
                &["--update"]
            } else {
                &[]
            };
            let answer = agents.run(&[&["--format", format], arguments, options].concat());
            assert_eq!(answer.code, Some(0), "{answer:?}");
            assert!(
                !answer.out.contains(key) && !answer.err.contains(key),
                "{answer:?}"
            );
        }
    }
}
