//! Rows and columns: the common form of panels, tables and transcripts once their values are text.
//!
//! [`Grid::fit_to`] chooses the columns of a table for a width: ids and times become short, texts wrap at spaces, paths
//! lose their middle, unimportant columns disappear, and as the last resort each row becomes a card with one line per
//! column. Names are never broken. From [`LOSSLESS_WIDTH`] columns on, no column disappears and no path is shortened.
//!
//! Column widths are computed once from all rows. Rows are then written one after the other, so that
//! long lists need little memory beyond their text.

use std::io::{self, Write};

use super::block::{Align, Entry, Fit, Panel, Table};
use super::cell::Cell;
use super::layout::{self, fit, fit_above, shorten_middle, truncate, widest_word, width};
use super::paint::{Paint, Tone};
use super::visible::{visible, visible_lines};

/// Width from which a table shows every column and whole paths.
pub(crate) const LOSSLESS_WIDTH: usize = 120;

/// Minimum length of a shortened id: the time part, which ids of different milliseconds do not share.
const MIN_ID: usize = 10;

/// Width above which a word may be broken.
const MAX_WORD: usize = 40;

/// Minimum width of a column of text that wraps.
const MIN_TEXT: usize = 14;

/// Minimum width of a shortened path.
const MIN_PATH: usize = 20;

/// A text with its tone and width, ready to be written.
#[derive(Debug, Clone)]
pub(crate) struct StyledText {
    pub(crate) text: String,
    pub(crate) tone: Tone,
    /// Width of its widest line, in columns.
    pub(crate) width: usize,
    is_one_line: bool,
}

impl StyledText {
    pub(crate) fn new(text: impl Into<String>, tone: Tone) -> Self {
        let text = text.into();
        Self {
            width: layout::widest_line(&text),
            is_one_line: !text.contains('\n'),
            text,
            tone,
        }
    }
}

impl StyledText {
    fn replace(&mut self, text: String) {
        *self = Self::new(text, self.tone);
    }
}

impl From<&Cell> for StyledText {
    fn from(cell: &Cell) -> Self {
        Self::new(cell.text(), cell.tone())
    }
}

/// Text around and between the columns of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) left: &'static str,
    pub(crate) between: &'static str,
    pub(crate) right: &'static str,
}

impl Frame {
    /// Width of the frame of a row, in terminal columns.
    pub(crate) fn overhead(&self, columns: usize) -> usize {
        width(self.left) + width(self.right) + width(self.between) * columns.saturating_sub(1)
    }
}

/// Treatment of a column that is too wide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Flexibility {
    shape: Shape,
    drop: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Rigid,
    Ids,
    Times,
    Path,
    Text,
}

impl Flexibility {
    const TEXT: Self = Self {
        shape: Shape::Text,
        drop: None,
    };

    fn of_column(table: &Table, index: usize) -> Self {
        let column = &table.columns[index];
        let is_blank = |cell: &Cell| matches!(cell, Cell::Muted(text) if text == "(none)");
        let values = || {
            let cells = table.rows.iter().filter_map(|row| row.get(index));
            cells.filter(|cell| !is_blank(cell))
        };
        let all = |is_kind: fn(&Cell) -> bool| values().next().is_some() && values().all(is_kind);
        let shape = match column.fit {
            Fit::Keep => Shape::Rigid,
            Fit::Shorten => Shape::Path,
            Fit::Automatic if all(|cell| matches!(cell, Cell::Id(_))) => Shape::Ids,
            Fit::Automatic if all(|cell| matches!(cell, Cell::Time(_))) => Shape::Times,
            Fit::Automatic if column.align == Align::Right || all(Cell::is_quantity) => {
                Shape::Rigid
            }
            Fit::Automatic => Shape::Text,
        };
        Self {
            shape,
            drop: column.drop,
        }
    }
}

/// A grid with the widths of its columns.
#[derive(Debug)]
pub(crate) struct FittedGrid {
    pub(crate) grid: Grid,
    pub(crate) widths: Vec<usize>,
    /// Number of lines of a card, when each row became a card.
    pub(crate) card: Option<usize>,
}

/// Values in rows and columns.
#[derive(Debug)]
pub(crate) struct Grid {
    pub(crate) aligns: Vec<Align>,
    /// Treatment of each column if the table is too wide.
    columns: Vec<Flexibility>,
    pub(crate) headings: Vec<StyledText>,
    pub(crate) rows: Vec<Vec<StyledText>>,
}

impl Grid {
    pub(crate) fn of_table(table: &Table) -> Self {
        Self {
            aligns: table.columns.iter().map(|column| column.align).collect(),
            columns: (0..table.columns.len())
                .map(|index| Flexibility::of_column(table, index))
                .collect(),
            headings: table
                .columns
                .iter()
                .map(|column| StyledText::new(visible(&column.heading), Tone::Label))
                .collect(),
            rows: table
                .rows
                .iter()
                .map(|row| row.iter().map(StyledText::from).collect())
                .collect(),
        }
    }

    /// The grid of a panel: a column of labels, each followed by `colon`, and one of values.
    pub(crate) fn of_panel(panel: &Panel, colon: &str) -> Self {
        let row = |(label, value): &(String, Cell)| {
            let label = format!("{}{colon}", visible(label));
            vec![StyledText::new(label, Tone::Label), StyledText::from(value)]
        };
        Self {
            aligns: vec![Align::Left; 2],
            columns: vec![Flexibility::TEXT; 2],
            headings: Vec::new(),
            rows: panel.rows.iter().map(row).collect(),
        }
    }

    /// The grid of a transcript: heading, facts, body.
    pub(crate) fn of_transcript(entries: &[Entry]) -> Self {
        let row = |entry: &Entry| {
            let facts: Vec<String> = entry.facts.iter().map(Cell::text).collect();
            let body = visible_lines(&entry.body).replace('\t', "    ");
            vec![
                StyledText::new(visible(&entry.heading), Tone::Title),
                StyledText::new(facts.join("\n"), Tone::Muted),
                StyledText::new(body, Tone::Plain),
            ]
        };
        let heading = |text: &str| StyledText::new(text, Tone::Label);
        Self {
            aligns: vec![Align::Left; 3],
            columns: vec![Flexibility::TEXT; 3],
            headings: vec![heading("From"), heading("Facts"), heading("Text")],
            rows: entries.iter().map(row).collect(),
        }
    }

    /// The grid of a single text, which replaces a table without rows.
    pub(crate) fn of_text(text: &str) -> Self {
        Self {
            aligns: vec![Align::Left],
            columns: vec![Flexibility::TEXT],
            headings: Vec::new(),
            rows: vec![vec![StyledText::new(visible(text), Tone::Muted)]],
        }
    }

    /// Chooses columns and widths for a terminal of `limit` columns.
    pub(crate) fn fit_to(mut self, limit: usize, frame: Frame) -> FittedGrid {
        let fits =
            |widths: &[usize]| widths.iter().sum::<usize>() + frame.overhead(widths.len()) <= limit;
        let natural = self.natural_widths();
        if fits(&natural) {
            return self.fitted(natural);
        }
        if self.headings.is_empty() {
            let available = limit.saturating_sub(frame.overhead(natural.len()));
            return self.fitted(fit(&natural, available));
        }
        let original = (self.headings.clone(), self.rows.clone());
        self.shorten_ids();
        self.shorten_times();
        loop {
            let natural = self.natural_widths();
            let floors = self.floors(&natural);
            if fits(&floors) {
                let available = limit.saturating_sub(frame.overhead(floors.len()));
                let widths = fit_above(&natural, &floors, available);
                if limit < LOSSLESS_WIDTH {
                    self.shorten_paths(&widths);
                }
                return self.fitted(widths);
            }
            let last = (0..self.columns.len())
                .filter(|index| limit < LOSSLESS_WIDTH && self.columns[*index].drop.is_some())
                .min_by_key(|index| self.columns[*index].drop);
            let Some(last) = last else { break };
            self.remove_column(last);
        }
        (self.headings, self.rows) = original;
        self.cards(limit, frame)
    }

    fn fitted(self, widths: Vec<usize>) -> FittedGrid {
        FittedGrid {
            grid: self,
            widths,
            card: None,
        }
    }

    /// One line per value: the heading and the value.
    fn cards(self, limit: usize, frame: Frame) -> FittedGrid {
        let lines = self.headings.len();
        let headings = &self.headings;
        let rows = self.rows.into_iter().flat_map(|mut row| {
            row.resize_with(lines, || StyledText::new("", Tone::Plain));
            let pairs = headings.iter().cloned().zip(row);
            pairs.map(|(heading, value)| vec![heading, value])
        });
        let grid = Self {
            aligns: vec![Align::Left; 2],
            columns: vec![Flexibility::TEXT; 2],
            rows: rows.collect(),
            headings: Vec::new(),
        };
        let available = limit.saturating_sub(frame.overhead(2));
        let widths = fit(&grid.natural_widths(), available);
        FittedGrid {
            grid,
            widths,
            card: Some(lines),
        }
    }

    /// The width below which each column becomes unreadable.
    fn floors(&self, natural: &[usize]) -> Vec<usize> {
        let mut floors: Vec<usize> = self
            .columns
            .iter()
            .zip(natural)
            .map(|(column, natural)| match column.shape {
                Shape::Rigid | Shape::Ids | Shape::Times => *natural,
                Shape::Path => (*natural).min(MIN_PATH),
                Shape::Text => (*natural).min(MIN_TEXT),
            })
            .collect();
        for row in self.rows.iter().chain([&self.headings]) {
            for ((floor, column), value) in floors.iter_mut().zip(&self.columns).zip(row) {
                if column.shape == Shape::Text {
                    let word = widest_word(&value.text);
                    *floor = word.min(MAX_WORD).max(*floor);
                }
            }
        }
        floors
    }

    /// Replaces the ids of a column by their shortest prefixes that differ from each other.
    fn shorten_ids(&mut self) {
        for index in 0..self.columns.len() {
            if self.columns[index].shape != Shape::Ids {
                continue;
            }
            let ids = self.rows.iter().filter_map(|row| row.get(index));
            let mut ids: Vec<&str> = ids.map(|id| &*id.text).collect();
            ids.sort_unstable();
            ids.dedup();
            let shared = ids.windows(2).map(|pair| shared_prefix(pair[0], pair[1]));
            let length = shared.max().map_or(MIN_ID, |shared| MIN_ID.max(shared + 1));
            for value in self.rows.iter_mut().filter_map(|row| row.get_mut(index)) {
                if value.text.is_ascii() && value.text.len() > length && value.tone == Tone::Id {
                    value.replace(value.text[..length].to_owned());
                }
            }
        }
    }

    /// Shows times to the minute.
    fn shorten_times(&mut self) {
        for index in 0..self.columns.len() {
            if self.columns[index].shape != Shape::Times {
                continue;
            }
            for value in self.rows.iter_mut().filter_map(|row| row.get_mut(index)) {
                if let Some(to_minute) = super::cell::to_minute(&value.text) {
                    let to_minute = to_minute.to_owned();
                    value.replace(to_minute);
                }
            }
        }
    }

    fn shorten_paths(&mut self, widths: &[usize]) {
        for (index, width) in widths.iter().enumerate() {
            if self.columns[index].shape != Shape::Path {
                continue;
            }
            for value in self.rows.iter_mut().filter_map(|row| row.get_mut(index)) {
                if value.width > *width {
                    let short = shorten_middle(&value.text, *width).into_owned();
                    value.replace(short);
                }
            }
            if let Some(heading) = self.headings.get_mut(index)
                && heading.width > *width
            {
                let short = truncate(&heading.text, *width).into_owned();
                heading.replace(short);
            }
        }
    }

    fn remove_column(&mut self, index: usize) {
        self.aligns.remove(index);
        self.columns.remove(index);
        for row in self.rows.iter_mut().chain([&mut self.headings]) {
            if index < row.len() {
                row.remove(index);
            }
        }
    }

    /// The preferred width of each column.
    pub(crate) fn natural_widths(&self) -> Vec<usize> {
        let mut widths = vec![0; self.aligns.len()];
        for row in self.rows.iter().chain([&self.headings]) {
            for (widest, piece) in widths.iter_mut().zip(row) {
                *widest = piece.width.max(*widest);
            }
        }
        widths
    }
}

/// Number of bytes that two texts have in common at their beginning.
fn shared_prefix(one: &str, other: &str) -> usize {
    let pairs = one.bytes().zip(other.bytes());
    pairs.take_while(|(one, other)| one == other).count()
}

/// Settings for writing rows.
#[derive(Debug)]
pub(crate) struct RowWriter<'a> {
    pub(crate) paint: Paint,
    pub(crate) frame: Frame,
    pub(crate) aligns: &'a [Align],
    pub(crate) widths: &'a [usize],
    /// Maximum number of lines of a value; further lines are cut.
    pub(crate) most_lines: usize,
}

impl RowWriter<'_> {
    /// Writes one row, over several lines when a value is wider than its column.
    pub(crate) fn write(&self, out: &mut dyn Write, row: &[StyledText]) -> io::Result<()> {
        let fits =
            |(piece, width): (&StyledText, &usize)| piece.is_one_line && piece.width <= *width;
        if row.iter().zip(self.widths).all(fits) {
            let value = |column: usize| row.get(column).map(|piece| (&*piece.text, piece.width));
            return self.line(out, row, value);
        }
        let lines: Vec<_> = row
            .iter()
            .zip(self.widths)
            .map(|(piece, width)| layout::wrap(&piece.text, *width, self.most_lines))
            .collect();
        let height = lines.iter().map(Vec::len).max().unwrap_or(1);
        for index in 0..height {
            self.line(out, row, |column| {
                let text = lines.get(column)?.get(index)?;
                Some((text, width(text)))
            })?;
        }
        Ok(())
    }

    /// Writes one line of a row; `value` returns the text of a column and its width.
    fn line<'t>(
        &self,
        out: &mut dyn Write,
        row: &[StyledText],
        value: impl Fn(usize) -> Option<(&'t str, usize)>,
    ) -> io::Result<()> {
        self.paint.write(out, Tone::Frame, self.frame.left)?;
        for (column, (column_width, align)) in self.widths.iter().zip(self.aligns).enumerate() {
            if column > 0 {
                self.paint.write(out, Tone::Frame, self.frame.between)?;
            }
            let (text, width) = value(column).unwrap_or_default();
            let tone = row.get(column).map_or(Tone::Plain, |piece| piece.tone);
            let gap = column_width.saturating_sub(width);
            if *align == Align::Right {
                spaces(out, gap)?;
            }
            self.paint.write(out, tone, text)?;
            let is_last = column + 1 == self.widths.len();
            if *align == Align::Left && !(is_last && self.frame.right.is_empty()) {
                spaces(out, gap)?;
            }
        }
        self.paint.write(out, Tone::Frame, self.frame.right)?;
        out.write_all(b"\n")
    }
}

/// Writes a number of spaces.
fn spaces(out: &mut dyn Write, mut count: usize) -> io::Result<()> {
    const SPACES: [u8; 64] = [b' '; 64];
    while count > 0 {
        let part = count.min(SPACES.len());
        out.write_all(&SPACES[..part])?;
        count -= part;
    }
    Ok(())
}

/// Writes a text several times.
pub(crate) fn repeat(out: &mut dyn Write, text: &str, times: usize) -> io::Result<()> {
    (0..times).try_for_each(|_| out.write_all(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use cleveragents_domain::Timestamp;
    use unicode_width::UnicodeWidthStr as _;

    use crate::output::samples::{PIPE, TERMINAL, printed};
    use crate::output::{Align, Cell, Format, Report, StandardStreams, Table};

    const NAMES: [&str; 3] = [
        "chat-20260131-shopping-basket",
        "local/fix-the-failing-basket-test",
        "naïve",
    ];
    const IDS: [&str; 3] = [
        "01J9ZC5V7Q8W9E0R1T2Y3V4X5Z",
        "01J9ZC5V7Q8X9E0R1T2Y3V4X5Z",
        "01J9ZD5V7Q8W9E0R1T2Y3V4X5Z",
    ];
    const PATH: &str = "/home/ada/projects/customers/northwind/shop/backend";

    fn list() -> Report {
        let rows = (0..3).map(|index| {
            vec![
                Cell::Id(IDS[index].to_owned()),
                NAMES[index].into(),
                Cell::Good("active".to_owned()),
                PATH.into(),
                4_u64.into(),
                Timestamp::from_micros(1_769_860_800_000_000).into(),
                "a description of a few words which wraps where it has spaces".into(),
            ]
        });
        let table = Table::with_columns("List", ["Id", "Name", "State", "From"])
            .column("Count", Align::Right)
            .column("Updated", Align::Left)
            .column("Description", Align::Left)
            .keep(["Name", "State"])
            .shorten(["From"])
            .drop_first(["Description", "Count", "From"]);
        Report::new("list").table(table.rows(rows))
    }

    fn at(width: usize, format: Format) -> String {
        let surface = StandardStreams { width, ..TERMINAL };
        let surface = StandardStreams {
            forbids_colour: true,
            ..surface
        };
        printed(&list(), format, &surface).0
    }

    #[test]
    fn no_name_is_broken_and_no_line_is_wider_than_the_terminal() {
        for width in 60..=200 {
            for format in [Format::Rich, Format::Table] {
                let text = at(width, format);
                for line in text.lines() {
                    assert!(line.width() <= width, "{width}: {line}");
                }
                for name in NAMES.iter().chain(&["active", "2026-01-31 12:00"]) {
                    assert!(text.contains(name), "{name} at {width}\n{text}");
                }
                for id in IDS {
                    assert!(text.contains(&id[..12]), "{id} at {width}\n{text}");
                }
            }
        }
    }

    #[test]
    fn ids_become_their_shortest_prefixes_that_differ() {
        let text = at(100, Format::Rich);
        let ids = text
            .lines()
            .filter_map(|line| line.split_whitespace().nth(1));
        let ids: Vec<&str> = ids.filter(|word| word.starts_with("01J")).collect();
        assert_eq!(ids, [&IDS[0][..12], &IDS[1][..12], &IDS[2][..12]]);
    }

    #[test]
    fn a_narrow_terminal_shows_fewer_columns_and_the_ends_of_paths() {
        let text = at(100, Format::Rich);
        assert!(text.contains('…') && text.contains("/backend"), "{text}");
        assert!(!text.contains("Description"), "{text}");
        let text = at(80, Format::Rich);
        assert!(!text.contains("From") && text.contains("Updated"), "{text}");
    }

    #[test]
    fn from_120_columns_on_nothing_is_lost() {
        for width in 120..=200 {
            let text = at(width, Format::Rich);
            assert!(!text.contains('…'), "{text}");
            for heading in [
                "Id",
                "Name",
                "State",
                "From",
                "Count",
                "Updated",
                "Description",
            ] {
                assert!(text.contains(heading), "{heading} at {width}\n{text}");
            }
        }
    }

    #[test]
    fn rows_that_do_not_fit_become_cards_with_all_columns() {
        let text = at(62, Format::Table);
        for heading in ["Id", "From", "Description"] {
            assert_eq!(text.matches(&format!("| {heading} ")).count(), 3, "{text}");
        }
        assert!(text.contains(IDS[0]), "{text}");
    }

    #[test]
    fn without_a_terminal_everything_is_shown() {
        let (text, _) = printed(&list(), Format::Table, &PIPE);
        assert!(text.contains(IDS[0]) && text.contains(PATH), "{text}");
        assert!(text.contains("2026-01-31 12:00:00"), "{text}");
    }
}
