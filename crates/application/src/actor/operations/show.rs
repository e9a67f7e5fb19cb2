//! `registry/actor/show`: the definition, the graph and the users of an actor.

use cleveragents_actors::graph::Role;
use cleveragents_actors::{Actor, ActorKind, Agent, NodeKind};
use cleveragents_domain::Timestamp;
use cleveragents_domain::identity::Scope;
use cleveragents_store::sessions::SessionFilter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::service::{ActorWorld, FoundActor};
use super::{SCHEMA_VERSION, models_of, only_model, remote_agent, sorted};
use crate::definition::show_request;
use crate::operation::{OperationContext, OperationError};
use crate::runtime::{agents_of, for_each_node};

/// The response of `registry/actor/show`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ShownActor {
    pub actor_details: ActorDetails,
    pub options: ActorOptions,
    pub graph_structure: GraphStructure,
    pub tools: Vec<String>,
    pub skills: Vec<String>,
    pub mcp_servers: Vec<String>,
    pub access: ActorAccess,
    pub usage: ActorUsage,
    pub warnings: Vec<String>,
}

/// The definition of an actor.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActorDetails {
    pub name: String,
    pub description: String,
    /// `null` unless the actor has exactly one model. The same holds for `model`.
    pub provider: Option<String>,
    pub model: Option<String>,
    pub models: Vec<String>,
    /// Whether this actor runs when a request names no actor.
    pub default: bool,
    /// Whether the actor is part of the program or represents a model.
    pub builtin: bool,
    #[serde(rename = "unsafe")]
    pub is_unsafe: bool,
    #[serde(rename = "type")]
    pub kind: ActorKind,
    /// Remote agent that the actor represents.
    pub agent: Option<RemoteAgentInfo>,
    pub role: Option<Role>,
    /// The version that the definition names.
    pub version: Option<String>,
    pub created: Option<Timestamp>,
    pub updated: Option<Timestamp>,
    /// File that the definition was read from.
    pub config: Option<String>,
    /// SHA-256 of the definition.
    pub config_hash: String,
    /// The version of the format of definitions.
    pub schema_version: String,
}

/// A remote agent.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RemoteAgentInfo {
    pub url: String,
    /// The environment variable that holds the token.
    pub token_env: Option<String>,
    pub timeout_seconds: Option<f64>,
}

/// Options of the first agent of an actor.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActorOptions {
    pub temperature: Option<f64>,
    pub max_tokens: Option<u32>,
    pub top_p: Option<Value>,
}

/// The graph of an actor.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GraphStructure {
    pub nodes: u64,
    pub edges: u64,
    /// The node that runs first.
    pub entry: String,
    /// Exit nodes; the actor ends after any of them.
    pub exit: Vec<String>,
    pub node_list: Vec<GraphNode>,
}

/// A node of a graph.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct GraphNode {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: String,
    /// Nodes that may run next.
    #[serde(default)]
    pub next: Vec<String>,
}

/// The resources that an actor can access.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActorAccess {
    #[serde(rename = "unsafe")]
    pub is_unsafe: bool,
    /// `sandbox, writing` or `sandbox, reading`.
    pub filesystem: String,
    pub network: String,
}

/// Usage of an actor; includes only objects that the caller may read.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActorUsage {
    pub referenced_by_actors: Vec<String>,
    pub active_in_sessions: u64,
    pub total_runs: u64,
    pub total_cost_usd: f64,
    /// `null` if the actor never ran.
    pub avg_cost_per_run: Option<f64>,
}

impl ActorDetails {
    fn new(found: &FoundActor, is_default: bool) -> Self {
        let (actor, stored) = (&found.actor, found.stored.as_ref());
        let models = models_of(actor);
        let (provider, model) = only_model(&models);
        Self {
            name: actor.name.clone(),
            description: actor.description.clone(),
            provider,
            model,
            models,
            default: is_default,
            builtin: stored.is_none(),
            is_unsafe: actor.is_unsafe,
            kind: actor.kind,
            agent: remote_agent(actor).map(|remote| RemoteAgentInfo {
                url: remote.url.clone(),
                token_env: remote.token_variable.clone(),
                timeout_seconds: remote.timeout.map(|timeout| timeout.as_secs_f64()),
            }),
            role: actor.role,
            version: actor.version.clone(),
            created: stored.map(|stored| stored.created_at),
            updated: stored.map(|stored| stored.updated_at),
            config: stored.map(|stored| stored.source.clone()),
            config_hash: found.hash.clone(),
            schema_version: SCHEMA_VERSION.to_owned(),
        }
    }
}

impl From<&Actor> for ActorOptions {
    fn from(actor: &Actor) -> Self {
        let agents = agents_of(actor);
        let first = agents.first();
        Self {
            temperature: first.and_then(|agent| agent.temperature),
            max_tokens: first.and_then(|agent| agent.max_output_tokens),
            top_p: first.and_then(|agent| agent.options.get("top_p").cloned()),
        }
    }
}

impl From<&Actor> for GraphStructure {
    fn from(actor: &Actor) -> Self {
        let nodes = &actor.graph.nodes;
        let id = |index: usize| (*nodes[index].id).to_owned();
        let exits = nodes.iter().filter(|node| node.is_exit);
        Self {
            nodes: nodes.len() as u64,
            edges: nodes.iter().map(|node| node.edges.len() as u64).sum(),
            entry: id(actor.graph.entry.0 as usize),
            exit: exits.map(|node| (*node.id).to_owned()).collect(),
            node_list: nodes
                .iter()
                .map(|node| GraphNode {
                    id: (*node.id).to_owned(),
                    kind: node_kind(&node.kind).to_owned(),
                    next: node
                        .edges
                        .iter()
                        .map(|edge| id(edge.target.0 as usize))
                        .collect(),
                })
                .collect(),
        }
    }
}

const fn node_kind(kind: &NodeKind) -> &'static str {
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

/// The tools that the agents and tool nodes of an actor name.
fn tools_of(actor: &Actor) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for_each_node(actor, &mut |kind| match kind {
        NodeKind::Agent(node) => names.extend(node.agent.tools.iter().cloned()),
        NodeKind::Tool(node) => names.extend(node.calls.iter().map(|call| call.tool.clone())),
        _ => {}
    });
    sorted(names)
}

fn names_of(actor: &Actor, names: impl Fn(&Agent) -> &Vec<String>) -> Vec<String> {
    let agents = agents_of(actor);
    let all = agents.iter().flat_map(|agent| names(agent).iter().cloned());
    sorted(all.collect())
}

fn usage_of(
    context: &OperationContext,
    found: &FoundActor,
    world: ActorWorld<'_>,
) -> Result<ActorUsage, OperationError> {
    let (actors, name) = (context.actors(), &found.actor.name);
    let (runs, cost) = actors.totals(name, &context.visible(Scope::Registry))?;
    let mut referring = if found.stored.is_some() {
        actors.referring(name, world)?
    } else {
        Vec::new()
    };
    referring.retain(|other| context.may_read(Scope::Registry, other));
    let sessions = match name.parse() {
        Ok(name) => {
            let filter = SessionFilter {
                actor: Some(name),
                limit: Some(1),
                visible: context.visible(Scope::Sessions),
                ..SessionFilter::default()
            };
            context.sessions().list(&filter)?.0.matching
        }
        Err(_) => 0,
    };
    #[expect(
        clippy::cast_precision_loss,
        reason = "there are far fewer than 2^53 runs"
    )]
    let average = (runs > 0).then(|| cost.as_usd() / runs as f64);
    Ok(ActorUsage {
        referenced_by_actors: referring,
        active_in_sessions: sessions,
        total_runs: runs,
        total_cost_usd: cost.as_usd(),
        avg_cost_per_run: average,
    })
}

show_request! {
    /// Shows an actor: its models, tools and graph, and its usage.
    ShowActor("registry/actor/show", "Show an actor and its usage") -> ShownActor;
    run: show;
}

fn show(context: &OperationContext, name: &str) -> Result<ShownActor, OperationError> {
    let toolset = context.toolset()?;
    let world = toolset.actor_world();
    let found = context.actors().find(name, world)?;
    let actor = &found.actor;
    let tools = tools_of(actor);
    let writes = tools
        .iter()
        .filter_map(|tool| toolset.registry().get(tool).ok())
        .any(|spec| spec.capability.is_writing());
    let filesystem = if writes {
        "sandbox, writing"
    } else {
        "sandbox, reading"
    };
    let is_default = context.default_actor() == Some(actor.name.as_str());
    Ok(ShownActor {
        actor_details: ActorDetails::new(&found, is_default),
        options: ActorOptions::from(&**actor),
        graph_structure: GraphStructure::from(&**actor),
        tools,
        skills: names_of(actor, |agent| &agent.skills),
        mcp_servers: names_of(actor, |agent| &agent.mcp_servers),
        access: ActorAccess {
            is_unsafe: actor.is_unsafe,
            filesystem: filesystem.to_owned(),
            network: "restricted".to_owned(),
        },
        usage: usage_of(context, &found, world)?,
        warnings: actor.warnings.clone(),
    })
}
