//! [`Markdown`]: text as models write it, drawn for a terminal while it arrives.
//!
//! A block is drawn as soon as it is whole: a paragraph at its end, a list item by item, fenced code line
//! by line. Where blocks end is decided here, from lines; what stands in a block is read by
//! `pulldown-cmark` and drawn by [`draw`]. Without colours the marks that carry meaning (`**`, backquotes,
//! `#`) are kept. Nothing of the text reaches the terminal before it is made visible.

mod code;
mod draw;
mod languages;
mod lines;
#[cfg(test)]
mod tests;
mod wrap;

use self::code::Highlighter;
use self::lines::{Fence, Marker, fence, indent, is_heading, is_rule, list_marker};
use super::paint::{Paint, Tone};

/// Where text is drawn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Canvas {
    pub(crate) paint: Paint,
    pub(crate) width: usize,
}

/// Draws a text that comes in pieces.
pub(crate) struct Markdown {
    canvas: Canvas,
    /// The line that has not ended.
    line: String,
    /// The block that has not ended, whole lines.
    block: String,
    kind: Kind,
    /// Whether a blank line came since the last line of the block.
    is_apart: bool,
    /// The number of the next item, in a list with numbers.
    number: Option<u64>,
    /// Whether the next block stands apart from what was drawn.
    gap: Gap,
}

/// What the block that has not ended is.
enum Kind {
    Text,
    Item,
    Code(Fence, Highlighter),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Gap {
    /// Nothing was drawn yet.
    First,
    /// The item before belongs to the same list.
    None,
    Blank,
}

impl Markdown {
    pub(crate) const fn new(paint: Paint, width: usize) -> Self {
        Self {
            canvas: Canvas { paint, width },
            line: String::new(),
            block: String::new(),
            kind: Kind::Text,
            is_apart: false,
            number: None,
            gap: Gap::First,
        }
    }

    /// Takes a piece, and gives what can be drawn now.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        let mut out = String::new();
        for part in piece.split_inclusive('\n') {
            self.line.push_str(part);
            if part.ends_with('\n') {
                let line = std::mem::take(&mut self.line);
                self.take(line.trim_end_matches(['\n', '\r']), &mut out);
            }
        }
        out
    }

    /// Gives what is left; then it is as new.
    pub(crate) fn finish(&mut self) -> String {
        let mut out = String::new();
        if !self.line.is_empty() {
            let line = std::mem::take(&mut self.line);
            self.take(&line, &mut out);
        }
        if let Kind::Code(fence, _) = &self.kind {
            // It was cut before its end; what follows is no code.
            let end = fence.end();
            self.code_mark(&end, &mut out);
        }
        self.flush(&mut out);
        *self = Self::new(self.canvas.paint, self.canvas.width);
        out
    }

    /// What has arrived and is not drawn, for a preview.
    pub(crate) fn pending(&self) -> (&str, &str) {
        (&self.block, &self.line)
    }

    /// A whole text at once.
    pub(crate) fn drawn(paint: Paint, width: usize, text: &str) -> String {
        let mut markdown = Self::new(paint, width);
        let mut out = markdown.push(text);
        out.push_str(&markdown.finish());
        out
    }

    /// Code that stands alone, in the colours of its language.
    pub(crate) fn code(paint: Paint, language: &str, text: &str) -> String {
        let mut highlighter = Highlighter::new(language);
        let mut out = String::new();
        for line in text.lines() {
            out.push_str(&highlighter.line(paint, line));
            out.push('\n');
        }
        out
    }

    fn take(&mut self, line: &str, out: &mut String) {
        if let Kind::Code(fence, highlighter) = &mut self.kind {
            if fence.is_closed_by(line) {
                let end = fence.end();
                self.code_mark(&end, out);
                self.kind = Kind::Text;
            } else {
                let inner = fence.inside(line);
                out.push_str(&highlighter.line(self.canvas.paint, inner));
                out.push('\n');
            }
            return;
        }
        if line.trim().is_empty() {
            if matches!(self.kind, Kind::Item) {
                // The next line tells whether the item goes on.
                self.block.push('\n');
                self.is_apart = true;
            } else {
                self.flush(out);
            }
            return;
        }
        if matches!(self.kind, Kind::Item) && self.goes_on(line) {
            self.is_apart = false;
            self.add(line);
            return;
        }
        if let Some(fence) = fence(line) {
            self.flush(out);
            self.begin_code(fence, out);
        } else if let Some(marker) = list_marker(line).filter(|marker| self.may_begin(marker)) {
            let is_apart = self.is_apart;
            let was_item = matches!(self.kind, Kind::Item);
            self.flush(out);
            if was_item {
                self.gap = if is_apart { Gap::Blank } else { Gap::None };
            }
            self.kind = Kind::Item;
            // A list whose items all say `1.` is counted all the same.
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
            if self.is_apart {
                self.flush(out);
            }
            self.add(line);
        }
    }

    fn add(&mut self, line: &str) {
        self.block.push_str(line);
        self.block.push('\n');
    }

    /// Whether a line belongs to the item that has not ended.
    fn goes_on(&self, line: &str) -> bool {
        let is_lazy = !self.is_apart
            && list_marker(line).is_none()
            && fence(line).is_none()
            && !is_heading(line);
        indent(line) >= 2 || is_lazy
    }

    /// Whether an item may begin here: only `1.` may end a paragraph, others are numbers in a sentence.
    fn may_begin(&self, marker: &Marker) -> bool {
        matches!(self.kind, Kind::Item)
            || self.block.is_empty()
            || marker.number.is_none_or(|n| n == 1)
    }

    fn begin_code(&mut self, fence: Fence, out: &mut String) {
        self.stand_apart(out);
        let begin = fence.begin();
        self.code_mark(&begin, out);
        let highlighter = Highlighter::new(fence.language());
        self.kind = Kind::Code(fence, highlighter);
    }

    fn code_mark(&self, mark: &str, out: &mut String) {
        let mark = super::visible::visible(mark);
        out.push_str(&self.canvas.paint.text(Tone::Muted, &mark));
        out.push('\n');
    }

    fn stand_apart(&mut self, out: &mut String) {
        if self.gap == Gap::Blank {
            out.push('\n');
        }
        self.gap = Gap::Blank;
    }

    /// Draws the block that was gathered.
    fn flush(&mut self, out: &mut String) {
        let block = std::mem::take(&mut self.block);
        self.is_apart = false;
        let was_item = matches!(self.kind, Kind::Item);
        let number = self.number.take().filter(|_| was_item);
        self.kind = Kind::Text;
        if block.trim().is_empty() {
            return;
        }
        let drawn = draw::block(self.canvas, &block, number);
        self.number = number.map(|number| number.saturating_add(1));
        if !drawn.is_empty() {
            self.stand_apart(out);
            out.push_str(&drawn);
        }
    }
}
