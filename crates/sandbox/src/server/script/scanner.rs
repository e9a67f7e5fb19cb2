//! [`Scanner`]: splits a text into statements by PostgreSQL's lexical rules.

use super::line_of;
use crate::error::Error;

/// Whether a byte belongs to a name or a keyword.
pub(super) const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || !byte.is_ascii()
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// Iterates over the statements of a text.
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    name: &'static str,
}

/// Position of the scanner in a statement.
#[derive(Default)]
struct ScanPosition {
    parentheses: usize,
    /// Up to four first words, which show whether the statement creates a function.
    words: Vec<String>,
    /// Nesting depth of `BEGIN … END` in a function body written in SQL.
    bodies: usize,
}

impl ScanPosition {
    fn makes_function(&self) -> bool {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        matches!(
            words.as_slice(),
            ["create", "function" | "procedure", ..]
                | ["create", "or", "replace", "function" | "procedure", ..]
        )
    }

    fn add_word(&mut self, word: &str) {
        if self.words.len() < 4 {
            self.words.push(word.to_ascii_lowercase());
        }
        if !self.makes_function() || self.parentheses > 0 {
            return;
        }
        match word.to_ascii_lowercase().as_str() {
            "begin" => self.bodies += 1,
            "case" if self.bodies > 0 => self.bodies += 1,
            "end" => self.bodies = self.bodies.saturating_sub(1),
            _ => {}
        }
    }
}

impl<'a> Scanner<'a> {
    pub(super) const fn new(name: &'static str, text: &'a str) -> Self {
        Self { text, at: 0, name }
    }

    fn peek(&self, ahead: usize) -> u8 {
        let bytes = self.text.as_bytes();
        bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn refused(&self, at: usize, reason: &str) -> Error {
        Error::SqlNotAdmitted {
            name: self.name,
            line: line_of(self.text.as_bytes(), at),
            reason: reason.to_owned(),
        }
    }

    /// Start and end of the next statement, and whether a semicolon follows it; `None` at the end of the text.
    pub(super) fn next_statement(&mut self) -> Result<Option<(usize, usize, bool)>, Error> {
        let mut place = ScanPosition::default();
        let mut range: Option<(usize, usize)> = None;
        loop {
            self.skip_blank()?;
            let start = self.at;
            if start >= self.text.len() {
                return Ok(range.map(|(start, end)| (start, end, false)));
            }
            let byte = self.peek(0);
            if byte == b';' && place.parentheses == 0 && place.bodies == 0 {
                self.at += 1;
                let (start, end) = range.unwrap_or((start, start));
                return Ok(Some((start, end, true)));
            }
            self.token(byte, &mut place)?;
            range = Some((range.map_or(start, |(first, _)| first), self.at));
        }
    }

    /// Skips white space and comments.
    fn skip_blank(&mut self) -> Result<(), Error> {
        loop {
            if is_space(self.peek(0)) {
                self.at += 1;
            } else if self.rest().starts_with("--") {
                self.skip_line();
            } else if self.rest().starts_with("/*") {
                self.comment()?;
            } else {
                return Ok(());
            }
        }
    }

    /// Skips a comment to the end of its line.
    fn skip_line(&mut self) {
        let length = self.rest().find(['\n', '\r']);
        self.at = length.map_or(self.text.len(), |length| self.at + length);
    }

    /// Skips a comment, including nested comments.
    fn comment(&mut self) -> Result<(), Error> {
        let start = self.at;
        let mut depth = 0_usize;
        loop {
            if self.rest().starts_with("/*") {
                depth += 1;
                self.at += 2;
            } else if self.rest().starts_with("*/") {
                depth -= 1;
                self.at += 2;
                if depth == 0 {
                    return Ok(());
                }
            } else {
                self.advance(start, "starts a comment that does not end")?;
            }
        }
    }

    /// Advances by one character. At the end of the text, returns the error `mistake` for the token that began at
    /// `start`.
    fn advance(&mut self, start: usize, mistake: &str) -> Result<char, Error> {
        let next = self.rest().chars().next();
        let character = next.ok_or_else(|| self.refused(start, mistake))?;
        self.at += character.len_utf8();
        Ok(character)
    }

    fn token(&mut self, byte: u8, place: &mut ScanPosition) -> Result<(), Error> {
        match byte {
            b'\'' => self.quoted('\'', false),
            b'"' => self.quoted('"', false),
            b'$' => self.dollar(),
            b'\\' => Err(self.refused(self.at, "contains a command of psql, which is not SQL")),
            b'(' => {
                place.parentheses += 1;
                self.at += 1;
                Ok(())
            }
            b')' => {
                place.parentheses = place.parentheses.saturating_sub(1);
                self.at += 1;
                Ok(())
            }
            byte if is_word(byte) => {
                let start = self.at;
                while self.at < self.text.len() && is_word(self.peek(0)) {
                    self.at += 1;
                }
                let word = self.text[start..self.at].to_owned();
                if word.eq_ignore_ascii_case("e") && self.peek(0) == b'\'' {
                    return self.quoted('\'', true);
                }
                place.add_word(&word);
                Ok(())
            }
            _ => {
                self.at += 1;
                Ok(())
            }
        }
    }

    /// Skips a quoted text, in which a doubled quote is an escaped quote.
    fn quoted(&mut self, quote: char, has_escapes: bool) -> Result<(), Error> {
        let start = self.at;
        let mistake = "starts a quote that does not end";
        self.at += 1;
        loop {
            match self.advance(start, mistake)? {
                '\\' if has_escapes => {
                    self.advance(start, mistake)?;
                }
                character if character == quote => {
                    if self.rest().starts_with(quote) || (has_escapes && self.continues()) {
                        self.at += 1;
                    } else {
                        return Ok(());
                    }
                }
                _ => {}
            }
        }
    }

    /// Whether a text with escapes continues on a later line; if so, moves to its next quote. Quoted texts on
    /// consecutive lines form one text of the kind of the first.
    fn continues(&mut self) -> bool {
        let before = self.at;
        let mut has_line_end = false;
        loop {
            let byte = self.peek(0);
            if is_space(byte) {
                has_line_end |= matches!(byte, b'\n' | b'\r');
                self.at += 1;
            } else if has_line_end && self.rest().starts_with("--") {
                self.skip_line();
            } else if has_line_end && byte == b'\'' {
                return true;
            } else {
                self.at = before;
                return false;
            }
        }
    }

    /// Skips a dollar-quoted text, or a lone dollar sign.
    fn dollar(&mut self) -> Result<(), Error> {
        let start = self.at;
        let inner = &self.rest()[1..];
        let Some(length) = inner.find('$') else {
            self.at += 1;
            return Ok(());
        };
        let tag = &inner[..length];
        let is_valid_start = !tag.starts_with(|first: char| first.is_ascii_digit());
        if !is_valid_start || !tag.bytes().all(|byte| is_word(byte) && byte != b'$') {
            self.at += 1;
            return Ok(());
        }
        let mark = format!("${tag}$");
        self.at += mark.len();
        let Some(end) = self.rest().find(&mark) else {
            return Err(self.refused(start, "starts a dollar quote that does not end"));
        };
        self.at += end + mark.len();
        Ok(())
    }
}
