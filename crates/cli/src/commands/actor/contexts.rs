//! `actor context`: named conversations that runs of actors can continue.

use std::path::Path;

use cleveragents_application::{ContextService, read_context};
use cleveragents_domain::Code;
use serde_json::json;

use crate::arguments::{ActorContext, Rehearsal, WhichContext};
use crate::commands::turn_view::short;
use crate::commands::write_file;
use crate::commands::{counted, read_definition};
use crate::context::Context;
use crate::output::{Align, CommandError, Panel, Report, Table};

pub(super) fn run(
    context: &Context,
    command: ActorContext,
) -> Result<Option<Report>, CommandError> {
    let rehearsal = match &command {
        ActorContext::Clear { which } | ActorContext::Remove { which } => which.deletion.rehearsal,
        _ => Rehearsal::default(),
    };
    let contexts = ContextService::new(rehearsal.engine(context)?, context.sessions()?);
    let report = match command {
        ActorContext::List => list(&contexts)?,
        ActorContext::Show { name } => show(&contexts, &name)?,
        ActorContext::Clear { which } => clear(&contexts, &which)?,
        ActorContext::Remove { which } => remove(&contexts, &which)?,
        ActorContext::Export { name, output } => {
            return export(&contexts, &name, output.as_deref());
        }
        ActorContext::Import { file, name } => import(&contexts, &file, name)?,
    };
    Ok(Some(report))
}

fn list(contexts: &ContextService) -> Result<Report, CommandError> {
    let all = contexts.list()?;
    let table = Table::new("Contexts")
        .column("Name", Align::Left)
        .column("Messages", Align::Right)
        .column("Changed", Align::Left)
        .empty("No contexts. Create one with `agents actor run --context NAME`")
        .rows(all.iter().map(|context| {
            vec![
                context.name.as_str().into(),
                context.messages.into(),
                context.updated_at.into(),
            ]
        }));
    let entries: Vec<_> = all
        .iter()
        .map(|context| {
            json!({
                "name": context.name,
                "messages": context.messages,
                "session": context.session,
                "created": context.created_at,
                "updated": context.updated_at,
            })
        })
        .collect();
    Ok(Report::new("actor context list")
        .data(json!({"contexts": entries, "summary": {"total": all.len()}}))
        .table(table)
        .ok(format!("{} listed", counted(all.len(), "context"))))
}

fn show(contexts: &ContextService, name: &str) -> Result<Report, CommandError> {
    let summary = contexts.get(name)?;
    let exported = contexts.export(name)?;
    let table = Table::new("Messages")
        .column("Role", Align::Left)
        .column("Content", Align::Left)
        .empty("No messages yet")
        .rows(exported.messages.iter().map(|message| {
            vec![
                message.role.as_str().into(),
                short(&message.content, 200).into(),
            ]
        }));
    Ok(Report::new("actor context show")
        .data(json!({
            "name": summary.name,
            "created": summary.created_at,
            "updated": summary.updated_at,
            "messages": exported.messages,
        }))
        .panel(
            Panel::new("Context")
                .row("Name", summary.name)
                .row("Messages", summary.messages)
                .row("Created", summary.created_at)
                .row("Changed", summary.updated_at),
        )
        .table(table)
        .ok("Context loaded"))
}

/// Names of the selected contexts.
fn selected_names(
    contexts: &ContextService,
    which: &WhichContext,
) -> Result<Vec<String>, CommandError> {
    Ok(match &which.name {
        Some(name) => vec![contexts.get(name)?.name],
        None => contexts
            .list()?
            .into_iter()
            .map(|context| context.name)
            .collect(),
    })
}

fn clear(contexts: &ContextService, which: &WhichContext) -> Result<Report, CommandError> {
    let names = selected_names(contexts, which)?;
    if !names.is_empty() {
        let question = format!("Delete all messages of {}?", names.join(", "));
        which.deletion.confirm(&question)?;
    }
    let (mut cleared, mut emptied) = (Vec::new(), Vec::new());
    for name in names {
        let messages = contexts.clear(&name)?;
        cleared.push(json!({"name": name, "messages": messages}));
        emptied.push((name, messages));
    }
    let done = format!("{} cleared", counted(cleared.len(), "context"));
    let report = Report::new("actor context clear").data(json!({"cleared": cleared}));
    let report = with_summary(report, which, &emptied);
    Ok(which.deletion.conclude(report, done))
}

fn remove(contexts: &ContextService, which: &WhichContext) -> Result<Report, CommandError> {
    let names = selected_names(contexts, which)?;
    if !names.is_empty() {
        let question = format!("Remove {} and all messages?", names.join(", "));
        which.deletion.confirm(&question)?;
    }
    let mut removed = Vec::new();
    for name in &names {
        removed.push((name.clone(), contexts.remove(name)?.messages));
    }
    let report = Report::new("actor context remove").data(json!({"removed": names}));
    let report = with_summary(report, which, &removed);
    let done = format!("{} removed", counted(names.len(), "context"));
    Ok(which.deletion.conclude(report, done))
}

/// Adds the contexts with the number of their messages to the report of a rehearsal.
fn with_summary(report: Report, which: &WhichContext, contexts: &[(String, u64)]) -> Report {
    if !which.deletion.dry_run() {
        return report;
    }
    let panel = Panel::new("Messages");
    report.panel(contexts.iter().fold(panel, |panel, (name, messages)| {
        panel.row(name.as_str(), *messages)
    }))
}

fn export(
    contexts: &ContextService,
    name: &str,
    output: Option<&Path>,
) -> Result<Option<Report>, CommandError> {
    let exported = contexts.export(name)?;
    let is_yaml = output
        .and_then(Path::extension)
        .is_some_and(|extension| extension == "yaml" || extension == "yml");
    let unwritable =
        |reason: String| CommandError::internal("the context cannot be written").with_hint(reason);
    let text = if is_yaml {
        serde_saphyr::to_string(&exported).map_err(|error| unwritable(error.to_string()))?
    } else {
        let text = serde_json::to_string_pretty(&exported);
        text.map_err(|error| unwritable(error.to_string()))? + "\n"
    };
    let Some(path) = output else {
        return Ok(Some(Report::printed("actor context export", text)));
    };
    write_file(path, text.as_bytes())?;
    Ok(Some(
        Report::new("actor context export")
            .data(json!({
                "name": exported.name,
                "messages": exported.messages.len(),
                "file": path.display().to_string(),
            }))
            .ok(format!(
                "{} written to {}",
                counted(exported.messages.len(), "message"),
                path.display()
            )),
    ))
}

fn import(
    contexts: &ContextService,
    file: &Path,
    name: Option<String>,
) -> Result<Report, CommandError> {
    let text = read_definition(file, "the context file", Code::MalformedContext)?;
    let mut exported = read_context(&text)?;
    if let Some(name) = name {
        exported.name = name;
    }
    let imported = contexts.import(&exported)?;
    Ok(Report::new("actor context import")
        .data(json!({"name": imported.name, "messages": imported.messages}))
        .panel(
            Panel::new("Context")
                .row("Name", imported.name)
                .row("Messages", imported.messages),
        )
        .ok("Context imported"))
}
