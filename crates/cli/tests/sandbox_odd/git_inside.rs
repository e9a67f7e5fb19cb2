//! Git inside a sandbox works as usual and does not affect the user's repository.

use super::{SandboxFixture, assert_same, tree};

#[test]
fn git_works_in_a_sandbox_and_never_writes_the_repository() {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    fixture.git(&repository, &["tag", "v1"]);
    fixture.git(
        &repository,
        &["remote", "add", "origin", "https://localhost/nowhere"],
    );
    fixture.create(&repository);
    // The sandbox exists now. From here on, the repository must not change.
    let before = tree(&repository);
    let script = "test -z \"$(git status --porcelain)\"
        test \"$(git symbolic-ref --short HEAD)\" = main
        git describe --tags | grep -q v1
        git remote -v | grep -q nowhere
        echo 2 >> a.txt; git diff --stat | grep -q a.txt
        git stash -q; grep -qx one a.txt; git stash pop -q; grep -q 2 a.txt
        git add -A; git commit -qm 'in the sandbox'
        git log --oneline | grep -q 'in the sandbox'
        git checkout -q -b topic; echo 3 > new; git add new; git commit -qm topic
        git checkout -q main; git merge -q --no-edit topic; git tag v2; git branch -d topic
        git config user.name Tester; git gc -q; git fsck --strict
        git rebase -q HEAD~1; git revert --no-edit HEAD; git reset -q --hard HEAD~1
        git rm -q d/b.txt; git mv run.sh go.sh";
    fixture.sh(script);
    assert_same(&before, &tree(&repository));
    let changed: Vec<String> = fixture.diff().into_keys().collect();
    assert_eq!(changed, ["a.txt", "d", "d/b.txt", "go.sh", "new", "run.sh"]);
    fixture.apply_and_check(&repository);
    assert_eq!(
        fixture.git(&repository, &["branch", "--format=%(refname:short)"]),
        "main"
    );
    assert_eq!(fixture.git(&repository, &["tag"]), "v1");
    assert_eq!(
        fixture.git(&repository, &["rev-list", "--count", "main"]),
        "2"
    );
}

/// The tests of many programs create repositories.
#[test]
fn repositories_created_in_a_sandbox_are_valid() {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    fixture.create(&repository);
    let script = "cd \"$TMPDIR\"; git init -q one; cd one; echo 1 > f; git add f; git commit -qm 1
        test -n \"$(find .git/objects -type f)\"; git fsck --strict
        cd ..; git clone -q one two; test \"$(cat two/f)\" = 1; rm -rf one two";
    fixture.sh(script);
    assert!(fixture.diff().is_empty());
    fixture.discard();
}

#[test]
fn hooks_of_the_repository_do_not_run_for_git_in_the_sandbox() {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    let hook = repository.join(".git/hooks/pre-commit");
    std::fs::create_dir_all(hook.parent().expect("a folder")).expect("a folder");
    std::fs::write(&hook, "#!/bin/sh\nexit 1\n").expect("a hook");
    super::set_mode(&hook, 0o755);
    fixture.create(&repository);
    fixture.sh("echo 2 > a.txt; git commit -qam 'no hook stops it'");
    fixture.apply_and_check(&repository);
}

/// A sandbox of several repositories and a directory.
#[test]
fn each_part_has_its_own_git_repository() {
    let fixture = SandboxFixture::new();
    let (one, two) = (fixture.repository("one"), fixture.repository("two"));
    let plain = fixture.folder().join("plain");
    std::fs::create_dir(&plain).expect("a folder");
    let mut arguments = vec!["sandbox", "create", "s"];
    for path in [&one, &two, &plain] {
        arguments.extend(["--path", path.to_str().expect("UTF-8")]);
    }
    fixture.run_successfully(&arguments);
    let before = (tree(&one), tree(&two));
    fixture.sh("ls | tr '\\n' ' ' | grep -qx 'one plain two '");
    for part in ["one", "two"] {
        let script = format!("echo in-{part} > a.txt; git commit -qam {part}; git log --oneline");
        fixture.run_successfully([
            "sandbox", "exec", "s", "--in", part, "--", "sh", "-ec", &script,
        ]);
    }
    fixture.run_successfully([
        "sandbox",
        "exec",
        "s",
        "--in",
        "plain",
        "--",
        "sh",
        "-c",
        "echo x > f",
    ]);
    fixture.refused(
        &["sandbox", "exec", "s", "--in", "none", "--", "true"],
        3,
        "CA-0640",
    );
    assert_same(&before.0, &tree(&one));
    assert_same(&before.1, &tree(&two));
    fixture.apply();
    for (path, content) in [(&one, "in-one"), (&two, "in-two")] {
        assert_eq!(super::read(path.join("a.txt")), format!("{content}\n"));
        assert_eq!(fixture.git(path, &["rev-list", "--count", "HEAD"]), "2");
        fixture.assert_nothing_left(path);
    }
    assert_eq!(super::read(plain.join("f")), "x\n");
}
