//! Changes a configuration file and preserves its comments and order.
//!
//! Several keys are set atomically, and concurrent processes that set different keys do not
//! overwrite each other's changes.

use std::fs;
use std::path::{Path, PathBuf};

use toml_edit::{Document, DocumentMut, Item, Table, TableLike};

use super::atomic;
use super::document::{Owner, malformed, position};
use super::error::Error;
use super::home::Home;
use super::key::{self, Key, Scope};
use super::resolve::Source;
use super::value::Value;

/// A configuration file, which need not exist.
#[derive(Debug, Clone)]
pub struct ConfigFile {
    path: PathBuf,
    owner: Owner,
    home: Option<Home>,
}

/// A change of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub key: &'static Key,
    /// The previous value; `None` if the key was not set or its value was invalid.
    pub before: Option<Value>,
    /// The new value; `None` if the key was removed.
    pub after: Option<Value>,
}

impl ConfigFile {
    /// The configuration file in the home folder, which is created when a value is first set.
    pub fn of_home(home: &Home) -> Self {
        Self {
            path: home.config_file(),
            owner: Owner::User,
            home: Some(home.clone()),
        }
    }

    /// The configuration file of a project; its folder is created when a value is first set.
    pub fn of_project(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            owner: Owner::Project,
            home: None,
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sets keys to values given as text: all of them, or none when any is invalid.
    pub fn set(&self, pairs: &[(&str, &str)]) -> Result<Vec<Change>, Error> {
        self.exchange(pairs, &[])
    }

    /// Sets keys and removes others, atomically.
    pub fn exchange(
        &self,
        pairs: &[(&str, &str)],
        removed_keys: &[&str],
    ) -> Result<Vec<Change>, Error> {
        let removed_keys: Vec<&'static Key> = removed_keys
            .iter()
            .map(|name| self.key(name))
            .collect::<Result<_, Error>>()?;
        let changes: Vec<(&'static Key, Value)> = pairs
            .iter()
            .map(|(name, text)| {
                let key = self.key(name)?;
                Ok((key, key.parse(text)?))
            })
            .collect::<Result<_, Error>>()?;
        self.make_folder()?;
        self.edit(|document, text| {
            let mut applied: Vec<Change> = removed_keys
                .iter()
                .map(|key| remove_key(document, key))
                .collect();
            for (key, value) in changes {
                let before = insert(document, key.name, value_of(&value))
                    .map_err(|part| self.not_a_table(text, &part, key))?;
                let before = before.and_then(|old| key.read(&old, None).ok());
                applied.push(Change {
                    key,
                    before,
                    after: Some(value),
                });
            }
            Ok(applied)
        })
    }

    /// Removes keys: all of them, or none when any is invalid. Removing an unset key is not an
    /// error.
    pub fn unset(&self, names: &[&str]) -> Result<Vec<Change>, Error> {
        let keys: Vec<&'static Key> = names
            .iter()
            .map(|name| self.key(name))
            .collect::<Result<_, Error>>()?;
        let remove = |document: &mut DocumentMut, _: &str| {
            Ok(keys.iter().map(|key| remove_key(document, key)).collect())
        };
        if self.path.parent().is_some_and(Path::exists) {
            self.edit(remove)
        } else {
            remove(&mut DocumentMut::new(), "")
        }
    }

    /// The key with this name, if this file may contain it.
    fn key(&self, name: &str) -> Result<&'static Key, Error> {
        let key = key::find(name)?;
        if self.owner == Owner::Project && key.scope == Scope::Person {
            return Err(Error::NotProjectScoped {
                key: key.name,
                origin: None,
            });
        }
        Ok(key)
    }

    fn make_folder(&self) -> Result<(), Error> {
        match (&self.home, self.path.parent()) {
            (Some(home), _) => home.create(),
            (None, Some(folder)) => {
                fs::create_dir_all(folder).map_err(Error::access("make", folder))
            }
            (None, None) => Ok(()),
        }
    }

    fn edit<T>(
        &self,
        change: impl FnOnce(&mut DocumentMut, &str) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.owner == Owner::Project && self.path.is_symlink() {
            let cause = std::io::Error::other("it is a symbolic link");
            return Err(Error::access("write", &self.path)(cause));
        }
        atomic::update(&self.path, |text| {
            let old = text.unwrap_or_default();
            let mut document: DocumentMut = old
                .parse()
                .map_err(|error| malformed(&self.path, old, &error))?;
            let result = change(&mut document, old)?;
            let new = document.to_string();
            // An empty file is not created.
            Ok((result, (text.is_some() || !new.is_empty()).then_some(new)))
        })
    }

    /// Error for a part of a dotted key that holds a value instead of a table.
    fn not_a_table(&self, text: &str, part: &str, key: &'static Key) -> Error {
        let line = Document::parse(text)
            .ok()
            .and_then(|document| document.as_table().key(part)?.span())
            .map_or(1, |span| position(text, span.start).0);
        Error::UnknownKey {
            key: part.to_owned(),
            nearest: Some(key.name),
            origin: Some(Source::File {
                path: self.path.clone(),
                line,
            }),
        }
    }
}

/// Removes a key and returns its value.
fn remove_key(document: &mut DocumentMut, key: &'static Key) -> Change {
    let removed = remove(document.as_table_mut(), key.name);
    let before = removed
        .and_then(|item| item.into_value().ok())
        .and_then(|old| key.read(&old, None).ok());
    Change {
        key,
        before,
        after: None,
    }
}

fn value_of(value: &Value) -> toml_edit::Value {
    match value {
        Value::Text(text) => text.as_str().into(),
        Value::Flag(flag) => (*flag).into(),
        Value::Integer(number) => i64::try_from(*number).unwrap_or(i64::MAX).into(),
    }
}

/// Sets the value at a dotted name and returns the previous value. Comments around the value stay.
/// The error is the name of an outer part that is not a table.
fn insert(
    document: &mut DocumentMut,
    name: &str,
    mut value: toml_edit::Value,
) -> Result<Option<toml_edit::Value>, String> {
    let (outer, last) = name.rsplit_once('.').unwrap_or(("", name));
    let mut table: &mut dyn TableLike = document.as_table_mut();
    for part in outer.split('.').filter(|part| !part.is_empty()) {
        let item = table.entry(part).or_insert_with(|| {
            let mut table = Table::new();
            table.set_implicit(false);
            Item::Table(table)
        });
        table = item.as_table_like_mut().ok_or_else(|| part.to_owned())?;
    }
    if let Some(old) = table.get_mut(last).and_then(Item::as_value_mut) {
        value.decor_mut().clone_from(old.decor());
        return Ok(Some(std::mem::replace(old, value)));
    }
    table.insert(last, Item::Value(value));
    Ok(None)
}

/// Removes the item at a dotted name.
fn remove(root: &mut dyn TableLike, name: &str) -> Option<Item> {
    match name.split_once('.') {
        Some((part, rest)) => remove(root.get_mut(part)?.as_table_like_mut()?, rest),
        None => root.remove(name),
    }
}

#[cfg(test)]
mod tests;
