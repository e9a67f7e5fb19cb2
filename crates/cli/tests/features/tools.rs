//! Steps about tools, permissions and secrets: tool files, calls, and texts that must not occur.

use std::path::{Path, PathBuf};

use cucumber::gherkin::Step;
use cucumber::{given, then, when};

use crate::world::World;

/// The text block below a step.
pub(crate) fn docstring(step: &Step) -> String {
    let text = step.docstring.as_ref().expect("the step has a text");
    text.trim_start_matches('\n').to_owned()
}

#[given(expr = "the file {string}")]
fn the_file(world: &mut World, name: String, step: &Step) {
    write(&world.agents().cwd().join(name), &docstring(step));
}

#[given(expr = "the skill folder {string}")]
fn the_skill_folder(world: &mut World, name: String, step: &Step) {
    let file = world.agents().cwd().join(name).join("SKILL.md");
    write(&file, &docstring(step));
}

fn write(file: &Path, text: &str) {
    let folder = file.parent().expect("a folder");
    std::fs::create_dir_all(folder).expect("made");
    std::fs::write(file, text).expect("a file");
}

/// A file in the only part of a sandbox.
pub(crate) fn in_sandbox(world: &World, sandbox: &str, name: &str) -> PathBuf {
    let data = world.agents().data(&["sandbox", "show", sandbox]);
    let folder = data["sandbox"]["parts"][0]["folder"].as_str();
    Path::new(folder.expect("a folder")).join(name)
}

#[given(expr = "the user writes {string} into the file {string} of the sandbox {string}")]
fn written_into_the_sandbox(world: &mut World, text: String, name: String, sandbox: String) {
    let file = in_sandbox(world, &sandbox, &name);
    std::fs::write(file, format!("{text}\n")).expect("written");
}

fn call(world: &mut World, tool: &str, sandbox: &str, options: &[&str], step: &Step) {
    let input = docstring(step);
    let base = [
        "--format",
        "json",
        "tool",
        "run",
        tool,
        "--sandbox",
        sandbox,
    ];
    let arguments = [&base[..], options, &["--input", &input]].concat();
    world.answer = Some(world.agents().run(&arguments));
}

#[when(expr = "I call {string} in the sandbox {string} with")]
fn i_call(world: &mut World, tool: String, sandbox: String, step: &Step) {
    call(world, &tool, &sandbox, &[], step);
}

#[when(expr = "I call {string} in the sandbox {string} under the rule {string} with")]
fn i_call_under_a_rule(
    world: &mut World,
    tool: String,
    sandbox: String,
    rule: String,
    step: &Step,
) {
    call(world, &tool, &sandbox, &["--rule", &rule], step);
}

#[when(expr = "I add the rule {string}")]
fn i_add_a_rule(world: &mut World, rule: String) {
    let arguments = ["--format", "json", "permission", "add", &rule];
    world.answer = Some(world.agents().run(&arguments));
}

#[then(expr = "the file {string} of the sandbox {string} holds {string}")]
fn it_holds(world: &mut World, name: String, sandbox: String, text: String) {
    let content = std::fs::read_to_string(in_sandbox(world, &sandbox, &name)).expect("a file");
    assert_eq!(content, format!("{text}\n"));
}

#[then(expr = "the file {string} of the sandbox {string} is")]
fn it_is(world: &mut World, name: String, sandbox: String, step: &Step) {
    let content = std::fs::read_to_string(in_sandbox(world, &sandbox, &name)).expect("a file");
    assert_eq!(content, docstring(step));
}

#[then(expr = "the file {string} of the sandbox {string} does not hold {string}")]
fn it_does_not_hold(world: &mut World, name: String, sandbox: String, text: String) {
    let bytes = std::fs::read(in_sandbox(world, &sandbox, &name)).expect("a file");
    assert!(!String::from_utf8_lossy(&bytes).contains(&text));
}

#[then(expr = "the report does not mention {string}")]
fn the_report_does_not_mention(world: &mut World, text: String) {
    let answer = world.answer();
    assert!(!answer.out.contains(&text), "{answer:?}");
}

fn contains_text(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    entries
        .map(|entry| entry.expect("an entry").path())
        .flat_map(|path| match path.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => files(&path),
            Ok(metadata) if metadata.is_file() => vec![path],
            _ => Vec::new(),
        })
        .collect()
}

#[then(expr = "no file of the home holds {string}")]
fn no_file_holds(world: &mut World, text: String) {
    let files = files(world.agents().home());
    assert!(!files.is_empty(), "the home has files");
    for file in files {
        let bytes = std::fs::read(&file).expect("a file");
        assert!(
            !contains_text(&bytes, &text),
            "{} contains the text",
            file.display()
        );
    }
}

#[then(expr = "the database does not hold {string}")]
fn the_database_does_not_hold(world: &mut World, text: String) {
    let database = world.agents().database();
    let database_files =
        ["", "-wal"].map(|end| PathBuf::from(format!("{}{end}", database.display())));
    for file in database_files.iter().filter(|file| file.exists()) {
        let bytes = std::fs::read(file).expect("a file");
        assert!(
            !contains_text(&bytes, &text),
            "{} contains the text",
            file.display()
        );
    }
}
