//! `tool show`: definition of a tool.

use cleveragents_application::tool_operations::{ShowTool, SlotInfo};
use cleveragents_tools::{Binding, WorkspaceNeed};

use super::capability_panel;
use crate::commands::yes_no;
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report, Table};

pub(super) fn run(context: &Context, name: String) -> Result<Report, CommandError> {
    let tool = context.call(ShowTool { name })?;
    let affected = match tool.workspace_need {
        WorkspaceNeed::Required => "the sandbox",
        WorkspaceNeed::None => "none of your files",
    };
    let mut panel = Panel::new("Tool")
        .row("Name", tool.name.clone())
        .row("Description", tool.description.clone())
        .row("Source", tool.source.as_str())
        .row("Category", tool.category.as_str())
        .row("Acts on", affected)
        .row("Timeout", Cell::Seconds(tool.timeout));
    if let Some(config) = &tool.config {
        panel = panel
            .row("Config", config.clone())
            .row("Version", tool.version)
            .row("Created", tool.created)
            .row("Updated", tool.updated);
    }
    let mut report = Report::new("tool show")
        .panel(panel)
        .panel(capability_panel(&tool.capability));
    if !tool.resources.is_empty() {
        report = report.table(slots(&tool.resources));
    }
    report = report.text(format!("Input schema:\n{:#}", tool.input_schema));
    if let Some(output) = &tool.output_schema {
        report = report.text(format!("Output schema:\n{output:#}"));
    }
    if let Some(definition) = &tool.definition {
        report = report.text(format!("File:\n{definition}"));
    }
    Ok(report.data(tool).ok("Tool shown"))
}

const fn binding(binding: Binding) -> &'static str {
    match binding {
        Binding::Contextual => "contextual",
        Binding::Static => "static",
        Binding::Parameter => "parameter",
    }
}

fn slots(slots: &[SlotInfo]) -> Table {
    let headings = ["Slot", "Type", "Access", "Required", "Binding", "Resource"];
    Table::with_columns("Resources", headings).rows(slots.iter().map(|slot| {
        vec![
            slot.slot.clone().into(),
            slot.resource_type.clone().into(),
            slot.access.as_str().into(),
            yes_no(slot.required).into(),
            binding(slot.binding).into(),
            slot.resource.clone().into(),
        ]
    }))
}
