//! Ordinary programs work in their directory as without confinement.

use crate::harness::{ConfinementMode, Sandbox, not_run, started, stderr, stdout, tests};
use crate::parent::Parent;
use cleveragents_process::Ending;
use rustix::process::getuid;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::Command;

tests![
    git_works,
    python_works,
    shells_and_pipelines_work,
    a_compiler_works,
    node_works,
    threads_work,
    a_confined_command_can_confine_others,
    an_ordinary_user_is_confined_as_well,
];

fn works(script: &str) {
    for mode in ConfinementMode::confined() {
        let finished = mode.sh(script);
        let (out, err) = (stdout(&finished), stderr(&finished));
        assert_eq!(finished.ending, Ending::Exited(0), "{mode:?} {out}{err}");
        assert!(out.ends_with("works\n"), "{mode:?} {out}{err}");
    }
}

fn git_works() {
    works(
        "set -e; export HOME=$INSIDE; git init -q repository; cd repository
git config user.email a@b; git config user.name n; echo one > file; git add file
git commit -qm one; git branch other; git worktree add -q ../other other; git gc -q
echo two >> file; git stash -q; git stash pop -q; git diff --quiet || git commit -qam two
git log --oneline | wc -l | grep -q 2; git clone -q . ../clone; echo works",
    );
}

fn python_works() {
    works(
        "python3 -c '
import os, subprocess, tempfile, threading, concurrent.futures, sqlite3
subprocess.run([\"sh\", \"-c\", \"exit 0\"], check=True)
tempfile.NamedTemporaryFile().write(b\"x\")
sqlite3.connect(\"base.db\").execute(\"create table t(a)\")
with concurrent.futures.ThreadPoolExecutor(4) as pool: print(sum(pool.map(int, \"123\")))
print(\"works\")'",
    );
}

fn shells_and_pipelines_work() {
    works(
        "seq 1000 | sort -R | sort -n | tail -1; find . | xargs ls > /dev/null; bash -c 'cat <(echo works)'",
    );
}

fn a_compiler_works() {
    if !ConfinementMode::Unconfined
        .sh("cc --version")
        .ending
        .is_success()
    {
        not_run("C compiler");
    }
    works(
        "printf '#include <stdio.h>\\nint main(void){puts(\"works\");}' > a.c && cc -o a a.c && ./a",
    );
}

fn node_works() {
    if !ConfinementMode::Unconfined
        .sh("node --version")
        .ending
        .is_success()
    {
        not_run("node");
    }
    works(
        "node -e 'require(\"fs\").writeFileSync(\"f\", \"x\"); setTimeout(() => console.log(\"works\"), 5)'",
    );
}

fn threads_work() {
    works(
        "python3 -c 'import threading as t; a=[t.Thread(target=print) for _ in range(50)]; [x.start() for x in a]; [x.join() for x in a]'; echo works",
    );
}

/// A confined command cannot create namespaces, so commands that it confines itself get only the
/// other layers.
fn a_confined_command_can_confine_others() {
    for mode in ConfinementMode::confined() {
        let sandbox = Sandbox::with_mode(mode);
        fs::create_dir(sandbox.inside.join("inner")).expect("a folder");
        let inner = Sandbox::at(sandbox.inside.join("inner"), ConfinementMode::Whole);
        let script = "echo > written; echo > ../refused || echo refused > refused; echo done";
        let command = Parent::command(ConfinementMode::Whole, "capture", &inner);
        let command: Vec<&str> = command.iter().filter_map(|part| part.to_str()).collect();
        let arguments = [&command[1..], &["sh", "-c", script]].concat();
        let finished = started(&sandbox.invocation(command[0], &arguments));
        let text = stdout(&finished);
        assert!(
            text.contains("stdout \"done"),
            "{mode:?} {text} {}",
            stderr(&finished)
        );
        assert!(inner.inside.join("written").exists());
        assert!(!sandbox.inside.join("refused").exists());
    }
}

/// Runs other tests as an ordinary user. Unlike root, an ordinary user needs a user namespace.
fn an_ordinary_user_is_confined_as_well() {
    const NOBODY: u32 = 65_534;
    if !getuid().is_root() {
        // This process already runs the tests as an ordinary user.
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
    let copy = folder.path().join("tests");
    fs::copy(std::env::current_exe().expect("this program"), &copy).expect("a copy");
    let temporary = folder.path().join("temporary");
    fs::create_dir(&temporary).expect("a folder");
    if chown(&temporary, Some(NOBODY), Some(NOBODY)).is_err() {
        not_run("other user");
    }
    let output = Command::new(&copy)
        .args([
            "write",
            "writable",
            "outside",
            "inside",
            "stop",
            "fork_bomb",
            "privileges",
            "background",
        ])
        .args([
            "reports",
            "refused",
            "unchanged",
            "limited",
            "die",
            "kills",
            "survives",
        ])
        .env_clear()
        .envs([
            ("PATH", "/usr/bin:/bin"),
            ("HOME", "/"),
            ("TMPDIR", "temporary"),
        ])
        .env("TMPDIR", &temporary)
        .current_dir(&temporary)
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .expect("the tests of another user");
    let reported = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{reported}{errors}");
    assert!(
        reported
            .lines()
            .filter(|line| line.ends_with("... ok"))
            .count()
            > 20,
        "{reported}"
    );
}
