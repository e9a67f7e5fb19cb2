//! The fields of the file of a tool, as they are written.
//!
//! Every field that may hold a variable, or about which something can be wrong, keeps its place.

use std::collections::BTreeMap;

use cleveragents_domain::yaml;
use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::{Location, Spanned};

use super::scalar::{EnvironmentEntry, EnvironmentForm, Late, Texts, TextsForm};
use crate::spec::{Binding, Source};

/// The file of a tool with its wrapper.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Wrapped {
    pub(super) cleveragents: Option<Header>,
    /// The tool.
    pub(super) tool: Definition,
}

/// The header of a file, which is the same for everything that is written in YAML.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The version of the format: 3.0.
    #[schemars(with = "Option<Value>")]
    pub version: Option<Spanned<Value>>,
}

/// A name that is not there.
fn unnamed() -> Spanned<String> {
    Spanned::new(String::new(), Location::UNKNOWN, Location::UNKNOWN)
}

/// The file of a tool.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Definition {
    pub(super) cleveragents: Option<Header>,
    /// What it is called: `namespace/name`, in lower case. Only a tool inside a skill can do without.
    #[serde(default = "unnamed")]
    #[schemars(with = "String")]
    pub(super) name: Spanned<String>,
    /// What it does, for the model.
    #[schemars(with = "String")]
    pub(super) description: Spanned<String>,
    /// `custom`; other sources are registered in other ways.
    #[schemars(with = "Option<Source>")]
    pub(super) source: Option<Spanned<Source>>,
    /// `tool`; validations are registered in another way.
    #[schemars(with = "Option<ToolType>")]
    pub(super) tool_type: Option<Spanned<ToolType>>,
    /// The program and its arguments. A relative path is seen from the folder of this file.
    #[schemars(with = "Option<Vec<String>>")]
    pub(super) command: Option<Spanned<Vec<String>>>,
    /// A program, instead of `command`.
    #[schemars(with = "Option<String>")]
    pub(super) code: Option<Spanned<String>>,
    /// The language of `code`; `python` when not given.
    #[schemars(with = "Option<String>")]
    pub(super) language: Option<Spanned<String>>,
    /// The JSON schema of its arguments; any object when not given.
    #[schemars(with = "Option<Value>")]
    pub(super) input_schema: Option<Spanned<Value>>,
    /// The JSON schema of its answer; any JSON when not given.
    #[schemars(with = "Option<Value>")]
    pub(super) output_schema: Option<Spanned<Value>>,
    /// The resources it needs, by slot.
    #[schemars(with = "Option<BTreeMap<String, SlotEntry>>")]
    pub(super) resources: Option<BTreeMap<String, Spanned<SlotEntry>>>,
    /// The resources it needs, as a list, instead of `resources`.
    #[schemars(with = "Option<Vec<NamedSlot>>")]
    pub(super) resource_slots: Option<Spanned<Vec<Spanned<NamedSlot>>>>,
    /// What it declares about itself; the same fields may stand at the top instead.
    #[schemars(with = "Option<CapabilityEntry>")]
    pub(super) capability: Option<Spanned<CapabilityEntry>>,
    /// Whether it only looks.
    #[schemars(with = "Option<bool>")]
    pub(super) read_only: Option<Late>,
    /// Whether it changes anything.
    #[schemars(with = "Option<bool>")]
    pub(super) writes: Option<Late>,
    /// What it may change, in words.
    #[schemars(with = "Option<TextsForm>")]
    pub(super) write_scope: Option<Texts>,
    /// Whether a checkpoint can take its changes back.
    #[schemars(with = "Option<bool>")]
    pub(super) checkpointable: Option<Late>,
    /// What a checkpoint for it covers.
    pub(super) checkpoint_scope: Option<String>,
    /// Effects beyond the sandbox, in words.
    #[schemars(with = "Option<TextsForm>")]
    pub(super) side_effects: Option<Texts>,
    /// Whether calling it twice does the same as once.
    #[schemars(with = "Option<bool>")]
    pub(super) idempotent: Option<Late>,
    /// Whether only a profile that allows unsafe tools may run it.
    #[schemars(with = "Option<bool>")]
    pub(super) r#unsafe: Option<Late>,
    /// Whether a person must agree to each call.
    #[schemars(with = "Option<bool>")]
    pub(super) human_approval_required: Option<Late>,
    /// Where it has to run.
    #[schemars(with = "Option<EnvironmentForm>")]
    pub(super) environment: Option<EnvironmentEntry>,
    /// Where it has to run, under its other name.
    #[schemars(with = "Option<EnvironmentForm>")]
    pub(super) execution_environment: Option<Spanned<EnvironmentEntry>>,
    /// How many seconds a call may take; 300 when not given.
    #[schemars(with = "Option<f64>")]
    pub(super) timeout: Option<Late>,
    /// What one call costs, in US dollars; nothing when not given.
    #[schemars(with = "Option<f64>")]
    pub(super) cost: Option<Late>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum ToolType {
    Tool,
    Validation,
}

/// What a tool declares about itself.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CapabilityEntry {
    /// Whether it only looks.
    #[schemars(with = "Option<bool>")]
    pub(super) read_only: Option<Late>,
    /// Whether it changes anything.
    #[schemars(with = "Option<bool>")]
    pub(super) writes: Option<Late>,
    /// What it may change, in words.
    #[schemars(with = "Option<TextsForm>")]
    pub(super) write_scope: Option<Texts>,
    /// Whether a checkpoint can take its changes back.
    #[schemars(with = "Option<bool>")]
    pub(super) checkpointable: Option<Late>,
    /// What a checkpoint for it covers.
    pub(super) checkpoint_scope: Option<String>,
    /// Effects beyond the sandbox, in words.
    #[schemars(with = "Option<TextsForm>")]
    pub(super) side_effects: Option<Texts>,
    /// Whether calling it twice does the same as once.
    #[schemars(with = "Option<bool>")]
    pub(super) idempotent: Option<Late>,
    /// Whether only a profile that allows unsafe tools may run it.
    #[schemars(with = "Option<bool>")]
    pub(super) r#unsafe: Option<Late>,
    /// Whether a person must agree to each call.
    #[schemars(with = "Option<bool>")]
    pub(super) human_approval_required: Option<Late>,
    /// Where it has to run.
    #[schemars(with = "Option<EnvironmentForm>")]
    pub(super) environment: Option<EnvironmentEntry>,
}

/// What a slot takes.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = slot_aliases)]
pub(super) struct SlotEntry {
    /// The type of the resource.
    pub(super) r#type: String,
    /// Whether the tool changes it; `read_only` when not given.
    pub(super) access: Option<SlotAccess>,
    /// Whether the tool can do without; it cannot when not given.
    pub(super) required: Option<bool>,
    /// For people.
    pub(super) description: Option<String>,
    /// How it is filled.
    #[serde(alias = "binding_mode")]
    pub(super) binding: Option<Binding>,
    /// The resource of a static binding.
    pub(super) resource: Option<String>,
}

/// A slot with its name.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = named_slot_aliases)]
pub(super) struct NamedSlot {
    /// What the tool calls it.
    pub(super) name: String,
    /// The type of the resource.
    #[serde(alias = "resource_type")]
    pub(super) r#type: String,
    /// Whether the tool changes it; `read_only` when not given.
    pub(super) access: Option<SlotAccess>,
    /// Whether the tool can do without; it cannot when not given.
    pub(super) required: Option<bool>,
    /// For people.
    pub(super) description: Option<String>,
    /// How it is filled.
    #[serde(alias = "binding_mode")]
    pub(super) binding: Option<Binding>,
    /// The resource of a static binding.
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
