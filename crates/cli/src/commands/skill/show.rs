//! `skill show` and `skill tools`.

use cleveragents_application::skill_operations::{ListSkillTools, ShowSkill, SkillTool};

use super::{joined, source_names};
use crate::commands::{counted, yes_no};
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report, Table};

fn tool_table(tools: &[SkillTool]) -> Table {
    let headings = ["Name", "Source", "From", "Access", "Checkpoint", "Asks"];
    let rows = tools.iter().map(|tool| {
        let access = if tool.writes {
            Cell::Warn("writes".to_owned())
        } else {
            Cell::Good("reads".to_owned())
        };
        vec![
            tool.name.clone().into(),
            tool.source.clone().into(),
            tool.from_skill.clone().into(),
            access,
            yes_no(tool.checkpoint).into(),
            yes_no(tool.requires_approval).into(),
        ]
    });
    Table::with_columns("Tools", headings)
        .empty("The skill has no tool")
        .rows(rows)
}

pub(super) fn show(context: &Context, name: String) -> Result<Report, CommandError> {
    let details = context.call(ShowSkill {
        name,
        all_tools: context.printer.format().is_human(),
    })?;
    let skill = &details.skill;
    let summary = &details.capability_summary;
    let tools = details.tools.as_ref().unwrap_or(&details.direct_tools);
    Ok(Report::new("skill show")
        .panel(
            Panel::new("Skill")
                .row("Name", skill.name.clone())
                .row("Description", skill.description.clone())
                .row("Kind", skill.kind.as_str())
                .row("Config", skill.config.clone())
                .row("Sources", joined(&source_names(&details.tool_sources)))
                .row("Used by", joined(&details.referenced_by))
                .row("Created", skill.created),
        )
        .panel(
            Panel::new("Capability Summary")
                .row("Tools", Cell::Count(summary.total_tools))
                .row("Read only", Cell::Count(summary.read_only))
                .row("Writes", Cell::Count(summary.writes))
                .row("Checkpointable", Cell::Count(summary.checkpointable))
                .row("Side effects", Cell::Count(summary.has_side_effects))
                .row("Needs approval", Cell::Count(summary.requires_approval)),
        )
        .table(tool_table(tools))
        .data(details)
        .ok("Skill loaded"))
}

pub(super) fn tools(context: &Context, name: String) -> Result<Report, CommandError> {
    let listed = context.call(ListSkillTools { name })?;
    let table = tool_table(&listed.tools);
    let total = listed.summary.total;
    Ok(Report::new("skill tools")
        .data(listed)
        .table(table)
        .ok(format!("{} listed", counted(total, "tool"))))
}
