//! Steps about plans: typed commands, scripted models, and the resulting repositories.

use std::path::{Path, PathBuf};
use std::process::Command;

use cucumber::gherkin::Step;
use cucumber::{given, then, when};
use serde_json::Value;

use crate::program::last_document;
use crate::tools::docstring;
use crate::world::World;

/// Splits a command line at spaces, except between single quotes.
fn split_words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for character in line.trim().chars() {
        match character {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            other => words.last_mut().expect("a word").push(other),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Id of the newest plan.
fn newest_plan(world: &World) -> String {
    let listed = world.agents().data(&["plan", "list"]);
    let id = listed["plans"][0]["plan_id"].as_str();
    id.expect("there is a plan").to_owned()
}

/// Runs a typed line. `PLAN` stands for the newest plan, `DECISION` for its first choice, `STEP:2` for the decision
/// that made its second step.
fn type_line(world: &mut World, line: &str) {
    let mut arguments = split_words(line);
    assert_eq!(arguments.remove(0), "agents", "{line}");
    for argument in &mut arguments {
        if argument == "PLAN" {
            *argument = newest_plan(world);
        } else if argument == "DECISION" {
            *argument = first_choice(world);
        } else if let Some(number) = argument.strip_prefix("STEP:") {
            *argument = step_decision(world, number);
        }
    }
    let arguments: Vec<&str> = ["--format", "json"]
        .into_iter()
        .chain(arguments.iter().map(String::as_str))
        .collect();
    world.answer = Some(world.agents().run(&arguments));
}

/// Id of the decision that made a step of the newest plan.
fn step_decision(world: &World, number: &str) -> String {
    fn find<'t>(node: &'t Value, question: &str) -> Option<&'t str> {
        if node["question"] == question {
            return node["id"].as_str();
        }
        let children = node["children"].as_array().into_iter().flatten();
        children
            .filter_map(|child| find(child, question))
            .next_back()
    }
    let tree = world.agents().data(&["plan", "tree", &newest_plan(world)]);
    let question = format!("What is step {number}?");
    let id = find(&tree["tree"], &question).expect("a step");
    id.to_owned()
}

/// Id of the first strategy choice in the decision tree of the newest plan.
fn first_choice(world: &World) -> String {
    fn find(node: &Value) -> Option<&str> {
        let kind = node["type"]
            .as_str()
            .or_else(|| node["decision_type"].as_str());
        if kind == Some("strategy_choice") {
            return node["decision_id"].as_str().or_else(|| node["id"].as_str());
        }
        let children = match node {
            Value::Object(fields) => fields.values().collect::<Vec<_>>(),
            Value::Array(items) => items.iter().collect(),
            _ => Vec::new(),
        };
        children.into_iter().find_map(find)
    }
    let tree = world.agents().data(&["plan", "tree", &newest_plan(world)]);
    find(&tree).expect("a choice").to_owned()
}

#[when("I type")]
#[given("the typed commands")]
fn i_type(world: &mut World, step: &Step) {
    for line in docstring(step)
        .lines()
        .filter(|line| !line.trim().is_empty())
    {
        type_line(world, line);
        let answer = world.answer();
        assert_eq!(answer.code, Some(0), "{line}: {answer:?}");
    }
}

#[when(expr = "I try {string}")]
fn i_try(world: &mut World, line: String) {
    type_line(world, &line);
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=Test", "-c", "user.email=test@localhost"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .expect("git starts");
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn folder(world: &World, name: &str) -> PathBuf {
    world.agents().cwd().join(name)
}

/// Creates a repository with the files of a table: name, and content with `\n` for a line break.
#[given(expr = "the repository {string} with")]
fn the_repository(world: &mut World, name: String, step: &Step) {
    let repository = folder(world, &name);
    std::fs::create_dir_all(&repository).expect("a folder");
    git(&repository, &["init", "-q", "-b", "main"]);
    for row in &step.table.as_ref().expect("a table").rows {
        let file = repository.join(&row[0]);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("folders");
        std::fs::write(file, format!("{}\n", row[1].replace("\\n", "\n"))).expect("a file");
    }
    git(&repository, &["add", "-A"]);
    git(&repository, &["commit", "-q", "-m", "first"]);
}

/// Two actors whose models answer from their scripts.
#[given("a strategist and an executor with scripts")]
fn scripted_actors(world: &mut World) {
    for role in ["strategist", "executor"] {
        let file = format!("{role}-actor.yaml");
        let text = format!(
            "name: local/{role}\ntype: llm\nmodel: scripted/{role}.yaml\nsystem_prompt: Work.\ntools: [builtin/*]\n"
        );
        std::fs::write(folder(world, &file), text).expect("a file");
        world.agents().data(&["actor", "add", "--config", &file]);
    }
}

/// Script of the strategist: one strategy, as JSON.
#[given("the strategist answers")]
fn the_strategist_answers(world: &mut World, step: &Step) {
    let strategy: Value = serde_json::from_str(&docstring(step)).expect("JSON");
    let answer = serde_json::json!({"at_end": "repeat_last", "answers": [
        {"text": strategy.to_string(), "reasoning": "I looked at every file first."},
    ]});
    std::fs::write(folder(world, "strategist.yaml"), answer.to_string()).expect("a file");
}

/// Script of the executor.
#[given("the executor answers")]
fn the_executor_answers(world: &mut World, step: &Step) {
    let text = format!(
        "at_end: repeat_last\ncount: turn\nanswers:\n{}\n",
        docstring(step)
    );
    std::fs::write(folder(world, "executor.yaml"), text).expect("a file");
}

#[then(expr = "the plan is {word}")]
fn the_plan_is(world: &mut World, stage: String) {
    let answer = world
        .agents()
        .run(&["--format", "json", "plan", "status", &newest_plan(world)]);
    let status = last_document(&answer)["data"].clone();
    let reported = format!(
        "{}/{}",
        status["phase"].as_str().unwrap_or_default(),
        status["state"].as_str().unwrap_or_default()
    );
    assert_eq!(reported, stage, "{answer:?}");
}

#[then(expr = "{string} succeeds in {string}")]
fn it_succeeds_in(world: &mut World, command: String, name: String) {
    assert!(succeeds(world, &command, &name), "{command}");
}

#[then(expr = "{string} fails in {string}")]
#[given(expr = "{string} fails in {string}")]
fn it_fails_in(world: &mut World, command: String, name: String) {
    assert!(!succeeds(world, &command, &name), "{command}");
}

fn succeeds(world: &World, command: &str, name: &str) -> bool {
    let status = Command::new("sh")
        .args(["-c", command])
        .current_dir(folder(world, name))
        .status();
    status.expect("a shell starts").success()
}

#[then(expr = "the newest commit of {string} is {string} and changes {string}")]
fn the_newest_commit(world: &mut World, name: String, title: String, paths: String) {
    let repository = folder(world, &name);
    assert_eq!(
        git(&repository, &["log", "-1", "--format=%s"]).trim(),
        title
    );
    let changed = git(&repository, &["show", "--format=", "--name-only", "HEAD"]);
    assert_eq!(
        changed.split_whitespace().collect::<Vec<_>>().join(" "),
        paths
    );
    assert_eq!(git(&repository, &["status", "--porcelain"]), "");
}

#[then(expr = "the repository {string} is unchanged, with {int} commit(s)")]
fn the_repository_is_unchanged(world: &mut World, name: String, commits: usize) {
    let repository = folder(world, &name);
    assert_eq!(
        git(&repository, &["rev-list", "HEAD"]).lines().count(),
        commits
    );
    assert_eq!(git(&repository, &["status", "--porcelain"]), "");
}

#[then(expr = "the report has at {string} the value")]
fn the_report_has(world: &mut World, pointer: String, step: &Step) {
    let expected: Value = serde_json::from_str(&docstring(step)).expect("JSON");
    let document = last_document(world.answer());
    assert_eq!(
        document["data"].pointer(&pointer),
        Some(&expected),
        "{document:#}"
    );
}

#[then("the report mentions all of")]
fn the_report_mentions_all(world: &mut World, step: &Step) {
    let answer = world.answer();
    for row in &step.table.as_ref().expect("a table").rows {
        assert!(answer.out.contains(&row[0]), "{}: {answer:?}", row[0]);
    }
}

/// An SQLite database created by statements.
#[given(expr = "the database {string} created by {string}")]
fn the_database(world: &mut World, name: String, sql: String) {
    cleveragents_testkit::TestDatabase::write_file(&folder(world, &name), &sql);
}

#[then(expr = "the query {string} of {string} answers {string}")]
fn the_query_answers(world: &mut World, sql: String, name: String, expected: String) {
    let rows = cleveragents_testkit::TestDatabase::read_file(&folder(world, &name), &sql);
    let text: Vec<String> = rows.iter().map(|row| row.join(",")).collect();
    assert_eq!(text.join(" "), expected);
}

#[then(expr = "the exported {string} holds")]
fn the_export_holds(world: &mut World, file: String, step: &Step) {
    let text = std::fs::read_to_string(folder(world, &file)).expect("a file");
    let _document: Value = serde_json::from_str(&text).expect("JSON");
    for row in &step.table.as_ref().expect("a table").rows {
        assert!(text.contains(&row[0]), "{}: {text}", row[0]);
    }
}
