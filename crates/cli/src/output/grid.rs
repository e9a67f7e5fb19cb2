//! Rows and columns: the common form of panels, tables and transcripts once their values are text.
//!
//! Column widths are computed once from all rows. Rows are then written one after the other, so that
//! long lists need little memory beyond their text.

use std::io::{self, Write};

use super::block::{Align, Entry, Panel, Table};
use super::cell::Cell;
use super::layout::{self, width};
use super::paint::{Paint, Tone};
use super::visible::{visible, visible_lines};

/// A text with its tone and width, ready to be written.
#[derive(Debug)]
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

/// Values in rows and columns.
#[derive(Debug)]
pub(crate) struct Grid {
    pub(crate) aligns: Vec<Align>,
    pub(crate) headings: Vec<StyledText>,
    pub(crate) rows: Vec<Vec<StyledText>>,
}

impl Grid {
    /// The grid of a table.
    pub(crate) fn of_table(table: &Table) -> Self {
        Self {
            aligns: table.columns.iter().map(|(_, align)| *align).collect(),
            headings: table
                .columns
                .iter()
                .map(|(heading, _)| StyledText::new(visible(heading), Tone::Label))
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
            headings: vec![heading("From"), heading("Facts"), heading("Text")],
            rows: entries.iter().map(row).collect(),
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
