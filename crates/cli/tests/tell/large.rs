//! A tool that prints 50 MB.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use cleveragents_testkit::Answer;
use cleveragents_testkit::model_server::{ModelServer, ReceivedRequest};
use serde_json::json;

use super::form::{Shape, WireFormat};
use super::world::{ConversationFixture, SHELL, agents};

/// Last number in the output. The numbers from 1, one per line, exceed 50 MB.
const LAST: u64 = 6_700_000;
const TOTAL: u64 = 52_488_896;

/// Number of bytes before the line `1000000`. From there on, every line has 8 bytes.
const BEFORE_A_MILLION: u64 = 6_888_888;

/// Maximum memory of the program in KiB: the output once, to store it, and its base usage, of which a debug build maps about
/// 60 MiB from its own file.
const MAX_MEMORY: u64 = 160 << 10;

/// Peak memory of a process in KiB.
fn peak_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a running process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.expect("a peak").trim().trim_end_matches(" kB");
    number.parse().expect("a number")
}

/// Reference to the omitted lines in the result for the model: call id and first omitted line.
fn reference(content: &str) -> (String, u64) {
    let (_, rest) = content
        .split_once("Read them with read_file: ")
        .unwrap_or_else(|| panic!("no reference to the omitted lines: {content}"));
    let line = rest.lines().next().expect("a line");
    let reported: serde_json::Value = serde_json::from_str(line).expect("JSON");
    let invocation = reported["path"].as_str().expect("a row").to_owned();
    (invocation, reported["offset"].as_u64().expect("an offset"))
}

fn check_shown(content: &str) -> (String, u64) {
    assert!(content.len() < 42_000, "{} bytes are shown", content.len());
    assert!(content.contains(&format!("of {TOTAL} bytes")), "{content}");
    assert!(content.contains(&format!("of {LAST} omitted")), "{content}");
    assert!(content.contains("\n1\n2\n3\n"), "the beginning is shown");
    assert!(content.contains(&format!("\n{LAST}\n")), "the end is shown");
    reference(content)
}

#[test]
fn an_output_of_50_mb_is_capped_kept_and_read_in_pages() {
    for form in WireFormat::BOTH {
        let pid = Arc::new(AtomicU32::new(0));
        let peak = Arc::new(AtomicU64::new(0));
        let shared = (Arc::clone(&pid), Arc::clone(&peak));
        let middle = 3_210_987;
        let server = ModelServer::answering(move |request: &ReceivedRequest| {
            let results = form.results(request);
            match results.as_slice() {
                [] => {
                    let print = json!({"command": format!("seq 1 {LAST}")}).to_string();
                    form.calls(Shape::Pieces, &[("big", SHELL, &print)])
                }
                [big] => {
                    shared.1.store(
                        peak_memory(shared.0.load(Ordering::SeqCst)),
                        Ordering::SeqCst,
                    );
                    let (invocation, offset) = check_shown(&big.content);
                    let page = |offset: u64, limit: u64| {
                        json!({"invocation": invocation, "offset": offset, "limit": limit})
                            .to_string()
                    };
                    let next =
                        json!({"path": invocation, "offset": offset, "limit": 10}).to_string();
                    let far = BEFORE_A_MILLION + 8 * (middle - 1_000_000);
                    let calls = [
                        ("far", page(far, 80)),
                        ("last", page(TOTAL - 8, 80)),
                        ("behind", page(TOTAL, 80)),
                    ];
                    let mut calls: Vec<(&str, &str, &str)> = calls
                        .iter()
                        .map(|(id, arguments)| (*id, "builtin_S_output-read", &**arguments))
                        .collect();
                    calls.push(("next", "read_file", &next));
                    form.calls(Shape::Pieces, &calls)
                }
                _ => form.text_response(Shape::Pieces, &["Read."]),
            }
        });
        let fixture = ConversationFixture::at(agents(), form, server);
        let child = fixture.start(&["print much"]);
        pid.store(child.id(), Ordering::SeqCst);
        let answer = Answer::from_output(&child.wait_with_output().expect("the program ends"));
        assert_eq!(answer.code, Some(0), "{answer:?}");
        assert_eq!(answer.json()["data"]["response"], "Read.");
        let peak = peak.load(Ordering::SeqCst);
        assert!(
            peak > 0 && peak < MAX_MEMORY,
            "{form:?}: {peak} KiB of memory"
        );
        let received = fixture.server().received();
        let results = form.results(&received[2]);
        let result_of = |id: &str| {
            let result = results.iter().find(|result| result.id == id);
            result.expect("a result").content.clone()
        };
        let (_, offset) = reference(&result_of("big"));
        assert!(offset > 1_000, "the beginning was shown");
        let expected: Vec<String> = (middle..middle + 10).map(|line| line.to_string()).collect();
        let expected = expected.join(
            "
",
        );
        assert!(
            result_of("far").contains(&format!("\n{expected}\n<")),
            "{}",
            result_of("far")
        );
        assert!(
            result_of("last").contains(&format!("\n{LAST}\n")),
            "{}",
            result_of("last")
        );
        assert!(
            result_of("behind").contains("cannot be read"),
            "{}",
            result_of("behind")
        );
        let (next, last) = (result_of("next"), offset + 9);
        assert!(next.contains(&format!("\n{offset}\n")), "{next}");
        assert!(
            next.contains(&format!("Lines {offset}–{last} of {LAST}.")),
            "{next}"
        );
        let stored = fixture.ask("SELECT max(length(content)) FROM messages");
        let stored: u64 = stored[0][0].parse().expect("a number");
        assert!(stored < 80 << 10, "the session stays small: {stored}");
    }
}
