//! Rules of a graph as a whole: it has an entry and an exit, every node is reachable, and the branches of a parallel
//! node meet. Each rule is one traversal of the edges.

use std::collections::{BTreeMap, BTreeSet};

use crate::file::{FilePosition, broken_rule};
use crate::graph::{Edge, Key, Node, NodeIndex, NodeKind, TextMatch};
use crate::state::Reducer;
use cleveragents_domain::DefinitionFault;

/// A graph that is not checked yet.
pub(super) struct Draft {
    /// Nodes; one more than the file has when an edge leads to `end`.
    pub(super) nodes: Vec<Node>,
    /// Positions of the nodes in the file.
    pub(super) places: Vec<FilePosition>,
    /// Entry node.
    pub(super) entry: NodeIndex,
    /// Exits that the file names, with their positions.
    pub(super) exits: Vec<(NodeIndex, FilePosition)>,
}

/// Returns the nodes with their exits and the edges to joins that files may omit.
pub(super) fn finish(mut draft: Draft) -> Result<Vec<Node>, DefinitionFault> {
    for (exit, _) in &draft.exits {
        draft.nodes[exit.0 as usize].is_exit = true;
    }
    draft.check_edges()?;
    draft.join_branches()?;
    draft.find_exits()?;
    draft.check_reach()?;
    Ok(draft.nodes)
}

/// Successors of a node, failures aside.
fn ways(node: &Node) -> Vec<NodeIndex> {
    let mut ways: Vec<NodeIndex> = node.edges.iter().map(|edge| edge.target).collect();
    match &node.kind {
        NodeKind::Conditional(node) => {
            ways.extend(node.conditions.iter().map(|(_, target)| *target));
            ways.extend(node.otherwise);
        }
        NodeKind::Router(node) => {
            ways.extend(node.rules.iter().map(|rule| rule.target));
            ways.extend(node.otherwise);
        }
        // Nodes between the branches and the join are checked separately.
        NodeKind::Parallel(node) => ways.push(node.join),
        _ => {}
    }
    ways
}

/// Whether a node may have no successor when none of its conditions matches.
fn is_open(node: &Node) -> bool {
    let decides = match &node.kind {
        NodeKind::Conditional(node) => node.otherwise.is_some(),
        NodeKind::Router(node) => node.otherwise.is_some(),
        NodeKind::Parallel(_) => true,
        _ => false,
    };
    !decides && node.edges.is_empty()
}

impl Draft {
    fn node(&self, index: NodeIndex) -> &Node {
        &self.nodes[index.0 as usize]
    }

    fn node_mut(&mut self, index: NodeIndex) -> &mut Node {
        &mut self.nodes[index.0 as usize]
    }

    fn place(&self, index: NodeIndex) -> FilePosition {
        let place = self.places.get(index.0 as usize);
        place
            .copied()
            .unwrap_or(FilePosition { line: 1, column: 1 })
    }

    /// Refuses edges and rules that no run can take, because an earlier one is always taken. Edges that only
    /// repeat it are dropped.
    fn check_edges(&mut self) -> Result<(), DefinitionFault> {
        for number in 0..self.places.len() {
            let always = match &self.nodes[number].kind {
                NodeKind::Conditional(node) => node.otherwise,
                NodeKind::Router(node) => {
                    let rule = node
                        .rules
                        .iter()
                        .position(|rule| rule.fits == TextMatch::Always);
                    let first = rule.and_then(|place| node.rules.get(place));
                    let behind = rule.and_then(|place| node.rules.get(place + 1));
                    if let (Some(first), Some(behind)) = (first, behind) {
                        return Err(self.never_taken(number, first.target, behind.target));
                    }
                    if let (Some(first), Some(otherwise)) = (first, node.otherwise)
                        && first.target != otherwise
                    {
                        return Err(self.never_taken(number, first.target, otherwise));
                    }
                    first.map(|rule| rule.target).or(node.otherwise)
                }
                _ => None,
            };
            let edges = &self.nodes[number].edges;
            let (usage, behind) = match always {
                Some(target) => (target, 0),
                None => match edges.iter().position(|edge| edge.condition.is_none()) {
                    Some(place) => (edges[place].target, place + 1),
                    None => continue,
                },
            };
            let differs = |edge: &&Edge| edge.target != usage;
            if let Some(edge) = edges[behind..].iter().find(differs) {
                return Err(self.never_taken(number, usage, edge.target));
            }
            self.nodes[number].edges.truncate(behind);
        }
        Ok(())
    }

    fn never_taken(&self, number: usize, usage: NodeIndex, never: NodeIndex) -> DefinitionFault {
        let (id, usage, never) = (
            &self.nodes[number].id,
            &self.node(usage).id,
            &self.node(never).id,
        );
        let message = format!(
            "the edge from `{id}` to `{usage}` has no condition, so the one to `{never}` is never taken"
        );
        let fix = format!(
            "give the edge to `{usage}` a condition, put it last, or run both at the same time with a `parallel` node"
        );
        broken_rule(self.places[number], message, fix)
    }

    /// Walks each branch up to its join, and connects branches that end before it.
    fn join_branches(&mut self) -> Result<(), DefinitionFault> {
        // The number of the last traversal that visited a node, so that nothing has to be cleared between traversals.
        let mut seen = vec![0_u32; self.nodes.len()];
        let mut walk = 0;
        for number in 0..self.places.len() {
            let NodeKind::Parallel(parallel) = &self.nodes[number].kind else {
                continue;
            };
            let (branches, join) = (parallel.branches.clone(), parallel.join);
            for branch in branches {
                walk += 1;
                self.join_branch(number, branch, join, &mut seen, walk)?;
            }
        }
        Ok(())
    }

    fn join_branch(
        &mut self,
        parallel: usize,
        branch: NodeIndex,
        join: NodeIndex,
        seen: &mut [u32],
        walk: u32,
    ) -> Result<(), DefinitionFault> {
        let wrong = |draft: &Self, at: NodeIndex, what: &str| {
            let message = format!(
                "a branch of `{}` {what} before it reaches `{}`",
                draft.nodes[parallel].id,
                draft.node(join).id
            );
            let fix = format!(
                "add an edge from `{}` to `{}`",
                draft.node(at).id,
                draft.node(join).id
            );
            broken_rule(draft.place(at), message, fix)
        };
        let mut meets = false;
        let mut ahead = vec![branch];
        while let Some(index) = ahead.pop() {
            if index == join {
                meets = true;
                continue;
            }
            if index.0 as usize == parallel {
                return Err(wrong(self, branch, "leads back to its start"));
            }
            if std::mem::replace(&mut seen[index.0 as usize], walk) == walk {
                continue;
            }
            if self.node(index).is_exit || self.places.len() == index.0 as usize {
                return Err(wrong(self, index, "ends the run"));
            }
            if is_open(self.node(index)) {
                self.node_mut(index).edges.push(Edge {
                    target: join,
                    condition: None,
                });
            }
            ahead.extend(ways(self.node(index)));
            ahead.extend(self.node(index).on_error);
        }
        if meets {
            Ok(())
        } else {
            Err(wrong(self, branch, "loops"))
        }
    }

    /// Nodes without successors are exits, unless the file names the exits.
    fn find_exits(&mut self) -> Result<(), DefinitionFault> {
        let stops = |node: &Node| ways(node).is_empty();
        let named = !self.exits.is_empty();
        let last = self.places.len();
        for number in 0..self.nodes.len() {
            if self.nodes[number].is_exit || !stops(&self.nodes[number]) {
                continue;
            }
            // The node for `end` is always an exit.
            if named && number < last {
                let message = format!(
                    "the node `{}` has no successor and is not an exit",
                    self.nodes[number].id
                );
                let fix = "add `next: …`, or name it in `exit_nodes`";
                return Err(broken_rule(self.places[number], message, fix));
            }
            self.nodes[number].is_exit = true;
        }
        if self.nodes.iter().any(|node| node.is_exit) {
            return Ok(());
        }
        let message = "the graph has no exit: every node has a successor";
        let fix = "name the last node in `exit_nodes`, or give it `exit: true`";
        Err(broken_rule(self.place(self.entry), message, fix))
    }

    fn check_reach(&self) -> Result<(), DefinitionFault> {
        let mut seen = vec![false; self.nodes.len()];
        let mut ahead = vec![self.entry];
        while let Some(index) = ahead.pop() {
            if std::mem::replace(&mut seen[index.0 as usize], true) {
                continue;
            }
            let node = self.node(index);
            ahead.extend(node.on_error);
            if let NodeKind::Parallel(parallel) = &node.kind {
                ahead.extend(&parallel.branches);
            }
            // A run ends at an exit.
            if !node.is_exit {
                ahead.extend(ways(node));
            }
        }
        for (exit, place) in &self.exits {
            if !seen[exit.0 as usize] {
                let message = format!("the exit `{}` cannot be reached", self.node(*exit).id);
                let fix = "add an edge to it";
                return Err(broken_rule(*place, message, fix));
            }
        }
        match seen.iter().position(|seen| !seen) {
            None => {}
            Some(number) => {
                let node = &self.nodes[number];
                let message = format!("no edge leads to the node `{}`", node.id);
                let fix = "add it to `next` of another node, or remove it";
                let index = NodeIndex(u32::try_from(number).unwrap_or(u32::MAX));
                return Err(broken_rule(self.place(index), message, fix));
            }
        }
        if seen
            .iter()
            .zip(&self.nodes)
            .any(|(seen, node)| *seen && node.is_exit)
        {
            return Ok(());
        }
        let message = "no exit of the graph can be reached";
        let fix = "add an edge to an exit";
        Err(broken_rule(self.place(self.entry), message, fix))
    }
}

/// Warns of parallel branches that write the same key, of which only the last update survives.
pub(super) fn same_output(
    nodes: &[Node],
    keys: &BTreeMap<String, Key>,
    mut warn: impl FnMut(String),
) {
    for node in nodes {
        let NodeKind::Parallel(parallel) = &node.kind else {
            continue;
        };
        let mut written = BTreeSet::new();
        for branch in &parallel.branches {
            let Some(output) = nodes.get(branch.0 as usize).and_then(output) else {
                continue;
            };
            let is_joined = keys
                .get(output)
                .is_some_and(|key| key.reducer != Reducer::Replace);
            if !is_joined && !written.insert(output) {
                warn(format!(
                    "several branches of `{}` write `{output}`, and only the last value is kept: give each its \
                     own `output`, or set `state: {{{output}: append}}`",
                    node.id
                ));
                break;
            }
        }
    }
}

/// The key that a node writes its answer to.
fn output(node: &Node) -> Option<&str> {
    match &node.kind {
        NodeKind::Agent(node) => Some(&node.output),
        NodeKind::Tool(node) => Some(&node.output),
        NodeKind::Map(node) => Some(&node.output),
        _ => None,
    }
}
