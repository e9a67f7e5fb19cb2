//! Finding lines in a file: exact matches first, then matches that ignore whitespace and typographic characters.

use std::collections::BTreeMap;

/// Strictness of the comparison of lines. [`occurrences`] uses the first level that matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// All bytes are equal.
    Exact,
    /// Ignores trailing whitespace.
    TrailingSpace,
    /// Ignores leading and trailing whitespace.
    Indentation,
    /// Like `Indentation`, and treats typographic quotes, dashes and spaces as their ASCII equivalents.
    Typographic,
}

impl Level {
    pub(super) const ALL: [Self; 4] = [
        Self::Exact,
        Self::TrailingSpace,
        Self::Indentation,
        Self::Typographic,
    ];

    pub(super) fn matches(self, left: &str, right: &str) -> bool {
        match self {
            Self::Exact => left == right,
            Self::TrailingSpace => left.trim_end() == right.trim_end(),
            Self::Indentation => left.trim() == right.trim(),
            Self::Typographic => to_ascii(left.trim()) == to_ascii(right.trim()),
        }
    }

    /// The ignored differences, as text for the model.
    pub(super) const fn ignored(self) -> Option<&'static str> {
        match self {
            Self::Exact => None,
            Self::TrailingSpace => Some("trailing whitespace"),
            Self::Indentation => Some("indentation"),
            Self::Typographic => Some("indentation and typographic characters"),
        }
    }
}

/// Replaces typographic quotes, dashes and spaces by their ASCII equivalents.
fn to_ascii(text: &str) -> String {
    text.chars()
        .map(|letter| match letter {
            '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
            '\u{2018}'..='\u{201B}' => '\'',
            '\u{201C}'..='\u{201F}' => '"',
            '\u{00A0}' | '\u{2002}'..='\u{200A}' | '\u{202F}' | '\u{205F}' | '\u{3000}' => ' ',
            other => other,
        })
        .collect()
}

/// Returns the indexes at or after `from` where the lines of a text occur, and the strictest level that matches.
pub(super) fn occurrences(
    lines: &[&str],
    text_lines: &[&str],
    from: usize,
) -> Option<(Level, Vec<usize>)> {
    let last = lines.len().checked_sub(text_lines.len())?;
    Level::ALL.into_iter().find_map(|level| {
        let places: Vec<usize> = (from..=last)
            .filter(|start| matches_at(lines, text_lines, *start, level))
            .collect();
        (!places.is_empty()).then_some((level, places))
    })
}

/// Returns whether the lines of a text occur at an index.
pub(super) fn matches_at(lines: &[&str], text_lines: &[&str], start: usize, level: Level) -> bool {
    let window = lines.get(start..start + text_lines.len());
    window.is_some_and(|window| {
        let mut pairs = window.iter().zip(text_lines);
        pairs.all(|(line, other)| level.matches(line, other))
    })
}

/// Difference between the indentation of lines in a file and in a text that matches them.
#[derive(Debug)]
pub(super) struct Indentation {
    /// Maps each indentation in the text to the indentation in the file.
    mapping: BTreeMap<String, String>,
    /// The indentation that the file has more or less than the text, if it is the same for all lines.
    shift: Option<Shift>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Shift {
    Add(String),
    Remove(String),
}

impl Indentation {
    /// Compares matching lines. `None` when one indentation in the text corresponds to several in the file.
    pub(super) fn between(file: &[&str], text: &[&str]) -> Option<Self> {
        let mut mapping = BTreeMap::new();
        let mut shifts: Vec<Option<Shift>> = Vec::new();
        for (line, text_line) in file.iter().zip(text) {
            if text_line.trim().is_empty() {
                continue;
            }
            let (in_file, in_text) = (indent(line), indent(text_line));
            let previous = mapping.insert(in_text.to_owned(), in_file.to_owned());
            if previous.is_some_and(|previous| previous != in_file) {
                return None;
            }
            shifts.push(if let Some(added) = in_file.strip_suffix(in_text) {
                Some(Shift::Add(added.to_owned()))
            } else {
                let removed = in_text.strip_suffix(in_file);
                removed.map(|removed| Shift::Remove(removed.to_owned()))
            });
        }
        let first = shifts.first().cloned().flatten();
        let is_same = shifts.iter().all(|shift| *shift == first);
        Some(Self {
            mapping,
            shift: first.filter(|_| is_same),
        })
    }

    /// A line of the text with the file's indentation; `None` when it cannot be derived.
    pub(super) fn adapt(&self, line: &str) -> Option<String> {
        let content = line.trim_start();
        if content.is_empty() {
            return Some(String::new());
        }
        let in_text = indent(line);
        if let Some(in_file) = self.mapping.get(in_text) {
            return Some(format!("{in_file}{content}"));
        }
        match self.shift.as_ref()? {
            Shift::Add(added) => Some(format!("{added}{in_text}{content}")),
            Shift::Remove(removed) => {
                let in_file = in_text.strip_prefix(removed.as_str())?;
                Some(format!("{in_file}{content}"))
            }
        }
    }
}

/// The leading spaces and tabs of a line.
pub(super) fn indent(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

#[cfg(test)]
mod tests {
    use super::{Indentation, Level, occurrences};

    #[test]
    fn the_strictest_matching_level_is_used() {
        let lines = ["a", "  b ", "b", "say “hi” – now", "\tc"];
        let find = |line: &str| occurrences(&lines, &[line], 0);
        assert_eq!(find("b"), Some((Level::Exact, vec![2])));
        assert_eq!(find("  b"), Some((Level::TrailingSpace, vec![1])));
        assert_eq!(find("    c"), Some((Level::Indentation, vec![4])));
        assert_eq!(
            find("say \"hi\" - now"),
            Some((Level::Typographic, vec![3]))
        );
        assert_eq!(find("d"), None);
        assert_eq!(occurrences(&lines, &["b"], 3), None);
    }

    #[test]
    fn indentation_is_adapted_where_it_can_be_derived() {
        let tabs = Indentation::between(&["\tif x:", "\t\ty()"], &["    if x:", "        y()"]);
        let tabs = tabs.expect("indentation");
        assert_eq!(tabs.adapt("        z()").as_deref(), Some("\t\tz()"));
        assert_eq!(
            tabs.adapt("            z()"),
            None,
            "no line has this depth"
        );
        let deeper =
            Indentation::between(&["    a", "      b"], &["a", "  b"]).expect("indentation");
        assert_eq!(deeper.adapt("    c").as_deref(), Some("        c"));
        assert!(Indentation::between(&["  a", "    b"], &["a", "b"]).is_none());
    }
}
