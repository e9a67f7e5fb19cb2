//! `actor add`, `update`, `list`, `remove` and `set-default`.

use std::path::Path;

use cleveragents_actors::{ActorKind, NodeKind};
use cleveragents_application::ActorService;
use cleveragents_application::actor_operations::{
    AddActor, AddedActorInfo, ListActors, ListedActor, RemoveActor, UpdateActor,
};
use cleveragents_domain::{Code, DefinitionKind};
use serde_json::json;

use crate::arguments::{Deletion, RoleName};
use crate::commands::definition::{
    DefinitionInput, listed as listed_sentence, read_input, registered, remove as remove_definition,
};
use crate::commands::{counted, yes_no};
use crate::config::{ConfigFile, keys};
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report, Table};

const KIND: DefinitionKind = DefinitionKind::Actor;

pub(super) fn add(context: &Context, config: &Path, update: bool) -> Result<Report, CommandError> {
    let DefinitionInput { text, source } = read_input(context, config, KIND)?;
    let added = context.call(AddActor {
        text,
        source,
        update,
    })?;
    Ok(added_report("actor add", added))
}

/// Replaces an existing actor; fails if it does not exist.
pub(super) fn update(context: &Context, config: &Path) -> Result<Report, CommandError> {
    let DefinitionInput { text, source } = read_input(context, config, KIND)?;
    let updated = context.call(UpdateActor { text, source })?;
    Ok(added_report("actor update", updated))
}

fn added_report(command: &'static str, added: AddedActorInfo) -> Report {
    let actor = &added.actor_added;
    let model = match (&actor.provider, &actor.model) {
        (Some(provider), Some(model)) => Some(format!("{provider}/{model}")),
        (_, model) => model.clone(),
    };
    let report = Report::new(command).panel(
        Panel::new("Actor Added")
            .row("Name", actor.name.clone())
            .row("Type", actor.kind.as_str())
            .row("Agent", actor.agent_url.clone())
            .row("Description", actor.description.clone())
            .row("Model", model)
            .row("Nodes", actor.nodes)
            .row("Config", actor.config.clone())
            .row("Hash", actor.hash.clone()),
    );
    let warnings = actor.warnings.iter();
    let report = warnings.fold(report, |report, warning| report.warn(warning.clone()));
    let sentence = registered(KIND, actor.outcome, "added");
    report.data(added).ok(sentence)
}

fn row(actor: &ListedActor) -> Vec<Cell> {
    let description = actor.description.as_deref().unwrap_or_default();
    let is_default = yes_no(actor.default).into();
    if let Some(problem) = &actor.problem {
        return vec![
            actor.name.as_str().into(),
            Cell::Bad("broken".to_owned()),
            Cell::from(None::<String>),
            is_default,
            problem.as_str().into(),
        ];
    }
    vec![
        actor.name.as_str().into(),
        actor.kind.map_or("", ActorKind::as_str).into(),
        actor.models.join(", ").into(),
        is_default,
        if actor.built_in {
            "built from the model".into()
        } else {
            description.lines().next().unwrap_or_default().into()
        },
    ]
}

pub(super) fn list(context: &Context, custom: bool) -> Result<Report, CommandError> {
    let listed = context.call(ListActors { custom })?;
    let headings = ["Name", "Type", "Models", "Default", "Description"];
    let table = Table::with_columns("Actors", headings)
        .empty("No actor is registered")
        .rows(listed.actors.iter().map(row));
    let (total, broken) = (listed.summary.total, listed.summary.broken);
    let report = Report::new("actor list").data(listed).table(table);
    let report = if broken == 0 {
        report
    } else {
        report.warn(format!(
            "{} cannot run until fixed or removed",
            counted(broken, "actor")
        ))
    };
    Ok(report.ok(listed_sentence(KIND, total)))
}

pub(super) fn remove(
    context: &Context,
    name: &str,
    deletion: Deletion,
) -> Result<Report, CommandError> {
    remove_definition(context, "actor remove", KIND, deletion, |yes, dry_run| {
        RemoveActor {
            name: name.to_owned(),
            yes,
            dry_run,
        }
    })
}

/// Writes the default to the configuration after checking that the actor supports the role.
pub(super) fn set_default(
    context: &Context,
    actors: &ActorService,
    name: &str,
    role: Option<RoleName>,
) -> Result<Report, CommandError> {
    let toolset = context.toolset()?;
    let resolved = actors.find(name, toolset.actor_world())?;
    if role == Some(RoleName::Estimation) && !has_response_format(&resolved.actor) {
        let message = format!(
            "`{}` cannot estimate: none of its models has a `response_format`",
            resolved.actor.name
        );
        return Err(CommandError::new(Code::RoleMismatch, message)
            .with_hint("add `response_format` with a JSON schema to the actor file"));
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
    file.set(&[(key, &resolved.actor.name)])?;
    Ok(Report::new("actor set-default")
        .data(json!({"actor": resolved.actor.name, "key": key, "file": file.path().display().to_string()}))
        .panel(
            Panel::new("Default Actor")
                .row("Actor", resolved.actor.name.clone())
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
