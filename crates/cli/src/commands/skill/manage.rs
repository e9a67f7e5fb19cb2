//! `skill add`, `list`, `refresh` and `remove`.

use std::path::PathBuf;

use cleveragents_application::{KnownSkill, Outcome, Register, SkillOrigin, SkillService};
use cleveragents_domain::Diagnose as _;
use cleveragents_models::Redactor;
use cleveragents_skills::agent;
use cleveragents_skills::{Definition, Flat};
use serde_json::{Value, json};

use super::{listed, servers, source, source_names, tool_sources};
use crate::arguments::SkillAdd;
use crate::commands::{confirm, counted};
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table};

pub(super) fn add(
    context: &Context,
    skills: &SkillService,
    arguments: &SkillAdd,
) -> Result<Report, CommandError> {
    let path = arguments.path.as_ref().or(arguments.config.as_ref());
    let path = path.ok_or_else(|| CommandError::usage("no file or folder is named"))?;
    let source = source(context, path)?;
    let register = if arguments.update {
        Register::Update
    } else {
        Register::New
    };
    let added = skills.add(&source, register, &context.variables())?;
    let secrets = context.models(None)?.redactor();
    let description = secrets.text(added.definition.description()).into_owned();
    let name = added.definition.name().to_string();
    let flat = &added.flat;
    let report = Report::new("skill add")
        .data(json!({
            "skill": {
                "name": name,
                "description": description,
                "config": added.stored.source,
                "created": added.stored.created_at,
                "updated": added.stored.updated_at,
                "version": added.stored.version,
                "kind": kind(&added.definition),
                "outcome": added.outcome,
            },
            "includes": includes(flat),
            "tool_sources": tool_sources(flat),
            "total_tools": flat.tools.len(),
            "mcp_servers": servers(flat),
        }))
        .panel(
            Panel::new("Skill Registered")
                .row("Name", name)
                .row("Description", description)
                .row("Config", added.stored.source.clone())
                .row("Tools", Cell::Count(flat.tools.len() as u64))
                .row("Sources", listed(&source_names(flat)))
                .row("Created", added.stored.created_at),
        );
    let report = match &added.definition {
        Definition::Agent(skill) => skill.departures.iter().fold(report, |report, departure| {
            report.warn(format!("other programs may not accept it: {departure}"))
        }),
        Definition::Collection(_) => report,
    };
    Ok(report.ok(match added.outcome {
        Outcome::Updated => "Skill updated",
        Outcome::Created | Outcome::Unchanged => "Skill added",
    }))
}

pub(super) const fn kind(definition: &Definition) -> &'static str {
    match definition {
        Definition::Collection(_) => "collection",
        Definition::Agent(_) => "agent_skill",
    }
}

pub(super) fn includes(flat: &Flat) -> Vec<Value> {
    let includes = flat.includes.iter();
    includes
        .map(|name| json!({"name": name.to_string(), "status": "resolved"}))
        .collect()
}

/// Folders of skills in the working folder's project: they are shown and not used, since they come
/// with code of others.
fn offered(context: &Context) -> Vec<PathBuf> {
    let Some(folder) = context.environment.working_folder() else {
        return Vec::new();
    };
    let root = folder
        .ancestors()
        .find(|folder| folder.join(".git").exists());
    agent::find(&root.unwrap_or(folder).join(".agents/skills")).unwrap_or_default()
}

pub(super) fn list(context: &Context, skills: &SkillService) -> Result<Report, CommandError> {
    let variables = context.variables();
    let secrets = context.models(None)?.redactor();
    let mut known = skills.known(&variables)?;
    known.retain(|skill| context.sees(&skill.name));
    let flat = skills.flat_of_all(&known, &variables)?;
    let mut table = ["Name", "Kind", "Tools", "Includes", "Sources"]
        .into_iter()
        .fold(Table::new("Skills"), |table, heading| {
            let align = if heading == "Tools" {
                Align::Right
            } else {
                Align::Left
            };
            table.column(heading, align)
        })
        .empty("No skill is registered or found");
    let mut entries = Vec::new();
    let mut broken = 0;
    for (skill, flat) in known.iter().zip(&flat) {
        let problem = flat.as_ref().err();
        broken += usize::from(problem.is_some());
        let problem = problem.map(|error| secrets.text(&error.to_string()).into_owned());
        entries.push(entry(
            skill,
            flat.as_ref().ok(),
            problem.as_deref(),
            &secrets,
        ));
        table = table.row(row(skill, flat.as_ref().ok(), problem));
    }
    let offered: Vec<PathBuf> = offered(context)
        .into_iter()
        .filter(|folder| {
            let folder = folder.canonicalize().unwrap_or_else(|_| folder.clone());
            known
                .iter()
                .all(|skill| !skill.place().starts_with(&*folder.to_string_lossy()))
        })
        .collect();
    let tools: usize = flat.iter().flatten().map(|flat| flat.tools.len()).sum();
    let count = entries.len();
    let mut report = Report::new("skill list")
        .data(json!({
            "skills": entries,
            "offered": offered,
            "summary": {"total": count, "tools": tools, "broken": broken, "offered": offered.len()},
        }))
        .table(table);
    for folder in &offered {
        report = report.info(format!(
            "this project offers a skill: `agents skill add {}`",
            folder.display()
        ));
    }
    let report = report.ok(format!("{} listed", counted(count, "skill")));
    Ok(if broken == 0 {
        report
    } else {
        let told = counted(broken, "skill");
        report.warn(format!("{told} cannot be used until mended or removed"))
    })
}

const fn origin(skill: &KnownSkill) -> &'static str {
    match skill.origin {
        SkillOrigin::Registered(_) => "registered",
        SkillOrigin::Found(_) => "found",
    }
}

fn entry(
    skill: &KnownSkill,
    flat: Option<&Flat>,
    problem: Option<&str>,
    secrets: &Redactor,
) -> Value {
    let definition = skill.definition.as_ref().ok();
    let description =
        definition.map(|definition| secrets.text(definition.description()).into_owned());
    json!({
        "name": skill.name,
        "tools": flat.map(|flat| flat.tools.len()),
        "includes": flat.map(|flat| flat.includes.iter().map(ToString::to_string).collect::<Vec<_>>()),
        "sources": flat.map(source_names),
        "description": description,
        "kind": definition.map(kind),
        "origin": origin(skill),
        "config": skill.place(),
        "problem": problem,
    })
}

fn row(skill: &KnownSkill, flat: Option<&Flat>, problem: Option<String>) -> Vec<Cell> {
    let name = Cell::from(skill.name.as_str());
    let (Some(flat), Ok(definition)) = (flat, &skill.definition) else {
        let problem = problem.unwrap_or_default();
        return vec![
            name,
            Cell::Bad("broken".to_owned()),
            Cell::Count(0),
            "".into(),
            problem.into(),
        ];
    };
    let includes: Vec<String> = flat.includes.iter().map(ToString::to_string).collect();
    vec![
        name,
        kind(definition).into(),
        Cell::Count(flat.tools.len() as u64),
        includes.join(", ").into(),
        source_names(flat).join(", ").into(),
    ]
}

pub(super) fn refresh(
    context: &Context,
    skills: &SkillService,
    name: Option<&str>,
) -> Result<Report, CommandError> {
    let told = skills.refresh(name, &context.variables())?;
    let secrets = context.models(None)?.redactor();
    let mut table = Table::with_columns("Refreshed Skills", ["Name", "Outcome", "Reason"])
        .empty("No skill is registered");
    for name in &told.refreshed {
        table = table.row(vec![
            name.as_str().into(),
            Cell::Good("refreshed".to_owned()),
            "".into(),
        ]);
    }
    for name in &told.unchanged {
        table = table.row(vec![name.as_str().into(), "unchanged".into(), "".into()]);
    }
    let mut failed = Vec::new();
    for (name, error) in &told.failed {
        let message = secrets.text(&error.to_string()).into_owned();
        failed.push(json!({"name": name, "error": message, "code": error.code().as_str()}));
        table = table.row(vec![
            name.as_str().into(),
            Cell::Bad("failed".to_owned()),
            message.into(),
        ]);
    }
    let mut skipped = Vec::new();
    for (name, reason) in &told.skipped {
        skipped.push(json!({"name": name, "reason": reason}));
        let outcome = Cell::Warn("skipped".to_owned());
        table = table.row(vec![name.as_str().into(), outcome, reason.as_str().into()]);
    }
    let report = Report::new("skill refresh")
        .data(json!({
            "refreshed": told.refreshed,
            "unchanged": told.unchanged,
            "failed": failed,
            "skipped": skipped,
            "summary": {
                "refreshed": told.refreshed.len(),
                "unchanged": told.unchanged.len(),
                "failed": told.failed.len(),
                "skipped": told.skipped.len(),
            },
        }))
        .table(table);
    let report = report.ok(format!(
        "{} refreshed",
        counted(told.refreshed.len(), "skill")
    ));
    Ok(match told.failed.len() {
        0 => report,
        count => {
            let told = counted(count, "skill");
            let message = format!("{told} could not be read again; what was registered stays");
            report.warn(message).exit_with(1)
        }
    })
}

pub(super) fn remove(
    context: &Context,
    skills: &SkillService,
    name: &str,
    yes: bool,
) -> Result<Report, CommandError> {
    let variables = context.variables();
    let found = skills.find(name, &variables)?;
    confirm(context, &format!("Remove skill {}?", found.name), yes)?;
    let removed = skills.remove(&found.name, &variables)?;
    let place = removed.place();
    Ok(Report::new("skill remove")
        .data(json!({"removed": removed.name, "config": place}))
        .panel(
            Panel::new("Removal Summary")
                .row("Skill", removed.name)
                .row("Config", place),
        )
        .ok("Skill removed"))
}
