//! Parses a validation from YAML.
//!
//! `${VARIABLE}` is expanded everywhere except in the text of a shell command: there, the shell expands it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use cleveragents_actors::Expression;
use cleveragents_domain::yaml::{self, Expand, Fault, Variables};
use cleveragents_domain::{
    DefinitionFault, DefinitionFileError, DefinitionKind, TreePath, ValidationMode, nearest,
};
use cleveragents_tools::ToolName;
use cleveragents_tools::custom::{Header, UnresolvedValue, resolve};
use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::{Map, Value};
use serde_saphyr::Spanned;

use super::definition::{
    CommandCheck, CommandLine, SecretValues, Validation, ValidationCheck, WrappedCheck,
};
use super::placeholders;

/// Default time limit of a command, in seconds.
const DEFAULT_SECONDS: f64 = 600.0;
/// Maximum time limit of a command, in seconds.
const MAX_SECONDS: f64 = 24.0 * 60.0 * 60.0;

/// The names that a transform can use.
const NAMES: [&str; 2] = ["arguments", "output"];

/// Whether a failed validation blocks applying.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ModeEntry {
    /// A failure blocks applying.
    Required,
    /// A failure is only reported.
    Informational,
}

/// The file of a validation.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ValidationEntry {
    cleveragents: Option<Header>,
    /// Name of the validation: `namespace/name`, in lower case. No tool may have the same name.
    #[schemars(with = "String")]
    name: Spanned<String>,
    /// Description for users.
    #[schemars(with = "String")]
    description: Spanned<String>,
    /// Default: `required`.
    mode: Option<ModeEntry>,
    /// The command: a text for a shell, or a list of the program and its arguments. `{name}` is replaced by
    /// an argument of the attachment.
    #[schemars(with = "Option<CommandForm>")]
    command: Option<Spanned<CommandEntry>>,
    /// Time limit in seconds. Default: 600.
    #[schemars(with = "Option<f64>")]
    timeout: Option<UnresolvedValue>,
    /// Whether the command may use the network. Default: false.
    #[schemars(with = "Option<bool>")]
    network: Option<UnresolvedValue>,
    /// Environment variables.
    #[schemars(with = "Option<BTreeMap<String, String>>")]
    environment: Option<Spanned<BTreeMap<String, Spanned<String>>>>,
    /// Working directory within the resource. Default: its root.
    #[schemars(with = "Option<String>")]
    working_directory: Option<Spanned<String>>,
    /// Conditions for passing. Default: exit code 0.
    #[schemars(with = "Option<PassesEntry>")]
    passes_when: Option<Spanned<PassesEntry>>,
    /// Numbers to extract from the output, each by a regular expression with one group; the last match
    /// counts.
    #[schemars(with = "Option<BTreeMap<String, String>>")]
    metrics: Option<Spanned<BTreeMap<String, Spanned<String>>>>,
    /// Minimum values of the metrics.
    #[schemars(with = "Option<BTreeMap<String, f64>>")]
    minimum: Option<BTreeMap<String, UnresolvedValue>>,
    /// Maximum values of the metrics.
    #[schemars(with = "Option<BTreeMap<String, f64>>")]
    maximum: Option<BTreeMap<String, UnresolvedValue>>,
    /// A tool to call instead of a command; it must be read-only.
    #[schemars(with = "Option<String>")]
    wraps: Option<Spanned<String>>,
    /// Arguments of the tool call.
    #[schemars(with = "Option<Map<String, Value>>")]
    arguments: Option<Spanned<Value>>,
    /// An expression over `output` and `arguments`: true, false, or a map with `passed`, `message`, `data`.
    #[schemars(with = "Option<String>")]
    transform: Option<Spanned<String>>,
}

/// Conditions for a command to pass.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PassesEntry {
    /// Exit codes that count as passed.
    #[schemars(with = "Option<Vec<i32>>")]
    exit_code: Option<Spanned<Vec<i32>>>,
    /// Regular expression that the output must match.
    #[schemars(with = "Option<String>")]
    output_matches: Option<Spanned<String>>,
}

/// A text for a shell, or a list of words.
enum CommandEntry {
    Shell(String),
    Words(Vec<String>),
}

/// The two forms of a command, declared only to generate the schema.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "the two forms exist in the schema only")]
enum CommandForm {
    Shell(String),
    Words(Vec<String>),
}

impl<'de> Deserialize<'de> for CommandEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CommandEntryVisitor;
        impl<'de> Visitor<'de> for CommandEntryVisitor {
            type Value = CommandEntry;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a text for a shell, or a list of a program and its arguments")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<CommandEntry, E> {
                Ok(CommandEntry::Shell(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<CommandEntry, A::Error> {
                let mut words = Vec::new();
                while let Some(word) = items.next_element::<String>()? {
                    words.push(word);
                }
                Ok(CommandEntry::Words(words))
            }
        }
        deserializer.deserialize_any(CommandEntryVisitor)
    }
}

/// The JSON schema of validation files, for editors.
pub(super) fn schema() -> Value {
    schemars::schema_for!(ValidationEntry).to_value()
}

/// Parses a validation from the text of its file.
pub(super) fn read(
    text: &str,
    file: &Path,
    variables: Variables<'_>,
) -> Result<Validation, DefinitionFileError> {
    let keys = RefCell::new(SecretValues::default());
    let note_secrets = |name: &str| {
        let value = variables(name)?;
        keys.borrow_mut().note(name, &value);
        Some(value)
    };
    let expand = Expand {
        text,
        variables: &note_secrets,
    };
    let mut validation = read_entry(text)
        .and_then(|entry| entry.finish(&expand))
        .map_err(|complaint| complaint.in_file(file, DefinitionKind::Validation, text))?;
    let mut keys = keys.into_inner();
    if let ValidationCheck::Command(check) = &validation.check {
        for (name, value) in &check.environment {
            keys.note(name, value);
        }
    }
    validation.description = keys.hide(&validation.description);
    validation.keys = keys;
    Ok(validation)
}

fn read_entry(text: &str) -> Result<ValidationEntry, DefinitionFault> {
    let probe: Value = yaml::read(text)?;
    if !probe.is_object() {
        return Err(
            Fault::new("the file is not a map with the fields of a validation")
                .fixed_by("write `name: …`, `description: …` and `command: …`, one per line")
                .into(),
        );
    }
    let entry: ValidationEntry = yaml::read(text)?;
    let header = entry.cleveragents.as_ref();
    yaml::check_version(header.and_then(|header| header.version.as_ref()))?;
    Ok(entry)
}

impl ValidationEntry {
    fn finish(mut self, expand: &Expand<'_>) -> Result<Validation, DefinitionFault> {
        expand.text(&mut self.name.value)?;
        expand.text(&mut self.description.value)?;
        let name = self.tool_name()?;
        if self.description.value.trim().is_empty() {
            return Err(DefinitionFault::rule(
                Fault::at(&self.description, "the description is empty"),
                "describe the check in one sentence",
            ));
        }
        let description = self.description.value.clone();
        let mode = match self.mode {
            Some(ModeEntry::Informational) => ValidationMode::Informational,
            Some(ModeEntry::Required) | None => ValidationMode::Required,
        };
        let check = match (self.command.take(), self.wraps.take()) {
            (Some(command), None) => {
                ValidationCheck::Command(Box::new(self.command_check(&command, expand)?))
            }
            (None, Some(tool)) => {
                ValidationCheck::Wraps(Box::new(self.wrapped_check(tool, expand)?))
            }
            (Some(_), Some(tool)) => {
                return Err(DefinitionFault::rule(
                    Fault::at(&tool, "the validation has both a `command` and `wraps`"),
                    "remove one of them",
                ));
            }
            (None, None) => {
                return Err(DefinitionFault::rule(
                    Fault::at(
                        &self.name,
                        "the validation has neither a `command` nor `wraps`",
                    ),
                    "add `command: …`, or `wraps: TOOL` with a `transform`",
                ));
            }
        };
        Ok(Validation {
            name,
            description,
            mode,
            check,
            keys: SecretValues::default(),
        })
    }

    fn tool_name(&self) -> Result<String, DefinitionFault> {
        let fix = "write `namespace/name` in lower case, such as `local/tests`";
        let refused = |message: String| DefinitionFault::rule(Fault::at(&self.name, message), fix);
        let name: ToolName = self
            .name
            .value
            .parse()
            .map_err(|error: cleveragents_tools::ToolNameError| refused(error.to_string()))?;
        if name.is_reserved() || name.as_name().require_free_namespace().is_err() {
            let space = name.namespace().to_owned();
            return Err(refused(format!("the namespace `{space}` is reserved")));
        }
        Ok(name.to_string())
    }

    /// Refuses fields that are only for validations with the field `other`, which this file does not have.
    fn refuse_fields_of(
        fields: &[(&str, Option<Fault>)],
        other: &str,
    ) -> Result<(), DefinitionFault> {
        for (name, place) in fields {
            if let Some(place) = place {
                let fault = Fault {
                    message: format!("`{name}` belongs to `{other}`, which is missing"),
                    ..place.clone()
                };
                return Err(DefinitionFault::rule(fault, format!("remove `{name}`")));
            }
        }
        Ok(())
    }

    fn command_check(
        &mut self,
        command: &Spanned<CommandEntry>,
        expand: &Expand<'_>,
    ) -> Result<CommandCheck, DefinitionFault> {
        Self::refuse_fields_of(
            &[
                ("arguments", place(self.arguments.as_ref())),
                ("transform", place(self.transform.as_ref())),
            ],
            "wraps",
        )?;
        let line = command_line(command, expand)?;
        let (exit_codes, output_matches) = self.passes(expand)?;
        let metrics = self.metrics(expand)?;
        let minimum = limits(self.minimum.take(), &metrics, expand)?;
        let maximum = limits(self.maximum.take(), &metrics, expand)?;
        Ok(CommandCheck {
            command: line,
            timeout: self.timeout(expand)?,
            network: resolve::<bool>(self.network.take(), expand, "`true` or `false`")?
                .unwrap_or(false),
            environment: self.environment(expand)?,
            working_directory: self.folder(expand)?,
            exit_codes,
            output_matches,
            metrics,
            minimum,
            maximum,
        })
    }

    fn timeout(&mut self, expand: &Expand<'_>) -> Result<Duration, DefinitionFault> {
        let place = self.timeout.clone();
        let seconds = resolve::<f64>(self.timeout.take(), expand, "a number of seconds")?;
        let seconds = seconds.unwrap_or(DEFAULT_SECONDS);
        match place {
            Some(place) if !(seconds > 0.0 && seconds <= MAX_SECONDS) => {
                let message = format!("a timeout of {seconds} seconds is not possible");
                Err(DefinitionFault::rule(
                    Fault::at(&place, message),
                    "write a number of seconds above 0 and up to a day",
                ))
            }
            _ => Ok(Duration::from_secs_f64(seconds)),
        }
    }

    fn environment(
        &mut self,
        expand: &Expand<'_>,
    ) -> Result<BTreeMap<String, String>, DefinitionFault> {
        let Some(given) = self.environment.take() else {
            return Ok(BTreeMap::new());
        };
        let mut environment = BTreeMap::new();
        for (name, mut value) in given.value {
            let is_name = !name.is_empty() && !name.contains(['=', '\0']);
            if !is_name || name.starts_with("CLEVERAGENTS_") || value.value.contains('\0') {
                return Err(DefinitionFault::rule(
                    Fault::at(&value, format!("`{name}` cannot be set here")),
                    "name a variable such as RUST_BACKTRACE; the variables of this program cannot be set",
                ));
            }
            expand.text(&mut value.value)?;
            environment.insert(name, value.value);
        }
        Ok(environment)
    }

    fn folder(&mut self, expand: &Expand<'_>) -> Result<Option<TreePath>, DefinitionFault> {
        let Some(mut folder) = self.working_directory.take() else {
            return Ok(None);
        };
        expand.text(&mut folder.value)?;
        let plain = folder.value.trim_start_matches("./").trim_end_matches('/');
        if plain.is_empty() || plain == "." {
            return Ok(None);
        }
        let path = TreePath::from_bytes(plain.as_bytes()).map_err(|_| {
            let message = format!("`{}` is not a folder inside the resource", folder.value);
            DefinitionFault::rule(
                Fault::at(&folder, message),
                "write a path without `..`, such as `crates/web`",
            )
        })?;
        Ok(Some(path))
    }

    fn passes(
        &mut self,
        expand: &Expand<'_>,
    ) -> Result<(Vec<i32>, Option<Regex>), DefinitionFault> {
        let Some(passes) = self.passes_when.take() else {
            return Ok((vec![0], None));
        };
        let codes = match passes.value.exit_code {
            None => vec![0],
            Some(codes) => {
                let is_code = |code: &i32| (0..=255).contains(code);
                if codes.value.is_empty() || !codes.value.iter().all(is_code) {
                    return Err(DefinitionFault::rule(
                        Fault::at(&codes, "these are not exit codes"),
                        "write a list of numbers from 0 to 255, such as `[0]`",
                    ));
                }
                codes.value
            }
        };
        let matches = passes.value.output_matches;
        let matches = matches.map(|text| expression(text, expand)).transpose()?;
        Ok((codes, matches))
    }

    fn metrics(&mut self, expand: &Expand<'_>) -> Result<BTreeMap<String, Regex>, DefinitionFault> {
        let Some(given) = self.metrics.take() else {
            return Ok(BTreeMap::new());
        };
        let mut metrics = BTreeMap::new();
        for (name, text) in given.value {
            let place = text.clone();
            let regex = expression(text, expand)?;
            if regex.captures_len() != 2 {
                let message = format!(
                    "the expression of `{name}` has {} groups",
                    regex.captures_len() - 1
                );
                return Err(DefinitionFault::rule(
                    Fault::at(&place, message),
                    "put one pair of parentheses around the number, such as `(\\d+) passed`",
                ));
            }
            metrics.insert(name, regex);
        }
        Ok(metrics)
    }

    fn wrapped_check(
        &mut self,
        mut tool: Spanned<String>,
        expand: &Expand<'_>,
    ) -> Result<WrappedCheck, DefinitionFault> {
        Self::refuse_fields_of(
            &[
                ("timeout", place(self.timeout.as_ref())),
                ("network", place(self.network.as_ref())),
                ("environment", place(self.environment.as_ref())),
                ("working_directory", place(self.working_directory.as_ref())),
                ("passes_when", place(self.passes_when.as_ref())),
                ("metrics", place(self.metrics.as_ref())),
            ],
            "command",
        )?;
        expand.text(&mut tool.value)?;
        let name = ToolName::from_wire(tool.value.trim()).map_err(|error| {
            DefinitionFault::rule(
                Fault::at(&tool, error.to_string()),
                "write the full name of a tool, such as `builtin/dir-list`",
            )
        })?;
        let Some(mut transform) = self.transform.take() else {
            return Err(DefinitionFault::rule(
                Fault::at(&tool, "a validation that wraps a tool needs a `transform`"),
                "add `transform: …`, an expression over `output` such as `output.errors == 0`",
            ));
        };
        expand.text(&mut transform.value)?;
        let parsed = Expression::parse(&transform.value).map_err(|error| {
            DefinitionFault::rule(
                Fault::at(&transform, format!("this is not an expression: {error}")),
                "write one over `output`, such as `output.errors == 0`",
            )
        })?;
        let unknown = parsed
            .names()
            .iter()
            .find(|name| !NAMES.contains(&name.as_str()));
        if let Some(unknown) = unknown {
            let fix = match nearest::best(unknown, NAMES.into_iter()) {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => "only `output` and `arguments` exist".to_owned(),
            };
            let message = format!("`{unknown}` is not known in a transform");
            return Err(DefinitionFault::rule(Fault::at(&transform, message), fix));
        }
        let arguments = match self.arguments.take() {
            None => Value::Object(Map::new()),
            Some(mut given) => {
                expand.value(&mut given.value)?;
                if !given.value.is_object() {
                    return Err(DefinitionFault::rule(
                        Fault::at(&given, "the `arguments` are not a map"),
                        "write `name: value`, one per line",
                    ));
                }
                given.value
            }
        };
        Ok(WrappedCheck {
            tool: name.to_string(),
            arguments,
            transform: parsed,
        })
    }
}

fn place<T>(given: Option<&Spanned<T>>) -> Option<Fault> {
    given.map(|given| Fault::at(given, ""))
}

fn command_line(
    command: &Spanned<CommandEntry>,
    expand: &Expand<'_>,
) -> Result<CommandLine, DefinitionFault> {
    let refused =
        |message: &str, fix: &str| DefinitionFault::rule(Fault::at(command, message), fix);
    let empty = || {
        refused(
            "the `command` is empty",
            "write the command, such as `cargo test`",
        )
    };
    match &command.value {
        CommandEntry::Shell(text) if text.trim().is_empty() => Err(empty()),
        CommandEntry::Shell(text) if text.contains('\0') => {
            Err(refused("the `command` contains a zero byte", "remove it"))
        }
        CommandEntry::Shell(text) => Ok(CommandLine::Shell(text.clone())),
        CommandEntry::Words(words) => {
            let mut words = words.clone();
            for word in &mut words {
                expand.text(word)?;
            }
            match words.first().map(|program| program.trim()) {
                None | Some("") => Err(empty()),
                Some(program) if !placeholders::names(program).is_empty() => Err(refused(
                    "the program cannot be an argument",
                    "write the program, and use placeholders only after it",
                )),
                Some(_) if words.iter().any(|word| word.contains('\0')) => {
                    Err(refused("the `command` contains a zero byte", "remove it"))
                }
                Some(_) => Ok(CommandLine::Words(words)),
            }
        }
    }
}

fn expression(mut text: Spanned<String>, expand: &Expand<'_>) -> Result<Regex, DefinitionFault> {
    expand.text(&mut text.value)?;
    regex::RegexBuilder::new(&text.value)
        .multi_line(true)
        .build()
        .map_err(|error| {
            let message = error.to_string();
            let last = message.lines().last().unwrap_or_default().trim().to_owned();
            DefinitionFault::rule(
                Fault::at(&text, format!("this is not a regular expression: {last}")),
                "write one such as `(\\d+) passed`, in single quotes",
            )
        })
}

fn limits(
    given: Option<BTreeMap<String, UnresolvedValue>>,
    metrics: &BTreeMap<String, Regex>,
    expand: &Expand<'_>,
) -> Result<BTreeMap<String, f64>, DefinitionFault> {
    let mut limits = BTreeMap::new();
    for (name, value) in given.unwrap_or_default() {
        if !metrics.contains_key(&name) {
            let known = metrics.keys().map(String::as_str);
            let fix = match nearest::best(&name, known) {
                Some(nearest) => format!("did you mean `{nearest}`?"),
                None => format!("add `{name}` to `metrics`"),
            };
            let message = format!("there is no metric `{name}`");
            return Err(DefinitionFault::rule(Fault::at(&value, message), fix));
        }
        if let Some(limit) = resolve::<f64>(Some(value), expand, "a number")? {
            limits.insert(name, limit);
        }
    }
    Ok(limits)
}

#[cfg(test)]
mod tests;
