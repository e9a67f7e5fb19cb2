//! [`Validation`]: the definition of a check.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use cleveragents_actors::Expression;
use cleveragents_domain::{TreePath, ValidationMode};
use regex::Regex;
use serde_json::Value;

use super::placeholders;

/// A check that passes or fails.
#[derive(Debug, Clone)]
pub struct Validation {
    /// Full name. Tools and validations share one namespace of names.
    pub name: String,
    /// Description for users.
    pub description: String,
    /// Whether a failure blocks the apply.
    pub mode: ValidationMode,
    /// Command or tool that performs the check.
    pub check: ValidationCheck,
    /// Secret values in the definition.
    pub keys: SecretValues,
}

/// Values of variables whose names indicate a secret.
#[derive(Clone, Default)]
pub struct SecretValues(Vec<String>);

/// Parts of variable names that indicate a secret.
const KEY_NAMES: [&str; 6] = ["KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL", "AUTH"];

/// Minimum length of a secret, in bytes: redacting shorter values would damage unrelated text.
const MIN_KEY_BYTES: usize = 6;

impl SecretValues {
    /// Records the value of a variable if its name indicates a secret.
    pub(super) fn note(&mut self, name: &str, value: &str) {
        let upper = name.to_uppercase();
        let is_key = KEY_NAMES.iter().any(|word| upper.contains(word));
        if is_key && value.len() >= MIN_KEY_BYTES && !self.0.iter().any(|known| known == value) {
            self.0.push(value.to_owned());
        }
    }

    /// Redacts the secrets in a text.
    pub fn hide(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for key in &self.0 {
            text = text.replace(key.as_str(), "[REDACTED]");
        }
        text
    }

    /// Redacts the secrets in a JSON value.
    pub fn hide_in(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.hide(text)),
            Value::Array(items) => items.iter().map(|item| self.hide_in(item)).collect(),
            Value::Object(fields) => fields
                .iter()
                .map(|(name, field)| (name.clone(), self.hide_in(field)))
                .collect(),
            other => other.clone(),
        }
    }

    /// Whether there are no secrets.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for SecretValues {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[HIDDEN]")
    }
}

/// Command or tool of a validation.
#[derive(Debug, Clone)]
pub enum ValidationCheck {
    /// Runs a command.
    Command(Box<CommandCheck>),
    /// Calls a tool.
    Wraps(Box<WrappedCheck>),
}

/// A command line with placeholders for arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandLine {
    /// Text for a shell.
    Shell(String),
    /// A program and its arguments.
    Words(Vec<String>),
}

/// A check that passes or fails by the result of a command.
#[derive(Clone)]
pub struct CommandCheck {
    pub command: CommandLine,
    /// Time limit.
    pub timeout: Duration,
    /// Whether the command may use the network.
    pub network: bool,
    /// Environment variables. The values may be secrets.
    pub environment: BTreeMap<String, String>,
    /// Working directory within the part.
    pub working_directory: Option<TreePath>,
    /// Exit codes that count as passed.
    pub exit_codes: Vec<i32>,
    /// Regular expression that the output must match.
    pub output_matches: Option<Regex>,
    /// Numbers to extract from the output, each by a regular expression with one group.
    pub metrics: BTreeMap<String, Regex>,
    /// Minimum value of each metric.
    pub minimum: BTreeMap<String, f64>,
    /// Maximum value of each metric.
    pub maximum: BTreeMap<String, f64>,
}

impl CommandCheck {
    /// A shell command that passes when its exit code is 0.
    pub(crate) fn shell(command: String) -> Self {
        Self {
            command: CommandLine::Shell(command),
            timeout: Duration::from_mins(10),
            network: false,
            environment: BTreeMap::new(),
            working_directory: None,
            exit_codes: vec![0],
            output_matches: None,
            metrics: BTreeMap::new(),
            minimum: BTreeMap::new(),
            maximum: BTreeMap::new(),
        }
    }
}

impl fmt::Debug for CommandCheck {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CommandCheck")
            .field("timeout", &self.timeout)
            .field("environment", &self.environment.keys())
            .finish_non_exhaustive()
    }
}

/// A check that passes or fails by the result of a tool call.
#[derive(Clone)]
pub struct WrappedCheck {
    /// Name of the tool.
    pub tool: String,
    /// Arguments of the call; texts may contain placeholders.
    pub arguments: Value,
    /// Computes the verdict from `output` and `arguments`.
    pub transform: Expression,
}

impl fmt::Debug for WrappedCheck {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("WrappedCheck")
            .field("tool", &self.tool)
            .finish_non_exhaustive()
    }
}

impl Validation {
    /// Names of the placeholders, each of which needs an argument.
    pub fn placeholder_names(&self) -> BTreeSet<String> {
        match &self.check {
            ValidationCheck::Command(check) => match &check.command {
                CommandLine::Shell(text) => placeholders::names(text),
                CommandLine::Words(words) => words
                    .iter()
                    .flat_map(|word| placeholders::names(word))
                    .collect(),
            },
            ValidationCheck::Wraps(check) => placeholders::names_in(&check.arguments),
        }
    }

    /// Description of a mismatch between arguments and placeholders.
    pub fn argument_mismatch(&self, arguments: &BTreeMap<String, String>) -> Option<String> {
        let placeholders = self.placeholder_names();
        let listed = |names: Vec<&String>| {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            names.join(", ")
        };
        let missing: Vec<&String> = placeholders
            .iter()
            .filter(|name| !arguments.contains_key(*name))
            .collect();
        if !missing.is_empty() {
            return Some(format!("these arguments are missing: {}", listed(missing)));
        }
        let unknown: Vec<&String> = arguments
            .keys()
            .filter(|name| !placeholders.contains(*name))
            .collect();
        if unknown.is_empty() {
            return None;
        }
        let accepted: Vec<&String> = placeholders.iter().collect();
        let accepted = if accepted.is_empty() {
            "it accepts none".to_owned()
        } else {
            format!("it accepts {}", listed(accepted))
        };
        Some(format!(
            "it has no placeholders for these arguments: {}; {accepted}",
            listed(unknown)
        ))
    }
}
