//! A decision tree as a Mermaid flowchart.

use std::fmt::Write as _;

use cleveragents_actors::draw::{mermaid_text, shortened};

use super::{Look, description, heading};
use crate::plan::book::DecisionTree;

/// The longest text at a decision.
const LONGEST: usize = 80;

/// Draws a decision tree as a Mermaid flowchart.
pub(in crate::plan) fn mermaid(tree: &DecisionTree) -> String {
    let mut lines = String::from("flowchart LR\n");
    for (number, node) in tree.nodes.iter().enumerate() {
        let decision = tree.decision(node);
        let mut label = mermaid_text(&heading(decision));
        // Writing to a string does not fail.
        let _ = write!(
            label,
            "<br/>{}",
            mermaid_text(&shortened(description(decision), LONGEST))
        );
        if node.left_out > 0 {
            let _ = write!(label, "<br/>+{} deeper", node.left_out);
        }
        let class = if decision.holds() {
            Look::of(decision.said.kind).as_str()
        } else {
            "gone"
        };
        let _ = writeln!(lines, "    n{number}[\"{label}\"]:::{class}");
        if let Some(parent) = node.parent {
            let arrow = if decision.holds() { "-->" } else { "-.->" };
            let _ = writeln!(lines, "    n{parent} {arrow} n{number}");
        }
    }
    for look in Look::ALL {
        let _ = writeln!(
            lines,
            "    classDef {} stroke:{},stroke-width:2px",
            look.as_str(),
            look.colour()
        );
    }
    lines.push_str("    classDef gone stroke-dasharray:4 3,opacity:0.6\n");
    lines
}
