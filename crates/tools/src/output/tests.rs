//! Tests of storing, redacting and truncating output.

use super::{DEFAULT_SHOWN_BYTES, Log, MAX_PENDING, Output, ShownOutput};
use crate::ports::Redact;
use proptest::prelude::*;
use std::borrow::Cow;

struct SecretRedactor;
impl Redact for SecretRedactor {
    fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if text.contains("sk-secret") {
            text.replace("sk-secret", "[REDACTED]").into()
        } else {
            text.into()
        }
    }
}

fn stored_bytes(output: Output<'_>) -> Vec<u8> {
    let mut spool = output.finish().expect("stored");
    spool.bytes_up_to(u64::MAX).expect("read").expect("all")
}

#[test]
fn a_secret_split_across_writes_is_redacted() {
    let mut output = Output::new(&SecretRedactor, 100);
    for piece in ["a sk-", "sec", "ret b"] {
        output.text(piece);
    }
    assert_eq!(stored_bytes(output), b"a [REDACTED] b");
}

#[test]
fn a_secret_of_several_lines_is_redacted() {
    struct LineRedactor;
    impl Redact for LineRedactor {
        fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
            text.replace("one\ntwo\n", "[REDACTED]").into()
        }
        fn unfinished(&self, text: &str) -> usize {
            if text.ends_with("one\n") { 4 } else { 0 }
        }
    }
    let mut output = Output::new(&LineRedactor, 100);
    for line in ["first", "one", "two", "one"] {
        output.line(line);
    }
    assert_eq!(stored_bytes(output), b"first\n[REDACTED]one\n");
}

#[test]
fn a_truncated_log_contains_no_partial_secret() {
    let mut log = Log::default();
    log.push(b"first sk-secret\n");
    assert_eq!(log.text(&SecretRedactor), "first [REDACTED]\n");
    for _ in 0..8_000 {
        log.push(b"sk-secret line\n");
    }
    let text = log.text(&SecretRedactor);
    assert!(
        text.len() <= 2 * super::MAX_LOG_SIZE && !text.contains("secret"),
        "{text}"
    );
    assert!(text.starts_with("[REDACTED] line\n") && text.ends_with(" line\n"));
}

#[test]
fn a_secret_is_redacted_in_a_line_of_any_length() {
    let mut output = Output::new(&SecretRedactor, 100);
    for _ in 0..3 {
        output.text(&"x ".repeat(MAX_PENDING / 2 - 2));
        output.text("sk-sec");
        output.text("ret ");
    }
    let text = String::from_utf8(stored_bytes(output)).expect("text");
    assert_eq!(text.matches("[REDACTED]").count(), 3);
    assert!(!text.contains("sk-sec"));
}

#[test]
fn fifty_megabytes_keep_only_head_and_tail_in_memory() {
    let mut output = Output::new(&SecretRedactor, 1_000);
    let line = "0123456789".repeat(100) + "\n";
    for _ in 0..50_000 {
        output.text(&line);
    }
    output.text("the end\n");
    let mut spool = output.finish().expect("stored");
    assert_eq!(spool.len(), 50_050_008);
    assert!(spool.head.capacity() + spool.tail.capacity() < 10_000);
    let shown = spool.shown();
    assert!(shown.head.starts_with("0123") && shown.tail.ends_with("the end\n"));
    let lines = shown.left_out_lines.expect("most of it");
    assert_eq!((lines.first, shown.total_lines), (1, 50_001));
    let shown_bytes = (shown.head.len() + shown.tail.len()) as u64;
    assert!(shown_bytes <= 1_000 && shown.left_out == shown.total - shown_bytes);
    let mut read = 0;
    std::io::copy(&mut spool.reader().expect("a reader"), &mut std::io::sink())
        .map(|bytes| read = bytes)
        .expect("read");
    assert_eq!(read, 50_050_008);
}

#[test]
fn utf8_characters_are_never_split() {
    let mut output = Output::new(&SecretRedactor, 101);
    output.text(&"é".repeat(500));
    let shown = output.finish().expect("stored").shown();
    assert!(!shown.head.contains('\u{fffd}') && !shown.tail.contains('\u{fffd}'));
    assert_eq!(
        shown.left_out + (shown.head.len() + shown.tail.len()) as u64,
        1_000
    );
}

proptest! {
    #[test]
    fn spooled_output_is_unchanged(
        pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..20),
        limit in 4_usize..200,
    ) {
        let mut output = Output::new(&SecretRedactor, limit);
        for piece in &pieces {
            output.bytes(piece);
        }
        let all = pieces.concat();
        prop_assert_eq!(output.len(), all.len() as u64);
        let mut spool = output.finish().expect("stored");
        prop_assert_eq!(spool.bytes_up_to(u64::MAX).expect("read").expect("all"), all.clone());
        let shown = spool.shown();
        prop_assert_eq!(shown.total, all.len() as u64);
        if all.len() <= limit {
            prop_assert_eq!(shown.head, String::from_utf8_lossy(&all));
        }
    }
}

#[test]
fn long_output_is_shown_as_whole_lines_of_head_and_tail() {
    let text: Vec<String> = (1..=20_000).map(|line| format!("line {line}\n")).collect();
    let text = text.concat();
    let mut output = Output::new(&SecretRedactor, DEFAULT_SHOWN_BYTES);
    output.text(&text);
    let shown = output.finish().expect("stored").shown();
    assert_eq!(
        shown,
        ShownOutput::truncate(text.as_bytes(), DEFAULT_SHOWN_BYTES)
    );
    assert!(shown.head.len() + shown.tail.len() <= DEFAULT_SHOWN_BYTES);
    assert!(shown.head.len() > 9_900 && shown.tail.len() > 29_900);
    let left_out = shown.left_out_lines.expect("the middle");
    let lines = |first: u64, last: u64| -> String {
        let lines: Vec<String> = (first..=last)
            .map(|line| format!("line {line}\n"))
            .collect();
        lines.concat()
    };
    assert_eq!(shown.head, lines(1, left_out.first - 1));
    assert_eq!(shown.tail, lines(left_out.last + 1, 20_000));
    assert_eq!(shown.total_lines, 20_000);
}
