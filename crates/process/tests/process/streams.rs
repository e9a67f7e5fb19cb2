//! Input and output: large, limited, unread, and kept open by another process.

use crate::harness::{ConfinementMode, Sandbox, started, stdout, tests};
use cleveragents_process::{Cancel, Ending, Input, Stream, run_tapped};
use std::cell::RefCell;

tests![
    output_beyond_the_limit_is_counted_and_dropped,
    output_at_the_limit_is_complete,
    all_output_is_received_even_if_none_is_kept,
    large_input_is_read_completely,
    unread_input_does_not_block,
    input_cannot_be_changed_by_the_command,
    empty_input_ends_at_once,
    a_daemon_that_keeps_the_output_open_is_not_waited_for,
    the_last_output_is_not_lost,
];

fn output_beyond_the_limit_is_counted_and_dropped() {
    const SIZE: u64 = 100_000_000;
    const LIMIT: u64 = 100_000;
    for mode in ConfinementMode::every() {
        let script =
            format!("head -c {SIZE} /dev/zero & head -c {SIZE} /dev/zero >&2; wait; exit 3");
        let sandbox = Sandbox::with_mode(mode);
        let mut invocation = sandbox.invocation("sh", &["-c", &script]);
        invocation.limits.output_bytes = LIMIT;
        let finished = started(&invocation);
        assert_eq!(finished.ending, Ending::Exited(3));
        for captured in [finished.stdout, finished.stderr] {
            assert_eq!(captured.bytes.len() as u64, LIMIT);
            assert_eq!(captured.dropped, SIZE - LIMIT);
            assert!(captured.bytes.capacity() as u64 <= 4 * LIMIT);
        }
    }
}

fn all_output_is_received_even_if_none_is_kept() {
    const SIZE: usize = 3_000_000;
    for mode in ConfinementMode::every() {
        let script = format!("head -c {SIZE} /dev/zero; echo out; echo err >&2");
        let sandbox = Sandbox::with_mode(mode);
        let mut invocation = sandbox.invocation("sh", &["-c", &script]);
        invocation.limits.output_bytes = 0;
        let received = RefCell::new((Vec::new(), Vec::new()));
        let on_output = |stream, bytes: &[u8]| {
            let (output, errors) = &mut *received.borrow_mut();
            let destination = if stream == Stream::Output {
                output
            } else {
                errors
            };
            destination.extend_from_slice(bytes);
        };
        let finished = run_tapped(&invocation, &Cancel::new(), &on_output).expect("it runs");
        assert_eq!(finished.ending, Ending::Exited(0));
        assert!(finished.stdout.bytes.is_empty());
        let (output, errors) = received.into_inner();
        assert_eq!(output.len(), SIZE + 4);
        assert!(output.ends_with(b"\0out\n"));
        assert_eq!(errors, b"err\n");
    }
}

fn output_at_the_limit_is_complete() {
    let sandbox = Sandbox::new();
    let mut invocation = sandbox.invocation("printf", &["12345"]);
    invocation.limits.output_bytes = 5;
    let finished = started(&invocation);
    assert_eq!(
        (stdout(&finished).as_str(), finished.stdout.dropped),
        ("12345", 0)
    );
    invocation.limits.output_bytes = 4;
    let finished = started(&invocation);
    assert_eq!(
        (stdout(&finished).as_str(), finished.stdout.dropped),
        ("1234", 1)
    );
    invocation.limits.output_bytes = 0;
    let finished = started(&invocation);
    assert_eq!(
        (stdout(&finished).as_str(), finished.stdout.dropped),
        ("", 5)
    );
}

fn large_input_is_read_completely() {
    for mode in ConfinementMode::every() {
        let sandbox = Sandbox::with_mode(mode);
        let mut invocation = sandbox.invocation("sh", &["-c", "cat | tee /dev/stderr | wc -c"]);
        invocation.input = Input::Bytes(vec![b'x'; 20_000_000]);
        let finished = started(&invocation);
        assert_eq!(stdout(&finished).trim(), "20000000", "{mode:?}");
        assert_eq!(
            finished.stderr.bytes.len() as u64 + finished.stderr.dropped,
            20_000_000
        );
    }
}

fn unread_input_does_not_block() {
    for mode in ConfinementMode::every() {
        let sandbox = Sandbox::with_mode(mode);
        let mut invocation = sandbox.invocation("true", &[]);
        invocation.input = Input::Bytes(vec![b'x'; 5_000_000]);
        assert_eq!(started(&invocation).ending, Ending::Exited(0));
    }
}

fn input_cannot_be_changed_by_the_command() {
    let sandbox = Sandbox::new();
    let mut invocation = sandbox.invocation(
        "sh",
        &["-c", "(echo changed > /proc/self/fd/0) 2>/dev/null; cat"],
    );
    invocation.input = Input::Bytes(b"given".to_vec());
    assert_eq!(stdout(&started(&invocation)), "given");
}

fn empty_input_ends_at_once() {
    for mode in ConfinementMode::every() {
        assert_eq!(stdout(&mode.run("cat", &[])), "");
    }
}

fn a_daemon_that_keeps_the_output_open_is_not_waited_for() {
    for mode in ConfinementMode::every() {
        let finished = mode.sh("setsid sleep 1000 & echo started");
        assert_eq!(finished.ending, Ending::Exited(0));
        assert_eq!(stdout(&finished), "started\n");
        assert_eq!(finished.killed_leftovers, 1, "{mode:?}");
    }
}

fn the_last_output_is_not_lost() {
    for _ in 0..20 {
        let finished = Sandbox::new().sh("head -c 60000 /dev/zero; exec 1>&-; exit 0");
        assert_eq!(finished.stdout.bytes.len(), 60_000);
    }
}
