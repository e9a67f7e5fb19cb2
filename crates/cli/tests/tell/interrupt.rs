//! One signal during the recording of the changes of a call ends the turn. The call is stored with
//! its outcome, and the sandbox can be rolled back.

use std::time::{Duration, Instant};

use cleveragents_testkit::Answer;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::world::{ConversationFixture, agents};

#[test]
fn one_signal_ends_the_recording_of_changes_in_a_turn() {
    let command = "echo x > small.txt; truncate -s 3000M large; touch made";
    let script = json!({"answers": [
        {"calls": [{"name": "builtin/shell", "arguments": {"command": command}}]},
        {"text": "Done."},
    ]});
    let fixture = ConversationFixture::scripted(agents(), &script.to_string());
    let child = fixture.start(&["make it"]);
    let started = Instant::now();
    while fixture.file("made").is_none() {
        assert!(
            started.elapsed() < Duration::from_mins(1),
            "the command did not run"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    // After this pause, the command has ended and the recording is running.
    std::thread::sleep(Duration::from_millis(700));
    let number = i32::try_from(child.id()).expect("a number");
    let process = Pid::from_raw(number).expect("a process");
    kill_process(process, Signal::INT).expect("the program is running");
    let started = Instant::now();
    let answer = Answer::from_output(&child.wait_with_output().expect("the program ends"));
    assert!(started.elapsed() < Duration::from_secs(5), "{answer:?}");
    assert_eq!(answer.code, Some(130), "{answer:?}");
    let calls = fixture.ask("SELECT outcome, error FROM tool_invocations");
    assert_eq!(calls.len(), 1, "{calls:?}");
    assert_eq!(calls[0][0], "failed", "{calls:?}");
    assert!(
        calls[0][1].contains("it succeeded, but recording"),
        "{calls:?}"
    );
    assert!(
        fixture.sandbox_folder.join("large").exists(),
        "nothing is lost"
    );
    fixture.agents.data(&["sandbox", "rollback", "box"]);
    assert!(
        !fixture.sandbox_folder.join("large").exists()
            && !fixture.sandbox_folder.join("small.txt").exists()
    );
}
