//! [`Validation`]: a check as its file defines it.

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
    /// Full name; tools and validations share their names.
    pub name: String,
    /// Description for users.
    pub description: String,
    /// Whether a failure blocks the apply.
    pub mode: ValidationMode,
    /// Command or tool that performs it.
    pub check: ValidationCheck,
    /// Secret values in the definition.
    pub keys: Keys,
}

/// Values of variables that are secrets, judging by the names of the variables.
#[derive(Clone, Default)]
pub struct Keys(Vec<String>);

/// Parts of variable names that indicate a secret.
const KEY_NAMES: [&str; 6] = ["KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL", "AUTH"];

/// Minimum length of a secret; shorter values occur everywhere.
const SHORTEST_KEY: usize = 6;

impl Keys {
    /// Records the value of a variable if it is a secret.
    pub(super) fn note(&mut self, name: &str, value: &str) {
        let upper = name.to_uppercase();
        let is_key = KEY_NAMES.iter().any(|word| upper.contains(word));
        if is_key && value.len() >= SHORTEST_KEY && !self.0.iter().any(|known| known == value) {
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

    /// Whether it contains no secret.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Keys {
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

/// A command whose result decides.
#[derive(Clone)]
pub struct CommandCheck {
    /// Command line.
    pub command: CommandLine,
    /// Time limit.
    pub timeout: Duration,
    /// Whether it may use the network.
    pub network: bool,
    /// Environment variables. Their values may be secrets.
    pub environment: BTreeMap<String, String>,
    /// Working directory within the part.
    pub working_directory: Option<TreePath>,
    /// Exit codes that count as passed.
    pub exit_codes: Vec<i32>,
    /// Expression that its output must match.
    pub output_matches: Option<Regex>,
    /// Numbers to extract from its output, each by an expression with one group.
    pub metrics: BTreeMap<String, Regex>,
    /// Minimum value of each metric.
    pub minimum: BTreeMap<String, f64>,
    /// Maximum value of each metric.
    pub maximum: BTreeMap<String, f64>,
}

impl CommandCheck {
    /// A shell command that passes when it succeeds.
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

/// A tool whose result decides.
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
    /// The names of its placeholders, which arguments must fill.
    pub fn places(&self) -> BTreeSet<String> {
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
    pub fn misfit(&self, arguments: &BTreeMap<String, String>) -> Option<String> {
        let wanted = self.places();
        let listed = |names: Vec<&String>| {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            names.join(", ")
        };
        let missing: Vec<&String> = wanted
            .iter()
            .filter(|name| !arguments.contains_key(*name))
            .collect();
        if !missing.is_empty() {
            return Some(format!("these arguments are missing: {}", listed(missing)));
        }
        let unknown: Vec<&String> = arguments
            .keys()
            .filter(|name| !wanted.contains(*name))
            .collect();
        if unknown.is_empty() {
            return None;
        }
        let places: Vec<&String> = wanted.iter().collect();
        let there = if places.is_empty() {
            "it accepts none".to_owned()
        } else {
            format!("it accepts {}", listed(places))
        };
        Some(format!(
            "it has no placeholders for these arguments: {}; {there}",
            listed(unknown)
        ))
    }
}
