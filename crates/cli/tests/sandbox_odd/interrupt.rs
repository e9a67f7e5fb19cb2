//! Recording of the changes of a command: one signal ends the recording, no data is lost, and file
//! sizes are bounded.

use std::io::Read as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::SandboxFixture;
use cleveragents_testkit::Answer;

fn bench_with_sandbox() -> SandboxFixture {
    let fixture = SandboxFixture::new();
    let repository = fixture.repository("r");
    fixture.create(&repository);
    fixture
}

/// Runs a script whose large file takes long to record, and sends one signal during the recording.
fn interrupt_recording(fixture: &SandboxFixture, signal: Signal, options: &[&str]) -> Answer {
    let arguments = [
        options,
        &["sandbox", "exec", "s", "--", "sh", "-c"],
        &["echo x > small; truncate -s 1500M large; echo made >&2"],
    ];
    let mut child = fixture
        .agents
        .command(arguments.concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let large = fixture.sandbox().join("work/r/large");
    let started = Instant::now();
    while !large.exists() {
        assert!(
            started.elapsed() < Duration::from_mins(1),
            "the command did not run"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    if options.is_empty() {
        let mut output = [0; 5];
        let errors = child.stderr.as_mut().expect("a pipe");
        errors
            .read_exact(&mut output)
            .expect("the output of the command");
    }
    // After this pause, the command has ended and the recording is running.
    std::thread::sleep(Duration::from_millis(700));
    let number = i32::try_from(child.id()).expect("a number");
    let process = Pid::from_raw(number).expect("a process");
    kill_process(process, signal).expect("the program is running");
    Answer::from_output(&child.wait_with_output().expect("the program ends"))
}

#[test]
fn one_signal_ends_the_recording_and_rollback_works() {
    for signal in [Signal::INT, Signal::TERM] {
        let fixture = bench_with_sandbox();
        let answer = interrupt_recording(&fixture, signal, &[]);
        assert_eq!(answer.code, Some(130), "{answer:?}");
        assert!(answer.err.contains("interrupted"), "{answer:?}");
        // No change was recorded, and no file is lost.
        let work = fixture.sandbox().join("work/r");
        assert!(work.join("large").exists() && work.join("small").exists());
        fixture.run_successfully(["sandbox", "rollback", "s"]);
        assert!(!work.join("large").exists() && !work.join("small").exists());
        fixture.run_successfully(["sandbox", "redo", "s"]);
        assert_eq!(std::fs::read(work.join("small")).expect("a file"), b"x\n");
    }
}

#[test]
fn json_output_reports_that_nothing_was_recorded() {
    let fixture = bench_with_sandbox();
    let answer = interrupt_recording(&fixture, Signal::INT, &["--format", "json"]);
    assert_eq!(answer.code, Some(130), "{answer:?}");
    let data = answer.json()["data"].clone();
    assert_eq!(data["is_recorded"], false, "{data}");
    assert_eq!(data["ending"], serde_json::json!({"Exited": 0}), "{data}");
    assert!(data["changes"].is_null(), "{data}");
}

/// The signal that ends the command does not interrupt the recording of its changes.
#[test]
fn the_signal_that_ends_a_command_leaves_its_changes_recorded() {
    let fixture = bench_with_sandbox();
    for round in 0..5 {
        let arguments = [
            "--format",
            "plain",
            "sandbox",
            "exec",
            "s",
            "--",
            "sh",
            "-c",
            &format!("echo x > file-{round}; echo begun; exec sleep 100"),
        ]
        .map(str::to_owned);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (code, screen) = fixture.agents.play(&[("begun", "\x03")], &arguments);
        assert_eq!(code, Some(130), "{screen}");
        assert!(!screen.contains("interrupted"), "{screen}");
        assert!(
            fixture.diff().contains_key(&format!("file-{round}")),
            "{screen}"
        );
    }
}

#[test]
fn a_file_larger_than_any_disk_is_recorded_at_once_and_rolled_back() {
    let fixture = bench_with_sandbox();
    let command = ["sandbox", "exec", "s", "--max-file", "4194304", "--"];
    let answer =
        fixture.run_successfully([&command[..], &["truncate", "-s", "2T", "large"]].concat());
    assert!(answer.err.contains("is not kept"), "{answer:?}");
    assert_eq!(fixture.diff()["large"], "create");
    fixture.refused(&["sandbox", "apply", "s"], 1, "CA-0652");
    fixture.run_successfully(["sandbox", "rollback", "s"]);
    assert!(!fixture.sandbox().join("work/r/large").exists());
    assert!(fixture.diff().is_empty());
}
