//! Kinds of repositories: bare, shallow, linked, without commits, of other formats.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use cleveragents_testkit::not_run;

use super::{SandboxFixture, assert_same, files, read, tree};

#[test]
fn creating_using_and_discarding_a_sandbox_leaves_a_repository_unchanged() {
    let fixture = SandboxFixture::new();
    fixture.config("core.logAllRefUpdates", "always");
    let repository = fixture.repository("r");
    let before = tree(&repository);
    fixture.create(&repository);
    fixture.sh("echo 2 > a.txt; git add -A; git commit -qm inside; git branch b; echo 3 > new");
    fixture.run_successfully(["sandbox", "diff", "s"]);
    fixture.run_successfully(["sandbox", "apply", "s", "--dry-run"]);
    fixture.run_successfully(["sandbox", "checkpoint", "s"]);
    fixture.run_successfully(["sandbox", "rollback", "s", "--to", "1"]);
    fixture.discard();
    assert_same(&before, &tree(&repository));
    fixture.assert_nothing_left(&repository);
}

#[test]
fn a_bare_repository_gets_the_commit_and_no_files() {
    let fixture = SandboxFixture::new();
    let origin = fixture.repository("origin");
    let bare = fixture.folder().join("bare.git");
    fixture.git(
        &fixture.folder(),
        &["clone", "-q", "--bare", "origin", "bare.git"],
    );
    let before = files(&bare);
    fixture.create(&bare);
    fixture.sh("echo changed > a.txt; git status --short");
    let applied = fixture.apply();
    assert_eq!(applied["parts"][0]["commit"]["branch"], "refs/heads/main");
    assert_eq!(fixture.git(&bare, &["show", "main:a.txt"]), "changed");
    assert_eq!(fixture.git(&bare, &["rev-list", "--count", "main"]), "2");
    assert!(!bare.join("a.txt").exists() && !bare.join("index").exists());
    assert!(
        files(&bare).len() > before.len(),
        "the commit added objects"
    );
    fixture.git(&bare, &["fsck", "--strict"]);
    fixture.assert_nothing_left(&bare);
    assert_eq!(fixture.git(&origin, &["rev-list", "--count", "main"]), "1");
}

#[test]
fn a_shallow_clone_gets_the_commit() {
    let fixture = SandboxFixture::new();
    let origin = fixture.repository("origin");
    std::fs::write(origin.join("a.txt"), "later\n").expect("a file");
    fixture.commit(&origin, "second");
    let url = format!("file://{}", origin.display());
    fixture.git(
        &fixture.folder(),
        &["clone", "-q", "--depth", "1", &url, "shallow"],
    );
    let shallow = fixture.folder().join("shallow");
    fixture.create(&shallow);
    fixture
        .sh("test $(git rev-list --count HEAD) = 1; echo x > new; git add new; git commit -qm x");
    fixture.apply_and_check(&shallow);
    assert!(shallow.join(".git/shallow").exists(), "it is still shallow");
}

#[test]
fn only_the_given_linked_worktree_changes() {
    let fixture = SandboxFixture::new();
    let main = fixture.repository("main");
    fixture.git(&main, &["worktree", "add", "-q", "../one", "-b", "one"]);
    let one = fixture.folder().join("one");
    fixture.git(&one, &["worktree", "add", "-q", "../two", "-b", "two"]);
    let two = fixture.folder().join("two");
    let registrations = || {
        fixture
            .git(&main, &["worktree", "list", "--porcelain"])
            .matches("worktree ")
            .count()
    };
    let (first, others) = (registrations(), (files(&main), files(&one)));
    fixture.create(&two);
    fixture.sh("echo changed > a.txt; git log --oneline two");
    assert_eq!(registrations(), first, "the sandbox is not registered");
    fixture.apply();
    assert_eq!(read(two.join("a.txt")), "changed\n");
    assert_eq!(fixture.git(&two, &["status", "--porcelain"]), "");
    assert_eq!((files(&main), files(&one)), others);
    for (branch, count) in [("main", "1"), ("one", "1"), ("two", "2")] {
        assert_eq!(fixture.git(&main, &["rev-list", "--count", branch]), count);
    }
    assert_eq!(registrations(), first);
    fixture.assert_nothing_left(&main);
}

#[test]
fn a_repository_without_a_commit_is_refused() {
    let fixture = SandboxFixture::new();
    let empty = fixture.folder().join("empty");
    fixture.git(&fixture.folder(), &["init", "-q", "empty"]);
    let unborn = fixture.repository("unborn");
    fixture.git(&unborn, &["checkout", "-q", "--orphan", "fresh"]);
    for repository in [empty, unborn] {
        let before = tree(&repository);
        let path = repository.to_str().expect("UTF-8");
        let error = fixture.refused(&["sandbox", "create", "s", "--path", path], 1, "CA-0646");
        let message = error["message"].as_str().expect("text");
        assert!(message.contains("has no commit yet"), "{message}");
        assert_same(&before, &tree(&repository));
        fixture.assert_nothing_left(&repository);
    }
}

#[test]
fn a_detached_head_moves_and_branches_stay() {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    fixture.git(&repository, &["checkout", "-q", "--detach"]);
    fixture.create(&repository);
    fixture.sh("echo changed > a.txt");
    let applied = fixture.apply_and_check(&repository);
    assert!(applied["parts"][0]["commit"]["branch"].is_null());
    assert_eq!(
        fixture.git(&repository, &["rev-list", "--count", "main"]),
        "1"
    );
}

#[test]
fn the_branch_that_is_checked_out_when_applying_gets_the_commit() {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    fixture.create(&repository);
    fixture.sh("echo changed > a.txt");
    fixture.git(&repository, &["branch", "-m", "renamed"]);
    fixture.apply_and_check(&repository);
    assert_eq!(
        fixture.git(&repository, &["rev-list", "--count", "renamed"]),
        "2"
    );
    assert_eq!(
        fixture.git(&repository, &["branch", "--format=%(refname:short)"]),
        "renamed"
    );
}

#[test]
fn changes_removed_by_amending_stay_removed() {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    std::fs::write(repository.join("secret"), "x").expect("a file");
    fixture.commit(&repository, "with a secret");
    fixture.create(&repository);
    fixture.sh("echo changed > a.txt");
    fixture.git(&repository, &["rm", "-q", "secret"]);
    fixture.git(
        &repository,
        &["commit", "-q", "--amend", "--allow-empty", "-m", "without"],
    );
    fixture.apply();
    assert!(
        !repository.join("secret").exists(),
        "the file stays removed"
    );
    assert_eq!(read(repository.join("a.txt")), "changed\n");
    assert_eq!(fixture.git(&repository, &["status", "--porcelain"]), "");
}

/// The first commit itself was rewritten, so the histories have no common ancestor.
#[test]
fn a_sandbox_is_applied_to_a_history_that_was_rewritten_to_its_root() {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    fixture.create(&repository);
    fixture.sh("echo changed > a.txt");
    fixture.git(
        &repository,
        &["commit", "-q", "--amend", "-m", "another root"],
    );
    fixture.apply_and_check(&repository);
}

#[test]
fn object_and_reference_formats_are_kept() {
    for options in [["--object-format=sha256"], ["--ref-format=reftable"]] {
        let fixture = SandboxFixture::new();
        let probe = fixture.start_git(&fixture.folder(), &["init", "-q", options[0], "probe"]);
        if !probe.status.success() {
            not_run(options[0], "this git does not support it");
            continue;
        }
        let repository = fixture.repository_of("r", &options);
        fixture.create(&repository);
        fixture.sh(
            "echo changed > a.txt; git add a.txt; git commit -qm inside; echo 2 > n; git stash -u",
        );
        fixture.sh("git stash pop");
        assert_eq!(fixture.diff().len(), 2);
        fixture.apply_and_check(&repository);
    }
}

#[test]
fn a_clone_with_alternates_gets_the_commit() {
    let fixture = SandboxFixture::new();
    fixture.repository("origin");
    fixture.git(
        &fixture.folder(),
        &["clone", "-q", "--shared", "origin", "borrower"],
    );
    let repository = fixture.folder().join("borrower");
    fixture.create(&repository);
    fixture.sh("git fsck; git log --oneline; echo changed > d/b.txt");
    fixture.apply_and_check(&repository);
}

#[test]
fn every_form_of_the_index_is_read_and_left_valid() {
    let settings: [&[(&str, &str)]; 4] = [
        &[("core.splitIndex", "true")],
        &[("core.untrackedCache", "true")],
        &[("index.version", "4")],
        &[
            ("extensions.worktreeConfig", "true"),
            ("feature.manyFiles", "true"),
        ],
    ];
    for settings in settings {
        let fixture = SandboxFixture::new();
        let repository = fixture.repository("r");
        for (name, value) in settings {
            fixture.git(&repository, &["config", name, value]);
        }
        fixture.git(&repository, &["update-index", "--force-write-index"]);
        fixture.git(&repository, &["status"]);
        fixture.create(&repository);
        fixture.sh("echo changed > a.txt; rm d/b.txt; echo 1 > new; git status");
        fixture.apply_and_check(&repository);
    }
}

fn sparse(fixture: &SandboxFixture, options: &[&str]) -> std::path::PathBuf {
    let repository = fixture.repository("r");
    for folder in ["in", "out"] {
        std::fs::create_dir(repository.join(folder)).expect("a folder");
        std::fs::write(repository.join(folder).join("f"), "first\n").expect("a file");
    }
    fixture.commit(&repository, "folders");
    fixture.git(
        &repository,
        &[&["sparse-checkout", "set"], options].concat(),
    );
    assert!(!repository.join("out").exists(), "it is sparse");
    repository
}

#[test]
fn files_outside_a_sparse_checkout_stay_absent_from_disk_but_remain_in_the_commit() {
    let forms: [&[&str]; 3] = [
        &["--cone", "in", "d"],
        &["--cone", "--sparse-index", "in", "d"],
        &["--no-cone", "/in/", "/d/", "/*.txt", "/run.sh", "/link"],
    ];
    for options in forms {
        let fixture = SandboxFixture::new();
        let repository = sparse(&fixture, options);
        fixture.create(&repository);
        fixture.sh("test ! -e out; echo changed > in/f; echo new > in/g");
        fixture.apply_and_check(&repository);
        assert!(!repository.join("out").exists(), "{options:?}");
        assert_eq!(fixture.git(&repository, &["show", "HEAD:out/f"]), "first");
        let tags = fixture.git(&repository, &["ls-files", "-t", "out"]);
        assert!(tags.starts_with("S out"), "{options:?}: {tags}");
    }
}

/// The user commits a change of one file, and the sandbox changes another file.
#[test]
fn a_merge_under_a_sparse_checkout_restores_no_excluded_file() {
    let fixture = SandboxFixture::new();
    let repository = sparse(&fixture, &["--cone", "in", "d"]);
    fixture.create(&repository);
    fixture.sh("echo changed > in/f");
    std::fs::write(repository.join("d/b.txt"), "the user's\n").expect("a file");
    fixture.commit(&repository, "meanwhile");
    fixture.apply();
    assert!(!repository.join("out").exists());
    assert_eq!(read(repository.join("in/f")), "changed\n");
    assert_eq!(read(repository.join("d/b.txt")), "the user's\n");
    assert_eq!(fixture.git(&repository, &["status", "--porcelain"]), "");
}

#[test]
fn flags_that_hide_a_file_from_git_do_not_hide_it_from_the_program() {
    for flag in ["--skip-worktree", "--assume-unchanged"] {
        let fixture = SandboxFixture::new();
        let repository = fixture.repository("r");
        fixture.git(&repository, &["update-index", flag, "a.txt", "d/b.txt"]);
        std::fs::write(repository.join("a.txt"), "hidden edit\n").expect("a file");
        fixture.create(&repository);
        fixture.sh("echo changed > a.txt");
        let before = tree(&repository);
        let answer = fixture.run(["sandbox", "apply", "s"]);
        assert_eq!(answer.code, Some(4), "{flag}: {answer:?}");
        assert_same(&before, &tree(&repository));
        fixture.sh("git checkout -q a.txt; echo other > d/b.txt");
        fixture.apply();
        assert_eq!(read(repository.join("a.txt")), "hidden edit\n", "{flag}");
        assert_eq!(read(repository.join("d/b.txt")), "other\n", "{flag}");
    }
}

#[test]
fn a_repository_of_another_user_is_refused_as_git_does() {
    let test_name = "a repository of another user";
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    if !change_owner(&repository) {
        not_run(test_name, "only root can give files away");
        return;
    }
    let path = repository.to_str().expect("UTF-8");
    let error = fixture.refused(&["sandbox", "create", "s", "--path", path], 1, "CA-0646");
    let message = error["message"].as_str().expect("text");
    assert!(message.contains("dubious ownership"), "{message}");
    fixture.config("safe.directory", path);
    fixture.create(&repository);
    fixture.sh("echo changed > a.txt");
    fixture.apply();
    let owner = std::fs::metadata(repository.join("a.txt"))
        .expect("metadata")
        .uid();
    assert_eq!(owner, 12_345, "its files keep their owner");
}

fn change_owner(path: &Path) -> bool {
    tree(path)
        .keys()
        .map(std::path::PathBuf::as_path)
        .chain([path])
        .all(|path| std::os::unix::fs::lchown(path, Some(12_345), None).is_ok())
}

#[test]
fn a_change_follows_the_file_that_the_user_renamed_meanwhile() {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    let lines: Vec<String> = (1..50).map(|number| format!("line {number}")).collect();
    let lines = lines.join("\n");
    std::fs::write(repository.join("long"), &lines).expect("a file");
    fixture.commit(&repository, "long");
    fixture.create(&repository);
    fixture.sh("sed -i 's/line 25$/changed/' long");
    fixture.git(&repository, &["mv", "long", "renamed"]);
    fixture.commit(&repository, "renamed");
    fixture.apply();
    assert_eq!(
        read(repository.join("renamed")),
        lines.replace("line 25\n", "changed\n")
    );
    assert!(!repository.join("long").exists());
    assert_eq!(fixture.git(&repository, &["status", "--porcelain"]), "");
}
