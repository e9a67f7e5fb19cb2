use super::{NextAttempt, PastAttempt, TierRule};
use crate::{AttemptOutcome, PoolRole, Tier};
use proptest::prelude::*;

fn tiers() -> Vec<Tier> {
    ["cheap", "default", "frontier"]
        .into_iter()
        .map(|name| Tier {
            name: name.to_owned(),
            actor: format!("local/{name}"),
        })
        .collect()
}

fn rule(tiers: &[Tier]) -> TierRule<'_> {
    TierRule {
        tiers,
        attempts_per_tier: 2,
        uncharged_attempts: 5,
        review_rounds: 3,
    }
}

fn attempt(tier: &str, outcome: AttemptOutcome) -> PastAttempt {
    PastAttempt {
        role: PoolRole::Fix,
        round: 1,
        tier: tier.to_owned(),
        outcome: Some(outcome),
        reason: Some("unit tests failed".to_owned()),
    }
}

fn next(attempts: &[PastAttempt]) -> NextAttempt {
    rule(&tiers()).next(PoolRole::Fix, 1, attempts)
}

/// The tier of the next attempt and its number; `None` for the user.
fn step(attempts: &[PastAttempt]) -> Option<(String, u32)> {
    match next(attempts) {
        NextAttempt::Run { tier, number, .. } => Some((tier.name, number)),
        NextAttempt::ReferToUser { .. } => None,
    }
}

#[test]
fn failed_gates_lead_through_the_tiers_to_the_user() {
    let mut attempts = Vec::new();
    let mut seen = Vec::new();
    while let Some((tier, number)) = step(&attempts) {
        seen.push((tier.clone(), number));
        attempts.push(attempt(&tier, AttemptOutcome::FailedGates));
    }
    let expected: Vec<(String, u32)> = ["cheap", "default", "frontier"]
        .into_iter()
        .flat_map(|tier| [(tier.to_owned(), 1), (tier.to_owned(), 2)])
        .collect();
    assert_eq!(seen, expected);
    assert_eq!(
        next(&attempts),
        NextAttempt::ReferToUser {
            reason: "every tier failed; the last reason: unit tests failed".to_owned(),
            are_tiers_exhausted: true
        }
    );
}

#[test]
fn a_failure_of_the_environment_or_of_the_base_stays_in_the_tier() {
    for outcome in [
        AttemptOutcome::EnvironmentFailure,
        AttemptOutcome::RedBase,
        AttemptOutcome::Interrupted,
        AttemptOutcome::Cancelled,
        AttemptOutcome::Blocked,
    ] {
        assert_eq!(
            step(&[attempt("cheap", outcome)]),
            Some(("cheap".to_owned(), 1)),
            "{outcome}"
        );
    }
}

#[test]
fn an_environment_that_always_fails_ends_with_the_user() {
    let attempts = vec![attempt("cheap", AttemptOutcome::EnvironmentFailure); 5];
    assert_eq!(step(&attempts), None);
    assert!(step(&attempts[..4]).is_some());
    // A red base stops the dispatch on its own and never gives the item to the user.
    assert!(step(&vec![attempt("cheap", AttemptOutcome::RedBase); 50]).is_some());
}

#[test]
fn a_change_that_is_sent_back_too_often_ends_with_the_user() {
    let attempts = vec![attempt("cheap", AttemptOutcome::Succeeded); 4];
    assert_eq!(step(&attempts), None);
    assert_eq!(step(&attempts[..3]), Some(("cheap".to_owned(), 1)));
}

#[test]
fn attempts_of_other_roles_and_rounds_do_not_count() {
    let mut other_round = attempt("cheap", AttemptOutcome::FailedGates);
    other_round.round = 0;
    let mut other_role = attempt("cheap", AttemptOutcome::FailedGates);
    other_role.role = PoolRole::Capture;
    assert_eq!(
        step(&[
            other_round.clone(),
            other_round,
            other_role.clone(),
            other_role
        ]),
        Some(("cheap".to_owned(), 1))
    );
}

proptest! {
    #[test]
    fn the_rule_ends_for_every_sequence_of_failures(
        outcomes in proptest::collection::vec(0..AttemptOutcome::ALL.len(), 60)
    ) {
        let mut attempts = Vec::new();
        let mut last = 0;
        for index in outcomes {
            let outcome = AttemptOutcome::ALL[index];
            let (tier, tier_index) = match next(&attempts) {
                NextAttempt::Run { tier, tier_index, .. } => (tier, tier_index),
                NextAttempt::ReferToUser { .. } => break,
            };
            // It never returns to a cheaper tier, and charges at most the limit per tier.
            prop_assert!(tier_index >= last);
            last = tier_index;
            attempts.push(attempt(&tier.name, outcome));
        }
        for tier in tiers() {
            let charged = attempts.iter().filter(|attempt| {
                attempt.tier == tier.name && attempt.outcome.is_some_and(AttemptOutcome::is_charged)
            });
            prop_assert!(charged.count() <= 2);
        }
    }
}
