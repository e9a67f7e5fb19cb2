//! Values that may be written as `${VARIABLE}`, and those that may be one text or several.

use std::fmt;

use cleveragents_domain::yaml::{Expand, Fault};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Spanned;

use crate::capability::Environment;
use crate::file_error::Complaint;

/// A value as written, with its place; its type is known once variables are in it.
pub type Late = Spanned<Value>;

/// The value that is meant.
pub fn resolve<T: DeserializeOwned>(
    late: Option<Late>,
    expand: &Expand<'_>,
    expected: &str,
) -> Result<Option<T>, Complaint> {
    let Some(mut late) = late else {
        return Ok(None);
    };
    expand.value(&mut late.value)?;
    let shown = match &late.value {
        Value::String(text) => format!("`{text}`"),
        other => format!("`{other}`"),
    };
    if let Ok(value) = serde_json::from_value(late.value.clone()) {
        return Ok(Some(value));
    }
    let message = format!("{shown} is not {expected}");
    Err(Complaint::rule(
        Fault::at(&late, message),
        format!("write {expected}"),
    ))
}

/// One text, or a list of them.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(
    dead_code,
    reason = "the two forms exist in the schema; both are read as a list"
)]
pub(super) enum TextsForm {
    One(String),
    Several(Vec<String>),
}

/// One text, or a list of them, as a list.
#[derive(Debug, Default)]
pub(super) struct Texts(pub(super) Vec<String>);

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Texts;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a text or a list of texts")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Texts, E> {
                Ok(Texts(vec![text.to_owned()]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Texts, A::Error> {
                let mut texts = Vec::new();
                while let Some(text) = items.next_element::<String>()? {
                    texts.push(text);
                }
                Ok(Texts(texts))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// Where a tool has to run: a word, or a map with one of three words.
#[derive(Debug, Default)]
pub(super) struct EnvironmentEntry(pub(super) Environment);

/// The map form.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EnvironmentMap {
    /// `container`: it runs in a container or not at all.
    required: Option<Container>,
    /// `container`: it runs in a container where there is one.
    preferred: Option<Container>,
    /// It runs in this container resource or not at all.
    specific: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Container {
    /// A container.
    Container,
}

/// The word form.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum EnvironmentWord {
    /// In a container or not at all.
    Required,
    /// In a container where there is one.
    Preferred,
    /// Wherever the sandbox is.
    None,
}

impl<'de> Deserialize<'de> for EnvironmentEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = EnvironmentEntry;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("`required`, `preferred`, `none`, or a map with `specific`")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<EnvironmentEntry, E> {
                let word = serde::de::value::StrDeserializer::<E>::new(text);
                Ok(EnvironmentEntry(
                    match EnvironmentWord::deserialize(word)? {
                        EnvironmentWord::Required => Environment::RequireContainer,
                        EnvironmentWord::Preferred => Environment::PreferContainer,
                        EnvironmentWord::None => Environment::Anywhere,
                    },
                ))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<EnvironmentEntry, A::Error> {
                let map = serde::de::value::MapAccessDeserializer::new(map);
                let map = EnvironmentMap::deserialize(map)?;
                Ok(EnvironmentEntry(
                    match (map.required, map.preferred, map.specific) {
                        (Some(Container::Container), None, None) => Environment::RequireContainer,
                        (None, Some(Container::Container), None) => Environment::PreferContainer,
                        (None, None, Some(name)) => Environment::Specific(name),
                        (None, None, None) => Environment::Anywhere,
                        _ => {
                            let message =
                                "only one of `required`, `preferred` and `specific` can hold";
                            return Err(serde::de::Error::custom(message));
                        }
                    },
                ))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// Both forms, for the schema.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "the two forms exist in the schema only")]
pub(super) enum EnvironmentForm {
    Word(EnvironmentWord),
    Map(EnvironmentMap),
}
