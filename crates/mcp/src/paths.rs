//! Arguments that name files: kept inside the sandbox on the way to a server, and named as the
//! sandbox names them on the way back.
//!
//! An argument names a file when its name says so, when its schema has the format `path`, when the
//! definition lists it, or when it is a `file:` address. Any other text that is the absolute path of
//! something that exists is looked at too. Servers over HTTP have no part in this machine's files: of
//! their arguments only those that the definition lists are looked at.

use cleveragents_tools::{Access, Grounds, Subject, Unprepared, locate};
use reqwest::Url;
use serde_json::{Map, Value};

use crate::definition::{ServerDefinition, Transport};
use crate::expand::Secrets;

/// Names of arguments that are files whatever they look like.
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
/// Ends of such names.
const ENDS: &[&str] = &[
    "_path",
    "_paths",
    "_file",
    "_files",
    "_dir",
    "_directory",
    "_folder",
];
/// Names that are files when their value looks like one.
const MAYBE: &[&str] = &[
    "source",
    "destination",
    "target",
    "from",
    "to",
    "input",
    "output",
];

/// What is looked for.
struct Search<'a> {
    definition: &'a ServerDefinition,
    access: Access,
    grounds: Grounds<'a>,
    subjects: Vec<Subject>,
}

/// Finds the arguments that name files, puts the places in the sandbox in, and tells them. What
/// leads out of the sandbox is refused. Without a sandbox arguments stay as they are.
pub(crate) fn find(
    definition: &ServerDefinition,
    schema: &Value,
    access: Access,
    arguments: &mut Map<String, Value>,
    grounds: Grounds<'_>,
) -> Result<Vec<Subject>, Unprepared> {
    let mut search = Search {
        definition,
        access,
        grounds,
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
    ) -> Result<(), Unprepared> {
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
    ) -> Result<(), Unprepared> {
        match value {
            Value::String(text) => {
                if self.is_file(name, text, schema) {
                    *text = self.place(text)?;
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
        if listed.iter().any(|one| one == name) {
            return true;
        }
        if self.definition.transport() != Transport::Stdio {
            return false;
        }
        let name = snake(name);
        let format = schema.and_then(|schema| schema.get("format"));
        NAMES.contains(&name.as_str())
            || ENDS.iter().any(|end| name.ends_with(end))
            || matches!(format.and_then(Value::as_str), Some("path" | "file-path"))
            || is_file_address(text)
            || (MAYBE.contains(&name.as_str()) && text.contains('/') && !text.contains("://"))
            || (text.len() > 1 && text.starts_with('/') && std::fs::symlink_metadata(text).is_ok())
    }

    /// The place that a text means, in the words of the server.
    fn place(&mut self, text: &str) -> Result<String, Unprepared> {
        if self.grounds.workspace.is_none() {
            self.subjects.push(Subject::Text(text.to_owned()));
            return Ok(text.to_owned());
        }
        let outside = |why: &str| Unprepared::Outside {
            path: text.chars().take(300).collect(),
            why: why.to_owned(),
        };
        if is_file_address(text) {
            let path = Url::parse(text)
                .ok()
                .and_then(|url| url.to_file_path().ok())
                .ok_or_else(|| outside("it is not the address of a file on this machine"))?;
            let path = path.to_str().ok_or_else(|| outside("it is not text"))?;
            let real = self.locate(path)?;
            let url = Url::from_file_path(&real).map_err(|()| outside("it has no address"))?;
            return Ok(url.to_string());
        }
        self.locate(text)
    }

    fn locate(&mut self, path: &str) -> Result<String, Unprepared> {
        let located = locate(self.grounds, path, self.access)?;
        let real = located.real.to_str().ok_or_else(|| Unprepared::Outside {
            path: path.to_owned(),
            why: "its name is not text, which this server cannot be told".to_owned(),
        })?;
        self.subjects.push(located.subject);
        Ok(real.to_owned())
    }
}

fn is_file_address(text: &str) -> bool {
    text.get(..5)
        .is_some_and(|start| start.eq_ignore_ascii_case("file:"))
}

/// `filePath` and `file-path` as `file_path`.
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

/// Names places as the sandbox names them.
pub(crate) struct Rewriter {
    /// The folder of each part, and what stands for it, the longest first.
    parts: Vec<(String, String)>,
    pub(crate) secrets: Secrets,
}

impl Rewriter {
    /// For the sandbox of a call.
    pub(crate) fn new(grounds: Grounds<'_>) -> Self {
        let parts = grounds
            .workspace
            .map_or(&[][..], |workspace| workspace.parts());
        let is_alone = parts.len() == 1;
        let mut parts: Vec<(String, String)> = parts
            .iter()
            .filter_map(|part| {
                let folder = part.root.path().to_str()?.trim_end_matches('/').to_owned();
                let alias = if is_alone { "." } else { &part.alias };
                Some((folder, alias.to_owned()))
            })
            .collect();
        parts.sort_by_key(|(folder, _)| std::cmp::Reverse(folder.len()));
        Self {
            parts,
            secrets: Secrets::default(),
        }
    }

    /// A text of a server with the sandbox's names in it, and without our secrets.
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

    /// The same in every text of a value.
    pub(crate) fn back_in(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.back(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.back_in(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.back_in(field)),
            _ => {}
        }
    }
}

/// Replaces a folder where its name ends there, and not that of its neighbour `folder-2`.
fn whole_words(text: &str, folder: &str, alias: &str) -> String {
    let mut rest = text;
    let mut done = String::with_capacity(text.len());
    while let Some(at) = rest.find(folder) {
        let after = &rest[at + folder.len()..];
        let goes_on = after
            .chars()
            .next()
            .is_some_and(|letter| letter.is_alphanumeric() || "-_.".contains(letter));
        done.push_str(&rest[..at]);
        done.push_str(if goes_on { folder } else { alias });
        rest = after;
    }
    done.push_str(rest);
    done
}

#[cfg(test)]
mod tests {
    use super::{snake, whole_words};

    #[test]
    fn names_in_all_spellings_are_the_same() {
        for name in ["filePath", "file-path", "file_path", "FilePath"] {
            assert_eq!(snake(name), "file_path");
        }
    }

    #[test]
    fn a_neighbour_of_a_folder_is_another_folder() {
        let text = "in /a/b and /a/b-2, not \"/a/b\"";
        let done = whole_words(text, "/a/b", "part");
        assert_eq!(done, "in part and /a/b-2, not \"part\"");
    }
}
