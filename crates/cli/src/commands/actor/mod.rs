//! `actor`: manages and runs actors: models, tools and graphs of them.

mod contexts;
pub(crate) mod launch;
mod manage;
mod show;
mod watcher;

use std::path::Path;

use cleveragents_application::actor_operations::{ActorDrawing, DrawActor, DrawingFormat};
use cleveragents_application::{ActorService, FoundActor, Toolset};
use cleveragents_domain::{Code, DefinitionKind};
use serde_json::json;

use super::definition::read_text_of;
use super::write_and_report;
use crate::arguments::{Actor, Drawing};
use crate::context::Context;
use crate::output::{CommandError, Report};

/// Commands that run as operations of the application, on this machine or on a server.
pub(crate) const OPERATIONS: &[&str] = &[
    "actor add",
    "actor graph",
    "actor list",
    "actor remove",
    "actor run",
    "actor show",
    "actor update",
];

pub(super) fn run(context: &Context, command: Actor) -> Result<Option<Report>, CommandError> {
    let service = || Ok::<_, CommandError>(ActorService::new(context.engine()?));
    let report = match command {
        Actor::Add { file, update } => manage::add(context, &file.config, update)?,
        Actor::Update { file } => manage::update(context, &file.config)?,
        Actor::List { custom } => manage::list(context, custom)?,
        Actor::Show { actor } => show::run(context, actor.name)?,
        Actor::Remove { actor, deletion } => manage::remove(context, &actor.name, deletion)?,
        Actor::SetDefault { actor, role } => {
            manage::set_default(context, &service()?, &actor.name, role)?
        }
        Actor::Run(arguments) => launch::run(context, *arguments)?,
        Actor::Graph {
            name,
            config,
            drawing,
            output,
        } => {
            let drawn = draw(context, name.as_deref(), config.as_deref(), drawing.into())?;
            drawing_report(context, drawn, output.as_deref())?
        }
        Actor::Context(command) => return contexts::run(context, command),
    };
    Ok(Some(report))
}

impl From<Drawing> for DrawingFormat {
    fn from(drawing: Drawing) -> Self {
        match drawing {
            Drawing::Text => Self::Text,
            Drawing::Mermaid => Self::Mermaid,
            Drawing::Dot => Self::Dot,
            Drawing::Svg => Self::Svg,
        }
    }
}

/// Draws the graph of a registered actor, or of an actor file, which is compiled on this machine.
fn draw(
    context: &Context,
    name: Option<&str>,
    config: Option<&Path>,
    format: DrawingFormat,
) -> Result<ActorDrawing, CommandError> {
    if let (None, Some(name)) = (config, name) {
        return context.call(DrawActor {
            name: name.to_owned(),
            drawing: format,
        });
    }
    if context.connection.is_some() {
        let message = "`config` is not available for commands that are sent to a server";
        return Err(CommandError::new(Code::LocalOnly, message)
            .with_hint("run the command on this machine with --local"));
    }
    let actors = ActorService::new(context.engine()?);
    let resolved = resolve_actor(context, &actors, &context.toolset()?, name, config)?;
    Ok(ActorDrawing {
        actor: resolved.actor.name.clone(),
        drawing: format.draw(&resolved.actor),
    })
}

fn drawing_report(
    context: &Context,
    drawn: ActorDrawing,
    output: Option<&Path>,
) -> Result<Report, CommandError> {
    let Some(path) = output else {
        if context.printer.format().is_human() {
            return Ok(Report::printed("actor graph", drawn.drawing));
        }
        return Ok(Report::new("actor graph").data(drawn).ok("Actor drawn"));
    };
    let bytes = drawn.drawing.len();
    let report = Report::new("actor graph")
        .data(json!({"file": path.display().to_string(), "bytes": bytes}))
        .ok(format!("Written to {}", path.display()));
    write_and_report(report, drawn.drawing, path)
}

/// Returns the actor of the given file, or a registered one.
fn resolve_actor(
    context: &Context,
    actors: &ActorService,
    toolset: &Toolset,
    name: Option<&str>,
    config: Option<&Path>,
) -> Result<FoundActor, CommandError> {
    let world = toolset.actor_world();
    match (config, name) {
        (Some(config), _) => {
            let text = read_text_of(config, DefinitionKind::Actor)?;
            let source = context.absolute(config);
            Ok(actors.compile(&text, &source.display().to_string(), world)?)
        }
        (None, Some(name)) => Ok(actors.find(name, world)?),
        (None, None) => {
            let default = context.settings.actor_default();
            let Some(name) = default else {
                return Err(CommandError::usage("no actor is given").with_hint(
                    "add a name, or set a default: `agents actor set-default NAME`; `agents actor list` shows all",
                ));
            };
            Ok(actors.find(name, world)?)
        }
    }
}
