//! [`Draft`]: builder for graphs, in which nodes are referenced by id.

use std::collections::BTreeMap;
use std::sync::Arc;

use cleveragents_actors::graph::{
    AgentNode, Argument, ConditionalNode, Edge, FunctionNode, Key, Limits, MapNode, Memory,
    NodeIndex, ParallelNode, RouterNode, RouterRule, SubgraphNode, ToolCall, ToolNode,
};
use cleveragents_actors::{
    Actor, ActorKind, Agent, Expression, Graph, Node, NodeKind, Reducer, Template,
};
use serde_json::{Map, Value};

/// A graph under construction. Its entry is the first node.
pub(crate) struct Draft {
    pub(crate) graph: Graph,
    pub(crate) context: Map<String, Value>,
}

impl Draft {
    /// Creates a graph with these nodes, which do nothing yet.
    pub(crate) fn new<S: AsRef<str>>(ids: &[S]) -> Self {
        let nodes: Vec<Node> = ids
            .iter()
            .map(|id| Node {
                id: Arc::from(id.as_ref()),
                kind: function(&[]),
                edges: Vec::new(),
                is_exit: false,
                timeout: None,
                retries: 0,
                on_error: None,
            })
            .collect();
        Self {
            graph: Graph {
                entry: NodeIndex(0),
                keys: BTreeMap::new(),
                limits: Limits::of_nodes(nodes.len()),
                nodes,
            },
            context: Map::new(),
        }
    }

    pub(crate) fn at(&self, id: &str) -> NodeIndex {
        let place = self.graph.nodes.iter().position(|node| &*node.id == id);
        let place = place.unwrap_or_else(|| panic!("no node {id}"));
        NodeIndex(u32::try_from(place).expect("few nodes"))
    }

    pub(crate) fn node(&mut self, id: &str) -> &mut Node {
        let index = self.at(id).0 as usize;
        &mut self.graph.nodes[index]
    }

    pub(crate) fn does(mut self, id: &str, kind: NodeKind) -> Self {
        self.node(id).kind = kind;
        self
    }

    pub(crate) fn edge(mut self, from: &str, to: &str) -> Self {
        let target = self.at(to);
        self.node(from).edges.push(Edge {
            target,
            condition: None,
        });
        self
    }

    pub(crate) fn edge_if(mut self, from: &str, condition: &str, to: &str) -> Self {
        let target = self.at(to);
        self.node(from).edges.push(Edge {
            target,
            condition: Some(expression(condition)),
        });
        self
    }

    pub(crate) fn exit(mut self, id: &str) -> Self {
        self.node(id).is_exit = true;
        self
    }

    pub(crate) fn on_error(mut self, id: &str, to: &str) -> Self {
        let target = self.at(to);
        self.node(id).on_error = Some(target);
        self
    }

    pub(crate) fn retries(mut self, id: &str, retries: u32) -> Self {
        self.node(id).retries = retries;
        self
    }

    pub(crate) fn key(mut self, name: &str, reducer: Reducer, initial: Value) -> Self {
        let key = Key {
            reducer,
            initial: Some(initial).filter(|initial| !initial.is_null()),
        };
        self.graph.keys.insert(name.to_owned(), key);
        self
    }

    pub(crate) fn limit(mut self, narrow: impl FnOnce(&mut Limits)) -> Self {
        narrow(&mut self.graph.limits);
        self
    }

    pub(crate) fn parallel(self, id: &str, branches: &[&str], join: &str) -> Self {
        let kind = NodeKind::Parallel(ParallelNode {
            branches: branches.iter().map(|branch| self.at(branch)).collect(),
            join: self.at(join),
            concurrency: branches.len().max(1),
        });
        self.does(id, kind)
    }

    pub(crate) fn conditional(
        self,
        id: &str,
        conditions: &[(&str, &str)],
        otherwise: Option<&str>,
    ) -> Self {
        let kind = NodeKind::Conditional(ConditionalNode {
            conditions: conditions
                .iter()
                .map(|(condition, target)| (expression(condition), self.at(target)))
                .collect(),
            otherwise: otherwise.map(|target| self.at(target)),
        });
        self.does(id, kind)
    }

    pub(crate) fn router(self, id: &str, rules: Vec<RouterRule>, otherwise: Option<&str>) -> Self {
        let kind = NodeKind::Router(RouterNode {
            message: None,
            rules,
            otherwise: otherwise.map(|target| self.at(target)),
        });
        self.does(id, kind)
    }

    pub(crate) fn actor(self) -> Actor {
        Actor {
            name: "local/drafted".to_owned(),
            kind: ActorKind::Graph,
            description: String::new(),
            version: None,
            role: None,
            is_unsafe: false,
            graph: self.graph,
            context: self.context,
            warnings: Vec::new(),
        }
    }
}

pub(crate) fn expression(text: &str) -> Expression {
    Expression::parse(text).expect("an expression")
}

pub(crate) fn template(text: &str) -> Template {
    Template::parse(text).expect("a template")
}

/// Pairs of keys and parsed expressions.
pub(crate) fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, Argument)> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), Argument::Value(expression(value))))
        .collect()
}

pub(crate) fn function(set: &[(&str, &str)]) -> NodeKind {
    NodeKind::Function(FunctionNode { set: pairs(set) })
}

pub(crate) fn bare_agent() -> Agent {
    Agent {
        name: "assistant".to_owned(),
        model: None,
        system_prompt: None,
        temperature: None,
        max_output_tokens: None,
        reasoning_effort: None,
        tools: Vec::new(),
        skills: Vec::new(),
        mcp_servers: Vec::new(),
        response_format: None,
        memory: Memory::default(),
        context_view: None,
        options: Map::new(),
        remote: None,
    }
}

pub(crate) fn agent(prompt: &str, output: &str) -> NodeKind {
    NodeKind::Agent(AgentNode {
        agent: Arc::new(bare_agent()),
        prompt: Some(template(prompt)),
        output: output.to_owned(),
    })
}

pub(crate) fn tool(tool: &str, arguments: &[(&str, &str)], output: &str) -> NodeKind {
    NodeKind::Tool(ToolNode {
        calls: vec![call(tool, arguments)],
        output: output.to_owned(),
    })
}

pub(crate) fn call(tool: &str, arguments: &[(&str, &str)]) -> ToolCall {
    ToolCall {
        tool: tool.to_owned(),
        arguments: Argument::Map(pairs(arguments)),
    }
}

pub(crate) fn subgraph(actor: Actor) -> NodeKind {
    NodeKind::Subgraph(SubgraphNode {
        actor: Arc::new(actor),
        input: None,
        output: None,
    })
}

pub(crate) fn map(over: &str, each: NodeKind, output: &str, concurrency: usize) -> NodeKind {
    NodeKind::Map(MapNode {
        over: expression(over),
        item: "item".to_owned(),
        each: Box::new(each),
        concurrency,
        output: output.to_owned(),
        keeps_failures: false,
    })
}
