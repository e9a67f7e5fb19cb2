//! Registered tools, and the permission rules that users stored by answering "always".

use std::path::Path;
use std::sync::Arc;

use cleveragents_domain::yaml::Variables;
use cleveragents_domain::{
    Code, DefinitionFileError, DefinitionKind, Diagnose, Hint, ToolInvocationId, hint, suggest,
};
use cleveragents_store::definitions::{self, StoredDefinition};
use cleveragents_store::{Reader, permission_rules};
use cleveragents_tools::custom::{self, CustomTool};
use cleveragents_tools::{
    Effect, PermissionRules, Registry, RegistryError, Rule, RuleError, Tool as _, ToolName,
    ToolSpec,
};
use serde_json::{Value, json};

use crate::definition::{DefinitionError, DefinitionService, DefinitionText, DefinitionType};
use crate::plan::{PlanDependency, active_plans_using};

/// Failure of the tool service.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The tool cannot be found, read, registered or removed.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// The tool conflicts with a built-in or reserved tool, or its schema is invalid.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// A validation has this name.
    #[error("`{0}` is the name of a validation; tools and validations share their names")]
    Validation(String),
    /// A rule is malformed.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// The rule does not exist.
    #[error("the rule `{0}` is not stored")]
    NoRule(String),
    /// No call has this id, or several have this prefix.
    #[error("{} tool call has an id that begins with `{reference}`", if .candidates.is_empty() { "no" } else { "more than one" })]
    NoCall {
        /// The given id or prefix.
        reference: String,
        /// Some calls with this prefix.
        candidates: Vec<ToolInvocationId>,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] cleveragents_store::Error),
}

impl Diagnose for ToolError {
    fn code(&self) -> Code {
        match self {
            Self::Definition(error) => error.code(),
            Self::Registry(error) => error.code(),
            Self::Validation(_) => Code::ToolExists,
            Self::Rule(error) => error.code(),
            Self::NoRule(_) => Code::RuleNotFound,
            Self::NoCall { .. } => Code::InvocationNotFound,
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Definition(error) => error.hint(),
            Self::Registry(error) => error.hint(),
            Self::Validation(name) => Some(hint!(
                "choose another name; {} shows it",
                suggest::validation_show(name)
            )),
            Self::Rule(error) => error.hint(),
            Self::NoRule(_) => Some(hint!("{} lists all", suggest::permission_list())),
            Self::NoCall { .. } => Some(hint!(
                "give six or more characters of an id; {} lists them",
                suggest::tool_calls()
            )),
            Self::Store(error) => error.hint(),
        }
    }

    fn details(&self) -> Value {
        match self {
            Self::Definition(error) => error.details(),
            Self::Registry(error) => error.details(),
            Self::Rule(error) => error.details(),
            Self::Validation(_) | Self::NoRule(_) => Value::Null,
            Self::NoCall { candidates, .. } => json!({"candidates": candidates}),
            Self::Store(error) => error.details(),
        }
    }
}

impl From<Box<DefinitionFileError>> for ToolError {
    fn from(error: Box<DefinitionFileError>) -> Self {
        Self::Definition(error.into())
    }
}

/// The tools that can be called.
#[derive(Debug)]
pub struct CallableTools {
    /// Valid tools.
    pub registry: Registry,
    /// Registered tools that are invalid.
    pub left_out: Vec<LeftOut>,
}

/// A registered tool with an invalid file. It does not block the other tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Name of the tool.
    pub name: String,
    /// Description of the error in the file of the tool.
    pub why: String,
}

/// The registered tools, and the stored permission rules.
pub type ToolService = DefinitionService<ToolSpec>;

impl DefinitionType for ToolSpec {
    const KIND: DefinitionKind = DefinitionKind::Tool;
    type Reading<'a> = Variables<'a>;
    type Error = ToolError;

    fn read(
        text: DefinitionText<'_>,
        _: &[StoredDefinition],
        variables: Variables<'_>,
    ) -> Result<Self, Box<DefinitionFileError>> {
        let tool = read_tool(text, variables)?;
        Ok(tool.spec().clone())
    }

    fn schema() -> Value {
        custom::schema()
    }

    fn name(&self) -> String {
        self.name.to_string()
    }

    fn complete_name(name: &str) -> String {
        ToolName::from_wire(name.trim()).map_or_else(|_| name.to_owned(), |name| name.to_string())
    }

    fn built_in_names(_: Variables<'_>) -> Vec<String> {
        let builtins = Registry::with_builtins();
        builtins.list().map(|spec| spec.name.to_string()).collect()
    }

    fn explain_missing(
        _: &mut dyn Reader,
        name: &str,
        _: Variables<'_>,
    ) -> Result<Option<ToolError>, ToolError> {
        let builtins = Registry::with_builtins();
        let built_in = builtins
            .get(name)
            .ok()
            .map(|spec| DefinitionError::BuiltIn {
                kind: Self::KIND,
                name: spec.name.to_string(),
            });
        Ok(built_in.map(ToolError::from))
    }

    /// Refuses a built-in or reserved name, and an invalid schema.
    fn check_new(
        &self,
        text: DefinitionText<'_>,
        _: &[StoredDefinition],
        variables: Variables<'_>,
    ) -> Result<(), ToolError> {
        let tool = read_tool(text, variables)?;
        Ok(Registry::with_builtins().add(Arc::new(tool))?)
    }

    fn check_name_free(reader: &mut dyn Reader, name: &str) -> Result<(), ToolError> {
        match definitions::get(reader, DefinitionKind::Validation, name)? {
            Some(_) => Err(ToolError::Validation(name.to_owned())),
            None => Ok(()),
        }
    }

    fn check_unused(
        reader: &mut dyn Reader,
        found: &StoredDefinition,
        _: &[StoredDefinition],
    ) -> Result<(), ToolError> {
        let plans = active_plans_using(reader, PlanDependency::Tool(&found.name))?;
        Ok(DefinitionError::require_no_plans(
            Self::KIND,
            &found.name,
            plans,
        )?)
    }
}

fn read_tool(
    text: DefinitionText<'_>,
    variables: Variables<'_>,
) -> Result<CustomTool, Box<DefinitionFileError>> {
    custom::read(text.text, Path::new(text.source), variables).map_err(Box::new)
}

impl DefinitionService<ToolSpec> {
    /// All callable tools, and the invalid registered tools. `variable` looks up the variables in the
    /// files of tools.
    pub fn registry(
        &self,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<CallableTools, ToolError> {
        let mut registry = Registry::with_builtins();
        let mut left_out = Vec::new();
        for stored in self.stored()? {
            let read = read_tool((&stored).into(), variable)
                .map_err(ToolError::from)
                .and_then(|tool| Ok(registry.add(Arc::new(tool))?));
            if let Err(error) = read {
                left_out.push(LeftOut {
                    name: stored.name,
                    why: error.to_string(),
                });
            }
        }
        Ok(CallableTools { registry, left_out })
    }

    /// The rules of the configuration, followed by the stored rules. `otherwise` is the effect when no
    /// rule matches.
    pub fn rules(
        &self,
        configured: &[String],
        otherwise: Effect,
    ) -> Result<PermissionRules, ToolError> {
        let mut rules = configured
            .iter()
            .map(|rule| rule.parse::<Rule>())
            .collect::<Result<Vec<_>, _>>()?;
        for rule in self.stored_rules()? {
            rules.push(rule.parse()?);
        }
        Ok(PermissionRules::new(rules, otherwise))
    }

    /// The stored rules, as text.
    pub fn stored_rules(&self) -> Result<Vec<String>, ToolError> {
        Ok(self.engine().read(permission_rules::rules)?)
    }

    /// Stores a rule. Returns `false` when the rule was already stored.
    pub fn remember(&self, rule: &Rule) -> Result<bool, ToolError> {
        let text = rule.to_string();
        Ok(self
            .engine()
            .write(move |unit| permission_rules::allow_always(unit, &text))?)
    }

    /// Removes a stored rule.
    pub fn forget(&self, rule: &str) -> Result<(), ToolError> {
        let text = rule.to_owned();
        if self
            .engine()
            .write(move |unit| permission_rules::forget_rule(unit, &text))?
        {
            Ok(())
        } else {
            Err(ToolError::NoRule(rule.to_owned()))
        }
    }
}
