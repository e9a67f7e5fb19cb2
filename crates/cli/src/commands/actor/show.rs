//! `actor show`: definition and usage of an actor.

use cleveragents_application::actor_operations::{
    ActorDetails, GraphStructure, ShowActor, ShownActor,
};
use cleveragents_domain::MicroUsd;

use crate::commands::yes_no;
use crate::context::Context;
use crate::output::{CommandError, Panel, Report, Table};

pub(super) fn run(context: &Context, name: String) -> Result<Report, CommandError> {
    let shown = context.call(ShowActor { name })?;
    let report = Report::new("actor show")
        .panel(details_panel(&shown.actor_details))
        .table(node_table(&shown.graph_structure))
        .panel(usage_panel(&shown))
        .info(format!(
            "draw it with `agents actor graph {0}`, run it with `agents actor run {0} 'PROMPT'`",
            shown.actor_details.name
        ));
    let warnings = shown.warnings.iter();
    let report = warnings.fold(report, |report, warning| report.warn(warning.clone()));
    Ok(report.data(shown).ok("Actor loaded"))
}

fn joined(words: &[String]) -> Option<String> {
    (!words.is_empty()).then(|| words.join(", "))
}

fn details_panel(actor: &ActorDetails) -> Panel {
    let agent = actor.agent.as_ref();
    Panel::new("Actor")
        .row("Name", actor.name.clone())
        .row("Description", actor.description.clone())
        .row("Type", actor.kind.as_str())
        .row("Agent", agent.map(|agent| agent.url.clone()))
        .row(
            "Token source",
            agent.and_then(|agent| agent.token_env.clone()),
        )
        .row("Models", actor.models.join(", "))
        .row("Default", yes_no(actor.default))
        .row("Unsafe", yes_no(actor.is_unsafe))
        .row("Config", actor.config.clone())
        .row("Hash", actor.config_hash.clone())
        .row("Created", actor.created)
        .row("Updated", actor.updated)
}

fn node_table(graph: &GraphStructure) -> Table {
    let rows = graph.node_list.iter().map(|node| {
        let next = if graph.exit.contains(&node.id) {
            "(end)".to_owned()
        } else {
            node.next.join(", ")
        };
        vec![
            node.id.clone().into(),
            node.kind.clone().into(),
            next.into(),
        ]
    });
    Table::with_columns("Nodes", ["Node", "Type", "Next"]).rows(rows)
}

fn usage_panel(shown: &ShownActor) -> Panel {
    let usage = &shown.usage;
    let cost = MicroUsd::from_usd_rounded_up(usage.total_cost_usd).unwrap_or_default();
    Panel::new("Tools and Usage")
        .row("Tools", joined(&shown.tools))
        .row("Runs", usage.total_runs)
        .row("Cost of all runs", cost)
        .row("Sessions", usage.active_in_sessions)
        .row("Referenced by", joined(&usage.referenced_by_actors))
}
