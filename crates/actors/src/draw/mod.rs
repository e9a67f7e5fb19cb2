//! Drawings of actors: for terminals, as Mermaid, and as SVG.

mod layout;
mod mermaid;
mod svg;
mod text;

pub use mermaid::{escaped as mermaid_text, mermaid};
pub use svg::{escaped as xml_text, svg};
pub use text::text;

use crate::graph::{Actor, Fits, Graph, Node, NodeIndex, NodeKind, RouterRule};

/// A way from one node to another, as it is drawn.
pub(crate) struct Way {
    pub(crate) target: NodeIndex,
    /// When it is gone; nothing when always.
    pub(crate) label: Option<String>,
    pub(crate) kind: WayKind,
}

/// How a way is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WayKind {
    /// One of those that are chosen from.
    Plain,
    /// Gone at the same time as others.
    Branch,
    /// Gone when all branches have come to it.
    Join,
    /// Gone after a failure.
    Failure,
}

/// Every way that leads away from a node, in the order in which they are tried.
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
        Fits::Prefix(text) => Some(format!("begins with {text:?}")),
        Fits::Contains(text) => Some(format!("has {text:?}")),
        Fits::Suffix(text) => Some(format!("ends with {text:?}")),
        Fits::Equals(text) => Some(format!("is {text:?}")),
        Fits::Check(check) => Some(check.text().to_owned()),
        Fits::Always => None,
    }
}

/// What a node does, in a word and a detail.
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

/// A text of at most so many characters on one line, without what could move a cursor.
pub fn shortened(text: &str, most: usize) -> String {
    let clean: String = text
        .chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect();
    let clean = clean.split_whitespace().collect::<Vec<_>>().join(" ");
    if clean.chars().count() <= most {
        return clean;
    }
    let kept: String = clean.chars().take(most.saturating_sub(1)).collect();
    kept + "…"
}

/// What stands above a drawing.
pub(crate) fn title(actor: &Actor) -> String {
    let kind = actor.kind.as_str();
    let count = actor.graph.nodes.len();
    let nodes = if count == 1 { "node" } else { "nodes" };
    format!("{} ({kind}, {count} {nodes})", actor.name)
}
