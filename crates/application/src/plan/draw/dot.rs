//! A decision tree in the language of Graphviz.

use std::fmt::Write as _;

use cleveragents_actors::draw::shortened;

use super::{Look, description, heading};
use crate::plan::book::DecisionTree;

/// The longest text at a decision.
const LONGEST: usize = 80;

/// Draws a decision tree in the language of Graphviz.
pub(in crate::plan) fn dot(tree: &DecisionTree) -> String {
    let mut lines = String::from(
        "digraph decisions {\n    rankdir=LR;\n    node [shape=box, style=rounded, fontname=\"sans-serif\", fontsize=11];\n",
    );
    for (number, node) in tree.nodes.iter().enumerate() {
        let decision = tree.decision(node);
        let mut label = quoted(&heading(decision));
        // Writing to a string does not fail. `\n` is a new line inside a label.
        let _ = write!(
            label,
            "\\n{}",
            quoted(&shortened(description(decision), LONGEST))
        );
        if node.left_out > 0 {
            let _ = write!(label, "\\n+{} deeper", node.left_out);
        }
        let style = if decision.holds() {
            ""
        } else {
            ", style=\"rounded,dashed\""
        };
        let _ = writeln!(
            lines,
            "    n{number} [label=\"{label}\", color=\"{}\"{style}];",
            Look::of(decision.said.kind).colour()
        );
        if let Some(parent) = node.parent {
            let _ = writeln!(lines, "    n{parent} -> n{number};");
        }
    }
    lines.push_str("}\n");
    lines
}

/// A text inside quotes.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
