//! [`Markdown`]: draws the text of models on a terminal while it arrives.
//!
//! A block is drawn as soon as it is complete: a paragraph at its end, a list item by item, fenced code
//! line by line. The ends of blocks are determined here, from lines; the content of a block is parsed by
//! `pulldown-cmark` and drawn by [`draw`]. Without colours the marks that carry meaning (`**`, backquotes,
//! `#`) are kept. Control characters of the text never reach the terminal: they are escaped first.

mod code;
mod draw;
mod languages;
mod lines;
#[cfg(test)]
mod tests;
mod wrap;

use self::code::Highlighter;
use self::lines::{CodeFence, Marker, fence, indent, is_heading, is_rule, list_marker};
use super::paint::{Paint, Tone};

/// Colours and width of the output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Canvas {
    pub(crate) paint: Paint,
    pub(crate) width: usize,
}

/// Draws a text that arrives in pieces.
pub(crate) struct Markdown {
    canvas: Canvas,
    /// The incomplete line.
    line: String,
    /// The complete lines of the incomplete block.
    block: String,
    kind: BlockKind,
    /// True if a blank line followed the last line of the block.
    ends_with_blank: bool,
    /// The number of the next item, in a numbered list.
    number: Option<u64>,
    /// Separation of the next block from the previous output.
    gap: BlockGap,
}

/// Kind of the incomplete block.
enum BlockKind {
    Text,
    Item,
    Code(CodeFence, Highlighter),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockGap {
    /// Nothing was drawn yet.
    First,
    /// No blank line: the next block is an item of the same list.
    None,
    Blank,
}

impl Markdown {
    pub(crate) const fn new(paint: Paint, width: usize) -> Self {
        Self {
            canvas: Canvas { paint, width },
            line: String::new(),
            block: String::new(),
            kind: BlockKind::Text,
            ends_with_blank: false,
            number: None,
            gap: BlockGap::First,
        }
    }

    /// Adds a piece, and returns the output that can be drawn now.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        let mut out = String::new();
        for part in piece.split_inclusive('\n') {
            self.line.push_str(part);
            if part.ends_with('\n') {
                let line = std::mem::take(&mut self.line);
                self.process_line(line.trim_end_matches(['\n', '\r']), &mut out);
            }
        }
        out
    }

    /// Returns the remaining output and resets the state.
    pub(crate) fn finish(&mut self) -> String {
        let mut out = String::new();
        if !self.line.is_empty() {
            let line = std::mem::take(&mut self.line);
            self.process_line(&line, &mut out);
        }
        if let BlockKind::Code(fence, _) = &self.kind {
            // The text ended inside a code block. Close the block, so that the next text is not code.
            let end = fence.end();
            self.code_mark(&end, &mut out);
        }
        self.flush(&mut out);
        *self = Self::new(self.canvas.paint, self.canvas.width);
        out
    }

    /// Text that is not drawn yet, for a preview: the incomplete block and the incomplete line.
    pub(crate) fn pending(&self) -> (&str, &str) {
        (&self.block, &self.line)
    }

    /// Draws a complete text.
    pub(crate) fn drawn(paint: Paint, width: usize, text: &str) -> String {
        let mut markdown = Self::new(paint, width);
        let mut out = markdown.push(text);
        out.push_str(&markdown.finish());
        out
    }

    /// Draws code alone, in the colours of its language.
    pub(crate) fn code(paint: Paint, language: &str, text: &str) -> String {
        let mut highlighter = Highlighter::new(language);
        let mut out = String::new();
        for line in text.lines() {
            out.push_str(&highlighter.line(paint, line));
            out.push('\n');
        }
        out
    }

    fn process_line(&mut self, line: &str, out: &mut String) {
        if let BlockKind::Code(fence, highlighter) = &mut self.kind {
            if fence.is_closed_by(line) {
                let end = fence.end();
                self.code_mark(&end, out);
                self.kind = BlockKind::Text;
            } else {
                let inner = fence.inside(line);
                out.push_str(&highlighter.line(self.canvas.paint, inner));
                out.push('\n');
            }
            return;
        }
        if line.trim().is_empty() {
            if matches!(self.kind, BlockKind::Item) {
                // The next line shows whether the item continues.
                self.block.push('\n');
                self.ends_with_blank = true;
            } else {
                self.flush(out);
            }
            return;
        }
        if matches!(self.kind, BlockKind::Item) && self.continues_item(line) {
            self.ends_with_blank = false;
            self.add(line);
            return;
        }
        if let Some(fence) = fence(line) {
            self.flush(out);
            self.begin_code(fence, out);
        } else if let Some(marker) = list_marker(line).filter(|marker| self.may_start_item(marker))
        {
            let ends_with_blank = self.ends_with_blank;
            let was_item = matches!(self.kind, BlockKind::Item);
            self.flush(out);
            if was_item {
                self.gap = if ends_with_blank {
                    BlockGap::Blank
                } else {
                    BlockGap::None
                };
            }
            self.kind = BlockKind::Item;
            // Items are numbered consecutively even if each is written as `1.`.
            let next = self.number.filter(|_| was_item);
            self.number = marker
                .number
                .map(|written| next.map_or(written, |next| next.max(written)));
            self.add(line);
        } else if is_heading(line) || (self.block.is_empty() && is_rule(line)) {
            self.flush(out);
            self.add(line);
            self.flush(out);
        } else {
            if self.ends_with_blank {
                self.flush(out);
            }
            self.add(line);
        }
    }

    fn add(&mut self, line: &str) {
        self.block.push_str(line);
        self.block.push('\n');
    }

    /// True if a line belongs to the incomplete item.
    fn continues_item(&self, line: &str) -> bool {
        let is_lazy = !self.ends_with_blank
            && list_marker(line).is_none()
            && fence(line).is_none()
            && !is_heading(line);
        indent(line) >= 2 || is_lazy
    }

    /// True if an item may begin here: only `1.` may interrupt a paragraph; other numbers belong to its
    /// text.
    fn may_start_item(&self, marker: &Marker) -> bool {
        matches!(self.kind, BlockKind::Item)
            || self.block.is_empty()
            || marker.number.is_none_or(|n| n == 1)
    }

    fn begin_code(&mut self, fence: CodeFence, out: &mut String) {
        self.separate_block(out);
        let begin = fence.begin();
        self.code_mark(&begin, out);
        let highlighter = Highlighter::new(fence.language());
        self.kind = BlockKind::Code(fence, highlighter);
    }

    fn code_mark(&self, mark: &str, out: &mut String) {
        let mark = super::visible::visible(mark);
        out.push_str(&self.canvas.paint.text(Tone::Muted, &mark));
        out.push('\n');
    }

    fn separate_block(&mut self, out: &mut String) {
        if self.gap == BlockGap::Blank {
            out.push('\n');
        }
        self.gap = BlockGap::Blank;
    }

    /// Draws the collected block.
    fn flush(&mut self, out: &mut String) {
        let block = std::mem::take(&mut self.block);
        self.ends_with_blank = false;
        let was_item = matches!(self.kind, BlockKind::Item);
        let number = self.number.take().filter(|_| was_item);
        self.kind = BlockKind::Text;
        if block.trim().is_empty() {
            return;
        }
        let drawn = draw::block(self.canvas, &block, number);
        self.number = number.map(|number| number.saturating_add(1));
        if !drawn.is_empty() {
            self.separate_block(out);
            out.push_str(&drawn);
        }
    }
}
