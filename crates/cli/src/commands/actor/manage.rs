//! `actor add`, `update`, `list`, `remove` and `set-default`.

use std::path::Path;

use cleveragents_actors::{Actor, NodeKind};
use cleveragents_application::{
    ActorError, ActorService, AddedActor, Outcome, Register, agents_of,
};
use cleveragents_domain::Code;
use serde_json::{Value, json};

use super::read_actor;
use crate::arguments::RoleName;
use crate::commands::{confirm, counted, yes_no};
use crate::config::{ConfigFile, keys};
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table};

/// The version of the format of actor files.
pub(super) const SCHEMA_VERSION: &str = "3.0";

pub(super) fn add(
    context: &Context,
    actors: &ActorService,
    command: &'static str,
    config: &Path,
    register: Register,
) -> Result<Report, CommandError> {
    let (text, source) = read_actor(context, config)?;
    let toolset = context.toolset()?;
    let world = toolset.actor_world();
    if context.is_for_others() {
        refuse_tokens(&actors.compile(&text, &source, world)?.actor)?;
    }
    let added = actors.add(&text, &source, register, world)?;
    Ok(added_report(command, &added))
}

/// Refuses a file of somebody elsewhere that would have a token of this machine sent to an address of theirs.
fn refuse_tokens(actor: &Actor) -> Result<(), CommandError> {
    let own = format!("{}:", actor.name);
    let mut agents = agents_of(actor).into_iter();
    let sends = agents.any(|agent| {
        let is_own = agent.name == actor.name || agent.name.starts_with(&own);
        let remote = agent.remote.as_ref();
        is_own && remote.is_some_and(|remote| remote.token_variable.is_some())
    });
    if !sends {
        return Ok(());
    }
    let message = "`token_env` names a variable of the machine that the server runs on";
    Err(CommandError::new(Code::LocalOnly, message)
        .with_hint("have the actor added there: `agents actor add --config FILE`"))
}

/// Replaces an actor; one that is not there is not made.
pub(super) fn update(
    context: &Context,
    actors: &ActorService,
    config: &Path,
) -> Result<Report, CommandError> {
    let (text, source) = read_actor(context, config)?;
    let toolset = context.toolset()?;
    let world = toolset.actor_world();
    let found = actors.compile(&text, &source, world)?;
    if context.is_for_others() {
        refuse_tokens(&found.actor)?;
    }
    if !actors
        .stored()?
        .iter()
        .any(|stored| stored.name == found.actor.name)
    {
        let error = ActorError::NotFound {
            name: found.actor.name.clone(),
            nearest: Vec::new(),
        };
        return Err(CommandError::from(error)
            .with_hint("register it first: `agents actor add --config FILE`"));
    }
    let added = actors.add(&text, &source, Register::Update, world)?;
    Ok(added_report("actor update", &added))
}

fn added_report(command: &'static str, added: &AddedActor) -> Report {
    let actor = &added.actor;
    let (provider, model) = super::show::model_of(actor);
    let report = Report::new(command)
        .data(json!({
            "actor_added": {
                "name": actor.name,
                "provider": provider,
                "model": model,
                "type": actor.kind,
                "description": actor.description,
                "config": added.stored.source,
                "hash": added.hash,
                "schema_version": SCHEMA_VERSION,
                "version": added.stored.version,
                "created": added.stored.created_at,
                "updated": added.stored.updated_at,
                "outcome": added.outcome,
                "warnings": actor.warnings,
            },
        }))
        .panel(
            Panel::new("Actor Added")
                .row("Name", actor.name.clone())
                .row("Type", actor.kind.as_str())
                .row(
                    "Agent",
                    super::show::remote(actor).map(|remote| remote.url.clone()),
                )
                .row("Description", actor.description.clone())
                .row(
                    "Model",
                    model.map(|_| super::show::models(actor).join(", ")),
                )
                .row("Nodes", actor.graph.nodes.len())
                .row("Config", added.stored.source.clone())
                .row("Hash", added.hash.clone()),
        );
    let report = actor
        .warnings
        .iter()
        .fold(report, |report, warning| report.warn(warning.clone()));
    report.ok(match added.outcome {
        Outcome::Updated => "Actor updated",
        Outcome::Created | Outcome::Unchanged => "Actor added",
    })
}

pub(super) fn list(
    context: &Context,
    actors: &ActorService,
    custom_only: bool,
) -> Result<Report, CommandError> {
    let toolset = context.toolset()?;
    let default = context.settings.actor_default();
    let mut entries: Vec<Value> = Vec::new();
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    let mut broken = 0_usize;
    for registered in actors.registered(toolset.actor_world())? {
        let name = registered.stored.name.clone();
        if !context.sees(&name) {
            continue;
        }
        let is_default = default == Some(name.as_str());
        match &registered.actor {
            Ok(actor) => {
                let (provider, model) = super::show::model_of(actor);
                entries.push(json!({
                    "name": name, "provider": provider, "model": model, "type": actor.kind,
                    "description": actor.description, "default": is_default, "built_in": false,
                    "unsafe": actor.is_unsafe, "problem": Value::Null,
                }));
                rows.push(vec![
                    name.into(),
                    actor.kind.as_str().into(),
                    super::show::models(actor).join(", ").into(),
                    yes_no(is_default).into(),
                    actor.description.lines().next().unwrap_or_default().into(),
                ]);
            }
            Err(error) => {
                broken += 1;
                entries.push(json!({
                    "name": name, "provider": Value::Null, "model": Value::Null, "type": Value::Null,
                    "description": Value::Null, "default": is_default, "built_in": false,
                    "unsafe": Value::Null, "problem": error.to_string(),
                }));
                rows.push(vec![
                    name.into(),
                    Cell::Bad("broken".to_owned()),
                    Cell::from(None::<String>),
                    yes_no(is_default).into(),
                    error.to_string().into(),
                ]);
            }
        }
    }
    let custom = entries.len();
    if !custom_only {
        for entry in context.models(None)?.list() {
            let name = entry.name.to_string();
            let is_default = default == Some(name.as_str());
            entries.push(json!({
                "name": name, "provider": entry.name.provider(), "model": entry.name.model(),
                "type": "llm", "description": format!("The model {name}"), "default": is_default,
                "built_in": true, "unsafe": false, "problem": Value::Null,
            }));
            rows.push(vec![
                name.as_str().into(),
                "llm".into(),
                name.as_str().into(),
                yes_no(is_default).into(),
                "comes with the models".into(),
            ]);
        }
    }
    let (total, built_in) = (entries.len(), entries.len() - custom);
    let table = Table::new("Actors")
        .column("Name", Align::Left)
        .column("Type", Align::Left)
        .column("Models", Align::Left)
        .column("Default", Align::Left)
        .column("Description", Align::Left)
        .empty("No actor is registered")
        .rows(rows);
    let report = Report::new("actor list")
        .data(json!({
            "actors": entries,
            "summary": {"total": total, "built_in": built_in, "custom": custom, "broken": broken},
        }))
        .table(table);
    let report = if broken == 0 {
        report
    } else {
        report.warn(format!(
            "{} cannot run until mended or removed",
            counted(broken, "actor")
        ))
    };
    Ok(report.ok(format!("{} listed", counted(total, "actor"))))
}

pub(super) fn remove(
    context: &Context,
    actors: &ActorService,
    name: &str,
    yes: bool,
) -> Result<Report, CommandError> {
    let toolset = context.toolset()?;
    let world = toolset.actor_world();
    let stored = actors.stored()?;
    let whole = stored
        .iter()
        .map(|stored| stored.name.as_str())
        .find(|stored| *stored == name || stored.strip_prefix("local/") == Some(name));
    if let Some(whole) = whole {
        let mut configured = context.settings.configured_actors();
        if let Some((key, _)) = configured.find(|(_, actor)| *actor == whole) {
            let error = ActorError::InUse {
                name: whole.to_owned(),
                by: format!("the configuration, as `{}`", key.name),
            };
            return Err(CommandError::from(error).with_hint(format!(
                "choose another with `agents actor set-default NAME`, or `agents config unset {}`",
                key.name
            )));
        }
        confirm(context, &format!("Remove actor {whole}?"), yes)?;
    }
    let removed = actors.remove(name, world)?;
    Ok(Report::new("actor remove")
        .data(json!({"removed": removed.name, "config": removed.source}))
        .panel(
            Panel::new("Removal Summary")
                .row("Actor", removed.name)
                .row("Config", removed.source),
        )
        .ok("Actor removed"))
}

/// Writes the default to the configuration, after a look whether the actor can have the role.
pub(super) fn set_default(
    context: &Context,
    actors: &ActorService,
    name: &str,
    role: Option<RoleName>,
) -> Result<Report, CommandError> {
    let toolset = context.toolset()?;
    let found = actors.find(name, toolset.actor_world())?;
    if role == Some(RoleName::Estimation) && !has_response_format(&found.actor) {
        let message = format!(
            "`{}` cannot estimate: none of its models has a `response_format`",
            found.actor.name
        );
        return Err(CommandError::new(Code::RoleMismatch, message)
            .with_hint("add `response_format` with a JSON schema to the file of the actor"));
    }
    let key = match role {
        None => &keys::ACTOR_GENERAL,
        Some(RoleName::Strategy) => &keys::ACTOR_STRATEGY,
        Some(RoleName::Execution) => &keys::ACTOR_EXECUTION,
        Some(RoleName::Estimation) => &keys::ACTOR_ESTIMATION,
        Some(RoleName::Invariant) => &keys::ACTOR_INVARIANT,
        Some(RoleName::Review) => &keys::ACTOR_REVIEW,
    }
    .name;
    let file = ConfigFile::of_home(&context.home);
    file.set(&[(key, &found.actor.name)])?;
    Ok(Report::new("actor set-default")
        .data(json!({"actor": found.actor.name, "key": key, "file": file.path().display().to_string()}))
        .panel(
            Panel::new("Default Actor")
                .row("Actor", found.actor.name.clone())
                .row("Key", key)
                .row("File", file.path().display().to_string()),
        )
        .ok("Default set"))
}

fn has_response_format(actor: &cleveragents_actors::Actor) -> bool {
    actor.graph.nodes.iter().any(|node| match &node.kind {
        NodeKind::Agent(node) => node.agent.response_format.is_some(),
        NodeKind::Subgraph(node) => has_response_format(&node.actor),
        _ => false,
    })
}
