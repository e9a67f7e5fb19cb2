//! [`ToolService`]: the tools there are, and what people said "always" to.

use std::path::Path;
use std::sync::Arc;

use cleveragents_domain::{Code, Diagnose, PlanId, ToolInvocationId, nearest};
use cleveragents_store::tools::{StoredTool, ToolKind};
use cleveragents_store::{Engine, resources, tools};
use cleveragents_tools::custom;
use cleveragents_tools::{
    Effect, FileError, PermissionRules, Registry, RegistryError, Rule, RuleError, Tool as _,
    ToolName, ToolSpec,
};
use serde_json::{Value, json};

use crate::plan::{Used, active_plans_using, hint_to_end};
use crate::resource::{Outcome, Register};

/// Why a tool or rule cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The tool cannot be registered, found or removed.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The tool is part of the program.
    #[error("`{0}` is part of the program and cannot be removed")]
    BuiltIn(ToolName),
    /// The name is that of a validation.
    #[error("`{0}` is the name of a validation; tools and validations share one space of names")]
    Validation(ToolName),
    /// Plans that are not over use it.
    #[error("plans that are not over use the tool `{name}`: {}", crate::project::shown(.plans))]
    UsedByPlans {
        /// The tool.
        name: String,
        /// The plans.
        plans: Vec<PlanId>,
    },
    /// A rule is not well formed.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// The file of a tool is wrong.
    #[error(transparent)]
    File(#[from] Box<FileError>),
    /// There is no such rule.
    #[error("no rule `{0}` is remembered")]
    NoRule(String),
    /// There is no such call, or there are several.
    #[error("{} call of a tool has an id that begins with `{reference}`", if .candidates.is_empty() { "no" } else { "more than one" })]
    NoCall {
        /// The id as it was given.
        reference: String,
        /// Some that begin with it.
        candidates: Vec<ToolInvocationId>,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] cleveragents_store::Error),
}

impl Diagnose for ToolError {
    fn code(&self) -> Code {
        match self {
            Self::Registry(error) => error.code(),
            Self::BuiltIn(_) => Code::BuiltInTool,
            Self::Validation(_) => Code::ToolExists,
            Self::UsedByPlans { .. } => Code::ToolInUse,
            Self::Rule(error) => error.code(),
            Self::File(error) => error.code(),
            Self::NoRule(_) => Code::RuleNotFound,
            Self::NoCall { .. } => Code::InvocationNotFound,
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Registry(error) => error.hint(),
            Self::BuiltIn(name) => Some(format!(
                "forbid it instead: `agents permission add 'deny {name}'`"
            )),
            Self::Validation(name) => Some(format!(
                "choose another name; `agents validation show {name}` shows it"
            )),
            Self::UsedByPlans { plans, .. } => hint_to_end(plans),
            Self::Rule(error) => error.hint(),
            Self::File(error) => error.hint(),
            Self::NoRule(_) => Some("`agents permission list` shows all".to_owned()),
            Self::NoCall { .. } => Some(
                "give six or more characters of an id; `agents tool calls` shows them".to_owned(),
            ),
            Self::Store(error) => error.hint(),
        }
    }

    fn details(&self) -> Value {
        match self {
            Self::Registry(error) => error.details(),
            Self::UsedByPlans { name, plans } => json!({"name": name, "plans": plans}),
            Self::Rule(error) => error.details(),
            Self::File(error) => error.details(),
            Self::BuiltIn(_) | Self::Validation(_) | Self::NoRule(_) => Value::Null,
            Self::NoCall { candidates, .. } => json!({"candidates": candidates}),
            Self::Store(error) => error.details(),
        }
    }
}

/// A tool of the user's as it is registered.
#[derive(Debug)]
pub struct RegisteredTool {
    /// Its file and its dates.
    pub stored: StoredTool,
    /// What the file says now, with the variables of now.
    pub spec: Result<ToolSpec, Box<FileError>>,
}

impl RegisteredTool {
    /// Reads a stored file anew.
    pub fn read(stored: StoredTool, variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let spec = custom::read(&stored.definition, Path::new(&stored.source), variable)
            .map(|tool| tool.spec().clone())
            .map_err(Box::new);
        Self { stored, spec }
    }
}

/// The tools that can be called.
#[derive(Debug)]
pub struct Callable {
    /// Those that can.
    pub registry: Registry,
    /// Those that are registered and cannot.
    pub left_out: Vec<LeftOut>,
}

/// A registered tool that cannot be read any more: one of them must not stop the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Its name.
    pub name: String,
    /// What is wrong with its file.
    pub why: String,
}

/// A tool that was just registered.
#[derive(Debug)]
pub struct AddedTool {
    /// What its file says.
    pub spec: ToolSpec,
    /// Its file and its dates.
    pub stored: StoredTool,
    /// Whether it is new or took the place of another.
    pub outcome: Outcome,
}

/// Keeps tools and permissions.
#[derive(Clone)]
pub struct ToolService {
    pub(super) engine: Arc<Engine>,
}

impl ToolService {
    /// A service over a store.
    pub const fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// Every tool that can be called, and those that cannot be read any more. `variable` gives the
    /// values that the files of tools ask for.
    pub fn registry(
        &self,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Callable, ToolError> {
        let mut registry = Registry::with_builtins();
        let mut left_out = Vec::new();
        for stored in self.stored()? {
            let read = custom::read(&stored.definition, Path::new(&stored.source), variable)
                .map_err(|error| ToolError::from(Box::new(error)))
                .and_then(|tool| Ok(registry.add(Arc::new(tool))?));
            if let Err(error) = read {
                left_out.push(LeftOut {
                    name: stored.name,
                    why: error.to_string(),
                });
            }
        }
        Ok(Callable { registry, left_out })
    }

    /// The registered tools as their files were.
    pub fn stored(&self) -> Result<Vec<StoredTool>, ToolError> {
        Ok(self
            .engine
            .read(|reader| tools::list(reader, ToolKind::Tool))?)
    }

    /// The registered tools, those included whose files cannot be read any more.
    pub fn registered(
        &self,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Vec<RegisteredTool>, ToolError> {
        let read = |stored| RegisteredTool::read(stored, variable);
        Ok(self.stored()?.into_iter().map(read).collect())
    }

    /// Registers the tool that the text of a file describes. The text is kept, so that the file may
    /// go; `file` should be absolute, since programs beside it are found by it.
    pub fn add(
        &self,
        text: &str,
        file: &Path,
        register: Register,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<AddedTool, ToolError> {
        let tool = custom::read(text, file, variable).map_err(Box::new)?;
        let spec = tool.spec().clone();
        // A built-in or reserved name, or a schema that is none, is refused here.
        Registry::with_builtins().add(Arc::new(tool))?;
        let (name, source) = (spec.name.to_string(), file.display().to_string());
        let (definition, own) = (text.to_owned(), spec.name.clone());
        let added = self.engine.write(move |unit| {
            let outcome = if tools::insert(unit, ToolKind::Tool, &name, &definition, &source)? {
                Outcome::Created
            } else if register == Register::Update
                && tools::update(unit, ToolKind::Tool, &name, &definition, &source)?
            {
                Outcome::Updated
            } else {
                let is_validation = tools::get(unit, &name)?
                    .is_some_and(|there| there.kind == ToolKind::Validation);
                return Err(if is_validation {
                    ToolError::Validation(own.clone())
                } else {
                    RegistryError::Exists(own.clone()).into()
                });
            };
            Ok(tools::get(unit, &name)?.map(|stored| (stored, outcome)))
        })?;
        match added {
            Some((stored, outcome)) => Ok(AddedTool {
                spec,
                stored,
                outcome,
            }),
            // It was there a moment ago, in the same unit of work.
            None => Err(not_found(&spec.name.to_string(), &[]).into()),
        }
    }

    /// Removes a registered tool, also one whose file cannot be read any more.
    pub fn remove(&self, name: &str) -> Result<StoredTool, ToolError> {
        let found = self.find_stored(name)?;
        let key = found.name.clone();
        let is_removed = self.engine.write(move |unit| {
            resources::lock(unit)?;
            let plans = active_plans_using(unit, Used::Tool(&key))?;
            if !plans.is_empty() {
                return Err(ToolError::UsedByPlans {
                    name: key.clone(),
                    plans,
                });
            }
            Ok(tools::remove(unit, ToolKind::Tool, &key)?)
        })?;
        // Somebody else may have removed it meanwhile.
        if is_removed {
            Ok(found)
        } else {
            Err(not_found(name, &[]).into())
        }
    }

    /// A registered tool by its name; a built-in one is refused.
    pub fn find_stored(&self, name: &str) -> Result<StoredTool, ToolError> {
        let builtins = Registry::with_builtins();
        if let Ok(spec) = builtins.get(name) {
            return Err(ToolError::BuiltIn(spec.name.clone()));
        }
        let wanted = ToolName::from_wire(name.trim()).map(|name| name.to_string());
        let mut stored = self.stored()?;
        let place = stored
            .iter()
            .position(|tool| wanted.as_ref().is_ok_and(|wanted| *wanted == tool.name));
        if let Some(place) = place {
            return Ok(stored.swap_remove(place));
        }
        let own = stored.into_iter().map(|tool| tool.name);
        let known: Vec<String> = builtins
            .list()
            .map(|spec| spec.name.to_string())
            .chain(own)
            .collect();
        Err(not_found(name, &known).into())
    }

    /// What people said "always" to, and the rules of the configuration.
    pub fn rules(
        &self,
        configured: &[String],
        otherwise: Effect,
    ) -> Result<PermissionRules, ToolError> {
        let mut rules = configured
            .iter()
            .map(|rule| rule.parse::<Rule>())
            .collect::<Result<Vec<_>, _>>()?;
        for rule in self.remembered()? {
            rules.push(rule.parse()?);
        }
        Ok(PermissionRules::new(rules, otherwise))
    }

    /// The remembered rules, as text.
    pub fn remembered(&self) -> Result<Vec<String>, ToolError> {
        Ok(self.engine.read(tools::rules)?)
    }

    /// Remembers a rule. `false` when it was remembered already.
    pub fn remember(&self, rule: &Rule) -> Result<bool, ToolError> {
        let text = rule.to_string();
        Ok(self
            .engine
            .write(move |unit| tools::allow_always(unit, &text))?)
    }

    /// Forgets a rule.
    pub fn forget(&self, rule: &str) -> Result<(), ToolError> {
        let text = rule.to_owned();
        if self
            .engine
            .write(move |unit| tools::forget_rule(unit, &text))?
        {
            Ok(())
        } else {
            Err(ToolError::NoRule(rule.to_owned()))
        }
    }
}

fn not_found(name: &str, known: &[String]) -> RegistryError {
    RegistryError::NotFound {
        name: name.to_owned(),
        nearest: nearest::all(name, known.iter().map(String::as_str), 3),
    }
}
