//! The formats with borders: `rich` with Unicode boxes titled in their top border, and `table` with
//! ASCII tables.

use std::io::{self, Write};

use super::block::{Block, Entry, Panel, Table};
use super::cell::Cell;
use super::grid::{FittedGrid, Frame, Grid, LOSSLESS_WIDTH, RowWriter, StyledText, repeat};
use super::layout::{fit, has_wider_command, truncate, width, wrap_message};
use super::paint::{Paint, Tone};
use super::visible::{visible, visible_lines};

/// Maximum number of lines of a value in a rich table; panels, cards and wide terminals show all.
const MAX_TABLE_LINES: usize = 3;

const RICH_PANEL: Frame = Frame {
    left: "│ ",
    between: " ",
    right: " │",
};
const RICH_TABLE: Frame = Frame {
    left: "│ ",
    between: "  ",
    right: " │",
};
const ASCII: Frame = Frame {
    left: "| ",
    between: " | ",
    right: " |",
};

/// Writes blocks in the format `rich`.
#[derive(Debug)]
pub(crate) struct Rich {
    pub(crate) paint: Paint,
    pub(crate) width: usize,
}

impl Rich {
    /// Writes every block; the panels of a report have equal width.
    pub(crate) fn blocks(&self, out: &mut dyn Write, blocks: &[Block]) -> io::Result<()> {
        let panels = || {
            blocks.iter().filter_map(|block| match block {
                Block::Panel(panel) => Some(panel),
                _ => None,
            })
        };
        let content = panels()
            .map(|panel| {
                let natural = Grid::of_panel(panel, ":").natural_widths();
                natural.iter().sum::<usize>() + RICH_PANEL.overhead(2)
            })
            .max()
            .unwrap_or(0);
        for (index, block) in blocks.iter().enumerate() {
            if index > 0 {
                out.write_all(b"\n")?;
            }
            match block {
                Block::Panel(panel) => self.panel(out, panel, content)?,
                Block::Table(table) => self.table(out, table)?,
                Block::Transcript(entries) => self.transcript(out, entries)?,
                Block::Text(text) => lines(out, text, "")?,
                Block::Lines(drawn) => pieces(out, drawn, self.paint)?,
            }
        }
        Ok(())
    }

    fn panel(&self, out: &mut dyn Write, panel: &Panel, content: usize) -> io::Result<()> {
        let mut grid = Grid::of_panel(panel, ":");
        let title = visible(&panel.title);
        let outer = content.max(width(&title) + 6).min(self.width);
        let overhead = RICH_PANEL.overhead(2);
        let mut widths = fit(&grid.natural_widths(), outer.saturating_sub(overhead));
        let outer = outer.max(widths.iter().sum::<usize>() + overhead);
        widths[1] = outer - overhead - widths[0];
        // A command that does not fit the box follows it, so that it can be copied.
        let mut below = Vec::new();
        for row in &mut grid.rows {
            if let [label, value] = row.as_mut_slice()
                && has_wider_command(&value.text, widths[1])
            {
                let text = std::mem::replace(value, StyledText::new("see below", Tone::Muted));
                below.push((label.text.clone(), text.text));
            }
        }
        self.draw(
            out,
            &title,
            outer,
            &grid,
            &RowWriter {
                paint: self.paint,
                frame: RICH_PANEL,
                aligns: &grid.aligns,
                widths: &widths,
                most_lines: usize::MAX,
            },
            None,
        )?;
        for (label, text) in below {
            self.paint.write(out, Tone::Label, &label)?;
            if text.starts_with("agents ") {
                write!(out, "\n{text}\n")?;
            } else {
                let text = wrap_message(&text, width(&label) + 1, self.width);
                writeln!(out, " {text}")?;
            }
        }
        Ok(())
    }

    fn table(&self, out: &mut dyn Write, table: &Table) -> io::Result<()> {
        let title = visible(&table.title);
        let grid = if table.rows.is_empty() {
            Grid::of_text(&table.empty)
        } else {
            Grid::of_table(table)
        };
        let FittedGrid {
            grid,
            mut widths,
            card,
        } = grid.fit_to(self.width, RICH_TABLE);
        let overhead = RICH_TABLE.overhead(grid.aligns.len());
        let content = widths.iter().sum::<usize>() + overhead;
        let outer = content.max((width(&title) + 6).min(self.width));
        if let Some(last) = widths.last_mut() {
            *last += outer - content;
        }
        self.draw(
            out,
            &title,
            outer,
            &grid,
            &RowWriter {
                paint: self.paint,
                frame: RICH_TABLE,
                aligns: &grid.aligns,
                widths: &widths,
                most_lines: if card.is_some() || self.width >= LOSSLESS_WIDTH {
                    usize::MAX
                } else {
                    MAX_TABLE_LINES
                },
            },
            card,
        )
    }

    fn draw(
        &self,
        out: &mut dyn Write,
        title: &str,
        outer: usize,
        grid: &Grid,
        rows: &RowWriter<'_>,
        card: Option<usize>,
    ) -> io::Result<()> {
        let title = truncate(title, outer.saturating_sub(6));
        self.paint.write(out, Tone::Frame, "╭─ ")?;
        self.paint.write(out, Tone::Title, &title)?;
        self.rule(out, " ", outer.saturating_sub(5 + width(&title)), "╮")?;
        if !grid.headings.is_empty() {
            rows.write(out, &grid.headings)?;
            self.rule(out, "├", outer.saturating_sub(2), "┤")?;
        }
        for (index, row) in grid.rows.iter().enumerate() {
            if is_next_card(index, card) {
                self.rule(out, "├", outer.saturating_sub(2), "┤")?;
            }
            rows.write(out, row)?;
        }
        self.rule(out, "╰", outer.saturating_sub(2), "╯")
    }

    fn rule(&self, out: &mut dyn Write, left: &str, length: usize, right: &str) -> io::Result<()> {
        let line = format!("{left}{}{right}", "─".repeat(length));
        self.paint.write(out, Tone::Frame, &line)?;
        out.write_all(b"\n")
    }

    /// Writes a ruled heading and the body below it. Bodies are not wrapped, so that they can be
    /// copied.
    fn transcript(&self, out: &mut dyn Write, entries: &[Entry]) -> io::Result<()> {
        for (index, entry) in entries.iter().enumerate() {
            if index > 0 {
                out.write_all(b"\n")?;
            }
            let heading = truncate(&visible(&entry.heading), self.width / 2).into_owned();
            self.paint.write(out, Tone::Frame, "── ")?;
            self.paint.write(out, Tone::Title, &heading)?;
            let mut used = 3 + width(&heading);
            for fact in entry.facts.iter().map(StyledText::from) {
                out.write_all(b"  ")?;
                self.paint.write(out, fact.tone, &fact.text)?;
                used += 2 + fact.width;
            }
            self.rule(out, " ", self.width.saturating_sub(used + 1), "")?;
            lines(out, &entry.body, "  ")?;
        }
        Ok(())
    }
}

/// Writes blocks in the format `table`.
#[derive(Debug)]
pub(crate) struct Ascii {
    pub(crate) width: usize,
}

impl Ascii {
    /// Writes every block.
    pub(crate) fn blocks(&self, out: &mut dyn Write, blocks: &[Block]) -> io::Result<()> {
        for (index, block) in blocks.iter().enumerate() {
            if index > 0 {
                out.write_all(b"\n")?;
            }
            match block {
                Block::Panel(panel) => self.grid(out, &panel.title, Grid::of_panel(panel, ""))?,
                Block::Table(table) if table.rows.is_empty() => {
                    self.grid(out, &table.title, Grid::of_text(&table.empty))?;
                }
                Block::Table(table) => self.grid(out, &table.title, Grid::of_table(table))?,
                Block::Transcript(entries) => {
                    self.grid(out, "Transcript", Grid::of_transcript(entries))?;
                }
                Block::Text(text) => lines(out, text, "")?,
                Block::Lines(drawn) => pieces(out, drawn, Paint::Off)?,
            }
        }
        Ok(())
    }

    fn grid(&self, out: &mut dyn Write, title: &str, grid: Grid) -> io::Result<()> {
        let FittedGrid { grid, widths, card } = grid.fit_to(self.width, ASCII);
        let rows = RowWriter {
            paint: Paint::Off,
            frame: ASCII,
            aligns: &grid.aligns,
            widths: &widths,
            most_lines: usize::MAX,
        };
        let rule = |out: &mut dyn Write| {
            for width in &widths {
                out.write_all(b"+")?;
                repeat(out, "-", width + 2)?;
            }
            out.write_all(b"+\n")
        };
        writeln!(out, "{}", visible(title))?;
        rule(out)?;
        if !grid.headings.is_empty() {
            rows.write(out, &grid.headings)?;
            rule(out)?;
        }
        for (index, row) in grid.rows.iter().enumerate() {
            if is_next_card(index, card) {
                rule(out)?;
            }
            rows.write(out, row)?;
        }
        rule(out)
    }
}

/// True if the row begins a card other than the first.
const fn is_next_card(row: usize, card: Option<usize>) -> bool {
    match card {
        Some(lines) => row > 0 && row.is_multiple_of(lines),
        None => false,
    }
}

/// Writes a text with its lines preserved, each non-blank line after `indent`.
pub(crate) fn lines(out: &mut dyn Write, text: &str, indent: &str) -> io::Result<()> {
    for line in visible_lines(text).lines() {
        if !line.is_empty() {
            out.write_all(indent.as_bytes())?;
            out.write_all(line.as_bytes())?;
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Writes lines of pieces, each in its tone.
pub(crate) fn pieces(out: &mut dyn Write, drawn: &[Vec<Cell>], paint: Paint) -> io::Result<()> {
    for line in drawn {
        for piece in line {
            paint.write(out, piece.tone(), &piece.text())?;
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}
