//! The operations on actors.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

mod run;
mod show;

use std::sync::Arc;

use cleveragents_actors::{Actor, ActorKind, NodeKind, draw};
use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_domain::{Code, Placeholder, RemoteAgent, Timestamp, hint, suggest};
use cleveragents_models::ModelEntry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::service::hash;
use crate::definition::{
    AddedDefinition, DefinitionError, DefinitionText, RegisteredDefinition, add_request,
    named_by_configuration, remove_confirmed, remove_request,
};
use crate::operation::{
    NamedKind, Operation, OperationContext, OperationEntry, OperationError, RemovedDefinition,
    Requirement, Resolver,
};
use crate::resource::{Outcome, Register};
use crate::runtime::agents_of;

pub use run::{
    ActorDefinition, ActorResponse, ActorRunResult, ActorRunSummary, ActorRunUsage,
    LocalRunOptions, RunActor,
};
pub use show::{
    ActorAccess, ActorDetails, ActorOptions, ActorUsage, GraphNode, GraphStructure,
    RemoteAgentInfo, ShowActor, ShownActor,
};

/// The operations on actors.
pub(crate) static ENTRIES: &[OperationEntry] = &[
    OperationEntry::new::<AddActor>(),
    OperationEntry::new::<UpdateActor>(),
    OperationEntry::new::<ListActors>(),
    OperationEntry::new::<ShowActor>(),
    OperationEntry::new::<DrawActor>(),
    OperationEntry::new::<RemoveActor>(),
    OperationEntry::new::<RunActor>(),
];

/// Version of the definition format.
const SCHEMA_VERSION: &str = "3.0";

/// The models that an actor names.
fn models_of(actor: &Actor) -> Vec<String> {
    let agents = agents_of(actor);
    let models = agents.iter().filter_map(|agent| agent.model.clone());
    sorted(models.collect())
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names.dedup();
    names
}

/// Provider and model of an actor that has exactly one model; otherwise `None`.
fn only_model(models: &[String]) -> (Option<String>, Option<String>) {
    match models {
        [only] => match only.split_once('/') {
            Some((provider, model)) => (Some(provider.to_owned()), Some(model.to_owned())),
            None => (None, Some(only.clone())),
        },
        _ => (None, None),
    }
}

/// The remote agent that an actor represents.
fn remote_agent(actor: &Actor) -> Option<&RemoteAgent> {
    match actor.graph.nodes.as_slice() {
        [only] => match &only.kind {
            NodeKind::Agent(node) => node.agent.remote.as_ref(),
            _ => None,
        },
        _ => None,
    }
}

/// The response of `registry/actor/add` and `registry/actor/update`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AddedActorInfo {
    pub actor_added: RegisteredActorInfo,
}

/// A registered actor.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RegisteredActorInfo {
    pub name: String,
    /// `null` unless the actor has exactly one model. The same holds for `model`.
    pub provider: Option<String>,
    pub model: Option<String>,
    #[serde(rename = "type")]
    pub kind: ActorKind,
    /// URL of the remote agent that the actor represents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_url: Option<String>,
    pub description: String,
    /// The number of nodes of the actor's graph.
    pub nodes: u64,
    /// File that the definition was read from.
    pub config: String,
    /// SHA-256 of the text.
    pub hash: String,
    /// The version of the format of definitions.
    pub schema_version: String,
    /// Grows with every update of the definition.
    pub version: u64,
    pub created: Timestamp,
    pub updated: Timestamp,
    pub outcome: Outcome,
    pub warnings: Vec<String>,
}

impl From<AddedDefinition<Arc<Actor>>> for AddedActorInfo {
    fn from(added: AddedDefinition<Arc<Actor>>) -> Self {
        let actor = &added.definition;
        let hash = hash(&added.stored.definition);
        let (provider, model) = only_model(&models_of(actor));
        Self {
            actor_added: RegisteredActorInfo {
                name: actor.name.clone(),
                provider,
                model,
                kind: actor.kind,
                agent_url: remote_agent(actor).map(|remote| remote.url.clone()),
                description: actor.description.clone(),
                nodes: actor.graph.nodes.len() as u64,
                config: added.stored.source,
                hash,
                schema_version: SCHEMA_VERSION.to_owned(),
                version: added.stored.version,
                created: added.stored.created_at,
                updated: added.stored.updated_at,
                outcome: added.outcome,
                warnings: actor.warnings.clone(),
            },
        }
    }
}

/// Refuses a definition from a remote caller that would send a token of this machine to a URL in the definition.
fn refuse_tokens(context: &OperationContext, actor: &Actor) -> Result<(), OperationError> {
    if context.caller().is_local() {
        return Ok(());
    }
    let own = format!("{}:", actor.name);
    let mut agents = agents_of(actor).into_iter();
    let sends = agents.any(|agent| {
        let is_own = agent.name == actor.name || agent.name.starts_with(&own);
        let remote = agent.remote.as_ref();
        is_own && remote.is_some_and(|remote| remote.token_variable.is_some())
    });
    if !sends {
        return Ok(());
    }
    let message = "`token_env` names an environment variable of the server's machine";
    Err(
        OperationError::new(Code::LocalOnly, message).with_hint(hint!(
            "add the actor on that machine: {}",
            suggest::actor_add_file(Placeholder("FILE"))
        )),
    )
}

add_request! {
    /// Registers an actor.
    AddActor("registry/actor/add", "Register an actor") -> AddedActorInfo;
    update: "Replace an actor of the same name.";
    run: add;
}

fn add(
    context: &OperationContext,
    new: DefinitionText<'_>,
    register: Register,
) -> Result<AddedActorInfo, OperationError> {
    let (actors, toolset) = (context.actors(), context.toolset()?);
    let world = toolset.actor_world();
    let compiled = actors.compile(new.text, new.source, world)?;
    refuse_tokens(context, &compiled.actor)?;
    Ok(actors.add(new.text, new.source, register, world)?.into())
}

/// Replaces a registered actor.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateActor {
    /// The YAML text of the new definition.
    pub text: String,
    /// The absolute path of the file that holds the text. Ignored for callers on other machines.
    #[serde(default)]
    pub source: Option<String>,
}

impl Operation for UpdateActor {
    const NAME: &'static str = "registry/actor/update";
    const SUMMARY: &'static str = "Replace a registered actor";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Manage);
    type Response = AddedActorInfo;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.definition(&mut self.text)
    }

    fn run(self, context: &OperationContext) -> Result<AddedActorInfo, OperationError> {
        let source = context.source_of(self.source.as_deref());
        let (actors, toolset) = (context.actors(), context.toolset()?);
        let compiled = actors.compile(&self.text, &source, toolset.actor_world())?;
        let name = &compiled.actor.name;
        if !actors.stored()?.iter().any(|stored| stored.name == *name) {
            let error = DefinitionError::not_found::<Arc<Actor>>(name, Vec::new());
            return Err(OperationError::from(error).with_hint(hint!(
                "register it first: {}",
                suggest::actor_add_file(Placeholder("FILE"))
            )));
        }
        let new = DefinitionText {
            text: &self.text,
            source: &source,
        };
        add(context, new, Register::Update)
    }
}

/// Lists actors: the registered ones, and one for each model.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListActors {
    /// Only registered actors.
    #[serde(default)]
    pub custom: bool,
}

/// The response of `registry/actor/list`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActorList {
    pub actors: Vec<ListedActor>,
    pub summary: ActorListSummary,
}

/// A listed actor.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ListedActor {
    pub name: String,
    /// `null` unless the actor has exactly one model. The same holds for `model`.
    pub provider: Option<String>,
    pub model: Option<String>,
    /// All models of the actor.
    pub models: Vec<String>,
    #[serde(rename = "type")]
    pub kind: Option<ActorKind>,
    pub description: Option<String>,
    /// Whether this actor runs when a request names no actor.
    pub default: bool,
    /// Whether the actor represents a model and has no registered definition.
    pub built_in: bool,
    #[serde(rename = "unsafe")]
    pub is_unsafe: Option<bool>,
    /// Reason why the actor cannot run.
    pub problem: Option<String>,
}

/// Totals of listed actors.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActorListSummary {
    pub total: u64,
    pub built_in: u64,
    pub custom: u64,
    /// The number of actors that cannot run.
    pub broken: u64,
}

impl ListedActor {
    fn registered(registered: RegisteredDefinition<Arc<Actor>>, is_default: bool) -> Self {
        let name = registered.stored.name;
        match registered.definition {
            Ok(actor) => {
                let models = models_of(&actor);
                let (provider, model) = only_model(&models);
                Self {
                    name,
                    provider,
                    model,
                    models,
                    kind: Some(actor.kind),
                    description: Some(actor.description.clone()),
                    default: is_default,
                    built_in: false,
                    is_unsafe: Some(actor.is_unsafe),
                    problem: None,
                }
            }
            Err(error) => Self {
                name,
                provider: None,
                model: None,
                models: Vec::new(),
                kind: None,
                description: None,
                default: is_default,
                built_in: false,
                is_unsafe: None,
                problem: Some(error.to_string()),
            },
        }
    }

    fn of_model(entry: &ModelEntry, is_default: bool) -> Self {
        let name = entry.name.to_string();
        Self {
            provider: Some(entry.name.provider().to_owned()),
            model: Some(entry.name.model().to_owned()),
            models: vec![name.clone()],
            kind: Some(ActorKind::Llm),
            description: Some(format!("The model {name}")),
            name,
            default: is_default,
            built_in: true,
            is_unsafe: Some(false),
            problem: None,
        }
    }
}

impl Operation for ListActors {
    const NAME: &'static str = "registry/actor/list";
    const SUMMARY: &'static str = "List actors";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Read);
    type Response = ActorList;

    fn resolve(&mut self, _: &mut Resolver<'_>) -> Result<(), OperationError> {
        Ok(())
    }

    fn run(self, context: &OperationContext) -> Result<ActorList, OperationError> {
        let toolset = context.toolset()?;
        let default = context.default_actor();
        let mut actors = Vec::new();
        for registered in context.actors().list_registered(toolset.actor_world())? {
            let name = registered.stored.name.as_str();
            if context.may_read(Scope::Registry, name) {
                let is_default = default == Some(name);
                actors.push(ListedActor::registered(registered, is_default));
            }
        }
        let custom = actors.len() as u64;
        let broken = actors.iter().filter(|actor| actor.problem.is_some());
        let broken = broken.count() as u64;
        if !self.custom {
            for entry in context.catalogue()?.list() {
                let is_default = default == Some(entry.name.to_string().as_str());
                actors.push(ListedActor::of_model(&entry, is_default));
            }
        }
        let total = actors.len() as u64;
        Ok(ActorList {
            actors,
            summary: ActorListSummary {
                total,
                built_in: total - custom,
                custom,
                broken,
            },
        })
    }
}

/// The format of a drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DrawingFormat {
    #[default]
    Text,
    Mermaid,
    Dot,
    Svg,
}

impl DrawingFormat {
    /// Draws the graph of an actor.
    pub fn draw(self, actor: &Actor) -> String {
        match self {
            Self::Text => draw::text(actor),
            Self::Mermaid => draw::mermaid(&draw::diagram(actor)),
            Self::Dot => draw::dot(&draw::diagram(actor)),
            Self::Svg => draw::svg(&draw::diagram(actor)),
        }
    }
}

/// Draws the graph of an actor.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DrawActor {
    pub name: String,
    #[serde(default)]
    pub drawing: DrawingFormat,
}

/// The response of `registry/actor/graph`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ActorDrawing {
    pub actor: String,
    pub drawing: String,
}

impl Operation for DrawActor {
    const NAME: &'static str = "registry/actor/graph";
    const SUMMARY: &'static str = "Draw the graph of an actor";
    const REQUIREMENT: Requirement = Requirement::registry(Permission::Read);
    type Response = ActorDrawing;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.name(&mut self.name, NamedKind::Definition)
    }

    fn run(self, context: &OperationContext) -> Result<ActorDrawing, OperationError> {
        let toolset = context.toolset()?;
        let found = context.actors().find(&self.name, toolset.actor_world())?;
        Ok(ActorDrawing {
            actor: found.actor.name.clone(),
            drawing: self.drawing.draw(&found.actor),
        })
    }
}

remove_request! {
    /// Removes a registered actor. Fails if another actor, an active plan or a configuration key refers to it.
    RemoveActor("registry/actor/remove", "Remove a registered actor");
    run: remove;
}

fn remove(
    context: &OperationContext,
    name: &str,
    yes: bool,
) -> Result<RemovedDefinition, OperationError> {
    let (actors, toolset) = (context.actors(), context.toolset()?);
    remove_confirmed(&actors, toolset.actor_world(), name, yes, |found| {
        let Some(key) = context.key_of_actor(&found.name) else {
            return Ok(());
        };
        let error = named_by_configuration::<Arc<Actor>>(&found.name, key);
        Err(OperationError::from(error).with_hint(hint!(
            "choose another with {}, or {}",
            suggest::actor_set_default(Placeholder("NAME")),
            suggest::config_unset(key)
        )))
    })
}
