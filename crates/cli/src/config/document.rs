//! Reads a configuration file: every key in it, validated against the registry, with its line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cleveragents_sandbox::{Links, read_regular};
use toml_edit::{Document, Item, TableLike, TomlError};

use super::error::Error;
use super::key::{self, Scope};
use super::resolve::Source;
use super::value::Value;

/// Owner of a configuration file, which decides the keys that the file may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The user; the file is in the home folder.
    User,
    Project,
}

/// The values of a file, each with its line.
#[derive(Debug, Default, Clone)]
pub(crate) struct LoadedFile {
    pub(crate) path: PathBuf,
    values: BTreeMap<&'static str, (Value, usize)>,
}

impl LoadedFile {
    /// Reads a file. A missing file sets no keys.
    pub(crate) fn read(path: &Path, owner: Owner) -> Result<Self, Error> {
        let links = match owner {
            Owner::User => Links::Follow,
            // A cloned repository must not make the program read other files.
            Owner::Project => Links::Refuse,
        };
        let Some(text) = text_of(path, links)? else {
            return Ok(Self {
                path: path.to_owned(),
                values: BTreeMap::new(),
            });
        };
        let document =
            Document::parse(text.as_str()).map_err(|error| malformed(path, &text, &error))?;
        let mut loaded = Self {
            path: path.to_owned(),
            values: BTreeMap::new(),
        };
        let mut reader = DocumentReader {
            path,
            text: &text,
            owner,
            loaded: &mut loaded,
        };
        reader.table(document.as_table(), "")?;
        Ok(loaded)
    }

    /// The value of a key in the file, and its location.
    pub(crate) fn get(&self, key: &str) -> Option<(Value, Source)> {
        let (value, line) = self.values.get(key)?;
        Some((
            value.clone(),
            Source::File {
                path: self.path.clone(),
                line: *line,
            },
        ))
    }
}

struct DocumentReader<'a> {
    path: &'a Path,
    text: &'a str,
    owner: Owner,
    loaded: &'a mut LoadedFile,
}

impl DocumentReader<'_> {
    /// Reads a table; `[a.b]`, `a.b = …` and `a = { b = … }` all name the same key.
    fn table(&mut self, table: &dyn TableLike, prefix: &str) -> Result<(), Error> {
        for (name, item) in table.iter() {
            let part = if name.contains('.') {
                format!("\"{name}\"")
            } else {
                name.to_owned()
            };
            let key = if prefix.is_empty() {
                part
            } else {
                format!("{prefix}.{part}")
            };
            if let Some(inner) = item.as_table_like() {
                self.table(inner, &key)?;
                continue;
            }
            let offset = table
                .key(name)
                .and_then(toml_edit::Key::span)
                .map_or(0, |span| span.start);
            self.leaf(&key, item, position(self.text, offset).0)?;
        }
        Ok(())
    }

    fn leaf(&mut self, name: &str, item: &Item, line: usize) -> Result<(), Error> {
        let source = Source::File {
            path: self.path.to_owned(),
            line,
        };
        let Some(key) = key::lookup(name) else {
            return Err(Error::UnknownKey {
                key: name.to_owned(),
                nearest: key::nearest(&name.replace('"', "")),
                origin: Some(source),
            });
        };
        if self.owner == Owner::Project && key.scope == Scope::Person {
            return Err(Error::NotProjectScoped {
                key: key.name,
                origin: Some(source),
            });
        }
        let value = match item.as_value() {
            Some(value) => key.read(value, Some(source))?,
            // An array of tables: no key accepts one.
            None => key.parse_from("[[…]]", Some(source))?,
        };
        self.loaded.values.insert(key.name, (value, line));
        Ok(())
    }
}

/// Maximum size of a configuration file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The text of a file; `None` when it does not exist, or when a parent in its path is a file instead of a folder. A
/// home folder with such a path is rejected only when a command creates it.
pub(crate) fn text_of(path: &Path, links: Links) -> Result<Option<String>, Error> {
    let read = read_regular(path, links, MAX_FILE_BYTES).map_err(Error::access("read", path))?;
    let Some(bytes) = read else { return Ok(None) };
    String::from_utf8(bytes).map(Some).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let before = String::from_utf8_lossy(&error.as_bytes()[..valid]).into_owned();
        let (line, column) = position(&before, before.len());
        Error::Malformed {
            path: path.to_owned(),
            line,
            column,
            reason: "it is not UTF-8 text".to_owned(),
        }
    })
}

/// The error for a text that is not TOML.
pub(crate) fn malformed(path: &Path, text: &str, error: &TomlError) -> Error {
    let (line, column) = position(text, error.span().map_or(0, |span| span.start));
    Error::Malformed {
        path: path.to_owned(),
        line,
        column,
        reason: error.message().trim().replace('\n', ", "),
    }
}

/// Line and column of a byte offset, both starting at 1.
pub(crate) fn position(text: &str, offset: usize) -> (usize, usize) {
    // The offset may be in the middle of a character.
    let before = &text[..text.floor_char_boundary(offset)];
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    (line, before[start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::{LoadedFile, Owner};
    use crate::config::{Error, Source, Value};
    use cleveragents_domain::Diagnose as _;
    use std::fs;

    fn load(text: impl AsRef<[u8]>, owner: Owner) -> Result<LoadedFile, Error> {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("config.toml");
        fs::write(&path, text).expect("file");
        LoadedFile::read(&path, owner)
    }

    #[test]
    fn every_spelling_of_a_key_is_read_with_its_line() {
        for text in [
            "# hello\n[core]\nformat = \"json\"\n",
            "\n\ncore.format = \"json\"",
            "\n\ncore = { format = \"json\" }",
        ] {
            let loaded = load(text, Owner::Project).expect("legal");
            let (value, source) = loaded.get("core.format").expect("set");
            assert_eq!(value, Value::Text("json".to_owned()));
            assert!(matches!(source, Source::File { line: 3, .. }), "{source}");
        }
    }

    #[test]
    fn a_missing_file_sets_nothing() {
        let loaded = LoadedFile::read("/nonexistent/config.toml".as_ref(), Owner::User);
        assert!(loaded.expect("no file").get("core.format").is_none());
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_line_and_the_nearest() {
        for text in ["[core]\nfromat = \"json\"", "\n\"core.format\" = \"json\""] {
            let error = load(text, Owner::User).expect_err("unknown");
            assert!(error.to_string().contains("config.toml:2"), "{error}");
            assert!(
                error
                    .hint()
                    .expect("hint")
                    .neutral()
                    .contains("core.format"),
                "{error}"
            );
        }
        assert!(matches!(
            load("format.x = 1", Owner::User),
            Err(Error::UnknownKey { .. })
        ));
    }

    #[test]
    fn a_project_that_sets_a_personal_key_is_refused() {
        let text = "core.database-url = \"postgres://evil/db\"";
        let error = load(text, Owner::Project).expect_err("redirected");
        assert!(matches!(
            error,
            Error::NotProjectScoped {
                key: "core.database-url",
                ..
            }
        ));
        assert!(error.to_string().contains("config.toml:1"), "{error}");
        assert!(load(text, Owner::User).is_ok());
    }

    #[test]
    fn an_error_names_a_value_of_the_wrong_type_or_size() {
        for text in [
            "store.connections = \"8\"",
            "store.connections = 65",
            "store.connections = -1",
            "store.connections = [8]",
            "core.format = 3",
            "[[core.format]]",
        ] {
            let error = load(text, Owner::User).expect_err(text);
            assert!(matches!(error, Error::InvalidValue { .. }), "{error}");
            assert!(error.to_string().contains("config.toml:1"), "{error}");
        }
    }

    #[test]
    fn an_error_locates_malformed_toml() {
        let error = load("[core]\nformat = = 3\n", Owner::User).expect_err("malformed");
        assert!(
            matches!(
                error,
                Error::Malformed {
                    line: 2,
                    column: 10,
                    ..
                }
            ),
            "{error:?}"
        );
        let error = load(b"[core]\nab\xff", Owner::User).expect_err("not text");
        assert!(
            matches!(
                error,
                Error::Malformed {
                    line: 2,
                    column: 3,
                    ..
                }
            ),
            "{error:?}"
        );
        let error = load("a.b = 1\na.b = 2\n", Owner::User).expect_err("twice");
        assert!(
            matches!(error, Error::Malformed { line: 2, .. }),
            "{error:?}"
        );
    }
}
