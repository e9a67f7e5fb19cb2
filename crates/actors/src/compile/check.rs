//! Rules of a graph as a whole: it has an entry and an exit, every node is reachable, and the branches of a parallel
//! node meet. Each rule is one traversal of the edges.

use std::collections::{BTreeMap, BTreeSet};

use crate::file::{FilePosition, broken_rule};
use crate::graph::{Edge, Key, Node, NodeIndex, NodeKind, TextMatch};
use crate::state::Reducer;
use cleveragents_domain::DefinitionFault;

/// A graph that is not checked yet.
pub(super) struct Draft {
    /// Nodes of the file, followed by an implicit `end` node when an edge leads to `end`.
    pub(super) nodes: Vec<Node>,
    /// Positions of the nodes in the file.
    pub(super) places: Vec<FilePosition>,
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

/// Successors of a node, except the target of `on_error`.
fn successors(node: &Node) -> Vec<NodeIndex> {
    let mut successors: Vec<NodeIndex> = node.edges.iter().map(|edge| edge.target).collect();
    match &node.kind {
        NodeKind::Conditional(node) => {
            successors.extend(node.conditions.iter().map(|(_, target)| *target));
            successors.extend(node.otherwise);
        }
        NodeKind::Router(node) => {
            successors.extend(node.rules.iter().map(|rule| rule.target));
            successors.extend(node.otherwise);
        }
        // Nodes between the branches and the join are checked separately.
        NodeKind::Parallel(node) => successors.push(node.join),
        _ => {}
    }
    successors
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

    /// Rejects edges and rules that are never taken because an earlier edge or rule is unconditional. Drops later
    /// edges with the same target.
    fn check_edges(&mut self) -> Result<(), DefinitionFault> {
        for number in 0..self.places.len() {
            let unconditional = match &self.nodes[number].kind {
                NodeKind::Conditional(node) => node.otherwise,
                NodeKind::Router(node) => {
                    let rule = node
                        .rules
                        .iter()
                        .position(|rule| rule.text_match == TextMatch::Always);
                    let first = rule.and_then(|place| node.rules.get(place));
                    let next = rule.and_then(|place| node.rules.get(place + 1));
                    if let (Some(first), Some(next)) = (first, next) {
                        return Err(self.never_taken(number, first.target, next.target));
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
            let (taken, next) = match unconditional {
                Some(target) => (target, 0),
                None => match edges.iter().position(|edge| edge.condition.is_none()) {
                    Some(place) => (edges[place].target, place + 1),
                    None => continue,
                },
            };
            let differs = |edge: &&Edge| edge.target != taken;
            if let Some(edge) = edges[next..].iter().find(differs) {
                return Err(self.never_taken(number, taken, edge.target));
            }
            self.nodes[number].edges.truncate(next);
        }
        Ok(())
    }

    fn never_taken(&self, number: usize, taken: NodeIndex, never: NodeIndex) -> DefinitionFault {
        let (id, taken, never) = (
            &self.nodes[number].id,
            &self.node(taken).id,
            &self.node(never).id,
        );
        let message = format!(
            "the edge from `{id}` to `{taken}` has no condition, so the one to `{never}` is never taken"
        );
        let fix = format!(
            "give the edge to `{taken}` a condition, put it last, or run both at the same time with a `parallel` node"
        );
        broken_rule(self.places[number], message, fix)
    }

    /// Traverses each branch up to its join, and adds an edge to the join where a branch ends before it.
    fn join_branches(&mut self) -> Result<(), DefinitionFault> {
        // The number of the last traversal that visited each node, so that nothing is cleared between traversals.
        let mut seen = vec![0_u32; self.nodes.len()];
        let mut traversal = 0;
        for number in 0..self.places.len() {
            let NodeKind::Parallel(parallel) = &self.nodes[number].kind else {
                continue;
            };
            let (branches, join) = (parallel.branches.clone(), parallel.join);
            for branch in branches {
                traversal += 1;
                self.join_branch(number, branch, join, &mut seen, traversal)?;
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
        traversal: u32,
    ) -> Result<(), DefinitionFault> {
        let wrong = |draft: &Self, at: NodeIndex, problem: &str| {
            let message = format!(
                "a branch of `{}` {problem} before it reaches `{}`",
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
        let mut reaches_join = false;
        let mut pending = vec![branch];
        while let Some(index) = pending.pop() {
            if index == join {
                reaches_join = true;
                continue;
            }
            if index.0 as usize == parallel {
                return Err(wrong(self, branch, "leads back to its start"));
            }
            if std::mem::replace(&mut seen[index.0 as usize], traversal) == traversal {
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
            pending.extend(successors(self.node(index)));
            pending.extend(self.node(index).on_error);
        }
        if reaches_join {
            Ok(())
        } else {
            Err(wrong(self, branch, "loops"))
        }
    }

    /// Marks nodes without successors as exits, unless the file names the exits.
    fn find_exits(&mut self) -> Result<(), DefinitionFault> {
        let stops = |node: &Node| successors(node).is_empty();
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
        let mut pending = vec![self.entry];
        while let Some(index) = pending.pop() {
            if std::mem::replace(&mut seen[index.0 as usize], true) {
                continue;
            }
            let node = self.node(index);
            pending.extend(node.on_error);
            if let NodeKind::Parallel(parallel) = &node.kind {
                pending.extend(&parallel.branches);
            }
            // A run ends at an exit.
            if !node.is_exit {
                pending.extend(successors(node));
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

/// Warns when the first nodes of parallel branches write the same key without a merging reducer: only the last update
/// is kept.
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
