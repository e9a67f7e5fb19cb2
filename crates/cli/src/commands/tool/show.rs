//! `tool show`: everything that is known of a tool.

use cleveragents_application::{RegisteredTool, ToolService};
use cleveragents_domain::Diagnose as _;
use cleveragents_models::Redactor;
use cleveragents_store::tools::StoredTool;
use cleveragents_tools::{Access, Binding, Ground, Registry, Slot, ToolSpec};
use serde_json::{Value, json};

use super::{capability_json, capability_panel};
use crate::commands::yes_no;
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report, Table};

pub(super) fn run(
    context: &Context,
    tools: &ToolService,
    name: &str,
) -> Result<Report, CommandError> {
    let secrets = context.models(None)?.redactor();
    if let Ok(spec) = Registry::with_builtins().get(name) {
        return Ok(report(spec, None, &secrets));
    }
    let RegisteredTool { stored, spec } =
        RegisteredTool::read(tools.find_stored(name)?, &context.variables());
    match spec {
        Ok(spec) => Ok(report(&spec, Some(&stored), &secrets)),
        Err(error) => {
            let hint = error.hint().unwrap_or_default();
            Err(CommandError::from(*error).with_hint(format!(
                "{hint}; then `agents tool add --config FILE --update`, or `agents tool remove {}`",
                stored.name
            )))
        }
    }
}

fn report(spec: &ToolSpec, stored: Option<&StoredTool>, secrets: &Redactor) -> Report {
    let description = secrets.text(&spec.description).into_owned();
    let input = secrets.value(&spec.input_schema);
    let output = spec
        .output_schema
        .as_ref()
        .map(|schema| secrets.value(schema));
    let definition = stored.map(|stored| secrets.text(&stored.definition).into_owned());
    let ground = match spec.ground {
        Ground::Workspace => "the sandbox",
        Ground::Nothing => "nothing of yours",
    };
    let mut panel = Panel::new("Tool")
        .row("Name", spec.name.to_string())
        .row("Description", description.clone())
        .row("Source", spec.source.as_str())
        .row("Category", spec.category.as_str())
        .row("Acts on", ground)
        .row("Timeout", Cell::Seconds(spec.timeout.as_secs_f64()));
    if let Some(stored) = stored {
        panel = panel
            .row("Config", stored.source.clone())
            .row("Version", stored.version)
            .row("Created", stored.created_at)
            .row("Updated", stored.updated_at);
    }
    let mut shown = Report::new("tool show")
        .data(json!({
            "name": spec.name,
            "type": "tool",
            "namespace": spec.name.namespace(),
            "short_name": spec.name.short(),
            "description": description,
            "source": spec.source,
            "category": spec.category,
            "ground": spec.ground,
            "timeout": spec.timeout.as_secs_f64(),
            "input_schema": input,
            "output_schema": output,
            "capability": capability_json(&spec.capability),
            "resources": spec.resources.iter().map(slot_json).collect::<Vec<_>>(),
            "config": stored.map(|stored| &stored.source),
            "definition": definition,
            "version": stored.map(|stored| stored.version),
            "created": stored.map(|stored| stored.created_at),
            "updated": stored.map(|stored| stored.updated_at),
        }))
        .panel(panel)
        .panel(capability_panel(&spec.capability));
    if !spec.resources.is_empty() {
        shown = shown.table(slots(&spec.resources));
    }
    shown = shown.text(format!("Input schema:\n{input:#}"));
    if let Some(output) = &output {
        shown = shown.text(format!("Output schema:\n{output:#}"));
    }
    if let Some(definition) = definition {
        shown = shown.text(format!("File:\n{definition}"));
    }
    shown.ok("Tool shown")
}

const fn binding(binding: Binding) -> &'static str {
    match binding {
        Binding::Contextual => "contextual",
        Binding::Static => "static",
        Binding::Parameter => "parameter",
    }
}

const fn access(access: Access) -> &'static str {
    match access {
        Access::Reads => "read_only",
        Access::Writes => "read_write",
    }
}

fn slot_json(slot: &Slot) -> Value {
    json!({
        "slot": slot.name,
        "type": slot.resource_type,
        "access": access(slot.access),
        "required": slot.required,
        "description": slot.description,
        "binding": slot.binding,
        "resource": slot.resource,
    })
}

fn slots(slots: &[Slot]) -> Table {
    let headings = ["Slot", "Type", "Access", "Required", "Binding", "Resource"];
    Table::with_columns("Resources", headings).rows(slots.iter().map(|slot| {
        vec![
            slot.name.clone().into(),
            slot.resource_type.clone().into(),
            access(slot.access).into(),
            yes_no(slot.required).into(),
            binding(slot.binding).into(),
            slot.resource.clone().into(),
        ]
    }))
}
