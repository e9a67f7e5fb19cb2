//! Resolves agents: merges the settings of a node, an actor and a graph, and checks which fields an actor of each kind
//! may have.

use std::sync::Arc;

use super::remote::is_remote_field;
use super::resolver::CompileStack;
use super::settings::{Settings, model};
use super::{Compiler, Reference};
use crate::file::{Fields, broken_rule};
use crate::graph::{Actor, ActorKind, Agent, NodeKind, Role};
use cleveragents_domain::DefinitionFault;

/// Fields that configure a model.
const MODEL_FIELDS: &[&str] = &[
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

/// Whether a field configures a model.
pub(super) fn is_about_models(field: &str) -> bool {
    MODEL_FIELDS.contains(&field)
}

impl<'c> Compiler<'c> {
    /// Resolves the fields of an actor to an agent, or to another actor if they reference it and change nothing.
    pub(super) fn agent_of(
        &self,
        fields: &Fields<'c>,
        trail: &CompileStack<'_>,
        name: &str,
    ) -> Result<Reference, DefinitionFault> {
        let own = self.settings(fields)?;
        // The file's top-level model applies to actors without their own.
        let defaults = Settings::only_model(model(&self.top)?);
        self.merged_fields(fields, own, defaults, trail, Some(name))
    }

    /// Resolves the agent of a node in a graph. The settings of the graph are defaults for inline agents; a named
    /// agent inherits only the model.
    pub(super) fn agent_in(
        &self,
        fields: &Fields<'c>,
        defaults: &Settings,
        trail: &CompileStack<'_>,
        name: &str,
    ) -> Result<Reference, DefinitionFault> {
        let own = self.settings(fields)?;
        if fields.get("actor").is_none() {
            let mut defaults = defaults.clone();
            // The response format of the graph does not apply to every node.
            defaults.response_format = None;
            return Ok(Reference::Agent(Arc::new(own.or(defaults).finish(name))));
        }
        let defaults = Settings::only_model(defaults.model.clone());
        self.merged_fields(fields, own, defaults, trail, None)
    }

    /// Merges settings in order of precedence: these fields, the referenced actor, `defaults`. `name` is the name of
    /// a definition; it is `None` for a node, which keeps the name of the actor that it references.
    fn merged_fields(
        &self,
        fields: &Fields<'c>,
        own: Settings,
        defaults: Settings,
        trail: &CompileStack<'_>,
        name: Option<&str>,
    ) -> Result<Reference, DefinitionFault> {
        let Some(actor_name) = fields.text("actor")? else {
            let agent = own.or(defaults).finish(name.unwrap_or_default());
            return Ok(Reference::Agent(Arc::new(agent)));
        };
        let is_changed = fields.written().any(|(field, _)| is_about_models(field));
        match self.resolve_actor(&actor_name, trail)? {
            Reference::Agent(agent) if !is_changed && agent.model.is_some() && name.is_none() => {
                Ok(Reference::Agent(agent))
            }
            Reference::Agent(agent) => {
                let settings = own.or(Settings::from_agent(&agent)).or(defaults);
                let name = name.unwrap_or(&agent.name);
                Ok(Reference::Agent(Arc::new(settings.finish(name))))
            }
            Reference::Actor(actor) if !is_changed => Ok(Reference::Actor(actor)),
            Reference::Actor(_) => {
                let changed = fields
                    .written()
                    .find(|(field, _)| is_about_models(field))
                    .map_or(&actor_name, |(_, field_name)| field_name);
                let message = format!(
                    "`{}` cannot be set here: `{}` is not just a model",
                    changed.value, actor_name.value
                );
                let fix = format!("remove it, or change `{}` itself", actor_name.value);
                Err(broken_rule(changed.place, message, fix))
            }
        }
    }
}

/// Rejects fields that belong to actors of another type.
pub(super) fn refuse_other_fields(
    fields: &Fields<'_>,
    kind: ActorKind,
) -> Result<(), DefinitionFault> {
    const GRAPH: &[&str] = &[
        "nodes",
        "edges",
        "entry_node",
        "exit_nodes",
        "route",
        "graph_descriptor",
    ];
    let kind_name = kind.as_str();
    let is_wrong = |field: &str| match kind {
        ActorKind::Graph => is_remote_field(field),
        ActorKind::Llm => GRAPH.contains(&field) || is_remote_field(field) || field == "arguments",
        ActorKind::Tool => {
            GRAPH.contains(&field)
                || is_remote_field(field)
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
                "`{}` does not belong to an actor of the type `{kind_name}`",
                written.value
            );
            let fix = "remove it, or change `type`";
            Err(broken_rule(written.place, message, fix))
        }
    }
}

/// Warns when an actor does not fit its declared role.
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
            .push("an estimation actor returns numbers: give it a `response_format`".to_owned());
    }
    let usual_view = match role {
        Role::Strategy | Role::Estimation | Role::InvariantReconciliation => "strategize",
        Role::Execution => "execute",
        Role::Review => "apply",
    };
    for view in agents
        .iter()
        .filter_map(|agent| agent.context_view.as_deref())
    {
        if view != usual_view && view != "default" {
            warnings.push(format!(
                "the usual context view of this role is `{usual_view}`, but the actor sets `{view}`"
            ));
        }
    }
}
