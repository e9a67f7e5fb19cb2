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

fn non_overridable(text: &str) -> SourcedInvariant {
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
fn the_narrowest_scope_wins_except_over_non_overridable_invariants() {
    use InvariantScope::{Action, Global, Plan, Project};
    let order = [
        non_overridable("never push"),
        invariant(Plan, "push"),
        invariant(Action, "do not push"),
        invariant(Project, "always push"),
        invariant(Global, "must not push"),
    ];
    // In every suffix of the order, the first one overrides its opposites.
    for first in 0..order.len() {
        let suffix = order[first..].to_vec();
        let reconciled = reconcile(suffix);
        assert_eq!(reconciled.effective[0], order[first]);
        assert!(reconciled.unresolved.is_empty());
        for conflict in &reconciled.conflicts {
            assert!(conflict.by.tier() < conflict.overridden.tier());
        }
    }
    let reconciled = reconcile(order.to_vec());
    assert_eq!(
        texts(&reconciled),
        ["never push", "do not push", "must not push"],
        "invariants that agree stay"
    );
    let overridden: Vec<&str> = reconciled
        .conflicts
        .iter()
        .map(|conflict| conflict.overridden.text.as_str())
        .collect();
    assert_eq!(overridden, ["push", "always push"]);
}

#[test]
fn an_overridden_invariant_overrides_nothing() {
    // The global invariant overrides that of the plan, so the invariant of the project stays.
    let reconciled = reconcile(vec![
        non_overridable("never push"),
        invariant(InvariantScope::Plan, "push"),
        invariant(InvariantScope::Project, "do not push"),
    ]);
    assert_eq!(texts(&reconciled), ["never push", "do not push"]);
}

#[test]
fn a_repeated_sentence_holds_once_with_the_highest_precedence() {
    let reconciled = reconcile(vec![
        invariant(InvariantScope::Global, "Keep the API."),
        invariant(InvariantScope::Plan, "keep the  api"),
        invariant(InvariantScope::Project, "Keep the API"),
    ]);
    assert_eq!(reconciled.effective.len(), 1);
    assert_eq!(reconciled.effective[0].source, InvariantScope::Plan);
    assert!(reconciled.conflicts.is_empty() && reconciled.unresolved.is_empty());
}

#[test]
fn contradictions_of_equal_precedence_stay_unresolved() {
    let reconciled = reconcile(vec![
        invariant(InvariantScope::Project, "always push"),
        invariant(InvariantScope::Project, "never push"),
        invariant(InvariantScope::Global, "push"),
    ]);
    assert_eq!(reconciled.unresolved.len(), 1);
    assert_eq!(texts(&reconciled), ["always push", "never push"]);
    assert_eq!(
        reconciled.conflicts.len(),
        1,
        "the invariant of lower precedence is overridden"
    );
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

/// An invariant with one of a few sentences, so that sentences collide.
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
    fn the_result_does_not_depend_on_the_order_of_the_input(
        (all, shuffled) in prop::collection::vec(any_invariant(), 0..12)
            .prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
    ) {
        prop_assert_eq!(reconcile(all), reconcile(shuffled));
    }

    #[test]
    fn reconciliation_is_idempotent(all in prop::collection::vec(any_invariant(), 0..12)) {
        let first = reconcile(all);
        let repeated = reconcile(first.effective.clone());
        prop_assert_eq!(&repeated.effective, &first.effective);
        prop_assert_eq!(&repeated.unresolved, &first.unresolved);
        prop_assert!(repeated.conflicts.is_empty());
    }

    #[test]
    fn every_invariant_is_effective_or_overridden_by_a_higher_one(all in prop::collection::vec(any_invariant(), 0..12)) {
        let reconciled = reconcile(all.clone());
        for invariant in &all {
            let words = super::Words::parse(&invariant.text);
            let same = |other: &SourcedInvariant| {
                super::Words::parse(&other.text).plain() == words.plain()
                    && other.tier() <= invariant.tier()
            };
            let overridden = reconciled.conflicts.iter().map(|conflict| &conflict.overridden);
            prop_assert!(reconciled.effective.iter().chain(overridden).any(same));
        }
        for conflict in &reconciled.conflicts {
            prop_assert!(conflict.by.tier() < conflict.overridden.tier());
            prop_assert!(reconciled.effective.contains(&conflict.by));
        }
    }

    #[test]
    fn invariants_round_trip_through_json(all in prop::collection::vec(any_invariant(), 0..6)) {
        let reconciled = reconcile(all);
        let text = serde_json::to_string(&reconciled).expect("JSON");
        let restored: ReconciledInvariants = serde_json::from_str(&text).expect("stored JSON");
        prop_assert_eq!(restored, reconciled);
    }
}
