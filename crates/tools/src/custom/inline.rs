//! What a skill says of tools inside its own file: tools without a file of their own, and overrides.

use std::path::Path;

use cleveragents_domain::yaml::{Expand, Fault};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_saphyr::Spanned;

use super::entries::{CapabilityEntry, Definition};
use super::run::CustomTool;
use super::scalar::{Late, resolve};
use crate::capability::{Access, CapabilityChange};
use crate::file_error::Complaint;

/// A tool that stands in the file of a skill: all that a file of a tool can say, the name only when
/// it is to have one of its own.
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
    /// The tool, under its own name or else under `otherwise`. `file` is that of the skill.
    pub fn finish(
        self,
        otherwise: &str,
        expand: &Expand<'_>,
        file: &Path,
    ) -> Result<CustomTool, Complaint> {
        let place = (self.0.referenced.line(), self.0.referenced.column());
        let mut definition = self.0.value;
        if definition.name.value.is_empty() {
            otherwise.clone_into(&mut definition.name.value);
        }
        definition
            .finish(expand, file)
            .map_err(|complaint| complaint.placed(place))
    }
}

/// What a skill says of a tool beyond what the tool says itself.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Override {
    /// What the tool declares about itself, made stricter.
    #[schemars(with = "Option<CapabilityEntry>")]
    capability: Option<Spanned<CapabilityEntry>>,
    #[schemars(skip)]
    name: Fixed,
    #[schemars(skip)]
    source: Fixed,
    #[schemars(skip)]
    input_schema: Fixed,
    #[schemars(skip)]
    command: Fixed,
    #[schemars(skip)]
    code: Fixed,
}

/// A field that stays as the tool has it.
type Fixed = Option<Spanned<IgnoredAny>>;

impl Override {
    /// What it changes.
    pub fn resolve(self, expand: &Expand<'_>) -> Result<CapabilityChange, Complaint> {
        for (field, given) in [
            ("name", &self.name),
            ("source", &self.source),
            ("input_schema", &self.input_schema),
            ("command", &self.command),
            ("code", &self.code),
        ] {
            if let Some(given) = given {
                return Err(Complaint::rule(
                    Fault::at(given, format!("`{field}` of a tool cannot be overridden")),
                    "leave it out; `capability` can be overridden",
                ));
            }
        }
        let Some(entry) = self.capability else {
            return Ok(CapabilityChange::default());
        };
        let place = Fault::at(
            &entry,
            "the override says both that it is read_only and that it writes",
        );
        let entry = entry.value;
        let flag = |given: Option<Late>| resolve::<bool>(given, expand, "`true` or `false`");
        let access = match (flag(entry.read_only)?, flag(entry.writes)?) {
            (Some(true), Some(true)) => {
                return Err(Complaint::rule(place, "leave one of them out"));
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
