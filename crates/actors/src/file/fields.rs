//! [`Fields`]: the fields of one map of a file, read by the name that the tables give them.
//!
//! Opening a map refuses fields that are not in its [`Section`], so nothing that a person wrote is
//! passed over in silence.

use super::error::{Complaint, meant};
use super::section::{Field, Form, Section, Use};
use super::tree::{At, Pair, Place, Tree};

/// The fields of one map.
#[derive(Clone)]
pub(crate) struct Fields<'t> {
    /// Where the map stands.
    pub(crate) place: Place,
    entries: Vec<Entry<'t>>,
}

#[derive(Clone, Copy)]
struct Entry<'t> {
    field: &'static Field,
    name: &'t At<String>,
    value: &'t At<Tree>,
}

impl<'t> Fields<'t> {
    /// The fields of a map, all of which must be known. What stands beneath `config`, where the
    /// section has that field, counts as if it stood beside it.
    pub(crate) fn open(
        tree: &'t At<Tree>,
        section: &'static Section,
        warnings: &mut Vec<String>,
    ) -> Result<Self, Complaint> {
        let mut fields = Self {
            place: tree.place,
            entries: Vec::new(),
        };
        fields.add(tree, section, warnings)?;
        Ok(fields)
    }

    fn add(
        &mut self,
        tree: &'t At<Tree>,
        section: &'static Section,
        warnings: &mut Vec<String>,
    ) -> Result<(), Complaint> {
        for (name, value) in map(tree)? {
            let Some(field) = section.field(&name.value) else {
                let message = format!("there is no field `{}` in {}", name.value, section.title);
                let fix = meant(&name.value, section.names(), || {
                    let all: Vec<&str> = section.names().collect();
                    format!("it can be: {}", all.join(", "))
                });
                return Err(Complaint::malformed(name.place, message, fix));
            };
            match field.usage {
                Use::Read => {}
                Use::Nested => {
                    self.add(value, section, warnings)?;
                    continue;
                }
                Use::Refused(why, fix) => {
                    let message = format!("`{}` {why}", name.value);
                    return Err(Complaint::rule(name.place, message, fix));
                }
                Use::Ignored(why) => {
                    let Place { line, .. } = name.place;
                    warnings.push(format!("line {line}: `{}` {why}", name.value));
                    continue;
                }
            }
            if let Some(other) = self.entry(field.name) {
                let message = if other.name.value == name.value {
                    format!("the field `{}` stands here twice", name.value)
                } else {
                    format!(
                        "`{}` and `{}` are the same field",
                        other.name.value, name.value
                    )
                };
                return Err(Complaint::malformed(
                    name.place,
                    message,
                    "leave one of them out",
                ));
            }
            // `field:` with nothing behind it is as good as no field, unless nothing is a value there.
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

    /// The value of a field.
    pub(crate) fn get(&self, name: &str) -> Option<&'t At<Tree>> {
        self.entry(name).map(|entry| entry.value)
    }

    /// Where the name of a field stands; where the map stands when there is none.
    pub(crate) fn place_of(&self, name: &str) -> Place {
        self.entry(name)
            .map_or(self.place, |entry| entry.name.place)
    }

    /// The names that were written, each with its place.
    pub(crate) fn written(&self) -> impl Iterator<Item = (&'static str, &'t At<String>)> {
        self.entries
            .iter()
            .map(|entry| (entry.field.name, entry.name))
    }

    /// A field that must be there.
    pub(crate) fn needed(&self, name: &str, whose: &str) -> Result<&'t At<Tree>, Complaint> {
        self.get(name).ok_or_else(|| {
            let message = format!("the field `{name}` of {whose} is missing");
            Complaint::malformed(self.place, message, format!("add `{name}: …`"))
        })
    }

    /// A text. A number is one too: `version: 1.0`.
    pub(crate) fn text(&self, name: &str) -> Result<Option<At<String>>, Complaint> {
        self.get(name).map(text).transpose()
    }

    /// One text or a list of them.
    pub(crate) fn texts(&self, name: &str) -> Result<Vec<At<String>>, Complaint> {
        match self.get(name) {
            None => Ok(Vec::new()),
            Some(At {
                value: Tree::List(items),
                ..
            }) => items.iter().map(text).collect(),
            Some(one) => Ok(vec![text(one)?]),
        }
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<At<f64>>, Complaint> {
        self.get(name)
            .map(|tree| match &tree.value {
                Tree::Number(number) => number
                    .as_f64()
                    .map(|number| At::new(number, tree.place))
                    .ok_or_else(|| unexpected(tree, "a number", "write a number")),
                _ => Err(unexpected(tree, "a number", "write a number")),
            })
            .transpose()
    }

    /// A whole number from 0 up.
    pub(crate) fn count(&self, name: &str) -> Result<Option<At<u64>>, Complaint> {
        let expected = "a whole number, 0 or more";
        self.get(name)
            .map(|tree| match &tree.value {
                Tree::Number(number) => number
                    .as_u64()
                    .map(|number| At::new(number, tree.place))
                    .ok_or_else(|| {
                        let message = format!("{number} is not {expected}");
                        Complaint::rule(tree.place, message, format!("write {expected}"))
                    }),
                _ => Err(unexpected(tree, expected, "write a whole number")),
            })
            .transpose()
    }

    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, Complaint> {
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

    /// One of several words.
    pub(crate) fn word<T: Copy>(
        &self,
        name: &str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, Complaint> {
        let Some(written) = self.text(name)? else {
            return Ok(None);
        };
        let found = words.iter().find(|(word, _)| *word == written.value);
        if let Some((_, meaning)) = found {
            return Ok(Some(*meaning));
        }
        let message = format!("there is no `{name}` called `{}`", written.value);
        let fix = meant(&written.value, words.iter().map(|(word, _)| *word), || {
            let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            format!("it can be: {}", all.join(", "))
        });
        Err(Complaint::malformed(written.place, message, fix))
    }
}

/// A text.
pub(crate) fn text(tree: &At<Tree>) -> Result<At<String>, Complaint> {
    match &tree.value {
        Tree::Text(text) => Ok(At::new(text.clone(), tree.place)),
        Tree::Number(number) => Ok(At::new(number.to_string(), tree.place)),
        _ => Err(unexpected(tree, "a text", "write a single text")),
    }
}

/// The fields of a map.
pub(crate) fn map(tree: &At<Tree>) -> Result<&[Pair], Complaint> {
    match &tree.value {
        Tree::Map(fields) => Ok(fields),
        _ => Err(unexpected(
            tree,
            "a map",
            "write `field: value`, one a line",
        )),
    }
}

/// The items of a list.
pub(crate) fn list(tree: &At<Tree>) -> Result<&[At<Tree>], Complaint> {
    match &tree.value {
        Tree::List(items) => Ok(items),
        _ => Err(unexpected(tree, "a list", "write a list, such as `[a, b]`")),
    }
}

/// A value of another type than the field has.
pub(crate) fn unexpected(tree: &At<Tree>, expected: &str, fix: &str) -> Complaint {
    let found = match &tree.value {
        Tree::Text(text) if text.len() <= 40 && !text.contains('\n') => format!("`{text}`"),
        other => other.kind().to_owned(),
    };
    let message = format!("{expected} is expected here, not {found}");
    Complaint::malformed(tree.place, message, fix)
}
