//! [`Tree`]: a YAML file as it is written, every value and every field with its place.
//!
//! A file is parsed once, whatever its shape: 10,000 nodes are read in the time of one pass.

use std::fmt;

use cleveragents_domain::yaml::{self, Expand, Fault};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::Spanned;

use super::quick;

/// The largest file that is read.
pub(crate) const LARGEST: usize = 1024 * 1024;

/// What aliases may add to a file. One that multiplies itself is refused long before it fills memory.
const MOST_REPLAYED: usize = 50_000;

/// Line and column, from 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// Something with its place in the file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) place: Place,
}

impl<T> At<T> {
    pub(crate) const fn new(value: T, place: Place) -> Self {
        Self { value, place }
    }
}

/// A field of a map with its value.
pub(crate) type Pair = (At<String>, At<Tree>);

/// A value of the file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Tree {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<At<Self>>),
    Map(Vec<Pair>),
}

impl Tree {
    /// What it is, for complaints.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "a yes or no",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }

    /// How many values it is made of.
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

    /// The same without places.
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

    /// Puts the values of variables into every text. One that is nothing but a variable becomes the
    /// number or boolean that it holds.
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

/// Reads a file whole.
pub(crate) fn parse(text: &str) -> Result<At<Tree>, Fault> {
    if text.len() > LARGEST {
        let message = format!(
            "the file has {} bytes, and at most {LARGEST} are read",
            text.len()
        );
        return Err(
            Fault::new(message).fixed_by("divide it: other actors are named with `type: subgraph`")
        );
    }
    match quick::parse(text) {
        Some(tree) => Ok(tree),
        None => parse_general(text),
    }
}

/// Reads a file with all that YAML has, or tells what is wrong with it.
pub(super) fn parse_general(text: &str) -> Result<At<Tree>, Fault> {
    let options = serde_saphyr::options! {
        // `no`, `on` and the like are words here.
        strict_booleans: true,
        with_snippet: false,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MOST_REPLAYED },
    };
    let spanned: Spanned<Tree> = yaml::read_with(text, options).map_err(in_our_words)?;
    Ok(at(spanned))
}

/// What the parser says about aliases that are too much for it.
fn in_our_words(fault: Fault) -> Fault {
    if !fault.message.contains("alias replay limit") {
        return fault;
    }
    Fault {
        message: "aliases make the file too large".to_owned(),
        nearest: None,
        fix: Some("write it without so many aliases".to_owned()),
        ..fault
    }
}

fn at<T>(spanned: Spanned<T>) -> At<T> {
    let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let place = Place {
        line: small(spanned.referenced.line()),
        column: small(spanned.referenced.column()),
    };
    At::new(spanned.value, place)
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Anything)
    }
}

struct Anything;

impl<'de> Visitor<'de> for Anything {
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
            list.push(at(item));
        }
        Ok(Tree::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Tree, A::Error> {
        let mut map = Vec::new();
        while let Some(name) = fields.next_key::<Spanned<String>>()? {
            map.push((at(name), at(fields.next_value::<Spanned<Tree>>()?)));
        }
        Ok(Tree::Map(map))
    }
}
