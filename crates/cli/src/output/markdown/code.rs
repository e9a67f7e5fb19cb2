//! [`Highlighter`]: syntax colours of code, based only on comments, strings, numbers and keywords.
//!
//! Recognizing these tokens needs no grammar, so it works in all listed languages. Each line is coloured as it arrives; comments and strings that span lines stay open.

use super::languages::{Language, find};
use crate::output::paint::{Paint, Tone};
use crate::output::visible::visible_lines;

/// Colours the lines of one code block.
pub(super) struct Highlighter {
    language: Option<&'static Language>,
    /// End mark of an open comment or string that spans lines, and its tone.
    open: Option<(&'static str, Tone)>,
}

impl Highlighter {
    pub(super) fn new(language: &str) -> Self {
        Self {
            language: find(language),
            open: None,
        }
    }

    /// Returns the line with colours and without control characters.
    pub(super) fn line(&mut self, paint: Paint, line: &str) -> String {
        let line = visible_lines(line);
        let Some(language) = self.language.filter(|_| paint == Paint::On) else {
            return line.into_owned();
        };
        if language.is_diff {
            return paint.text(diff_tone(&line), &line);
        }
        let mut drawn = String::new();
        let mut rest = &*line;
        while !rest.is_empty() {
            let (length, tone) = self.token(language, rest, line.len() - rest.len() == 0);
            let (token, after) = rest.split_at(length);
            drawn.push_str(&paint.text(tone, token));
            rest = after;
        }
        drawn
    }

    /// The length of the token at the beginning of a text, at least 1, and its tone.
    fn token(&mut self, language: &'static Language, rest: &str, is_first: bool) -> (usize, Tone) {
        if let Some((end, tone)) = self.open {
            return match rest.find(end) {
                Some(at) => {
                    self.open = None;
                    (at + end.len(), tone)
                }
                None => (rest.len(), tone),
            };
        }
        if let Some(mark) = language.line_comments.iter().find(|mark| rest.starts_with(**mark))
            // In a shell `#` begins a comment only at the start of a word.
            && (is_first || *mark != "#" || language.hash_anywhere)
        {
            return (rest.len(), Tone::Muted);
        }
        let block_comments = language.blocks.iter().map(|pair| (*pair, Tone::Muted));
        let long_strings = language
            .long_texts
            .iter()
            .map(|mark| ((*mark, *mark), Tone::Quoted));
        for ((begin, end), tone) in block_comments.chain(long_strings) {
            if let Some(inside) = rest.strip_prefix(begin) {
                let Some(at) = inside.find(end) else {
                    self.open = Some((end, tone));
                    return (rest.len(), tone);
                };
                return (begin.len() + at + end.len(), tone);
            }
        }
        let first = rest.chars().next().unwrap_or(' ');
        if language.quotes.contains(first) {
            return string_token(rest, first);
        }
        if first.is_ascii_digit() {
            let end = rest
                .find(|letter: char| !(letter.is_alphanumeric() || matches!(letter, '_' | '.')));
            return (end.unwrap_or(rest.len()), Tone::Number);
        }
        if is_letter(first) {
            let end = rest.find(|letter| !is_letter(letter) && !letter.is_ascii_digit());
            let word = &rest[..end.unwrap_or(rest.len())];
            return (word.len(), language.tone_of(word));
        }
        if first.is_whitespace() {
            let after = rest.trim_start();
            // After a space `#` begins a comment in every language that has `#` comments.
            return if after.starts_with('#') && language.line_comments.contains(&"#") {
                (rest.len(), Tone::Muted)
            } else {
                (rest.len() - after.len(), Tone::Plain)
            };
        }
        (first.len_utf8(), Tone::Plain)
    }
}

fn is_letter(letter: char) -> bool {
    letter.is_alphabetic() || letter == '_'
}

/// Length and tone of a string on one line. An unpaired apostrophe, as in a lifetime, is one plain character.
fn string_token(rest: &str, quote: char) -> (usize, Tone) {
    let mut is_escaped = false;
    for (at, letter) in rest.char_indices().skip(1) {
        if is_escaped {
            is_escaped = false;
        } else if letter == '\\' {
            is_escaped = true;
        } else if letter == quote {
            return (at + quote.len_utf8(), Tone::Quoted);
        }
    }
    match quote {
        '\'' => (1, Tone::Plain),
        _ => (rest.len(), Tone::Quoted),
    }
}

fn diff_tone(line: &str) -> Tone {
    match line.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => Tone::Label,
        [b'+', ..] => Tone::Good,
        [b'-', ..] => Tone::Bad,
        [b'@', b'@', ..] => Tone::Id,
        [b'd', b'i', b'f', b'f', b' ', ..] | [b'i', b'n', b'd', b'e', b'x', b' ', ..] => {
            Tone::Muted
        }
        _ => Tone::Plain,
    }
}
