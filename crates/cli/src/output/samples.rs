//! Reports and errors for the tests of this module.

use std::time::Duration;

use cleveragents_domain::{Code, MicroUsd, Timestamp};
use serde_json::json;

use super::{
    Align, Cell, CommandError, Entry, Format, Panel, Printer, Report, StandardStreams, Table,
    Timing,
};

/// A terminal of eighty columns.
pub(crate) const TERMINAL: StandardStreams = StandardStreams {
    stdout_is_terminal: true,
    stderr_is_terminal: true,
    is_dumb: false,
    shows_unicode: true,
    forbids_colour: false,
    width: 80,
};

pub(crate) const PIPE: StandardStreams = StandardStreams {
    stdout_is_terminal: false,
    stderr_is_terminal: false,
    ..TERMINAL
};

/// A fixed clock.
pub(crate) const TIMING: Timing = Timing::fixed(
    Timestamp::from_micros(1_769_860_800_000_000),
    Duration::from_millis(12),
);

/// A report with every kind of block.
pub(crate) fn report() -> Report {
    Report::new("session show")
        .data(json!({
            "session": {"id": "01J9ZC5V7Q8W9E0R1T2Y3V4X5Z", "name": null, "version": "12"},
            "messages": [{"content": "first line\nsecond \u{1b}[31mline"}],
        }))
        .panel(
            Panel::new("Session")
                .row("Id", Cell::Id("01J9ZC5V7Q8W9E0R1T2Y3V4X5Z".to_owned()))
                .row("Name", None::<String>)
                .row("Created", Timestamp::from_micros(1_769_860_800_000_000))
                .row(
                    "Summary",
                    "a text that is longer than the terminal is wide, \
                     so that it has to go on in another line, aligned with the first",
                ),
        )
        .panel(
            Panel::new("Usage")
                .row("Cost", MicroUsd(12_300))
                .row("Size", Cell::Bytes(1_572_864))
                .row("State", Cell::Good("open".to_owned())),
        )
        .table(
            Table::new("Messages")
                .column("Number", Align::Right)
                .column("Role", Align::Left)
                .column("Preview", Align::Left)
                .row(vec![0_u64.into(), "user".into(), "hello".into()])
                .row(vec![
                    10_u64.into(),
                    "assistant".into(),
                    "日本語 \u{1b}[31m".into(),
                ]),
        )
        .table(
            Table::new("Plans")
                .column("Id", Align::Left)
                .empty("No plans yet"),
        )
        .transcript(vec![
            Entry::new("user", "first line\n\n\tsecond \u{1b}[31mline").fact(0_u64),
            Entry::new("assistant", "ok")
                .fact(1_u64)
                .fact(Timestamp::from_micros(0)),
        ])
        .text("two lines\nof text")
        .info("read from /srv/db")
        .ok("Session shown")
        .warn("the summary is old")
}

/// An error with every kind of content.
pub(crate) fn error() -> CommandError {
    CommandError::new(
        Code::SessionNotFound,
        "session 01J9ZC5V7Q8W9E0R1T2Y3V4X5Z does not exist",
    )
    .caused_by(&std::io::Error::other("the row is\ngone \u{1b}[31m"))
    .with_hint("run `agents session list` to see every session")
    .with_details(json!({"session_id": "01J9ZC5V7Q8W9E0R1T2Y3V4X5Z"}))
}

/// The output of a report: standard output and standard error.
pub(crate) fn printed(
    report: &Report,
    format: Format,
    surface: &StandardStreams,
) -> (String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    Printer::new(format, surface)
        .report(report, TIMING, &mut out, &mut err)
        .expect("writing to memory");
    (
        String::from_utf8(out).expect("text"),
        String::from_utf8(err).expect("text"),
    )
}

/// The output of an error: standard output and standard error.
pub(crate) fn printed_error(
    error: &CommandError,
    format: Format,
    surface: &StandardStreams,
) -> (String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    Printer::new(format, surface)
        .error("session show", error, TIMING, &mut out, &mut err)
        .expect("writing to memory");
    (
        String::from_utf8(out).expect("text"),
        String::from_utf8(err).expect("text"),
    )
}
