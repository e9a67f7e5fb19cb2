//! Steps about sandboxes: a repository, commands in its copy, and the resulting repository.

use std::path::PathBuf;
use std::process::Command;

use cucumber::{given, then, when};
use serde_json::Value;

use crate::world::World;

fn git(world: &World, repository: &str, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args([
            "-c",
            "user.name=Test",
            "-c",
            "user.email=test@localhost",
            "-c",
            "commit.gpgSign=false",
        ])
        .args(arguments)
        .env_remove("GIT_DIR")
        .current_dir(world.agents().cwd().join(repository))
        .output()
        .expect("git starts");
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn real_path(world: &World, path: &str) -> PathBuf {
    world.agents().cwd().join(path)
}

fn write(world: &World, path: &str, text: &str) {
    std::fs::write(real_path(world, path), format!("{text}\n")).expect("written");
}

#[given(
    expr = "a repository {string} with {string} holding {string} and {string} holding {string}"
)]
fn a_repository(
    world: &mut World,
    name: String,
    first: String,
    first_text: String,
    second: String,
    second_text: String,
) {
    std::fs::create_dir(real_path(world, &name)).expect("a folder");
    git(world, &name, &["init", "--quiet", "--initial-branch=main"]);
    write(world, &format!("{name}/{first}"), &first_text);
    write(world, &format!("{name}/{second}"), &second_text);
    git(world, &name, &["add", "-A"]);
    git(world, &name, &["commit", "--quiet", "-m", "first"]);
}

#[given(expr = "a sandbox {string} of {string}")]
fn a_sandbox(world: &mut World, name: String, path: String) {
    world
        .agents()
        .data(&["sandbox", "create", &name, "--path", &path]);
}

#[when(expr = "{string} runs {string}")]
fn it_runs(world: &mut World, name: String, script: String) {
    let answer = world.agents().run(&[
        "--format", "json", "sandbox", "exec", &name, "--", "sh", "-c", &script,
    ]);
    assert!(answer.out.contains("\"confinement\""), "{answer:?}");
    world.answer = Some(answer);
}

#[when(expr = "the user writes {string} into {string}")]
fn the_user_writes(world: &mut World, text: String, path: String) {
    write(world, &path, &text);
}

#[when(expr = "the user commits {string} as {string}")]
fn the_user_commits(world: &mut World, text: String, path: String) {
    write(world, &path, &text);
    let repository = path.split('/').next().unwrap_or_default().to_owned();
    git(
        world,
        &repository,
        &["commit", "--quiet", "-a", "-m", "mine"],
    );
}

#[then(expr = "the real {string} holds {string}")]
fn the_real_file_holds(world: &mut World, path: String, text: String) {
    let content = std::fs::read_to_string(real_path(world, &path)).expect("a file");
    assert_eq!(content, format!("{text}\n"));
}

#[then(expr = "the real {string} is gone")]
fn the_real_file_is_removed(world: &mut World, path: String) {
    assert!(!real_path(world, &path).exists());
}

fn changed_paths(world: &World, name: &str) -> Vec<String> {
    let data = world.agents().data(&["sandbox", "diff", name, "--stat"]);
    let changes = data["parts"][0]["changes"]
        .as_array()
        .expect("a list")
        .clone();
    let path = |change: &Value| change["path"].as_str().expect("a path").to_owned();
    changes.iter().map(path).collect()
}

#[then(expr = "the sandbox {string} has changed nothing")]
fn it_has_changed_nothing(world: &mut World, name: String) {
    assert_eq!(changed_paths(world, &name), Vec::<String>::new());
}

#[then(expr = "the sandbox {string} has changed {string}")]
fn it_has_changed_one(world: &mut World, name: String, path: String) {
    assert_eq!(changed_paths(world, &name), [path]);
}

#[then(expr = "the sandbox {string} has changed {string} and {string}")]
fn it_has_changed_two(world: &mut World, name: String, one: String, two: String) {
    assert_eq!(changed_paths(world, &name), [one, two]);
}

#[then(expr = "the sandbox {string} has changed {string}, {string}, {string} and {string}")]
fn it_has_changed(
    world: &mut World,
    name: String,
    one: String,
    two: String,
    three: String,
    four: String,
) {
    assert_eq!(changed_paths(world, &name), [one, two, three, four]);
}

#[then(expr = "the repository {string} is clean, with {int} commit(s) and no traces of a sandbox")]
fn it_is_clean(world: &mut World, name: String, commits: usize) {
    assert_eq!(
        git(world, &name, &["status", "--porcelain", "--ignored"]),
        ""
    );
    assert_eq!(
        git(world, &name, &["rev-list", "HEAD"]).lines().count(),
        commits
    );
    assert_eq!(git(world, &name, &["worktree", "list"]).lines().count(), 1);
    assert_eq!(
        git(world, &name, &["for-each-ref", "refs/cleveragents"]),
        ""
    );
    let sandboxes = world.agents().home().join("sandboxes");
    let left = std::fs::read_dir(sandboxes).map_or(0, Iterator::count);
    assert_eq!(left, 0, "no folder of a sandbox is left");
}

#[then(expr = "the repository {string} has {int} commit(s) and no unfinished merge")]
fn it_has_commits(world: &mut World, name: String, commits: usize) {
    assert_eq!(
        git(world, &name, &["rev-list", "HEAD"]).lines().count(),
        commits
    );
    assert!(!real_path(world, &name).join(".git/MERGE_HEAD").exists());
    assert!(!real_path(world, &name).join(".git/index.lock").exists());
}

#[then(expr = "the home holds no {string}")]
fn the_home_holds_no(world: &mut World, name: String) {
    let home = world.agents().home();
    assert!(!home.join(&name).exists());
    assert!(!home.parent().expect("a folder").join(&name).exists());
}
