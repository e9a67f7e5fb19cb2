//! Checks that the code quoted in a finding is at the stated lines of its file.

use std::fmt;

/// Code quoted from a file: its first and last line (from 1), and the text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuotedCode<'a> {
    pub(crate) line_start: u64,
    pub(crate) line_end: u64,
    pub(crate) quote: &'a str,
}

/// Maximum number of lines that a finding may quote.
const MAX_QUOTED_LINES: u64 = 60;

/// The reason why a quote is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum QuoteMismatch {
    /// The file does not exist in the commit, or is not a text.
    FileMissing,
    /// The lines are not a range, or the file has fewer lines.
    OutOfRange {
        /// Number of lines of the file.
        lines: u64,
    },
    /// The quote has no code.
    Empty,
    /// The quote has more than [`MAX_QUOTED_LINES`] lines.
    TooLong,
    /// The stated lines contain other code.
    Differs {
        /// First line of the quoted code, if the file contains it elsewhere.
        found_at: Option<u64>,
    },
}

impl fmt::Display for QuoteMismatch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FileMissing => formatter.write_str("the file does not exist in the commit"),
            Self::OutOfRange { lines } => {
                write!(
                    formatter,
                    "the lines do not exist: the file has {lines} lines"
                )
            }
            Self::Empty => formatter.write_str("it quotes no code"),
            Self::TooLong => {
                write!(formatter, "it quotes more than {MAX_QUOTED_LINES} lines")
            }
            Self::Differs {
                found_at: Some(line),
            } => {
                write!(
                    formatter,
                    "the quoted code is at line {line}, not at the stated lines"
                )
            }
            Self::Differs { found_at: None } => {
                formatter.write_str("the file does not contain the quoted code")
            }
        }
    }
}

impl QuotedCode<'_> {
    /// Compares the quote with the content of its file in the commit. Indentation is ignored, because a quote may lose
    /// the indentation of its block; everything else must be equal.
    pub(crate) fn check(&self, content: Option<&[u8]>) -> Result<(), QuoteMismatch> {
        let content = content.and_then(|bytes| std::str::from_utf8(bytes).ok());
        let content = content.ok_or(QuoteMismatch::FileMissing)?;
        let quote: Vec<&str> = self
            .quote
            .trim_matches('\n')
            .lines()
            .map(str::trim)
            .collect();
        if quote.iter().all(|line| line.is_empty()) {
            return Err(QuoteMismatch::Empty);
        }
        if quote.len() as u64 > MAX_QUOTED_LINES {
            return Err(QuoteMismatch::TooLong);
        }
        let lines: Vec<&str> = content.lines().map(str::trim).collect();
        let count = lines.len() as u64;
        let is_range = (1..=count).contains(&self.line_start)
            && (self.line_start..=count).contains(&self.line_end);
        if !is_range {
            return Err(QuoteMismatch::OutOfRange { lines: count });
        }
        let stated = lines
            .iter()
            .skip(position(self.line_start))
            .take(position(self.line_end) + 1 - position(self.line_start));
        if stated.eq(quote.iter()) {
            return Ok(());
        }
        let mut windows = lines.windows(quote.len());
        let found = windows.position(|window| window == quote.as_slice());
        Err(QuoteMismatch::Differs {
            found_at: found.map(|index| index as u64 + 1),
        })
    }
}

/// The index of a line, whose number starts at 1.
fn position(line: u64) -> usize {
    usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::{QuoteMismatch, QuotedCode};

    const FILE: &str = "import os\n\ndef open_it(url):\n    if url not in CACHE:\n        CACHE[url] = create(url)\n    return CACHE[url]\n";

    fn check(lines: (u64, u64), quote: &str) -> Result<(), QuoteMismatch> {
        QuotedCode {
            line_start: lines.0,
            line_end: lines.1,
            quote,
        }
        .check(Some(FILE.as_bytes()))
    }

    #[test]
    fn a_quote_counts_only_at_its_stated_lines() {
        let quote = "if url not in CACHE:\n    CACHE[url] = create(url)\n";
        assert_eq!(check((4, 5), quote), Ok(()));
        let moved = QuoteMismatch::Differs { found_at: Some(4) };
        assert_eq!(check((3, 4), quote), Err(moved.clone()));
        assert_eq!(check((4, 6), quote), Err(moved));
        let invented = QuoteMismatch::Differs { found_at: None };
        assert_eq!(check((4, 4), "if url not in ENGINES:"), Err(invented));
        assert_eq!(
            check((6, 9), quote),
            Err(QuoteMismatch::OutOfRange { lines: 6 })
        );
        assert_eq!(
            check((0, 0), quote),
            Err(QuoteMismatch::OutOfRange { lines: 6 })
        );
        assert_eq!(
            check((5, 4), quote),
            Err(QuoteMismatch::OutOfRange { lines: 6 })
        );
        assert_eq!(check((2, 2), "  \n"), Err(QuoteMismatch::Empty));
        assert_eq!(check((2, 2), ""), Err(QuoteMismatch::Empty));
    }

    #[test]
    fn a_quote_of_a_missing_or_binary_file_is_refused() {
        let quoted = QuotedCode {
            line_start: 1,
            line_end: 1,
            quote: "import os",
        };
        assert_eq!(quoted.check(None), Err(QuoteMismatch::FileMissing));
        assert_eq!(
            quoted.check(Some(b"\xff\xfe")),
            Err(QuoteMismatch::FileMissing)
        );
    }
}
