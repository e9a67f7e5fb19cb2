//! Compiles one node: its kind, its allowed fields, and the settings of its kind.

use std::sync::Arc;
use std::time::Duration;

use super::agent::is_about_models;
use super::argument::{
    argument, arguments, expression, is_key, key, template, template_in, updates,
};
use super::function::function;
use super::graph::Targets;
use super::resolver::{CompileStack, ToolSource};
use super::settings::Settings;
use super::{Compiler, OUTPUT, Reference};
use crate::expression::Expression;
use crate::file::{
    Fields, NODE, TOOL_CALL, Tree, WithPosition, broken_rule, list, malformed, text, unexpected,
};
use crate::graph::{
    Actor, AgentNode, Argument, FunctionNode, MapNode, NodeKind, ParallelNode, SubgraphNode,
    ToolCall, ToolNode,
};
use cleveragents_domain::DefinitionFault;

/// Maximum timeout of a node or a run.
pub(super) const MAX_TIMEOUT_SECONDS: f64 = 30.0 * 24.0 * 60.0 * 60.0;

/// Default number of map items processed concurrently.
const DEFAULT_CONCURRENCY: usize = 4;

/// Maximum concurrency.
const MAX_CONCURRENCY: u64 = 256;

/// Kind of a node, before its fields are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Agent,
    Tool,
    Conditional,
    Subgraph,
    Router,
    Function,
    Map,
    Parallel,
}

const KINDS: &[(&str, Kind)] = &[
    ("agent", Kind::Agent),
    ("llm", Kind::Agent),
    ("tool", Kind::Tool),
    ("conditional", Kind::Conditional),
    ("subgraph", Kind::Subgraph),
    ("message_router", Kind::Router),
    ("router", Kind::Router),
    ("function", Kind::Function),
    ("map", Kind::Map),
    ("parallel", Kind::Parallel),
];

/// Fields that determine the kind of a node without `type`.
const KIND_BY_FIELD: &[(&str, Kind)] = &[
    ("parallel", Kind::Parallel),
    ("over", Kind::Map),
    ("rules", Kind::Router),
    ("conditions", Kind::Conditional),
    ("if", Kind::Conditional),
    ("actor_ref", Kind::Subgraph),
    ("function", Kind::Function),
    ("set", Kind::Function),
    ("prompt", Kind::Agent),
    ("actor", Kind::Agent),
    ("model", Kind::Agent),
    ("system_prompt", Kind::Agent),
    ("tools", Kind::Tool),
];

impl Kind {
    /// Name in files.
    const fn word(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Tool => "tool",
            Self::Conditional => "conditional",
            Self::Subgraph => "subgraph",
            Self::Router => "message_router",
            Self::Function => "function",
            Self::Map => "map",
            Self::Parallel => "parallel",
        }
    }

    /// Kind of a node: its `type`, or derived from its fields.
    pub(super) fn from_fields(fields: &Fields<'_>) -> Result<Self, DefinitionFault> {
        let derived = || {
            let entry = KIND_BY_FIELD
                .iter()
                .find(|(field, _)| fields.get(field).is_some());
            entry.map(|(_, kind)| *kind)
        };
        let Some(kind) = fields.word("type", KINDS)?.or_else(derived) else {
            let message = "the node has no `type`, and its fields do not determine one";
            let fix = "add `type: agent`, or a field such as `prompt: …`";
            return Err(broken_rule(fields.place, message, fix));
        };
        for (field, written) in fields.written() {
            if !kind.has(field) {
                let message = format!(
                    "`{}` does not belong to a node of the type `{}`",
                    written.value,
                    kind.word()
                );
                let fix = "remove it, or change `type`";
                return Err(broken_rule(written.place, message, fix));
            }
        }
        Ok(kind)
    }

    /// Whether a node of this kind may have a field.
    fn has(self, field: &str) -> bool {
        const ALL: &[&str] = &[
            "id",
            "type",
            "description",
            "next",
            "exit",
            "timeout_seconds",
            "retries",
            "on_error",
        ];
        if ALL.contains(&field) {
            return true;
        }
        let own: &[&str] = match self {
            Self::Agent => {
                return is_about_models(field) || matches!(field, "actor" | "prompt" | "output");
            }
            Self::Tool => &["tools", "arguments", "input", "output"],
            Self::Conditional => &["conditions", "if", "then", "otherwise"],
            Self::Subgraph => &["actor_ref", "actor", "input", "output", "prompt"],
            Self::Router => &["rules", "message", "otherwise"],
            Self::Function => &["function", "set", "input", "output"],
            Self::Map => &[
                "over",
                "item",
                "each",
                "concurrency",
                "output",
                "keep_failures",
            ],
            Self::Parallel => &["parallel", "join", "concurrency"],
        };
        own.contains(&field)
    }
}

/// Context in which a node is compiled.
pub(super) struct NodeContext<'a> {
    pub(super) targets: &'a Targets<'a>,
    pub(super) defaults: &'a Settings,
    pub(super) trail: &'a CompileStack<'a>,
}

impl<'c> Compiler<'c> {
    /// Compiles the settings that depend on the kind of a node.
    pub(super) fn node(
        &self,
        id: &str,
        kind: Kind,
        fields: &Fields<'c>,
        context: &NodeContext<'_>,
    ) -> Result<NodeKind, DefinitionFault> {
        Ok(match kind {
            Kind::Agent => self.agent_node(id, fields, context)?,
            Kind::Tool => NodeKind::Tool(ToolNode {
                calls: self.tool_calls(fields)?,
                output: output(fields)?,
            }),
            Kind::Conditional => NodeKind::Conditional(self.conditional(fields, context.targets)?),
            Kind::Router => NodeKind::Router(self.router(fields, context.targets)?),
            Kind::Subgraph => {
                let name = match fields.text("actor_ref")? {
                    Some(name) => name,
                    None => text(fields.needed("actor", "a subgraph").map_err(|_| {
                        let message = "the subgraph names no actor";
                        malformed(fields.place, message, "add `actor_ref: …`")
                    })?)?,
                };
                let actor = match self.resolve_actor(&name, context.trail)? {
                    Reference::Actor(actor) => actor,
                    Reference::Agent(agent) => self.agent_as_actor(&name, agent),
                };
                NodeKind::Subgraph(subgraph(actor, fields)?)
            }
            Kind::Function => NodeKind::Function(function_node(fields)?),
            Kind::Map => NodeKind::Map(self.map_node(id, fields, context)?),
            Kind::Parallel => NodeKind::Parallel(parallel(fields, context.targets)?),
        })
    }

    fn agent_node(
        &self,
        id: &str,
        fields: &Fields<'c>,
        context: &NodeContext<'_>,
    ) -> Result<NodeKind, DefinitionFault> {
        match self.agent_in(fields, context.defaults, context.trail, id)? {
            Reference::Agent(agent) => Ok(NodeKind::Agent(AgentNode {
                agent,
                prompt: template_in(fields, "prompt")?,
                output: output(fields)?,
            })),
            Reference::Actor(actor) => Ok(NodeKind::Subgraph(subgraph(actor, fields)?)),
        }
    }

    /// Wraps an agent in an actor, for a subgraph that names an agent.
    fn agent_as_actor(
        &self,
        name: &WithPosition<String>,
        agent: Arc<crate::graph::Agent>,
    ) -> Arc<Actor> {
        let node = AgentNode {
            agent,
            prompt: None,
            output: OUTPUT.to_owned(),
        };
        Arc::new(Actor {
            name: name.value.clone(),
            kind: crate::graph::ActorKind::Llm,
            description: String::new(),
            version: None,
            role: None,
            is_unsafe: false,
            graph: super::graph::of_one(&name.value, NodeKind::Agent(node)),
            context: self.context_of_file(),
            warnings: Vec::new(),
        })
    }

    /// Compiles the calls of a tool node or a tool actor.
    pub(super) fn tool_calls(&self, fields: &Fields<'c>) -> Result<Vec<ToolCall>, DefinitionFault> {
        let shared = fields.get("arguments").or_else(|| fields.get("input"));
        let shared = match shared {
            None => Argument::Plain(serde_json::json!({})),
            Some(tree) => {
                arguments(tree)?;
                argument(tree)?
            }
        };
        let tree = fields.needed("tools", "a tool node")?;
        let single_item = std::slice::from_ref(tree);
        let items = match &tree.value {
            Tree::List(items) => items,
            _ => single_item,
        };
        let mut calls = Vec::new();
        for item in items {
            let (name, arguments) = match &item.value {
                Tree::Map(_) => {
                    let call = self.open(item, &TOOL_CALL)?;
                    let name = text(call.needed("tool", "a tool")?)?;
                    let own_arguments = call.get("arguments").map(argument).transpose()?;
                    (name, own_arguments.unwrap_or_else(|| shared.clone()))
                }
                _ => (text(item)?, shared.clone()),
            };
            if name.value.contains('*') {
                let message = format!(
                    "`{}` is a pattern, but a tool node calls one tool",
                    name.value
                );
                return Err(broken_rule(name.place, message, "name the tool"));
            }
            self.require(ToolSource::Tool, &name)?;
            calls.push(ToolCall {
                tool: name.value,
                arguments,
            });
        }
        if calls.is_empty() {
            let message = "the list of tools is empty";
            return Err(broken_rule(tree.place, message, "add `tool: NAME`"));
        }
        Ok(calls)
    }

    fn map_node(
        &self,
        id: &str,
        fields: &Fields<'c>,
        context: &NodeContext<'_>,
    ) -> Result<MapNode, DefinitionFault> {
        let over: Expression = expression(&text(fields.needed("over", "a map")?)?)?;
        let item = match fields.text("item")? {
            None => "item".to_owned(),
            Some(written) => key(written)?,
        };
        let each = fields.needed("each", "a map")?;
        let each = match &each.value {
            Tree::Text(name) => {
                let name = WithPosition::new(name.clone(), each.place);
                match self.resolve_actor(&name, context.trail)? {
                    Reference::Actor(actor) => NodeKind::Subgraph(SubgraphNode {
                        actor,
                        input: None,
                        output: Some(vec![(
                            OUTPUT.to_owned(),
                            Argument::Value(expression(&WithPosition::new(
                                OUTPUT.to_owned(),
                                name.place,
                            ))?),
                        )]),
                    }),
                    Reference::Agent(agent) => NodeKind::Agent(AgentNode {
                        agent,
                        prompt: Some(template(&WithPosition::new(
                            format!("{{{{ {item} }}}}"),
                            name.place,
                        ))?),
                        output: OUTPUT.to_owned(),
                    }),
                }
            }
            Tree::Map(_) => {
                let inner = self.open(each, &NODE)?;
                let kind = Kind::from_fields(&inner)?;
                if !matches!(
                    kind,
                    Kind::Agent | Kind::Tool | Kind::Function | Kind::Subgraph
                ) {
                    let message = format!("a map cannot run a `{}` for each item", kind.word());
                    let fix = "use an agent, a tool, a function or a subgraph";
                    return Err(broken_rule(each.place, message, fix));
                }
                for field in ["next", "exit", "on_error", "retries", "timeout_seconds"] {
                    if inner.get(field).is_some() {
                        let message = format!("`{field}` belongs to the map, not to its items");
                        let place = inner.place_of(field);
                        return Err(broken_rule(place, message, "move it to the map"));
                    }
                }
                self.node(id, kind, &inner, context)?
            }
            _ => return Err(unexpected(each, "an actor or a node", "write `each: {…}`")),
        };
        Ok(MapNode {
            over,
            item,
            each: Box::new(each),
            concurrency: concurrency(fields)?.unwrap_or(DEFAULT_CONCURRENCY),
            output: output(fields)?,
            keeps_failures: fields.flag("keep_failures")?.unwrap_or(false),
        })
    }
}

/// Parses the state key for the answer; the default is [`OUTPUT`].
fn output(fields: &Fields<'_>) -> Result<String, DefinitionFault> {
    fields
        .text("output")?
        .map_or_else(|| Ok(OUTPUT.to_owned()), key)
}

fn concurrency(fields: &Fields<'_>) -> Result<Option<usize>, DefinitionFault> {
    let Some(count) = fields.count("concurrency")? else {
        return Ok(None);
    };
    if !(1..=MAX_CONCURRENCY).contains(&count.value) {
        let message = format!("a concurrency of {} is out of range", count.value);
        let fix = format!("write a number from 1 to {MAX_CONCURRENCY}");
        return Err(broken_rule(count.place, message, fix));
    }
    Ok(usize::try_from(count.value).ok())
}

/// Parses an optional duration in seconds.
pub(super) fn seconds(
    fields: &Fields<'_>,
    name: &str,
) -> Result<Option<Duration>, DefinitionFault> {
    let Some(seconds) = fields.number(name)? else {
        return Ok(None);
    };
    if !(seconds.value > 0.0 && seconds.value <= MAX_TIMEOUT_SECONDS) {
        let message = format!("a timeout of {} seconds is out of range", seconds.value);
        let fix = "write a number of seconds greater than 0 and at most 2592000 (30 days)";
        return Err(broken_rule(seconds.place, message, fix));
    }
    Ok(Some(Duration::from_secs_f64(seconds.value)))
}

/// Parses the outputs of a subgraph: outer keys with inner values. A bare word is a key of the inner state, not a
/// constant.
fn outputs(tree: &WithPosition<Tree>) -> Result<Vec<(String, Argument)>, DefinitionFault> {
    crate::file::map(tree)?
        .iter()
        .map(|(name, value)| {
            let argument = match &value.value {
                Tree::Text(word) if is_key(word) => {
                    Argument::Value(expression(&WithPosition::new(word.clone(), value.place))?)
                }
                _ => argument(value)?,
            };
            Ok((key(name.clone())?, argument))
        })
        .collect()
}

/// Compiles a parallel node.
fn parallel(fields: &Fields<'_>, targets: &Targets<'_>) -> Result<ParallelNode, DefinitionFault> {
    let tree = fields.needed("parallel", "a parallel node")?;
    let names = list(tree)?
        .iter()
        .map(text)
        .collect::<Result<Vec<_>, _>>()?;
    let mut branches = Vec::new();
    for name in &names {
        let branch = targets.find(name)?;
        if branches.contains(&branch) {
            let message = format!("the branch `{}` is named twice", name.value);
            return Err(broken_rule(name.place, message, "remove one of them"));
        }
        branches.push(branch);
    }
    if branches.is_empty() {
        let message = "the list of parallel branches is empty";
        return Err(broken_rule(
            tree.place,
            message,
            "name the first node of each branch",
        ));
    }
    let join = fields.needed("join", "a parallel node").map_err(|_| {
        let message = "the parallel node has no `join`";
        broken_rule(fields.place, message, "add `join: NODE`")
    })?;
    let join = text(join)?;
    let target = targets.find(&join)?;
    if branches.contains(&target) {
        let message = format!("`{}` cannot be a branch and the join", join.value);
        return Err(broken_rule(join.place, message, "name another node"));
    }
    Ok(ParallelNode {
        concurrency: concurrency(fields)?.unwrap_or(branches.len()),
        branches,
        join: target,
    })
}

/// Compiles a subgraph node: the actor, its input and its output.
fn subgraph(actor: Arc<Actor>, fields: &Fields<'_>) -> Result<SubgraphNode, DefinitionFault> {
    let mut input = match fields.get("input") {
        None => None,
        Some(tree) if matches!(tree.value, Tree::Map(_)) => Some(updates(tree)?),
        Some(tree) => Some(vec![("input".to_owned(), argument(tree)?)]),
    };
    if let Some(prompt) = fields.get("prompt") {
        text(prompt)?;
        input
            .get_or_insert_default()
            .push(("input".to_owned(), argument(prompt)?));
    }
    let output = match fields.get("output") {
        None => None,
        Some(tree) if matches!(tree.value, Tree::Map(_)) => Some(outputs(tree)?),
        Some(tree) => {
            let answer = expression(&WithPosition::new(OUTPUT.to_owned(), tree.place))?;
            Some(vec![(key(text(tree)?)?, Argument::Value(answer))])
        }
    };
    Ok(SubgraphNode {
        actor,
        input,
        output,
    })
}

/// Compiles a function node.
fn function_node(fields: &Fields<'_>) -> Result<FunctionNode, DefinitionFault> {
    let mut set = match fields.get("set") {
        None => Vec::new(),
        Some(tree) => updates(tree)?,
    };
    if let Some(name) = fields.text("function")? {
        let value = function(&name, fields.text("input")?.as_ref())?;
        set.push((output(fields)?, Argument::Value(value)));
    }
    if set.is_empty() {
        let message = "the function node does nothing";
        let fix = "add `set: {key: value}`, or `function: …`";
        return Err(broken_rule(fields.place, message, fix));
    }
    Ok(FunctionNode { set })
}
