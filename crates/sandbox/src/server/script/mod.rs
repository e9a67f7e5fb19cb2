//! [`Script`]: splits SQL text into statements and admits each by its first word.
//!
//! It follows the server's lexical rules for quotes, dollar quotes, nested comments, parentheses and bodies of
//! functions. An error here cannot produce a second statement: the server prepares each text before it runs it, and
//! prepares at most one statement.

mod scanner;

use self::scanner::{Scanner, is_word};
use super::StatementRun;
use crate::error::Error;

/// One statement of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statement {
    /// Text from the first to the last word, without the semicolon and without comments around it.
    pub(crate) text: String,
    /// Its first word, in lower case.
    pub(crate) word: String,
    /// The line of its first word, starting at 1.
    pub(crate) line: usize,
}

/// A parsed SQL text.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    /// Name of the text in messages.
    pub(crate) name: &'static str,
    pub(crate) statements: Vec<Statement>,
    /// Whether the last statement ends with a semicolon, so that another statement may follow.
    is_closed: bool,
}

/// First words of the statements that may run inside the program's transaction. Such statements cannot begin or end a
/// transaction.
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
    /// Splits a text into statements. Refuses statements that cannot be part of one transaction.
    pub(crate) fn parse(name: &'static str, text: &[u8]) -> Result<Self, Error> {
        let refused = |line: usize, reason: String| Error::SqlNotAdmitted { name, line, reason };
        let text = std::str::from_utf8(text).map_err(|error| {
            let line = line_of(text, error.valid_up_to());
            refused(line, "is not UTF-8".to_owned())
        })?;
        if let Some(offset) = text.find('\0') {
            let line = line_of(text.as_bytes(), offset);
            return Err(refused(line, "contains a NUL character".to_owned()));
        }
        let mut scanner = Scanner::new(name, text);
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

    /// The statements, not yet run, for the plan of an apply.
    pub(crate) fn planned(&self) -> Vec<StatementRun> {
        let run = |statement: &Statement| StatementRun {
            line: statement.line,
            word: statement.word.clone(),
            rows: None,
        };
        self.statements.iter().map(run).collect()
    }

    /// The text followed by the statements of another script.
    pub(crate) fn followed_by(&self, text: &str, next: &Self) -> String {
        let mut combined = text.to_owned();
        if !combined.is_empty() && !combined.ends_with('\n') {
            combined.push('\n');
        }
        if !self.is_closed {
            combined.push_str(";\n");
        }
        for statement in &next.statements {
            combined.push_str(&statement.text);
            combined.push_str(";\n");
        }
        combined
    }
}

/// The line of an offset in a text; the first line is 1.
pub(crate) fn line_of(text: &[u8], at: usize) -> usize {
    let before = &text[..at.min(text.len())];
    before.split(|byte| *byte == b'\n').count()
}

/// Returns the statement's first word, or the reason why statements with this word may not run.
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

/// Whether the statement is `ROLLBACK [WORK | TRANSACTION] TO …`, with only white space between the words.
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

#[cfg(test)]
mod tests;
