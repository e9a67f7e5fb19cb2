//! Compiled actors: everything is resolved, every reference is an index or another compiled actor, and
//! nothing in them can be wrong any more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::{MicroUsd, RemoteAgent};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::expression::{Expression, Template};
use crate::state::Reducer;

/// What an actor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ActorKind {
    /// A model with instructions and tools.
    Llm,
    /// A tool, or several one after the other.
    Tool,
    /// A graph.
    Graph,
    /// An agent on another machine.
    A2a,
}

impl ActorKind {
    /// What files call it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Llm => "llm",
            Self::Tool => "tool",
            Self::Graph => "graph",
            Self::A2a => "a2a",
        }
    }
}

/// What an actor is meant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Thinks out a plan.
    Strategy,
    /// Carries it out.
    Execution,
    /// Says what it will take.
    Estimation,
    /// Brings invariants together.
    InvariantReconciliation,
    /// Looks at the result.
    Review,
}

/// A compiled actor.
#[derive(Debug)]
pub struct Actor {
    /// Its name, with the namespace.
    pub name: String,
    /// What it is.
    pub kind: ActorKind,
    /// What it does, for people.
    pub description: String,
    /// Its own version, as the file says it.
    pub version: Option<String>,
    /// What it is meant for.
    pub role: Option<Role>,
    /// Whether its file asks for what a careful profile refuses.
    pub is_unsafe: bool,
    /// What every node does.
    pub graph: Graph,
    /// Values that templates and expressions see as `context`.
    pub context: Map<String, Value>,
    /// What a person should know about the file, though nothing is wrong with it.
    pub warnings: Vec<String>,
}

/// A model with instructions and tools.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// What the file calls it; the name of the actor when it is the only one.
    pub name: String,
    /// The model, `provider/model`; the usual one when not given.
    pub model: Option<String>,
    /// Standing instructions.
    pub system_prompt: Option<Template>,
    /// How freely it chooses words.
    pub temperature: Option<f64>,
    /// The longest answer of one step.
    pub max_output_tokens: Option<u32>,
    /// How hard it thinks: a word that models understand.
    pub reasoning_effort: Option<String>,
    /// The tools it may call, by name or pattern. Without `tools`, `skills` and `mcp_servers` it has none.
    pub tools: Vec<String>,
    /// Skills, the tools of which it may call too.
    pub skills: Vec<String>,
    /// Servers, the tools of which it may call too.
    pub mcp_servers: Vec<String>,
    /// The JSON schema that its answer must fit.
    pub response_format: Option<ResponseFormat>,
    /// How much of the conversation it is given.
    pub memory: Memory,
    /// Which view of a project's context it is given: `strategize`, `execute`, `apply` or `default`.
    pub context_view: Option<String>,
    /// Whatever else the file gives to the model, such as `top_p`.
    pub options: Map<String, Value>,
    /// The agent on another machine that is asked instead of a model.
    pub remote: Option<RemoteAgent>,
}

/// The form of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ResponseFormat {
    /// A name for it: letters, digits, `_` and `-`.
    pub name: String,
    /// The JSON schema.
    pub schema: Value,
    /// Whether the provider has to enforce it to the letter.
    pub strict: bool,
}

/// How much of the conversation a model is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Whether it is given what was said before.
    pub enabled: bool,
    /// At most so many messages.
    pub max_messages: Option<usize>,
    /// At most so many tokens.
    pub max_tokens: Option<u64>,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            enabled: true,
            max_messages: None,
            max_tokens: None,
        }
    }
}

/// The place of a node in [`Graph::nodes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeIndex(pub u32);

/// A compiled graph.
#[derive(Debug)]
pub struct Graph {
    /// The nodes, in the order of the file.
    pub nodes: Vec<Node>,
    /// Where a run begins.
    pub entry: NodeIndex,
    /// The keys of the state that the file declares. Others are replaced by updates.
    pub keys: BTreeMap<String, Key>,
    /// What a run may take.
    pub limits: Limits,
}

/// A key of the state.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// How updates join it.
    pub reducer: Reducer,
    /// Its value before the first update.
    pub initial: Option<Value>,
}

/// What a run may take. What is not given is not limited, except steps and depth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Finished nodes, those of subgraphs included.
    pub max_steps: u64,
    /// Subgraphs inside each other.
    pub max_depth: u32,
    /// Questions to models.
    pub max_model_calls: Option<u64>,
    /// Calls of tools.
    pub max_tool_calls: Option<u64>,
    /// The whole run.
    pub timeout: Option<Duration>,
    /// Money.
    pub max_cost: Option<MicroUsd>,
}

impl Limits {
    /// Those of a graph with so many nodes that names none.
    pub fn of_nodes(nodes: usize) -> Self {
        Self {
            max_steps: (nodes as u64).saturating_mul(50).max(2_000),
            max_depth: 16,
            max_model_calls: None,
            max_tool_calls: None,
            timeout: None,
            max_cost: None,
        }
    }
}

/// A compiled node.
#[derive(Debug)]
pub struct Node {
    /// Its id, unique in the graph.
    pub id: Arc<str>,
    /// What it does.
    pub kind: NodeKind,
    /// Where to go afterwards: the first edge whose condition holds. Conditional and router nodes
    /// choose by themselves first.
    pub edges: Vec<Edge>,
    /// Whether the run, or the subgraph, ends after it.
    pub is_exit: bool,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
    /// How many times a failed attempt is repeated.
    pub retries: u32,
    /// Where to go when the last attempt failed; the run fails when not given. The state has the
    /// message in `error` then.
    pub on_error: Option<NodeIndex>,
}

/// A way from one node to another.
#[derive(Debug, Clone, PartialEq)]
pub struct Edge {
    /// Where it leads.
    pub target: NodeIndex,
    /// When it may be gone; always when not given.
    pub condition: Option<Expression>,
}

/// What a node does.
#[derive(Debug)]
pub enum NodeKind {
    /// Asks a model.
    Agent(AgentNode),
    /// Calls tools.
    Tool(ToolNode),
    /// Goes on by what the state says.
    Conditional(ConditionalNode),
    /// Runs another actor with a part of the state.
    Subgraph(SubgraphNode),
    /// Goes on by what a text says.
    Router(RouterNode),
    /// Computes something from the state.
    Function(FunctionNode),
    /// Does one thing for each item of a list.
    Map(MapNode),
    /// Does several things at the same time.
    Parallel(ParallelNode),
}

/// Asks a model. Its answer goes to `output` and, as a message, to the end of `messages`.
#[derive(Debug)]
pub struct AgentNode {
    /// Who is asked.
    pub agent: Arc<Agent>,
    /// What it is asked; `input` when not given.
    pub prompt: Option<Template>,
    /// The key of the state that gets the answer: parsed when the agent has a response format.
    pub output: String,
}

/// Calls tools, one after the other. What the last one answered goes to `output`.
#[derive(Debug)]
pub struct ToolNode {
    /// The calls.
    pub calls: Vec<ToolCall>,
    /// The key of the state that gets the answer; a list when there are several calls.
    pub output: String,
}

/// One call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The tool, by name.
    pub tool: String,
    /// Its arguments.
    pub arguments: Argument,
}

/// A value in which texts may be templates. A text that is nothing but one `{{ … }}` keeps the type
/// of what stands in it.
#[derive(Debug, Clone, PartialEq)]
pub enum Argument {
    /// As it is.
    Plain(Value),
    /// A text with places to fill.
    Text(Template),
    /// The value of an expression.
    Value(Expression),
    /// A list.
    List(Vec<Self>),
    /// A map, in the order of the file.
    Map(Vec<(String, Self)>),
}

/// Goes on by what the state says: to the first target whose check holds, else to `otherwise`, else by
/// the edges of the node.
#[derive(Debug)]
pub struct ConditionalNode {
    /// The checks in their order.
    pub conditions: Vec<(Expression, NodeIndex)>,
    /// Where to go when none holds.
    pub otherwise: Option<NodeIndex>,
}

/// Runs another actor. It begins with `input` and ends with its own state, of which `output` is taken.
#[derive(Debug)]
pub struct SubgraphNode {
    /// What runs.
    pub actor: Arc<Actor>,
    /// The state it begins with, key by key; the whole state when not given.
    pub input: Option<Vec<(String, Argument)>>,
    /// What is taken of its last state: pairs of a key here and a value there. When not given, every
    /// key that the subgraph changed is taken under its own name.
    pub output: Option<Vec<(String, Argument)>>,
}

/// Goes on by what a text says: to the target of the first rule that fits, else to `otherwise`, else by
/// the edges of the node.
#[derive(Debug)]
pub struct RouterNode {
    /// The text; the last message when not given.
    pub message: Option<Expression>,
    /// The rules in their order.
    pub rules: Vec<RouterRule>,
    /// Where to go when none fits.
    pub otherwise: Option<NodeIndex>,
}

/// A rule of a router.
#[derive(Debug, Clone, PartialEq)]
pub struct RouterRule {
    /// What fits.
    pub fits: Fits,
    /// Where to go.
    pub target: NodeIndex,
    /// Whether a prefix or suffix that fits is taken off the text. The key `routed_message` of the state
    /// gets the text either way.
    pub strip: bool,
}

/// What fits a rule of a router. Letters count as they are.
#[derive(Debug, Clone, PartialEq)]
pub enum Fits {
    /// Begins with.
    Prefix(String),
    /// Has in it.
    Contains(String),
    /// Ends with.
    Suffix(String),
    /// Is.
    Equals(String),
    /// An expression over the state, which also sees `message`.
    Check(Expression),
    /// Everything.
    Always,
}

/// Computes something from the state: each pair is a key and its update, all of them from the state
/// before the node.
#[derive(Debug)]
pub struct FunctionNode {
    /// The updates.
    pub set: Vec<(String, Argument)>,
}

/// Does one thing for each item of a list. The answers go to `output` as a list in the order of the
/// items.
#[derive(Debug)]
pub struct MapNode {
    /// The list.
    pub over: Expression,
    /// The key under which an item is seen.
    pub item: String,
    /// What is done: an agent, a tool, a function or a subgraph. Its own `output` says what of its update
    /// the answer is.
    pub each: Box<NodeKind>,
    /// How many at the same time.
    pub concurrency: usize,
    /// The key of the state that gets the answers.
    pub output: String,
    /// Whether a failed item is `{"error": …}` among the answers; otherwise the node fails.
    pub keeps_failures: bool,
}

/// Does several things at the same time. Every branch begins with the state before the node and goes its
/// own way until `join`; the updates of the branches are merged in the order of the branches, each in
/// the order in which it made them, and the run goes on with `join`.
#[derive(Debug)]
pub struct ParallelNode {
    /// Where the branches begin.
    pub branches: Vec<NodeIndex>,
    /// Where they meet.
    pub join: NodeIndex,
    /// How many at the same time.
    pub concurrency: usize,
}
