//! Tools in the file of a skill: inline definitions and overrides.

use std::fmt;
use std::path::Path;

use cleveragents_domain::DefinitionFault;
use cleveragents_domain::yaml::{Expand, Fault};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_saphyr::Spanned;

use super::entries::{CapabilityEntry, Definition};
use super::run::CustomTool;
use super::scalar::{UnresolvedValue, resolve};
use crate::capability::{Access, CapabilityChange};

/// A tool defined in the file of a skill, with the fields of a tool definition file; the name is
/// optional.
#[derive(Deserialize)]
#[serde(transparent)]
pub struct Inline(Spanned<Definition>);

impl JsonSchema for Inline {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Inline".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<Definition>()
    }
}

impl Inline {
    /// Line and column in the file, counted from 1.
    pub fn place(&self) -> (u64, u64) {
        (self.0.referenced.line(), self.0.referenced.column())
    }

    /// Builds the tool. A tool without a name gets `default_name`. `file` is the file of the skill.
    pub fn finish(
        self,
        default_name: &str,
        expand: &Expand<'_>,
        file: &Path,
    ) -> Result<CustomTool, DefinitionFault> {
        let place = self.place();
        let mut definition = self.0.value;
        if definition.name.value.is_empty() {
            default_name.clone_into(&mut definition.name.value);
        }
        definition
            .finish(expand, file)
            .map_err(|fault| fault.at_place(place))
    }
}

/// Override of a tool by a skill.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Override {
    /// Stricter values for the capability of the tool.
    #[schemars(with = "Option<CapabilityEntry>")]
    capability: Option<Spanned<CapabilityEntry>>,
    /// A field that cannot be overridden, reported by `resolve`.
    #[schemars(skip)]
    fixed: Option<(String, Spanned<IgnoredAny>)>,
}

/// Fields of a tool that cannot be overridden.
const FIXED: [&str; 6] = [
    "name",
    "source",
    "input_schema",
    "output_schema",
    "command",
    "code",
];

impl<'de> Deserialize<'de> for Override {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Override;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a map with `capability`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Override, A::Error> {
                let mut parsed = Override {
                    capability: None,
                    fixed: None,
                };
                while let Some(key) = map.next_key::<String>()? {
                    if key == "capability" {
                        parsed.capability = Some(map.next_value()?);
                    } else if FIXED.contains(&key.as_str()) {
                        parsed.fixed = Some((key, map.next_value()?));
                    } else {
                        return Err(serde::de::Error::unknown_field(&key, &["capability"]));
                    }
                }
                Ok(parsed)
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

impl Override {
    /// Validates the override and resolves its variables.
    pub fn resolve(self, expand: &Expand<'_>) -> Result<CapabilityChange, DefinitionFault> {
        if let Some((field, given)) = &self.fixed {
            return Err(DefinitionFault::rule(
                Fault::at(given, format!("`{field}` of a tool cannot be overridden")),
                "remove it; only `capability` can be overridden",
            ));
        }
        let Some(entry) = self.capability else {
            return Ok(CapabilityChange::default());
        };
        let place = Fault::at(
            &entry,
            "the override declares the tool both read_only and writing",
        );
        let entry = entry.value;
        let flag =
            |given: Option<UnresolvedValue>| resolve::<bool>(given, expand, "`true` or `false`");
        let access = match (flag(entry.read_only)?, flag(entry.writes)?) {
            (Some(true), Some(true)) => {
                return Err(DefinitionFault::rule(place, "remove one of them"));
            }
            (Some(true), _) | (None, Some(false)) => Some(Access::Reads),
            (_, Some(true)) | (Some(false), _) => Some(Access::Writes),
            (None, None) => None,
        };
        let mut change = CapabilityChange {
            access,
            write_scope: entry.write_scope.map(|texts| texts.0),
            checkpointable: flag(entry.checkpointable)?,
            checkpoint_scope: entry.checkpoint_scope,
            side_effects: entry.side_effects.map(|texts| texts.0),
            idempotent: flag(entry.idempotent)?,
            is_unsafe: flag(entry.r#unsafe)?,
            needs_approval: flag(entry.human_approval_required)?,
            environment: entry.environment.map(|entry| entry.0),
        };
        let lists = change
            .write_scope
            .iter_mut()
            .chain(&mut change.side_effects);
        for text in lists.flatten().chain(&mut change.checkpoint_scope) {
            expand.text(text)?;
        }
        Ok(change)
    }
}
