//! `tool add`, `list` and `remove`.

use std::path::Path;

use cleveragents_application::Outcome;
use cleveragents_application::tool_operations::{
    AddTool, ListTools, ListedTool, ListedToolKind, RemoveTool, ToolOrigin,
};
use cleveragents_domain::Code;
use cleveragents_tools::Category;

use super::capability_panel;
use crate::arguments::{ToolKind, ToolList, ToolSource};
use crate::commands::{call_removal, counted, read_definition, removal};
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report, Table};

pub(super) fn add(context: &Context, config: &Path, update: bool) -> Result<Report, CommandError> {
    let added = context.call(AddTool {
        text: read_definition(config, "the file of a tool", Code::MalformedTool)?,
        source: context.definition_source(config),
        update,
    })?;
    let tool = &added.tool_registered;
    let outcome = tool.outcome;
    Ok(Report::new("tool add")
        .panel(
            Panel::new("Tool Registered")
                .row("Name", tool.name.clone())
                .row("Description", tool.description.clone())
                .row("Source", tool.source.as_str())
                .row("Config", tool.config.clone())
                .row("Timeout", Cell::Seconds(tool.timeout))
                .row("Created", tool.created),
        )
        .panel(capability_panel(&added.capability))
        .data(added)
        .ok(match outcome {
            Outcome::Updated => "Tool updated",
            Outcome::Created | Outcome::Unchanged => "Tool registered",
        }))
}

impl TryFrom<ToolList> for ListTools {
    type Error = CommandError;

    fn try_from(arguments: ToolList) -> Result<Self, CommandError> {
        let category = arguments.category.map(|category| {
            let mut known = Category::ALL.into_iter();
            known
                .find(|known| known.as_str() == category)
                .ok_or_else(|| CommandError::usage(format!("there is no category `{category}`")))
        });
        Ok(Self {
            kind: arguments.kind.map(|kind| match kind {
                ToolKind::Tool => ListedToolKind::Tool,
                ToolKind::Validation => ListedToolKind::Validation,
            }),
            namespace: arguments.namespace,
            source: arguments.source.map(|source| match source {
                ToolSource::Builtin => ToolOrigin::Builtin,
                ToolSource::Custom => ToolOrigin::Custom,
            }),
            category: category.transpose()?,
        })
    }
}

fn row(tool: &ListedTool) -> Vec<Cell> {
    let description = tool.description.as_deref().unwrap_or_default();
    let first_line = description.lines().next().unwrap_or_default();
    let (access, text) = match (&tool.problem, tool.writes) {
        (Some(problem), _) => (Cell::Bad("broken".to_owned()), problem.as_str()),
        (None, Some(true)) => (Cell::Warn("writes".to_owned()), first_line),
        (None, _) => (Cell::Good("reads".to_owned()), first_line),
    };
    let kind = tool.kind.as_str();
    vec![
        tool.name.as_str().into(),
        match tool.mode {
            Some(mode) => format!("{kind} ({})", mode.as_str()).into(),
            None => kind.into(),
        },
        tool.source.as_str().into(),
        tool.category.as_str().into(),
        access,
        text.into(),
    ]
}

/// Lists tools.
pub(crate) fn list_report(context: &Context, request: ListTools) -> Result<Report, CommandError> {
    let listed = context.call(request)?;
    let headings = [
        "Name",
        "Type",
        "Source",
        "Category",
        "Access",
        "Description",
    ];
    let table = Table::with_columns("Tools", headings)
        .empty("No tool matches")
        .rows(listed.tools.iter().map(row));
    let (count, broken) = (listed.summary.total, listed.summary.broken);
    let report = Report::new("tool list")
        .data(listed)
        .table(table)
        .ok(format!("{} listed", counted(count, "tool")));
    Ok(if broken == 0 {
        report
    } else {
        report.warn(format!(
            "{} cannot be read any more and left out until mended or removed",
            counted(broken, "tool")
        ))
    })
}

pub(super) fn remove(context: &Context, name: &str, yes: bool) -> Result<Report, CommandError> {
    let removed = call_removal(context, "tool", yes, |yes| RemoveTool {
        name: name.to_owned(),
        yes,
    })?;
    Ok(removal(
        "tool remove",
        "Tool",
        removed.removed,
        removed.config,
    ))
}
