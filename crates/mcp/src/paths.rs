//! File paths in arguments and results. Paths in arguments are confined to the sandbox and converted to real paths;
//! real paths in results are converted to sandbox paths.
//!
//! An argument is a path when its name indicates a path, when its schema has the format `path`, when the definition
//! lists it, or when it is a `file:` URL. Any other text that is the absolute path of an existing file is checked too.
//! Servers over HTTP have no access to this machine's files; of their arguments, only those that the definition lists
//! are checked.

use cleveragents_tools::{Access, PrepareContext, PrepareError, Subject, locate};
use reqwest::Url;
use serde_json::{Map, Value};

use crate::definition::{ServerDefinition, Transport};
use crate::resolve::Secrets;

/// Argument names that always mean a path.
const NAMES: &[&str] = &[
    "path",
    "paths",
    "file",
    "files",
    "filename",
    "filepath",
    "file_path",
    "directory",
    "dir",
    "folder",
    "repo_path",
    "cwd",
    "root",
];
/// Suffixes of argument names that always mean a path.
const SUFFIXES: &[&str] = &[
    "_path",
    "_paths",
    "_file",
    "_files",
    "_dir",
    "_directory",
    "_folder",
];
/// Argument names that mean a path if the value looks like a path.
const AMBIGUOUS_NAMES: &[&str] = &[
    "source",
    "destination",
    "target",
    "from",
    "to",
    "input",
    "output",
];

/// State of the search for paths.
struct Search<'a> {
    definition: &'a ServerDefinition,
    access: Access,
    context: PrepareContext<'a>,
    subjects: Vec<Subject>,
}

/// Finds the arguments that contain paths, replaces them by real paths in the sandbox, and returns the paths as
/// subjects. Rejects a path that leads out of the sandbox. Without a sandbox, arguments stay unchanged.
pub(crate) fn find(
    definition: &ServerDefinition,
    schema: &Value,
    access: Access,
    arguments: &mut Map<String, Value>,
    context: PrepareContext<'_>,
) -> Result<Vec<Subject>, PrepareError> {
    let mut search = Search {
        definition,
        access,
        context,
        subjects: Vec::new(),
    };
    search.fields(arguments, schema.get("properties"))?;
    Ok(search.subjects)
}

impl Search<'_> {
    fn fields(
        &mut self,
        fields: &mut Map<String, Value>,
        properties: Option<&Value>,
    ) -> Result<(), PrepareError> {
        for (name, value) in fields {
            let schema = properties.and_then(|properties| properties.get(name));
            self.value(name, value, schema)?;
        }
        Ok(())
    }

    fn value(
        &mut self,
        name: &str,
        value: &mut Value,
        schema: Option<&Value>,
    ) -> Result<(), PrepareError> {
        match value {
            Value::String(text) => {
                if self.is_file(name, text, schema) {
                    *text = self.real_path(text)?;
                }
                Ok(())
            }
            Value::Array(items) => {
                let schema = schema.and_then(|schema| schema.get("items"));
                items
                    .iter_mut()
                    .try_for_each(|item| self.value(name, item, schema))
            }
            Value::Object(fields) => {
                let properties = schema.and_then(|schema| schema.get("properties"));
                self.fields(fields, properties)
            }
            _ => Ok(()),
        }
    }

    fn is_file(&self, name: &str, text: &str, schema: Option<&Value>) -> bool {
        let listed = &self.definition.path_arguments;
        if listed.iter().any(|listed| listed == name) {
            return true;
        }
        if self.definition.transport() != Transport::Stdio {
            return false;
        }
        let name = snake(name);
        let format = schema.and_then(|schema| schema.get("format"));
        NAMES.contains(&name.as_str())
            || SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
            || matches!(format.and_then(Value::as_str), Some("path" | "file-path"))
            || is_file_address(text)
            || (AMBIGUOUS_NAMES.contains(&name.as_str())
                && text.contains('/')
                && !text.contains("://"))
            || (text.len() > 1 && text.starts_with('/') && std::fs::symlink_metadata(text).is_ok())
    }

    /// Resolves a text to the real path for the server.
    fn real_path(&mut self, text: &str) -> Result<String, PrepareError> {
        if self.context.workspace.is_none() {
            self.subjects.push(Subject::Text(text.to_owned()));
            return Ok(text.to_owned());
        }
        let outside = |why: &str| PrepareError::BadPath {
            path: text.chars().take(300).collect(),
            why: why.to_owned(),
        };
        if is_file_address(text) {
            let path = Url::parse(text)
                .ok()
                .and_then(|url| url.to_file_path().ok())
                .ok_or_else(|| outside("it is not the URL of a file on this machine"))?;
            let path = path.to_str().ok_or_else(|| outside("it is not UTF-8"))?;
            let real = self.locate(path)?;
            let url = Url::from_file_path(&real)
                .map_err(|()| outside("it cannot be expressed as a URL"))?;
            return Ok(url.to_string());
        }
        self.locate(text)
    }

    fn locate(&mut self, path: &str) -> Result<String, PrepareError> {
        let located = locate(self.context, path, self.access)?;
        let real = located.real.to_str().ok_or_else(|| PrepareError::BadPath {
            path: path.to_owned(),
            why: "its name is not UTF-8, which the server does not support".to_owned(),
        })?;
        self.subjects.push(located.subject);
        Ok(real.to_owned())
    }
}

fn is_file_address(text: &str) -> bool {
    text.get(..5)
        .is_some_and(|start| start.eq_ignore_ascii_case("file:"))
}

/// Converts `filePath` and `file-path` to `file_path`.
fn snake(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() && !snake.ends_with('_') {
            snake.push('_');
        }
        snake.push(if letter == '-' {
            '_'
        } else {
            letter.to_ascii_lowercase()
        });
    }
    snake
}

/// Converts real paths to sandbox paths.
pub(crate) struct PathRewriter {
    /// Directory and alias of each part of the sandbox, longest directory first.
    parts: Vec<(String, String)>,
    pub(crate) secrets: Secrets,
}

impl PathRewriter {
    /// Creates a rewriter for the sandbox of a call.
    pub(crate) fn new(context: PrepareContext<'_>) -> Self {
        let parts = context
            .workspace
            .map_or(&[][..], |workspace| workspace.parts());
        let has_one_part = parts.len() == 1;
        let mut parts: Vec<(String, String)> = parts
            .iter()
            .filter_map(|part| {
                let folder = part.root.path().to_str()?.trim_end_matches('/').to_owned();
                let alias = if has_one_part { "." } else { &part.alias };
                Some((folder, alias.to_owned()))
            })
            .collect();
        parts.sort_by_key(|(folder, _)| std::cmp::Reverse(folder.len()));
        Self {
            parts,
            secrets: Secrets::default(),
        }
    }

    /// Converts real paths in a text of the server to sandbox paths, and hides secrets of the definition.
    pub(crate) fn back(&self, text: &str) -> String {
        let mut text = self.secrets.hide(text);
        for (folder, alias) in &self.parts {
            if !text.contains(folder.as_str()) {
                continue;
            }
            let inside = if alias == "." {
                String::new()
            } else {
                format!("{alias}/")
            };
            text = text.replace(&format!("file://{folder}/"), &inside);
            text = text.replace(&format!("{folder}/"), &inside);
            text = whole_words(&text, folder, alias);
        }
        text
    }

    /// Rewrites every text of a JSON value.
    pub(crate) fn back_in(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.back(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.back_in(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.back_in(field)),
            _ => {}
        }
    }
}

/// Replaces a directory by its alias, but not where it is only the prefix of another name, such as `folder-2`.
fn whole_words(text: &str, folder: &str, alias: &str) -> String {
    let mut remaining = text;
    let mut replaced = String::with_capacity(text.len());
    while let Some(at) = remaining.find(folder) {
        let after = &remaining[at + folder.len()..];
        let continues = after
            .chars()
            .next()
            .is_some_and(|letter| letter.is_alphanumeric() || "-_.".contains(letter));
        replaced.push_str(&remaining[..at]);
        replaced.push_str(if continues { folder } else { alias });
        remaining = after;
    }
    replaced.push_str(remaining);
    replaced
}

#[cfg(test)]
mod tests {
    use super::{snake, whole_words};

    #[test]
    fn spellings_of_names_are_normalized() {
        for name in ["filePath", "file-path", "file_path", "FilePath"] {
            assert_eq!(snake(name), "file_path");
        }
    }

    #[test]
    fn folders_with_the_same_prefix_are_not_replaced() {
        let text = "in /a/b and /a/b-2, not \"/a/b\"";
        let replaced = whole_words(text, "/a/b", "part");
        assert_eq!(replaced, "in part and /a/b-2, not \"part\"");
    }
}
