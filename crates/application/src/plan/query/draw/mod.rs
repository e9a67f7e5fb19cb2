//! The diagram of a [`DecisionTree`].

use std::collections::HashMap;
use std::fmt::Write as _;

use cleveragents_actors::draw::{
    Arrangement, Diagram, DiagramEdge, DiagramNode, EdgeStyle, NodeGroup,
};
use cleveragents_domain::{Decision, DecisionId, DecisionType};

use super::DecisionTree;

/// A decision tree as boxes and lines, below a title.
pub(in crate::plan) fn diagram(tree: &DecisionTree, title: &str) -> Diagram {
    let nodes = tree.nodes.iter().map(|node| {
        let decision = tree.decision(node);
        let content = &decision.content;
        let mut lines = vec![heading(decision), description(decision).to_owned()];
        lines.extend((node.left_out > 0).then(|| format!("+{} deeper", node.left_out)));
        DiagramNode {
            lines,
            tooltip: format!("{} {}: {}", content.id, content.question, content.chosen),
            group: Some(group(content.kind)),
            is_faded: !decision.holds(),
            ..DiagramNode::default()
        }
    });
    let edges = tree.nodes.iter().enumerate().filter_map(|(to, node)| {
        Some(DiagramEdge {
            from: node.parent?,
            to,
            label: None,
            style: if tree.decision(node).holds() {
                EdgeStyle::Plain
            } else {
                EdgeStyle::Dashed
            },
        })
    });
    Diagram {
        title: title.to_owned(),
        arrangement: Arrangement::Outline,
        nodes: nodes.collect(),
        edges: edges.collect(),
        entry: None,
    }
}

/// Like [`diagram`], with a dashed edge from each decision to those that it influenced without being their parent.
pub(in crate::plan) fn diagram_with_influences(tree: &DecisionTree, title: &str) -> Diagram {
    let mut diagram = diagram(tree, title);
    let shown: HashMap<DecisionId, usize> = tree
        .nodes
        .iter()
        .enumerate()
        .map(|(number, node)| (tree.decision(node).content.id, number))
        .collect();
    for (to, node) in tree.nodes.iter().enumerate() {
        let content = &tree.decision(node).content;
        let sources = content.influenced_by.iter();
        for from in sources.filter(|from| Some(**from) != content.parent) {
            if let Some(from) = shown.get(from) {
                diagram.edges.push(DiagramEdge {
                    from: *from,
                    to,
                    label: Some("influences".to_owned()),
                    style: EdgeStyle::Dashed,
                });
            }
        }
    }
    diagram
}

/// The label of a decision: the chosen option, or the question if nothing was chosen.
pub(in crate::plan) fn description(decision: &Decision) -> &str {
    let content = &decision.content;
    if content.chosen.trim().is_empty() {
        &content.question
    } else {
        &content.chosen
    }
}

/// The reason why a decision is invalid; `None` for a valid one.
pub(in crate::plan) const fn invalid_status(decision: &Decision) -> Option<&'static str> {
    match (decision.superseded_by, decision.undone_by) {
        (Some(_), _) => Some("superseded"),
        (None, Some(_)) => Some("rolled back"),
        (None, None) => None,
    }
}

/// The group of decisions that share a colour.
const fn group(kind: DecisionType) -> NodeGroup {
    let (name, color) = match kind {
        DecisionType::PromptDefinition => ("root", "#0969da"),
        DecisionType::InvariantEnforced => ("rule", "#9a6700"),
        DecisionType::StrategyChoice | DecisionType::ResourceSelection => ("plan", "#1a7f37"),
        DecisionType::SubplanSpawn | DecisionType::SubplanParallelSpawn => ("child", "#8250df"),
        DecisionType::ImplementationChoice | DecisionType::ToolInvocation => ("work", "#59636e"),
        DecisionType::ErrorRecovery
        | DecisionType::ValidationResponse
        | DecisionType::Reversion => ("trouble", "#cf222e"),
        DecisionType::UserIntervention => ("person", "#bf3989"),
    };
    NodeGroup { name, color }
}

/// The line above a label: type and confidence of the decision, and why it is invalid.
fn heading(decision: &Decision) -> String {
    let content = &decision.content;
    let mut text = content.kind.as_str().to_owned();
    // Writing to a string cannot fail.
    if let Some(confidence) = content.confidence {
        let _ = write!(text, " {confidence:.2}");
    }
    if let Some(invalid_status) = invalid_status(decision) {
        let _ = write!(text, " ({invalid_status})");
    }
    text
}

#[cfg(test)]
mod tests;
