//! Places the boxes of a graph in rows, each box below its predecessors and close to them.

use super::diagram::Diagram;

/// The rows of a diagram.
pub(super) struct Layout {
    /// The nodes of each row, from left to right.
    pub(super) rows: Vec<Vec<usize>>,
    /// The row of each node.
    pub(super) row_of: Vec<usize>,
}

impl Layout {
    pub(super) fn new(diagram: &Diagram) -> Self {
        let mut successors = vec![Vec::new(); diagram.nodes.len()];
        for edge in &diagram.edges {
            successors[edge.from].push(edge.to);
        }
        let order = order(&successors, diagram.entry.unwrap_or(0));
        let mut place = vec![0; successors.len()];
        for (number, index) in order.iter().enumerate() {
            place[*index] = number;
        }
        // The row is the length of the longest path from the entry, ignoring lines that lead back.
        let mut row_of = vec![0_usize; successors.len()];
        for from in &order {
            for to in &successors[*from] {
                if place[*to] > place[*from] {
                    row_of[*to] = row_of[*to].max(row_of[*from] + 1);
                }
            }
        }
        let depth = row_of.iter().max().map_or(0, |row| row + 1);
        let mut rows = vec![Vec::new(); depth];
        for index in &order {
            rows[row_of[*index]].push(*index);
        }
        let mut layout = Self { rows, row_of };
        layout.sort_rows(&successors);
        layout
    }

    /// Whether a line leads back up, or to its own row.
    pub(super) fn is_back(&self, from: usize, to: usize) -> bool {
        self.row_of[to] <= self.row_of[from]
    }

    /// Sorts the nodes of each row by the average position of their predecessors.
    fn sort_rows(&mut self, successors: &[Vec<usize>]) {
        let mut above: Vec<Vec<usize>> = vec![Vec::new(); successors.len()];
        for (from, targets) in successors.iter().enumerate() {
            for to in targets.iter().filter(|to| !self.is_back(from, **to)) {
                above[*to].push(from);
            }
        }
        let mut middle = vec![0.5_f64; successors.len()];
        for row in &mut self.rows {
            let preferred_position = |index: usize| {
                let parents = &above[index];
                if parents.is_empty() {
                    return 0.5;
                }
                let sum: f64 = parents.iter().map(|parent| middle[*parent]).sum();
                sum / count(parents.len())
            };
            let mut positions: Vec<(f64, usize)> = row
                .iter()
                .map(|index| (preferred_position(*index), *index))
                .collect();
            positions.sort_by(|left, right| left.0.total_cmp(&right.0));
            *row = positions.into_iter().map(|(_, index)| index).collect();
            let all = count(row.len());
            for (number, index) in row.iter().enumerate() {
                middle[*index] = (count(number) + 0.5) / all;
            }
        }
    }
}

/// Converts a count to a length.
#[expect(
    clippy::cast_precision_loss,
    reason = "no picture has 2^52 boxes in a row"
)]
pub(super) const fn count(things: usize) -> f64 {
    things as f64
}

/// Topological order of the nodes, ignoring lines that lead back. Iterative, because a chain of 10,000 nodes would
/// overflow the stack.
fn order(successors: &[Vec<usize>], entry: usize) -> Vec<usize> {
    let mut is_seen = vec![false; successors.len()];
    let mut done = Vec::with_capacity(successors.len());
    let mut reach = |start: usize| {
        if is_seen.get(start).is_none_or(|is_seen| *is_seen) {
            return;
        }
        is_seen[start] = true;
        // The nodes of the current path, each with the successors that are not visited yet.
        let mut stack = vec![(start, successors[start].clone())];
        while let Some((index, remaining)) = stack.last_mut() {
            match remaining.pop() {
                Some(next) if is_seen[next] => {}
                Some(next) => {
                    is_seen[next] = true;
                    stack.push((next, successors[next].clone()));
                }
                None => {
                    done.push(*index);
                    stack.pop();
                }
            }
        }
    };
    reach(entry);
    for other in 0..successors.len() {
        reach(other);
    }
    done.reverse();
    done
}
