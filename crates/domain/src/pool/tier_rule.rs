//! [`TierRule`]: selects the actor of the next attempt.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Tier;
use crate::{Attempt, AttemptOutcome, PoolRole};

/// The rule of a pool for its tiers, a pure function of the attempt rows.
#[derive(Debug, Clone, Copy)]
pub struct TierRule<'a> {
    /// Actors, cheapest first. Not empty.
    pub tiers: &'a [Tier],
    /// Charged attempts per tier.
    pub attempts_per_tier: u32,
    /// Maximum number of consecutive attempts that ended without being charged, such as failures of the environment.
    pub uncharged_attempts: u32,
    /// Maximum number of successful attempts whose result was sent back by a review or a merge.
    pub review_rounds: u32,
}

/// The facts about an attempt that the rule reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastAttempt {
    pub role: PoolRole,
    pub round: u64,
    pub tier: String,
    /// `None` while it runs.
    pub outcome: Option<AttemptOutcome>,
    pub reason: Option<String>,
}

impl From<&Attempt> for PastAttempt {
    fn from(attempt: &Attempt) -> Self {
        Self {
            role: attempt.role,
            round: attempt.round,
            tier: attempt.tier.clone(),
            outcome: attempt.outcome,
            reason: attempt.reason.clone(),
        }
    }
}

/// Decision about the next attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "next", rename_all = "snake_case")]
pub enum NextAttempt {
    /// An actor makes an attempt.
    Run {
        tier: Tier,
        /// Position of the tier, from 0.
        tier_index: usize,
        /// Number of the attempt within the tier, from 1.
        number: u32,
    },
    /// No tier is left.
    ReferToUser {
        reason: String,
        /// Whether all tiers failed, which calls for a post-mortem.
        are_tiers_exhausted: bool,
    },
}

impl TierRule<'_> {
    /// Decides about the next attempt of `role`. Attempts of other roles and of earlier rounds do not count.
    pub fn next(&self, role: PoolRole, round: u64, attempts: &[PastAttempt]) -> NextAttempt {
        let counted: Vec<&PastAttempt> = attempts
            .iter()
            .filter(|attempt| attempt.role == role && attempt.round == round)
            .collect();
        let ended = || counted.iter().filter_map(|attempt| attempt.outcome);
        let uncharged = counted
            .iter()
            .rev()
            .filter_map(|attempt| attempt.outcome)
            // Two outcomes do not count: a red base, which stops the dispatch, and a requested cancellation.
            .filter(|outcome| {
                !matches!(outcome, AttemptOutcome::RedBase | AttemptOutcome::Cancelled)
            })
            .take_while(|outcome| {
                !outcome.is_charged() && !matches!(outcome, AttemptOutcome::Succeeded)
            })
            .count();
        if uncharged as u64 >= u64::from(self.uncharged_attempts) {
            return refer_to_user(format!(
                "{uncharged} consecutive attempts failed for reasons that the actor did not cause{}",
                last_reason(&counted)
            ));
        }
        let succeeded = ended()
            .filter(|outcome| matches!(outcome, AttemptOutcome::Succeeded))
            .count();
        if succeeded as u64 > u64::from(self.review_rounds) {
            return refer_to_user(format!(
                "its change was sent back {succeeded} times, more than the maximum of {}",
                self.review_rounds
            ));
        }
        for (tier_index, tier) in self.tiers.iter().enumerate() {
            let charged = counted
                .iter()
                .filter(|attempt| {
                    attempt.tier == tier.name
                        && attempt.outcome.is_some_and(AttemptOutcome::is_charged)
                })
                .count();
            let charged = u32::try_from(charged).unwrap_or(u32::MAX);
            if charged < self.attempts_per_tier {
                return NextAttempt::Run {
                    tier: tier.clone(),
                    tier_index,
                    number: charged + 1,
                };
            }
        }
        NextAttempt::ReferToUser {
            reason: format!("every tier failed{}", last_reason(&counted)),
            are_tiers_exhausted: true,
        }
    }
}

fn refer_to_user(reason: String) -> NextAttempt {
    NextAttempt::ReferToUser {
        reason,
        are_tiers_exhausted: false,
    }
}

fn last_reason(attempts: &[&PastAttempt]) -> String {
    let last = attempts
        .iter()
        .rev()
        .find_map(|attempt| attempt.reason.as_deref());
    last.map(|reason| format!("; the last reason: {reason}"))
        .unwrap_or_default()
}

#[cfg(test)]
#[path = "tier_rule_tests.rs"]
mod tests;
