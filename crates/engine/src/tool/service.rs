//! [`ToolService`]: the tools there are, and what people said "always" to.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleveragents_domain::{Code, Diagnose};
use cleveragents_store::tools::StoredTool;
use cleveragents_store::{Engine, tools};
use cleveragents_tools::custom::{self, ToolFileError};
use cleveragents_tools::{
    Effect, PermissionRules, Registry, RegistryError, Rule, RuleError, Tool as _, ToolSpec,
};
use serde_json::{Value, json};

/// Why a tool or rule cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The tool cannot be registered, found or removed.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// A rule is not well formed.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// The file of a tool is wrong.
    #[error(transparent)]
    File(#[from] Box<ToolFileError>),
    /// The file of a tool cannot be read.
    #[error("`{}` cannot be read: {why}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        why: String,
    },
    /// There is no such rule.
    #[error("no rule `{0}` is remembered")]
    NoRule(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] cleveragents_store::Error),
}

impl Diagnose for ToolError {
    fn code(&self) -> Code {
        match self {
            Self::Registry(error) => error.code(),
            Self::Rule(error) => error.code(),
            Self::File(error) => error.code(),
            Self::Unreadable { .. } => Code::MalformedTool,
            Self::NoRule(_) => Code::RuleNotFound,
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Registry(error) => error.hint(),
            Self::Rule(error) => error.hint(),
            Self::File(error) => error.hint(),
            Self::Unreadable { .. } => Some("name a file that exists and may be read".to_owned()),
            Self::NoRule(_) => Some("`agents permission list` shows all".to_owned()),
            Self::Store(error) => error.hint(),
        }
    }

    fn details(&self) -> Value {
        match self {
            Self::Registry(error) => error.details(),
            Self::Rule(error) => error.details(),
            Self::File(error) => error.details(),
            Self::Unreadable { path, .. } => json!({"path": path}),
            Self::NoRule(_) => Value::Null,
            Self::Store(error) => error.details(),
        }
    }
}

/// Keeps tools and permissions.
#[derive(Clone)]
pub struct ToolService {
    engine: Arc<Engine>,
}

impl ToolService {
    /// A service over a store.
    pub const fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// Every tool there is. `variable` gives the values that the files of tools ask for.
    pub fn registry(
        &self,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Registry, ToolError> {
        let mut registry = Registry::with_builtins();
        for stored in self.stored()? {
            let tool = custom::read(&stored.definition, Path::new(&stored.source), variable)
                .map_err(Box::new)?;
            registry.add(Arc::new(tool))?;
        }
        Ok(registry)
    }

    /// The registered tools as their files were.
    pub fn stored(&self) -> Result<Vec<StoredTool>, ToolError> {
        Ok(self.engine.read(tools::list)?)
    }

    /// Registers the tool of a file; `update` replaces one of the same name. The text is kept, so that
    /// the file may go.
    pub fn add(
        &self,
        file: &Path,
        update: bool,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<ToolSpec, ToolError> {
        let text = std::fs::read_to_string(file).map_err(|error| ToolError::Unreadable {
            path: file.to_owned(),
            why: error.to_string(),
        })?;
        let tool = custom::read(&text, file, variable).map_err(Box::new)?;
        let spec = tool.spec().clone();
        // A built-in or reserved name, or a schema that is none, is refused here.
        Registry::with_builtins().add(Arc::new(tool))?;
        let (name, source) = (spec.name.to_string(), file.display().to_string());
        let is_new = self.engine.write(move |unit| {
            if tools::insert(unit, &name, &text, &source)? {
                return Ok::<_, cleveragents_store::Error>(true);
            }
            if update {
                tools::update(unit, &name, &text, &source)?;
            }
            Ok(update)
        })?;
        if is_new {
            Ok(spec)
        } else {
            Err(RegistryError::Exists(spec.name).into())
        }
    }

    /// Removes a registered tool.
    pub fn remove(
        &self,
        name: &str,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<ToolSpec, ToolError> {
        let spec = self.registry(variable)?.remove(name)?;
        let stored = spec.name.to_string();
        self.engine
            .write(move |unit| tools::remove(unit, &stored))?;
        Ok(spec)
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

    /// Remembers a rule.
    pub fn remember(&self, rule: &Rule) -> Result<(), ToolError> {
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
