//! Compiled actors: every reference is resolved to an index or another compiled actor, and every rule has been checked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::{MicroUsd, RemoteAgent};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::expression::{Expression, Template};
use crate::state::Reducer;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ActorKind {
    /// A model with instructions and tools.
    Llm,
    /// One or several tool calls in sequence.
    Tool,
    Graph,
    /// A remote agent.
    A2a,
}

impl ActorKind {
    /// Name in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Llm => "llm",
            Self::Tool => "tool",
            Self::Graph => "graph",
            Self::A2a => "a2a",
        }
    }
}

/// Role of an actor in plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Creates the strategy.
    Strategy,
    /// Executes the steps.
    Execution,
    /// Estimates effort and cost.
    Estimation,
    /// Reconciles invariants.
    InvariantReconciliation,
    /// Reviews the result.
    Review,
}

/// A compiled actor.
#[derive(Debug)]
pub struct Actor {
    /// Name, with the namespace.
    pub name: String,
    pub kind: ActorKind,
    /// Description for users.
    pub description: String,
    /// Version of the actor, as given in the file.
    pub version: Option<String>,
    /// Role in plans.
    pub role: Option<Role>,
    /// Whether the actor requires permissions that a cautious profile refuses.
    pub is_unsafe: bool,
    /// Compiled graph.
    pub graph: Graph,
    /// Values that templates and expressions see as `context`.
    pub context: Map<String, Value>,
    /// Warnings about the file, which is valid.
    pub warnings: Vec<String>,
}

/// A model with instructions and tools.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// Name in the file, or the name of the actor when the actor is a single agent.
    pub name: String,
    /// Model, as `provider/model`; `None` for the default model.
    pub model: Option<String>,
    pub system_prompt: Option<Template>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Maximum number of output tokens of one step.
    pub max_output_tokens: Option<u32>,
    /// Reasoning effort, as a value that models accept.
    pub reasoning_effort: Option<String>,
    /// Names or patterns of the tools that the agent may call. If `tools`, `skills` and `mcp_servers` are all empty, it
    /// has no tools.
    pub tools: Vec<String>,
    /// Skills whose tools the agent may also call.
    pub skills: Vec<String>,
    /// MCP servers whose tools the agent may also call.
    pub mcp_servers: Vec<String>,
    /// JSON schema that the answer must match.
    pub response_format: Option<ResponseFormat>,
    /// Limits of the conversation that the agent receives.
    pub memory: Memory,
    /// View of a project's context that the agent receives: `strategize`, `execute`, `apply` or `default`.
    pub context_view: Option<String>,
    /// Further model parameters of the file, such as `top_p`.
    pub options: Map<String, Value>,
    /// The remote agent that is called instead of a model.
    pub remote: Option<RemoteAgent>,
}

/// Format of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct ResponseFormat {
    /// Name of the format: letters, digits, `_` and `-`.
    pub name: String,
    /// The JSON schema.
    pub schema: Value,
    /// Whether the provider must enforce the schema exactly.
    pub strict: bool,
}

/// Limits of the conversation that a model receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Whether the model receives earlier messages.
    pub enabled: bool,
    /// Maximum number of messages.
    pub max_messages: Option<usize>,
    /// Maximum number of tokens.
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

/// Index of a node in [`Graph::nodes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeIndex(pub u32);

/// A compiled graph.
#[derive(Debug)]
pub struct Graph {
    /// Nodes, in the order of the file.
    pub nodes: Vec<Node>,
    pub entry: NodeIndex,
    /// Keys of the state that the file declares. Updates of other keys replace the value; only `messages` appends.
    pub keys: BTreeMap<String, Key>,
    /// Limits of a run.
    pub limits: Limits,
}

/// A key of the state.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// Reducer that merges updates into the value.
    pub reducer: Reducer,
    /// Value before the first update.
    pub initial: Option<Value>,
}

/// Limits of a run. `None` means unlimited.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Maximum number of finished nodes, including nodes of subgraphs.
    pub max_steps: u64,
    /// Maximum nesting of subgraphs.
    pub max_depth: u32,
    /// Maximum number of model calls.
    pub max_model_calls: Option<u64>,
    /// Maximum number of tool calls.
    pub max_tool_calls: Option<u64>,
    /// Maximum duration of the run.
    pub timeout: Option<Duration>,
    /// Maximum cost.
    pub max_cost: Option<MicroUsd>,
}

impl Limits {
    /// Default limits of a graph with this many nodes.
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
    /// Id, unique in the graph.
    pub id: Arc<str>,
    /// Kind of the node, with the settings of that kind.
    pub kind: NodeKind,
    /// Outgoing edges; the run takes the first edge whose condition holds. Conditional and router nodes first evaluate
    /// their own targets.
    pub edges: Vec<Edge>,
    /// Whether the run, or the subgraph, ends after this node.
    pub is_exit: bool,
    /// Timeout of one attempt.
    pub timeout: Option<Duration>,
    /// Maximum number of retries.
    pub retries: u32,
    /// Node to continue with when the last attempt failed; the state key `error` then contains the error. `None`: the
    /// run fails.
    pub on_error: Option<NodeIndex>,
}

/// An edge between two nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct Edge {
    pub target: NodeIndex,
    /// Condition of the edge; `None` for an unconditional edge.
    pub condition: Option<Expression>,
}

/// Kind of a node, with the settings of that kind.
#[derive(Debug)]
pub enum NodeKind {
    /// Calls a model.
    Agent(AgentNode),
    /// Calls tools.
    Tool(ToolNode),
    /// Branches by the state.
    Conditional(ConditionalNode),
    /// Runs another actor with a part of the state.
    Subgraph(SubgraphNode),
    /// Branches by a text.
    Router(RouterNode),
    /// Computes values from the state.
    Function(FunctionNode),
    /// Runs the same agent, tool, function or subgraph for each item of a list.
    Map(MapNode),
    /// Runs several branches concurrently.
    Parallel(ParallelNode),
}

/// Calls a model. Its answer goes to `output` and, as a message, to the end of `messages`.
#[derive(Debug)]
pub struct AgentNode {
    /// Agent to call.
    pub agent: Arc<Agent>,
    /// Prompt; `None` for the value of the state key `input`.
    pub prompt: Option<Template>,
    /// State key for the answer, which is parsed when the agent has a response format.
    pub output: String,
}

/// Calls tools in sequence. The last result goes to `output`.
#[derive(Debug)]
pub struct ToolNode {
    /// Calls, in order.
    pub calls: Vec<ToolCall>,
    /// State key for the result; a list when there are several calls.
    pub output: String,
}

/// One tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// Name of the tool.
    pub tool: String,
    pub arguments: Argument,
}

/// A value whose texts may be templates. A text that consists of a single `{{ … }}` keeps the type of its value.
#[derive(Debug, Clone, PartialEq)]
pub enum Argument {
    /// A constant.
    Plain(Value),
    /// A text with placeholders.
    Text(Template),
    Value(Expression),
    List(Vec<Self>),
    /// A map, in the order of the file.
    Map(Vec<(String, Self)>),
}

/// Branches by the state: continues with the first target whose check holds, else with `otherwise`, else with the edges
/// of the node.
#[derive(Debug)]
pub struct ConditionalNode {
    /// Checks with their targets, in order.
    pub conditions: Vec<(Expression, NodeIndex)>,
    /// Target when no check holds.
    pub otherwise: Option<NodeIndex>,
}

/// Runs another actor with `input` as its initial state, and takes `output` from its final state.
#[derive(Debug)]
pub struct SubgraphNode {
    /// Actor to run.
    pub actor: Arc<Actor>,
    /// Initial state, key by key; `None` for the whole outer state.
    pub input: Option<Vec<(String, Argument)>>,
    /// Outputs: pairs of an outer key and a value computed from the final inner state. `None`: every key that the
    /// subgraph changed keeps its name.
    pub output: Option<Vec<(String, Argument)>>,
}

/// Branches by a text: continues with the target of the first matching rule, else with `otherwise`, else with the edges
/// of the node.
#[derive(Debug)]
pub struct RouterNode {
    /// Text to match; `None` for the last message.
    pub message: Option<Expression>,
    /// Rules, in order.
    pub rules: Vec<RouterRule>,
    /// Target when no rule matches.
    pub otherwise: Option<NodeIndex>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct RouterRule {
    /// Condition of the rule.
    pub text_match: TextMatch,
    pub target: NodeIndex,
    /// Whether a matching prefix or suffix is removed from the text before it is written to the state key
    /// `routed_message`.
    pub strip: bool,
}

/// Condition of a router rule. Case-sensitive.
#[derive(Debug, Clone, PartialEq)]
pub enum TextMatch {
    /// The text starts with this.
    Prefix(String),
    /// The text contains this.
    Contains(String),
    /// The text ends with this.
    Suffix(String),
    /// The text equals this.
    Equals(String),
    /// An expression over the state, which also sees `message`.
    Check(Expression),
    /// Always matches.
    Always,
}

/// Computes values from the state. Each pair is a key and its update; every update is computed from the state before
/// the node.
#[derive(Debug)]
pub struct FunctionNode {
    /// Updates of the state.
    pub set: Vec<(String, Argument)>,
}

/// Runs `each` for every item of a list. The results go to `output` as a list in the order of the items.
#[derive(Debug)]
pub struct MapNode {
    /// Expression for the list.
    pub over: Expression,
    /// Name of the current item in expressions and templates.
    pub item: String,
    /// The agent, tool, function or subgraph to run for each item. The `output` of a subgraph selects its result.
    pub each: Box<NodeKind>,
    /// Maximum number of concurrent items.
    pub concurrency: usize,
    /// State key for the results.
    pub output: String,
    /// Whether a failed item becomes `{"error": …}` among the results; otherwise the node fails.
    pub keeps_failures: bool,
}

/// Runs several branches concurrently. Every branch starts with the state before the node and runs independently until
/// `join`. The updates are merged in the order of the branches, and within a branch in the order of its steps; then the
/// run continues with `join`.
#[derive(Debug)]
pub struct ParallelNode {
    /// First node of each branch.
    pub branches: Vec<NodeIndex>,
    /// Node where the branches join.
    pub join: NodeIndex,
    /// Maximum number of concurrent branches.
    pub concurrency: usize,
}
