//! Wraps text of several tones into lines.

use crate::output::layout::width;
use crate::output::paint::Tone;

/// A piece of text in one tone.
pub(super) type Span = (String, Tone);

/// Wraps spans into lines: at line breaks, and at spaces if a line would be too long. A word longer than
/// the limit is not split.
pub(super) fn wrap(spans: &[Span], limit: usize) -> Vec<Vec<Span>> {
    let mut lines = Lines {
        done: Vec::new(),
        line: Vec::new(),
        used: 0,
        word: Vec::new(),
        space: None,
        limit,
    };
    for (text, tone) in spans {
        for part in text.split_inclusive([' ', '\n']) {
            let trimmed = part.trim_end_matches([' ', '\n']);
            if !trimmed.is_empty() {
                lines.word.push((trimmed.to_owned(), *tone));
            }
            if part.len() > trimmed.len() {
                lines.push_word();
                lines.space = Some((" ".to_owned(), *tone));
            }
            if part.ends_with('\n') {
                lines.break_here();
            }
        }
    }
    lines.push_word();
    lines.break_here();
    lines.done
}

struct Lines {
    done: Vec<Vec<Span>>,
    line: Vec<Span>,
    used: usize,
    /// The current word, which may have several tones.
    word: Vec<Span>,
    space: Option<Span>,
    limit: usize,
}

impl Lines {
    fn push_word(&mut self) {
        if self.word.is_empty() {
            return;
        }
        let word_width: usize = self.word.iter().map(|(text, _)| width(text)).sum();
        if self.used > 0 && self.used + usize::from(self.space.is_some()) + word_width > self.limit
        {
            self.break_here();
        }
        if let Some(space) = self.space.take() {
            self.line.push(space);
            self.used += 1;
        }
        self.line.append(&mut self.word);
        self.used += word_width;
    }

    fn break_here(&mut self) {
        self.done.push(std::mem::take(&mut self.line));
        self.used = 0;
        self.space = None;
    }
}
