//! Error messages for an old text that was not found: the most similar lines of the file, and the first difference.
//!
//! File content stays separate from the message: models receive it as data, and only if the file may be read.

use std::fmt::Write as _;

use super::matching::{Level, indent};
use crate::ports::MASK;

/// Minimum share of common words for lines to be shown as similar.
const MIN_SIMILARITY: f64 = 0.6;

/// Maximum number of lines of the file in an excerpt.
const MAX_LINES: usize = 12;

/// Minimum length of the new text, in bytes, for the message that the edit seems to be applied already. A shorter text
/// may be in the file by chance.
const MIN_DISTINCTIVE: usize = 8;

/// Maximum length of a shown line, in bytes. Longer lines are truncated.
const MAX_LINE_LENGTH: usize = 200;

/// Maximum number of line numbers in a message.
const MAX_PLACES: usize = 10;

/// Reason why an edit cannot be applied.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct EditMismatch {
    /// The message, without content of the file.
    pub(super) why: String,
    /// Lines of the file; empty when none are similar.
    pub(super) excerpt: String,
}

impl From<String> for EditMismatch {
    fn from(why: String) -> Self {
        Self {
            why,
            excerpt: String::new(),
        }
    }
}

impl EditMismatch {
    /// Adds a prefix to the message.
    pub(super) fn within(self, place: &str) -> Self {
        Self {
            why: format!("{place}{}", self.why),
            ..self
        }
    }
}

/// Error message for an old text that occurs several times.
pub(super) fn several(lines: &[usize]) -> String {
    let count = lines.len();
    let places: Vec<String> = lines
        .iter()
        .take(MAX_PLACES)
        .map(ToString::to_string)
        .collect();
    let more = if count > MAX_PLACES { " and more" } else { "" };
    format!(
        "the old text occurs {count} times, in lines {}{more}; include more surrounding text, or set replace_all",
        places.join(", ")
    )
}

/// Error message for an old text that does not occur, with the most similar lines of the file.
pub(super) fn not_found(text: &str, old_text: &str, replacement: &str) -> EditMismatch {
    let mut masked = old_text.lines().filter(|line| line.contains(MASK));
    if masked.any(|line| !text.contains(line)) {
        return format!(
            "the old text contains `{MASK}`, which stands for a secret that you are not shown; \
             choose text next to the secret"
        )
        .into();
    }
    if replacement.trim().len() >= MIN_DISTINCTIVE && text.contains(replacement) {
        let line = text.find(replacement).map_or(1, |at| line_of(text, at));
        return format!(
            "the old text does not occur, and the new text already occurs in line {line}: the edit seems to be \
             applied"
        )
        .into();
    }
    let lines: Vec<&str> = text.lines().collect();
    let old_lines: Vec<&str> = old_text.lines().collect();
    let Some(start) = most_similar(&lines, &old_lines) else {
        let why = "the old text does not occur in the file; read the file again";
        return why.to_owned().into();
    };
    let mut excerpt = String::from("The lines of the file most similar to the old text:\n");
    let end = (start + old_lines.len().clamp(1, MAX_LINES)).min(lines.len());
    for (index, line) in lines[start..end].iter().enumerate() {
        let _never_fails = writeln!(excerpt, "{:>6}\t{}", start + index + 1, truncate(line));
    }
    if let Some(difference) = first_difference(&lines[start..], &old_lines, start) {
        excerpt.push_str(&difference);
    }
    EditMismatch {
        why: "the old text does not occur in the file".to_owned(),
        excerpt,
    }
}

/// The line number, counted from 1, of a byte offset.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

fn truncate(line: &str) -> &str {
    &line[..line.floor_char_boundary(MAX_LINE_LENGTH.min(line.len()))]
}

/// Index of the first line of the block that is most similar to the old text.
fn most_similar(lines: &[&str], old_lines: &[&str]) -> Option<usize> {
    let words = |line: &str| -> Vec<String> {
        let words = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        words
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    };
    // Counting common words is cheap enough for any file and ignores whitespace.
    let file_words: Vec<Vec<String>> = lines.iter().map(|line| words(line)).collect();
    let old_words: Vec<Vec<String>> = old_lines.iter().map(|line| words(line)).collect();
    let total: usize = old_words.iter().map(Vec::len).sum();
    if total == 0 {
        return None;
    }
    let common = |line: &[String], old_line: &[String]| {
        let mut unmatched: Vec<&String> = line.iter().collect();
        let matched = old_line.iter().filter(|word| {
            let at = unmatched.iter().position(|other| other == word);
            at.map(|at| unmatched.swap_remove(at)).is_some()
        });
        matched.count()
    };
    let similarity = |start: usize| {
        let pairs = old_words.iter().enumerate();
        let count: usize = pairs
            .map(|(offset, old_line)| {
                let line = file_words.get(start + offset);
                line.map_or(0, |line| common(line, old_line))
            })
            .sum();
        count
    };
    let best = (0..lines.len()).max_by_key(|start| (similarity(*start), usize::MAX - start))?;
    let share = f64::from(u32::try_from(similarity(best)).unwrap_or(u32::MAX))
        / f64::from(u32::try_from(total).unwrap_or(u32::MAX));
    (share >= MIN_SIMILARITY).then_some(best)
}

/// Describes the first line that differs.
fn first_difference(lines: &[&str], old_lines: &[&str], start: usize) -> Option<String> {
    let pairs = old_lines.iter().enumerate();
    let (offset, old_line, line) = pairs
        .map(|(offset, old_line)| (offset, *old_line, lines.get(offset).copied()))
        .find(|(_, old_line, line)| *line != Some(*old_line))?;
    let number = start + offset + 1;
    let Some(line) = line else {
        return Some(format!(
            "First difference: the file ends before your line `{}`.",
            truncate(old_line)
        ));
    };
    let (file_indent, text_indent) = (indent(line), indent(old_line));
    if file_indent != text_indent {
        return Some(format!(
            "First difference, in line {number}: the file has {}, your text has {}.",
            describe_indentation(file_indent),
            describe_indentation(text_indent)
        ));
    }
    if Level::TrailingSpace.matches(line, old_line) {
        return Some(format!(
            "First difference, in line {number}: trailing whitespace."
        ));
    }
    Some(format!(
        "First difference, in line {number}: the file has `{}`, your text has `{}`.",
        truncate(line.trim()),
        truncate(old_line.trim())
    ))
}

/// Describes an indentation, such as `2 tabs at the start`.
fn describe_indentation(indent: &str) -> String {
    let count = |blank: char| indent.chars().filter(|letter| *letter == blank).count();
    let describe = |count: usize, unit: &str| match count {
        0 => None,
        1 => Some(format!("1 {unit}")),
        count => Some(format!("{count} {unit}s")),
    };
    let parts = [describe(count('\t'), "tab"), describe(count(' '), "space")];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        "no indentation".to_owned()
    } else {
        format!("{} at the start", parts.join(" and "))
    }
}
