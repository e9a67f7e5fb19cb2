//! Resolves the name and arguments of a model's call to a tool and validated arguments.

use serde_json::Value;

use super::{CallRequest, RefusalReason};
use crate::argument_errors::{not_json, schema_errors, with_example};
use crate::model_tools::{ModelTool, normalize};
use crate::name::ToolName;
use crate::ports::Redact;
use crate::registry::{CallTarget, Entry, Registry, RegistryError};

/// Resolves a call to a tool and arguments that are valid for its schema.
pub(super) fn read_call<'a>(
    registry: &'a Registry,
    request: &CallRequest,
    redactor: &dyn Redact,
) -> Result<(&'a Entry, Value), RefusalReason> {
    let name = request.tool.as_str();
    let target = registry
        .resolve_call(name)
        .map_err(|error| unknown(name, error))?;
    let arguments = parse(&request.arguments, redactor).map_err(RefusalReason::BadArguments)?;
    match target {
        CallTarget::Tool(entry) => {
            let arguments = check(entry, arguments, redactor);
            Ok((entry, arguments.map_err(RefusalReason::BadArguments)?))
        }
        CallTarget::Model(tool) => {
            translate(registry, tool, arguments, redactor).map_err(RefusalReason::BadArguments)
        }
    }
}

fn unknown(name: &str, error: RegistryError) -> RefusalReason {
    RefusalReason::UnknownTool {
        name: name
            .chars()
            .filter(|letter| !letter.is_control())
            .take(160)
            .collect(),
        nearest: match error {
            RegistryError::NotFound { nearest, .. } => nearest,
            _ => Vec::new(),
        },
    }
}

fn parse(text: &str, redactor: &dyn Redact) -> Result<Value, String> {
    // Some models send an empty text instead of `{}`.
    let text = if text.trim().is_empty() { "{}" } else { text };
    let value: Value =
        serde_json::from_str(text).map_err(|error| not_json(text, &error, redactor))?;
    if !value.is_object() {
        return Err("they are not a JSON object".to_owned());
    }
    Ok(value)
}

/// Validates arguments against the schema of a tool.
fn check(entry: &Entry, mut arguments: Value, redactor: &dyn Redact) -> Result<Value, String> {
    let spec = entry.tool.spec();
    if spec.name.is_builtin() {
        normalize(&spec.input_schema, &mut arguments);
    }
    match schema_errors(&entry.input, &spec.input_schema, &arguments, redactor) {
        None => Ok(arguments),
        Some(errors) => Err(with_example(errors, &spec.input_schema)),
    }
}

/// Translates a call of a model tool to a built-in tool and its arguments.
fn translate<'a>(
    registry: &'a Registry,
    tool: &ModelTool,
    mut arguments: Value,
    redactor: &dyn Redact,
) -> Result<(&'a Entry, Value), String> {
    let (schema, validator) = tool.checks();
    tool.normalize_arguments(&mut arguments)?;
    if let Some(errors) = schema_errors(validator, schema, &arguments, redactor) {
        return Err(with_example(errors, schema));
    }
    let translated = tool.translate(arguments)?;
    let entry = registry.builtin(translated.tool).ok_or_else(|| {
        let name = ToolName::builtin(translated.tool);
        format!("`{name}` is not available")
    })?;
    Ok((entry, check(entry, translated.arguments, redactor)?))
}
