//! Values of `--path`: folders with unusual names, folders inside repositories, and folders that
//! only look like repositories; and variables that redirect git.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use super::{SandboxFixture, assert_same, files, read, tree};

#[test]
fn repositories_with_unusual_names_work() {
    let names: [&[u8]; 12] = [
        b"with space",
        b"-dash",
        b"n\xe9l",
        "ünïcode".as_bytes(),
        b"c:d",
        b"\"quoted\":",
        b"a..b",
        b"x.lock",
        b"back\\slash",
        b"apply",
        b"objects",
        b"...",
    ];
    for name in names {
        let fixture = SandboxFixture::new();
        let repository = fixture.repository(OsString::from_vec(name.to_vec()));
        fixture.create(&repository);
        fixture.sh("echo changed > a.txt; git add -A; git commit -qm inside; git fsck");
        fixture.run_successfully(["sandbox", "apply", "s", "--dry-run"]);
        assert_eq!(fixture.diff().len(), 1, "{name:?}");
        fixture.apply_and_check(&repository);
    }
}

#[test]
fn directories_with_unusual_names_work() {
    for name in [
        b"a\nb".as_slice(),
        b"n\xe9l",
        b"apply",
        b"parts",
        b"scratch",
        b" ",
    ] {
        let fixture = SandboxFixture::new();
        let folder = fixture.folder().join(OsString::from_vec(name.to_vec()));
        std::fs::create_dir(&folder).expect("a folder");
        std::fs::write(folder.join("f"), "first").expect("a file");
        fixture.create(&folder);
        fixture.sh("echo second > f");
        fixture.run_successfully(["sandbox", "apply", "s", "--dry-run"]);
        fixture.apply();
        assert_eq!(read(folder.join("f")), "second\n", "{name:?}");
        fixture.assert_nothing_left(&folder);
    }
}

#[test]
fn a_line_break_in_the_path_of_a_repository_is_refused() {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("a\nb");
    let before = tree(&repository);
    let path = repository.to_str().expect("UTF-8");
    let error = fixture.refused(&["sandbox", "create", "s", "--path", path], 1, "CA-0646");
    assert!(
        error["message"]
            .as_str()
            .expect("text")
            .contains("line break")
    );
    assert_same(&before, &tree(&repository));
    fixture.assert_nothing_left(&repository);
}

/// A folder in a repository is a plain folder: its files change, but nothing is committed.
#[test]
fn a_subfolder_of_a_repository_is_a_plain_directory() {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    let git = tree(&repository.join(".git"));
    fixture.create(&repository.join("d"));
    fixture.sh("echo changed > b.txt; test ! -e .git");
    fixture.apply();
    assert_same(&git, &tree(&repository.join(".git")));
    assert_eq!(
        fixture.git(&repository, &["status", "--porcelain"]),
        " M d/b.txt"
    );
    assert_eq!(read(repository.join("d/b.txt")), "changed\n");
}

/// The files of repositories inside a directory are copied and applied, but never `.git`.
#[test]
fn repositories_inside_a_directory_keep_their_git_folder() {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("parent/r");
    let git = tree(&repository.join(".git"));
    fixture.create(&fixture.folder().join("parent"));
    fixture.sh("cd r; echo changed > a.txt; git commit -qam inside; echo evil >> .git/config");
    let applied = fixture.apply();
    assert!(
        !applied["parts"][0]["left_out"]
            .as_array()
            .expect("a list")
            .is_empty()
    );
    assert_same(&git, &tree(&repository.join(".git")));
    assert_eq!(read(repository.join("a.txt")), "changed\n");
}

#[test]
fn a_folder_that_only_resembles_a_repository_is_refused() {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    std::fs::create_dir(repository.join("d/.git")).expect("a folder");
    let moved = fixture.repository("moved");
    std::fs::create_dir(fixture.folder().join("elsewhere")).expect("a folder");
    fixture.git(&moved, &["config", "core.worktree", "../../elsewhere"]);
    let broken = fixture.folder().join("broken");
    std::fs::create_dir_all(&broken).expect("a folder");
    std::fs::write(broken.join(".git"), "gitdir: /nowhere\n").expect("a file");
    for path in [repository.join(".git"), repository.join("d"), moved, broken] {
        let before = tree(&fixture.folder());
        let text = path.to_str().expect("UTF-8");
        fixture.refused(&["sandbox", "create", "s", "--path", text], 1, "CA-0646");
        assert_same(&before, &tree(&fixture.folder()));
        fixture.assert_nothing_left(&repository);
    }
}

/// After the repository of a sandbox is removed, git would find the enclosing repository.
#[test]
fn the_repository_around_a_removed_repository_is_not_used() {
    let fixture = SandboxFixture::new();
    let outer = fixture.repository("outer");
    let inner = fixture.repository("outer/inner");
    fixture.create(&inner);
    fixture.sh("echo changed > a.txt");
    std::fs::remove_dir_all(inner.join(".git")).expect("a folder");
    let before = tree(&outer);
    fixture.refused(&["sandbox", "apply", "s"], 1, "CA-0646");
    fixture.discard();
    assert_same(&before, &tree(&outer));
}

#[test]
fn variables_that_redirect_git_are_ignored() {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    let other = fixture.repository("other");
    let before = tree(&other);
    let text = |name: &str| other.join(name).display().to_string();
    let fixture = fixture
        .with("GIT_DIR", text(".git"))
        .with("GIT_WORK_TREE", text(""))
        .with("GIT_INDEX_FILE", text(".git/index"))
        .with("GIT_OBJECT_DIRECTORY", text(".git/objects"))
        .with("GIT_NAMESPACE", "elsewhere")
        .with("GIT_CONFIG_COUNT", "1")
        .with("GIT_CONFIG_KEY_0", "core.bare")
        .with("GIT_CONFIG_VALUE_0", "true")
        .with("GIT_TRACE", text("trace"));
    fixture.create(&repository);
    fixture.sh(
        "test -z \"$GIT_DIR$GIT_INDEX_FILE$GIT_CONFIG_COUNT\"; echo changed > a.txt; git status",
    );
    assert_eq!(fixture.diff().len(), 1);
    fixture.apply_and_check(&repository);
    assert_same(&before, &tree(&other));
    assert_eq!(files(&other).len(), 4);
}

#[test]
fn branches_and_tags_with_unusual_names_work() {
    for branch in ["HEAD-x", "ünï/çode", "a/b.c@d", "refs/heads/x", "-"] {
        let fixture = SandboxFixture::new();
        let repository = fixture.repository("r");
        let name = format!("refs/heads/{branch}");
        if branch == "-" {
            // Git does not create such a branch by name, but accepts an existing one.
            fixture.git(
                &repository,
                &["update-ref", "refs/heads/-", "HEAD^{commit}"],
            );
        } else {
            fixture.git(&repository, &["branch", branch]);
        }
        for tag in ["refs/tags/main", "refs/tags/x"] {
            fixture.git(&repository, &["update-ref", tag, "refs/heads/main"]);
        }
        fixture.git(&repository, &["symbolic-ref", "HEAD", &name]);
        fixture.create(&repository);
        fixture.sh("echo changed > a.txt; git commit -qam inside");
        let applied = fixture.apply();
        assert_eq!(applied["parts"][0]["commit"]["branch"], *name);
        let count =
            |reference: &str| fixture.git(&repository, &["rev-list", "--count", reference, "--"]);
        assert_eq!(count(&name), "2");
        assert_eq!(count("refs/heads/main"), "1");
        assert_eq!(fixture.git(&repository, &["status", "--porcelain"]), "");
    }
}
