//! `actor show`: what an actor is, and how it was used.

use cleveragents_actors::{Actor, Agent, NodeKind};
use cleveragents_application::{ActorService, ActorWorld, FoundActor, agents_of, for_each_node};
use cleveragents_domain::identity::Scope;
use cleveragents_domain::{MicroUsd, RemoteAgent};
use cleveragents_store::sessions::SessionFilter;
use serde_json::{Value, json};

use crate::commands::yes_no;
use crate::context::Context;
use crate::output::{Align, CommandError, Panel, Report, Table};

pub(super) fn run(
    context: &Context,
    actors: &ActorService,
    name: &str,
) -> Result<Report, CommandError> {
    let toolset = context.toolset()?;
    let world = toolset.actor_world();
    let found = actors.find(name, world)?;
    let use_made = Use::of(context, actors, &found, world)?;
    let actor = &found.actor;
    let tools = tools(actor);
    let writes = tools
        .iter()
        .filter_map(|tool| toolset.registry().get(tool).ok())
        .any(|spec| spec.capability.is_writing());
    let is_default = context.settings.actor_default() == Some(actor.name.as_str());
    let report = Report::new("actor show")
        .data(json!({
            "actor_details": details(&found, is_default),
            "options": options(actor),
            "graph_structure": structure(actor),
            "tools": tools,
            "skills": all(&agents_of(actor), |agent| &agent.skills),
            "mcp_servers": all(&agents_of(actor), |agent| &agent.mcp_servers),
            "access": {
                "unsafe": actor.is_unsafe,
                "filesystem": if writes { "sandbox, writing" } else { "sandbox, reading" },
                "network": "restricted",
            },
            "usage": use_made.json(),
            "warnings": actor.warnings,
        }))
        .panel(panel(&found, is_default))
        .table(nodes(actor))
        .panel(
            Panel::new("Tools and Use")
                .row("Tools", (!tools.is_empty()).then(|| tools.join(", ")))
                .row("Runs", use_made.runs)
                .row("Cost of all runs", use_made.cost)
                .row("Sessions", use_made.sessions)
                .row(
                    "Referred to by",
                    (!use_made.referring.is_empty()).then(|| use_made.referring.join(", ")),
                ),
        )
        .info(format!(
            "draw it with `agents actor graph {0}`, run it with `agents actor run {0} 'PROMPT'`",
            actor.name
        ));
    let report = actor
        .warnings
        .iter()
        .fold(report, |report, warning| report.warn(warning.clone()));
    Ok(report.ok("Actor loaded"))
}

/// How an actor was used.
struct Use {
    runs: u64,
    cost: MicroUsd,
    sessions: u64,
    referring: Vec<String>,
}

impl Use {
    fn of(
        context: &Context,
        actors: &ActorService,
        found: &FoundActor,
        world: ActorWorld<'_>,
    ) -> Result<Self, CommandError> {
        let name = &found.actor.name;
        let (runs, cost) = actors.totals(name, &context.visible())?;
        let referring = if found.stored.is_some() {
            let mut referring = actors.referring(name, world)?;
            referring.retain(|other| context.sees(other));
            referring
        } else {
            Vec::new()
        };
        let sessions = match name.parse() {
            Ok(name) => {
                let filter = SessionFilter {
                    actor: Some(name),
                    limit: Some(1),
                    visible: context.reach(Scope::Sessions),
                    ..SessionFilter::default()
                };
                context.sessions()?.list(&filter)?.0.matching
            }
            Err(_) => 0,
        };
        Ok(Self {
            runs,
            cost,
            sessions,
            referring,
        })
    }

    fn json(&self) -> Value {
        #[expect(
            clippy::cast_precision_loss,
            reason = "an average for people needs no more digits"
        )]
        let average = (self.runs > 0).then(|| self.cost.as_usd() / self.runs as f64);
        json!({
            // There are no actions yet.
            "referenced_by_actions": 0,
            "referenced_by_actors": self.referring,
            "active_in_sessions": self.sessions,
            "total_runs": self.runs,
            "total_cost_usd": self.cost.as_usd(),
            "avg_cost_per_run": average,
        })
    }
}

fn details(found: &FoundActor, is_default: bool) -> Value {
    let (actor, stored) = (&found.actor, found.stored.as_ref());
    let (provider, model) = model_of(actor);
    json!({
        "name": actor.name,
        "description": actor.description,
        "provider": provider,
        "model": model,
        "models": models(actor),
        "default": is_default,
        "builtin": stored.is_none(),
        "unsafe": actor.is_unsafe,
        "type": actor.kind,
        "agent": remote(actor).map(|remote| json!({
            "url": remote.url,
            "token_env": remote.token_variable,
            "timeout_seconds": remote.timeout.map(|timeout| timeout.as_secs_f64()),
        })),
        "role": actor.role,
        "version": actor.version,
        "created": stored.map(|stored| stored.created_at),
        "updated": stored.map(|stored| stored.updated_at),
        "config": stored.map(|stored| &stored.source),
        "config_hash": found.hash,
        "schema_version": super::manage::SCHEMA_VERSION,
    })
}

fn options(actor: &Actor) -> Value {
    let agents = agents_of(actor);
    let first = agents.first();
    json!({
        "temperature": first.and_then(|agent| agent.temperature),
        "max_tokens": first.and_then(|agent| agent.max_output_tokens),
        "top_p": first.and_then(|agent| agent.options.get("top_p")),
    })
}

fn structure(actor: &Actor) -> Value {
    let nodes = &actor.graph.nodes;
    let edges: usize = nodes.iter().map(|node| node.edges.len()).sum();
    let exits: Vec<&str> = nodes
        .iter()
        .filter(|node| node.is_exit)
        .map(|node| &*node.id)
        .collect();
    json!({
        "nodes": nodes.len(),
        "edges": edges,
        "entry": &*nodes[actor.graph.entry.0 as usize].id,
        "exit": exits,
        "node_list": nodes.iter().map(|node| json!({
            "id": &*node.id,
            "type": kind_of_node(&node.kind),
        })).collect::<Vec<_>>(),
    })
}

fn panel(found: &FoundActor, is_default: bool) -> Panel {
    let (actor, stored) = (&found.actor, found.stored.as_ref());
    Panel::new("Actor")
        .row("Name", actor.name.clone())
        .row("Description", actor.description.clone())
        .row("Type", actor.kind.as_str())
        .row("Agent", remote(actor).map(|remote| remote.url.clone()))
        .row(
            "Token from",
            remote(actor).and_then(|remote| remote.token_variable.clone()),
        )
        .row("Models", models(actor).join(", "))
        .row("Default", yes_no(is_default))
        .row("Unsafe", yes_no(actor.is_unsafe))
        .row("Config", stored.map(|stored| stored.source.clone()))
        .row("Hash", found.hash.clone())
        .row("Created", stored.map(|stored| stored.created_at))
        .row("Updated", stored.map(|stored| stored.updated_at))
}

fn nodes(actor: &Actor) -> Table {
    let nodes = &actor.graph.nodes;
    let table = Table::new("Nodes")
        .column("Node", Align::Left)
        .column("Type", Align::Left)
        .column("Next", Align::Left);
    table.rows(nodes.iter().map(|node| {
        let next = node.edges.iter();
        let next: Vec<&str> = next
            .map(|edge| &*nodes[edge.target.0 as usize].id)
            .collect();
        vec![
            (&*node.id).into(),
            kind_of_node(&node.kind).into(),
            if node.is_exit {
                "(end)".into()
            } else {
                next.join(", ").into()
            },
        ]
    }))
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
    for_each_node(actor, &mut |kind| match kind {
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
    let mut names: Vec<String> = agents_of(actor)
        .iter()
        .filter_map(|agent| agent.model.clone())
        .collect();
    names.sort();
    names.dedup();
    names
}

/// The agent on another machine that an actor is.
pub(super) fn remote(actor: &Actor) -> Option<&RemoteAgent> {
    let first = actor.graph.nodes.first()?;
    match (&first.kind, actor.graph.nodes.len()) {
        (NodeKind::Agent(node), 1) => node.agent.remote.as_ref(),
        _ => None,
    }
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
