//! `skill show` and `skill tools`.

use cleveragents_application::{SkillOrigin, SkillService};
use cleveragents_skills::{AgentSkill, FlatTool};
use serde_json::{Value, json};

use super::manage::{includes, kind};
use super::{listed, servers, source_names, tool_sources};
use crate::commands::{counted, yes_no};
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report, Table, path_text};

/// A tool of a skill, as programs read it.
fn tool_json(tool: &FlatTool) -> Value {
    let capability = &tool.spec.capability;
    json!({
        "name": tool.spec.name,
        "source": tool.source(),
        "from_skill": tool.from_skill.as_ref().map(ToString::to_string),
        "read_only": !capability.is_writing(),
        "writes": capability.is_writing(),
        "checkpoint": capability.checkpointable,
        "requires_approval": capability.needs_approval,
        "overridden": !tool.changes.is_empty(),
    })
}

fn tool_table(tools: &[FlatTool]) -> Table {
    let headings = ["Name", "Source", "From", "Access", "Checkpoint", "Asks"];
    let rows = tools.iter().map(|tool| {
        let capability = &tool.spec.capability;
        let access = if capability.is_writing() {
            Cell::Warn("writes".to_owned())
        } else {
            Cell::Good("reads".to_owned())
        };
        vec![
            tool.spec.name.to_string().into(),
            tool.source().into(),
            tool.from_skill.as_ref().map(ToString::to_string).into(),
            access,
            yes_no(capability.checkpointable).into(),
            yes_no(capability.needs_approval).into(),
        ]
    });
    Table::with_columns("Tools", headings)
        .empty("The skill has no tool")
        .rows(rows)
}

fn agent_json(skill: &AgentSkill) -> Value {
    json!({
        "name": skill.name,
        "description": skill.description,
        "folder": path_text(&skill.folder),
        "license": skill.license,
        "compatibility": skill.compatibility,
        "metadata": skill.metadata,
        "allowed_tools": skill.allowed_tools,
        "steps": skill.steps.len(),
        "files": skill.files().unwrap_or_default(),
        "departures": skill.departures.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

pub(super) fn show(
    context: &Context,
    skills: &SkillService,
    name: &str,
) -> Result<Report, CommandError> {
    let variables = context.variables();
    let secrets = context.models(None)?.redactor();
    let found = skills.find(name, &variables)?;
    let flat = skills.flat(&found.name, &variables)?;
    let definition = found
        .definition
        .as_ref()
        .map_err(|error| CommandError::from((**error).clone()))?;
    let users = skills.used_by(&found.name, &variables)?;
    let users: Vec<String> = users.iter().map(ToString::to_string).collect();
    let description = secrets.text(definition.description()).into_owned();
    let (created, updated, version) = match &found.origin {
        SkillOrigin::Registered(stored) => (
            Some(stored.created_at),
            Some(stored.updated_at),
            Some(stored.version),
        ),
        SkillOrigin::Found(_) => (None, None, None),
    };
    let direct = flat.tools.iter().filter(|tool| tool.from_skill.is_none());
    let summary = flat.summary();
    let agents: Vec<Value> = flat
        .agent_skills
        .iter()
        .map(|(skill, _)| secrets.value(&agent_json(skill)))
        .collect();
    Ok(Report::new("skill show")
        .data(json!({
            "skill": {
                "name": found.name,
                "description": description,
                "config": found.place(),
                "kind": kind(definition),
                "created": created,
                "updated": updated,
                "version": version,
            },
            "includes": includes(&flat),
            "direct_tools": direct.map(tool_json).collect::<Vec<_>>(),
            "tool_sources": tool_sources(&flat),
            "mcp_servers": servers(&flat),
            "agent_skills": agents,
            "referenced_by": users,
            "capability_summary": summary.json(),
        }))
        .panel(
            Panel::new("Skill")
                .row("Name", found.name.clone())
                .row("Description", description)
                .row("Kind", kind(definition))
                .row("Config", found.place())
                .row("Sources", listed(&source_names(&flat)))
                .row("Used by", listed(&users))
                .row("Created", created),
        )
        .panel(
            Panel::new("Capability Summary")
                .row("Tools", Cell::Count(summary.total as u64))
                .row("Read only", Cell::Count(summary.read_only as u64))
                .row("Writes", Cell::Count(summary.writes as u64))
                .row("Checkpointable", Cell::Count(summary.checkpointable as u64))
                .row("Side effects", Cell::Count(summary.side_effects as u64))
                .row("Asks each time", Cell::Count(summary.needs_approval as u64)),
        )
        .table(tool_table(&flat.tools))
        .ok("Skill loaded"))
}

pub(super) fn tools(
    context: &Context,
    skills: &SkillService,
    name: &str,
) -> Result<Report, CommandError> {
    let flat = skills.flat(name, &context.variables())?;
    let summary = flat.summary();
    let tools: Vec<Value> = flat.tools.iter().map(tool_json).collect();
    Ok(Report::new("skill tools")
        .data(json!({
            "tools": tools,
            "mcp_servers": servers(&flat),
            "summary": {
                "total": summary.total,
                "read_only": summary.read_only,
                "writes": summary.writes,
            },
        }))
        .table(tool_table(&flat.tools))
        .ok(format!("{} listed", counted(summary.total, "tool"))))
}
