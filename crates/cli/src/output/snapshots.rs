//! Tests of complete outputs: each format of one report and of one error, and properties of all
//! formats.

use std::io::{self, Write};
use std::time::Instant;

use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

use super::samples::{PIPE, TERMINAL, TIMING, error, printed, printed_error, report};
use super::{
    Align, Cell, CommandError, Entry, Format, Panel, Printer, Report, StandardStreams, Table,
};

/// Both streams of a report, with escape characters made visible.
fn print_streams(format: Format, surface: &StandardStreams) -> String {
    let (out, err) = printed(&report(), format, surface);
    format!("{out}--- stderr\n{err}").replace('\u{1b}', "␛")
}

#[test]
fn rich_draws_boxes() {
    insta::assert_snapshot!(print_streams(Format::Rich, &PIPE));
}

#[test]
fn rich_is_coloured_on_a_terminal() {
    insta::assert_snapshot!(print_streams(Format::Rich, &TERMINAL));
}

#[test]
fn color_writes_coloured_lines() {
    insta::assert_snapshot!(print_streams(Format::Color, &PIPE));
}

#[test]
fn table_draws_ascii_tables() {
    insta::assert_snapshot!(print_streams(Format::Table, &PIPE));
}

#[test]
fn plain_writes_lines() {
    insta::assert_snapshot!(print_streams(Format::Plain, &PIPE));
}

#[test]
fn json_is_one_document() {
    insta::assert_snapshot!(print_streams(Format::Json, &PIPE));
}

#[test]
fn yaml_is_one_document() {
    insta::assert_snapshot!(print_streams(Format::Yaml, &PIPE));
}

#[test]
fn an_error_in_each_format() {
    for format in Format::ALL {
        let (out, err) = printed_error(&error(), format, &TERMINAL);
        let text = format!("--- stdout\n{out}--- stderr\n{err}").replace('\u{1b}', "␛");
        insta::assert_snapshot!(format!("error_{format}"), text);
    }
}

#[test]
fn colours_are_written_only_where_requested() {
    let forbidden = StandardStreams {
        forbids_colour: true,
        ..TERMINAL
    };
    let dumb = StandardStreams {
        is_dumb: true,
        ..TERMINAL
    };
    let is_coloured = |format, surface: &StandardStreams| {
        let (out, err) = printed(&report(), format, surface);
        (out.contains('\u{1b}'), err.contains('\u{1b}'))
    };
    assert_eq!(is_coloured(Format::Color, &TERMINAL), (true, true));
    assert_eq!(is_coloured(Format::Color, &PIPE), (true, true));
    assert_eq!(is_coloured(Format::Color, &forbidden), (false, false));
    assert_eq!(is_coloured(Format::Rich, &TERMINAL), (true, true));
    assert_eq!(is_coloured(Format::Rich, &PIPE), (false, false));
    assert_eq!(is_coloured(Format::Rich, &forbidden), (false, false));
    assert_eq!(is_coloured(Format::Rich, &dumb), (false, false));
    for format in [Format::Plain, Format::Table, Format::Json, Format::Yaml] {
        assert_eq!(is_coloured(format, &TERMINAL), (false, false), "{format}");
    }
    let error_only = StandardStreams {
        stdout_is_terminal: false,
        ..TERMINAL
    };
    assert_eq!(is_coloured(Format::Rich, &error_only), (false, true));
}

#[test]
fn color_moves_no_cursor() {
    let (out, _) = printed(&report(), Format::Color, &TERMINAL);
    for sequence in out.split("\u{1b}[").skip(1) {
        let end = sequence
            .find(|letter: char| letter.is_ascii_alphabetic())
            .expect("an end");
        assert_eq!(&sequence[end..=end], "m");
    }
}

#[test]
fn the_frames_of_plain_and_table_are_ascii() {
    let report = Report::new("x")
        .panel(Panel::new("A").row("b", 1_u64))
        .table(
            Table::new("C")
                .column("d", Align::Right)
                .row(vec![2_u64.into()]),
        )
        .table(Table::new("E").column("f", Align::Left))
        .transcript(vec![Entry::new("user", "hello")])
        .ok("done")
        .info("so")
        .warn("but");
    for format in [Format::Plain, Format::Table] {
        let (out, err) = printed(&report, format, &PIPE);
        assert!(out.is_ascii() && err.is_ascii(), "{out}{err}");
    }
}

#[test]
fn plain_never_wraps_or_cuts() {
    let long = "word ".repeat(500) + "end";
    let narrow = StandardStreams {
        width: 30,
        ..TERMINAL
    };
    let report = Report::new("x")
        .panel(Panel::new("A").row("long", long.as_str()))
        .table(
            Table::new("B")
                .column("long", Align::Left)
                .row(vec![long.as_str().into()]),
        );
    for format in [Format::Plain, Format::Color] {
        let (out, _) = printed(&report, format, &narrow);
        assert_eq!(
            out.lines().filter(|line| line.contains(&long)).count(),
            2,
            "{format}"
        );
    }
}

#[test]
fn a_row_with_too_few_or_too_many_values_is_still_a_row() {
    let report = Report::new("x").table(
        Table::new("A")
            .column("b", Align::Left)
            .column("c", Align::Right)
            .row(vec![])
            .row(vec!["1".into(), "2".into(), "3".into()]),
    );
    let (out, _) = printed(&report, Format::Rich, &PIPE);
    assert!(!out.contains('3') && out.lines().count() == 6, "{out}");
}

/// Fails like a pipe without a reader.
struct ClosedPipe;

impl Write for ClosedPipe {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

/// Fails like a full disk.
struct FullDisk;

impl Write for FullDisk {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::StorageFull.into())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_closed_pipe_is_not_an_error_but_a_full_disk_is() {
    for format in Format::ALL {
        let printer = Printer::new(format, &PIPE);
        printer
            .report(&report(), TIMING, &mut ClosedPipe, &mut ClosedPipe)
            .expect("closed");
        printer
            .error("x", &error(), TIMING, &mut ClosedPipe, &mut ClosedPipe)
            .expect("closed");
        let full = printer
            .report(&report(), TIMING, &mut FullDisk, &mut FullDisk)
            .expect_err("full");
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    }
}

#[test]
fn ten_thousand_rows_print_within_the_time_limit() {
    let rows: Vec<_> = (0..10_000_u64)
        .map(
            |number| serde_json::json!({"id": format!("01J9ZC5V{number:018}"), "messages": number}),
        )
        .collect();
    let report = Report::new("session list")
        .data(serde_json::json!({"sessions": rows}))
        .table(
            Table::new("Sessions")
                .column("Id", Align::Left)
                .column("Name", Align::Left)
                .column("Messages", Align::Right)
                .column("Summary", Align::Left)
                .rows((0..10_000_u64).map(|number| {
                    vec![
                        Cell::Id(format!("01J9ZC5V{number:018}")),
                        "naïve name".into(),
                        number.into(),
                        "a summary of some length that does not fit the terminal at all".into(),
                    ]
                })),
        );
    for format in Format::ALL {
        let start = Instant::now();
        let (out, _) = printed(&report, format, &TERMINAL);
        let elapsed = start.elapsed();
        println!("{format}: {elapsed:?} for {} bytes", out.len());
        assert!(out.lines().count() >= 10_000);
        // Far above the time needed even without optimisation; a quadratic layout takes minutes.
        assert!(elapsed.as_secs() < 20, "{format} took {elapsed:?}");
    }
}

/// Text of every kind: wide, combining, right to left, emoji, control characters.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[a-z日本語 é👩\u{200d}❤\u{fe0f}\u{301}لاक्ष🇫🇷\u{1b}\u{7}\r\n\t]{0,60}",
        "[a-z ]{0,200}",
    ]
}

prop_compose! {
    fn any_report()(
        texts in proptest::collection::vec(any_text(), 12),
        rows in 0_usize..4,
    ) -> Report {
        let text = |index: usize| texts[index].clone();
        Report::new("x")
            .panel(Panel::new(format!("T{}", text(0))).row(text(1), text(2)).row(text(3), Cell::Id(text(4))))
            .panel(Panel::new("Empty"))
            .table(
                Table::new(format!("T{}", text(5)))
                    .column(text(6), Align::Left)
                    .column(text(7), Align::Right)
                    .column("c", Align::Left)
                    .rows((0..rows).map(|row| vec![text(8 + row).into(), text(row).into(), text(row + 3).into()]))
                    .empty(text(8)),
            )
    }
}

proptest! {
    #[test]
    fn the_lines_of_every_box_are_equally_wide(report in any_report(), width in 30_usize..120) {
        let surface = StandardStreams { width, ..PIPE };
        for (format, surface) in [
            (Format::Rich, surface),
            (Format::Table, StandardStreams { stdout_is_terminal: true, ..surface }),
        ] {
            let (out, _) = printed(&report, format, &surface);
            for block in out.split("\n\n") {
                let framed = |line: &&str| line.starts_with(['╭', '│', '├', '╰', '+', '|']);
                let widths: Vec<_> = block.lines().filter(framed).map(UnicodeWidthStr::width).collect();
                prop_assert!(!widths.is_empty());
                prop_assert!(widths.iter().all(|width| *width == widths[0]), "{widths:?}\n{block}");
                prop_assert!(widths[0] <= width, "{}\n{block}", widths[0]);
            }
        }
    }

    #[test]
    fn no_control_character_of_the_data_reaches_the_terminal(
        report in any_report(), texts in proptest::collection::vec(any_text(), 6),
    ) {
        let text = |index: usize| texts[index].clone();
        let report = report
            .transcript(vec![Entry::new(text(0), text(1)).fact(text(2))])
            .text(text(3))
            .ok(text(4))
            .warn(text(5))
            .info(text(0));
        let error = CommandError::usage(text(1))
            .with_hint(text(2))
            .caused_by(&io::Error::other(text(3)));
        for format in Format::ALL {
            let surface = StandardStreams { forbids_colour: true, ..TERMINAL };
            let (out, err) = printed(&report, format, &surface);
            let (error_out, error_err) = printed_error(&error, format, &surface);
            for text in [out, err, error_out, error_err] {
                let bad = text.chars().find(|letter| letter.is_control() && *letter != '\n' && *letter != '\t');
                prop_assert_eq!(bad, None, "{}: {:?}", format, text);
            }
        }
    }
}
