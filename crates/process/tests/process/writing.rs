//! A confined command can change every file in its writable folders, and none outside them.

use crate::harness::{
    ConfinementMode, Sandbox, need_landlock, need_namespaces, started, stderr, stdout, tests,
};
use cleveragents_process::{Ending, Input};
use rustix::fs::listxattr;
use rustix::process::getuid;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

tests![
    every_attempt_to_write_outside_fails,
    every_attempt_fails_without_a_namespace_of_processes,
    namespaces_alone_stop_every_change_of_files,
    landlock_alone_stops_every_change_of_contents_and_names,
    attempts_on_files_succeed_without_confinement,
    everything_can_be_done_inside,
    new_files_inside_belong_to_the_caller,
    several_folders_can_be_writable,
    shared_memory_is_private,
    the_usual_devices_work_and_others_are_absent,
    settings_of_the_kernel_cannot_be_written,
    standard_streams_lead_to_no_file_outside,
    unread_input_stays_in_the_file,
];

/// Script that tries to change files outside, and prints the attempts that succeeded.
const ATTACKS: &str = include_str!("attacks.py");

/// Attacks that change attributes instead of contents or names. Landlock does not prevent them.
const ATTRIBUTES: &[&str] = &["chmod", "chown", "utime", "xattr"];
/// Attacks on special files. A read-only mount does not prevent them.
const SPECIAL: &[&str] = &["fifo"];

fn prepared(mode: ConfinementMode) -> Sandbox {
    let mut sandbox = Sandbox::with_mode(mode);
    // The attacks need read access to the outer directory.
    let outside = sandbox.outside.clone();
    if let Some(policy) = &mut sandbox.policy {
        policy.readable.push(outside);
    }
    fs::write(sandbox.outside.join("file"), "original").expect("a file outside");
    fs::create_dir(sandbox.outside.join("folder")).expect("a folder outside");
    let fifo = sandbox.outside.join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .expect("a pipe outside");
    sandbox
}

/// Attributes and contents of the outer directory and its entries.
fn snapshot(outside: &Path) -> Vec<String> {
    let mut entries: Vec<_> = fs::read_dir(outside)
        .expect("outside")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    entries.push(outside.to_path_buf());
    entries.sort();
    let shown = entries.iter().map(|path| {
        let file = fs::symlink_metadata(path).expect("its attributes");
        let content = if file.is_file() {
            fs::read(path).expect("its content")
        } else {
            Vec::new()
        };
        let mut names = [0_u8; 256];
        let attributes = listxattr(path, &mut names).map_or(0, |length| length);
        format!(
            "{} {:o} {}:{} {} {} {attributes} {content:?}",
            path.display(),
            file.mode(),
            file.uid(),
            file.gid(),
            file.mtime_nsec(),
            file.nlink(),
        )
    });
    shown.collect()
}

/// Runs the attacks and returns the names of those that succeeded.
fn attack(sandbox: &Sandbox) -> Vec<String> {
    let mut invocation = sandbox.invocation("python3", &["-c", ATTACKS]);
    if sandbox.policy.is_none() {
        // This variable makes the script skip attacks on mounts and disks of this machine.
        invocation
            .environment
            .push(("UNCONFINED".into(), "1".into()));
    }
    let finished = started(&invocation);
    let text = stdout(&finished);
    assert_eq!(
        finished.ending,
        Ending::Exited(0),
        "{text}{}",
        stderr(&finished)
    );
    assert!(text.ends_with("all tried\n"), "{text}");
    text.lines()
        .filter_map(|line| line.strip_prefix("succeeded "))
        .map(str::to_owned)
        .collect()
}

fn assert_untouched(mode: ConfinementMode, permitted: &[&str]) {
    let sandbox = prepared(mode);
    let before = snapshot(&sandbox.outside);
    let succeeded = attack(&sandbox);
    let unexpected: Vec<_> = succeeded
        .iter()
        .filter(|name| !permitted.contains(&name.as_str()))
        .collect();
    assert!(unexpected.is_empty(), "{mode:?} {unexpected:?}");
    if permitted != ATTRIBUTES {
        assert_eq!(snapshot(&sandbox.outside), before);
    }
    assert_eq!(
        fs::read(sandbox.outside.join("file")).expect("the file"),
        b"original"
    );
}

fn every_attempt_to_write_outside_fails() {
    need_namespaces();
    assert_untouched(ConfinementMode::Whole, &[]);
}

fn every_attempt_fails_without_a_namespace_of_processes() {
    need_namespaces();
    assert_untouched(ConfinementMode::WithoutProcesses, &[]);
}

fn namespaces_alone_stop_every_change_of_files() {
    need_namespaces();
    assert_untouched(ConfinementMode::Namespaces, SPECIAL);
}

fn landlock_alone_stops_every_change_of_contents_and_names() {
    need_landlock();
    assert_untouched(ConfinementMode::Landlock, ATTRIBUTES);
}

/// The attempts succeed without confinement, so it is the confinement that stops them in the other tests.
fn attempts_on_files_succeed_without_confinement() {
    let succeeded = attack(&prepared(ConfinementMode::Unconfined));
    for expected in [
        "append",
        "chmod",
        "chown",
        "create",
        "rename-from",
        "open-truncate",
        "link-out",
        "mkfifo",
        "dotdot",
        "fifo",
        "folder-handle",
        "link",
        "mkdir",
        "proc-cwd",
        "proc-root",
        "rename-into",
        "rename-over",
        "symlink",
        "truncate",
        "utime",
        "file-handle",
        "unlink",
        "rmdir",
        "make-symlink",
    ] {
        assert!(
            succeeded.iter().any(|name| name == expected),
            "{expected}: {succeeded:?}"
        );
    }
}

fn everything_can_be_done_inside() {
    let script = "set -e
echo a > file; echo b >> file; : > empty; mkdir -p folder/deep; mv file folder/deep/moved
ln -s folder link; ln folder/deep/moved folder/hard; chmod 700 folder; touch -d 2001-01-01 empty
mkfifo pipe; cp -a folder copy; rm -r folder; mktemp; cat copy/hard";
    for mode in ConfinementMode::confined() {
        let finished = mode.sh(script);
        assert_eq!(
            finished.ending,
            Ending::Exited(0),
            "{mode:?} {}",
            stderr(&finished)
        );
        assert!(stdout(&finished).ends_with("a\nb\n"));
    }
}

fn new_files_inside_belong_to_the_caller() {
    let sandbox = Sandbox::new();
    sandbox.sh("echo > made");
    let made = fs::metadata(sandbox.inside.join("made")).expect("the file");
    assert_eq!(made.uid(), getuid().as_raw());
    let mut invocation = sandbox.invocation("id", &["-u"]);
    invocation.input = Input::Nothing;
    assert_eq!(
        stdout(&started(&invocation)).trim(),
        getuid().as_raw().to_string()
    );
}

fn several_folders_can_be_writable() {
    for mode in ConfinementMode::confined() {
        let mut sandbox = Sandbox::with_mode(mode);
        let second = sandbox.inside.with_file_name("second folder");
        fs::create_dir(&second).expect("a second folder");
        fs::create_dir(sandbox.inside.join("nested")).expect("a nested one");
        let nested = sandbox.inside.join("nested");
        sandbox.policy().writable.extend([second.clone(), nested]);
        let finished = sandbox.sh(
            "echo x > '../second folder/file' && echo x > file && echo x > nested/file \
             && ! echo x > ../file",
        );
        assert_eq!(
            finished.ending,
            Ending::Exited(0),
            "{mode:?} {}",
            stderr(&finished)
        );
        assert!(second.join("file").exists());
    }
}

fn shared_memory_is_private() {
    need_landlock();
    need_namespaces();
    let name = format!("/dev/shm/cleveragents-test-{}", std::process::id());
    let finished = Sandbox::new().sh(&format!("echo secret > {name} && cat {name}"));
    assert_eq!(stdout(&finished), "secret\n", "{}", stderr(&finished));
    assert!(!Path::new(&name).exists());
    assert!(
        !ConfinementMode::Landlock
            .sh(&format!("echo > {name}"))
            .ending
            .is_success()
    );
}

fn the_usual_devices_work_and_others_are_absent() {
    need_namespaces();
    let script = "set -e
echo x > /dev/null; head -c 3 /dev/zero | wc -c; head -c 4 /dev/urandom | wc -c
echo via > /dev/stdout; echo < /dev/stdin; ! echo x > /dev/full
python3 -c 'import os; m, s = os.openpty(); os.write(s, b\"pty\\n\"); print(os.read(m, 3))'
python3 -c 'import multiprocessing as m; m.Lock(); print(1)'";
    for mode in ConfinementMode::confined() {
        let mut script = script.to_owned();
        if mode == ConfinementMode::Landlock {
            // `Lock` needs a file in the machine's shared memory.
            script = script
                .lines()
                .filter(|line| !line.contains("Lock"))
                .collect::<Vec<_>>()
                .join("\n");
        }
        let finished = mode.sh(&script);
        assert_eq!(
            finished.ending,
            Ending::Exited(0),
            "{mode:?} {}",
            stderr(&finished)
        );
    }
    let finished = Sandbox::new().sh("find /dev -type b");
    assert_eq!(stdout(&finished), "");
}

fn settings_of_the_kernel_cannot_be_written() {
    for mode in ConfinementMode::confined() {
        let finished = Sandbox::with_mode(mode).python(
            "for path in ('/proc/sys/kernel/core_pattern', '/proc/sys/kernel/pid_max', \
             '/sys/kernel/uevent_helper', '/proc/sysrq-trigger', '/sys/kernel/mm/ksm/run'):
    try:
        open(path, 'r+').close()
        print('opened', path)
    except OSError:
        pass
",
        );
        assert_eq!(stdout(&finished), "", "{mode:?}");
    }
}

/// Runs a script whose standard streams are opened on a file outside the sandbox (standard output on the null
/// device); returns the mode and content of the file afterwards.
fn with_the_file_as_streams(mode: ConfinementMode, script: &str) -> (u32, String) {
    let sandbox = prepared(mode);
    let path = sandbox.outside.join("file");
    let output = fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .expect("the file");
    let own = crate::parent::Parent::command(mode, "inherit", &sandbox);
    let status = std::process::Command::new(&own[0])
        .args(&own[1..])
        .args(["sh", "-c", script])
        .stdin(fs::File::open(&path).expect("the file"))
        .stdout(std::process::Stdio::null())
        .stderr(output)
        .status()
        .expect("a copy of this program");
    assert!(status.success());
    let mode = fs::metadata(&path).expect("the file").mode();
    (mode, fs::read_to_string(&path).expect("the file"))
}

/// The standard streams of a command are pipes instead of the caller's files, and its `/dev/null` is a device of the
/// sandbox.
fn standard_streams_lead_to_no_file_outside() {
    let null = || fs::metadata("/dev/null").expect("the null device").mode();
    let before = (
        null(),
        with_the_file_as_streams(ConfinementMode::Unconfined, "true").0,
    );
    for mode in ConfinementMode::confined() {
        let script = "chmod 4777 /dev/stdin /dev/stderr /proc/self/fd/0 /proc/self/fd/2
truncate -s 0 /dev/stdin /dev/stderr; echo changed > /proc/self/fd/0; cat >&2";
        let (file_mode, content) = with_the_file_as_streams(mode, script);
        assert_eq!(file_mode, before.1, "{mode:?}");
        assert!(content.starts_with("original"), "{mode:?} {content}");
        if mode != ConfinementMode::Landlock {
            mode.sh("chmod 4777 /dev/stdin /dev/null /proc/self/fd/0");
            assert_eq!(null(), before.0, "{mode:?}");
        }
    }
}

/// Input that a confined command does not read stays available to later commands of the calling script.
fn unread_input_stays_in_the_file() {
    let sandbox = prepared(ConfinementMode::Whole);
    let lines: Vec<String> = (0..50_000).map(|number| format!("{number}\n")).collect();
    let lines = lines.concat();
    fs::write(sandbox.outside.join("file"), lines).expect("a long file");
    let mut file = fs::File::open(sandbox.outside.join("file")).expect("the file");
    let own = crate::parent::Parent::command(ConfinementMode::Whole, "inherit", &sandbox);
    let output = std::process::Command::new(&own[0])
        .args(&own[1..])
        .args(["sh", "-c", "read first; read second; echo $first $second"])
        .stdin(file.try_clone().expect("the same file"))
        .output()
        .expect("a copy of this program");
    let reported = String::from_utf8_lossy(&output.stdout);
    assert!(reported.starts_with("0 1\n"), "{reported}");
    let mut remaining = String::new();
    file.read_to_string(&mut remaining).expect("the rest");
    assert!(
        remaining.starts_with("2\n") && remaining.ends_with("49999\n"),
        "{}",
        remaining.len()
    );
}
