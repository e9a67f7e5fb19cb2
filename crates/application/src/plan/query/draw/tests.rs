//! Tests of the drawings of decision trees.

use cleveragents_actors::draw;
use cleveragents_domain::DecisionType;

use super::diagram;
use crate::plan::query::{DecisionTree, TreeOptions, test_decisions};

fn svg(tree: &DecisionTree, title: &str) -> String {
    draw::svg(&diagram(tree, title))
}

fn mermaid(tree: &DecisionTree) -> String {
    draw::mermaid(&diagram(tree, ""))
}

fn dot(tree: &DecisionTree) -> String {
    draw::dot(&diagram(tree, ""))
}

/// Text that ends a label, a tag or an attribute unless it is escaped.
const SPECIAL_CHARACTERS: &str = "say \"<b>&amp;\\\" %% --> `x` #1;\n\u{1b}[31m";

fn tree() -> DecisionTree {
    let mut all = test_decisions(&[None, Some(0), Some(0), Some(1)]);
    SPECIAL_CHARACTERS.clone_into(&mut all[1].content.chosen);
    all[2].content.kind = DecisionType::ErrorRecovery;
    all[2].content.confidence = Some(0.5);
    all[3].undone_by = Some(1);
    let options = TreeOptions {
        shows_superseded: true,
        depth: None,
    };
    DecisionTree::new(all, options)
}

#[test]
fn special_characters_are_escaped() {
    let tree = tree();
    let drawn = svg(&tree, SPECIAL_CHARACTERS);
    assert!(
        !drawn.contains("<b>") && !drawn.contains('\u{1b}'),
        "{drawn}"
    );
    for tag in ["svg", "g", "text", "title", "defs", "marker"] {
        let opened = drawn.matches(&format!("<{tag}")).count();
        assert_eq!(opened, drawn.matches(&format!("</{tag}>")).count(), "{tag}");
    }
    let drawn = mermaid(&tree);
    assert!(
        !drawn.contains("<b>") && !drawn.contains("say \""),
        "{drawn}"
    );
    let drawn = dot(&tree);
    assert!(drawn.contains("say \\\"<b>&amp;\\\\\\\""), "{drawn}");
    for drawn in [mermaid(&tree), dot(&tree)] {
        assert!(!drawn.contains('\u{1b}'), "{drawn}");
    }
}

#[test]
fn invalid_decisions_are_drawn_differently() {
    let tree = tree();
    assert!(mermaid(&tree).contains("-.->"));
    assert!(mermaid(&tree).contains(":::gone"));
    assert!(dot(&tree).contains("dashed"));
    assert!(svg(&tree, "t").contains("<g class=\"gone\""));
    assert!(svg(&tree, "t").contains("rolled back"));
}

#[test]
fn every_edge_of_the_tree_is_drawn_exactly_once() {
    let tree = tree();
    assert_eq!(mermaid(&tree).matches("->").count(), 3);
    assert_eq!(dot(&tree).matches(" -> ").count(), 3);
    assert_eq!(svg(&tree, "t").matches("class=\"way\"").count(), 3);
}

#[test]
fn the_size_of_a_drawing_is_linear_in_the_depth_of_the_chain() {
    let size = |count: usize| {
        let parents: Vec<Option<usize>> = (0..count).map(|at| at.checked_sub(1)).collect();
        let tree = DecisionTree::new(test_decisions(&parents), TreeOptions::default());
        svg(&tree, "t").len() + mermaid(&tree).len() + dot(&tree).len()
    };
    assert!(size(4_000) < 5 * size(1_000));
}
