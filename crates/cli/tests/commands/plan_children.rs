//! Commands that show child plans and their conflicts, and that resolve the conflicts. The plan runs with a scripted
//! model.

use cleveragents_testkit::{Agents, TestDatabase};
use regex::Regex;

use super::{agents, assert_shown, transcript};

/// A model whose strategy has two child plans that write the same file.
const MODEL: &str = r#"at_end: repeat_last
answers:
- when: '^Make the strategy'
  text: |
    {"summary": "In parts", "steps": [
      {"title": "Write left", "description": "Write side.txt.", "child_plan": true},
      {"title": "Write right", "description": "Write side.txt.", "child_plan": true}]}
- when: '^Execute step 1 of 1: Write left'
  text: I write it.
  calls:
  - {name: builtin/file-write, arguments: {path: side.txt, content: "left\n"}}
- when: '^Execute step 1 of 1: Write right'
  text: I write it.
  calls:
  - {name: builtin/file-write, arguments: {path: side.txt, content: "right\n"}}
- when: '^Review the result'
  text: '{"criteria": [{"number": 1, "met": true, "evidence": "seen"}]}'
- text: The file is written.
"#;

const ACTION: &str =
    "name: local/write\ndescription: Write side.txt\ndefinition_of_done: it is written\n";

/// A home with a plan that is not started, and the id of the plan.
fn created() -> (Agents, String) {
    let agents = agents();
    let code = agents.cwd().join("code");
    std::fs::create_dir(&code).expect("a folder");
    std::fs::write(code.join("side.txt"), "middle\n").expect("written");
    std::fs::write(agents.cwd().join("write.yaml"), ACTION).expect("written");
    std::fs::write(agents.cwd().join("model.yaml"), MODEL).expect("written");
    agents.data(&["config", "set", "model.default", "scripted/model.yaml"]);
    agents.data(&["resource", "add", "fs-directory", "code", "--path", "code"]);
    let project = [
        "project",
        "create",
        "local/code",
        "--resource",
        "local/code",
    ];
    agents.data(&project);
    agents.data(&["action", "create", "--config", "write.yaml"]);
    let create = [
        "plan",
        "use",
        "local/write",
        "local/code",
        "--automation-profile",
        "trusted",
        "--no-start",
    ];
    let plan = agents.data(&create)["plan_id"]
        .as_str()
        .expect("an id")
        .to_owned();
    (agents, plan)
}

/// A home with a plan that waits for a decision about a conflict, and the id of the plan.
fn conflicting() -> (Agents, String) {
    let (agents, plan) = created();
    agents.run(&["plan", "execute", &plan]);
    agents.run(&["plan", "execute", &plan]);
    // Durations differ between runs: no time has elapsed for a start in the far future.
    TestDatabase::write_file(
        &agents.database(),
        "UPDATE plans SET started_at = 4102444800000000 WHERE started_at IS NOT NULL;
         UPDATE plans SET completed_at = 4102444800000000 WHERE completed_at IS NOT NULL",
    );
    (agents, plan)
}

/// The output of a command in a human format and in JSON.
fn shown(agents: &Agents, arguments: &[&str]) -> String {
    ["plain", "json"]
        .map(|format| plainly(agents, format, arguments))
        .join("\n")
}

/// The output of a command. The lengths of short ids differ between runs, so that they and the widths of columns are
/// masked.
fn plainly(agents: &Agents, format: &str, arguments: &[&str]) -> String {
    let arguments = [&["--format", format], arguments].concat();
    let text = transcript(agents, &arguments, &agents.run(&arguments));
    let ids = Regex::new(r"\b01[0-9A-HJKMNP-TV-Z]{6,24}\b").expect("a pattern");
    let names = Regex::new(r"-01[0-9a-hjkmnp-tv-z]{6}\b").expect("a pattern");
    let columns = Regex::new(r"(\S) {2,}").expect("a pattern");
    let text = ids.replace_all(&text, "[id]");
    let text = names.replace_all(&text, "-[id]");
    columns.replace_all(&text, "$1  ").into_owned()
}

#[test]
fn plan_conflicts() {
    let (agents, plan) = conflicting();
    assert_shown(
        "plan_conflicts",
        &shown(&agents, &["plan", "conflicts", &plan]),
    );
}

#[test]
fn plan_resolve() {
    let (agents, plan) = conflicting();
    let wrong = ["plan", "resolve", "sid.txt", "--take", "ours"];
    let wrong = transcript(&agents, &wrong, &agents.run(&wrong));
    std::fs::write(agents.cwd().join("merged.txt"), "both\n").expect("written");
    let edited = ["plan", "resolve", &plan, "side.txt", "--file", "merged.txt"];
    let edited = transcript(&agents, &edited, &agents.run(&edited));
    let all = ["plan", "resolve", "--all", "theirs"];
    let all = transcript(&agents, &all, &agents.run(&all));
    assert_shown("plan_resolve", &[wrong, edited, all].join("\n"));
    agents.data(&["plan", "execute", &plan]);
    agents.data(&["plan", "apply", &plan, "--yes"]);
    let written = std::fs::read_to_string(agents.cwd().join("code/side.txt"));
    assert_eq!(written.expect("a file"), "both\n");
}

#[test]
fn plan_children() {
    let (agents, plan) = conflicting();
    assert_shown(
        "plan_children",
        &shown(&agents, &["plan", "children", &plan]),
    );
}

#[test]
fn child_plans_in_lists_and_trees() {
    let (agents, plan) = conflicting();
    let list = plainly(&agents, "plain", &["plan", "list", "--tree"]);
    let tree = plainly(&agents, "plain", &["plan", "tree", &plan]);
    let children = agents.data(&["plan", "children", &plan]);
    let child = children["children"][1]["plan_id"].as_str().expect("an id");
    let child = plainly(&agents, "plain", &["plan", "show", child]);
    assert_shown(
        "child_plans_in_lists_and_trees",
        &[list, tree, child].join("\n"),
    );
}

/// Without a terminal, each line of a child plan names it.
#[test]
fn a_streamed_plan_prints_lines_of_its_child_plans() {
    let (agents, plan) = created();
    let mut printed = String::new();
    for _ in 0..2 {
        printed += &agents.run(&["plan", "execute", &plan, "--stream"]).err;
    }
    for line in [
        "[1 Write left] → builtin/file-write",
        "[1 Write left] ✓",
        "[2 Write right] → builtin/file-write",
    ] {
        assert!(printed.contains(line), "{line}: {printed}");
    }
}
