//! Git in a member of a sandbox, after a command has rewritten the member's repository to refer to the user's
//! repository. The test has its own `main`, because this program starts the confined commands.

#![expect(clippy::print_stdout, reason = "a test reports its result")]

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::ExitCode;

use cleveragents_sandbox::{Folders, Git, Member, Source};

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    if let Some(code) = cleveragents_process::stage_main(&arguments) {
        return code.into();
    }
    if cleveragents_process::capabilities().enforced.is_none() {
        println!("not run: this machine cannot confine commands");
        return ExitCode::SUCCESS;
    }
    commits_stay_in_the_sandbox();
    println!("test commits_stay_in_the_sandbox ... ok");
    ExitCode::SUCCESS
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let answer = Git::at(folder).try_run(arguments).expect("git runs");
    let reported = String::from_utf8_lossy(&answer.stderr).into_owned();
    assert_eq!(answer.code, Some(0), "{arguments:?}: {reported}");
    String::from_utf8_lossy(&answer.stdout).into_owned()
}

fn commit(member: &Member) -> Option<i32> {
    let git = member.git().ok()?.expect("it is a repository");
    git.try_run(&["add", "--all"]).expect("git runs");
    let identity = ["-c", "user.name=a", "-c", "user.email=a@b"];
    let arguments = [
        identity.as_slice(),
        &["commit", "--message", "of the sandbox"],
    ]
    .concat();
    git.try_run(&arguments).expect("git runs").code
}

fn commits_stay_in_the_sandbox() {
    let folder = tempfile::tempdir().expect("a folder");
    let real = folder.path().join("real");
    std::fs::create_dir(&real).expect("made");
    std::fs::write(real.join("a"), "1").expect("written");
    git(&real, &["init", "--quiet", "--initial-branch", "main"]);
    git(&real, &["add", "--all"]);
    let identity = ["-c", "user.name=a", "-c", "user.email=a@b"];
    git(
        &real,
        &[
            identity.as_slice(),
            &["commit", "--quiet", "--message", "first"],
        ]
        .concat(),
    );
    let before = git(&real, &["for-each-ref", "refs/heads"]);

    let folders = Folders {
        whole: folder.path().join("sandbox"),
    };
    folders.create().expect("made");
    let member = folders
        .create_member("01", "app", Source::Git, &real, false)
        .expect("a part");
    std::fs::write(member.root.join("a"), "2").expect("written");
    assert_eq!(commit(&member), Some(0), "a normal commit works");

    // A path that a command in the sandbox could write.
    let notes = folder.path().join("sandbox/git/app");
    let user_git_path = |inner: &str| real.join(".git").join(inner);
    let attacks: [(&str, &dyn Fn()); 3] = [
        ("the link of the worktree", &|| {
            let link = format!("gitdir: {}\n", real.join(".git").display());
            std::fs::write(member.root.join(".git"), link).expect("written");
        }),
        ("the common folder", &|| {
            let place = user_git_path("").display().to_string();
            std::fs::write(notes.join("commondir"), place).expect("written");
        }),
        ("the branches", &|| {
            std::fs::remove_dir_all(notes.join("refs/heads")).expect("removed");
            symlink(user_git_path("refs/heads"), notes.join("refs/heads")).expect("linked");
        }),
    ];
    for (number, (name, attack)) in attacks.iter().enumerate() {
        attack();
        std::fs::write(member.root.join("a"), format!("attack {number}")).expect("written");
        let _any_exit_code = commit(&member);
        let now = git(&real, &["for-each-ref", "refs/heads"]);
        assert_eq!(now, before, "after {name} was rewritten");
    }
}
