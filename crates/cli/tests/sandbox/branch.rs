//! Apply to a new branch: the user's files, index and current branch keep every byte.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cleveragents_testkit::{Agents, Answer};

use super::world::{
    agents, assert_nothing_leaked, commit, create, every_byte, git, names, repository, write,
};

const FILES: &[(&str, &str)] = &[("keep", "same\n"), ("edit", "old\n"), ("gone", "away\n")];

fn change(part: &Path) {
    write(part.join("edit"), "changed\n");
    write(part.join("new/file"), "new\n");
    std::fs::remove_file(part.join("gone")).expect("removed");
}

fn apply(agents: &Agents, branch: &str) -> Answer {
    agents.run(&[
        "--format", "json", "sandbox", "apply", "fix", "--branch", branch,
    ])
}

/// Every byte of a repository except its branches and their logs.
fn rest(place: &Path) -> BTreeMap<String, String> {
    let mut entries = every_byte(place);
    entries.retain(|name, _| {
        !name.starts_with(".git/refs/heads/") && !name.starts_with(".git/logs/refs/heads")
    });
    entries
}

#[test]
fn the_result_is_committed_on_a_new_branch_and_nothing_else_changes() {
    let agents = agents();
    let real = agents.cwd().join("real");
    repository(&real, FILES);
    // The sandbox starts with uncommitted edits of the user, which stay uncommitted.
    write(real.join("keep"), "edited by the user\n");
    write(real.join("staged"), "staged\n");
    git(&real, &["add", "staged"]);
    let part = create(&agents, "fix", &[&real]).remove(0);
    let base = git(&real, &["rev-parse", "HEAD"]);
    change(&part);
    // The user's branch moves, an edit overlaps the change, and a merge is in progress.
    write(real.join("other"), "committed meanwhile\n");
    git(&real, &["add", "other"]);
    git(&real, &["commit", "-q", "-m", "meanwhile", "other"]);
    write(real.join("edit"), "edited by the user\n");
    let head = git(&real, &["rev-parse", "HEAD"]);
    write(real.join(".git/MERGE_HEAD"), &head);
    let before = rest(&real);
    let preview = agents.data(&["sandbox", "apply", "fix", "--branch", "fix/it", "--dry-run"]);
    assert_eq!(preview["parts"][0]["commit"]["is_new_branch"], true);
    assert_eq!(git(&real, &["branch", "--list", "fix/it"]), "");

    let answer = apply(&agents, "fix/it");
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert_eq!(rest(&real), before);
    assert_eq!(git(&real, &["rev-parse", "HEAD"]), head);
    assert_eq!(git(&real, &["rev-parse", "fix/it^"]), base);
    assert_eq!(
        git(&real, &["diff", "--name-status", "fix/it^", "fix/it"]),
        "M\tedit\nD\tgone\nA\tnew/file\n"
    );
    assert_eq!(git(&real, &["show", "fix/it:edit"]), "changed\n");
    assert!(names(&agents).is_empty(), "the sandbox is closed");
    assert_nothing_leaked(&agents, &[&real], &[]);
}

#[test]
fn a_branch_that_cannot_be_created_is_refused_and_nothing_changes() {
    let agents = agents();
    let real = agents.cwd().join("real");
    repository(&real, FILES);
    git(&real, &["branch", "taken/deep"]);
    let part = create(&agents, "fix", &[&real]).remove(0);
    change(&part);
    let before = every_byte(&real);
    for (branch, reason) in [
        ("taken/deep", "already has a branch"),
        ("taken", "`taken/deep`"),
        ("taken/deep/er", "`taken/deep`"),
        ("a..b", "does not accept"),
        ("ends.lock", "does not accept"),
        ("HEAD", "does not accept"),
        ("", "does not accept"),
    ] {
        let answer = apply(&agents, branch);
        assert_ne!(answer.code, Some(0), "{branch}: {answer:?}");
        let text = answer.out + &answer.err;
        assert!(text.contains("CA-0"), "{branch}: {text}");
        assert!(text.contains(reason), "{branch}: {text}");
        assert_eq!(every_byte(&real), before, "{branch}");
        assert_eq!(names(&agents), ["fix"]);
    }
    let answer = apply(&agents, "taken/deep");
    assert!((answer.out + &answer.err).contains("git branch -D taken/deep"));
}

#[test]
fn a_changed_part_that_is_not_a_repository_is_refused_by_name() {
    let agents = agents();
    let (real, plain) = (agents.cwd().join("real"), agents.cwd().join("plain"));
    repository(&real, FILES);
    write(plain.join("notes"), "old\n");
    let parts = create(&agents, "fix", &[&real, &plain]);
    change(&parts[0]);
    write(parts[1].join("notes"), "new\n");
    let before = every_byte(&real);
    let answer = apply(&agents, "fix/it");
    assert_ne!(answer.code, Some(0), "{answer:?}");
    let text = answer.out + &answer.err;
    assert!(text.contains("part `plain`"), "{text}");
    assert!(text.contains("not a git repository"), "{text}");
    assert_eq!(every_byte(&real), before);
    assert_eq!(names(&agents), ["fix"]);
}

#[test]
fn an_apply_to_a_branch_killed_at_any_step_creates_it_whole_or_not_at_all() {
    let agents = agents();
    let places: Vec<PathBuf> = ["one", "two"].map(|name| agents.cwd().join(name)).into();
    for place in &places {
        repository(place, FILES);
    }
    let (mut finished, mut undone) = (0, 0);
    for step in 1.. {
        let parts = create(
            &agents,
            "fix",
            &places.iter().map(PathBuf::as_path).collect::<Vec<_>>(),
        );
        for part in &parts {
            change(part);
        }
        agents.data(&["sandbox", "checkpoint", "fix"]);
        let before: Vec<_> = places.iter().map(|place| rest(place)).collect();
        let branch = format!("fix/{step}");
        let output = agents
            .command(["sandbox", "apply", "fix", "--branch", &branch])
            .env("CLEVERAGENTS_DIE_AT_STEP", step.to_string())
            .output()
            .expect("the program starts");
        let was_killed = output.status.code().is_none();
        let open = names(&agents);
        let exists: Vec<bool> = places
            .iter()
            .map(|place| !git(place, &["branch", "--list", &branch]).is_empty())
            .collect();
        assert_eq!(exists[0], exists[1], "step {step}");
        assert_eq!(open.is_empty(), exists[0], "step {step}: {open:?}");
        for (place, before) in places.iter().zip(&before) {
            assert_eq!(rest(place), *before, "step {step}");
            git(place, &["fsck", "--strict"]);
        }
        if !exists[0] {
            undone += 1;
            agents.data(&["sandbox", "apply", "fix", "--branch", &branch]);
        } else if was_killed {
            finished += 1;
        }
        for place in &places {
            let changed = git(place, &["diff", "--name-only", "main", &branch]);
            assert_eq!(changed, "edit\ngone\nnew/file\n", "step {step}");
        }
        if !was_killed {
            break;
        }
    }
    assert!(finished > 2 && undone > 1, "{finished} and {undone}");
    let repositories: Vec<&Path> = places.iter().map(PathBuf::as_path).collect();
    assert_nothing_leaked(&agents, &repositories, &[]);
}

#[test]
fn a_branch_created_during_the_apply_is_not_overwritten() {
    let agents = agents();
    let real = agents.cwd().join("real");
    repository(&real, FILES);
    let part = create(&agents, "fix", &[&real]).remove(0);
    change(&part);
    agents.data(&["sandbox", "checkpoint", "fix"]);
    // The first process dies before the branch exists; then the user creates it.
    for step in 1.. {
        let output = agents
            .command(["sandbox", "apply", "fix", "--branch", "mine"])
            .env("CLEVERAGENTS_DIE_AT_STEP", step.to_string())
            .output()
            .expect("the program starts");
        assert!(output.status.code().is_none(), "killed before the branch");
        if !git(&real, &["branch", "--list", "mine"]).is_empty() {
            break;
        }
        commit(&real, "later");
        git(&real, &["branch", "mine"]);
        let own = git(&real, &["rev-parse", "mine"]);
        assert_eq!(names(&agents), ["fix"], "step {step}");
        assert_eq!(git(&real, &["rev-parse", "mine"]), own, "step {step}");
        git(&real, &["branch", "-q", "-D", "mine"]);
    }
}
