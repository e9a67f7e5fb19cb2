//! The criteria of a merge: one versioned list, evaluated for the exact state of a change in the unit of work that starts
//! the apply.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of the list. It changes when a criterion is added, removed or changes its meaning.
pub const MERGE_CRITERIA_VERSION: u32 = 1;

/// A condition that a change has to meet before it is merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MergeCriterion {
    /// Neither the pool nor the project is stopped.
    NotStopped,
    /// The item is approved and does not wait for a user.
    ItemApproved,
    /// The items that it depends on are completed.
    DependenciesCompleted,
    /// The last attempt succeeded for exactly this state.
    AttemptSucceeded,
    /// Every required gate has a stored exit code of success for exactly this state.
    GatesPassed,
    /// A test failed on the base and passes on the change.
    TestCaptured,
    /// A reviewer approved exactly this state, and no finding blocks.
    ReviewApproved,
    /// The reviewer is not the author.
    ReviewerDiffers,
}

impl MergeCriterion {
    /// All criteria, in the order of their evaluation.
    pub const ALL: [Self; 8] = [
        Self::NotStopped,
        Self::ItemApproved,
        Self::DependenciesCompleted,
        Self::AttemptSucceeded,
        Self::GatesPassed,
        Self::TestCaptured,
        Self::ReviewApproved,
        Self::ReviewerDiffers,
    ];

    /// The name in reports and refusals.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotStopped => "not_stopped",
            Self::ItemApproved => "item_approved",
            Self::DependenciesCompleted => "dependencies_completed",
            Self::AttemptSucceeded => "attempt_succeeded",
            Self::GatesPassed => "gates_passed",
            Self::TestCaptured => "test_captured",
            Self::ReviewApproved => "review_approved",
            Self::ReviewerDiffers => "reviewer_differs",
        }
    }

    /// True if the criterion is met.
    pub(crate) fn is_met(self, facts: &MergeFacts) -> bool {
        let is_this_state = |state: &str| !state.is_empty() && state == facts.state;
        match self {
            Self::NotStopped => !facts.is_stopped,
            Self::ItemApproved => facts.is_approved,
            Self::DependenciesCompleted => facts.open_dependencies == 0,
            Self::AttemptSucceeded => {
                facts.attempt_succeeded && is_this_state(&facts.attempt_state)
            }
            Self::GatesPassed => {
                let required = || facts.gates.iter().filter(|gate| gate.is_required);
                required().next().is_some()
                    && required().all(|gate| gate.exit_code == Some(0) && is_this_state(&gate.state))
            }
            Self::TestCaptured => !facts.needs_test || facts.has_captured_test,
            Self::ReviewApproved => facts
                .review
                .as_ref()
                .is_some_and(|review| review.approves && is_this_state(&review.state)),
            Self::ReviewerDiffers => facts
                .review
                .as_ref()
                .is_some_and(|review| !review.reviewer.is_empty() && review.reviewer != facts.author),
        }
    }
}

/// A gate as it was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GateFact {
    pub(crate) is_required: bool,
    pub(crate) exit_code: Option<i32>,
    /// The state of the change that it ran on.
    pub(crate) state: String,
}

/// A review as it was stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReviewFact {
    pub(crate) approves: bool,
    pub(crate) state: String,
    pub(crate) reviewer: String,
}

/// The stored facts about a change, read in one unit of work.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct MergeFacts {
    pub(crate) is_stopped: bool,
    /// The state of the change that is to be applied, from its sandbox.
    pub(crate) state: String,
    pub(crate) is_approved: bool,
    pub(crate) open_dependencies: usize,
    pub(crate) author: String,
    pub(crate) attempt_succeeded: bool,
    pub(crate) attempt_state: String,
    pub(crate) gates: Vec<GateFact>,
    /// True if the kind of the item demands a test that failed on the base.
    pub(crate) needs_test: bool,
    pub(crate) has_captured_test: bool,
    pub(crate) review: Option<ReviewFact>,
}

impl MergeFacts {
    /// The criteria that are not met.
    pub(crate) fn failing(&self) -> Vec<MergeCriterion> {
        MergeCriterion::ALL
            .into_iter()
            .filter(|criterion| !criterion.is_met(self))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{GateFact, MergeCriterion, MergeFacts, ReviewFact};

    fn facts() -> MergeFacts {
        let gate = GateFact {
            is_required: true,
            exit_code: Some(0),
            state: "s1".to_owned(),
        };
        MergeFacts {
            state: "s1".to_owned(),
            is_approved: true,
            author: "tier-1".to_owned(),
            attempt_succeeded: true,
            attempt_state: "s1".to_owned(),
            gates: vec![gate.clone(), GateFact { is_required: false, exit_code: None, ..gate }],
            needs_test: true,
            has_captured_test: true,
            review: Some(ReviewFact {
                approves: true,
                state: "s1".to_owned(),
                reviewer: "reviewer".to_owned(),
            }),
            ..MergeFacts::default()
        }
    }

    #[test]
    fn each_criterion_refuses_alone_and_is_named() {
        type Spoil = fn(&mut MergeFacts);
        assert_eq!(facts().failing(), []);
        let cases: [(MergeCriterion, Spoil); 13] = [
            (MergeCriterion::NotStopped, |facts| facts.is_stopped = true),
            (MergeCriterion::ItemApproved, |facts| facts.is_approved = false),
            (MergeCriterion::DependenciesCompleted, |facts| facts.open_dependencies = 1),
            (MergeCriterion::AttemptSucceeded, |facts| facts.attempt_succeeded = false),
            (MergeCriterion::AttemptSucceeded, |facts| facts.attempt_state = "s0".to_owned()),
            (MergeCriterion::GatesPassed, |facts| facts.gates[0].exit_code = None),
            (MergeCriterion::GatesPassed, |facts| facts.gates[0].exit_code = Some(1)),
            (MergeCriterion::GatesPassed, |facts| facts.gates[0].state = "s0".to_owned()),
            (MergeCriterion::GatesPassed, |facts| facts.gates.clear()),
            (MergeCriterion::TestCaptured, |facts| facts.has_captured_test = false),
            (MergeCriterion::ReviewApproved, |facts| {
                if let Some(review) = &mut facts.review {
                    review.state = "s0".to_owned();
                }
            }),
            (MergeCriterion::ReviewApproved, |facts| {
                if let Some(review) = &mut facts.review {
                    review.approves = false;
                }
            }),
            (MergeCriterion::ReviewerDiffers, |facts| facts.author = "reviewer".to_owned()),
        ];
        for (criterion, spoil) in cases {
            let mut spoiled = facts();
            spoil(&mut spoiled);
            assert_eq!(spoiled.failing(), [criterion]);
        }
        // A change after the evidence invalidates all of it.
        let mut changed = facts();
        changed.state = "s2".to_owned();
        assert_eq!(
            changed.failing(),
            [
                MergeCriterion::AttemptSucceeded,
                MergeCriterion::GatesPassed,
                MergeCriterion::ReviewApproved
            ]
        );
    }
}
