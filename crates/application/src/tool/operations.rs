//! The operations on tools and on recorded tool calls.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::yaml::Variables;
use cleveragents_domain::{Diagnose as _, Placeholder, Timestamp, ValidationMode, hint, suggest};
use cleveragents_models::Redactor;
use cleveragents_store::definitions::StoredDefinition;
use cleveragents_tools::{
    Access, Binding, Capability, Category, Environment, Registry, Slot, Source, ToolSpec,
    WorkspaceNeed,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use super::call_operations::{ListToolCalls, ToolCallInfo, ToolCallList};
use super::service::ToolError;
use crate::definition::{
    DefinitionText, RegisteredDefinition, add_request, remove_confirmed, remove_request,
    show_request,
};
use crate::operation::{
    Operation, OperationContext, OperationEntry, OperationError, RemovedDefinition, Requirement,
    Resolver,
};
use crate::resource::{Outcome, Register};
use crate::validation::{Validation, ValidationCheck};

/// The operations on tools.
pub(crate) static ENTRIES: &[OperationEntry] = &[
    OperationEntry::new::<AddTool>(),
    OperationEntry::new::<ListTools>(),
    OperationEntry::new::<ShowTool>(),
    OperationEntry::new::<RemoveTool>(),
    OperationEntry::new::<ListToolCalls>(),
];

/// Capabilities that a tool declares, in the terms of its file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "fields of the user's file")]
pub struct CapabilityInfo {
    pub read_only: bool,
    pub writes: bool,
    pub write_scope: Vec<String>,
    pub checkpointable: bool,
    pub checkpoint_scope: Option<String>,
    pub side_effects: Vec<String>,
    pub idempotent: bool,
    #[serde(rename = "unsafe")]
    pub is_unsafe: bool,
    pub human_approval_required: bool,
    /// Whether the tool needs a container: `none`, `preferred`, `required` or `specific: RESOURCE`.
    pub environment: String,
}

impl From<&Capability> for CapabilityInfo {
    fn from(capability: &Capability) -> Self {
        Self {
            read_only: capability.access == Access::Reads,
            writes: capability.is_writing(),
            write_scope: capability.write_scope.clone(),
            checkpointable: capability.checkpointable,
            checkpoint_scope: capability.checkpoint_scope.clone(),
            side_effects: capability.side_effects.clone(),
            idempotent: capability.idempotent,
            is_unsafe: capability.is_unsafe,
            human_approval_required: capability.needs_approval,
            environment: match &capability.environment {
                Environment::Anywhere => "none".to_owned(),
                Environment::PreferContainer => "preferred".to_owned(),
                Environment::RequireContainer => "required".to_owned(),
                Environment::Specific(name) => format!("specific: {name}"),
            },
        }
    }
}

/// The response of `registry/tool/add`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AddedToolInfo {
    pub tool_registered: RegisteredToolInfo,
    pub capability: CapabilityInfo,
}

/// A tool that was registered.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RegisteredToolInfo {
    pub name: String,
    pub description: String,
    pub source: Source,
    /// File that the definition was read from.
    pub config: String,
    /// Time limit of one call, in seconds.
    pub timeout: f64,
    pub created: Timestamp,
    pub updated: Timestamp,
    /// Grows with every update of the definition.
    pub version: u64,
    pub outcome: Outcome,
}

add_request! {
    /// Registers a tool.
    AddTool("registry/tool/add", "Register a tool") -> AddedToolInfo;
    update: "Replace a tool of the same name.";
    run: add;
}

fn add(
    context: &OperationContext,
    new: DefinitionText<'_>,
    register: Register,
) -> Result<AddedToolInfo, OperationError> {
    let tools = context.tools();
    let added = tools.add(new.text, new.source, register, context.variables())?;
    let spec = &added.definition;
    let description = context.redactor()?.text(&spec.description).into_owned();
    Ok(AddedToolInfo {
        capability: CapabilityInfo::from(&spec.capability),
        tool_registered: RegisteredToolInfo {
            name: spec.name.to_string(),
            description,
            source: spec.source,
            timeout: spec.timeout.as_secs_f64(),
            config: added.stored.source,
            created: added.stored.created_at,
            updated: added.stored.updated_at,
            version: added.stored.version,
            outcome: added.outcome,
        },
    })
}

/// Kind of a listed tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ListedToolKind {
    Tool,
    /// A check that passes or fails.
    Validation,
}

impl ListedToolKind {
    /// The name in requests and reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Validation => "validation",
        }
    }
}

/// The origin of listed tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolOrigin {
    /// Tools that are part of the program.
    Builtin,
    /// Definitions that users registered.
    Custom,
}

/// Lists tools and validations, by name.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListTools {
    /// Only tools, or only validations.
    #[serde(default)]
    pub kind: Option<ListedToolKind>,
    /// Only tools of this namespace.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Only built-in or only registered tools.
    #[serde(default)]
    pub source: Option<ToolOrigin>,
    /// Only tools of this category.
    #[serde(default)]
    pub category: Option<Category>,
}

/// The response of `registry/tool/list`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ToolList {
    pub tools: Vec<ListedTool>,
    pub summary: ToolListSummary,
}

/// A listed tool or validation.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ListedTool {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: ListedToolKind,
    /// Mode of a validation; `null` for tools.
    pub mode: Option<ValidationMode>,
    pub namespace: String,
    pub source: Source,
    pub category: Category,
    pub description: Option<String>,
    pub writes: Option<bool>,
    /// Time limit of one call, in seconds; `null` for a validation that wraps a tool.
    pub timeout: Option<f64>,
    /// Error of the definition, if it is no longer valid.
    pub problem: Option<String>,
}

/// Totals of listed tools.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ToolListSummary {
    pub total: u64,
    /// The number of tools whose definition is no longer valid.
    pub broken: u64,
}

impl ListedTool {
    fn new(name: String, kind: ListedToolKind, source: Source, category: Category) -> Self {
        let namespace = name.rsplit_once('/').map_or("", |(namespace, _)| namespace);
        Self {
            namespace: namespace.to_owned(),
            name,
            kind,
            mode: None,
            source,
            category,
            description: None,
            writes: None,
            timeout: None,
            problem: None,
        }
    }

    fn of_spec(spec: &ToolSpec, secrets: &Redactor) -> Self {
        let name = spec.name.to_string();
        Self {
            description: Some(secrets.text(&spec.description).into_owned()),
            writes: Some(spec.capability.is_writing()),
            timeout: Some(spec.timeout.as_secs_f64()),
            ..Self::new(name, ListedToolKind::Tool, spec.source, spec.category)
        }
    }

    fn registered(tool: RegisteredDefinition<ToolSpec>, secrets: &Redactor) -> Self {
        let (source, category) = (Source::Custom, Category::Custom);
        let entry = Self::new(tool.stored.name, ListedToolKind::Tool, source, category);
        match tool.definition {
            Ok(spec) => Self {
                name: entry.name,
                namespace: entry.namespace,
                source,
                category,
                ..Self::of_spec(&spec, secrets)
            },
            Err(error) => Self {
                problem: Some(secrets.text(&error.to_string()).into_owned()),
                ..entry
            },
        }
    }

    /// Lists a validation, which never writes. A validation that wraps a tool has no time limit of its own.
    fn validation(registered: RegisteredDefinition<Validation>, secrets: &Redactor) -> Self {
        let (source, category) = (Source::Custom, Category::Custom);
        let kind = ListedToolKind::Validation;
        let entry = Self::new(registered.stored.name, kind, source, category);
        match registered.definition {
            Ok(validation) => Self {
                description: Some(secrets.text(&validation.description).into_owned()),
                writes: Some(false),
                timeout: match &validation.check {
                    ValidationCheck::Command(check) => Some(check.timeout.as_secs_f64()),
                    ValidationCheck::Wraps(_) => None,
                },
                mode: Some(validation.mode),
                ..entry
            },
            Err(error) => Self {
                problem: Some(secrets.text(&error.to_string()).into_owned()),
                ..entry
            },
        }
    }
}

impl ListTools {
    fn matches(&self, tool: &ListedTool) -> bool {
        let source = self.source.is_none_or(|source| match source {
            ToolOrigin::Builtin => tool.source == Source::Builtin,
            ToolOrigin::Custom => tool.source == Source::Custom,
        });
        let namespace = self.namespace.as_ref();
        source
            && self.kind.is_none_or(|kind| kind == tool.kind)
            && namespace.is_none_or(|expected| expected.trim_end_matches('/') == tool.namespace)
            && self
                .category
                .is_none_or(|expected| expected == tool.category)
    }
}

impl Operation for ListTools {
    const NAME: &'static str = "registry/tool/list";
    const SUMMARY: &'static str = "List tools and validations";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Read);
    type Response = ToolList;

    fn resolve(&mut self, _: &mut Resolver<'_>) -> Result<(), OperationError> {
        Ok(())
    }

    fn run(self, context: &OperationContext) -> Result<ToolList, OperationError> {
        let secrets = context.redactor()?;
        let is_visible = |name: &str| context.may_read(Scope::Registry, name);
        let builtins = Registry::with_builtins();
        let registered = context.tools().list_registered(context.variables())?;
        let registered = registered
            .into_iter()
            .filter(|tool| is_visible(&tool.stored.name))
            .map(|tool| ListedTool::registered(tool, &secrets));
        let validations = context.validations().list_registered(context.variables())?;
        let validations = validations
            .into_iter()
            .filter(|validation| is_visible(&validation.stored.name))
            .map(|validation| ListedTool::validation(validation, &secrets));
        let mut tools: Vec<ListedTool> = builtins
            .list()
            .map(|spec| ListedTool::of_spec(spec, &secrets))
            .chain(registered)
            .chain(validations)
            .filter(|tool| self.matches(tool))
            .collect();
        tools.sort_by(|left, right| left.name.cmp(&right.name));
        let broken = tools.iter().filter(|tool| tool.problem.is_some()).count();
        Ok(ToolList {
            summary: ToolListSummary {
                total: tools.len() as u64,
                broken: broken as u64,
            },
            tools,
        })
    }
}

/// The response of `registry/tool/show`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ToolDetails {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: ListedToolKind,
    pub namespace: String,
    pub short_name: String,
    pub description: String,
    pub source: Source,
    pub category: Category,
    /// Whether the tool needs a workspace.
    #[serde(rename = "ground")]
    pub workspace_need: WorkspaceNeed,
    /// Time limit of one call, in seconds.
    pub timeout: f64,
    pub input_schema: Value,
    pub output_schema: Option<Value>,
    pub capability: CapabilityInfo,
    pub resources: Vec<SlotInfo>,
    /// The source file of the definition; `null` for built-in tools, like all fields below.
    pub config: Option<String>,
    /// The YAML text.
    pub definition: Option<String>,
    pub version: Option<u64>,
    pub created: Option<Timestamp>,
    pub updated: Option<Timestamp>,
}

/// A resource that a tool needs.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SlotInfo {
    pub slot: String,
    #[serde(rename = "type")]
    pub resource_type: String,
    pub access: SlotAccess,
    pub required: bool,
    pub description: String,
    pub binding: Binding,
    /// The resource of a static binding.
    pub resource: Option<String>,
}

/// Whether a tool changes a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SlotAccess {
    ReadOnly,
    ReadWrite,
}

impl SlotAccess {
    /// The name in definitions.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read_only",
            Self::ReadWrite => "read_write",
        }
    }
}

impl From<&Slot> for SlotInfo {
    fn from(slot: &Slot) -> Self {
        Self {
            slot: slot.name.clone(),
            resource_type: slot.resource_type.clone(),
            access: match slot.access {
                Access::Reads => SlotAccess::ReadOnly,
                Access::Writes => SlotAccess::ReadWrite,
            },
            required: slot.required,
            description: slot.description.clone(),
            binding: slot.binding,
            resource: slot.resource.clone(),
        }
    }
}

impl ToolDetails {
    fn new(spec: &ToolSpec, stored: Option<StoredDefinition>, secrets: &Redactor) -> Self {
        let schema = spec.output_schema.as_ref();
        let mut details = Self {
            name: spec.name.to_string(),
            kind: ListedToolKind::Tool,
            namespace: spec.name.namespace().to_owned(),
            short_name: spec.name.short().to_owned(),
            description: secrets.text(&spec.description).into_owned(),
            source: spec.source,
            category: spec.category,
            workspace_need: spec.workspace_need,
            timeout: spec.timeout.as_secs_f64(),
            input_schema: secrets.value(&spec.input_schema),
            output_schema: schema.map(|schema| secrets.value(schema)),
            capability: CapabilityInfo::from(&spec.capability),
            resources: spec.resources.iter().map(SlotInfo::from).collect(),
            config: None,
            definition: None,
            version: None,
            created: None,
            updated: None,
        };
        if let Some(stored) = stored {
            details.config = Some(stored.source);
            details.definition = Some(secrets.text(&stored.definition).into_owned());
            details.version = Some(stored.version);
            details.created = Some(stored.created_at);
            details.updated = Some(stored.updated_at);
        }
        details
    }
}

show_request! {
    /// Shows a tool: its schemas, its capability and its definition.
    ShowTool("registry/tool/show", "Show a tool with its schemas and definition") -> ToolDetails;
    name: "Such as `builtin/file-read`.";
    run: show;
}

fn show(context: &OperationContext, name: &str) -> Result<ToolDetails, OperationError> {
    let secrets = context.redactor()?;
    if let Ok(spec) = Registry::with_builtins().get(name) {
        return Ok(ToolDetails::new(spec, None, &secrets));
    }
    let registered = context.tools().get_registered(name, context.variables())?;
    let spec = registered.definition.map_err(|error| {
        let hint = hint!(
            "{}; then {}, or {}",
            error.hint().unwrap_or_default(),
            suggest::tool_add_update(Placeholder("FILE")),
            suggest::tool_remove(&registered.stored.name)
        );
        OperationError::from(ToolError::from(error)).with_hint(hint)
    })?;
    Ok(ToolDetails::new(&spec, Some(registered.stored), &secrets))
}

remove_request! {
    /// Removes a registered tool.
    RemoveTool("registry/tool/remove", "Remove a registered tool");
    run: remove;
}

fn remove(
    context: &OperationContext,
    name: &str,
    yes: bool,
) -> Result<RemovedDefinition, OperationError> {
    let variables: Variables<'_> = context.variables();
    remove_confirmed(&context.tools(), variables, name, yes, |_| Ok(()))
}
