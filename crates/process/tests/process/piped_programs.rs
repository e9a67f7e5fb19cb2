//! Programs with which this process communicates while they run.

use crate::harness::{Sandbox, eventually, for_every, is_alive, tests};
use crate::parent::Parent;
use cleveragents_domain::{Code, Diagnose};
use cleveragents_process::{Ending, Invocation, start};
use std::io::{BufRead, BufReader, Read, Write};
use std::sync::mpsc;
use std::time::Duration;

tests![
    a_program_answers_line_by_line_and_ends_with_its_input,
    stopping_kills_a_program_that_does_not_exit,
    dropping_kills_the_whole_tree,
    a_closed_output_is_seen_while_the_program_runs,
    errors_are_received_as_they_arrive,
    a_missing_program_is_reported,
    a_started_program_dies_with_this_process,
];

fn sh(script: &str) -> Invocation {
    let mut invocation = Invocation::new("sh", "/");
    invocation.arguments = vec!["-c".into(), script.into()];
    invocation
}

fn ignore_errors() -> cleveragents_process::StderrCallback {
    Box::new(|_| {})
}

fn a_program_answers_line_by_line_and_ends_with_its_input() {
    for_every(|_, mode| {
        let sandbox = Sandbox::with_mode(mode);
        let script = "while read line; do echo \"<$line>\"; done; exit 3";
        let invocation = sandbox.invocation("sh", &["-c", script]);
        let (running, mut pipes) = start(invocation, ignore_errors()).expect("it starts");
        let mut answers = BufReader::new(pipes.output);
        for word in ["one", "two"] {
            writeln!(pipes.input, "{word}").expect("it reads");
            let mut answer = String::new();
            answers.read_line(&mut answer).expect("it answers");
            assert_eq!(answer, format!("<{word}>\n"));
        }
        assert!(!running.has_ended());
        drop(pipes.input);
        let finished = running.stop(Duration::from_mins(1)).expect("it ends");
        assert_eq!(finished.ending, Ending::Exited(3), "{mode:?}");
    });
}

fn stopping_kills_a_program_that_does_not_exit() {
    let (running, pipes) =
        start(sh("trap '' TERM; echo up; sleep 1000"), ignore_errors()).expect("starts");
    let mut line = String::new();
    BufReader::new(pipes.output)
        .read_line(&mut line)
        .expect("it is up");
    drop(pipes.input);
    let finished = running.stop(Duration::ZERO).expect("it is killed");
    assert_eq!(finished.ending, Ending::Cancelled);
}

fn dropping_kills_the_whole_tree() {
    let mark = format!("piped-mark-{}", std::process::id());
    let script = format!("setsid sh -c 'sleep 1000; # {mark}' & echo up; cat");
    let (running, pipes) = start(sh(&script), ignore_errors()).expect("it starts");
    let mut output = BufReader::new(pipes.output);
    let mut line = String::new();
    output.read_line(&mut line).expect("it is up");
    eventually("the daemon", || is_alive(&mark));
    drop(running);
    assert!(!is_alive(&mark));
}

fn a_closed_output_is_seen_while_the_program_runs() {
    let (running, mut pipes) =
        start(sh("exec >&-; cat > /dev/null"), ignore_errors()).expect("it starts");
    let mut message = Vec::new();
    pipes
        .output
        .read_to_end(&mut message)
        .expect("the end is seen");
    assert!(message.is_empty() && !running.has_ended());
}

fn errors_are_received_as_they_arrive() {
    let (sender, reported) = mpsc::channel();
    let errors = Box::new(move |bytes: &[u8]| {
        let _unless_gone = sender.send(bytes.to_vec());
    });
    let (running, _pipes) = start(sh("echo failed >&2; cat"), errors).expect("it starts");
    assert_eq!(reported.recv().expect("the error output"), b"failed\n");
    assert!(!running.has_ended());
}

fn a_missing_program_is_reported() {
    let error = start(Invocation::new("no-such-program", "/"), ignore_errors())
        .expect_err("it does not exist");
    assert_eq!(error.code(), Code::ProgramNotFound);
}

fn a_started_program_dies_with_this_process() {
    for_every(|number, mode| {
        let mark = format!("piped-parent-{number}-{}", std::process::id());
        let sandbox = Sandbox::with_mode(mode);
        let script =
            format!("setsid sh -c 'touch ready; sleep 1000; # {mark}' & sleep 1000; # {mark}");
        let mut parent = Parent::spawn(mode, "pipes", &sandbox, &["sh", "-c", &script]);
        eventually("the daemon", || sandbox.inside.join("ready").exists());
        parent.child.kill().expect("a kill");
        parent.child.wait().expect("its end");
        eventually("the end of all", || !is_alive(&mark));
    });
}
