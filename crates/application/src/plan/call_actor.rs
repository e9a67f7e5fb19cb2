//! The actor of a plan step that is a single tool call.

use std::collections::BTreeMap;

use cleveragents_actors::graph::{
    Argument, Graph, Limits, Node, NodeIndex, NodeKind, ToolCall, ToolNode,
};
use cleveragents_actors::{Actor, ActorKind};
use cleveragents_domain::StepCall;
use serde_json::{Map, Value};

/// Recreates the actor of a run that is a single tool call of a plan, from the definitions stored with the run. Returns
/// `None` for other runs.
pub fn calling_actor(definitions: &Value) -> Option<Actor> {
    let call = definitions.get("call")?.clone();
    let call = serde_json::from_value(call).ok();
    call.as_ref().map(tool_call_actor)
}

/// Creates an actor that makes one tool call.
pub(super) fn tool_call_actor(call: &StepCall) -> Actor {
    Actor {
        name: "builtin/deterministic".to_owned(),
        kind: ActorKind::Tool,
        description: format!("Calls {}", call.tool),
        version: None,
        role: None,
        is_unsafe: false,
        graph: Graph {
            nodes: vec![Node {
                id: "call".into(),
                kind: NodeKind::Tool(ToolNode {
                    calls: vec![ToolCall {
                        tool: call.tool.clone(),
                        arguments: Argument::Plain(call.arguments.clone()),
                    }],
                    output: "output".to_owned(),
                }),
                edges: Vec::new(),
                is_exit: true,
                timeout: None,
                retries: 0,
                on_error: None,
            }],
            entry: NodeIndex(0),
            keys: BTreeMap::new(),
            limits: Limits::of_nodes(1),
        },
        context: Map::new(),
        warnings: Vec::new(),
    }
}
