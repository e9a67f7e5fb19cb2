//! Reads tool definitions from YAML.
//!
//! The header `cleveragents` and the wrapper `tool` are optional. Capability fields are at the top
//! level or in `capability`, resources in a map or in a list. `${VARIABLE}` and
//! `${VARIABLE:default}` are replaced everywhere except in `code`, where shells use the same syntax.

use std::path::Path;
use std::time::Duration;

use cleveragents_domain::yaml::{self, Expand, Fault, Variables};
use cleveragents_domain::{
    DefinitionFault, DefinitionFileError, DefinitionKind, MicroUsd, nearest,
};
use serde_json::{Value, json};
use serde_saphyr::Spanned;

use super::entries::{Definition, ToolType, WrappedDefinition};
use super::run::{CustomTool, LANGUAGES, Language, Program};
use super::scalar::resolve;
use crate::capability::Access;
use crate::name::ToolName;
use crate::registry::compile;
use crate::spec::{Category, DEFAULT_TIMEOUT, Source, ToolSpec, WorkspaceNeed};

/// Maximum value of `timeout`.
const MAX_TIMEOUT_SECONDS: f64 = 24.0 * 60.0 * 60.0;

/// Reads a tool from the text of its file. `variables` returns the values of `${NAME}`.
pub fn read(
    text: &str,
    file: &Path,
    variables: Variables<'_>,
) -> Result<CustomTool, DefinitionFileError> {
    read_definition(text)
        .and_then(|definition| definition.finish(&Expand { text, variables }, file))
        .map_err(|fault| fault.in_file(file, DefinitionKind::Tool, text))
}

fn read_definition(text: &str) -> Result<Definition, DefinitionFault> {
    let probe: Value = yaml::read(text)?;
    let Some(top) = probe.as_object() else {
        let message = "the file does not contain a map with `name`, `description` and the other fields of a tool";
        return Err(Fault::new(message)
            .fixed_by("write `name: …`, `description: …` and `command: […]`, each on its own line")
            .into());
    };
    let (header, mut definition) = if top.contains_key("tool") {
        let wrapped: WrappedDefinition = yaml::read(text)?;
        yaml::read::<WrappedName>(text)?;
        (wrapped.cleveragents, wrapped.tool)
    } else {
        let definition = yaml::read::<Definition>(text)?;
        yaml::read::<RequiredName>(text)?;
        (None, definition)
    };
    let header = header.or_else(|| definition.cleveragents.take());
    yaml::check_version(header.as_ref().and_then(|header| header.version.as_ref()))?;
    Ok(definition)
}

/// Rejects a missing name, which is optional only inside a skill.
#[derive(serde::Deserialize)]
#[expect(dead_code, reason = "only its presence is checked")]
struct RequiredName {
    name: serde::de::IgnoredAny,
}

#[derive(serde::Deserialize)]
#[expect(dead_code, reason = "only its presence is checked")]
struct WrappedName {
    tool: RequiredName,
}

impl Definition {
    pub(super) fn finish(
        mut self,
        expand: &Expand<'_>,
        file: &Path,
    ) -> Result<CustomTool, DefinitionFault> {
        self.check_kind()?;
        expand.text(&mut self.name.value)?;
        let name = self.tool_name()?;
        let description = self.description(expand)?;
        let program = self.program(expand, file)?;
        let timeout = self.timeout(expand)?;
        let cost = self.cost(expand)?;
        let input_schema = schema(
            self.input_schema.take(),
            expand,
            || json!({"type": "object"}),
        )?;
        let output_schema = schema(self.output_schema.take(), expand, || json!({}))?;
        let resources = self.slots(expand)?;
        let capability = self.capability(expand)?;
        let writing = resources.iter().find(|slot| slot.access == Access::Writes);
        if let (Some(slot), Access::Reads) = (writing, capability.access) {
            let message = format!(
                "the tool only reads, but its slot `{}` is read_write",
                slot.name
            );
            return Err(DefinitionFault::rule(
                Fault::at(&self.name, message),
                "set `access: read_only` for the slot, or `writes: true` for the tool",
            ));
        }
        let spec = ToolSpec {
            name,
            description,
            source: Source::Custom,
            category: Category::Custom,
            workspace_need: WorkspaceNeed::Required,
            input_schema,
            output_schema: Some(output_schema),
            capability,
            resources,
            timeout,
            cost,
        };
        Ok(CustomTool::new(spec, program))
    }

    fn check_kind(&self) -> Result<(), DefinitionFault> {
        if let Some(source) = &self.source
            && source.value != Source::Custom
        {
            let message = format!(
                "a tool with the source `{}` cannot be defined by a file",
                source.value.as_str()
            );
            return Err(DefinitionFault::rule(
                Fault::at(source, message),
                "write `source: custom`, or remove it",
            ));
        }
        if let Some(kind) = &self.tool_type
            && kind.value == ToolType::Validation
        {
            return Err(DefinitionFault::rule(
                Fault::at(kind, "a validation cannot be defined by a tool file"),
                "write `tool_type: tool`, or remove it",
            ));
        }
        Ok(())
    }

    fn tool_name(&self) -> Result<ToolName, DefinitionFault> {
        let fix = "write `namespace/name` in lower case, such as `local/vacuum`";
        let name: ToolName = self
            .name
            .value
            .parse()
            .map_err(|error: crate::ToolNameError| {
                DefinitionFault::rule(Fault::at(&self.name, error.to_string()), fix)
            })?;
        if name.is_reserved() || name.as_name().require_free_namespace().is_err() {
            let message = format!("the namespace `{}` is reserved", name.namespace());
            return Err(DefinitionFault::rule(
                Fault::at(&self.name, message),
                "choose another namespace, such as `local/`",
            ));
        }
        Ok(name)
    }

    fn description(&mut self, expand: &Expand<'_>) -> Result<String, DefinitionFault> {
        expand.text(&mut self.description.value)?;
        if self.description.value.trim().is_empty() {
            return Err(DefinitionFault::rule(
                Fault::at(&self.description, "the description is empty"),
                "describe in one sentence what the tool does, for the model",
            ));
        }
        Ok(self.description.value.clone())
    }

    fn program(&mut self, expand: &Expand<'_>, file: &Path) -> Result<Program, DefinitionFault> {
        match (self.command.take(), self.code.take()) {
            (Some(command), None) => {
                if let Some(language) = &self.language {
                    return Err(DefinitionFault::rule(
                        Fault::at(
                            language,
                            "`language` requires `code`, but the tool has a `command`",
                        ),
                        "remove `language`",
                    ));
                }
                let mut words = command.value.clone();
                for word in &mut words {
                    expand.text(word)?;
                }
                let Some((program, arguments)) = words.split_first() else {
                    return Err(DefinitionFault::rule(
                        Fault::at(&command, "the `command` is empty"),
                        "write the program and its arguments as a list",
                    ));
                };
                // Paths are relative to the file; a bare name is searched in PATH.
                let program = if program.contains('/') {
                    file.parent()
                        .unwrap_or_else(|| Path::new(""))
                        .join(program)
                        .into_os_string()
                } else {
                    program.into()
                };
                Ok(Program::Command {
                    program,
                    arguments: arguments.to_vec(),
                })
            }
            (None, Some(code)) => {
                if code.value.trim().is_empty() {
                    return Err(DefinitionFault::rule(
                        Fault::at(&code, "the `code` is empty"),
                        "write the source code, or use `command`",
                    ));
                }
                let language = match &self.language {
                    None => LANGUAGES[0],
                    Some(written) => language(written)?,
                };
                Ok(Program::Code {
                    language,
                    code: code.value,
                })
            }
            (None, None) => Err(DefinitionFault::rule(
                Fault::at(&self.name, "the tool has neither a `command` nor `code`"),
                "add `command: [program, argument]`, or `code:` with source code",
            )),
            (Some(_), Some(code)) => Err(DefinitionFault::rule(
                Fault::at(&code, "the tool has both a `command` and `code`"),
                "remove one of them",
            )),
        }
    }

    fn timeout(&mut self, expand: &Expand<'_>) -> Result<Duration, DefinitionFault> {
        let place = self.timeout.clone();
        let expected = "a number of seconds";
        let seconds = resolve::<f64>(self.timeout.take(), expand, expected)?;
        let (Some(seconds), Some(place)) = (seconds, place) else {
            return Ok(DEFAULT_TIMEOUT);
        };
        if !(seconds > 0.0 && seconds <= MAX_TIMEOUT_SECONDS) {
            let message = format!("a timeout of {seconds} seconds is out of range");
            return Err(DefinitionFault::rule(
                Fault::at(&place, message),
                "write a number of seconds greater than 0 and at most 86400",
            ));
        }
        Ok(Duration::from_secs_f64(seconds))
    }

    fn cost(&mut self, expand: &Expand<'_>) -> Result<MicroUsd, DefinitionFault> {
        let place = self.cost.clone();
        let dollars = resolve::<f64>(self.cost.take(), expand, "an amount of US dollars")?;
        let (Some(dollars), Some(place)) = (dollars, place) else {
            return Ok(MicroUsd(0));
        };
        MicroUsd::from_usd_rounded_up(dollars).ok_or_else(|| {
            let message = format!("a call cannot cost {dollars} US dollars");
            DefinitionFault::rule(Fault::at(&place, message), "write it like 0.05")
        })
    }
}

fn language(written: &Spanned<String>) -> Result<Language, DefinitionFault> {
    let known = LANGUAGES
        .into_iter()
        .find(|language| language.is_called(&written.value));
    known.ok_or_else(|| {
        let names = LANGUAGES.iter().map(Language::name);
        let nearest = nearest::best(&written.value, names.clone());
        let all: Vec<&str> = names.collect();
        let fault = Fault::at(written, format!("unknown language `{}`", written.value));
        let fix = match nearest {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => format!("write one of {}, or use `command`", all.join(", ")),
        };
        DefinitionFault::rule(fault, fix)
    })
}

fn schema(
    written: Option<Spanned<Value>>,
    expand: &Expand<'_>,
    default: fn() -> Value,
) -> Result<Value, DefinitionFault> {
    let Some(mut written) = written else {
        return Ok(default());
    };
    expand.value(&mut written.value)?;
    if let Err(why) = compile(&written.value) {
        let message = format!("this is not a JSON schema: {why}");
        return Err(DefinitionFault::rule(
            Fault::at(&written, message),
            "write a JSON schema, such as `{type: object, properties: {…}}`",
        ));
    }
    Ok(written.value)
}
