//! Programs without stages, such as this one, which does not control its `main`: trusted commands run in a process
//! group, confined commands are refused.

use cleveragents_domain::{Code, Diagnose};
use cleveragents_process::{Cancel, Ending, Input, Invocation, Policy, Tree, capabilities, run};
use std::time::Duration;

fn sh(script: &str) -> Invocation {
    let mut invocation = Invocation::new("sh", "/");
    invocation.arguments = vec!["-c".into(), script.into()];
    invocation
}

#[test]
fn trusted_commands_run() {
    let mut invocation = sh("cat; echo failed >&2; exit 3");
    invocation.input = Input::Bytes(b"hello".to_vec());
    let finished = run(&invocation, &Cancel::new()).expect("it starts");
    assert_eq!(finished.ending, Ending::Exited(3));
    assert_eq!(finished.stdout.bytes, b"hello");
    assert_eq!(finished.stderr.bytes, b"failed\n");
    assert_eq!(finished.enforced.tree, Tree::ProcessGroup);
}

#[test]
fn confined_commands_are_refused() {
    let mut invocation = sh("true");
    invocation.confinement = Some(Policy::default());
    let error = run(&invocation, &Cancel::new()).expect_err("there are no stages");
    assert_eq!(error.code(), Code::CommandNotStarted);
    assert!(!capabilities().can_confine());
}

#[test]
fn a_missing_program_is_not_found() {
    let error = run(&Invocation::new("no-such-program", "/"), &Cancel::new());
    assert_eq!(
        error.expect_err("it does not exist").code(),
        Code::ProgramNotFound
    );
}

#[test]
fn the_group_dies_at_the_time_limit() {
    let mut invocation = sh("sleep 1000 & sleep 1000");
    invocation.limits.time = Some(Duration::from_millis(200));
    let finished = run(&invocation, &Cancel::new()).expect("it starts");
    assert_eq!(finished.ending, Ending::TimedOut);
}

#[test]
fn processes_that_left_the_group_are_not_waited_for() {
    let finished = run(&sh("setsid sleep 2 & echo started"), &Cancel::new()).expect("it starts");
    assert_eq!(finished.stdout.bytes, b"started\n");
    assert!(finished.elapsed < Duration::from_secs(2));
}

#[test]
fn signals_reach_the_group() {
    let cancel = Cancel::new();
    let signaller = cancel.clone();
    let signalling = std::thread::spawn(move || {
        while !signaller.is_cancelled() {
            signaller.signal(15);
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let finished = run(&sh("sleep 1000"), &cancel).expect("it starts");
    cancel.cancel();
    signalling.join().expect("no panic");
    assert_eq!(finished.ending, Ending::Signalled(15));
}
