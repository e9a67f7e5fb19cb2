//! [`Registry`]: the tools there are, with their schemas compiled.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleveragents_domain::{Code, Diagnose, nearest};
use jsonschema::{PatternOptions, Validator};
use serde_json::{Value, json};

use crate::capability::{CapabilityChange, Loosened};
use crate::name::ToolName;
use crate::spec::{Source, ToolSpec};
use crate::tool::{Grounds, Prepared, Tool, Unprepared};
use crate::tool_search::{Findable, ToolSearch};

/// Why a tool cannot be registered or removed.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// There is one of this name.
    #[error("a tool named `{0}` exists already")]
    Exists(ToolName),
    /// The namespace belongs to the program.
    #[error("the namespace of `{0}` is not for tools of your own")]
    Reserved(ToolName),
    /// There is none of this name.
    #[error("there is no tool named `{name}`")]
    NotFound {
        /// The name as it was given.
        name: String,
        /// Names that are much like it.
        nearest: Vec<String>,
    },
    /// A schema is not one.
    #[error("the {which} of `{tool}` is not a JSON schema: {why}")]
    Schema {
        /// The tool.
        tool: ToolName,
        /// `input_schema` or `output_schema`.
        which: &'static str,
        /// What is wrong.
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

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Exists(name) => format!("remove it first: `agents tool remove {name}`"),
            Self::Reserved(_) => "choose another namespace, such as `local/`".to_owned(),
            Self::NotFound { nearest, .. } => match nearest.first() {
                Some(name) => format!("did you mean `{name}`? `agents tool list` shows all"),
                None => "run `agents tool list` to see what there is".to_owned(),
            },
            Self::Schema { .. } => "correct the schema in the file of the tool".to_owned(),
        })
    }

    fn details(&self) -> Value {
        match self {
            Self::NotFound { name, nearest } => json!({ "name": name, "nearest": nearest }),
            _ => Value::Null,
        }
    }
}

/// A tool with its schemas compiled.
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

/// Compiles a JSON schema. Nothing is fetched for it, and its patterns take linear time.
pub(crate) fn compile(schema: &Value) -> Result<Validator, String> {
    jsonschema::options()
        .offline()
        .with_pattern_options(PatternOptions::regex())
        .build(schema)
        .map_err(|error| error.to_string())
}

/// Why a tool cannot be made stricter.
#[derive(Debug, thiserror::Error)]
pub enum TightenError {
    /// There is none of this name.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// It would be freer.
    #[error(transparent)]
    Loosened(#[from] Loosened),
}

/// A tool with a stricter capability than its own.
struct Tightened {
    tool: Arc<dyn Tool>,
    spec: ToolSpec,
}

impl Tool for Tightened {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare<'a>(
        &'a self,
        arguments: Value,
        grounds: Grounds<'a>,
    ) -> Result<Box<dyn Prepared + 'a>, Unprepared> {
        self.tool.prepare(arguments, grounds)
    }
}

/// Says what is wrong with a JSON schema that cannot be one of a tool.
pub fn check_schema(schema: &Value) -> Result<(), String> {
    compile(schema).map(drop)
}

/// Says why a value does not fit a JSON schema, and where.
pub fn check_value(schema: &Value, value: &Value) -> Result<(), String> {
    let validator = compile(schema)?;
    let mut errors = validator.iter_errors(value);
    match errors.next() {
        None => Ok(()),
        Some(error) => {
            let place = error.instance_path().to_string();
            let place = if place.is_empty() { "it" } else { &place };
            Err(format!("{place}: {error}"))
        }
    }
}

/// The tools there are.
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
    /// A registry without any tool.
    pub fn empty() -> Self {
        Self::default()
    }

    /// A registry with the tools that are part of the program.
    pub fn with_builtins() -> Self {
        let mut registry = Self::empty();
        for tool in crate::builtin::all() {
            let entry = Entry::new(tool).expect("the schemas of built-in tools are in order");
            registry
                .tools
                .insert(entry.tool.spec().name.clone(), Arc::new(entry));
        }
        registry
    }

    /// Adds a tool. The namespaces `builtin/` and `skill/` and those reserved by the program are
    /// refused; only what opens agent skills may be in `skill/`.
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), RegistryError> {
        let name = tool.spec().name.clone();
        let is_skills =
            name.namespace() == ToolName::SKILL && tool.spec().source == Source::AgentSkill;
        if (name.is_programs() && !is_skills) || name.as_name().require_free_namespace().is_err() {
            return Err(RegistryError::Reserved(name));
        }
        if self.tools.contains_key(&name) {
            return Err(RegistryError::Exists(name));
        }
        self.tools.insert(name, Arc::new(Entry::new(tool)?));
        Ok(())
    }

    /// Makes a tool stricter than it is by itself.
    pub fn tighten(&mut self, name: &str, change: &CapabilityChange) -> Result<(), TightenError> {
        let spec = self.get(name)?;
        let (name, capability) = (spec.name.clone(), change.apply(&spec.capability)?);
        if let Some(entry) = self.tools.get_mut(&name) {
            let mut spec = entry.tool.spec().clone();
            spec.capability = capability;
            let tool = Arc::clone(&entry.tool);
            *entry = Arc::new(Entry::new(Arc::new(Tightened { tool, spec }))?);
        }
        Ok(())
    }

    /// Takes a tool of the user's out again.
    pub fn remove(&mut self, name: &str) -> Result<ToolSpec, RegistryError> {
        let found = self.get(name)?.clone();
        if found.source == Source::Builtin {
            return Err(RegistryError::Reserved(found.name));
        }
        self.tools.remove(&found.name);
        Ok(found)
    }

    /// A tool by its name, by another spelling of it, or as a model says it.
    pub fn get(&self, name: &str) -> Result<&ToolSpec, RegistryError> {
        self.entry(name).map(|entry| entry.tool.spec())
    }

    pub(crate) fn entry(&self, name: &str) -> Result<&Entry, RegistryError> {
        let name = name.trim();
        let parsed = ToolName::from_wire(name).ok();
        let found = parsed.and_then(|parsed| self.tools.get(&parsed.canonical()));
        // Models often leave out the namespace, and use names they know from elsewhere, such as `read_file`.
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

    /// Every tool, by name.
    pub fn list(&self) -> impl Iterator<Item = &ToolSpec> {
        self.tools.values().map(|entry| entry.tool.spec())
    }

    /// The same tools without those that are not to be kept. Nothing is compiled again.
    #[must_use]
    pub fn narrowed(&self, keep: impl Fn(&ToolSpec) -> bool) -> Self {
        let kept = self
            .tools
            .iter()
            .filter(|(_, entry)| keep(entry.tool.spec()));
        Self {
            tools: kept
                .map(|(name, entry)| (name.clone(), Arc::clone(entry)))
                .collect(),
        }
    }

    /// The same tools, and a tool that searches among some of them.
    #[must_use]
    pub fn with_search(&self, among: impl Fn(&ToolSpec) -> bool) -> Self {
        let tools = self.list().filter(|spec| among(spec));
        let search = ToolSearch::builtin(tools.map(Findable::from).collect());
        let mut registry = self.narrowed(|_| true);
        let entry = Entry::new(Arc::new(search)).expect("the schema of a search is in order");
        let name = entry.tool.spec().name.clone();
        registry.tools.insert(name, Arc::new(entry));
        registry
    }

    /// Names that are much like one that does not exist.
    fn nearest(&self, name: &str) -> Vec<String> {
        let plain = name.replace("_S_", "/").replace("_C_", ":");
        let known: Vec<String> = self.tools.keys().map(ToString::to_string).collect();
        nearest::all(&plain, known.iter().map(String::as_str), 3)
    }
}
