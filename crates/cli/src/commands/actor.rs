//! `actor`: models, tools and graphs of them, and runs of them.

mod contexts;
pub(crate) mod launch;
mod manage;
mod show;
mod watcher;

use std::path::Path;

use cleveragents_application::{ActorService, FoundActor, Register, Toolset};
use cleveragents_domain::Code;

use super::{deliver, output_of, read_definition};
use crate::arguments::{Actor, Drawing};
use crate::context::Context;
use crate::output::{CommandError, Report};

pub(super) fn run(context: &Context, command: Actor) -> Result<Option<Report>, CommandError> {
    let actors = ActorService::new(context.engine()?);
    let report = match command {
        Actor::Add { file, update } => {
            let register = if update {
                Register::Update
            } else {
                Register::New
            };
            manage::add(context, &actors, "actor add", &file.config, register)?
        }
        Actor::Update { file } => manage::update(context, &actors, &file.config)?,
        Actor::List { custom } => manage::list(context, &actors, custom)?,
        Actor::Show { actor } => show::run(context, &actors, &actor.name)?,
        Actor::Remove { actor, yes } => manage::remove(context, &actors, &actor.name, yes)?,
        Actor::SetDefault { actor, role } => {
            manage::set_default(context, &actors, &actor.name, role)?
        }
        Actor::Run(arguments) => launch::run(context, &actors, &arguments)?,
        Actor::Graph {
            name,
            config,
            drawing,
            output,
        } => {
            let toolset = context.toolset()?;
            let found = found(
                context,
                &actors,
                &toolset,
                name.as_deref(),
                config.as_deref(),
            )?;
            let drawn = match drawing {
                Drawing::Text => cleveragents_actors::draw::text(&found.actor),
                Drawing::Mermaid => cleveragents_actors::draw::mermaid(&found.actor),
                Drawing::Svg => cleveragents_actors::draw::svg(&found.actor),
            };
            draw(context, &found.actor.name, &drawn, output.as_deref())?
        }
        Actor::Context(command) => return contexts::run(context, command),
    };
    Ok(Some(report))
}

fn draw(
    context: &Context,
    actor: &str,
    drawn: &str,
    output: Option<&Path>,
) -> Result<Report, CommandError> {
    let Some(path) = output_of(context, output) else {
        if context.printer.format().is_human() {
            return Ok(Report::printed("actor graph", drawn));
        }
        let data = serde_json::json!({"actor": actor, "drawing": drawn});
        return Ok(Report::new("actor graph").data(data).ok("Actor drawn"));
    };
    let report = Report::new("actor graph")
        .data(serde_json::json!({"file": path.display().to_string(), "bytes": drawn.len()}))
        .ok(format!("Written to {}", path.display()));
    deliver(context, report, drawn, path)
}

/// The actor that is meant: that of a file, or a registered one.
fn found(
    context: &Context,
    actors: &ActorService,
    toolset: &Toolset,
    name: Option<&str>,
    config: Option<&Path>,
) -> Result<FoundActor, CommandError> {
    let world = toolset.actor_world();
    match (config, name) {
        (Some(config), _) => {
            let (text, source) = read_actor(context, config)?;
            Ok(actors.compile(&text, &source, world)?)
        }
        (None, Some(name)) => Ok(actors.find(name, world)?),
        (None, None) => {
            let default = context.settings.actor_default();
            let Some(name) = default else {
                return Err(CommandError::usage("no actor is named").with_hint(
                    "name one, or one for always: `agents actor set-default NAME`; `agents actor list` shows what there is",
                ));
            };
            Ok(actors.find(name, world)?)
        }
    }
}

/// The text of an actor's file, and where it is.
fn read_actor(context: &Context, config: &Path) -> Result<(String, String), CommandError> {
    let text = read_definition(config, "the file of an actor", Code::MalformedActor)?;
    let file = context.source_of(config);
    Ok((text, file.display().to_string()))
}
