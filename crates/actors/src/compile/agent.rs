//! Who is asked: the settings of a node, an actor and a graph laid over each other, and what an actor of
//! each kind may say.

use std::sync::Arc;

use super::remote::is_about_agents;
use super::resolver::Trail;
use super::settings::{Settings, model};
use super::{Compiler, Found};
use crate::file::{Complaint, Fields};
use crate::graph::{Actor, ActorKind, Agent, NodeKind, Role};

/// The fields that say something about a model.
const OWN: &[&str] = &[
    "provider",
    "model",
    "system_prompt",
    "temperature",
    "max_output_tokens",
    "reasoning_effort",
    "top_p",
    "tools",
    "skills",
    "mcp_servers",
    "tool_sources",
    "response_format",
    "memory",
    "context_view",
    "options",
];

/// Whether a field says something about a model.
pub(super) fn is_about_models(field: &str) -> bool {
    OWN.contains(&field)
}

impl<'c> Compiler<'c> {
    /// The agent that an actor's fields describe, or the actor that they do nothing but name.
    pub(super) fn agent_of(
        &self,
        fields: &Fields<'c>,
        trail: &Trail<'_>,
        name: &str,
    ) -> Result<Found, Complaint> {
        let own = self.settings(fields)?;
        // A model that the whole file names holds for actors that name none.
        let below = Settings::only_model(model(&self.top)?);
        self.laid_over(fields, own, below, trail, Some(name))
    }

    /// The agent of a node in a graph. What the graph says holds for agents that say nothing else; a
    /// named one only takes its model from there.
    pub(super) fn agent_in(
        &self,
        fields: &Fields<'c>,
        defaults: &Settings,
        trail: &Trail<'_>,
        name: &str,
    ) -> Result<Found, Complaint> {
        let own = self.settings(fields)?;
        if fields.get("actor").is_none() {
            let mut defaults = defaults.clone();
            // The form of the graph's answer is not that of every node.
            defaults.response_format = None;
            return Ok(Found::Agent(Arc::new(own.or(defaults).finish(name))));
        }
        let defaults = Settings::only_model(defaults.model.clone());
        self.laid_over(fields, own, defaults, trail, None)
    }

    /// What is said here over what the named actor says over what lies below. A definition has a name
    /// of its own; a node only uses somebody.
    fn laid_over(
        &self,
        fields: &Fields<'c>,
        own: Settings,
        below: Settings,
        trail: &Trail<'_>,
        name: Option<&str>,
    ) -> Result<Found, Complaint> {
        let Some(named) = fields.text("actor")? else {
            let agent = own.or(below).finish(name.unwrap_or_default());
            return Ok(Found::Agent(Arc::new(agent)));
        };
        let is_changed = fields.written().any(|(field, _)| is_about_models(field));
        match self.refer(&named, trail)? {
            Found::Agent(agent) if !is_changed && agent.model.is_some() && name.is_none() => {
                Ok(Found::Agent(agent))
            }
            Found::Agent(agent) => {
                let settings = own.or(Settings::of(&agent)).or(below);
                let name = name.unwrap_or(&agent.name);
                Ok(Found::Agent(Arc::new(settings.finish(name))))
            }
            Found::Actor(actor) if !is_changed => Ok(Found::Actor(actor)),
            Found::Actor(_) => {
                let changed = fields
                    .written()
                    .find(|(field, _)| is_about_models(field))
                    .map_or(&named, |(_, written)| written);
                let message = format!(
                    "`{}` cannot be changed from here: `{}` is more than a model",
                    changed.value, named.value
                );
                let fix = format!("leave it out, or change `{}` itself", named.value);
                Err(Complaint::rule(changed.place, message, fix))
            }
        }
    }
}

/// Fields at an actor that only actors of another type have.
pub(super) fn refuse_other_fields(fields: &Fields<'_>, kind: ActorKind) -> Result<(), Complaint> {
    const GRAPH: &[&str] = &[
        "nodes",
        "edges",
        "entry_node",
        "exit_nodes",
        "route",
        "graph_descriptor",
    ];
    let word = kind.as_str();
    let is_wrong = |field: &str| match kind {
        ActorKind::Graph => is_about_agents(field),
        ActorKind::Llm => GRAPH.contains(&field) || is_about_agents(field) || field == "arguments",
        ActorKind::Tool => {
            GRAPH.contains(&field)
                || is_about_agents(field)
                || (is_about_models(field) && field != "tools")
        }
        ActorKind::A2a => {
            GRAPH.contains(&field)
                || is_about_models(field)
                || ["actor", "arguments"].contains(&field)
        }
    };
    match fields.written().find(|(field, _)| is_wrong(field)) {
        None => Ok(()),
        Some((_, written)) => {
            let message = format!(
                "`{}` does not belong to an actor of the type `{word}`",
                written.value
            );
            let fix = "leave it out, or write another `type`";
            Err(Complaint::rule(written.place, message, fix))
        }
    }
}

/// Warns of a role that the actor does not look like.
pub(super) fn check_role(actor: &Actor, warnings: &mut Vec<String>) {
    let Some(role) = actor.role else {
        return;
    };
    let agents: Vec<&Agent> = actor
        .graph
        .nodes
        .iter()
        .filter_map(|node| match &node.kind {
            NodeKind::Agent(node) => Some(&*node.agent),
            _ => None,
        })
        .collect();
    if role == Role::Estimation && !agents.iter().any(|agent| agent.response_format.is_some()) {
        warnings
            .push("an estimation actor answers in numbers: give it a `response_format`".to_owned());
    }
    let fitting = match role {
        Role::Strategy | Role::Estimation | Role::InvariantReconciliation => "strategize",
        Role::Execution => "execute",
        Role::Review => "apply",
    };
    for view in agents
        .iter()
        .filter_map(|agent| agent.context_view.as_deref())
    {
        if view != fitting && view != "default" {
            warnings.push(format!(
                "the role is usually given the context view `{fitting}`, and this asks for `{view}`"
            ));
        }
    }
}
