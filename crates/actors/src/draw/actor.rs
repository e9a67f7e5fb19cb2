//! The diagram of an actor.

use super::diagram::{Diagram, DiagramEdge, DiagramNode, EdgeStyle, NodeShape};
use crate::graph::{Actor, Fits, Graph, Node, NodeIndex, NodeKind, RouterRule};

/// Converts the graph of an actor to a diagram.
pub fn diagram(actor: &Actor) -> Diagram {
    let graph = &actor.graph;
    let nodes = graph.nodes.iter().map(|node| {
        let (kind, detail) = about(graph, node);
        let below = if detail.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}: {detail}")
        };
        DiagramNode {
            tooltip: format!("{}: {below}", node.id),
            lines: vec![node.id.to_string(), below],
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
        ways(node).into_iter().map(move |way| DiagramEdge {
            from,
            to: way.target.0 as usize,
            label: way.label,
            style: match way.kind {
                WayKind::Plain | WayKind::Join => EdgeStyle::Plain,
                WayKind::Branch => EdgeStyle::Thick,
                WayKind::Failure => EdgeStyle::Dashed,
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
pub(crate) struct Way {
    pub(crate) target: NodeIndex,
    /// Condition of the edge; `None` for an unconditional one.
    pub(crate) label: Option<String>,
    pub(crate) kind: WayKind,
}

/// When an edge is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WayKind {
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
pub(crate) fn ways(node: &Node) -> Vec<Way> {
    let way = |target: NodeIndex, label: Option<String>, kind| Way {
        target,
        label,
        kind,
    };
    let mut ways = Vec::new();
    match &node.kind {
        NodeKind::Conditional(choice) => {
            for (condition, target) in &choice.conditions {
                let label = condition.text().to_owned();
                ways.push(way(*target, Some(label), WayKind::Plain));
            }
            let otherwise = choice.otherwise;
            ways.extend(otherwise.map(|to| way(to, Some("else".to_owned()), WayKind::Plain)));
        }
        NodeKind::Router(router) => {
            for rule in &router.rules {
                ways.push(way(rule.target, rule_label(rule), WayKind::Plain));
            }
            let otherwise = router.otherwise;
            ways.extend(otherwise.map(|to| way(to, Some("else".to_owned()), WayKind::Plain)));
        }
        NodeKind::Parallel(parallel) => {
            for branch in &parallel.branches {
                ways.push(way(*branch, None, WayKind::Branch));
            }
        }
        _ => {}
    }
    if !node.is_exit {
        for edge in &node.edges {
            let label = edge.condition.as_ref().map(|text| text.text().to_owned());
            ways.push(way(edge.target, label, WayKind::Plain));
        }
    }
    let failure = node.on_error;
    ways.extend(failure.map(|to| way(to, Some("on error".to_owned()), WayKind::Failure)));
    ways
}

fn rule_label(rule: &RouterRule) -> Option<String> {
    match &rule.fits {
        Fits::Prefix(text) => Some(format!("starts with {text:?}")),
        Fits::Contains(text) => Some(format!("contains {text:?}")),
        Fits::Suffix(text) => Some(format!("ends with {text:?}")),
        Fits::Equals(text) => Some(format!("equals {text:?}")),
        Fits::Check(check) => Some(check.text().to_owned()),
        Fits::Always => None,
    }
}

/// Kind and main setting of a node.
pub(crate) fn about(graph: &Graph, node: &Node) -> (&'static str, String) {
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
