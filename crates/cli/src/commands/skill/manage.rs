//! `skill add`, `list`, `refresh` and `remove`.

use cleveragents_application::skill_operations::{
    ListSkills, ListedSkill, RemoveSkill, SkillKind, included_skills, skill_servers, tool_sources,
};
use cleveragents_application::{Register, SkillService};
use cleveragents_domain::{DefinitionKind, Diagnose as _};
use cleveragents_skills::{Definition, agent};
use serde_json::json;

use super::{joined, source, source_names};
use crate::arguments::{Deletion, SkillAdd};
use crate::commands::counted;
use crate::commands::definition::{
    listed as listed_sentence, registered, remove as remove_definition,
};
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table, path_text};

const KIND: DefinitionKind = DefinitionKind::Skill;

pub(super) fn add(
    context: &Context,
    skills: &SkillService,
    arguments: &SkillAdd,
) -> Result<Report, CommandError> {
    let path = arguments.path.as_ref().or(arguments.config.as_ref());
    let path = path.ok_or_else(|| CommandError::usage("no file or folder is given"))?;
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
    let sources = tool_sources(flat);
    let report = Report::new("skill add")
        .data(json!({
            "skill": {
                "name": name,
                "description": description,
                "config": added.stored.source,
                "created": added.stored.created_at,
                "updated": added.stored.updated_at,
                "version": added.stored.version,
                "kind": SkillKind::from(&added.definition),
                "outcome": added.outcome,
            },
            "includes": included_skills(flat),
            "tool_sources": sources,
            "total_tools": flat.tools.len(),
            "mcp_servers": skill_servers(flat),
        }))
        .panel(
            Panel::new("Skill Registered")
                .row("Name", name)
                .row("Description", description)
                .row("Config", added.stored.source.clone())
                .row("Tools", Cell::Count(flat.tools.len() as u64))
                .row("Sources", joined(&source_names(&sources)))
                .row("Created", added.stored.created_at),
        );
    let report = match &added.definition {
        Definition::Agent(skill) => skill.deviations.iter().fold(report, |report, deviation| {
            report.warn(format!("other programs may not accept it: {deviation}"))
        }),
        Definition::Collection(_) => report,
    };
    Ok(report.ok(registered(KIND, added.outcome, "added")))
}

/// Unregistered skill folders in the project of the working folder. They are listed but not used,
/// because they contain other people's code.
fn offered_folders(context: &Context, registered_skills: &[ListedSkill]) -> Vec<String> {
    let Some(folder) = context.environment.working_folder() else {
        return Vec::new();
    };
    let root = folder
        .ancestors()
        .find(|folder| folder.join(".git").exists());
    let folders = agent::find(&root.unwrap_or(folder).join(".agents/skills")).unwrap_or_default();
    let unregistered = folders.into_iter().filter(|folder| {
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        registered_skills
            .iter()
            .all(|skill| !skill.config.starts_with(&*folder.to_string_lossy()))
    });
    unregistered.map(|folder| path_text(&folder)).collect()
}

pub(super) fn list(context: &Context) -> Result<Report, CommandError> {
    let mut listed = context.call(ListSkills {})?;
    // Skills are added on this machine, not on a server.
    if context.connection.is_none() {
        listed.offered = offered_folders(context, &listed.skills);
        listed.summary.offered = listed.offered.len() as u64;
    }
    let table = Table::new("Skills")
        .column("Name", Align::Left)
        .column("Kind", Align::Left)
        .column("Tools", Align::Right)
        .column("Includes", Align::Left)
        .column("Sources", Align::Left)
        .keep(["Name"])
        .drop_first(["Sources", "Includes"])
        .empty("No skill is registered or found")
        .rows(listed.skills.iter().map(row));
    let (count, broken) = (listed.summary.total, listed.summary.broken);
    let mut report = Report::new("skill list").table(table);
    for folder in &listed.offered {
        report = report.info(format!(
            "this project offers a skill: `agents skill add {folder}`"
        ));
    }
    let report = report.data(listed).ok(listed_sentence(KIND, count));
    Ok(if broken == 0 {
        report
    } else {
        let skills = counted(broken, "skill");
        report.warn(format!("{skills} cannot be used until fixed or removed"))
    })
}

fn row(skill: &ListedSkill) -> Vec<Cell> {
    let name = Cell::from(skill.name.as_str());
    if let Some(problem) = &skill.problem {
        return vec![
            name,
            Cell::Bad("broken".to_owned()),
            Cell::Count(0),
            "".into(),
            problem.as_str().into(),
        ];
    }
    let words = |words: &Option<Vec<String>>| words.as_deref().unwrap_or_default().join(", ");
    vec![
        name,
        skill.kind.map_or("", SkillKind::as_str).into(),
        Cell::Count(skill.tools.unwrap_or_default()),
        words(&skill.includes).into(),
        words(&skill.sources).into(),
    ]
}

pub(super) fn refresh(
    context: &Context,
    skills: &SkillService,
    name: Option<&str>,
) -> Result<Report, CommandError> {
    let refreshed_skills = skills.refresh(name, &context.variables())?;
    let secrets = context.models(None)?.redactor();
    let mut table = Table::with_columns("Refreshed Skills", ["Name", "Outcome", "Reason"])
        .empty("No skill is registered");
    for name in &refreshed_skills.refreshed {
        table = table.row(vec![
            name.as_str().into(),
            Cell::Good("refreshed".to_owned()),
            "".into(),
        ]);
    }
    for name in &refreshed_skills.unchanged {
        table = table.row(vec![name.as_str().into(), "unchanged".into(), "".into()]);
    }
    let mut failed = Vec::new();
    for (name, error) in &refreshed_skills.failed {
        let message = secrets.text(&error.to_string()).into_owned();
        failed.push(json!({"name": name, "error": message, "code": error.code().as_str()}));
        table = table.row(vec![
            name.as_str().into(),
            Cell::Bad("failed".to_owned()),
            message.into(),
        ]);
    }
    let mut skipped = Vec::new();
    for (name, reason) in &refreshed_skills.skipped {
        skipped.push(json!({"name": name, "reason": reason}));
        let outcome = Cell::Warn("skipped".to_owned());
        table = table.row(vec![name.as_str().into(), outcome, reason.as_str().into()]);
    }
    let report = Report::new("skill refresh")
        .data(json!({
            "refreshed": refreshed_skills.refreshed,
            "unchanged": refreshed_skills.unchanged,
            "failed": failed,
            "skipped": skipped,
            "summary": {
                "refreshed": refreshed_skills.refreshed.len(),
                "unchanged": refreshed_skills.unchanged.len(),
                "failed": refreshed_skills.failed.len(),
                "skipped": refreshed_skills.skipped.len(),
            },
        }))
        .table(table);
    let report = report.ok(format!(
        "{} refreshed",
        counted(refreshed_skills.refreshed.len(), "skill")
    ));
    Ok(match refreshed_skills.failed.len() {
        0 => report,
        count => {
            let skills = counted(count, "skill");
            let message = format!("{skills} could not be read again; the registered content stays");
            report.warn(message).exit_with(1)
        }
    })
}

pub(super) fn remove(
    context: &Context,
    name: &str,
    deletion: Deletion,
) -> Result<Report, CommandError> {
    remove_definition(context, "skill remove", KIND, deletion, |yes, dry_run| {
        RemoveSkill {
            name: name.to_owned(),
            yes,
            dry_run,
        }
    })
}
