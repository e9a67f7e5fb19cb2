//! Lifecycle of servers: one process for any number of callers, stopped when idle, restarted when needed,
//! and no process left after shutdown.

use std::ffi::OsString;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use crate::support::{ServerFixture, eventually, is_alive};
use crate::tests;
use serde_json::json;

tests![
    many_callers_start_one_process,
    servers_connect_concurrently,
    a_blocked_call_blocks_no_other_caller,
    an_idle_server_is_stopped_and_restarted,
    a_busy_server_is_never_idle,
    a_crash_is_reported_and_the_server_restarts,
    without_auto_restart_a_crashed_server_stays_down,
    a_known_server_starts_only_when_needed,
    shutdown_leaves_nothing,
    shutdown_while_connecting_leaves_nothing,
    removing_ends_a_server,
    servers_end_with_the_process_that_started_them,
];

/// If the arguments request it, runs this program as a process that starts a server and is then killed.
pub(crate) fn parent(arguments: &[OsString]) -> Option<ExitCode> {
    if arguments.get(1)? != "--as-parent" {
        return None;
    }
    let fixture = ServerFixture::with("normal");
    let message = fixture.gate().ok("normal/daemon", &json!({}));
    let pids = format!("{message} {}", fixture.pids().join(" "));
    std::fs::write(arguments.get(2)?, pids).expect("written");
    loop {
        std::thread::park();
    }
}

fn many_callers_start_one_process() {
    let fixture = ServerFixture::with("normal");
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| fixture.servers.connect("normal").expect("connected"));
        }
    });
    assert_eq!(fixture.pids().len(), 1);
    assert_eq!(
        fixture
            .servers
            .status("normal")
            .expect("a known server")
            .starts,
        1
    );
}

fn servers_connect_concurrently() {
    let fixture = ServerFixture::new();
    for number in 0..10 {
        let mut definition = fixture.definition("together");
        definition.name = format!("together-{number}");
        fixture.servers.add(definition, None).expect("added");
    }
    // No server responds before all have been started.
    let outcomes = fixture.servers.connect_all();
    assert!(
        outcomes.iter().all(|(_, outcome)| outcome.is_ok()),
        "{outcomes:?}"
    );
    assert_eq!(fixture.pids().len(), 10);
}

fn a_blocked_call_blocks_no_other_caller() {
    let fixture = ServerFixture::with("normal");
    let release_file = fixture.path("go");
    let gate = fixture.gate();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| gate.ok("normal/wait", &json!({"name": release_file})));
        // While one call waits, others continue.
        for _ in 0..3 {
            assert_eq!(gate.ok("normal/echo", &json!({"text": "x"})), "x");
            assert!(
                fixture
                    .servers
                    .status("normal")
                    .expect("a known server")
                    .is_connected
            );
            assert!(!fixture.servers.offer().tools.is_empty());
        }
        assert!(!waiting.is_finished());
        std::fs::write(&release_file, "").expect("written");
        assert_eq!(waiting.join().expect("no panic"), "the file exists");
    });
}

fn an_idle_server_is_stopped_and_restarted() {
    let fixture = ServerFixture::new();
    let mut definition = fixture.definition("normal");
    definition.idle_timeout_seconds = 0.3;
    fixture.servers.add(definition, None).expect("added");
    let gate = fixture.gate();
    let first = fixture.pids().remove(0);
    eventually("the idle server stops", || !is_alive(&first));
    assert!(
        !fixture
            .servers
            .status("normal")
            .expect("a known server")
            .is_connected
    );
    // The tools are still known, and a call restarts the server.
    assert_eq!(gate.ok("normal/echo", &json!({"text": "x"})), "x");
    assert_eq!(fixture.pids().len(), 2);
}

fn a_busy_server_is_never_idle() {
    let fixture = ServerFixture::new();
    let mut definition = fixture.definition("normal");
    definition.idle_timeout_seconds = 0.05;
    fixture.servers.add(definition, None).expect("added");
    let gate = fixture.gate();
    let release_file = fixture.path("go");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| gate.ok("normal/wait", &json!({"name": release_file})));
        // Long enough for many idle checks.
        std::thread::sleep(Duration::from_secs(1));
        assert!(!waiting.is_finished());
        std::fs::write(&release_file, "").expect("written");
        assert_eq!(waiting.join().expect("no panic"), "the file exists");
    });
}

fn a_crash_is_reported_and_the_server_restarts() {
    let fixture = ServerFixture::with("normal");
    let gate = fixture.gate();
    let why = gate.fails("normal/crash", &json!({}));
    assert!(
        why.contains("exit code 7") && why.contains("about to die"),
        "{why}"
    );
    assert_eq!(gate.ok("normal/echo", &json!({"text": "again"})), "again");
    assert_eq!(fixture.pids().len(), 2);
}

fn without_auto_restart_a_crashed_server_stays_down() {
    let fixture = ServerFixture::new();
    let mut definition = fixture.definition("normal");
    definition.auto_restart = false;
    fixture.servers.add(definition, None).expect("added");
    let gate = fixture.gate();
    gate.fails("normal/crash", &json!({}));
    eventually("the crash is detected", || {
        gate.fails("normal/echo", &json!({"text": "x"}))
            .contains("auto_restart")
    });
    assert_eq!(fixture.pids().len(), 1);
}

fn a_known_server_starts_only_when_needed() {
    let fixture = ServerFixture::with("normal");
    let listing = fixture.servers.connect("normal").expect("connected");
    let stored = serde_json::to_string(&*listing).expect("JSON");
    let other = ServerFixture::new();
    let known = serde_json::from_str(&stored).expect("a stored listing");
    other
        .servers
        .add(other.definition("normal"), Some(known))
        .expect("added");
    let gate = other.gate();
    assert_eq!(other.pids().len(), 0);
    assert_eq!(gate.ok("normal/echo", &json!({"text": "x"})), "x");
    assert_eq!(other.pids().len(), 1);
}

fn shutdown_leaves_nothing() {
    let fixture = ServerFixture::with("normal");
    let gate = fixture.gate();
    let daemon = gate.ok("normal/daemon", &json!({}));
    assert!(is_alive(&daemon));
    std::thread::scope(|scope| {
        let pending_call = scope.spawn(|| gate.fails("normal/never", &json!({})));
        eventually("the server is started", || !fixture.pids().is_empty());
        fixture.servers.shutdown();
        let why = pending_call.join().expect("no panic");
        assert!(why.contains("cannot be reached"), "{why}");
    });
    fixture.assert_nothing_left();
    assert!(!is_alive(&daemon));
    let why = gate.fails("normal/echo", &json!({"text": "x"}));
    assert!(why.contains("shut down"), "{why}");
    assert_eq!(fixture.pids().len(), 1);
}

fn shutdown_while_connecting_leaves_nothing() {
    let fixture = ServerFixture::with("silent");
    std::thread::scope(|scope| {
        let connecting = scope.spawn(|| fixture.servers.connect("silent"));
        eventually("the process is started", || !fixture.pids().is_empty());
        fixture.servers.shutdown();
        connecting
            .join()
            .expect("no panic")
            .expect_err("it was shut down");
    });
    fixture.assert_nothing_left();
}

fn removing_ends_a_server() {
    let fixture = ServerFixture::with("normal");
    fixture.servers.connect("normal").expect("connected");
    fixture.servers.remove("normal").expect("removed");
    eventually("the process ends", || {
        fixture.pids().iter().all(|pid| !is_alive(pid))
    });
    fixture
        .servers
        .connect("normal")
        .expect_err("the server was removed");
}

fn servers_end_with_the_process_that_started_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("report");
    let mut parent = Command::new(std::env::current_exe().expect("this program"))
        .args(["--as-parent".as_ref(), report.as_os_str()])
        .stdout(Stdio::null())
        .spawn()
        .expect("started");
    eventually("the server is started", || {
        std::fs::read_to_string(&report).is_ok_and(|text| text.contains(' '))
    });
    let pids = std::fs::read_to_string(&report).expect("read");
    assert!(pids.split(' ').all(is_alive), "{pids}");
    parent.kill().expect("killed");
    parent.wait().expect("the process ends");
    eventually("all processes end", || !pids.split(' ').any(is_alive));
}
