//! [`Fields`]: the fields of one map of a file, looked up by their primary names (`tables.rs`).
//!
//! Opening a map refuses fields that are not in its [`Section`], so that nothing a user wrote is
//! silently ignored.

use super::error::{broken_rule, did_you_mean, malformed};
use super::section::{Field, FieldUse, Form, Section};
use super::tree::{FilePosition, MapField, Tree, WithPosition};
use cleveragents_domain::DefinitionFault;

/// The fields of one map.
#[derive(Clone)]
pub(crate) struct Fields<'t> {
    /// Position of the map.
    pub(crate) place: FilePosition,
    entries: Vec<Entry<'t>>,
}

#[derive(Clone, Copy)]
struct Entry<'t> {
    field: &'static Field,
    name: &'t WithPosition<String>,
    value: &'t WithPosition<Tree>,
}

impl<'t> Fields<'t> {
    /// Opens a map and refuses unknown fields. If the section has the field `config`, the fields
    /// below `config` count as fields of the map itself.
    pub(crate) fn open(
        tree: &'t WithPosition<Tree>,
        section: &'static Section,
        warnings: &mut Vec<String>,
    ) -> Result<Self, DefinitionFault> {
        let mut fields = Self {
            place: tree.place,
            entries: Vec::new(),
        };
        fields.add(tree, section, warnings)?;
        Ok(fields)
    }

    fn add(
        &mut self,
        tree: &'t WithPosition<Tree>,
        section: &'static Section,
        warnings: &mut Vec<String>,
    ) -> Result<(), DefinitionFault> {
        for (name, value) in map(tree)? {
            let Some(field) = section.field(&name.value) else {
                let message = format!("unknown field `{}` in {}", name.value, section.title);
                let fix = did_you_mean(&name.value, section.names(), || {
                    let all: Vec<&str> = section.names().collect();
                    format!("use one of {}", all.join(", "))
                });
                return Err(malformed(name.place, message, fix));
            };
            match field.usage {
                FieldUse::Read => {}
                FieldUse::Nested => {
                    self.add(value, section, warnings)?;
                    continue;
                }
                FieldUse::Refused(why, fix) => {
                    let message = format!("`{}` {why}", name.value);
                    return Err(broken_rule(name.place, message, fix));
                }
                FieldUse::Ignored(why) => {
                    let FilePosition { line, .. } = name.place;
                    warnings.push(format!("line {line}: `{}` {why}", name.value));
                    continue;
                }
            }
            if let Some(other) = self.entry(field.name) {
                let message = if other.name.value == name.value {
                    format!("the field `{}` occurs twice", name.value)
                } else {
                    format!(
                        "`{}` and `{}` are the same field",
                        other.name.value, name.value
                    )
                };
                return Err(malformed(name.place, message, "remove one of them"));
            }
            // `field:` without a value counts as missing, unless null is a valid value of the field.
            if value.value != Tree::Null || matches!(field.form, Form::Any) {
                self.entries.push(Entry { field, name, value });
            }
        }
        Ok(())
    }

    fn entry(&self, name: &str) -> Option<Entry<'t>> {
        let entry = self.entries.iter().find(|entry| entry.field.name == name);
        entry.copied()
    }

    /// Value of a field.
    pub(crate) fn get(&self, name: &str) -> Option<&'t WithPosition<Tree>> {
        self.entry(name).map(|entry| entry.value)
    }

    /// Position of a field's name; position of the map when the field is missing.
    pub(crate) fn place_of(&self, name: &str) -> FilePosition {
        self.entry(name)
            .map_or(self.place, |entry| entry.name.place)
    }

    /// The fields that the file contains: the primary name of each, and its name in the file, which may be an
    /// alias, with its position.
    pub(crate) fn written(&self) -> impl Iterator<Item = (&'static str, &'t WithPosition<String>)> {
        self.entries
            .iter()
            .map(|entry| (entry.field.name, entry.name))
    }

    /// Value of a required field. `owner` names the map in the error message.
    pub(crate) fn needed(
        &self,
        name: &str,
        owner: &str,
    ) -> Result<&'t WithPosition<Tree>, DefinitionFault> {
        self.get(name).ok_or_else(|| {
            let message = format!("the field `{name}` of {owner} is missing");
            malformed(self.place, message, format!("add `{name}: …`"))
        })
    }

    /// Value of a text field. A number is accepted as a text: `version: 1.0`.
    pub(crate) fn text(&self, name: &str) -> Result<Option<WithPosition<String>>, DefinitionFault> {
        self.get(name).map(text).transpose()
    }

    /// Values of a field that contains one text or a list of texts.
    pub(crate) fn texts(&self, name: &str) -> Result<Vec<WithPosition<String>>, DefinitionFault> {
        match self.get(name) {
            None => Ok(Vec::new()),
            Some(WithPosition {
                value: Tree::List(items),
                ..
            }) => items.iter().map(text).collect(),
            Some(single) => Ok(vec![text(single)?]),
        }
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<WithPosition<f64>>, DefinitionFault> {
        self.get(name)
            .map(|tree| match &tree.value {
                Tree::Number(number) => number
                    .as_f64()
                    .map(|number| WithPosition::new(number, tree.place))
                    .ok_or_else(|| unexpected(tree, "a number", "write a number")),
                _ => Err(unexpected(tree, "a number", "write a number")),
            })
            .transpose()
    }

    /// Value of an integer field, which must be at least 0.
    pub(crate) fn count(&self, name: &str) -> Result<Option<WithPosition<u64>>, DefinitionFault> {
        let expected = "an integer of at least 0";
        self.get(name)
            .map(|tree| match &tree.value {
                Tree::Number(number) => number
                    .as_u64()
                    .map(|number| WithPosition::new(number, tree.place))
                    .ok_or_else(|| {
                        let message = format!("{number} is not {expected}");
                        broken_rule(tree.place, message, format!("write {expected}"))
                    }),
                _ => Err(unexpected(tree, expected, "write an integer")),
            })
            .transpose()
    }

    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, DefinitionFault> {
        self.get(name)
            .map(|tree| match tree.value {
                Tree::Bool(value) => Ok(value),
                _ => Err(unexpected(
                    tree,
                    "`true` or `false`",
                    "write `true` or `false`",
                )),
            })
            .transpose()
    }

    /// Value of a field that must contain one of several words.
    pub(crate) fn word<T: Copy>(
        &self,
        name: &str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, DefinitionFault> {
        let Some(written) = self.text(name)? else {
            return Ok(None);
        };
        let found = words.iter().find(|(word, _)| *word == written.value);
        if let Some((_, meaning)) = found {
            return Ok(Some(*meaning));
        }
        let message = format!("`{}` is not a valid `{name}`", written.value);
        let fix = did_you_mean(&written.value, words.iter().map(|(word, _)| *word), || {
            let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            format!("use one of {}", all.join(", "))
        });
        Err(malformed(written.place, message, fix))
    }
}

pub(crate) fn text(tree: &WithPosition<Tree>) -> Result<WithPosition<String>, DefinitionFault> {
    match &tree.value {
        Tree::Text(text) => Ok(WithPosition::new(text.clone(), tree.place)),
        Tree::Number(number) => Ok(WithPosition::new(number.to_string(), tree.place)),
        _ => Err(unexpected(tree, "a text", "write a single text")),
    }
}

pub(crate) fn map(tree: &WithPosition<Tree>) -> Result<&[MapField], DefinitionFault> {
    match &tree.value {
        Tree::Map(fields) => Ok(fields),
        _ => Err(unexpected(
            tree,
            "a map",
            "write one `field: value` per line",
        )),
    }
}

/// The items of a list.
pub(crate) fn list(tree: &WithPosition<Tree>) -> Result<&[WithPosition<Tree>], DefinitionFault> {
    match &tree.value {
        Tree::List(items) => Ok(items),
        _ => Err(unexpected(tree, "a list", "write a list, such as `[a, b]`")),
    }
}

/// Error for a value of the wrong type.
pub(crate) fn unexpected(tree: &WithPosition<Tree>, expected: &str, fix: &str) -> DefinitionFault {
    let found = match &tree.value {
        Tree::Text(text) if text.len() <= 40 && !text.contains('\n') => format!("`{text}`"),
        other => other.kind().to_owned(),
    };
    let message = format!("expected {expected}, found {found}");
    malformed(tree.place, message, fix)
}
