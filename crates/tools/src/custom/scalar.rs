//! Values that may be a `${VARIABLE}`, values that may be one text or a list, and the execution environment.

use std::fmt;

use cleveragents_domain::DefinitionFault;
use cleveragents_domain::yaml::{Expand, Fault};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Spanned;

use crate::capability::Environment;

/// A value as written, with its position; its type is checked after variables are replaced.
pub type UnresolvedValue = Spanned<Value>;

/// Replaces variables and converts the value to its type.
pub fn resolve<T: DeserializeOwned>(
    unresolved: Option<UnresolvedValue>,
    expand: &Expand<'_>,
    expected: &str,
) -> Result<Option<T>, DefinitionFault> {
    let Some(mut unresolved) = unresolved else {
        return Ok(None);
    };
    expand.value(&mut unresolved.value)?;
    let shown = match &unresolved.value {
        Value::String(text) => format!("`{text}`"),
        other => format!("`{other}`"),
    };
    if let Ok(value) = serde_json::from_value(unresolved.value.clone()) {
        return Ok(Some(value));
    }
    let message = format!("{shown} is not {expected}");
    Err(DefinitionFault::rule(
        Fault::at(&unresolved, message),
        format!("write {expected}"),
    ))
}

/// One text or a list of texts.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(
    dead_code,
    reason = "the two forms exist in the schema; both are parsed into a list"
)]
pub(super) enum TextsForm {
    One(String),
    Several(Vec<String>),
}

/// One text or a list of texts, parsed into a list.
#[derive(Debug, Default)]
pub(super) struct Texts(pub(super) Vec<String>);

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextsVisitor;
        impl<'de> Visitor<'de> for TextsVisitor {
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
        deserializer.deserialize_any(TextsVisitor)
    }
}

/// Required execution environment: a word, or a map with one of three keys.
#[derive(Debug, Default)]
pub(super) struct EnvironmentEntry(pub(super) Environment);

/// Execution environment in the form of a map, such as `required: container`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EnvironmentMap {
    /// `container`: the tool requires a container.
    required: Option<Container>,
    /// `container`: the tool runs in a container if one is available.
    preferred: Option<Container>,
    /// The tool requires this container resource.
    specific: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Container {
    Container,
}

/// Execution environment in the form of a word.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum EnvironmentWord {
    /// The tool requires a container.
    Required,
    /// The tool runs in a container if one is available.
    Preferred,
    /// The tool runs in the environment of the sandbox.
    None,
}

impl<'de> Deserialize<'de> for EnvironmentEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EnvironmentVisitor;
        impl<'de> Visitor<'de> for EnvironmentVisitor {
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
                                "only one of `required`, `preferred` and `specific` can be set";
                            return Err(serde::de::Error::custom(message));
                        }
                    },
                ))
            }
        }
        deserializer.deserialize_any(EnvironmentVisitor)
    }
}

/// The two forms of an execution environment, for the JSON schema.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "used only to generate the schema")]
pub(super) enum EnvironmentForm {
    Word(EnvironmentWord),
    Map(EnvironmentMap),
}
