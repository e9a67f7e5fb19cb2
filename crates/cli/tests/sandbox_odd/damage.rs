//! Damaged sandboxes and missing originals: the program reports a clear error, and discarding the
//! sandbox leaves nothing behind.

use std::path::{Path, PathBuf};

use super::{SandboxFixture, assert_same, read, tree};

/// A sandbox with one recorded change.
fn bench_with_change() -> (SandboxFixture, PathBuf) {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    fixture.create(&repository);
    fixture.sh("echo changed > a.txt");
    (fixture, repository)
}

fn remove(path: &Path) {
    if path.is_dir() {
        std::fs::remove_dir_all(path).expect("a folder");
    } else {
        std::fs::remove_file(path).expect("a file");
    }
}

/// Asserts that every command except `list`, `show` and `discard` reports that the sandbox is
/// damaged, and that `list` and `show` work.
fn assert_damaged(fixture: &SandboxFixture, code: &str) {
    for command in [
        vec!["sandbox", "exec", "s", "--", "true"],
        vec!["sandbox", "diff", "s"],
        vec!["sandbox", "checkpoint", "s"],
        vec!["sandbox", "rollback", "s"],
        vec!["sandbox", "apply", "s"],
    ] {
        fixture.refused(&command, 1, code);
    }
    fixture.run_successfully(["sandbox", "list"]);
    fixture.run_successfully(["sandbox", "show", "s"]);
}

#[test]
fn a_sandbox_whose_files_were_removed_can_be_discarded() {
    for name in [
        "",
        "work",
        "work/r",
        "state",
        "state/parts",
        "state/parts/r/manifest",
    ] {
        let (fixture, repository) = bench_with_change();
        let before = tree(&repository);
        remove(&fixture.sandbox().join(name));
        assert_damaged(&fixture, "CA-0644");
        assert_same(&before, &tree(&repository));
        fixture.discard();
        fixture.assert_nothing_left(&repository);
        fixture.create(&repository);
        fixture.sh("echo again > a.txt");
        fixture.apply_and_check(&repository);
    }
}

#[test]
fn a_truncated_manifest_is_reported() {
    for length in [0, 1, 20, 60] {
        let (fixture, repository) = bench_with_change();
        let path = fixture.sandbox().join("state/parts/r/manifest");
        let content = std::fs::read(&path).expect("a file");
        std::fs::write(&path, &content[..length]).expect("a file");
        fixture.refused(&["sandbox", "diff", "s"], 1, "CA-0644");
        fixture.discard();
        fixture.assert_nothing_left(&repository);
    }
}

fn objects(fixture: &SandboxFixture) -> Vec<PathBuf> {
    tree(&fixture.sandbox().join("state/objects"))
        .into_keys()
        .filter(|path| path.is_file())
        .collect()
}

/// The content that a rollback needs is missing, corrupted, or has a wrong hash.
#[test]
fn a_rollback_whose_content_is_lost_changes_nothing_and_blocks_nothing() {
    for damage in ["gone", "junk", "other"] {
        let (fixture, repository) = bench_with_change();
        fixture.sh("echo second > d/b.txt");
        let paths = objects(&fixture);
        for path in &paths {
            match damage {
                "gone" => remove(path),
                "junk" => std::fs::write(path, "junk").expect("a file"),
                _ => drop(std::fs::copy(&paths[0], path).expect("a file")),
            }
        }
        let work = fixture.sandbox().join("work/r");
        let before = tree(&work);
        let error = fixture.refused(&["sandbox", "rollback", "s", "--to", "1"], 1, "CA-0652");
        assert!(
            error["message"].as_str().expect("text").contains("a.txt"),
            "{error}"
        );
        assert_same(&before, &tree(&work));
        fixture.run_successfully(["sandbox", "list"]);
        fixture.sh("echo third > a.txt");
        fixture.discard();
        fixture.assert_nothing_left(&repository);
    }
}

/// An apply reads all its content before it changes anything.
#[test]
fn an_apply_whose_content_is_damaged_is_refused() {
    let (fixture, repository) = bench_with_change();
    for path in objects(&fixture) {
        std::fs::write(path, "junk").expect("a file");
    }
    fixture.apply_refused(&repository, 1, "CA-0652");
    fixture.discard();
    fixture.assert_nothing_left(&repository);
}

#[test]
fn a_damaged_git_file_of_a_worktree_is_restored() {
    for script in [
        "rm .git",
        "rm .git; git init -q .; touch .git/x; chmod 500 .git",
        "rm .git; ln -s /etc .git",
        "rm .git; echo 'gitdir: /nowhere' > .git",
        "rm .git; mkfifo .git",
    ] {
        let (fixture, repository) = bench_with_change();
        fixture.sh(script);
        assert_eq!(fixture.diff().len(), 1, "{script}");
        let answer = fixture.sh("git status --short");
        assert_eq!(answer.out, " M a.txt\n", "{script}: git works again");
        fixture.sh(script);
        fixture.apply_and_check(&repository);
    }
}

/// The sandbox has its own repository, so the user's `git worktree prune` and `git gc` do not
/// affect it.
#[test]
fn housekeeping_in_the_repository_does_not_affect_the_sandbox() {
    let (fixture, repository) = bench_with_change();
    fixture.sh("git add -A; git commit -qm inside; echo 2 > new; git add new");
    for command in [
        vec!["worktree", "prune"],
        vec!["gc", "-q", "--prune=now"],
        vec!["fsck"],
        vec!["log", "--all", "--oneline"],
        vec!["repack", "-adq"],
        vec!["reflog", "expire", "--expire=now", "--all"],
    ] {
        fixture.git(&repository, &command);
    }
    fixture.sh("git fsck; git log --oneline");
    fixture.apply_and_check(&repository);
}

#[test]
fn a_missing_base_commit_is_reported() {
    let (fixture, repository) = bench_with_change();
    let reference = fixture.git(
        &repository,
        &["for-each-ref", "--format=%(refname)", "refs/cleveragents"],
    );
    fixture.git(&repository, &["update-ref", "-d", &reference]);
    fixture.git(
        &repository,
        &["commit", "-q", "--amend", "-m", "another root"],
    );
    fixture.git(&repository, &["reflog", "expire", "--expire=now", "--all"]);
    fixture.git(&repository, &["gc", "-q", "--prune=now"]);
    let message = fixture.apply_refused(&repository, 1, "CA-0644");
    assert!(message.contains("does not exist any more in"), "{message}");
    fixture.discard();
    fixture.assert_nothing_left(&repository);
}

#[test]
fn a_deleted_branch_is_reported() {
    let (fixture, repository) = bench_with_change();
    fixture.git(&repository, &["checkout", "-q", "--orphan", "fresh"]);
    fixture.git(&repository, &["branch", "-q", "-D", "main"]);
    let message = fixture.apply_refused(&repository, 1, "CA-0646");
    assert!(message.contains("no commit"), "{message}");
    fixture.git(&repository, &["commit", "-q", "-m", "fresh"]);
    fixture.apply_and_check(&repository);
}

/// The original was moved away, replaced by a file, or is no longer a repository.
#[test]
fn a_missing_original_is_reported() {
    for (damage, code) in [
        ("moved", "CA-0644"),
        ("file", "CA-0644"),
        ("bare folder", "CA-0646"),
    ] {
        let (fixture, repository) = bench_with_change();
        let away = fixture.folder().join("away");
        match damage {
            "bare folder" => remove(&repository.join(".git")),
            _ => std::fs::rename(&repository, &away).expect("renamed"),
        }
        if damage == "file" {
            std::fs::write(&repository, "a file").expect("a file");
        }
        fixture.refused(&["sandbox", "apply", "s"], 1, code);
        fixture.discard();
        fixture.run_successfully(["sandbox", "list"]);
        fixture.assert_nothing_left(&fixture.folder().join("none"));
    }
}

#[test]
fn a_moved_repository_works_again_after_it_is_moved_back() {
    let (fixture, repository) = bench_with_change();
    let away = fixture.folder().join("away");
    std::fs::rename(&repository, &away).expect("renamed");
    fixture.refused(&["sandbox", "apply", "s"], 1, "CA-0644");
    std::fs::rename(&away, &repository).expect("renamed");
    fixture.apply_and_check(&repository);
}

#[test]
fn a_missing_directory_is_reported() {
    for is_file in [false, true] {
        let fixture = SandboxFixture::new();
        let folder = fixture.folder().join("plain");
        std::fs::create_dir(&folder).expect("a folder");
        std::fs::write(folder.join("f"), "1").expect("a file");
        fixture.create(&folder);
        fixture.sh("echo 2 > f");
        remove(&folder);
        if is_file {
            std::fs::write(&folder, "a file").expect("a file");
        }
        fixture.refused(&["sandbox", "apply", "s"], 1, "CA-0644");
        fixture.refused(&["sandbox", "exec", "s", "--", "true"], 1, "CA-0644");
        fixture.discard();
        fixture.assert_nothing_left(&folder);
        assert_eq!(folder.is_file(), is_file, "nothing is created in its place");
    }
}

/// If the journal of an interrupted apply cannot be read, only discard is possible. It lists the
/// files to check.
#[test]
fn an_apply_with_a_damaged_journal_can_be_discarded() {
    let (fixture, repository) = bench_with_change();
    fixture.create_other(&repository);
    let output = fixture
        .agents
        .command(["sandbox", "apply", "s"])
        .env("CLEVERAGENTS_DIE_AT_STEP", "3")
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), None, "the program was killed");
    let journal = tree(&fixture.agents.home().join("sandboxes"))
        .into_keys()
        .find(|path| path.ends_with("state/apply.json"))
        .expect("a journal");
    let content = std::fs::read(&journal).expect("a file");
    std::fs::write(&journal, &content[..content.len() / 2]).expect("a file");
    // Other sandboxes still work.
    let answer = fixture.run_successfully(["sandbox", "exec", "other", "--", "true"]);
    assert!(answer.err.contains("`s` was interrupted"), "{answer:?}");
    fixture.refused(&["sandbox", "diff", "s"], 1, "CA-0644");
    let answer = fixture.run_successfully(["sandbox", "discard", "s", "--yes"]);
    assert!(answer.err.contains(".cleveragents-apply-"), "{answer:?}");
    fixture.run_successfully(["sandbox", "discard", "other", "--yes"]);
    assert_eq!(read(repository.join("a.txt")), "one\n");
    assert!(
        fixture
            .git(&repository, &["for-each-ref", "refs/cleveragents"])
            .is_empty()
    );
    let sandboxes = tree(&fixture.agents.home().join("sandboxes"));
    assert!(sandboxes.is_empty(), "{:?}", sandboxes.keys());
}

impl SandboxFixture {
    /// Creates the sandbox `other` of a folder.
    fn create_other(&self, path: &Path) {
        let text = path.to_str().expect("UTF-8");
        self.run_successfully(["sandbox", "create", "other", "--path", text]);
    }
}

/// A discard also removes read-only folders that a command created.
#[test]
fn removed_permissions_do_not_prevent_a_discard() {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    fixture.create(&repository);
    fixture.sh("mkdir -p x/y; echo 1 > x/y/f; chmod 500 x/y x; chmod 400 a.txt");
    assert_eq!(fixture.diff().len(), 4);
    fixture.run_successfully(["sandbox", "rollback", "s"]);
    assert!(fixture.diff().is_empty());
    fixture.run_successfully(["sandbox", "redo", "s"]);
    fixture.discard();
    fixture.assert_nothing_left(&repository);
}
