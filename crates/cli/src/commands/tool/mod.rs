//! `tool`: manages and calls tools.

mod calls;
mod input;
mod manage;
mod run;
mod show;

pub(crate) use manage::list_report;

use cleveragents_application::ToolService;
use cleveragents_application::tool_operations::{CapabilityInfo, ListTools};

use super::yes_no;
use crate::arguments::Tool;
use crate::context::Context;
use crate::output::{CommandError, Panel, Report};

/// Commands that run as operations of the application, on this machine or on a server.
pub(crate) const OPERATIONS: &[&str] = &[
    "tool add",
    "tool calls",
    "tool list",
    "tool remove",
    "tool show",
];

pub(super) fn run(context: &Context, command: Tool) -> Result<Report, CommandError> {
    match command {
        Tool::Add { config, update } => manage::add(context, &config, update),
        Tool::List(filter) => manage::list_report(context, ListTools::try_from(filter)?),
        Tool::Show { tool } => show::run(context, tool.name),
        Tool::Remove { tool, deletion } => manage::remove(context, &tool.name, deletion),
        Tool::Calls(filter) => calls::list(context, filter),
        Tool::Call(arguments) => calls::show(&ToolService::new(context.engine()?), &arguments),
        Tool::Run(arguments) => run::run(context, &arguments),
    }
}

fn capability_panel(capability: &CapabilityInfo) -> Panel {
    let listed = |words: &[String]| (!words.is_empty()).then(|| words.join(", "));
    Panel::new("Capability")
        .row("Writes", yes_no(capability.writes))
        .row("Write scope", listed(&capability.write_scope))
        .row("Checkpoint", yes_no(capability.checkpointable))
        .row("Checkpoint scope", capability.checkpoint_scope.clone())
        .row("Side effects", listed(&capability.side_effects))
        .row("Idempotent", yes_no(capability.idempotent))
        .row("Unsafe", yes_no(capability.is_unsafe))
        .row("Needs approval", yes_no(capability.human_approval_required))
        .row("Container", capability.environment.clone())
}
