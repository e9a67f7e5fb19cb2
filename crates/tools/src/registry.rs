//! [`Registry`]: the available tools with their compiled schemas.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleveragents_domain::{Code, Diagnose, Hint, hint, nearest, suggest};
use jsonschema::{PatternOptions, Validator};
use serde_json::{Value, json};

use crate::argument_errors::schema_errors_unredacted;
use crate::capability::{CapabilityChange, OverrideError};
use crate::model_tools::{self, Declaration, ModelTool, ToolOffer};
use crate::name::ToolName;
use crate::spec::{Source, ToolSpec};
use crate::tool::{PrepareContext, PrepareError, PreparedCall, Tool};
use crate::tool_search::{SearchableTool, ToolSearch};

/// Errors of registering and removing tools.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// A tool with this name exists.
    #[error("tool `{0}` already exists")]
    Exists(ToolName),
    /// The namespace is reserved.
    #[error("the namespace of `{0}` is reserved")]
    Reserved(ToolName),
    /// No tool has this name.
    #[error("tool `{name}` does not exist")]
    NotFound {
        /// The name as given.
        name: String,
        /// Similar names.
        nearest: Vec<String>,
    },
    /// A schema is invalid.
    #[error("the {which} of `{tool}` is not a valid JSON schema: {why}")]
    Schema {
        /// The tool with the schema.
        tool: ToolName,
        /// `input_schema` or `output_schema`.
        which: &'static str,
        /// The error.
        why: String,
    },
}

impl Diagnose for RegistryError {
    fn code(&self) -> Code {
        match self {
            Self::Exists(_) => Code::ToolExists,
            Self::Reserved(_) => Code::BuiltInTool,
            Self::NotFound { .. } => Code::ToolNotFound,
            Self::Schema { .. } => Code::InvalidTool,
        }
    }

    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::Exists(name) => hint!("remove it first: {}", suggest::tool_remove(name)),
            Self::Reserved(_) => "choose another namespace, such as `local/`".into(),
            Self::NotFound { nearest, .. } => match nearest.first() {
                Some(name) => hint!(
                    "did you mean `{}`? {} shows all",
                    name,
                    suggest::tool_list()
                ),
                None => hint!("run {} to list all tools", suggest::tool_list()),
            },
            Self::Schema { .. } => "correct the schema in the file of the tool".into(),
        })
    }

    fn details(&self) -> Value {
        match self {
            Self::NotFound { name, nearest } => json!({ "name": name, "nearest": nearest }),
            _ => Value::Null,
        }
    }
}

/// A tool with its compiled schemas.
pub(crate) struct Entry {
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) input: Validator,
    pub(crate) output: Option<Validator>,
}

impl Entry {
    fn new(tool: Arc<dyn Tool>) -> Result<Self, RegistryError> {
        let spec = tool.spec();
        let compile = |which, schema: &Value| {
            compile(schema).map_err(|why| RegistryError::Schema {
                tool: spec.name.clone(),
                which,
                why,
            })
        };
        let input = compile("input_schema", &spec.input_schema)?;
        let output = spec
            .output_schema
            .as_ref()
            .map(|schema| compile("output_schema", schema))
            .transpose()?;
        Ok(Self {
            tool,
            input,
            output,
        })
    }
}

/// Compiles a JSON schema. References are never fetched, and patterns match in linear time.
pub(crate) fn compile(schema: &Value) -> Result<Validator, String> {
    jsonschema::options()
        .offline()
        .with_pattern_options(PatternOptions::regex())
        .build(schema)
        .map_err(|error| error.to_string())
}

/// Errors of applying an override.
#[derive(Debug, thiserror::Error)]
pub enum TightenError {
    /// The tool does not exist, or its schema is invalid.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The override would loosen the capability.
    #[error(transparent)]
    Loosened(#[from] OverrideError),
}

/// A tool with an overridden, stricter capability.
struct RestrictedTool {
    tool: Arc<dyn Tool>,
    spec: ToolSpec,
}

impl Tool for RestrictedTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare<'a>(
        &'a self,
        arguments: Value,
        context: PrepareContext<'a>,
    ) -> Result<Box<dyn PreparedCall + 'a>, PrepareError> {
        self.tool.prepare(arguments, context)
    }

    fn acts_as(&self, arguments: &Value) -> Vec<ToolName> {
        self.tool.acts_as(arguments)
    }
}

pub(crate) enum CallTarget<'r> {
    /// A registered tool.
    Tool(&'r Entry),
    /// A model tool; the arguments decide which built-in tool runs.
    Model(&'static ModelTool),
}

/// Validates that a value is a JSON schema that tools can use.
pub fn check_schema(schema: &Value) -> Result<(), String> {
    compile(schema).map(drop)
}

/// Validates a value against a JSON schema and describes the errors. The messages may contain secrets.
pub fn check_value(schema: &Value, value: &Value) -> Result<(), String> {
    let validator = compile(schema)?;
    match schema_errors_unredacted(&validator, schema, value) {
        None => Ok(()),
        Some(errors) => Err(errors.join("; ")),
    }
}

/// The available tools.
#[derive(Default)]
pub struct Registry {
    tools: BTreeMap<ToolName, Arc<Entry>>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.list().map(|spec| spec.name.to_string());
        formatter.debug_list().entries(names).finish()
    }
}

impl Registry {
    /// A registry without tools.
    pub fn empty() -> Self {
        Self::default()
    }

    /// A registry with the built-in tools.
    pub fn with_builtins() -> Self {
        let mut registry = Self::empty();
        for tool in crate::builtin::all() {
            let entry = Entry::new(tool).expect("the schemas of built-in tools are valid");
            registry
                .tools
                .insert(entry.tool.spec().name.clone(), Arc::new(entry));
        }
        registry
    }

    /// Adds a tool. Rejects reserved namespaces such as `builtin/`. Only tools that open agent skills may be
    /// in `skill/`.
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), RegistryError> {
        let name = tool.spec().name.clone();
        let is_skill_tool =
            name.namespace() == ToolName::SKILL && tool.spec().source == Source::AgentSkill;
        if (name.is_reserved() && !is_skill_tool)
            || name.as_name().require_free_namespace().is_err()
        {
            return Err(RegistryError::Reserved(name));
        }
        if self.tools.contains_key(&name) {
            return Err(RegistryError::Exists(name));
        }
        self.tools.insert(name, Arc::new(Entry::new(tool)?));
        Ok(())
    }

    /// Overrides the capability of a tool with a stricter capability.
    pub fn tighten(&mut self, name: &str, change: &CapabilityChange) -> Result<(), TightenError> {
        let spec = self.get(name)?;
        let (name, capability) = (spec.name.clone(), change.apply(&spec.capability)?);
        if let Some(entry) = self.tools.get_mut(&name) {
            let mut spec = entry.tool.spec().clone();
            spec.capability = capability;
            let tool = Arc::clone(&entry.tool);
            *entry = Arc::new(Entry::new(Arc::new(RestrictedTool { tool, spec }))?);
        }
        Ok(())
    }

    /// Removes a tool that is not built in.
    pub fn remove(&mut self, name: &str) -> Result<ToolSpec, RegistryError> {
        let spec = self.get(name)?.clone();
        if spec.source == Source::Builtin {
            return Err(RegistryError::Reserved(spec.name));
        }
        self.tools.remove(&spec.name);
        Ok(spec)
    }

    /// Finds a tool by its name, by an alternative spelling of it, or by its name for models.
    pub fn get(&self, name: &str) -> Result<&ToolSpec, RegistryError> {
        self.entry(name).map(|entry| entry.tool.spec())
    }

    pub(crate) fn entry(&self, name: &str) -> Result<&Entry, RegistryError> {
        let name = name.trim();
        let parsed = ToolName::from_wire(name).ok();
        let found = parsed.and_then(|parsed| self.tools.get(&parsed.canonical()));
        // Models often omit the namespace, or use names from other programs, such as `read_file`.
        let built_in = || {
            let full = format!("{}/{name}", ToolName::BUILTIN)
                .parse::<ToolName>()
                .ok()?;
            self.tools.get(&full.canonical())
        };
        found
            .or_else(|| (!name.contains("_S_")).then(built_in).flatten())
            .map(AsRef::as_ref)
            .ok_or_else(|| RegistryError::NotFound {
                name: name.to_owned(),
                nearest: self.nearest(name),
            })
    }

    /// Resolves the name in a model's call: to a model tool if it is declared, otherwise to a registered tool.
    pub(crate) fn resolve_call(&self, name: &str) -> Result<CallTarget<'_>, RegistryError> {
        let is_available = |tool: &str| self.builtin(tool).is_some();
        match ModelTool::find(name).filter(|tool| tool.is_declared(&is_available)) {
            Some(tool) => Ok(CallTarget::Model(tool)),
            None => self.entry(name).map(CallTarget::Tool),
        }
    }

    /// Finds a built-in tool by its short name.
    pub(crate) fn builtin(&self, short: &str) -> Option<&Entry> {
        let entries = self.tools.iter();
        entries
            .filter(|(name, _)| name.is_builtin())
            .find(|(name, _)| name.short() == short)
            .map(|(_, entry)| entry.as_ref())
    }

    /// The tool that a model's call would run; `None` when it does not exist.
    pub fn tool_for_call(&self, name: &str, arguments: &str) -> Option<&ToolSpec> {
        let entry = match self.resolve_call(name).ok()? {
            CallTarget::Tool(entry) => entry,
            CallTarget::Model(tool) => {
                let mut arguments = serde_json::from_str(arguments).unwrap_or_default();
                // Ignored, because running the call reports errors in the arguments.
                let _ignored = tool.normalize_arguments(&mut arguments);
                self.builtin(tool.select_tool(&arguments))?
            }
        };
        Some(entry.tool.spec())
    }

    /// Declarations of the selected tools, for the model.
    pub fn declarations(
        &self,
        is_declared: impl Fn(&ToolSpec) -> bool,
        offer: ToolOffer,
    ) -> Vec<Declaration> {
        model_tools::declarations(self.list().filter(|spec| is_declared(spec)), offer)
    }

    /// All tools, sorted by name.
    pub fn list(&self) -> impl Iterator<Item = &ToolSpec> {
        self.tools.values().map(|entry| entry.tool.spec())
    }

    /// Returns a registry with the selected tools only. Schemas are not recompiled.
    #[must_use]
    pub fn narrowed(&self, is_selected: impl Fn(&ToolSpec) -> bool) -> Self {
        let selected = self
            .tools
            .iter()
            .filter(|(_, entry)| is_selected(entry.tool.spec()));
        Self {
            tools: selected
                .map(|(name, entry)| (name.clone(), Arc::clone(entry)))
                .collect(),
        }
    }

    /// Returns a registry with an additional tool that searches the selected tools.
    #[must_use]
    pub fn with_search(&self, is_searched: impl Fn(&ToolSpec) -> bool) -> Self {
        let tools = self.list().filter(|spec| is_searched(spec));
        let search = ToolSearch::builtin(tools.map(SearchableTool::from).collect());
        let mut registry = self.narrowed(|_| true);
        let entry = Entry::new(Arc::new(search)).expect("the schema of the search is valid");
        let name = entry.tool.spec().name.clone();
        registry.tools.insert(name, Arc::new(entry));
        registry
    }

    /// Names of tools similar to a name that does not exist.
    fn nearest(&self, name: &str) -> Vec<String> {
        let plain = name.replace("_S_", "/").replace("_C_", ":");
        // Compare with each tool's own name and with its name for models.
        let names: Vec<(String, &ToolName)> = self
            .tools
            .keys()
            .flat_map(|name| {
                [
                    (name.to_string(), name),
                    (model_tools::model_name(name), name),
                ]
            })
            .collect();
        let texts = names.iter().map(|(text, _)| text.as_str());
        let mut similar = Vec::new();
        for text in nearest::all(&plain, texts, 8) {
            let tool = names.iter().find(|(name, _)| *name == text);
            let tool = tool.map(|(_, name)| name.to_string());
            similar.extend(tool.filter(|name| !similar.contains(name)));
        }
        similar.truncate(3);
        similar
    }
}
