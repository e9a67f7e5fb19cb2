//! Applying the hunks of a patch to the text of a file.

use super::parse::{Hunk, Mark};
use crate::builtin::edit_errors::{self, EditMismatch};
use crate::builtin::matching::{Indentation, Level, matches_at, occurrences};

/// Result of applying hunks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PatchResult {
    pub(super) text: String,
    /// Differences between hunk and file that were ignored, as text for the model; one for each affected hunk.
    pub(super) repairs: Vec<String>,
}

/// Applies hunks in order, each after the previous one.
pub(super) fn apply(text: &str, hunks: &[Hunk]) -> Result<PatchResult, EditMismatch> {
    let is_crlf = text.contains("\r\n");
    let mut lines: Vec<&str> = text.split('\n').collect();
    let ends_line = lines.last() == Some(&"");
    if ends_line {
        lines.pop();
    }
    let mut patched: Vec<String> = Vec::new();
    let mut repairs = Vec::new();
    let mut next_line = 0;
    for (index, hunk) in hunks.iter().enumerate() {
        let number = index + 1;
        let prefix = format!("change {number}: ");
        let place =
            Place::find(&lines, hunk, next_line).map_err(|mismatch| mismatch.within(&prefix))?;
        let copied = lines[next_line..place.start]
            .iter()
            .map(|line| (*line).to_owned());
        patched.extend(copied);
        patched.extend(
            place
                .replacement(&lines, is_crlf)
                .map_err(|why| format!("{prefix}{why}"))?,
        );
        next_line = place.start + place.old.len();
        if let Some(ignored) = place.level.ignored() {
            let line = place.start + 1;
            repairs.push(format!(
                "change {number} matched at line {line}, ignoring differences in {ignored}"
            ));
        }
    }
    patched.extend(lines[next_line..].iter().map(|line| (*line).to_owned()));
    let mut text = patched.join("\n");
    if ends_line && !patched.is_empty() {
        text.push('\n');
    }
    Ok(PatchResult { text, repairs })
}

/// The position of a hunk in the file.
struct Place<'h> {
    start: usize,
    level: Level,
    /// The lines that the hunk expects in the file.
    old: Vec<&'h str>,
    lines: Vec<(Mark, &'h str)>,
}

impl<'h> Place<'h> {
    fn find(lines: &[&str], hunk: &'h Hunk, next_line: usize) -> Result<Self, EditMismatch> {
        let mut from = next_line;
        for header in &hunk.headers {
            let found = occurrences(lines, &[header.as_str()], from);
            let (_, places) = found.ok_or_else(|| {
                format!(
                    "the line `{header}` after `@@` does not occur in the file after line {from}"
                )
            })?;
            from = places[0] + 1;
        }
        let mut place = Self {
            start: from,
            level: Level::Exact,
            old: Vec::new(),
            lines: hunk
                .lines
                .iter()
                .map(|(mark, line)| (*mark, line.as_str()))
                .collect(),
        };
        place.old = place.old_lines();
        if place.old.is_empty() {
            // The hunk has no old lines: insert after the header, or at the end.
            if hunk.headers.is_empty() {
                place.start = lines.len();
            }
            return Ok(place);
        }
        if !place.search(lines, from, hunk)? {
            // Models often end a hunk with an empty line that is not in the file. Search again without it.
            let is_empty = place.lines.last() == Some(&(Mark::Keep, ""));
            if !is_empty || place.old.len() == 1 {
                return Err(not_found(lines, &place.old));
            }
            place.lines.pop();
            let old = place.old.clone();
            place.old.pop();
            if !place.search(lines, from, hunk)? {
                return Err(not_found(lines, &old));
            }
        }
        Ok(place)
    }

    fn old_lines(&self) -> Vec<&'h str> {
        let old = self.lines.iter().filter(|(mark, _)| *mark != Mark::Add);
        old.map(|(_, line)| *line).collect()
    }

    fn search(&mut self, lines: &[&str], from: usize, hunk: &Hunk) -> Result<bool, String> {
        if hunk.is_at_end
            && let Some(start) = lines.len().checked_sub(self.old.len())
            && start >= from
        {
            let mut levels = Level::ALL.into_iter();
            if let Some(level) = levels.find(|level| matches_at(lines, &self.old, start, *level)) {
                (self.start, self.level) = (start, level);
                return Ok(true);
            }
        }
        let Some((level, places)) = occurrences(lines, &self.old, from) else {
            return Ok(false);
        };
        if places.len() > 1 && hunk.headers.is_empty() {
            let numbers: Vec<String> = places
                .iter()
                .take(10)
                .map(|place| (place + 1).to_string())
                .collect();
            return Err(format!(
                "its lines occur {} times, in lines {}; include more context lines, or put the enclosing function before \
                 it as `@@ def name():`",
                places.len(),
                numbers.join(", ")
            ));
        }
        (self.start, self.level) = (places[0], level);
        Ok(true)
    }

    /// Returns the lines that replace the old ones. Context lines keep their text in the file.
    fn replacement(&self, lines: &[&str], is_crlf: bool) -> Result<Vec<String>, String> {
        let matched = &lines[self.start..self.start + self.old.len()];
        let is_indented_otherwise = matches!(self.level, Level::Indentation | Level::Typographic);
        let indentation = if is_indented_otherwise {
            let indentation = Indentation::between(matched, &self.old);
            Some(indentation.ok_or_else(|| self.indentation_error())?)
        } else {
            None
        };
        let mut file_lines = matched.iter();
        let mut new = Vec::new();
        for (mark, line) in &self.lines {
            match mark {
                Mark::Remove => {
                    file_lines.next();
                }
                Mark::Keep => new.extend(file_lines.next().map(|line| (*line).to_owned())),
                Mark::Add => {
                    let mut line = match &indentation {
                        None => (*line).to_owned(),
                        Some(indentation) => {
                            let adapted = indentation.adapt(line);
                            adapted.ok_or_else(|| self.indentation_error())?
                        }
                    };
                    if is_crlf && !line.ends_with('\r') {
                        line.push('\r');
                    }
                    new.push(line);
                }
            }
        }
        Ok(new)
    }

    fn indentation_error(&self) -> String {
        format!(
            "its lines are indented differently in the file, at line {}; read the file and copy its indentation",
            self.start + 1
        )
    }
}

fn not_found(lines: &[&str], old: &[&str]) -> EditMismatch {
    edit_errors::not_found(&lines.join("\n"), &old.join("\n"), "")
}
