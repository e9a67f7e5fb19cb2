//! Reading a resource type from YAML.
//!
//! Several words for the same field are accepted, because descriptions of the format differ; a report
//! always uses one. `${VARIABLE}` and `${VARIABLE:default}` are replaced in texts.

use std::fmt;

use cleveragents_domain::yaml::{self, Expand, Fault, Variables};
use cleveragents_domain::{
    Activation, Argument, ArgumentType, AutoDiscovery, Capabilities, ChildType, ResourceKind,
    ResourceType, SandboxStrategy, TypeName,
};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor, value::MapAccessDeserializer};
use serde_json::Value;
use serde_saphyr::Spanned;

use super::error::ResourceError;

/// A type as written, and whether it says itself what kind it is.
pub(super) struct Written {
    pub(super) declared: ResourceType,
    pub(super) has_kind: bool,
    pub(super) has_user_addable: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wrapped {
    cleveragents: Option<Header>,
    resource_type: Definition,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    version: Option<Spanned<Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Definition {
    cleveragents: Option<Header>,
    name: Spanned<String>,
    description: Option<String>,
    #[serde(
        alias = "physical_or_virtual",
        alias = "classification",
        alias = "physical_virtual",
        alias = "resource_kind"
    )]
    kind: Option<ResourceKind>,
    user_addable: Option<bool>,
    #[serde(alias = "cli_arguments", alias = "arguments", default)]
    cli_args: Vec<ArgumentEntry>,
    #[serde(alias = "allowed_parent_types", default)]
    parent_types: Vec<TypeName>,
    #[serde(alias = "allowed_child_types", default)]
    child_types: Vec<ChildEntry>,
    auto_discovery: Option<DiscoveryEntry>,
    #[serde(default)]
    equivalence: Vec<String>,
    handler: Option<String>,
    #[serde(alias = "strategy")]
    sandbox_strategy: Option<SandboxStrategy>,
    sandbox: Option<SandboxEntry>,
    capabilities: Option<CapabilityEntry>,
    #[serde(alias = "extends")]
    inherits: Option<TypeName>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SandboxEntry {
    strategy: Option<SandboxStrategy>,
    checkpointable: Option<bool>,
    handler: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ArgumentEntry {
    #[serde(alias = "argument")]
    name: Spanned<String>,
    #[serde(rename = "type")]
    kind: Option<ArgumentType>,
    #[serde(default)]
    required: bool,
    #[serde(default)]
    description: String,
    default: Option<Value>,
    #[serde(alias = "pattern")]
    validation_pattern: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DiscoveryEntry {
    enabled: Option<bool>,
    #[serde(default)]
    scan_depth: u32,
    #[serde(default)]
    include_patterns: Vec<String>,
    #[serde(default)]
    exclude_patterns: Vec<String>,
    #[serde(default)]
    parent_types: Vec<TypeName>,
    #[serde(default)]
    scan_paths: Vec<String>,
    activation: Option<Activation>,
    detection: Option<DetectionEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DetectionEntry {
    #[serde(default)]
    scan_paths: Vec<String>,
    activation: Option<Activation>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four answers to four questions"
)]
struct CapabilityEntry {
    #[serde(alias = "readable", default)]
    read: bool,
    #[serde(alias = "writable", default)]
    write: bool,
    #[serde(alias = "sandboxable", default)]
    sandbox: bool,
    #[serde(alias = "checkpointable", default)]
    checkpoint: bool,
}

/// A child type: its name alone, or with whether it is looked for.
struct ChildEntry(ChildType);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LongChild {
    #[serde(rename = "type", alias = "name")]
    name: TypeName,
    #[serde(default)]
    auto_discover: bool,
}

impl<'de> Deserialize<'de> for ChildEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entry;
        impl<'de> Visitor<'de> for Entry {
            type Value = ChildEntry;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("the name of a type, or a map with `type` and `auto_discover`")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ChildEntry, E> {
                Ok(ChildEntry(ChildType {
                    name: text.parse().map_err(E::custom)?,
                    auto_discover: false,
                }))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ChildEntry, A::Error> {
                let long = LongChild::deserialize(MapAccessDeserializer::new(map))?;
                Ok(ChildEntry(ChildType {
                    name: long.name,
                    auto_discover: long.auto_discover,
                }))
            }
        }
        deserializer.deserialize_any(Entry)
    }
}

/// Reads a type. The kind is physical when the text does not say.
pub(super) fn read(text: &str, variables: Variables<'_>) -> Result<Written, ResourceError> {
    let probe: Value = yaml::read(text)?;
    let Some(top) = probe.as_object() else {
        return Err(ResourceError::malformed(
            "the file does not hold a map with `name` and the other fields of a type",
        ));
    };
    let (header, mut definition) = if top.contains_key("resource_type") {
        let wrapped: Wrapped = yaml::read(text)?;
        (wrapped.cleveragents, wrapped.resource_type)
    } else {
        let mut flat: Definition = yaml::read(text)?;
        (flat.cleveragents.take(), flat)
    };
    let header = header.as_ref().or(definition.cleveragents.as_ref());
    yaml::check_version(header.and_then(|header| header.version.as_ref()))?;
    definition.expand(&Expand { text, variables })?;
    definition.finish()
}

impl Definition {
    fn expand(&mut self, expand: &Expand<'_>) -> Result<(), ResourceError> {
        expand.text(&mut self.name.value)?;
        let detection = self.auto_discovery.as_mut();
        let texts = self
            .description
            .iter_mut()
            .chain(&mut self.handler)
            .chain(&mut self.equivalence)
            .chain(detection.into_iter().flat_map(|entry| {
                entry
                    .scan_paths
                    .iter_mut()
                    .chain(&mut entry.include_patterns)
                    .chain(&mut entry.exclude_patterns)
                    .chain(
                        entry
                            .detection
                            .iter_mut()
                            .flat_map(|entry| &mut entry.scan_paths),
                    )
            }));
        for text in texts {
            expand.text(text)?;
        }
        for argument in &mut self.cli_args {
            expand.text(&mut argument.name.value)?;
            expand.text(&mut argument.description)?;
            if let Some(Value::String(default)) = &mut argument.default {
                expand.text(default)?;
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Written, ResourceError> {
        let name: TypeName = self
            .name
            .value
            .parse()
            .map_err(|error: cleveragents_domain::NameError| at(&self.name, &error.to_string()))?;
        let sandbox = self.sandbox;
        let nested_strategy = sandbox.as_ref().and_then(|entry| entry.strategy);
        let checkpointable = sandbox.as_ref().and_then(|entry| entry.checkpointable);
        let strategy = self.sandbox_strategy.or(nested_strategy);
        let mut capabilities = self.capabilities.map(|entry| Capabilities {
            read: entry.read,
            write: entry.write,
            sandbox: entry.sandbox,
            checkpoint: entry.checkpoint,
        });
        if let Some(checkpoint) = checkpointable {
            let able = capabilities.get_or_insert_default();
            able.checkpoint = checkpoint;
            able.sandbox |= checkpoint;
        }
        let kind = self.kind.unwrap_or(ResourceKind::Physical);
        let declared = ResourceType {
            description: self.description.unwrap_or_default(),
            kind,
            user_addable: self.user_addable.unwrap_or(kind == ResourceKind::Physical),
            arguments: self
                .cli_args
                .into_iter()
                .map(ArgumentEntry::finish)
                .collect::<Result<_, _>>()?,
            parent_types: self.parent_types,
            child_types: self.child_types.into_iter().map(|entry| entry.0).collect(),
            auto_discovery: self.auto_discovery.map(DiscoveryEntry::finish),
            equivalence: self.equivalence,
            handler: self
                .handler
                .or_else(|| sandbox.and_then(|entry| entry.handler)),
            sandbox_strategy: strategy,
            capabilities,
            inherits: self.inherits,
            name,
        };
        Ok(Written {
            declared,
            has_kind: self.kind.is_some(),
            has_user_addable: self.user_addable.is_some(),
        })
    }
}

impl ArgumentEntry {
    fn finish(self) -> Result<Argument, ResourceError> {
        if let Some(pattern) = &self.validation_pattern {
            super::arguments::whole_pattern(&pattern.value)
                .map_err(|problem| at(pattern, &problem))?;
        }
        let default = match self.default {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => Some(value.to_string()),
            Some(_) => return Err(at(&self.name, "the default is not a single value")),
        };
        let argument = Argument {
            name: self.name.value.trim_start_matches("--").to_owned(),
            kind: self.kind.unwrap_or(ArgumentType::String),
            required: self.required,
            description: self.description,
            default,
            validation_pattern: self.validation_pattern.map(|pattern| pattern.value),
        };
        if let Some(default) = &argument.default {
            super::arguments::check_default(&argument, default)
                .map_err(|problem| at(&self.name, &format!("its default {problem}")))?;
        }
        Ok(argument)
    }
}

impl DiscoveryEntry {
    fn finish(self) -> AutoDiscovery {
        let detection = self.detection;
        let activation = detection.as_ref().and_then(|entry| entry.activation);
        let mut scan_paths = self.scan_paths;
        scan_paths.extend(detection.into_iter().flat_map(|entry| entry.scan_paths));
        AutoDiscovery {
            enabled: self.enabled.unwrap_or(true),
            scan_depth: self.scan_depth,
            include_patterns: self.include_patterns,
            exclude_patterns: self.exclude_patterns,
            parent_types: self.parent_types,
            scan_paths,
            activation: self.activation.or(activation).unwrap_or_default(),
        }
    }
}

/// Something wrong at a place in the text.
fn at<T>(place: &Spanned<T>, message: &str) -> ResourceError {
    Fault::at(place, message).into()
}

#[cfg(test)]
#[path = "yaml/tests.rs"]
mod tests;
