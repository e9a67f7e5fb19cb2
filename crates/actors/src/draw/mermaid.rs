//! Draws a diagram as a Mermaid flowchart.

use std::fmt::Write as _;

use super::diagram::{Arrangement, Diagram, EdgeStyle, NodeShape, shortened};

/// Maximum length of a line, in characters.
const MAX_LENGTH: usize = 80;

/// Draws a diagram as a Mermaid flowchart.
pub fn mermaid(diagram: &Diagram) -> String {
    let direction = match diagram.arrangement {
        Arrangement::Layers => "TD",
        Arrangement::Outline => "LR",
    };
    let mut out = format!("flowchart {direction}\n");
    // Writing to a string does not fail.
    if !diagram.title.is_empty() {
        let title = shortened(&diagram.title, 200).replace('%', " ");
        let _ = writeln!(out, "    %% {title}");
    }
    if let Some(entry) = diagram.entry {
        let _ = writeln!(out, "    start([start]) --> n{entry}");
    }
    for (number, node) in diagram.nodes.iter().enumerate() {
        let lines: Vec<String> = node
            .lines
            .iter()
            .map(|line| escaped(&shortened(line, MAX_LENGTH)))
            .collect();
        let (open, close) = match node.shape {
            NodeShape::Rectangle => ("[\"", "\"]"),
            NodeShape::Rounded => ("(\"", "\")"),
            NodeShape::Choice => ("{\"", "\"}"),
            NodeShape::Nested => ("[[\"", "\"]]"),
            NodeShape::Fork => ("{{\"", "\"}}"),
            NodeShape::Slanted => ("[/\"", "\"/]"),
        };
        let class = match node.group {
            _ if node.is_faded => ":::gone".to_owned(),
            Some(group) => format!(":::{}", group.name),
            None => String::new(),
        };
        let _ = writeln!(
            out,
            "    n{number}{open}{}{close}{class}",
            lines.join("<br/>")
        );
        if node.is_exit {
            let _ = writeln!(out, "    n{number} --> finish([end])");
        }
    }
    for edge in &diagram.edges {
        let arrow = match edge.style {
            EdgeStyle::Plain => "-->",
            EdgeStyle::Thick => "==>",
            EdgeStyle::Dashed => "-.->",
        };
        let label = edge.label.as_ref().map_or_else(String::new, |label| {
            format!("|\"{}\"|", escaped(&shortened(label, MAX_LENGTH)))
        });
        let _ = writeln!(out, "    n{} {arrow}{label} n{}", edge.from, edge.to);
    }
    for group in diagram.groups() {
        let _ = writeln!(
            out,
            "    classDef {} stroke:{},stroke-width:2px",
            group.name, group.color
        );
    }
    if diagram.nodes.iter().any(|node| node.is_faded) {
        out.push_str("    classDef gone stroke-dasharray:4 3,opacity:0.6\n");
    }
    out
}

/// Escapes a text for use inside the quotes of a label, where `#` starts a character code.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            letter if letter.is_alphanumeric() || " _-.,:/=+'!?()".contains(letter) => {
                safe.push(letter);
            }
            letter => {
                let _ = write!(safe, "#{};", u32::from(letter));
            }
        }
    }
    safe
}
