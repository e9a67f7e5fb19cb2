//! [`Validation`]: what a file says about how to judge.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use cleveragents_actors::Expression;
use cleveragents_domain::{TreePath, ValidationMode};
use regex::Regex;
use serde_json::Value;

use super::places;

/// A tool that judges: something passes or does not.
#[derive(Debug, Clone)]
pub struct Validation {
    /// Its name; tools and validations share one space of names.
    pub name: String,
    /// What it looks at, for people.
    pub description: String,
    /// Whether it stands in the way of applying when it fails.
    pub mode: ValidationMode,
    /// How it judges.
    pub check: ValidationCheck,
    /// Values in it that nobody may see.
    pub keys: Keys,
}

/// Values of variables that are keys, as far as the names of the variables tell.
#[derive(Clone, Default)]
pub struct Keys(Vec<String>);

/// What the name of a variable that holds a key has in it.
const KEY_NAMES: [&str; 6] = ["KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL", "AUTH"];

/// A value that is shorter than this is found everywhere.
const SHORTEST_KEY: usize = 6;

impl Keys {
    /// Remembers the value of a variable when it is a key.
    pub(super) fn note(&mut self, name: &str, value: &str) {
        let upper = name.to_uppercase();
        let is_key = KEY_NAMES.iter().any(|word| upper.contains(word));
        if is_key && value.len() >= SHORTEST_KEY && !self.0.iter().any(|known| known == value) {
            self.0.push(value.to_owned());
        }
    }

    /// A text without them.
    pub fn hide(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for key in &self.0 {
            text = text.replace(key.as_str(), "[REDACTED]");
        }
        text
    }

    /// A JSON value without them.
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

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[HIDDEN]")
    }
}

/// How a validation judges.
#[derive(Debug, Clone)]
pub enum ValidationCheck {
    /// By running a command.
    Command(Box<CommandCheck>),
    /// By calling a tool.
    Wraps(Box<WrappedCheck>),
}

/// A command line with places for arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandLine {
    /// For a shell.
    Shell(String),
    /// A program and its arguments.
    Words(Vec<String>),
}

/// A command that judges.
#[derive(Clone)]
pub struct CommandCheck {
    /// What is run.
    pub command: CommandLine,
    /// How long it may take.
    pub timeout: Duration,
    /// Whether it may use the network.
    pub network: bool,
    /// Variables for it. Their values may be secrets.
    pub environment: BTreeMap<String, String>,
    /// The folder in the part to run it in.
    pub working_directory: Option<TreePath>,
    /// The exit codes with which it passes.
    pub exit_codes: Vec<i32>,
    /// What its output must match.
    pub output_matches: Option<Regex>,
    /// Numbers to take from its output, each by the one group of an expression.
    pub metrics: BTreeMap<String, Regex>,
    /// The least that a number may be.
    pub minimum: BTreeMap<String, f64>,
    /// The most that a number may be.
    pub maximum: BTreeMap<String, f64>,
}

impl CommandCheck {
    /// A command for a shell that passes when it succeeds.
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

/// A tool whose answer is judged.
#[derive(Clone)]
pub struct WrappedCheck {
    /// The tool.
    pub tool: String,
    /// What it is called with; texts may have places.
    pub arguments: Value,
    /// Makes a verdict of `output` and `arguments`.
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
    /// The names of its places, which arguments must fill.
    pub fn places(&self) -> BTreeSet<String> {
        match &self.check {
            ValidationCheck::Command(check) => match &check.command {
                CommandLine::Shell(text) => places::names(text),
                CommandLine::Words(words) => {
                    words.iter().flat_map(|word| places::names(word)).collect()
                }
            },
            ValidationCheck::Wraps(check) => places::names_in(&check.arguments),
        }
    }

    /// What is wrong with arguments for its places, in words.
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
            "it takes none".to_owned()
        } else {
            format!("it takes {}", listed(places))
        };
        Some(format!(
            "it has no place for these arguments: {}; {there}",
            listed(unknown)
        ))
    }
}
