//! Compiles an [`ActorFile`] to an [`Actor`] in which every reference is resolved and every rule checked.

mod agent;
mod argument;
mod check;
mod flow;
mod function;
mod graph;
mod node;
mod remote;
mod resolver;
mod settings;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use cleveragents_domain::{DefinitionFault, DefinitionFileError, DefinitionKind, hint, suggest};
use serde_json::Map;

pub use resolver::{CompileStack, ResolveError, Resolver, ToolSource};

use crate::file::{
    ActorFile, DEFINITION, Fields, FilePosition, ROUTE, Section, TOP, Tree, WithPosition,
    broken_rule, did_you_mean, map,
};
use crate::graph::{
    Actor, ActorKind, Agent, AgentNode, Graph, Limits, Node, NodeIndex, NodeKind, Role, ToolNode,
};
use resolver::canonical;
use settings::Settings;

/// State key for an answer when the file names none.
pub(crate) const OUTPUT: &str = "output";

/// Compiles an actor.
pub fn compile(
    file: &ActorFile,
    resolver: &dyn Resolver,
) -> Result<Arc<Actor>, DefinitionFileError> {
    let name = file.name.to_string();
    compile_file(file, resolver, &CompileStack::begin(&name))
}

/// Compiles an actor that another actor references; called by resolvers.
pub fn compile_within(
    file: &ActorFile,
    resolver: &dyn Resolver,
    trail: &CompileStack<'_>,
) -> Result<Arc<Actor>, DefinitionFileError> {
    let name = file.name.to_string();
    compile_file(file, resolver, &trail.then("", &name))
}

fn compile_file(
    file: &ActorFile,
    resolver: &dyn Resolver,
    trail: &CompileStack<'_>,
) -> Result<Arc<Actor>, DefinitionFileError> {
    Compiler::new(file, resolver)
        .and_then(|compiler| compiler.compile(trail))
        .map(Arc::new)
        .map_err(|fault| fault.in_file(&file.file, DefinitionKind::Actor, &file.source))
}

/// State of the compilation of one file.
struct Compiler<'c> {
    file: &'c ActorFile,
    name: String,
    resolver: &'c dyn Resolver,
    top: Fields<'c>,
    /// Actors and routes of the file.
    local: HashMap<&'c str, Local<'c>>,
    /// References that are already resolved, by name.
    resolved: RefCell<HashMap<String, Reference>>,
    /// Tools, skills and servers that the resolver has found.
    verified_sources: RefCell<HashSet<(ToolSource, String)>>,
    warnings: RefCell<Vec<String>>,
}

/// An actor or a route of the file.
struct Local<'c> {
    name: &'c WithPosition<String>,
    fields: Fields<'c>,
    kind: ActorKind,
}

/// Target of a reference.
#[derive(Clone)]
enum Reference {
    /// A model with its settings.
    Agent(Arc<Agent>),
    /// An actor that runs as a subgraph.
    Actor(Arc<Actor>),
}

impl<'c> Compiler<'c> {
    fn new(file: &'c ActorFile, resolver: &'c dyn Resolver) -> Result<Self, DefinitionFault> {
        // Reading the file already reported the warnings of the top level.
        let top = Fields::open(&file.top, &TOP, &mut Vec::new())?;
        let mut compiler = Self {
            file,
            name: file.name.to_string(),
            resolver,
            top,
            local: HashMap::new(),
            resolved: RefCell::default(),
            verified_sources: RefCell::default(),
            warnings: RefCell::new(file.warnings.clone()),
        };
        for field in ["actors", "instances"] {
            compiler.add_local(field, &DEFINITION)?;
        }
        compiler.add_local("routes", &ROUTE)?;
        Ok(compiler)
    }

    fn add_local(
        &mut self,
        field: &'static str,
        section: &'static Section,
    ) -> Result<(), DefinitionFault> {
        let Some(tree) = self.top.get(field) else {
            return Ok(());
        };
        for (name, definition) in map(tree)? {
            if field == "routes" {
                refuse_streams(definition)?;
            }
            let fields = self.open(definition, section)?;
            let kind = if field == "routes" {
                ActorKind::Graph
            } else {
                kind_of(&fields)?
            };
            let local = Local { name, fields, kind };
            if let Some(other) = self.local.insert(&name.value, local) {
                let message = format!(
                    "`{}` is defined here and at line {}",
                    name.value, other.name.place.line
                );
                let fix = "give actors, instances and routes of a file different names";
                return Err(broken_rule(name.place, message, fix));
            }
        }
        Ok(())
    }

    fn open(
        &self,
        tree: &'c WithPosition<Tree>,
        section: &'static Section,
    ) -> Result<Fields<'c>, DefinitionFault> {
        Fields::open(tree, section, &mut self.warnings.borrow_mut())
    }

    fn warn(&self, place: FilePosition, message: &str) {
        let line = place.line;
        self.warnings
            .borrow_mut()
            .push(format!("line {line}: {message}"));
    }

    fn compile(self, trail: &CompileStack<'_>) -> Result<Actor, DefinitionFault> {
        let (kind, graph) = self.entry(trail)?;
        let top = &self.top;
        let role = top.word("role_hint", ROLES)?;
        let context = match top.get("global_context") {
            None => Map::new(),
            Some(tree) => {
                map(tree)?;
                match tree.value.json() {
                    serde_json::Value::Object(context) => context,
                    _ => Map::new(),
                }
            }
        };
        let actor = Actor {
            name: self.name.clone(),
            kind,
            description: top
                .text("description")?
                .map(|text| text.value)
                .unwrap_or_default(),
            version: top.text("version")?.map(|text| text.value),
            role,
            is_unsafe: self.file.header.is_unsafe || top.flag("unsafe")?.unwrap_or(false),
            graph,
            context,
            warnings: Vec::new(),
        };
        agent::check_role(&actor, &mut self.warnings.borrow_mut());
        Ok(Actor {
            warnings: self.warnings.into_inner(),
            ..actor
        })
    }

    /// Kind and graph of the actor or route that a run starts with.
    fn entry(&self, trail: &CompileStack<'_>) -> Result<(ActorKind, Graph), DefinitionFault> {
        if let Some(name) = &self.file.header.default_actor {
            let Some(local) = self.local.get(name.value.as_str()) else {
                let message = format!(
                    "actor or route `{}` does not exist in this file",
                    name.value
                );
                let fix = did_you_mean(&name.value, self.local.keys().copied(), || {
                    "add it to `actors`".to_owned()
                });
                return Err(broken_rule(name.place, message, fix));
            };
            return self.entry_of(local, trail);
        }
        let is_top_level = ["type", "nodes", "route", "graph_descriptor", "url"]
            .iter()
            .any(|field| self.top.get(field).is_some());
        if is_top_level || self.local.is_empty() {
            let kind = kind_of(&self.top)?;
            return Ok((
                kind,
                self.body(&self.top, kind, trail, self.file.name.name())?,
            ));
        }
        // Without an explicit entry: the only route, otherwise the only actor.
        let mut routes = self
            .local
            .values()
            .filter(|local| is_route(&self.top, local));
        if let (Some(only), None) = (routes.next(), routes.next()) {
            return self.entry_of(only, trail);
        }
        if self.local.len() == 1
            && let Some(only) = self.local.values().next()
        {
            return self.entry_of(only, trail);
        }
        let message = "the file has several actors and no default actor";
        let fix = "add `cleveragents: {default_actor: NAME}`";
        Err(broken_rule(self.top.place, message, fix))
    }

    fn entry_of(
        &self,
        local: &Local<'c>,
        trail: &CompileStack<'_>,
    ) -> Result<(ActorKind, Graph), DefinitionFault> {
        let trail = trail.then(&self.name, &local.name.value);
        let graph = self.body(&local.fields, local.kind, &trail, &local.name.value)?;
        Ok((local.kind, graph))
    }

    /// Compiles the graph of an actor of any kind.
    fn body(
        &self,
        fields: &Fields<'c>,
        kind: ActorKind,
        trail: &CompileStack<'_>,
        id: &str,
    ) -> Result<Graph, DefinitionFault> {
        agent::refuse_other_fields(fields, kind)?;
        match kind {
            ActorKind::Graph => self.graph(fields, trail),
            ActorKind::Llm => {
                let agent = match self.agent_of(fields, trail, id)? {
                    Reference::Agent(agent) => agent,
                    // The actor only references another actor.
                    Reference::Actor(actor) => {
                        let subgraph = crate::graph::SubgraphNode {
                            actor,
                            input: None,
                            output: None,
                        };
                        return self.single(fields, id, NodeKind::Subgraph(subgraph));
                    }
                };
                let node = AgentNode {
                    agent,
                    prompt: None,
                    output: OUTPUT.to_owned(),
                };
                self.single(fields, id, NodeKind::Agent(node))
            }
            ActorKind::Tool => {
                let node = ToolNode {
                    calls: self.tool_calls(fields)?,
                    output: OUTPUT.to_owned(),
                };
                self.single(fields, id, NodeKind::Tool(node))
            }
            ActorKind::A2a => {
                let node = AgentNode {
                    agent: Arc::new(remote::agent(fields, &trail.name())?),
                    prompt: None,
                    output: OUTPUT.to_owned(),
                };
                self.single(fields, id, NodeKind::Agent(node))
            }
        }
    }

    /// A graph of one node.
    fn single(
        &self,
        fields: &Fields<'c>,
        id: &str,
        kind: NodeKind,
    ) -> Result<Graph, DefinitionFault> {
        Ok(Graph {
            nodes: vec![Node {
                id: id.into(),
                kind,
                edges: Vec::new(),
                is_exit: true,
                timeout: None,
                retries: 0,
                on_error: None,
            }],
            entry: NodeIndex(0),
            keys: self.keys(fields)?,
            limits: self.limits(fields, Limits::of_nodes(1))?,
        })
    }

    /// Resolves an actor by name: first among the actors of this file, then with the resolver.
    fn resolve_actor(
        &self,
        name: &WithPosition<String>,
        trail: &CompileStack<'_>,
    ) -> Result<Reference, DefinitionFault> {
        let key = name.value.as_str();
        if let Some(reference) = self.resolved.borrow().get(key) {
            return Ok(reference.clone());
        }
        let nesting_error =
            |why: String| broken_rule(name.place, why, "remove one of the references");
        let reference = if let Some(local) = self.local.get(key) {
            if let Some(why) = trail.refusal(&self.name, key) {
                return Err(nesting_error(why));
            }
            self.compile_local(local, &trail.then(&self.name, key))?
        } else {
            let full_name = canonical(key);
            if let Some(why) = trail.refusal("", &full_name) {
                return Err(nesting_error(why));
            }
            let actor = self
                .resolver
                .actor(key, trail)
                .map_err(|unresolved| self.unresolved(name, unresolved))?;
            single_agent(&actor).map_or(Reference::Actor(actor), Reference::Agent)
        };
        self.resolved
            .borrow_mut()
            .insert(name.value.clone(), reference.clone());
        Ok(reference)
    }

    fn compile_local(
        &self,
        local: &Local<'c>,
        trail: &CompileStack<'_>,
    ) -> Result<Reference, DefinitionFault> {
        let id = &local.name.value;
        if local.kind == ActorKind::Llm {
            agent::refuse_other_fields(&local.fields, local.kind)?;
            return self.agent_of(&local.fields, trail, id);
        }
        let graph = self.body(&local.fields, local.kind, trail, id)?;
        Ok(Reference::Actor(Arc::new(Actor {
            name: format!("{}:{id}", self.name),
            kind: local.kind,
            description: local
                .fields
                .text("description")?
                .map(|text| text.value)
                .unwrap_or_default(),
            version: None,
            role: None,
            is_unsafe: false,
            graph,
            // Actors inside a file see the context of the file.
            context: self.context_of_file(),
            warnings: Vec::new(),
        })))
    }

    fn context_of_file(&self) -> Map<String, serde_json::Value> {
        let value = self.top.get("global_context").map(|tree| tree.value.json());
        match value {
            Some(serde_json::Value::Object(context)) => context,
            _ => Map::new(),
        }
    }

    fn unresolved(&self, name: &WithPosition<String>, unresolved: ResolveError) -> DefinitionFault {
        match unresolved {
            ResolveError::Missing(mut nearest) => {
                let here = self.local.keys().copied();
                let best = cleveragents_domain::nearest::best(&name.value, here);
                nearest.splice(0..0, best);
                let fix = nearest.first().map_or_else(
                    || {
                        hint!(
                            "add it to `actors`, or register it with {}",
                            suggest::actor_add()
                        )
                    },
                    |nearest| hint!("did you mean `{}`?", nearest),
                );
                let message = format!("actor `{}` does not exist", name.value);
                broken_rule(name.place, message, fix)
            }
            ResolveError::Broken(why) => {
                let message = format!("the actor `{}` cannot be used: {why}", name.value);
                broken_rule(name.place, message, "correct that actor first")
            }
        }
    }

    /// Fails when a tool, skill or server of this name does not exist.
    fn require(
        &self,
        kind: ToolSource,
        name: &WithPosition<String>,
    ) -> Result<(), DefinitionFault> {
        let key = (kind, name.value.clone());
        if self.verified_sources.borrow().contains(&key) {
            return Ok(());
        }
        match self.resolver.find(kind, &name.value) {
            Ok(()) => {
                self.verified_sources.borrow_mut().insert(key);
                Ok(())
            }
            Err(nearest) => {
                let kind_name = kind.as_str();
                let message = format!("{kind_name} `{}` does not exist", name.value);
                let list = match kind {
                    ToolSource::Tool => suggest::tool_list(),
                    ToolSource::Skill => suggest::skill_list(),
                    ToolSource::McpServer => suggest::mcp_list(),
                };
                let fix = nearest.first().map_or_else(
                    || hint!("{} lists the existing ones", list),
                    |nearest| hint!("did you mean `{}`?", nearest),
                );
                Err(broken_rule(name.place, message, fix))
            }
        }
    }

    /// Returns the model settings of a graph, completed with the settings of the file.
    fn defaults(&self, fields: &Fields<'c>) -> Result<Settings, DefinitionFault> {
        let of_graph = self.settings(fields)?;
        Ok(of_graph.or(self.settings(&self.top)?))
    }
}

const ROLES: &[(&str, Role)] = &[
    ("strategy", Role::Strategy),
    ("execution", Role::Execution),
    ("estimation", Role::Estimation),
    ("invariant_reconciliation", Role::InvariantReconciliation),
    ("review", Role::Review),
];

const KINDS: &[(&str, ActorKind)] = &[
    ("llm", ActorKind::Llm),
    ("agent", ActorKind::Llm),
    ("tool", ActorKind::Tool),
    ("graph", ActorKind::Graph),
    ("a2a", ActorKind::A2a),
];

/// Kind of an actor: its `type`, or derived from its fields.
fn kind_of(fields: &Fields<'_>) -> Result<ActorKind, DefinitionFault> {
    if let Some(kind) = fields.word("type", KINDS)? {
        return Ok(kind);
    }
    let is_graph = ["nodes", "route", "graph_descriptor"]
        .iter()
        .any(|field| fields.get(field).is_some());
    Ok(if fields.get("url").is_some() {
        ActorKind::A2a
    } else if is_graph {
        ActorKind::Graph
    } else {
        ActorKind::Llm
    })
}

fn is_route(top: &Fields<'_>, local: &Local<'_>) -> bool {
    let routes = top.get("routes").and_then(|tree| map(tree).ok());
    routes.is_some_and(|routes| routes.iter().any(|(name, _)| name == local.name))
}

/// Rejects a route of the type `stream` before its fields are checked.
fn refuse_streams(route: &WithPosition<Tree>) -> Result<(), DefinitionFault> {
    for (name, value) in map(route)? {
        if name.value == "type"
            && let Tree::Text(kind) = &value.value
            && kind == "stream"
        {
            return Err(broken_rule(
                value.place,
                "stream routes are not supported",
                "write a graph: `nodes` with `next`, and `parallel` for concurrent branches",
            ));
        }
    }
    Ok(())
}

/// Returns the agent of an actor that consists of a single agent node. Returns `None` for an actor with its own
/// template context: it has to run as a subgraph, because its templates read that context.
fn single_agent(actor: &Actor) -> Option<Arc<Agent>> {
    match (&actor.graph.nodes[..], actor.kind) {
        (
            [
                Node {
                    kind: NodeKind::Agent(node),
                    ..
                },
            ],
            ActorKind::Llm,
        ) if actor.context.is_empty() => Some(Arc::clone(&node.agent)),
        _ => None,
    }
}
