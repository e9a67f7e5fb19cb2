//! Tests of contradicting invariants.

use super::{
    InvariantScope, InvariantTextError, ReconciledInvariants, SourcedInvariant, checked_text,
    reconcile,
};
use proptest::prelude::*;

fn invariant(source: InvariantScope, text: &str) -> SourcedInvariant {
    SourcedInvariant {
        id: None,
        text: text.to_owned(),
        source,
        source_name: (source != InvariantScope::Global).then(|| "local/a".to_owned()),
        non_overridable: false,
    }
}

fn fixed(text: &str) -> SourcedInvariant {
    SourcedInvariant {
        non_overridable: true,
        ..invariant(InvariantScope::Global, text)
    }
}

fn texts(reconciled: &ReconciledInvariants) -> Vec<&str> {
    let effective = reconciled.effective.iter();
    effective.map(|invariant| invariant.text.as_str()).collect()
}

#[test]
fn the_nearer_one_holds_and_a_fixed_global_one_before_all() {
    use InvariantScope::{Action, Global, Plan, Project};
    let order = [
        fixed("never push"),
        invariant(Plan, "push"),
        invariant(Action, "do not push"),
        invariant(Project, "always push"),
        invariant(Global, "must not push"),
    ];
    // In every suffix of the order, the first one overrides its opposites.
    for first in 0..order.len() {
        let rest = order[first..].to_vec();
        let found = reconcile(rest);
        assert_eq!(found.effective[0], order[first]);
        assert!(found.unresolved.is_empty());
        for conflict in &found.conflicts {
            assert!(conflict.by.tier() < conflict.overridden.tier());
        }
    }
    let found = reconcile(order.to_vec());
    assert_eq!(
        texts(&found),
        ["never push", "do not push", "must not push"],
        "what agrees stays"
    );
    let overridden: Vec<&str> = found
        .conflicts
        .iter()
        .map(|conflict| conflict.overridden.text.as_str())
        .collect();
    assert_eq!(overridden, ["push", "always push"]);
}

#[test]
fn one_that_does_not_hold_overrides_nothing() {
    // The fixed one overrides that of the plan, so that of the project stays.
    let found = reconcile(vec![
        fixed("never push"),
        invariant(InvariantScope::Plan, "push"),
        invariant(InvariantScope::Project, "do not push"),
    ]);
    assert_eq!(texts(&found), ["never push", "do not push"]);
}

#[test]
fn the_same_sentence_holds_once_for_the_strongest() {
    let found = reconcile(vec![
        invariant(InvariantScope::Global, "Keep the API."),
        invariant(InvariantScope::Plan, "keep the  api"),
        invariant(InvariantScope::Project, "Keep the API"),
    ]);
    assert_eq!(found.effective.len(), 1);
    assert_eq!(found.effective[0].source, InvariantScope::Plan);
    assert!(found.conflicts.is_empty() && found.unresolved.is_empty());
}

#[test]
fn equally_strong_invariants_are_left_to_the_user() {
    let found = reconcile(vec![
        invariant(InvariantScope::Project, "always push"),
        invariant(InvariantScope::Project, "never push"),
        invariant(InvariantScope::Global, "push"),
    ]);
    assert_eq!(found.unresolved.len(), 1);
    assert_eq!(texts(&found), ["always push", "never push"]);
    assert_eq!(found.conflicts.len(), 1, "the weaker one is overridden");
}

#[test]
fn hidden_characters_are_refused() {
    assert_eq!(checked_text("  keep it \n"), Ok("keep it".to_owned()));
    assert_eq!(
        checked_text("line\nand\ttab"),
        Ok("line\nand\ttab".to_owned())
    );
    assert_eq!(checked_text(" \n "), Err(InvariantTextError::Empty));
    for text in ["a\u{0}b", "a\u{1b}[1m", "a\u{202e}b", "a\u{e0041}b"] {
        assert_eq!(checked_text(text), Err(InvariantTextError::Hidden));
    }
    assert!(checked_text(&"é".repeat(4_096)).is_ok());
    assert_eq!(
        checked_text(&"é".repeat(4_097)),
        Err(InvariantTextError::Long)
    );
}

/// Few sentences, so that they collide.
fn any_invariant() -> impl Strategy<Value = SourcedInvariant> {
    let text = prop::sample::select(vec![
        "push",
        "Push!",
        "never push",
        "do not push",
        "always push",
        "keep",
        "must not keep",
    ]);
    let scope = prop::sample::select(InvariantScope::ALL.to_vec());
    (text, scope, any::<bool>(), 0..2_u8).prop_map(|(text, scope, fixed, name)| SourcedInvariant {
        id: None,
        text: text.to_owned(),
        source: scope,
        source_name: (scope != InvariantScope::Global).then(|| format!("local/{name}")),
        non_overridable: fixed && scope == InvariantScope::Global,
    })
}

proptest! {
    #[test]
    fn the_order_in_which_they_come_does_not_matter(
        (all, shuffled) in prop::collection::vec(any_invariant(), 0..12)
            .prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
    ) {
        prop_assert_eq!(reconcile(all), reconcile(shuffled));
    }

    #[test]
    fn reconciliation_is_idempotent(all in prop::collection::vec(any_invariant(), 0..12)) {
        let once = reconcile(all);
        let again = reconcile(once.effective.clone());
        prop_assert_eq!(&again.effective, &once.effective);
        prop_assert_eq!(&again.unresolved, &once.unresolved);
        prop_assert!(again.conflicts.is_empty());
    }

    #[test]
    fn nothing_is_lost_and_nothing_is_weaker(all in prop::collection::vec(any_invariant(), 0..12)) {
        let found = reconcile(all.clone());
        for invariant in &all {
            let words = super::Words::parse(&invariant.text);
            let same = |other: &SourcedInvariant| {
                super::Words::parse(&other.text).plain() == words.plain()
                    && other.tier() <= invariant.tier()
            };
            let overridden = found.conflicts.iter().map(|conflict| &conflict.overridden);
            prop_assert!(found.effective.iter().chain(overridden).any(same));
        }
        for conflict in &found.conflicts {
            prop_assert!(conflict.by.tier() < conflict.overridden.tier());
            prop_assert!(found.effective.contains(&conflict.by));
        }
    }

    #[test]
    fn invariants_survive_json(all in prop::collection::vec(any_invariant(), 0..6)) {
        let found = reconcile(all);
        let text = serde_json::to_string(&found).expect("JSON");
        let back: ReconciledInvariants = serde_json::from_str(&text).expect("what was written");
        prop_assert_eq!(back, found);
    }
}
