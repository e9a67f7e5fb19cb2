//! The operations on tools and on recorded tool calls.

#![expect(missing_docs, reason = "comments say what names of fields do not")]

use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::{
    Code, Diagnose as _, InvocationOutcome, PlanId, SessionId, Timestamp, ToolInvocation,
    ToolInvocationId, TurnId, ValidationMode,
};
use cleveragents_models::Redactor;
use cleveragents_store::invocations::InvocationFilter;
use cleveragents_store::tools::StoredTool;
use cleveragents_tools::{
    Access, Binding, Capability, Category, Environment, Ground, Registry, Slot, Source,
    ToolPattern, ToolSpec,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::service::{RegisteredTool, ToolError};
use crate::operation::{
    NamedKind, Operation, OperationContext, OperationEntry, OperationError, PageSummary,
    RemovedDefinition, Requirement, Resolver, confirm_removal, register_mode,
};
use crate::resource::Outcome;
use crate::session::SessionError;
use crate::validation::{RegisteredValidation, ValidationCheck};

/// The operations on tools.
pub(crate) static ENTRIES: &[OperationEntry] = &[
    OperationEntry::of::<AddTool>(),
    OperationEntry::of::<ListTools>(),
    OperationEntry::of::<ShowTool>(),
    OperationEntry::of::<RemoveTool>(),
    OperationEntry::of::<ListToolCalls>(),
];

const fn requires(permission: Permission) -> Requirement {
    Requirement::new(Scope::Registry, permission)
}

/// What a tool declares about itself, in the words of its file.
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
    /// Whether it needs a container: `none`, `preferred`, `required` or `specific: RESOURCE`.
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

/// Registers a tool.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddTool {
    /// The YAML text of its definition.
    pub text: String,
    /// The absolute path of the file that holds the text. Ignored for callers on other machines.
    #[serde(default)]
    pub source: Option<String>,
    /// Replace a tool of the same name.
    #[serde(default)]
    pub update: bool,
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
    /// The file it was read from.
    pub config: String,
    /// How long one call may take, in seconds.
    pub timeout: f64,
    pub created: Timestamp,
    pub updated: Timestamp,
    /// Grows with every update of the definition.
    pub version: u64,
    pub outcome: Outcome,
}

impl Operation for AddTool {
    const NAME: &'static str = "registry/tool/add";
    const SUMMARY: &'static str = "Register a tool";
    const REQUIREMENT: Requirement = requires(Permission::Manage);
    type Response = AddedToolInfo;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.definition(&mut self.text)
    }

    fn run(self, context: &OperationContext) -> Result<AddedToolInfo, OperationError> {
        let file = context.source_of(self.source.as_deref());
        let register = register_mode(self.update);
        let added = context
            .tools()
            .add(&self.text, &file, register, context.variables())
            .map_err(|error| match error.code() {
                Code::ToolExists => OperationError::from(error)
                    .with_hint("choose another name, or repeat the command with --update"),
                _ => error.into(),
            })?;
        let spec = &added.spec;
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
}

/// What a listed tool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ListedToolKind {
    Tool,
    /// A tool that passes or fails.
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

/// Where listed tools come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolOrigin {
    /// The program.
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
    /// Only those of this namespace.
    #[serde(default)]
    pub namespace: Option<String>,
    /// Only built-in ones, or only registered ones.
    #[serde(default)]
    pub source: Option<ToolOrigin>,
    /// Only those of this category.
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
    /// Only validations have one.
    pub mode: Option<ValidationMode>,
    pub namespace: String,
    pub source: Source,
    pub category: Category,
    pub description: Option<String>,
    pub writes: Option<bool>,
    /// How long one call may take, in seconds; `null` for a validation that wraps a tool.
    pub timeout: Option<f64>,
    /// Why the definition cannot be read any more.
    pub problem: Option<String>,
}

/// Totals of listed tools.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ToolListSummary {
    pub total: u64,
    /// The number of tools whose definition cannot be read any more.
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

    fn registered(tool: RegisteredTool, secrets: &Redactor) -> Self {
        let (source, category) = (Source::Custom, Category::Custom);
        let entry = Self::new(tool.stored.name, ListedToolKind::Tool, source, category);
        match tool.spec {
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

    /// A validation changes nothing; one that wraps a tool has the time limit of that tool.
    fn validation(registered: RegisteredValidation, secrets: &Redactor) -> Self {
        let (source, category) = (Source::Custom, Category::Custom);
        let kind = ListedToolKind::Validation;
        let entry = Self::new(registered.stored.name, kind, source, category);
        match registered.validation {
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
            && namespace.is_none_or(|wanted| wanted.trim_end_matches('/') == tool.namespace)
            && self.category.is_none_or(|wanted| wanted == tool.category)
    }
}

impl Operation for ListTools {
    const NAME: &'static str = "registry/tool/list";
    const SUMMARY: &'static str = "List tools and validations";
    const REQUIREMENT: Requirement = requires(Permission::Read);
    type Response = ToolList;

    fn resolve(&mut self, _: &mut Resolver<'_>) -> Result<(), OperationError> {
        Ok(())
    }

    fn run(self, context: &OperationContext) -> Result<ToolList, OperationError> {
        let secrets = context.redactor()?;
        let is_visible = |name: &str| context.may_read(Scope::Registry, name);
        let builtins = Registry::with_builtins();
        let registered = context.tools().registered(context.variables())?;
        let registered = registered
            .into_iter()
            .filter(|tool| is_visible(&tool.stored.name))
            .map(|tool| ListedTool::registered(tool, &secrets));
        let validations = context.validations().list(&context.variables())?;
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

/// Shows a tool: its schemas, its capability and its definition.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowTool {
    /// Such as `builtin/file-read`.
    pub name: String,
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
    /// What it works on.
    pub ground: Ground,
    /// How long one call may take, in seconds.
    pub timeout: f64,
    pub input_schema: Value,
    pub output_schema: Option<Value>,
    pub capability: CapabilityInfo,
    pub resources: Vec<SlotInfo>,
    /// The file it was read from; built-in tools have none, nor any of the following.
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
    fn new(spec: &ToolSpec, stored: Option<StoredTool>, secrets: &Redactor) -> Self {
        let schema = spec.output_schema.as_ref();
        let mut details = Self {
            name: spec.name.to_string(),
            kind: ListedToolKind::Tool,
            namespace: spec.name.namespace().to_owned(),
            short_name: spec.name.short().to_owned(),
            description: secrets.text(&spec.description).into_owned(),
            source: spec.source,
            category: spec.category,
            ground: spec.ground,
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

impl Operation for ShowTool {
    const NAME: &'static str = "registry/tool/show";
    const SUMMARY: &'static str = "Show a tool with its schemas and definition";
    const REQUIREMENT: Requirement = requires(Permission::Read);
    type Response = ToolDetails;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.read_name(&mut self.name, NamedKind::Definition)
    }

    fn run(self, context: &OperationContext) -> Result<ToolDetails, OperationError> {
        let secrets = context.redactor()?;
        if let Ok(spec) = Registry::with_builtins().get(&self.name) {
            return Ok(ToolDetails::new(spec, None, &secrets));
        }
        let stored = context.tools().find_stored(&self.name)?;
        let RegisteredTool { stored, spec } = RegisteredTool::read(stored, context.variables());
        let spec = spec.map_err(|error| {
            let hint = format!(
                "{}; then `agents tool add --config FILE --update`, or `agents tool remove {}`",
                error.hint().unwrap_or_default(),
                stored.name
            );
            OperationError::from(ToolError::from(error)).with_hint(hint)
        })?;
        Ok(ToolDetails::new(&spec, Some(stored), &secrets))
    }
}

/// Removes a registered tool.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveTool {
    pub name: String,
    /// Confirms the removal; without it nothing is removed.
    #[serde(default)]
    pub yes: bool,
}

impl Operation for RemoveTool {
    const NAME: &'static str = "registry/tool/remove";
    const SUMMARY: &'static str = "Remove a registered tool";
    const REQUIREMENT: Requirement = requires(Permission::Manage);
    type Response = RemovedDefinition;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.name(&mut self.name, NamedKind::Definition)
    }

    fn run(self, context: &OperationContext) -> Result<RemovedDefinition, OperationError> {
        let tools = context.tools();
        let found = tools.find_stored(&self.name)?;
        confirm_removal(&found.name, self.yes)?;
        let removed = tools.remove(&found.name)?;
        Ok(RemovedDefinition {
            removed: removed.name,
            config: removed.source,
        })
    }
}

/// Lists recorded tool calls, newest first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListToolCalls {
    /// Only calls of this session: id, prefix of at least 6 characters, or name.
    #[serde(default)]
    pub session: Option<String>,
    /// Only calls of this tool, or of tools that match a pattern such as `builtin/git-*`.
    #[serde(default)]
    pub tool: Option<String>,
    /// Only calls with this outcome.
    #[serde(default)]
    pub outcome: Option<InvocationOutcome>,
    /// Maximum number of results.
    #[serde(default = "twenty")]
    pub limit: u64,
    /// Number of results to skip.
    #[serde(default)]
    pub offset: u64,
}

const fn twenty() -> u64 {
    20
}

/// The response of `tool/calls`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ToolCallList {
    pub calls: Vec<ToolCallInfo>,
    pub summary: PageSummary,
}

/// A recorded tool call.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ToolCallInfo {
    pub id: ToolInvocationId,
    pub tool: String,
    pub outcome: InvocationOutcome,
    /// Why it was refused.
    pub reason: Option<String>,
    pub error: Option<String>,
    pub session: Option<SessionId>,
    pub plan: Option<PlanId>,
    pub turn: Option<TurnId>,
    /// The id that the model gave the call.
    pub call_id: Option<String>,
    pub started: Timestamp,
    pub finished: Option<Timestamp>,
    pub duration_s: Option<f64>,
}

impl From<&ToolInvocation> for ToolCallInfo {
    fn from(call: &ToolInvocation) -> Self {
        #[expect(
            clippy::cast_precision_loss,
            reason = "durations are far below 2^53 microseconds"
        )]
        let seconds =
            |finished: Timestamp| (finished.as_micros() - call.started_at.as_micros()) as f64 / 1e6;
        Self {
            id: call.id,
            tool: call.tool.clone(),
            outcome: call.outcome,
            reason: call.reason.clone(),
            error: call.error.clone(),
            session: call.session,
            plan: call.plan,
            turn: call.turn,
            call_id: call.call_id.clone(),
            started: call.started_at,
            finished: call.finished_at,
            duration_s: call.finished_at.map(seconds),
        }
    }
}

impl Operation for ListToolCalls {
    const NAME: &'static str = "tool/calls";
    const SUMMARY: &'static str = "List recorded tool calls, newest first";
    const REQUIREMENT: Requirement = Requirement::new(Scope::Sessions, Permission::Read);
    type Response = ToolCallList;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        match &mut self.session {
            Some(session) => resolver.session(session),
            None => Ok(()),
        }
    }

    fn run(self, context: &OperationContext) -> Result<ToolCallList, OperationError> {
        let session = self.session.map(|session| {
            let id = session.parse::<SessionId>();
            id.map_err(|_| SessionError::NotFound(session))
        });
        // A pattern also matches other spellings of a name; a text that is no pattern is a name that a
        // model made up.
        let tool = self.tool.map(|text| {
            let pattern = text.parse::<ToolPattern>();
            pattern.map_or(text, |pattern| pattern.to_string())
        });
        let page = context.tools().calls(&InvocationFilter {
            visible: context.visible(Scope::Sessions),
            visible_plans: context.visible(Scope::Plans),
            visible_runs: context.visible(Scope::Registry),
            session: session.transpose()?,
            tool,
            outcome: self.outcome,
            offset: self.offset,
            limit: Some(self.limit),
        })?;
        let calls: Vec<ToolCallInfo> = page.invocations.iter().map(Into::into).collect();
        Ok(ToolCallList {
            summary: PageSummary {
                shown: calls.len() as u64,
                matching: page.matching,
            },
            calls,
        })
    }
}
