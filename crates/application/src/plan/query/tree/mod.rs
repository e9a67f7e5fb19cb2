//! [`DecisionTree`]: the decisions of a plan in drawing order, with their depths.
//!
//! Building the tree takes time linear in the number of decisions. It uses no recursion, because a
//! chain of decisions may be arbitrarily deep.

use std::collections::HashMap;

use cleveragents_domain::{Decision, DecisionId, DecisionType};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Selection of decisions.
#[derive(Debug, Clone, Copy, Default)]
pub struct TreeOptions {
    /// True to include superseded and rolled-back decisions.
    pub shows_superseded: bool,
    /// Maximum depth, from 1; `None` includes all levels.
    pub depth: Option<usize>,
}

#[derive(Debug, Clone, Copy)]
pub struct DecisionTreeNode {
    /// Index in [`DecisionTree::decisions`].
    pub decision: usize,
    /// Index of the parent in [`DecisionTree::nodes`].
    pub parent: Option<usize>,
    /// Depth, from 0 for the root.
    pub depth: usize,
    /// True for the last child of its parent.
    pub is_last: bool,
    /// Number of hidden decisions below this one, because they are deeper than [`TreeOptions::depth`].
    pub left_out: usize,
}

/// Totals of a tree. They do not depend on the drawn depth.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TreeSummary {
    /// Number of shown decisions, including those below the drawn depth.
    pub nodes: usize,
    /// The maximum depth.
    pub depth: usize,
    pub child_plans: usize,
    /// Number of valid invariants.
    pub invariants: usize,
    /// Number of superseded decisions.
    pub superseded: usize,
    /// Number of rolled-back decisions.
    #[serde(rename = "taken_back")]
    pub rolled_back: usize,
}

/// The decisions of a plan as a tree.
#[derive(Debug)]
pub struct DecisionTree {
    /// All decisions, in the order in which they were made.
    pub decisions: Vec<Decision>,
    /// The shown decisions, each before its children.
    pub nodes: Vec<DecisionTreeNode>,
    pub summary: TreeSummary,
}

impl DecisionTree {
    /// Builds the tree from decisions in the order in which they were made. A decision with a
    /// hidden parent becomes a child of its nearest shown ancestor.
    pub fn new(decisions: Vec<Decision>, options: TreeOptions) -> Self {
        let count = decisions.len();
        let indices: HashMap<DecisionId, usize> = decisions
            .iter()
            .enumerate()
            .map(|(at, decision)| (decision.content.id, at))
            .collect();
        let is_shown: Vec<bool> = decisions
            .iter()
            // The root is always shown: all other decisions are below it.
            .map(|decision| {
                options.shows_superseded || decision.holds() || decision.content.parent.is_none()
            })
            .collect();
        // A parent is stored before its children, so it has a smaller index.
        let mut nearest_shown: Vec<Option<usize>> = vec![None; count];
        let mut depth = vec![0_usize; count];
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); count];
        let mut roots = Vec::new();
        for at in 0..count {
            let parent = decisions[at]
                .content
                .parent
                .and_then(|parent| indices.get(&parent).copied())
                .filter(|parent| *parent < at);
            nearest_shown[at] = parent.and_then(|parent| {
                if is_shown[parent] {
                    Some(parent)
                } else {
                    nearest_shown[parent]
                }
            });
            if is_shown[at] {
                match nearest_shown[at] {
                    Some(parent) => {
                        depth[at] = depth[parent] + 1;
                        children[parent].push(at);
                    }
                    None => roots.push(at),
                }
            }
        }
        let mut sizes = vec![1_usize; count];
        for at in (0..count).rev() {
            if let Some(parent) = nearest_shown[at].filter(|_| is_shown[at]) {
                sizes[parent] += sizes[at];
            }
        }
        let summary = summary(&decisions, &is_shown, &depth);
        let max_depth = options.depth.unwrap_or(usize::MAX).max(1);
        let mut nodes: Vec<DecisionTreeNode> = Vec::with_capacity(summary.nodes);
        let mut pending: Vec<(usize, Option<usize>, bool)> = Vec::new();
        let push = |pending: &mut Vec<_>, list: &[usize], parent: Option<usize>| {
            let last = list.len();
            for (number, at) in list.iter().enumerate().rev() {
                pending.push((*at, parent, number + 1 == last));
            }
        };
        push(&mut pending, &roots, None);
        while let Some((at, parent, is_last)) = pending.pop() {
            let is_deepest = depth[at] + 1 >= max_depth;
            let node_index = nodes.len();
            nodes.push(DecisionTreeNode {
                decision: at,
                parent,
                depth: depth[at],
                is_last,
                left_out: if is_deepest { sizes[at] - 1 } else { 0 },
            });
            if !is_deepest {
                push(&mut pending, &children[at], Some(node_index));
            }
        }
        Self {
            decisions,
            nodes,
            summary,
        }
    }

    /// The decision at a node.
    pub fn decision(&self, node: &DecisionTreeNode) -> &Decision {
        &self.decisions[node.decision]
    }

    /// The label of each shown decision: `root`, `strategy`, `invariant_1`; for invalid ones
    /// `superseded_1` and so on.
    pub fn labels(&self) -> Vec<(String, DecisionId)> {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        self.nodes
            .iter()
            .map(|node| {
                let decision = self.decision(node);
                let content = &decision.content;
                let stem = match content.kind {
                    DecisionType::PromptDefinition => stem(content.kind),
                    kind if decision.holds() => stem(kind),
                    _ => "superseded",
                };
                let count = counts.entry(stem).or_default();
                *count += 1;
                let label = match stem {
                    "root" | "strategy" if *count == 1 => stem.to_owned(),
                    _ => format!("{stem}_{count}"),
                };
                (label, content.id)
            })
            .collect()
    }
}

fn summary(decisions: &[Decision], is_shown: &[bool], depth: &[usize]) -> TreeSummary {
    let mut summary = TreeSummary::default();
    for (at, decision) in decisions.iter().enumerate() {
        if is_shown[at] {
            summary.nodes += 1;
            summary.depth = summary.depth.max(depth[at] + 1);
        }
        summary.superseded += usize::from(decision.superseded_by.is_some());
        summary.rolled_back += usize::from(decision.undone_by.is_some());
        if decision.holds() {
            match decision.content.kind {
                DecisionType::InvariantEnforced => summary.invariants += 1,
                DecisionType::SubplanSpawn => summary.child_plans += 1,
                _ => {}
            }
        }
    }
    summary
}

const fn stem(kind: DecisionType) -> &'static str {
    match kind {
        DecisionType::PromptDefinition => "root",
        DecisionType::InvariantEnforced => "invariant",
        DecisionType::StrategyChoice => "strategy",
        DecisionType::ResourceSelection => "resource",
        DecisionType::SubplanSpawn => "child_plan",
        DecisionType::SubplanParallelSpawn => "parallel",
        DecisionType::ImplementationChoice => "implementation",
        DecisionType::ToolInvocation => "tool",
        DecisionType::ErrorRecovery => "recovery",
        DecisionType::ValidationResponse => "validation",
        DecisionType::UserIntervention => "intervention",
        DecisionType::Reversion => "reversion",
    }
}

#[cfg(test)]
pub(super) mod tests;
