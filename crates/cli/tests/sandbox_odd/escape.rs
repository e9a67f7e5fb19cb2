//! Escapes that a sandboxed command prepares for later commands of the program: links, a modified
//! repository, attributes, names. The program follows none of them.

use std::path::{Path, PathBuf};

use super::{SandboxFixture, assert_same, read, tree};

/// Creates a folder outside of the sandbox. Its files contain secrets and have the same names as
/// files in the sandbox.
fn outside(fixture: &SandboxFixture) -> PathBuf {
    let folder = fixture.user().join("outside");
    std::fs::create_dir_all(folder.join("d")).expect("a folder");
    for name in ["a.txt", "b.txt", "d/b.txt", "new"] {
        std::fs::write(folder.join(name), "SECRET\n").expect("a file");
    }
    folder
}

/// Runs every command that uses the sandbox, with any result. Asserts that none prints the secret.
fn run_all_commands(fixture: &SandboxFixture) {
    for command in [
        vec!["sandbox", "diff", "s"],
        vec!["sandbox", "checkpoint", "s"],
        vec!["sandbox", "rollback", "s", "--to", "1"],
        vec!["sandbox", "redo", "s"],
        vec!["sandbox", "exec", "s", "--", "true"],
        vec!["sandbox", "apply", "s", "--dry-run"],
        vec!["sandbox", "apply", "s"],
        vec!["sandbox", "discard", "s", "--yes"],
    ] {
        let answer = fixture.run(&command);
        assert!(
            matches!(answer.code, Some(0 | 1 | 4)),
            "{command:?}: {answer:?}"
        );
        assert!(!answer.err.contains("panicked"), "{answer:?}");
        assert!(!answer.out.contains("SECRET"), "{command:?}: {answer:?}");
    }
}

#[test]
fn links_that_lead_out_are_never_followed() {
    for script in [
        "rm -r d; ln -s OUT d",
        "rm -r d; ln -s ../../../../../../outside d",
        "ln -sf OUT/a.txt a.txt; ln -s OUT/new new",
        "rm -r d; ln -s one d; ln -s two one; ln -s OUT two",
        "rm -r d; ln -s /proc/self/fd/3 d; ln -s /proc/self/root x; ln -s /proc/self/cwd y",
        "rm -r d; ln -s / d; ln -s OUT/missing dangling",
        "mkdir e; ln -s OUT e/d; ln -s e/d f; rm -r d; mv e d",
    ] {
        for is_repository in [true, false] {
            let fixture = SandboxFixture::new();
            let outside = outside(&fixture);
            let original = fixture.repository("r");
            if !is_repository {
                std::fs::remove_dir_all(original.join(".git")).expect("a folder");
            }
            let before = tree(&outside);
            fixture.create(&original);
            fixture.sh(&script.replace("OUT", outside.to_str().expect("UTF-8")));
            run_all_commands(&fixture);
            assert_same(&before, &tree(&outside));
            // The links themselves are applied.
            assert!(
                tree(&original)
                    .values()
                    .all(|(_, bytes)| bytes != b"SECRET\n")
            );
        }
    }
}

/// A folder of the user was replaced by a link. Following it would write outside of the original.
#[test]
fn a_real_folder_that_became_a_link_is_a_conflict() {
    for is_repository in [true, false] {
        let fixture = SandboxFixture::new();
        let outside = outside(&fixture);
        let original = fixture.repository("r");
        if !is_repository {
            std::fs::remove_dir_all(original.join(".git")).expect("a folder");
        }
        fixture.create(&original);
        fixture.sh("echo changed > d/b.txt; echo new > d/new");
        std::fs::remove_dir_all(original.join("d")).expect("a folder");
        std::os::unix::fs::symlink(outside.join("d"), original.join("d")).expect("a link");
        let before = tree(&fixture.user().join("outside"));
        let answer = fixture.run(["sandbox", "apply", "s"]);
        assert_eq!(answer.code, Some(4), "{answer:?}");
        assert_same(&before, &tree(&outside));
        assert!(original.join("d").is_symlink());
    }
}

/// Only the user can create a hard link to an outside file. A rollback replaces the link and never
/// writes to the file.
#[test]
fn a_hard_link_to_an_outside_file_is_never_written() {
    let fixture = SandboxFixture::new();
    let original = fixture.repository("r");
    let outside = outside(&fixture);
    fixture.create(&original);
    let work = fixture.sandbox().join("work/r");
    std::fs::remove_file(work.join("a.txt")).expect("a file");
    std::fs::hard_link(outside.join("a.txt"), work.join("a.txt")).expect("a hard link");
    fixture.run_successfully(["sandbox", "checkpoint", "s"]);
    fixture.run_successfully(["sandbox", "rollback", "s", "--to", "1"]);
    assert_eq!(read(work.join("a.txt")), "one\n");
    assert_eq!(read(outside.join("a.txt")), "SECRET\n");
    fixture.sh("ln a.txt twin; echo x >> twin");
    fixture.run_successfully(["sandbox", "rollback", "s", "--to", "1"]);
    assert_eq!(read(work.join("a.txt")), "one\n");
    fixture.discard();
}

/// A git configuration in which every setting runs a command.
fn evil_config(trace: &Path) -> String {
    let run = format!("sh -c 'touch {}; cat'", trace.display());
    format!(
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = \"{run}\"\n\
         \thooksPath = ../hooks\n\tworktree = /\n\tsshCommand = \"{run}\"\n\tpager = \"{run}\"\n\
         [filter \"evil\"]\n\tclean = \"{run}\"\n\tsmudge = \"{run}\"\n\tprocess = \"{run}\"\n\
         \trequired = true\n[diff]\n\texternal = \"{run}\"\n[diff \"evil\"]\n\tcommand = \"{run}\"\n\
         \ttextconv = \"{run}\"\n[merge \"evil\"]\n\tdriver = \"{run}\"\n[alias]\n\tstatus = \"!{run}\"\n\
         [submodule]\n\trecurse = true\n[include]\n\tpath = ../evil\n"
    )
}

#[test]
fn a_git_folder_written_by_a_command_is_never_used_by_the_program() {
    for script in [
        // Modify the repository of the sandbox.
        "cp evil \"$(git rev-parse --git-dir)/config\"",
        "d=$(git rev-parse --git-dir); mkdir -p $d/hooks; cp evil $d/config; echo junk > $d/HEAD",
        "d=$(git rev-parse --git-dir); echo /nowhere > $d/objects/info/alternates; rm -f $d/index",
        "d=$(git rev-parse --git-dir); echo REPO/.git > $d/commondir; echo / > $d/gitdir",
        "d=$(git rev-parse --git-dir); ln -sf REPO/.git/index $d/index; ln -sf REPO/.git/HEAD $d/HEAD",
        "d=$(git rev-parse --git-dir); cp evil $d/config.worktree; rm -rf $d/refs $d/objects",
        // Replace it by another repository.
        "rm .git; git init -q .; cp evil .git/config; mkdir -p .git/hooks",
        "git init -q sub; cp evil sub/.git/config; rm .git; echo 'gitdir: sub/.git' > .git",
        "rm .git; ln -s REPO/.git .git",
        "rm .git; echo 'gitdir: REPO/.git' > .git",
    ] {
        let fixture = SandboxFixture::new();
        let repository = fixture.repository("r");
        let trace = fixture.user().join("trace");
        fixture.create(&repository);
        let git = tree(&repository.join(".git"));
        let work = fixture.sandbox().join("work/r");
        std::fs::write(work.join("evil"), evil_config(&trace)).expect("a file");
        let attributes = "* filter=evil diff=evil merge=evil\n";
        std::fs::write(work.join(".gitattributes"), attributes).expect("a file");
        let script = script.replace("REPO", repository.to_str().expect("UTF-8"));
        fixture.sh(&format!("{script}\necho changed > a.txt"));
        for command in [
            vec!["sandbox", "diff", "s"],
            vec!["sandbox", "rollback", "s", "--to", "1"],
            vec!["sandbox", "redo", "s"],
            vec!["sandbox", "exec", "s", "--", "true"],
            vec!["sandbox", "apply", "s", "--dry-run"],
        ] {
            let answer = fixture.run(&command);
            assert!(!answer.err.contains("panicked"), "{answer:?}");
            assert!(!trace.exists(), "{script}: {command:?} ran a setting");
        }
        assert_same(&git, &tree(&repository.join(".git")));
        fixture.run(["sandbox", "apply", "s"]);
        fixture.run(["sandbox", "discard", "s", "--yes"]);
        assert!(!trace.exists(), "{script}");
        assert_eq!(
            fixture.git(&repository, &["status", "--porcelain"]),
            "",
            "{script}"
        );
        fixture.git(&repository, &["fsck", "--strict"]);
        fixture.assert_nothing_left(&repository);
    }
}

#[test]
fn addresses_of_submodules_are_never_visited() {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    let trace = fixture.user().join("trace");
    fixture.config("protocol.ext.allow", "always");
    fixture.config("submodule.recurse", "true");
    fixture.create(&repository);
    let url = format!("ext::sh -c touch%% {}", trace.display());
    fixture.sh(&format!(
        "printf '[submodule \"x\"]\\n\\tpath = x\\n\\turl = {url}\\n' > .gitmodules; mkdir x; echo 1 > x/f"
    ));
    fixture.run_successfully(["sandbox", "diff", "s"]);
    fixture.apply_and_check(&repository);
    assert!(!trace.exists());
}
