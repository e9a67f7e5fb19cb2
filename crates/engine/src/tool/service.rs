//! [`ToolService`]: the tools there are, and what people said "always" to.

use std::sync::Arc;

use cleveragents_domain::{Code, Diagnose};
use cleveragents_store::{Engine, tools};
use cleveragents_tools::{Effect, PermissionRules, Registry, RegistryError, Rule, RuleError};
use serde_json::Value;

/// Why a tool or rule cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The tool cannot be registered, found or removed.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// A rule is not well formed.
    #[error(transparent)]
    Rule(#[from] RuleError),
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
            Self::NoRule(_) => Code::InvalidRule,
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Registry(error) => error.hint(),
            Self::Rule(error) => error.hint(),
            Self::NoRule(_) => Some("`agents permission list` shows all".to_owned()),
            Self::Store(error) => error.hint(),
        }
    }

    fn details(&self) -> Value {
        match self {
            Self::Registry(error) => error.details(),
            Self::Rule(error) => error.details(),
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

    /// Every tool there is.
    pub fn registry(&self) -> Result<Registry, ToolError> {
        Ok(Registry::with_builtins())
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
