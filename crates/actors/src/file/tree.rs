//! [`Tree`]: a parsed YAML file in which every value and every field has its position.
//!
//! A file of any shape is parsed in a single pass, so that even 10,000 nodes are read quickly.

use std::fmt;

use cleveragents_domain::yaml::{self, Expand, Fault};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;

use super::fast_parser;

/// Maximum size of a file, in bytes.
pub(crate) const MAX_FILE_SIZE: usize = 1024 * 1024;

/// Maximum number of events that aliases may add to a file. Without a limit, nested aliases could fill the memory.
const MAX_REPLAYED: usize = 50_000;

/// Line and column, from 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FilePosition {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// A value with its position in the file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WithPosition<T> {
    pub(crate) value: T,
    pub(crate) place: FilePosition,
}

impl<T> WithPosition<T> {
    pub(crate) const fn new(value: T, place: FilePosition) -> Self {
        Self { value, place }
    }
}

/// A field of a map with its value.
pub(crate) type MapField = (WithPosition<String>, WithPosition<Tree>);

/// A value of the file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Tree {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<WithPosition<Self>>),
    Map(Vec<MapField>),
}

impl Tree {
    /// Name of the type of the value, for error messages.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "a boolean",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }

    /// Number of values in the tree, including this one.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::List(items) => 1 + items.iter().map(|item| item.value.size()).sum::<usize>(),
            Self::Map(fields) => {
                1 + fields
                    .iter()
                    .map(|(_, value)| value.value.size())
                    .sum::<usize>()
            }
            _ => 1,
        }
    }

    /// Converts to JSON, without positions.
    pub(crate) fn json(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Number(value) => Value::Number(value.clone()),
            Self::Text(value) => Value::String(value.clone()),
            Self::List(items) => items.iter().map(|item| item.value.json()).collect(),
            Self::Map(fields) => Value::Object(
                fields
                    .iter()
                    .map(|(name, field)| (name.value.clone(), field.value.json()))
                    .collect::<Map<String, Value>>(),
            ),
        }
    }

    /// Replaces variables in every text. A text that consists only of a variable becomes the number or boolean that the
    /// variable contains.
    pub(crate) fn expand(&mut self, expand: &Expand<'_>) -> Result<(), Fault> {
        match self {
            Self::Text(text) if text.contains("${") => {
                let mut value = Value::String(std::mem::take(text));
                expand.value(&mut value)?;
                *self = match value {
                    Value::Bool(value) => Self::Bool(value),
                    Value::Number(value) => Self::Number(value),
                    Value::String(value) => Self::Text(value),
                    other => Self::Text(other.to_string()),
                };
                Ok(())
            }
            Self::List(items) => items
                .iter_mut()
                .try_for_each(|item| item.value.expand(expand)),
            Self::Map(fields) => fields
                .iter_mut()
                .try_for_each(|(_, field)| field.value.expand(expand)),
            _ => Ok(()),
        }
    }
}

/// Parses a complete file.
pub(crate) fn parse(text: &str) -> Result<WithPosition<Tree>, Fault> {
    if text.len() > MAX_FILE_SIZE {
        let message = format!(
            "the file has {} bytes; the maximum is {MAX_FILE_SIZE}",
            text.len()
        );
        return Err(
            Fault::new(message).fixed_by("split it: use other actors with `type: subgraph`")
        );
    }
    match fast_parser::parse(text) {
        Some(tree) => Ok(tree),
        None => parse_general(text),
    }
}

/// Parses a file with full YAML support, or returns the error.
pub(super) fn parse_general(text: &str) -> Result<WithPosition<Tree>, Fault> {
    let options = serde_saphyr::options! {
        // Words such as `no` and `on` are texts here.
        strict_booleans: true,
        with_snippet: false,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_REPLAYED },
    };
    let spanned: Spanned<Tree> = yaml::read_with(text, options).map_err(reword_alias_error)?;
    Ok(with_position(spanned))
}

/// Rewords the parser's error about excessive aliases.
fn reword_alias_error(fault: Fault) -> Fault {
    if !fault.message.contains("alias replay limit") {
        return fault;
    }
    Fault {
        message: "the file is too large after expanding aliases".to_owned(),
        nearest: None,
        fix: Some("use fewer aliases".into()),
        ..fault
    }
}

fn with_position<T>(spanned: Spanned<T>) -> WithPosition<T> {
    let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let place = FilePosition {
        line: small(spanned.referenced.line()),
        column: small(spanned.referenced.column()),
    };
    WithPosition::new(spanned.value, place)
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(Number::from_f64(value).map_or(Tree::Null, Tree::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Tree, E> {
        Ok(Tree::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element::<Spanned<Tree>>()? {
            list.push(with_position(item));
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Tree, A::Error> {
        let mut map = Vec::new();
        while let Some(name) = fields.next_key::<Spanned<String>>()? {
            map.push((
                with_position(name),
                with_position(fields.next_value::<Spanned<Tree>>()?),
            ));
        }
        Ok(Tree::Map(map))
    }
}
