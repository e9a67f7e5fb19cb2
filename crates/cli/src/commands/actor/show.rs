//! `actor show`: what an actor is, and how it was used.

use cleveragents_actors::{Actor, ActorKind, Agent, NodeKind};
use cleveragents_engine::ActorService;
use cleveragents_store::sessions::SessionFilter;
use serde_json::json;

use crate::commands::toolbox::{Toolbox, agents, for_each_kind};
use crate::commands::yes_no;
use crate::context::Context;
use crate::output::{Align, CommandError, Panel, Report, Table};

pub(super) fn run(
    context: &Context,
    actors: &ActorService,
    name: &str,
) -> Result<Report, CommandError> {
    let toolbox = Toolbox::new(context)?;
    let variables = context.variables();
    let world = toolbox.world(&variables);
    let found = actors.find(name, world)?;
    let actor = &found.actor;
    let stored = found.stored.as_ref();
    let (provider, model) = model_of(actor);
    let is_default = context.settings.actor_default() == Some(actor.name.as_str());
    let (runs, cost) = actors.totals(&actor.name)?;
    let referring = if stored.is_some() {
        actors.referring(&actor.name, world)?
    } else {
        Vec::new()
    };
    let sessions = match actor.name.parse() {
        Ok(name) => {
            let filter = SessionFilter {
                actor: Some(name),
                limit: Some(1),
                ..SessionFilter::default()
            };
            context.sessions()?.list(&filter)?.0.matching
        }
        Err(_) => 0,
    };
    let agents = agents(actor);
    let tools = tools(actor);
    let nodes = &actor.graph.nodes;
    let edges: usize = nodes.iter().map(|node| node.edges.len()).sum();
    let entry = &nodes[actor.graph.entry.0 as usize].id;
    let exits: Vec<&str> = nodes
        .iter()
        .filter(|node| node.is_exit)
        .map(|node| &*node.id)
        .collect();
    let first = agents.first();
    #[expect(
        clippy::cast_precision_loss,
        reason = "an average for people needs no more digits"
    )]
    let average = (runs > 0).then(|| cost.as_usd() / runs as f64);
    let writes = tools
        .iter()
        .filter_map(|tool| toolbox.registry().get(tool).ok())
        .any(|spec| spec.capability.is_writing());
    let report = Report::new("actor show")
        .data(json!({
            "actor_details": {
                "name": actor.name,
                "description": actor.description,
                "provider": provider,
                "model": model,
                "models": models(actor),
                "default": is_default,
                "builtin": stored.is_none(),
                "unsafe": actor.is_unsafe,
                "type": actor.kind,
                "role": actor.role,
                "version": actor.version,
                "created": stored.map(|stored| stored.created_at),
                "updated": stored.map(|stored| stored.updated_at),
                "config": stored.map(|stored| &stored.source),
                "config_hash": found.hash,
                "schema_version": super::manage::SCHEMA_VERSION,
            },
            "options": {
                "temperature": first.and_then(|agent| agent.temperature),
                "max_tokens": first.and_then(|agent| agent.max_output_tokens),
                "top_p": first.and_then(|agent| agent.options.get("top_p")),
            },
            "graph_structure": {
                "nodes": nodes.len(),
                "edges": edges,
                "entry": &**entry,
                "exit": exits,
                "node_list": nodes.iter().map(|node| json!({
                    "id": &*node.id,
                    "type": kind_of_node(&node.kind),
                })).collect::<Vec<_>>(),
            },
            "tools": tools,
            "skills": all(&agents, |agent| &agent.skills),
            "mcp_servers": all(&agents, |agent| &agent.mcp_servers),
            "access": {
                "unsafe": actor.is_unsafe,
                "filesystem": if writes { "sandbox, writing" } else { "sandbox, reading" },
                "network": "restricted",
            },
            "usage": {
                // There are no actions yet.
                "referenced_by_actions": 0,
                "referenced_by_actors": referring,
                "active_in_sessions": sessions,
                "total_runs": runs,
                "total_cost_usd": cost.as_usd(),
                "avg_cost_per_run": average,
            },
            "warnings": actor.warnings,
        }))
        .panel(
            Panel::new("Actor")
                .row("Name", actor.name.clone())
                .row("Description", actor.description.clone())
                .row("Type", kind(actor.kind))
                .row("Models", models(actor).join(", "))
                .row("Default", yes_no(is_default))
                .row("Unsafe", yes_no(actor.is_unsafe))
                .row("Config", stored.map(|stored| stored.source.clone()))
                .row("Hash", found.hash.clone())
                .row("Created", stored.map(|stored| stored.created_at))
                .row("Updated", stored.map(|stored| stored.updated_at)),
        )
        .table(
            nodes.iter().fold(
                Table::new("Nodes")
                    .column("Node", Align::Left)
                    .column("Type", Align::Left)
                    .column("Next", Align::Left),
                |table, node| {
                    let next: Vec<&str> = node
                        .edges
                        .iter()
                        .map(|edge| &*nodes[edge.target.0 as usize].id)
                        .collect();
                    table.row(vec![
                        (&*node.id).into(),
                        kind_of_node(&node.kind).into(),
                        if node.is_exit {
                            "(end)".into()
                        } else {
                            next.join(", ").into()
                        },
                    ])
                },
            ),
        )
        .panel(
            Panel::new("Tools and Use")
                .row("Tools", (!tools.is_empty()).then(|| tools.join(", ")))
                .row("Runs", runs)
                .row("Cost of all runs", cost)
                .row("Sessions", sessions)
                .row(
                    "Referred to by",
                    (!referring.is_empty()).then(|| referring.join(", ")),
                ),
        )
        .info(format!(
            "draw it with `agents actor graph {}`, run it with `agents actor run {} 'PROMPT'`",
            actor.name, actor.name
        ));
    let report = actor
        .warnings
        .iter()
        .fold(report, |report, warning| report.warn(warning.clone()));
    Ok(report.ok("Actor loaded"))
}

/// The kind of an actor, as files say it.
pub(super) const fn kind(kind: ActorKind) -> &'static str {
    match kind {
        ActorKind::Llm => "llm",
        ActorKind::Tool => "tool",
        ActorKind::Graph => "graph",
    }
}

const fn kind_of_node(kind: &NodeKind) -> &'static str {
    match kind {
        NodeKind::Agent(_) => "agent",
        NodeKind::Tool(_) => "tool",
        NodeKind::Conditional(_) => "conditional",
        NodeKind::Subgraph(_) => "subgraph",
        NodeKind::Router(_) => "message_router",
        NodeKind::Function(_) => "function",
        NodeKind::Map(_) => "map",
        NodeKind::Parallel(_) => "parallel",
    }
}

fn all<'a>(agents: &[&'a Agent], of: impl Fn(&'a Agent) -> &'a Vec<String>) -> Vec<&'a String> {
    let mut names: Vec<&String> = agents.iter().flat_map(|agent| of(agent)).collect();
    names.sort();
    names.dedup();
    names
}

/// The tools that an actor names, of its agents and of its tool nodes.
fn tools(actor: &Actor) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for_each_kind(actor, &mut |kind| match kind {
        NodeKind::Agent(node) => names.extend(node.agent.tools.iter().cloned()),
        NodeKind::Tool(node) => names.extend(node.calls.iter().map(|call| call.tool.clone())),
        _ => {}
    });
    names.sort();
    names.dedup();
    names
}

/// The models that an actor names.
pub(super) fn models(actor: &Actor) -> Vec<String> {
    let mut names: Vec<String> = agents(actor)
        .iter()
        .filter_map(|agent| agent.model.clone())
        .collect();
    names.sort();
    names.dedup();
    names
}

/// The provider and the model of an actor that has just one.
pub(super) fn model_of(actor: &Actor) -> (Option<String>, Option<String>) {
    match models(actor).as_slice() {
        [only] => match only.split_once('/') {
            Some((provider, model)) => (Some(provider.to_owned()), Some(model.to_owned())),
            None => (None, Some(only.clone())),
        },
        _ => (None, None),
    }
}
