//! Apply with concurrent edits of the user: the edits stay, or everything stays unchanged.

use std::path::{Path, PathBuf};

use cleveragents_testkit::{Agents, Answer};
use serde_json::Value;

use super::world::{agents, create, every_byte, git, names, read, repository, try_git, write};

/// A repository with a sandbox in which `edit` and `sub/deep` are changed.
struct Scene {
    agents: Agents,
    real: PathBuf,
    part: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let agents = agents();
        let real = agents.cwd().join("real");
        let lines = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let files = [
            ("edit", lines),
            ("mine", "mine\n"),
            ("staged", "staged\n"),
            ("sub/deep", "deep\n"),
            ("sub/other", "other\n"),
        ];
        repository(&real, &files);
        let part = create(&agents, "fix", &[&real]).remove(0);
        write(part.join("edit"), &lines.replace("1\n", "one\n"));
        write(part.join("sub/deep"), "deeper\n");
        write(part.join("sub/new"), "new\n");
        Self { agents, real, part }
    }

    fn apply(&self, more: &[&str]) -> Answer {
        let arguments = [&["--format", "json", "sandbox", "apply", "fix"], more].concat();
        self.agents.run(&arguments)
    }

    fn applied(&self) {
        let answer = self.apply(&[]);
        assert_eq!(answer.code, Some(0), "{answer:?}");
        assert!(read(self.real.join("edit")).starts_with("one\n"));
        assert_eq!(read(self.real.join("sub/deep")), "deeper\n");
        assert_eq!(read(self.real.join("sub/new")), "new\n");
        assert!(names(&self.agents).is_empty(), "the sandbox is over");
    }

    /// Asserts that apply refuses with this code, changes no byte, and keeps the sandbox.
    fn refused(&self, code: i32) -> Answer {
        let before = every_byte(&self.real);
        let preview = self.apply(&["--dry-run"]);
        assert_eq!(before, every_byte(&self.real), "a preview changes nothing");
        let answer = self.apply(&[]);
        assert_eq!(answer.code, Some(code), "{answer:?}");
        assert_eq!(before, every_byte(&self.real), "every byte is as before");
        assert_eq!(names(&self.agents), ["fix"], "the sandbox is there");
        assert_eq!(read(self.part.join("sub/new")), "new\n", "with its work");
        let is_conflict = answer.json()["data"]["conflicts"].is_array();
        assert!(!is_conflict || preview.code == Some(code), "{preview:?}");
        answer
    }

    /// Asserts that a path has a conflict, and returns it.
    fn conflict(&self, path: &str) -> Value {
        let answer = self.refused(4);
        let plain = self.agents.run(&["sandbox", "apply", "fix"]);
        assert_eq!(plain.code, Some(4), "{plain:?}");
        assert!(plain.out.contains(path), "the path is named: {plain:?}");
        let found = answer.json()["data"]["conflicts"].clone();
        let found = found.as_array().expect("conflicts are listed");
        let found = found.iter().find(|conflict| conflict["path"] == path);
        found
            .unwrap_or_else(|| panic!("no conflict at {path}: {answer:?}"))
            .clone()
    }

    fn at(&self, name: &str) -> PathBuf {
        self.real.join(name)
    }
}

#[test]
fn files_unchanged_in_the_sandbox_keep_the_users_edits() {
    let scene = Scene::new();
    write(scene.at("mine"), "edited by me\n");
    write(scene.at("staged"), "staged by me\n");
    git(&scene.real, &["add", "staged"]);
    write(scene.at("untracked"), "untracked\n");
    write(scene.at("intended"), "intended\n");
    git(&scene.real, &["add", "-N", "intended"]);
    let mine = git(&scene.real, &["status", "--porcelain", "-uall"]);
    scene.applied();
    let now = git(&scene.real, &["status", "--porcelain", "-uall"]);
    assert_eq!(now, mine, "the user's changes are as they were");
    let changed = git(&scene.real, &["diff", "--name-only", "HEAD^", "HEAD"]);
    assert_eq!(
        changed, "edit\nsub/deep\nsub/new\n",
        "only the sandbox's work"
    );
    assert_eq!(read(scene.at("mine")), "edited by me\n");
    assert_eq!(git(&scene.real, &["show", ":staged"]), "staged by me\n");
}

#[test]
fn an_uncommitted_edit_of_a_changed_file_is_a_conflict_with_both_sides() {
    let scene = Scene::new();
    write(scene.at("sub/deep"), "mine\n");
    let found = scene.conflict("sub/deep");
    assert_eq!(found["base"]["text"], "deep\n");
    assert_eq!(found["yours"]["text"], "mine\n");
    assert_eq!(found["sandbox"]["text"], "deeper\n");
    let plain = scene.agents.run(&["sandbox", "apply", "fix"]);
    assert!(plain.out.contains("+mine"), "{plain:?}");
    assert!(plain.out.contains("+deeper"), "{plain:?}");
    write(scene.at("sub/deep"), "deep\n");
    scene.applied();
}

#[test]
fn a_staged_edit_of_a_changed_file_is_a_conflict() {
    let scene = Scene::new();
    write(scene.at("sub/deep"), "mine\n");
    git(&scene.real, &["add", "sub/deep"]);
    // The file itself equals the commit: only the index differs.
    write(scene.at("sub/deep"), "deep\n");
    scene.conflict("sub/deep");
}

#[test]
fn an_untracked_file_is_a_conflict_unless_it_is_equal() {
    let scene = Scene::new();
    write(scene.at("sub/new"), "mine\n");
    let found = scene.conflict("sub/new");
    assert_eq!(found["yours"]["text"], "mine\n");
    assert_eq!(found["base"], Value::Null);
    write(scene.at("sub/new"), "new\n");
    scene.applied();
}

#[test]
fn a_branch_that_moved_is_merged_or_in_conflict() {
    let scene = Scene::new();
    write(scene.at("edit"), "1\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    git(&scene.real, &["commit", "-qam", "mine"]);
    scene.applied();
    assert_eq!(read(scene.at("edit")), "one\n2\n3\n4\n5\n6\n7\n8\nnine\n");
    let log = git(&scene.real, &["log", "--format=%P"]);
    assert_eq!(log.lines().count(), 3, "one commit more: {log}");
    assert_eq!(git(&scene.real, &["status", "--porcelain"]), "");

    let scene = Scene::new();
    write(scene.at("edit"), "uno\n2\n3\n4\n5\n6\n7\n8\n9\n");
    git(&scene.real, &["commit", "-qam", "mine"]);
    let found = scene.conflict("edit");
    for (side, start) in [("base", "1\n"), ("yours", "uno\n"), ("sandbox", "one\n")] {
        let text = found[side]["text"].as_str().expect("a text");
        assert!(text.starts_with(start), "{side}: {text}");
    }
}

#[test]
fn a_merge_is_made_on_request() {
    for is_moved in [false, true] {
        let scene = Scene::new();
        if is_moved {
            write(scene.at("mine"), "committed\n");
            git(&scene.real, &["commit", "-qam", "mine"]);
        }
        let before = git(&scene.real, &["rev-parse", "HEAD"]);
        let answer = scene.apply(&["--as", "merge", "--message", "the work"]);
        assert_eq!(answer.code, Some(0), "{answer:?}");
        let parents = git(&scene.real, &["log", "-1", "--format=%P"]);
        let parents: Vec<&str> = parents.split_whitespace().collect();
        assert_eq!(parents.len(), 2, "a merge");
        assert_eq!(parents[0], before.trim());
        assert!(git(&scene.real, &["log", "-1", "--format=%B"]).starts_with("the work"));
        assert_eq!(git(&scene.real, &["status", "--porcelain"]), "");
        assert_eq!(read(scene.at("sub/new")), "new\n");
    }
}

#[test]
fn a_detached_head_moves_and_no_branch_does() {
    let scene = Scene::new();
    git(&scene.real, &["checkout", "-q", "--detach"]);
    let main = git(&scene.real, &["rev-parse", "main"]);
    scene.applied();
    assert_eq!(git(&scene.real, &["rev-parse", "main"]), main);
    assert_eq!(git(&scene.real, &["rev-parse", "HEAD^"]), main);
    assert_ne!(
        try_git(&scene.real, &["symbolic-ref", "-q", "HEAD"]).code,
        Some(0)
    );
}

#[test]
fn a_folder_that_the_user_removed_or_renamed_is_a_conflict() {
    let scene = Scene::new();
    std::fs::remove_dir_all(scene.at("sub")).expect("removed");
    scene.conflict("sub/deep");

    let scene = Scene::new();
    std::fs::rename(scene.at("sub"), scene.at("elsewhere")).expect("renamed");
    scene.conflict("sub/deep");
}

#[test]
fn a_file_in_the_place_of_a_folder_is_a_conflict() {
    let scene = Scene::new();
    std::fs::remove_dir_all(scene.at("sub")).expect("removed");
    write(scene.at("sub"), "a file of mine\n");
    scene.conflict("sub/deep");

    let scene = Scene::new();
    write(scene.at("sub/new/mine"), "a folder of mine\n");
    scene.conflict("sub/new");
}

#[test]
fn a_folder_that_became_a_link_is_not_followed_outside() {
    let scene = Scene::new();
    let outside = scene.agents.cwd().join("outside");
    std::fs::rename(scene.at("sub"), &outside).expect("renamed");
    std::os::unix::fs::symlink(&outside, scene.at("sub")).expect("a link");
    let before = every_byte(&outside);
    scene.refused(4);
    assert_eq!(before, every_byte(&outside), "nothing outside changes");
}

#[test]
fn a_repository_in_use_is_not_changed() {
    let scene = Scene::new();
    write(scene.at(".git/index.lock"), "");
    scene.refused(4);
    std::fs::remove_file(scene.at(".git/index.lock")).expect("removed");
    scene.applied();

    let scene = Scene::new();
    git(&scene.real, &["checkout", "-q", "-b", "side"]);
    write(scene.at("mine"), "side\n");
    git(&scene.real, &["commit", "-qam", "side"]);
    git(&scene.real, &["checkout", "-q", "main"]);
    write(scene.at("mine"), "main\n");
    git(&scene.real, &["commit", "-qam", "main"]);
    assert_ne!(try_git(&scene.real, &["merge", "side"]).code, Some(0));
    let before = every_byte(&scene.real);
    let answer = scene.apply(&[]);
    assert_ne!(answer.code, Some(0), "{answer:?}");
    assert!(answer.out.contains("merge is in progress"), "{answer:?}");
    assert_eq!(before, every_byte(&scene.real), "every byte is as before");
    git(&scene.real, &["merge", "--abort"]);
    scene.applied();
}

/// Edits of the user in a folder that is not a git repository.
#[test]
fn a_folder_with_user_edits_keeps_them_or_stays_unchanged() {
    let agents = agents();
    let real = agents.cwd().join("real");
    for name in ["edit", "mine", "sub/deep"] {
        write(real.join(name), "before\n");
    }
    let part = create(&agents, "fix", &[&real]).remove(0);
    write(part.join("edit"), "after\n");
    write(part.join("sub/new"), "new\n");
    agents.data(&["sandbox", "checkpoint", "fix"]);
    write(real.join("mine"), "mine\n");
    let apply = || agents.run(&["--format", "json", "sandbox", "apply", "fix"]);
    let refused = |path: &str| {
        let before = every_byte(&real);
        let answer = apply();
        assert_eq!(answer.code, Some(4), "{answer:?}");
        assert_eq!(before, every_byte(&real), "every byte is as before");
        let found = answer.json()["data"]["conflicts"][0].clone();
        assert_eq!(found["path"], path);
        found
    };
    write(real.join("edit"), "mine\n");
    let found = refused("edit");
    assert_eq!(found["yours"]["text"], "mine\n");
    assert_eq!(found["sandbox"]["text"], "after\n");
    write(real.join("edit"), "before\n");
    let outside = agents.cwd().join("outside");
    std::fs::rename(real.join("sub"), &outside).expect("renamed");
    std::os::unix::fs::symlink(&outside, real.join("sub")).expect("a link");
    let before = every_byte(&outside);
    refused("sub/new");
    assert_eq!(before, every_byte(&outside), "nothing outside changes");
    std::fs::remove_file(real.join("sub")).expect("removed");
    std::fs::rename(&outside, real.join("sub")).expect("renamed");
    assert_eq!(apply().code, Some(0));
    assert_eq!(read(real.join("edit")), "after\n");
    assert_eq!(read(real.join("mine")), "mine\n");
    assert_eq!(read(real.join("sub/new")), "new\n");
}

/// The changed paths and their operations in the output of an apply or a preview.
fn listed(answer: &Answer) -> Vec<(String, String)> {
    let parts = answer.json()["data"]["parts"].clone();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let parts = parts.as_array().expect("parts");
    parts
        .iter()
        .flat_map(|part| part["files"].as_array().expect("files").clone())
        .map(|file| (text(&file["path"]), text(&file["operation"])))
        .collect()
}

#[test]
fn a_preview_reports_exactly_what_apply_does_and_changes_nothing() {
    let scene = Scene::new();
    std::fs::remove_file(scene.part.join("sub/other")).expect("removed");
    std::fs::remove_file(scene.part.join("mine")).expect("removed");
    write(scene.part.join("mine/inside"), "a folder now\n");
    let before = every_byte(&scene.real);
    let objects = |repository: &Path| git(repository, &["count-objects"]);
    let count = objects(&scene.real);
    let preview = scene.apply(&["--dry-run"]);
    assert_eq!(preview.code, Some(0), "{preview:?}");
    assert_eq!(before, every_byte(&scene.real), "nothing happened");
    assert_eq!(objects(&scene.real), count, "not even objects are left");
    let applied = scene.apply(&[]);
    assert_eq!(applied.code, Some(0), "{applied:?}");
    assert_eq!(listed(&preview), listed(&applied));
    assert_eq!(read(scene.at("mine/inside")), "a folder now\n");
    assert_eq!(git(&scene.real, &["status", "--porcelain"]), "");
}
