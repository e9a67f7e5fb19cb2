//! Tests of the structure of decision trees.

use cleveragents_domain::{
    ContextSnapshot, Decision, DecisionId, DecisionType, NewDecision, PlanId, PlanPhase, Timestamp,
};
use proptest::prelude::*;

use super::{DecisionTree, TreeOptions};

/// Decisions whose parents are given by index; `None` is the root.
pub(in crate::plan) fn decisions(parents: &[Option<usize>]) -> Vec<Decision> {
    let plan = PlanId::generate();
    let ids: Vec<DecisionId> = parents.iter().map(|_| DecisionId::generate()).collect();
    parents
        .iter()
        .enumerate()
        .map(|(at, parent)| Decision {
            plan,
            sequence: at as u64 + 1,
            content: NewDecision {
                id: ids[at],
                parent: parent.map(|parent| ids[parent]),
                kind: if parent.is_none() {
                    DecisionType::PromptDefinition
                } else {
                    DecisionType::StrategyChoice
                },
                phase: PlanPhase::Strategize,
                question: "what?".to_owned(),
                chosen: format!("d{at}"),
                alternatives: Vec::new(),
                confidence: None,
                rationale: String::new(),
                reasoning: None,
                snapshot: ContextSnapshot::default(),
                artifacts: Vec::new(),
                influenced_by: Vec::new(),
            },
            corrects: None,
            correction_reason: None,
            superseded_by: None,
            undone_by: None,
            created_at: Timestamp::from_micros(0),
        })
        .collect()
}

fn shape(tree: &DecisionTree) -> Vec<(String, usize, bool, usize)> {
    tree.nodes
        .iter()
        .map(|node| {
            let chosen = tree.decision(node).content.chosen.clone();
            (chosen, node.depth, node.is_last, node.left_out)
        })
        .collect()
}

fn line(
    chosen: &str,
    depth: usize,
    is_last: bool,
    left_out: usize,
) -> (String, usize, bool, usize) {
    (chosen.to_owned(), depth, is_last, left_out)
}

#[test]
fn children_follow_their_parent_in_order_of_creation() {
    let tree = DecisionTree::new(
        decisions(&[None, Some(0), Some(0), Some(1)]),
        TreeOptions::default(),
    );
    let expected = [
        line("d0", 0, true, 0),
        line("d1", 1, false, 0),
        line("d3", 2, true, 0),
        line("d2", 1, true, 0),
    ];
    assert_eq!(shape(&tree), expected);
    assert_eq!((tree.summary.nodes, tree.summary.depth), (4, 3));
    let labels: Vec<String> = tree.labels().into_iter().map(|(label, _)| label).collect();
    assert_eq!(labels, ["root", "strategy", "strategy_2", "strategy_3"]);
}

#[test]
fn children_of_a_hidden_decision_move_to_its_visible_ancestor() {
    let mut all = decisions(&[None, Some(0), Some(1), Some(0)]);
    all[1].superseded_by = Some(all[3].content.id);
    let tree = DecisionTree::new(all.clone(), TreeOptions::default());
    let expected = [
        line("d0", 0, true, 0),
        line("d2", 1, false, 0),
        line("d3", 1, true, 0),
    ];
    assert_eq!(shape(&tree), expected);
    assert_eq!((tree.summary.nodes, tree.summary.superseded), (3, 1));
    let whole = DecisionTree::new(
        all,
        TreeOptions {
            shows_superseded: true,
            depth: None,
        },
    );
    assert_eq!(whole.nodes.len(), 4);
}

#[test]
fn a_limited_depth_reports_omitted_decisions() {
    let options = TreeOptions {
        depth: Some(2),
        ..TreeOptions::default()
    };
    let tree = DecisionTree::new(
        decisions(&[None, Some(0), Some(1), Some(2), Some(0)]),
        options,
    );
    let expected = [
        line("d0", 0, true, 0),
        line("d1", 1, false, 2),
        line("d4", 1, true, 0),
    ];
    assert_eq!(shape(&tree), expected);
    assert_eq!(tree.summary.nodes, 5, "the summary counts all decisions");
}

#[test]
fn a_chain_of_100_000_decisions_needs_no_recursion() {
    let parents: Vec<Option<usize>> = (0..100_000_usize).map(|at| at.checked_sub(1)).collect();
    let tree = DecisionTree::new(decisions(&parents), TreeOptions::default());
    assert_eq!(tree.summary.depth, 100_000);
}

proptest! {
    #[test]
    fn every_shown_decision_appears_once_below_its_parent(
        choices in proptest::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..60),
    ) {
        let mut parents = vec![None];
        for (index, _) in &choices {
            parents.push(Some(index.index(parents.len())));
        }
        let mut all = decisions(&parents);
        for (at, (_, hidden)) in choices.iter().enumerate() {
            if *hidden {
                all[at + 1].undone_by = Some(1);
            }
        }
        let shown = all.iter().filter(|decision| decision.holds()).count();
        let tree = DecisionTree::new(all, TreeOptions::default());
        prop_assert_eq!(tree.nodes.len(), shown);
        for (place, node) in tree.nodes.iter().enumerate() {
            match node.parent {
                None => prop_assert_eq!(node.depth, 0),
                Some(parent) => {
                    prop_assert!(parent < place);
                    prop_assert_eq!(tree.nodes[parent].depth + 1, node.depth);
                }
            }
        }
        let last = tree.nodes.iter().filter(|node| node.is_last).count();
        let with_children = (0..tree.nodes.len())
            .filter(|at| tree.nodes.iter().any(|node| node.parent == Some(*at)))
            .count();
        prop_assert_eq!(last, with_children + 1, "one last child for each node with children, plus \
            the root");
    }
}
