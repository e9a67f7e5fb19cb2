//! `tool add`, `list` and `remove`.

use std::path::Path;

use cleveragents_application::tool_operations::{
    AddTool, ListTools, ListedTool, ListedToolKind, RemoveTool, ToolOrigin,
};
use cleveragents_domain::DefinitionKind;
use cleveragents_tools::Category;

use super::capability_panel;
use crate::arguments::{Deletion, ToolKind, ToolList, ToolSource};
use crate::commands::counted;
use crate::commands::definition::{
    DefinitionInput, listed as listed_sentence, read_input, registered, remove as remove_definition,
};
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report, Table};

const KIND: DefinitionKind = DefinitionKind::Tool;

pub(super) fn add(context: &Context, config: &Path, update: bool) -> Result<Report, CommandError> {
    let DefinitionInput { text, source } = read_input(context, config, KIND)?;
    let added = context.call(AddTool {
        text,
        source,
        update,
    })?;
    let tool = &added.tool_registered;
    let sentence = registered(KIND, tool.outcome, "registered");
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
        .ok(sentence))
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
        .keep(["Name"])
        .drop_first(["Category", "Source", "Access"])
        .empty("No tool matches")
        .rows(listed.tools.iter().map(row));
    let (count, broken) = (listed.summary.total, listed.summary.broken);
    let report = Report::new("tool list")
        .data(listed)
        .table(table)
        .ok(listed_sentence(KIND, count));
    Ok(if broken == 0 {
        report
    } else {
        report.warn(format!(
            "{} cannot be read; not offered until fixed or removed",
            counted(broken, "tool")
        ))
    })
}

pub(super) fn remove(
    context: &Context,
    name: &str,
    deletion: Deletion,
) -> Result<Report, CommandError> {
    remove_definition(context, "tool remove", KIND, deletion, |yes, dry_run| {
        RemoveTool {
            name: name.to_owned(),
            yes,
            dry_run,
        }
    })
}
