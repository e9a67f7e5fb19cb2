//! The formats without borders: `plain`, and `color`, which has the same lines with colours.
//!
//! Values are never wrapped or cut: each value is on one line, regardless of its length.

use std::io::{self, Write};

use super::block::{Block, Entry, Panel, Table};
use super::boxed::{lines, pieces};
use super::cell::Cell;
use super::grid::{Frame, Grid, RowWriter, repeat};
use super::layout::width;
use super::paint::{Paint, Tone};
use super::visible::visible;

const OPEN: Frame = Frame {
    left: "",
    between: "  ",
    right: "",
};

/// Writes blocks as lines, one after the other.
#[derive(Debug)]
pub(crate) struct Sequential {
    pub(crate) paint: Paint,
}

impl Sequential {
    /// Writes every block.
    pub(crate) fn blocks(&self, out: &mut dyn Write, blocks: &[Block]) -> io::Result<()> {
        for (index, block) in blocks.iter().enumerate() {
            if index > 0 {
                out.write_all(b"\n")?;
            }
            match block {
                Block::Panel(panel) => self.panel(out, panel)?,
                Block::Table(table) => self.table(out, table)?,
                Block::Transcript(entries) => self.transcript(out, entries)?,
                Block::Text(text) => lines(out, text, "")?,
                Block::Lines(drawn) => pieces(out, drawn, self.paint)?,
            }
        }
        Ok(())
    }

    /// Writes the title, underlined with dashes if there is no colour.
    fn title(&self, out: &mut dyn Write, title: &str) -> io::Result<()> {
        let title = visible(title);
        self.paint.write(out, Tone::Title, &title)?;
        out.write_all(b"\n")?;
        if self.paint == Paint::Off {
            repeat(out, "-", width(&title))?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }

    fn panel(&self, out: &mut dyn Write, panel: &Panel) -> io::Result<()> {
        self.title(out, &panel.title)?;
        for (label, value) in &panel.rows {
            self.paint.write(out, Tone::Label, &visible(label))?;
            out.write_all(b": ")?;
            self.cell(out, value)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }

    fn table(&self, out: &mut dyn Write, table: &Table) -> io::Result<()> {
        self.title(out, &table.title)?;
        if table.rows.is_empty() {
            self.paint.write(out, Tone::Muted, &visible(&table.empty))?;
            return out.write_all(b"\n");
        }
        let grid = Grid::of_table(table);
        let rows = RowWriter {
            paint: self.paint,
            frame: OPEN,
            aligns: &grid.aligns,
            widths: &grid.natural_widths(),
            most_lines: usize::MAX,
        };
        rows.write(out, &grid.headings)?;
        grid.rows.iter().try_for_each(|row| rows.write(out, row))
    }

    fn transcript(&self, out: &mut dyn Write, entries: &[Entry]) -> io::Result<()> {
        for (index, entry) in entries.iter().enumerate() {
            if index > 0 {
                out.write_all(b"\n")?;
            }
            self.paint
                .write(out, Tone::Title, &visible(&entry.heading))?;
            for fact in &entry.facts {
                out.write_all(b"  ")?;
                self.cell(out, fact)?;
            }
            out.write_all(b"\n")?;
            lines(out, &entry.body, "  ")?;
        }
        Ok(())
    }

    fn cell(&self, out: &mut dyn Write, cell: &Cell) -> io::Result<()> {
        self.paint.write(out, cell.tone(), &cell.text())
    }
}
