//! Where the nodes of a picture stand: in rows, each below those that lead to it, and in each row near
//! those it belongs to.

use super::ways;
use crate::graph::{Graph, NodeIndex};

/// The rows of a graph, and which ways lead back up.
pub(super) struct Layout {
    /// The nodes of each row, from left to right.
    pub(super) rows: Vec<Vec<NodeIndex>>,
    /// The row of each node.
    pub(super) row_of: Vec<usize>,
}

impl Layout {
    pub(super) fn of(graph: &Graph) -> Self {
        let order = order(graph);
        let mut place = vec![0; graph.nodes.len()];
        for (number, index) in order.iter().enumerate() {
            place[index.0 as usize] = number;
        }
        // The longest way from the beginning, along ways that do not lead back.
        let mut row_of = vec![0_usize; graph.nodes.len()];
        for index in &order {
            let from = index.0 as usize;
            for way in ways(&graph.nodes[from]) {
                let to = way.target.0 as usize;
                if place[to] > place[from] {
                    row_of[to] = row_of[to].max(row_of[from] + 1);
                }
            }
        }
        let depth = row_of.iter().max().map_or(0, |row| row + 1);
        let mut rows = vec![Vec::new(); depth];
        for index in &order {
            rows[row_of[index.0 as usize]].push(*index);
        }
        let mut layout = Self { rows, row_of };
        layout.settle(graph);
        layout
    }

    /// Whether a way leads back up, or to its own row.
    pub(super) fn is_back(&self, from: usize, to: NodeIndex) -> bool {
        self.row_of[to.0 as usize] <= self.row_of[from]
    }

    /// Puts each node of a row below the middle of those that lead to it.
    fn settle(&mut self, graph: &Graph) {
        let mut above: Vec<Vec<usize>> = vec![Vec::new(); graph.nodes.len()];
        for (from, node) in graph.nodes.iter().enumerate() {
            for way in ways(node) {
                if !self.is_back(from, way.target) {
                    above[way.target.0 as usize].push(from);
                }
            }
        }
        let mut middle = vec![0.5_f64; graph.nodes.len()];
        for row in &mut self.rows {
            let wanted = |index: &NodeIndex| {
                let parents = &above[index.0 as usize];
                if parents.is_empty() {
                    return 0.5;
                }
                let sum: f64 = parents.iter().map(|parent| middle[*parent]).sum();
                sum / count(parents.len())
            };
            let mut wishes: Vec<(f64, NodeIndex)> =
                row.iter().map(|index| (wanted(index), *index)).collect();
            wishes.sort_by(|left, right| left.0.total_cmp(&right.0));
            *row = wishes.into_iter().map(|(_, index)| index).collect();
            let all = count(row.len());
            for (number, index) in row.iter().enumerate() {
                middle[index.0 as usize] = (count(number) + 0.5) / all;
            }
        }
    }
}

/// A number of things, as a measure.
#[expect(
    clippy::cast_precision_loss,
    reason = "no picture has 2^52 things in a row"
)]
pub(super) const fn count(things: usize) -> f64 {
    things as f64
}

/// The nodes so that each comes before those it leads to, ways that lead back aside.
fn order(graph: &Graph) -> Vec<NodeIndex> {
    let mut is_seen = vec![false; graph.nodes.len()];
    let mut done = Vec::with_capacity(graph.nodes.len());
    // A node with the ways that are still to be gone from it.
    let mut stack: Vec<(NodeIndex, Vec<NodeIndex>)> = Vec::new();
    let from = |index: NodeIndex| {
        let ways = ways(&graph.nodes[index.0 as usize]);
        ways.into_iter().map(|way| way.target).collect::<Vec<_>>()
    };
    is_seen[graph.entry.0 as usize] = true;
    stack.push((graph.entry, from(graph.entry)));
    while let Some((index, ahead)) = stack.last_mut() {
        match ahead.pop() {
            Some(next) if is_seen[next.0 as usize] => {}
            Some(next) => {
                is_seen[next.0 as usize] = true;
                stack.push((next, from(next)));
            }
            None => {
                done.push(*index);
                stack.pop();
            }
        }
    }
    done.reverse();
    done
}
