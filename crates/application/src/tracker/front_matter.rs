//! Issues in Markdown files: front matter, the text, and comments after it.

use std::collections::BTreeSet;

use cleveragents_domain::yaml;
use serde::Deserialize;

use super::fields::FieldChanges;
use super::idempotency::without_marker;
use super::types::NewIssue;

/// The line before each comment.
const COMMENT: &str = "<!-- cleveragents:comment -->";

/// The fields of a file. Other fields are kept and ignored.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct FrontMatter {
    pub(super) title: String,
    #[serde(default)]
    pub(super) state: FileIssueState,
    #[serde(default)]
    pub(super) labels: BTreeSet<String>,
    #[serde(default)]
    pub(super) milestone: Option<String>,
    #[serde(default)]
    pub(super) author: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FileIssueState {
    #[default]
    Open,
    Closed,
}

/// A parsed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MarkdownIssue<'t> {
    pub(super) fields: FrontMatter,
    /// The lines between the lines `---`.
    front: &'t str,
    /// The text without comments.
    pub(super) body: &'t str,
    /// From the line before the first comment on.
    comments: &'t str,
}

/// Whether a file is meant as an issue: its first line is `---`.
pub(super) fn has_front_matter(text: &str) -> bool {
    text.lines()
        .next()
        .is_some_and(|line| line.trim_end() == "---")
}

/// Parses a file with front matter. The error is a reason for the user.
pub(super) fn parse(text: &str) -> Result<MarkdownIssue<'_>, String> {
    let mut lines = text.split_inclusive('\n');
    let start = lines.next().unwrap_or_default().len();
    let mut end = start;
    let rest = loop {
        let line = lines
            .next()
            .ok_or("has front matter without a line `---` at its end")?;
        if line.trim_end() == "---" {
            break end + line.len();
        }
        end += line.len();
    };
    let front = &text[start..end];
    let fields: FrontMatter = yaml::read(front).map_err(|fault| {
        let place = fault.place.map_or_else(String::new, |(line, column)| {
            format!(" at line {}, column {column}", line + 1)
        });
        format!("has invalid front matter{place}: {}", fault.message)
    })?;
    if fields.title.trim().is_empty() {
        return Err("has an empty title".to_owned());
    }
    let rest = &text[rest..];
    let split = comment_start(rest);
    Ok(MarkdownIssue {
        fields,
        front,
        body: rest[..split].trim(),
        comments: &rest[split..],
    })
}

/// The position of the line before the first comment.
fn comment_start(text: &str) -> usize {
    let mut position = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_end() == COMMENT {
            return position;
        }
        position += line.len();
    }
    text.len()
}

/// A text without the line that starts a comment.
fn quoted(text: &str) -> String {
    text.replace(COMMENT, "<!-- comment -->")
}

impl MarkdownIssue<'_> {
    /// The file with an additional comment. `marked` is the comment with its marker.
    pub(super) fn with_comment(&self, marked: &str) -> String {
        let comments = self.comments.trim_end();
        let separator = if comments.is_empty() { "" } else { "\n\n" };
        let comments = format!("{comments}{separator}{COMMENT}\n{}", quoted(marked));
        file(self.front, self.body, &comments)
    }

    /// The file with changed fields.
    pub(super) fn with_fields(&self, changes: &FieldChanges, labels: &BTreeSet<String>) -> String {
        let mut front = self.front.to_owned();
        if let Some(title) = &changes.title {
            front = with_line(&front, "title", &yaml_text(title));
        }
        if *labels != self.fields.labels {
            front = with_line(&front, "labels", &yaml_list(labels));
        }
        if let Some(milestone) = &changes.milestone {
            front = with_line(&front, "milestone", &yaml_text(milestone));
        }
        if let Some(is_closed) = changes.is_closed {
            let state = if is_closed { "closed" } else { "open" };
            front = with_line(&front, "state", state);
        }
        let marker = self.body.get(without_marker(self.body).len()..);
        let body = match &changes.body {
            // The marker of a created issue stays.
            Some(body) => format!("{}{}", quoted(body.trim_end()), marker.unwrap_or_default()),
            None => self.body.to_owned(),
        };
        file(&front, &body, self.comments)
    }
}

/// The file of a new issue. `marked` is its text with the marker.
pub(super) fn new_file(new: &NewIssue, marked: &str) -> String {
    let mut front = format!(
        "title: {}\nstate: open\nlabels: {}\n",
        yaml_text(&new.title),
        yaml_list(&new.labels)
    );
    if let Some(milestone) = &new.milestone {
        front = with_line(&front, "milestone", &yaml_text(milestone));
    }
    file(&front, &quoted(marked), "")
}

fn file(front: &str, body: &str, comments: &str) -> String {
    let separator = if comments.is_empty() { "" } else { "\n\n" };
    let text = format!(
        "---\n{front}---\n\n{}{separator}{}",
        body.trim(),
        comments.trim_end()
    );
    format!("{}\n", text.trim_end())
}

/// A text in double quotes, as JSON and YAML have in common.
fn yaml_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn yaml_list(texts: &BTreeSet<String>) -> String {
    let texts: Vec<String> = texts.iter().map(|text| yaml_text(text)).collect();
    format!("[{}]", texts.join(", "))
}

/// Replaces the value of a field, with its continuation lines, or adds the field at the end. Other lines stay.
fn with_line(front: &str, field: &str, value: &str) -> String {
    let replacement = format!("{field}: {value}\n");
    let mut out = String::new();
    let mut is_replaced = false;
    let mut is_inside = false;
    for line in front.split_inclusive('\n') {
        let is_field = line
            .strip_prefix(field)
            .is_some_and(|rest| rest.trim_start().starts_with(':'));
        if is_field && !is_replaced {
            out.push_str(&replacement);
            is_replaced = true;
            is_inside = true;
            continue;
        }
        let continues = line.starts_with([' ', '\t', '-', ']', '}']) || line.trim().is_empty();
        if is_inside && continues {
            continue;
        }
        is_inside = false;
        out.push_str(line);
        if !line.ends_with('\n') {
            out.push('\n');
        }
    }
    if !is_replaced {
        out.push_str(&replacement);
    }
    out
}
