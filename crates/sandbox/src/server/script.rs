//! [`Script`]: SQL text as single statements, each admitted by its first word.
//!
//! Statements are separated as the server itself does it: quotes, dollar quotes, nested comments,
//! parentheses and bodies of functions are understood. A mistake here cannot become a second statement:
//! the server is asked to prepare each text before it runs it, and prepares one statement at most.

use super::StatementRun;
use crate::error::Error;

/// One statement of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statement {
    /// From its first word to its last, without the semicolon and without comments around it.
    pub(crate) text: String,
    /// Its first word, in small letters.
    pub(crate) word: String,
    /// The line of its first word, from 1 on.
    pub(crate) line: usize,
}

/// A text of SQL.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    /// How messages call it.
    pub(crate) name: &'static str,
    pub(crate) statements: Vec<Statement>,
    /// Whether the last statement ends with a semicolon, so that another may follow it.
    is_closed: bool,
}

/// First words of the statements that may run inside a transaction of ours. None of them begins a
/// statement that ends or begins a transaction.
const ADMITTED: [&str; 37] = [
    "alter",
    "analyze",
    "call",
    "close",
    "cluster",
    "comment",
    "create",
    "declare",
    "delete",
    "do",
    "drop",
    "explain",
    "fetch",
    "grant",
    "import",
    "insert",
    "lock",
    "merge",
    "move",
    "notify",
    "reassign",
    "refresh",
    "reindex",
    "release",
    "reset",
    "revoke",
    "rollback",
    "savepoint",
    "security",
    "select",
    "set",
    "show",
    "table",
    "truncate",
    "update",
    "values",
    "with",
];

/// Words that end, begin or leave a transaction.
const CONTROL: [&str; 7] = [
    "abort", "begin", "commit", "end", "prepare", "rollback", "start",
];

impl Script {
    /// Separates a text into statements and refuses those that cannot be part of one transaction.
    pub(crate) fn parse(name: &'static str, text: &[u8]) -> Result<Self, Error> {
        let refused = |line: usize, reason: String| Error::SqlNotAdmitted { name, line, reason };
        let text = std::str::from_utf8(text).map_err(|error| {
            let line = line_of(text, error.valid_up_to());
            refused(line, "is not UTF-8".to_owned())
        })?;
        if let Some(at) = text.find('\0') {
            let line = line_of(text.as_bytes(), at);
            return Err(refused(line, "holds a NUL character".to_owned()));
        }
        let mut scanner = Scanner { text, at: 0, name };
        let mut statements = Vec::new();
        let mut is_closed = true;
        while let Some((start, end, closed)) = scanner.next_statement()? {
            is_closed = closed;
            if start == end {
                continue;
            }
            let line = line_of(text.as_bytes(), start);
            let statement = &text[start..end];
            let word = admit(statement).map_err(|reason| refused(line, reason))?;
            statements.push(Statement {
                text: statement.to_owned(),
                word,
                line,
            });
        }
        Ok(Self {
            name,
            statements,
            is_closed,
        })
    }

    /// What will run, before anything did.
    pub(crate) fn planned(&self) -> Vec<StatementRun> {
        let run = |statement: &Statement| StatementRun {
            line: statement.line,
            word: statement.word.clone(),
            rows: None,
        };
        self.statements.iter().map(run).collect()
    }

    /// The text with the statements of another script behind it.
    pub(crate) fn followed_by(&self, text: &str, next: &Self) -> String {
        let mut whole = text.to_owned();
        if !whole.is_empty() && !whole.ends_with('\n') {
            whole.push('\n');
        }
        if !self.is_closed {
            whole.push_str(";\n");
        }
        for statement in &next.statements {
            whole.push_str(&statement.text);
            whole.push_str(";\n");
        }
        whole
    }
}

/// The line of a place in a text, from 1 on.
pub(crate) fn line_of(text: &[u8], at: usize) -> usize {
    let before = &text[..at.min(text.len())];
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

/// The first word of a statement, if a statement that begins with it may run.
fn admit(statement: &str) -> Result<String, String> {
    // `(SELECT 1) UNION …` begins with no word and can only be a query.
    if statement.starts_with('(') {
        return Ok("select".to_owned());
    }
    let end = statement
        .bytes()
        .position(|byte| !is_word(byte))
        .unwrap_or(statement.len());
    let word = statement[..end].to_ascii_lowercase();
    let is_admitted = ADMITTED.contains(&word.as_str());
    if is_admitted && (word != "rollback" || returns_to_savepoint(statement)) {
        return Ok(word);
    }
    let shown: String = word.to_ascii_uppercase();
    Err(match word.as_str() {
        "" => "does not begin with a word of SQL".to_owned(),
        "copy" => "COPY moves data past the transaction; use INSERT".to_owned(),
        word if CONTROL.contains(&word) => {
            format!("{shown} would end or leave the transaction in which all of it runs")
        }
        _ => format!("{shown} cannot be part of one transaction"),
    })
}

/// Whether it is `ROLLBACK [WORK | TRANSACTION] TO …`, written with nothing but spaces between.
fn returns_to_savepoint(statement: &str) -> bool {
    let mut words = statement.split([' ', '\t', '\n']).skip(1);
    let mut next = || words.find(|word| !word.is_empty()).unwrap_or_default();
    let first = next().to_ascii_lowercase();
    let second = if matches!(first.as_str(), "work" | "transaction") {
        next().to_ascii_lowercase()
    } else {
        first
    };
    second == "to"
}

/// Whether a byte belongs to a name or a keyword.
const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || !byte.is_ascii()
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// Goes through a text, statement by statement.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
    name: &'static str,
}

/// Where in a statement the scanner is.
#[derive(Default)]
struct Place {
    parentheses: usize,
    /// Its first words, as far as they tell whether it makes a function.
    words: Vec<String>,
    /// How deep in `BEGIN … END` of a body written in SQL.
    bodies: usize,
}

impl Place {
    fn makes_function(&self) -> bool {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        matches!(
            words.as_slice(),
            ["create", "function" | "procedure", ..]
                | ["create", "or", "replace", "function" | "procedure", ..]
        )
    }

    fn meet(&mut self, word: &str) {
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

impl Scanner<'_> {
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

    /// Where the next statement begins and ends, and whether a semicolon follows. `None` at the end.
    fn next_statement(&mut self) -> Result<Option<(usize, usize, bool)>, Error> {
        let mut place = Place::default();
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

    /// Passes white space and comments.
    fn skip_blank(&mut self) -> Result<(), Error> {
        loop {
            if is_space(self.peek(0)) {
                self.at += 1;
            } else if self.rest().starts_with("--") {
                let end = self.rest().find(['\n', '\r']);
                self.at += end.unwrap_or(self.rest().len());
            } else if self.rest().starts_with("/*") {
                self.comment()?;
            } else {
                return Ok(());
            }
        }
    }

    /// Passes a comment, with those inside it.
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
                self.advance(start, "begins a comment that does not end")?;
            }
        }
    }

    /// One character on; the end of the text is a mistake that began at `start`.
    fn advance(&mut self, start: usize, mistake: &str) -> Result<char, Error> {
        let next = self.rest().chars().next();
        let character = next.ok_or_else(|| self.refused(start, mistake))?;
        self.at += character.len_utf8();
        Ok(character)
    }

    fn token(&mut self, byte: u8, place: &mut Place) -> Result<(), Error> {
        match byte {
            b'\'' => self.quoted('\'', false),
            b'"' => self.quoted('"', false),
            b'$' => self.dollar(),
            b'\\' => Err(self.refused(self.at, "holds a command of psql, which is not SQL")),
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
                place.meet(&word);
                Ok(())
            }
            _ => {
                self.at += 1;
                Ok(())
            }
        }
    }

    /// Passes something between quotes. A doubled quote is part of it.
    fn quoted(&mut self, quote: char, has_escapes: bool) -> Result<(), Error> {
        let start = self.at;
        let mistake = "begins a quote that does not end";
        self.at += 1;
        loop {
            match self.advance(start, mistake)? {
                '\\' if has_escapes => {
                    self.advance(start, mistake)?;
                }
                found if found == quote => {
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

    /// Whether a text with escapes goes on in a later line, and if so moves to its quote: what stands
    /// between quotes on two lines is one text, of the kind that it began as.
    fn continues(&mut self) -> bool {
        let before = self.at;
        let mut has_line_end = false;
        loop {
            let byte = self.peek(0);
            if is_space(byte) {
                has_line_end |= matches!(byte, b'\n' | b'\r');
                self.at += 1;
            } else if has_line_end && self.rest().starts_with("--") {
                let end = self.rest().find(['\n', '\r']);
                self.at += end.unwrap_or(self.rest().len());
            } else if has_line_end && byte == b'\'' {
                return true;
            } else {
                self.at = before;
                return false;
            }
        }
    }

    /// Passes a text between dollar quotes, or a lone dollar sign.
    fn dollar(&mut self) -> Result<(), Error> {
        let start = self.at;
        let inner = &self.rest()[1..];
        let Some(length) = inner.find('$') else {
            self.at += 1;
            return Ok(());
        };
        let tag = &inner[..length];
        let begins_well = !tag.starts_with(|first: char| first.is_ascii_digit());
        if !begins_well || !tag.bytes().all(|byte| is_word(byte) && byte != b'$') {
            self.at += 1;
            return Ok(());
        }
        let mark = format!("${tag}$");
        self.at += mark.len();
        let Some(end) = self.rest().find(&mark) else {
            return Err(self.refused(start, "begins a dollar quote that does not end"));
        };
        self.at += end + mark.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
