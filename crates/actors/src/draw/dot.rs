//! Draws a diagram in the DOT language of Graphviz.

use std::fmt::Write as _;

use super::diagram::{Arrangement, Diagram, EdgeStyle, NodeShape, shortened};

/// Maximum length of a line, in characters.
const MAX_LENGTH: usize = 80;

/// Draws a diagram in the DOT language of Graphviz.
pub fn dot(diagram: &Diagram) -> String {
    let direction = match diagram.arrangement {
        Arrangement::Layers => "TB",
        Arrangement::Outline => "LR",
    };
    let mut out = format!(
        "digraph diagram {{\n    rankdir={direction};\n    bgcolor=\"white\";\n    \
         node [shape=box, style=rounded, fontname=\"sans-serif\", fontsize=11, fontcolor=\"#1f2328\"];\n"
    );
    // Writing to a string does not fail.
    for (number, node) in diagram.nodes.iter().enumerate() {
        let lines: Vec<String> = node
            .lines
            .iter()
            .map(|line| quoted(&shortened(line, MAX_LENGTH)))
            .collect();
        // `\n` is a new line inside a label.
        let _ = write!(out, "    n{number} [label=\"{}\"", lines.join("\\n"));
        if let Some(group) = node.group {
            let _ = write!(out, ", color=\"{}\"", group.color);
        }
        match node.shape {
            NodeShape::Choice => out.push_str(", shape=diamond, style=solid"),
            NodeShape::Fork => out.push_str(", shape=hexagon, style=solid"),
            NodeShape::Nested => out.push_str(", peripheries=2"),
            NodeShape::Slanted => out.push_str(", shape=parallelogram, style=solid"),
            NodeShape::Rectangle | NodeShape::Rounded => {}
        }
        if node.is_faded {
            out.push_str(", style=\"rounded,dashed\"");
        }
        if node.is_exit {
            out.push_str(", penwidth=3");
        }
        out.push_str("];\n");
    }
    for edge in &diagram.edges {
        let mut attributes = Vec::new();
        if let Some(label) = &edge.label {
            attributes.push(format!(
                "label=\"{}\"",
                quoted(&shortened(label, MAX_LENGTH))
            ));
        }
        match edge.style {
            EdgeStyle::Plain => {}
            EdgeStyle::Thick => attributes.push("penwidth=2".to_owned()),
            EdgeStyle::Dashed => attributes.push("style=dashed".to_owned()),
        }
        let attributes = if attributes.is_empty() {
            String::new()
        } else {
            format!(" [{}]", attributes.join(", "))
        };
        let _ = writeln!(out, "    n{} -> n{}{attributes};", edge.from, edge.to);
    }
    out.push_str("}\n");
    out
}

/// Escapes a text for use inside quotes.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
