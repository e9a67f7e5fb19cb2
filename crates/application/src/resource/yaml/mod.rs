//! Parses a resource type from YAML.
//!
//! Some fields have several accepted names, because published descriptions of the format differ; output always uses the
//! same name. `${VARIABLE}` and `${VARIABLE:default}` are replaced in texts.

use std::fmt;

use cleveragents_domain::yaml::{self, Expand, Fault, Variables};
use cleveragents_domain::{
    Activation, Argument, ArgumentType, AutoDiscovery, Capabilities, ChildType, ResourceKind,
    ResourceType, SandboxStrategy, TypeName,
};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor, value::MapAccessDeserializer};
use serde_json::{Value, json};
use serde_saphyr::Spanned;

use super::error::ResourceError;

/// A parsed type, and flags for fields that the text itself specifies.
pub(super) struct ParsedType {
    pub(super) declared: ResourceType,
    pub(super) has_kind: bool,
    pub(super) has_user_addable: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TypeFile {
    cleveragents: Option<Header>,
    resource_type: Definition,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Header {
    /// Version of the format: 3.0.
    #[schemars(with = "Option<Value>")]
    version: Option<Spanned<Value>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = definition_aliases)]
struct Definition {
    cleveragents: Option<Header>,
    /// Name of the type: `namespace/name`, in lower case.
    #[schemars(with = "String")]
    name: Spanned<String>,
    /// Description, one sentence.
    description: Option<String>,
    /// `physical` (default) or `virtual`.
    #[serde(
        alias = "physical_or_virtual",
        alias = "classification",
        alias = "physical_virtual",
        alias = "resource_kind"
    )]
    #[schemars(with = "Option<KindForm>")]
    kind: Option<ResourceKind>,
    /// Whether users can register such resources themselves.
    user_addable: Option<bool>,
    /// Arguments of `resource add` for this type.
    #[serde(alias = "cli_arguments", alias = "arguments", default)]
    cli_args: Vec<ArgumentEntry>,
    #[serde(alias = "allowed_parent_types", default)]
    #[schemars(with = "Vec<String>")]
    parent_types: Vec<TypeName>,
    /// Types of resources that may be children of such a resource.
    #[serde(alias = "allowed_child_types", default)]
    #[schemars(with = "Vec<ChildForm>")]
    child_types: Vec<ChildEntry>,
    /// Discovery of resources of this type.
    auto_discovery: Option<DiscoveryEntry>,
    #[serde(default)]
    equivalence: Vec<String>,
    handler: Option<String>,
    #[serde(alias = "strategy")]
    #[schemars(with = "Option<String>")]
    sandbox_strategy: Option<SandboxStrategy>,
    sandbox: Option<SandboxEntry>,
    capabilities: Option<CapabilityEntry>,
    #[serde(alias = "extends")]
    #[schemars(with = "Option<String>")]
    inherits: Option<TypeName>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SandboxEntry {
    #[schemars(with = "Option<String>")]
    strategy: Option<SandboxStrategy>,
    checkpointable: Option<bool>,
    handler: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = argument_aliases)]
struct ArgumentEntry {
    /// The flag, with or without its dashes.
    #[serde(alias = "argument")]
    #[schemars(with = "String")]
    name: Spanned<String>,
    #[serde(rename = "type")]
    #[schemars(with = "Option<ArgumentForm>")]
    kind: Option<ArgumentType>,
    #[serde(default)]
    required: bool,
    #[serde(default)]
    description: String,
    default: Option<Value>,
    #[serde(alias = "pattern")]
    #[schemars(with = "Option<String>")]
    validation_pattern: Option<Spanned<String>>,
}

#[derive(Deserialize, JsonSchema)]
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
    #[schemars(with = "Vec<String>")]
    parent_types: Vec<TypeName>,
    #[serde(default)]
    scan_paths: Vec<String>,
    #[schemars(with = "Option<String>")]
    activation: Option<Activation>,
    detection: Option<DetectionEntry>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DetectionEntry {
    #[serde(default)]
    scan_paths: Vec<String>,
    #[schemars(with = "Option<String>")]
    activation: Option<Activation>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = capability_aliases)]
#[expect(clippy::struct_excessive_bools, reason = "four independent flags")]
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

/// The kinds of types, declared only to generate the schema.
#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[expect(
    dead_code,
    reason = "the names exist in the schema only; the domain type parses them"
)]
enum KindForm {
    Physical,
    Virtual,
}

/// The types of arguments, declared only to generate the schema.
#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[expect(
    dead_code,
    reason = "the names exist in the schema only; the domain type parses them"
)]
enum ArgumentForm {
    String,
    Path,
    Integer,
    Boolean,
    Url,
}

/// The two forms of a child type, declared only to generate the schema.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(
    dead_code,
    reason = "the forms exist in the schema only; `ChildEntry` parses both"
)]
enum ChildForm {
    Short(String),
    Long(LongChild),
}

fn aliases(schema: &mut Schema, aliases: &[(&str, &[&str])]) {
    if let Some(schema) = schema.as_object_mut() {
        yaml::add_aliases(schema, aliases);
    }
}

fn definition_aliases(schema: &mut Schema) {
    let kinds: &[&str] = &[
        "physical_or_virtual",
        "classification",
        "physical_virtual",
        "resource_kind",
    ];
    aliases(
        schema,
        &[
            ("kind", kinds),
            ("cli_args", &["cli_arguments", "arguments"]),
            ("parent_types", &["allowed_parent_types"]),
            ("child_types", &["allowed_child_types"]),
            ("sandbox_strategy", &["strategy"]),
            ("inherits", &["extends"]),
        ],
    );
}

fn argument_aliases(schema: &mut Schema) {
    let names: [(&str, &[&str]); 2] = [
        ("name", &["argument"]),
        ("validation_pattern", &["pattern"]),
    ];
    aliases(schema, &names);
}

fn capability_aliases(schema: &mut Schema) {
    aliases(
        schema,
        &[
            ("read", &["readable"]),
            ("write", &["writable"]),
            ("sandbox", &["sandboxable"]),
            ("checkpoint", &["checkpointable"]),
        ],
    );
}

fn child_aliases(schema: &mut Schema) {
    aliases(schema, &[("type", &["name"])]);
}

/// The JSON schema of the file of a resource type, with or without its wrapper, for editors.
pub fn resource_type_schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let wrapped = generator.subschema_for::<TypeFile>();
    let plain = generator.subschema_for::<Definition>();
    let definitions = generator.take_definitions(true);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "a resource type of CleverAgents",
        "anyOf": [wrapped, plain],
        "$defs": definitions,
    })
}

/// A child type, written as a name or as a map.
struct ChildEntry(ChildType);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = child_aliases)]
struct LongChild {
    #[serde(rename = "type", alias = "name")]
    #[schemars(with = "String")]
    name: TypeName,
    #[serde(default)]
    auto_discover: bool,
}

impl<'de> Deserialize<'de> for ChildEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ChildEntryVisitor;
        impl<'de> Visitor<'de> for ChildEntryVisitor {
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
        deserializer.deserialize_any(ChildEntryVisitor)
    }
}

/// Parses a type. The kind is physical by default.
pub(super) fn read(text: &str, variables: Variables<'_>) -> Result<ParsedType, ResourceError> {
    let probe: Value = yaml::read(text)?;
    let Some(top) = probe.as_object() else {
        return Err(ResourceError::malformed(
            "the file is not a map with `name` and the other fields of a type",
        ));
    };
    let (header, mut definition) = if top.contains_key("resource_type") {
        let wrapped: TypeFile = yaml::read(text)?;
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

    fn finish(self) -> Result<ParsedType, ResourceError> {
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
            let flags = capabilities.get_or_insert_default();
            flags.checkpoint = checkpoint;
            flags.sandbox |= checkpoint;
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
        Ok(ParsedType {
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

/// An error at the position of a value in the text.
fn at<T>(place: &Spanned<T>, message: &str) -> ResourceError {
    Fault::at(place, message).into()
}

#[cfg(test)]
mod tests;
