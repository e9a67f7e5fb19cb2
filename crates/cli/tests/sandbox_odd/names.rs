//! File names: long, of any bytes, differing in case, ignored, or refused by git.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use super::{SandboxFixture, assert_same, files, read, tree};

#[test]
fn long_names_and_long_paths_are_applied() {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    fixture.create(&repository);
    let script = "n=$(printf '%0255d' 0); echo long > $n; \
        for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do \
        m=$(printf '%0250d' $i); mkdir $m; cd $m; done; echo deep > f";
    fixture.sh(script);
    assert_eq!(fixture.diff().len(), 17);
    fixture.run_successfully(["sandbox", "diff", "s"]);
    fixture.run_successfully(["sandbox", "rollback", "s"]);
    assert!(fixture.diff().is_empty());
    fixture.run_successfully(["sandbox", "redo", "s"]);
    fixture.apply();
    let longest = fixture.git(&repository, &["ls-tree", "-r", "--name-only", "HEAD"]);
    assert!(longest.lines().any(|name| name.len() == 15 * 251 + 1));
    assert_eq!(fixture.git(&repository, &["status", "--porcelain"]), "");
}

#[test]
fn names_of_any_bytes_are_applied() {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    let names: [&[u8]; 9] = [
        b"n\xe9l",
        b"new\nline",
        b"tab\tand \"quote\"",
        b"back\\slash",
        b"-dash",
        b" ",
        b"*.txt",
        b":(top)x",
        b"\x01\x7f",
    ];
    fixture.create(&repository);
    let work = fixture.sandbox().join("work/r");
    for name in names {
        std::fs::write(work.join(OsStr::from_bytes(name)), "x\n").expect("a file");
    }
    assert_eq!(fixture.diff().len(), names.len());
    let patch = fixture
        .agents
        .command(["sandbox", "diff", "s"])
        .output()
        .expect("the program starts");
    std::fs::write(fixture.folder().join("patch"), &patch.stdout).expect("a file");
    fixture.git(&repository, &["apply", "--check", "../patch"]);
    fixture.run_successfully(["sandbox", "rollback", "s", "--to", "1"]);
    assert_eq!(files(&work), files(&repository));
    fixture.run_successfully(["sandbox", "redo", "s"]);
    fixture.apply_and_check(&repository);
}

#[test]
fn names_that_differ_only_in_case_are_separate_files() {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    fixture.create(&repository);
    fixture.sh("mv a.txt A.TXT; mv d D; echo x > Link");
    fixture.apply_and_check(&repository);
    assert!(!repository.join("a.txt").exists() && repository.join("A.TXT").exists());
    assert!(!repository.join("d").exists() && repository.join("D/b.txt").exists());
}

#[test]
fn ignored_files_are_not_applied_and_ignored_files_of_the_user_stay() {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    std::fs::write(repository.join(".gitignore"), "*.log\n/build/\n").expect("a file");
    std::fs::write(repository.join("tracked.log"), "tracked\n").expect("a file");
    fixture.git(&repository, &["add", "-f", "tracked.log"]);
    fixture.commit(&repository, "ignore");
    std::fs::create_dir(repository.join("build")).expect("a folder");
    std::fs::write(repository.join("build/out"), "the user's\n").expect("a file");
    std::fs::write(repository.join("x.log"), "the user's\n").expect("a file");
    fixture.create(&repository);
    fixture.sh(
        "test ! -e build; mkdir build; echo other > build/out; echo other > x.log; \
         echo more >> tracked.log; echo '*.tmp' >> .gitignore; echo x > y.tmp; echo kept > kept",
    );
    let applied = fixture.apply();
    let left_out: Vec<_> = applied["parts"][0]["left_out"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|path| path.as_str().expect("text").to_owned())
        .collect();
    for name in ["build/out", "x.log", "y.tmp"] {
        assert!(
            left_out.iter().any(|path| path == name),
            "{name} is reported: {left_out:?}"
        );
    }
    assert_eq!(read(repository.join("build/out")), "the user's\n");
    assert_eq!(read(repository.join("x.log")), "the user's\n");
    assert!(!repository.join("y.tmp").exists());
    assert_eq!(
        fixture.git(&repository, &["show", "HEAD:tracked.log"]),
        "tracked\nmore"
    );
    assert_eq!(read(repository.join("kept")), "kept\n");
    assert_eq!(fixture.git(&repository, &["status", "--porcelain"]), "");
}

/// Git treats these names as its own folder on some systems, and skips them without an error.
#[test]
fn names_that_git_does_not_allow_are_refused() {
    for (script, name) in [
        ("echo x > '.git '", ".git "),
        ("echo x > git~1", "git~1"),
        ("mkdir .GIT; echo x > .GIT/config", ".GIT/config"),
        ("mkdir d/.git; echo x > d/.git/config", "d/.git/config"),
        ("echo 'gitdir: /nowhere' > d/.git", "d/.git"),
        ("ln -s a.txt .gitmodules", ".gitmodules"),
        ("git init -q nested; echo x > nested/f", "nested/.git"),
    ] {
        let fixture = SandboxFixture::new();
        let repository = fixture.repository("r");
        fixture.create(&repository);
        fixture.sh(script);
        let message = fixture.apply_refused(&repository, 1, "CA-0647");
        assert!(message.contains(name), "{script}: {message}");
        assert!(message.contains("nothing was applied"), "{message}");
        fixture.run_successfully(["sandbox", "rollback", "s"]);
        assert!(fixture.diff().is_empty(), "{script}");
        let before = tree(&repository);
        fixture.discard();
        assert_eq!(
            before.keys().filter(|path| path.ends_with("a.txt")).count(),
            1
        );
        fixture.assert_nothing_left(&repository);
    }
}

/// In a plain directory, `.git` is left out, but `.gitx` is an ordinary file.
#[test]
fn a_git_folder_made_in_a_directory_is_left_out() {
    let fixture = SandboxFixture::new();
    let folder = fixture.folder().join("plain");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(folder.join("f"), "1").expect("a file");
    fixture.create(&folder);
    fixture.sh("git init -q .; echo 2 > f; git add f; git commit -qm x; git fsck; echo 3 > .gitx");
    let before = tree(&folder);
    fixture.apply();
    let mut after = tree(&folder);
    assert_eq!(read(folder.join("f")), "2\n");
    after
        .remove(&folder.join(".gitx"))
        .expect("the file is applied");
    after.insert(folder.join("f"), before[&folder.join("f")].clone());
    assert_same(&before, &after);
}
