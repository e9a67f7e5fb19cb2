//! The diagram of a [`DecisionTree`].

use std::fmt::Write as _;

use cleveragents_actors::draw::{
    Arrangement, Diagram, DiagramEdge, DiagramNode, EdgeStyle, NodeGroup,
};
use cleveragents_domain::{Decision, DecisionType};

use super::DecisionTree;

/// A decision tree as boxes and lines, below a title.
pub(in crate::plan) fn diagram(tree: &DecisionTree, title: &str) -> Diagram {
    let nodes = tree.nodes.iter().map(|node| {
        let decision = tree.decision(node);
        let said = &decision.content;
        let mut lines = vec![heading(decision), description(decision).to_owned()];
        lines.extend((node.left_out > 0).then(|| format!("+{} deeper", node.left_out)));
        DiagramNode {
            lines,
            tooltip: format!("{} {}: {}", said.id, said.question, said.chosen),
            group: Some(group(said.kind)),
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

/// The label of a decision: the chosen option, or the question if nothing was chosen.
pub(in crate::plan) fn description(decision: &Decision) -> &str {
    let said = &decision.content;
    if said.chosen.trim().is_empty() {
        &said.question
    } else {
        &said.chosen
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
    let said = &decision.content;
    // Writing to a string cannot fail.
    let mut text = said.kind.as_str().to_owned();
    if let Some(confidence) = said.confidence {
        let _ = write!(text, " {confidence:.2}");
    }
    if let Some(invalid_status) = invalid_status(decision) {
        let _ = write!(text, " ({invalid_status})");
    }
    text
}

#[cfg(test)]
mod tests;
