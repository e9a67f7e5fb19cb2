//! The fields of a tool definition file, before validation.
//!
//! Fields that may contain a variable or fail validation keep their position, for error messages.

use std::collections::BTreeMap;

use cleveragents_domain::yaml;
use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::{Location, Spanned};

use super::scalar::{EnvironmentEntry, EnvironmentForm, Texts, TextsForm, UnresolvedValue};
use crate::spec::{Binding, Source};

/// A tool definition file with the wrapper `tool`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WrappedDefinition {
    pub(super) cleveragents: Option<Header>,
    /// The definition of the tool.
    pub(super) tool: Definition,
}

/// The header `cleveragents`, shared by all YAML definition files.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Version of the file format: 3.0.
    #[schemars(with = "Option<Value>")]
    pub version: Option<Spanned<Value>>,
}

/// Placeholder for a missing name.
fn unnamed() -> Spanned<String> {
    Spanned::new(String::new(), Location::UNKNOWN, Location::UNKNOWN)
}

/// A tool definition file.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Definition {
    pub(super) cleveragents: Option<Header>,
    /// Name of the tool: `namespace/name`, in lower case. Optional only for tools inside a skill.
    #[serde(default = "unnamed")]
    #[schemars(with = "String")]
    pub(super) name: Spanned<String>,
    /// Description of the tool for the model.
    #[schemars(with = "String")]
    pub(super) description: Spanned<String>,
    /// Must be `custom`; tools of other sources are not defined by files.
    #[schemars(with = "Option<Source>")]
    pub(super) source: Option<Spanned<Source>>,
    /// Must be `tool`; validations are defined by validation files.
    #[schemars(with = "Option<ToolType>")]
    pub(super) tool_type: Option<Spanned<ToolType>>,
    /// The program and its arguments. A relative path is relative to the folder of this file.
    #[schemars(with = "Option<Vec<String>>")]
    pub(super) command: Option<Spanned<Vec<String>>>,
    /// Source code of the tool, instead of `command`.
    #[schemars(with = "Option<String>")]
    pub(super) code: Option<Spanned<String>>,
    /// Language of `code`. Default: `python`.
    #[schemars(with = "Option<String>")]
    pub(super) language: Option<Spanned<String>>,
    /// JSON schema of the arguments. Default: any object.
    #[schemars(with = "Option<Value>")]
    pub(super) input_schema: Option<Spanned<Value>>,
    /// JSON schema of the answer. Default: any JSON value.
    #[schemars(with = "Option<Value>")]
    pub(super) output_schema: Option<Spanned<Value>>,
    /// Required resources by slot name.
    #[schemars(with = "Option<BTreeMap<String, SlotEntry>>")]
    pub(super) resources: Option<BTreeMap<String, Spanned<SlotEntry>>>,
    /// Required resources as a list, instead of `resources`.
    #[schemars(with = "Option<Vec<NamedSlot>>")]
    pub(super) resource_slots: Option<Spanned<Vec<Spanned<NamedSlot>>>>,
    /// Capability of the tool; the same fields are also accepted at the top level.
    #[schemars(with = "Option<CapabilityEntry>")]
    pub(super) capability: Option<Spanned<CapabilityEntry>>,
    /// Whether the tool changes nothing.
    #[schemars(with = "Option<bool>")]
    pub(super) read_only: Option<UnresolvedValue>,
    /// Whether the tool may change something. Default: true.
    #[schemars(with = "Option<bool>")]
    pub(super) writes: Option<UnresolvedValue>,
    /// Free text about what the tool may change.
    #[schemars(with = "Option<TextsForm>")]
    pub(super) write_scope: Option<Texts>,
    /// Whether a checkpoint can roll back the changes of the tool.
    #[schemars(with = "Option<bool>")]
    pub(super) checkpointable: Option<UnresolvedValue>,
    /// Scope of the tool's checkpoints, such as `file` or `snapshot`.
    pub(super) checkpoint_scope: Option<String>,
    /// Effects outside the sandbox, as free text.
    #[schemars(with = "Option<TextsForm>")]
    pub(super) side_effects: Option<Texts>,
    /// Whether repeating a call has no further effect.
    #[schemars(with = "Option<bool>")]
    pub(super) idempotent: Option<UnresolvedValue>,
    /// Whether the tool runs only under a profile that allows unsafe tools.
    #[schemars(with = "Option<bool>")]
    pub(super) r#unsafe: Option<UnresolvedValue>,
    /// Whether the user must approve each call.
    #[schemars(with = "Option<bool>")]
    pub(super) human_approval_required: Option<UnresolvedValue>,
    /// Required execution environment.
    #[schemars(with = "Option<EnvironmentForm>")]
    pub(super) environment: Option<EnvironmentEntry>,
    /// Required execution environment; same as `environment`.
    #[schemars(with = "Option<EnvironmentForm>")]
    pub(super) execution_environment: Option<Spanned<EnvironmentEntry>>,
    /// Time limit of a call in seconds. Default: 300.
    #[schemars(with = "Option<f64>")]
    pub(super) timeout: Option<UnresolvedValue>,
    /// Cost of one call in US dollars. Default: 0.
    #[schemars(with = "Option<f64>")]
    pub(super) cost: Option<UnresolvedValue>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ToolType {
    Tool,
    Validation,
}

/// Capability of a tool.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CapabilityEntry {
    /// Whether the tool changes nothing.
    #[schemars(with = "Option<bool>")]
    pub(super) read_only: Option<UnresolvedValue>,
    /// Whether the tool may change something. Default: true.
    #[schemars(with = "Option<bool>")]
    pub(super) writes: Option<UnresolvedValue>,
    /// Free text about what the tool may change.
    #[schemars(with = "Option<TextsForm>")]
    pub(super) write_scope: Option<Texts>,
    /// Whether a checkpoint can roll back the changes of the tool.
    #[schemars(with = "Option<bool>")]
    pub(super) checkpointable: Option<UnresolvedValue>,
    /// Scope of the tool's checkpoints, such as `file` or `snapshot`.
    pub(super) checkpoint_scope: Option<String>,
    /// Effects outside the sandbox, as free text.
    #[schemars(with = "Option<TextsForm>")]
    pub(super) side_effects: Option<Texts>,
    /// Whether repeating a call has no further effect.
    #[schemars(with = "Option<bool>")]
    pub(super) idempotent: Option<UnresolvedValue>,
    /// Whether the tool runs only under a profile that allows unsafe tools.
    #[schemars(with = "Option<bool>")]
    pub(super) r#unsafe: Option<UnresolvedValue>,
    /// Whether the user must approve each call.
    #[schemars(with = "Option<bool>")]
    pub(super) human_approval_required: Option<UnresolvedValue>,
    /// Required execution environment.
    #[schemars(with = "Option<EnvironmentForm>")]
    pub(super) environment: Option<EnvironmentEntry>,
}

/// A resource slot.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = slot_aliases)]
pub(super) struct SlotEntry {
    /// Type of the resource.
    pub(super) r#type: String,
    /// Whether the tool changes the resource. Default: `read_only`.
    pub(super) access: Option<SlotAccess>,
    /// Whether the slot must be filled. Default: true.
    pub(super) required: Option<bool>,
    /// Description for users.
    pub(super) description: Option<String>,
    /// Origin of the resource in the slot.
    #[serde(alias = "binding_mode")]
    pub(super) binding: Option<Binding>,
    /// Name of the resource, for a static binding.
    pub(super) resource: Option<String>,
}

/// A resource slot in a list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = named_slot_aliases)]
pub(super) struct NamedSlot {
    /// Name of the slot.
    pub(super) name: String,
    /// Type of the resource.
    #[serde(alias = "resource_type")]
    pub(super) r#type: String,
    /// Whether the tool changes the resource. Default: `read_only`.
    pub(super) access: Option<SlotAccess>,
    /// Whether the slot must be filled. Default: true.
    pub(super) required: Option<bool>,
    /// Description for users.
    pub(super) description: Option<String>,
    /// Origin of the resource in the slot.
    #[serde(alias = "binding_mode")]
    pub(super) binding: Option<Binding>,
    /// Name of the resource, for a static binding.
    pub(super) resource: Option<String>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum SlotAccess {
    ReadOnly,
    ReadWrite,
}

fn slot_aliases(schema: &mut Schema) {
    if let Some(schema) = schema.as_object_mut() {
        yaml::add_aliases(schema, &[("binding", &["binding_mode"])]);
    }
}

fn named_slot_aliases(schema: &mut Schema) {
    slot_aliases(schema);
    if let Some(schema) = schema.as_object_mut() {
        yaml::add_aliases(schema, &[("type", &["resource_type"])]);
    }
}
