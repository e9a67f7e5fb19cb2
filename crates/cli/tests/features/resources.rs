//! Steps about resources and projects. Steps that use resources or projects run the program; the others prepare
//! folders, files and repositories.

use std::process::Command;

use cleveragents_testkit::{Answer, Gate};
use cucumber::{given, then, when};

use crate::world::World;

#[given(expr = "a folder {string}")]
fn a_folder(world: &mut World, name: String) {
    std::fs::create_dir_all(world.agents().cwd().join(name)).expect("a folder");
}

#[given(expr = "a git repository {string}")]
fn a_repository(world: &mut World, name: String) {
    let path = world.agents().cwd().join(name);
    std::fs::create_dir_all(&path).expect("a folder");
    for arguments in [
        &["init", "-q", "-b", "main"][..],
        &["commit", "-q", "--allow-empty", "-m", "first"],
    ] {
        let output = Command::new("git")
            .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
            .args(arguments)
            .current_dir(&path)
            .output()
            .expect("git runs");
        assert!(output.status.success(), "{output:?}");
    }
}

#[given(expr = "the file {string} holds:")]
#[when(expr = "the file {string} holds:")]
fn a_file_holds(world: &mut World, name: String, step: &cucumber::gherkin::Step) {
    let text = step.docstring.as_deref().expect("a text");
    let path = world.agents().cwd().join(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    std::fs::write(path, text.trim_start_matches('\n')).expect("a file");
}

#[given(expr = "the resource {string} of type {word} at {string}")]
fn a_resource(world: &mut World, name: String, type_name: String, path: String) {
    world
        .agents()
        .data(&["resource", "add", &type_name, &name, "--path", &path]);
}

#[given(expr = "the project {string} that links {string}")]
fn a_project(world: &mut World, name: String, resource: String) {
    world
        .agents()
        .data(&["project", "create", &name, "--resource", &resource]);
}

#[then(expr = "the resources are {string}")]
fn the_resources_are(world: &mut World, expected: String) {
    let data = world.agents().data(&["resource", "list"]);
    let listed = data["resources"].as_array().expect("a list");
    let names: Vec<_> = listed
        .iter()
        .map(|resource| resource["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(names.join(", "), expected);
}

#[then(expr = "the project {string} links {int} resource(s)")]
fn the_project_links(world: &mut World, name: String, count: usize) {
    let data = world.agents().data(&["project", "show", &name]);
    assert_eq!(
        data["linked_resources"].as_array().map(Vec::len),
        Some(count),
        "{data:#}"
    );
}

#[then(expr = "there are {int} projects")]
fn there_are_projects(world: &mut World, count: usize) {
    let data = world.agents().data(&["project", "list"]);
    assert_eq!(data["summary"]["total"], count, "{data:#}");
}

#[when(
    expr = "2 programs link {string} below {string} and {string} below {string} at the same time"
)]
fn programs_link(world: &mut World, first: String, second: String, third: String, fourth: String) {
    let agents = world.agents();
    let gate = Gate::default();
    let started = [(&second, &first), (&fourth, &third)]
        .map(|(parent, child)| agents.behind(&gate, &["resource", "link-child", parent, child]));
    gate.open();
    let mut codes = started.map(|process| {
        Answer::from_output(&process.wait_with_output().expect("the program ends")).code
    });
    codes.sort_unstable();
    assert_eq!(codes, [Some(0), Some(4)], "one is refused as a conflict");
}

#[then("one of them lies below the other")]
fn one_lies_below(world: &mut World) {
    let data = world.agents().data(&["resource", "tree"]);
    let roots = data["tree"].as_array().expect("a list");
    assert_eq!(roots.len(), 1, "{data:#}");
    assert_eq!(
        roots[0]["children"].as_array().map(Vec::len),
        Some(1),
        "{data:#}"
    );
}
