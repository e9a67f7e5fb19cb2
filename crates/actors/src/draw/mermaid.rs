//! A drawing as a Mermaid flowchart.

use std::fmt::Write as _;

use super::{WayKind, about, shortened, title, ways};
use crate::graph::{Actor, NodeKind};

/// The longest label.
const LONGEST: usize = 80;

/// Draws an actor as a Mermaid flowchart.
pub fn mermaid(actor: &Actor) -> String {
    let graph = &actor.graph;
    let mut lines = String::from("flowchart TD\n");
    // Writing to a string does not fail.
    let _ = writeln!(
        lines,
        "    %% {}",
        shortened(&title(actor), 200).replace('%', " ")
    );
    let _ = writeln!(lines, "    start([start]) --> n{}", graph.entry.0);
    for (number, node) in graph.nodes.iter().enumerate() {
        let (kind, detail) = about(graph, node);
        let mut label = format!("{}<br/>{kind}", escaped(&node.id));
        if !detail.is_empty() {
            let _ = write!(label, ": {}", escaped(&shortened(&detail, LONGEST)));
        }
        let (open, close) = match &node.kind {
            NodeKind::Conditional(_) | NodeKind::Router(_) => ("{\"", "\"}"),
            NodeKind::Subgraph(_) => ("[[\"", "\"]]"),
            NodeKind::Parallel(_) | NodeKind::Map(_) => ("{{\"", "\"}}"),
            NodeKind::Tool(_) | NodeKind::Function(_) => ("[/\"", "\"/]"),
            NodeKind::Agent(_) => ("(\"", "\")"),
        };
        let _ = writeln!(lines, "    n{number}{open}{label}{close}");
        if node.is_exit {
            let _ = writeln!(lines, "    n{number} --> finish([end])");
        }
    }
    for (number, node) in graph.nodes.iter().enumerate() {
        for way in ways(node) {
            let arrow = match way.kind {
                WayKind::Plain | WayKind::Join => "-->",
                WayKind::Branch => "==>",
                WayKind::Failure => "-.->",
            };
            let label = way.label.map_or_else(String::new, |label| {
                format!("|\"{}\"|", escaped(&shortened(&label, LONGEST)))
            });
            let _ = writeln!(lines, "    n{number} {arrow}{label} n{}", way.target.0);
        }
    }
    lines
}

/// A text inside the quotes of a label, where `#` begins a code.
pub fn escaped(text: &str) -> String {
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
