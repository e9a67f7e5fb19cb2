//! The diagram of an actor.

use super::diagram::{Diagram, DiagramEdge, DiagramNode, EdgeStyle, NodeShape};
use crate::graph::{Actor, Graph, Node, NodeIndex, NodeKind, RouterRule, TextMatch};

/// Converts the graph of an actor to a diagram.
pub fn diagram(actor: &Actor) -> Diagram {
    let graph = &actor.graph;
    let nodes = graph.nodes.iter().map(|node| {
        let (kind, detail) = node_label(graph, node);
        let subtitle = if detail.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}: {detail}")
        };
        DiagramNode {
            tooltip: format!("{}: {subtitle}", node.id),
            lines: vec![node.id.to_string(), subtitle],
            shape: match &node.kind {
                NodeKind::Conditional(_) | NodeKind::Router(_) => NodeShape::Choice,
                NodeKind::Subgraph(_) => NodeShape::Nested,
                NodeKind::Parallel(_) | NodeKind::Map(_) => NodeShape::Fork,
                NodeKind::Tool(_) | NodeKind::Function(_) => NodeShape::Slanted,
                NodeKind::Agent(_) => NodeShape::Rounded,
            },
            is_exit: node.is_exit,
            ..DiagramNode::default()
        }
    });
    let edges = graph.nodes.iter().enumerate().flat_map(|(from, node)| {
        drawn_edges(node).into_iter().map(move |edge| DiagramEdge {
            from,
            to: edge.target.0 as usize,
            label: edge.label,
            style: match edge.kind {
                DrawnEdgeKind::Plain | DrawnEdgeKind::Join => EdgeStyle::Plain,
                DrawnEdgeKind::Branch => EdgeStyle::Thick,
                DrawnEdgeKind::Failure => EdgeStyle::Dashed,
            },
        })
    });
    Diagram {
        title: title(actor),
        nodes: nodes.collect(),
        edges: edges.collect(),
        entry: Some(graph.entry.0 as usize),
        ..Diagram::default()
    }
}

/// A drawn edge from one node to another.
pub(crate) struct DrawnEdge {
    pub(crate) target: NodeIndex,
    /// Condition of the edge; `None` for an unconditional edge.
    pub(crate) label: Option<String>,
    pub(crate) kind: DrawnEdgeKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DrawnEdgeKind {
    /// One of several alternatives.
    Plain,
    /// Taken concurrently with others.
    Branch,
    /// Taken when all branches have finished.
    Join,
    /// Taken after a failure.
    Failure,
}

/// All outgoing edges of a node, in the order of evaluation.
pub(crate) fn drawn_edges(node: &Node) -> Vec<DrawnEdge> {
    let drawn_edge = |target: NodeIndex, label: Option<String>, kind| DrawnEdge {
        target,
        label,
        kind,
    };
    let mut edges = Vec::new();
    match &node.kind {
        NodeKind::Conditional(choice) => {
            for (condition, target) in &choice.conditions {
                let label = condition.text().to_owned();
                edges.push(drawn_edge(*target, Some(label), DrawnEdgeKind::Plain));
            }
            let otherwise = choice.otherwise;
            edges.extend(
                otherwise.map(|to| drawn_edge(to, Some("else".to_owned()), DrawnEdgeKind::Plain)),
            );
        }
        NodeKind::Router(router) => {
            for rule in &router.rules {
                edges.push(drawn_edge(
                    rule.target,
                    rule_label(rule),
                    DrawnEdgeKind::Plain,
                ));
            }
            let otherwise = router.otherwise;
            edges.extend(
                otherwise.map(|to| drawn_edge(to, Some("else".to_owned()), DrawnEdgeKind::Plain)),
            );
        }
        NodeKind::Parallel(parallel) => {
            for branch in &parallel.branches {
                edges.push(drawn_edge(*branch, None, DrawnEdgeKind::Branch));
            }
        }
        _ => {}
    }
    if !node.is_exit {
        for edge in &node.edges {
            let label = edge.condition.as_ref().map(|text| text.text().to_owned());
            edges.push(drawn_edge(edge.target, label, DrawnEdgeKind::Plain));
        }
    }
    let failure = node.on_error;
    edges.extend(
        failure.map(|to| drawn_edge(to, Some("on error".to_owned()), DrawnEdgeKind::Failure)),
    );
    edges
}

fn rule_label(rule: &RouterRule) -> Option<String> {
    match &rule.text_match {
        TextMatch::Prefix(text) => Some(format!("starts with {text:?}")),
        TextMatch::Contains(text) => Some(format!("contains {text:?}")),
        TextMatch::Suffix(text) => Some(format!("ends with {text:?}")),
        TextMatch::Equals(text) => Some(format!("equals {text:?}")),
        TextMatch::Check(check) => Some(check.text().to_owned()),
        TextMatch::Always => None,
    }
}

/// Kind and main setting of a node.
pub(crate) fn node_label(graph: &Graph, node: &Node) -> (&'static str, String) {
    let name = |index: &NodeIndex| graph.nodes[index.0 as usize].id.to_string();
    match &node.kind {
        NodeKind::Agent(node) => ("agent", node.agent.model.clone().unwrap_or_default()),
        NodeKind::Tool(node) => {
            let tools: Vec<&str> = node.calls.iter().map(|call| call.tool.as_str()).collect();
            ("tool", tools.join(", "))
        }
        NodeKind::Conditional(_) => ("conditional", String::new()),
        NodeKind::Subgraph(node) => ("subgraph", node.actor.name.clone()),
        NodeKind::Router(_) => ("message_router", String::new()),
        NodeKind::Function(node) => {
            let keys: Vec<&str> = node.set.iter().map(|(key, _)| key.as_str()).collect();
            ("function", keys.join(", "))
        }
        NodeKind::Map(node) => ("map", format!("over {}", node.over.text())),
        NodeKind::Parallel(node) => ("parallel", format!("joins at {}", name(&node.join))),
    }
}

/// Title of a drawing.
pub(crate) fn title(actor: &Actor) -> String {
    let kind = actor.kind.as_str();
    let count = actor.graph.nodes.len();
    let nodes = if count == 1 { "node" } else { "nodes" };
    format!("{} ({kind}, {count} {nodes})", actor.name)
}
