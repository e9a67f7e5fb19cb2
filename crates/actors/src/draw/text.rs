//! Draws an actor for terminals, as a tree from the entry node. A node that is already drawn appears as an arrow with
//! its name, so that loops and joins end there.

use std::fmt::Write as _;

use super::{DrawnEdge, DrawnEdgeKind, drawn_edges, node_label, shortened, title};
use crate::graph::{Actor, Graph, NodeIndex, NodeKind};

/// Maximum length of a drawn condition.
const MAX_LENGTH: usize = 60;

/// Draws an actor for a terminal.
pub fn text(actor: &Actor) -> String {
    let mut drawing = Drawing {
        graph: &actor.graph,
        seen: vec![false; actor.graph.nodes.len()],
        joins: vec![false; actor.graph.nodes.len()],
        lines: shortened(&title(actor), 200),
    };
    drawing.lines.push('\n');
    drawing.draw();
    drawing.lines
}

struct Drawing<'a> {
    graph: &'a Graph,
    seen: Vec<bool>,
    /// Nodes where branches join. They are drawn below their parallel node; all other edges to them become arrows.
    joins: Vec<bool>,
    lines: String,
}

/// A line to draw, with its subtree.
struct PendingLine {
    edge: DrawnEdge,
    /// Prefix of the lines below the parent.
    prefix: String,
    is_last: bool,
    is_first: bool,
}

impl Drawing<'_> {
    /// Iterative, because a chain of 10,000 nodes would overflow the stack.
    fn draw(&mut self) {
        let mut pending_lines = vec![PendingLine {
            edge: DrawnEdge {
                target: self.graph.entry,
                label: None,
                kind: DrawnEdgeKind::Plain,
            },
            prefix: String::new(),
            is_last: true,
            is_first: true,
        }];
        while let Some(pending) = pending_lines.pop() {
            let target = pending.edge.target;
            let number = target.0 as usize;
            let is_drawn_later = self.joins[number] && pending.edge.kind != DrawnEdgeKind::Join;
            if is_drawn_later || std::mem::replace(&mut self.seen[number], true) {
                self.draw_line(&pending, true);
                continue;
            }
            self.draw_line(&pending, false);
            let children = self.child_edges(target);
            // A chain of nodes with one unconditional edge each is not indented.
            let prefix = match (pending.is_first, pending.is_last) {
                (true, _) => String::new(),
                (false, true) => pending.prefix + "   ",
                (false, false) if pending.edge.kind == DrawnEdgeKind::Branch => {
                    pending.prefix + "║  "
                }
                (false, false) => pending.prefix + "│  ",
            };
            let count = children.len();
            let chains = count == 1 && children[0].label.is_none();
            for (number, edge) in children.into_iter().enumerate().rev() {
                pending_lines.push(PendingLine {
                    edge,
                    prefix: prefix.clone(),
                    is_last: number + 1 == count,
                    is_first: chains && pending.is_first,
                });
            }
        }
    }

    /// Returns the edges of a node. The edge from a parallel node to its join comes last.
    fn child_edges(&mut self, index: NodeIndex) -> Vec<DrawnEdge> {
        let node = &self.graph.nodes[index.0 as usize];
        let mut below = drawn_edges(node);
        if let NodeKind::Parallel(parallel) = &node.kind {
            self.joins[parallel.join.0 as usize] = true;
            below.push(DrawnEdge {
                target: parallel.join,
                label: Some("then".to_owned()),
                kind: DrawnEdgeKind::Join,
            });
        }
        below
    }

    fn draw_line(&mut self, pending: &PendingLine, was_seen: bool) {
        let node = &self.graph.nodes[pending.edge.target.0 as usize];
        let sign = match (pending.is_first, pending.is_last, pending.edge.kind) {
            (true, ..) => "",
            (_, _, DrawnEdgeKind::Branch) => "╠═ ",
            (_, _, DrawnEdgeKind::Join) => "╚═ ",
            (_, true, _) => "└─ ",
            (_, false, _) => "├─ ",
        };
        let mut line = format!("{}{sign}", pending.prefix);
        if let Some(label) = &pending.edge.label {
            let label = shortened(label, MAX_LENGTH);
            // Writing to a string does not fail.
            let _ = match label.as_str() {
                "then" | "else" | "on error" => write!(line, "{label}: "),
                _ => write!(line, "[{label}] "),
            };
        }
        if was_seen {
            let _ = write!(line, "→ {}", node.id);
        } else {
            let (kind, detail) = node_label(self.graph, node);
            let _ = write!(line, "{} ({kind}", node.id);
            if !detail.is_empty() {
                let _ = write!(line, " {}", shortened(&detail, MAX_LENGTH));
            }
            line.push(')');
            if node.is_exit {
                line.push_str(" ■");
            }
        }
        self.lines.push_str(&line);
        self.lines.push('\n');
    }
}
