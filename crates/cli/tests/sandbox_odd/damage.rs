//! Damaged sandboxes and missing originals: a clear error, and a recovery that leaves nothing
//! behind.

use std::path::{Path, PathBuf};

use super::{Bench, assert_same, read, tree};

/// A sandbox with one recorded change.
fn changed() -> (Bench, PathBuf) {
    let bench = Bench::new();
    let repository = bench.repository("r");
    bench.create(&repository);
    bench.sh("echo changed > a.txt");
    (bench, repository)
}

fn remove(place: &Path) {
    if place.is_dir() {
        std::fs::remove_dir_all(place).expect("a folder");
    } else {
        std::fs::remove_file(place).expect("a file");
    }
}

/// Every command except `list`, `show` and `discard` reports that the sandbox is damaged; those
/// work.
fn assert_damaged(bench: &Bench, code: &str) {
    for command in [
        vec!["sandbox", "exec", "s", "--", "true"],
        vec!["sandbox", "diff", "s"],
        vec!["sandbox", "checkpoint", "s"],
        vec!["sandbox", "rollback", "s"],
        vec!["sandbox", "apply", "s"],
    ] {
        bench.refused(&command, 1, code);
    }
    bench.done(["sandbox", "list"]);
    bench.done(["sandbox", "show", "s"]);
}

#[test]
fn a_sandbox_whose_files_were_removed_can_be_discarded() {
    for what in [
        "",
        "work",
        "work/r",
        "state",
        "state/parts",
        "state/parts/r/manifest",
    ] {
        let (bench, repository) = changed();
        let before = tree(&repository);
        remove(&bench.sandbox().join(what));
        assert_damaged(&bench, "CA-0644");
        assert_same(&before, &tree(&repository));
        bench.discard();
        bench.assert_nothing_left(&repository);
        bench.create(&repository);
        bench.sh("echo again > a.txt");
        bench.apply_and_check(&repository);
    }
}

#[test]
fn a_truncated_manifest_is_reported() {
    for length in [0, 1, 20, 60] {
        let (bench, repository) = changed();
        let place = bench.sandbox().join("state/parts/r/manifest");
        let whole = std::fs::read(&place).expect("a file");
        std::fs::write(&place, &whole[..length]).expect("a file");
        bench.refused(&["sandbox", "diff", "s"], 1, "CA-0644");
        bench.discard();
        bench.assert_nothing_left(&repository);
    }
}

fn objects(bench: &Bench) -> Vec<PathBuf> {
    tree(&bench.sandbox().join("state/objects"))
        .into_keys()
        .filter(|path| path.is_file())
        .collect()
}

/// Content that a rollback needs: missing, corrupted, or with a wrong hash.
#[test]
fn a_rollback_whose_content_is_lost_changes_nothing_and_blocks_nothing() {
    for damage in ["gone", "junk", "other"] {
        let (bench, repository) = changed();
        bench.sh("echo second > d/b.txt");
        let all = objects(&bench);
        for place in &all {
            match damage {
                "gone" => remove(place),
                "junk" => std::fs::write(place, "junk").expect("a file"),
                _ => drop(std::fs::copy(&all[0], place).expect("a file")),
            }
        }
        let work = bench.sandbox().join("work/r");
        let before = tree(&work);
        let error = bench.refused(&["sandbox", "rollback", "s", "--to", "1"], 1, "CA-0652");
        assert!(
            error["message"].as_str().expect("text").contains("a.txt"),
            "{error}"
        );
        assert_same(&before, &tree(&work));
        bench.done(["sandbox", "list"]);
        bench.sh("echo third > a.txt");
        bench.discard();
        bench.assert_nothing_left(&repository);
    }
}

/// An apply reads all its content before it changes anything.
#[test]
fn an_apply_whose_content_is_damaged_is_refused() {
    let (bench, repository) = changed();
    for place in objects(&bench) {
        std::fs::write(place, "junk").expect("a file");
    }
    bench.apply_refused(&repository, 1, "CA-0652");
    bench.discard();
    bench.assert_nothing_left(&repository);
}

#[test]
fn the_git_file_of_a_worktree_may_be_anything() {
    for script in [
        "rm .git",
        "rm .git; git init -q .; touch .git/x; chmod 500 .git",
        "rm .git; ln -s /etc .git",
        "rm .git; echo 'gitdir: /nowhere' > .git",
        "rm .git; mkfifo .git",
    ] {
        let (bench, repository) = changed();
        bench.sh(script);
        assert_eq!(bench.diff().len(), 1, "{script}");
        let answer = bench.sh("git status --short");
        assert_eq!(answer.out, " M a.txt\n", "{script}: it is put right");
        bench.sh(script);
        bench.apply_and_check(&repository);
    }
}

/// The sandbox has its own repository, so the user's `git worktree prune` and `git gc` do not
/// affect it.
#[test]
fn housekeeping_in_the_repository_does_no_harm() {
    let (bench, repository) = changed();
    bench.sh("git add -A; git commit -qm inside; echo 2 > new; git add new");
    for command in [
        vec!["worktree", "prune"],
        vec!["gc", "-q", "--prune=now"],
        vec!["fsck"],
        vec!["log", "--all", "--oneline"],
        vec!["repack", "-adq"],
        vec!["reflog", "expire", "--expire=now", "--all"],
    ] {
        bench.git(&repository, &command);
    }
    bench.sh("git fsck; git log --oneline");
    bench.apply_and_check(&repository);
}

#[test]
fn a_missing_base_commit_is_reported() {
    let (bench, repository) = changed();
    let kept = bench.git(
        &repository,
        &["for-each-ref", "--format=%(refname)", "refs/cleveragents"],
    );
    bench.git(&repository, &["update-ref", "-d", &kept]);
    bench.git(
        &repository,
        &["commit", "-q", "--amend", "-m", "another root"],
    );
    bench.git(&repository, &["reflog", "expire", "--expire=now", "--all"]);
    bench.git(&repository, &["gc", "-q", "--prune=now"]);
    let message = bench.apply_refused(&repository, 1, "CA-0644");
    assert!(message.contains("is gone from"), "{message}");
    bench.discard();
    bench.assert_nothing_left(&repository);
}

#[test]
fn a_deleted_branch_is_reported() {
    let (bench, repository) = changed();
    bench.git(&repository, &["checkout", "-q", "--orphan", "fresh"]);
    bench.git(&repository, &["branch", "-q", "-D", "main"]);
    let message = bench.apply_refused(&repository, 1, "CA-0646");
    assert!(message.contains("no commit"), "{message}");
    bench.git(&repository, &["commit", "-q", "-m", "fresh"]);
    bench.apply_and_check(&repository);
}

/// Moved away, deleted, replaced by a file, or no longer a repository.
#[test]
fn a_missing_original_is_reported() {
    for (what, code) in [
        ("moved", "CA-0644"),
        ("file", "CA-0644"),
        ("bare folder", "CA-0646"),
    ] {
        let (bench, repository) = changed();
        let away = bench.folder().join("away");
        match what {
            "bare folder" => remove(&repository.join(".git")),
            _ => std::fs::rename(&repository, &away).expect("it can be moved"),
        }
        if what == "file" {
            std::fs::write(&repository, "a file").expect("a file");
        }
        bench.refused(&["sandbox", "apply", "s"], 1, code);
        bench.discard();
        bench.done(["sandbox", "list"]);
        bench.assert_nothing_left(&bench.folder().join("none"));
    }
}

#[test]
fn a_moved_repository_works_again_when_it_is_back() {
    let (bench, repository) = changed();
    let away = bench.folder().join("away");
    std::fs::rename(&repository, &away).expect("it can be moved");
    bench.refused(&["sandbox", "apply", "s"], 1, "CA-0644");
    std::fs::rename(&away, &repository).expect("it can be moved");
    bench.apply_and_check(&repository);
}

#[test]
fn a_missing_directory_is_reported() {
    for is_file in [false, true] {
        let bench = Bench::new();
        let folder = bench.folder().join("plain");
        std::fs::create_dir(&folder).expect("a folder");
        std::fs::write(folder.join("f"), "1").expect("a file");
        bench.create(&folder);
        bench.sh("echo 2 > f");
        remove(&folder);
        if is_file {
            std::fs::write(&folder, "a file").expect("a file");
        }
        bench.refused(&["sandbox", "apply", "s"], 1, "CA-0644");
        bench.refused(&["sandbox", "exec", "s", "--", "true"], 1, "CA-0644");
        bench.discard();
        bench.assert_nothing_left(&folder);
        assert_eq!(folder.is_file(), is_file, "and nothing was made there");
    }
}

/// The journal of an interrupted apply cannot be read: only discard is possible, and it lists the
/// files to check.
#[test]
fn an_apply_with_a_damaged_journal_can_be_discarded() {
    let (bench, repository) = changed();
    bench.create_other(&repository);
    let output = bench
        .agents
        .command(["sandbox", "apply", "s"])
        .env("CLEVERAGENTS_DIE_AT_STEP", "3")
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), None, "it was killed");
    let journal = tree(&bench.agents.home().join("sandboxes"))
        .into_keys()
        .find(|path| path.ends_with("state/apply.json"))
        .expect("a journal");
    let whole = std::fs::read(&journal).expect("a file");
    std::fs::write(&journal, &whole[..whole.len() / 2]).expect("a file");
    // Other sandboxes still work.
    let answer = bench.done(["sandbox", "exec", "other", "--", "true"]);
    assert!(answer.err.contains("`s` was interrupted"), "{answer:?}");
    bench.refused(&["sandbox", "diff", "s"], 1, "CA-0644");
    let answer = bench.done(["sandbox", "discard", "s", "--yes"]);
    assert!(answer.err.contains(".cleveragents-apply-"), "{answer:?}");
    bench.done(["sandbox", "discard", "other", "--yes"]);
    assert_eq!(read(repository.join("a.txt")), "one\n");
    assert!(
        bench
            .git(&repository, &["for-each-ref", "refs/cleveragents"])
            .is_empty()
    );
    let sandboxes = tree(&bench.agents.home().join("sandboxes"));
    assert!(sandboxes.is_empty(), "{:?}", sandboxes.keys());
}

impl Bench {
    /// A second sandbox of the same folder.
    fn create_other(&self, place: &Path) {
        let text = place.to_str().expect("UTF-8");
        self.done(["sandbox", "create", "other", "--path", text]);
    }
}

/// Read-only folders that a command created are removed too.
#[test]
fn removed_permissions_do_not_prevent_a_discard() {
    let bench = Bench::new();
    let repository = bench.repository("r");
    bench.create(&repository);
    bench.sh("mkdir -p x/y; echo 1 > x/y/f; chmod 500 x/y x; chmod 400 a.txt");
    assert_eq!(bench.diff().len(), 4);
    bench.done(["sandbox", "rollback", "s"]);
    assert!(bench.diff().is_empty());
    bench.done(["sandbox", "redo", "s"]);
    bench.discard();
    bench.assert_nothing_left(&repository);
}
