//! `tool`: the tools there are, and calls of them by hand.

mod calls;
mod input;
mod manage;
mod run;
mod show;

use cleveragents_application::ToolService;
use cleveragents_tools::{Access, Capability, Environment};
use serde_json::{Value, json};

use super::yes_no;
use crate::arguments::Tool;
use crate::context::Context;
use crate::output::{CommandError, Panel, Report};

pub(super) fn run(context: &Context, command: Tool) -> Result<Report, CommandError> {
    let engine = context.engine()?;
    let tools = ToolService::new(engine);
    match command {
        Tool::Add { config, update } => manage::add(context, &tools, &config, update),
        Tool::List(filter) => manage::list(context, &tools, &filter),
        Tool::Show { tool } => show::run(context, &tools, &tool.name),
        Tool::Remove { tool, yes } => manage::remove(context, &tools, &tool.name, yes),
        Tool::Calls(filter) => calls::list(context, &tools, &filter),
        Tool::Call(arguments) => calls::show(&tools, &arguments),
        Tool::Run(arguments) => run::run(context, &arguments),
    }
}

/// What a tool declares about itself, in the words of its file.
fn capability_json(capability: &Capability) -> Value {
    json!({
        "read_only": capability.access == Access::Reads,
        "writes": capability.is_writing(),
        "write_scope": capability.write_scope,
        "checkpointable": capability.checkpointable,
        "checkpoint_scope": capability.checkpoint_scope,
        "side_effects": capability.side_effects,
        "idempotent": capability.idempotent,
        "unsafe": capability.is_unsafe,
        "human_approval_required": capability.needs_approval,
        "environment": environment(&capability.environment),
    })
}

fn environment(environment: &Environment) -> String {
    match environment {
        Environment::Anywhere => "none".to_owned(),
        Environment::PreferContainer => "preferred".to_owned(),
        Environment::RequireContainer => "required".to_owned(),
        Environment::Specific(name) => format!("specific: {name}"),
    }
}

fn capability_panel(capability: &Capability) -> Panel {
    let listed = |words: &[String]| (!words.is_empty()).then(|| words.join(", "));
    Panel::new("Capability")
        .row("Writes", yes_no(capability.is_writing()))
        .row("Write scope", listed(&capability.write_scope))
        .row("Checkpoint", yes_no(capability.checkpointable))
        .row("Checkpoint scope", capability.checkpoint_scope.clone())
        .row("Side effects", listed(&capability.side_effects))
        .row("Idempotent", yes_no(capability.idempotent))
        .row("Unsafe", yes_no(capability.is_unsafe))
        .row("Asks each time", yes_no(capability.needs_approval))
        .row("Container", environment(&capability.environment))
}
