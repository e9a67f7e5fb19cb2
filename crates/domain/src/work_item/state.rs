//! [`WorkItemState`] and the one table of its transitions.

use crate::stored_enum::stored_enum;

stored_enum! {
    /// State of a work item.
    WorkItemState {
        /// Reported, and not triaged yet.
        Unverified = "unverified",
        /// Triaged and ready for work.
        Verified = "verified",
        /// A test that fails because of the bug is stored.
        Captured = "captured",
        /// A change is being made, or waits for its next attempt.
        InProgress = "in_progress",
        /// The change waits for its review.
        InReview = "in_review",
        /// The change is approved and waits to be merged.
        Approved = "approved",
        /// Merged, or closed as done.
        Completed = "completed",
        /// Set aside by a person; resumed in the state that it had.
        Paused = "paused",
        /// The same as another item.
        Duplicate = "duplicate",
        /// Rejected.
        WontDo = "wont_do",
        /// Waits for a decision of a person.
        NeedsPerson = "needs_person",
    }
}

impl WorkItemState {
    /// Whether the transition exists. A person may cause each of them; a role only those that
    /// [`PoolRole::can_move`](crate::PoolRole::can_move) lists.
    ///
    /// Approved work is never rejected directly: a person has to take it back first.
    pub const fn can_become(self, next: Self) -> bool {
        use WorkItemState as S;
        match self {
            S::Unverified => matches!(
                next,
                S::Verified | S::Completed | S::Paused | S::Duplicate | S::WontDo | S::NeedsPerson
            ),
            S::Verified => matches!(
                next,
                S::Unverified
                    | S::Captured
                    | S::InProgress
                    | S::Completed
                    | S::Paused
                    | S::Duplicate
                    | S::WontDo
                    | S::NeedsPerson
            ),
            S::Captured => matches!(
                next,
                S::Verified
                    | S::InProgress
                    | S::Completed
                    | S::Paused
                    | S::Duplicate
                    | S::WontDo
                    | S::NeedsPerson
            ),
            S::InProgress => matches!(
                next,
                S::Verified
                    | S::Captured
                    | S::InReview
                    | S::Completed
                    | S::Paused
                    | S::Duplicate
                    | S::WontDo
                    | S::NeedsPerson
            ),
            S::InReview => matches!(
                next,
                S::InProgress
                    | S::Approved
                    | S::Completed
                    | S::Paused
                    | S::Duplicate
                    | S::WontDo
                    | S::NeedsPerson
            ),
            S::Approved => matches!(
                next,
                S::InProgress | S::InReview | S::Completed | S::Paused | S::NeedsPerson
            ),
            S::Paused => !matches!(next, S::Paused),
            S::NeedsPerson => !matches!(next, S::NeedsPerson | S::Approved),
            // A closed item can be reopened, for example when its tracker reopens it.
            S::Completed | S::Duplicate | S::WontDo => matches!(next, S::Unverified | S::Verified),
        }
    }

    /// Whether no work is left: completed, duplicate or rejected.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Duplicate | Self::WontDo)
    }

    /// Whether the item waits for a person, and no pool may take it.
    pub const fn waits_for_person(self) -> bool {
        matches!(self, Self::Paused | Self::NeedsPerson)
    }

    /// Whether the item has a change that is not merged yet.
    pub const fn has_open_change(self) -> bool {
        matches!(self, Self::InProgress | Self::InReview | Self::Approved)
    }
}

#[cfg(test)]
mod tests {
    use super::WorkItemState as S;

    #[test]
    fn states_survive_storing() {
        for state in S::ALL.iter().copied() {
            assert_eq!(S::from_stored(state.as_str()), Some(state));
        }
        assert_eq!(S::from_stored("open"), None);
    }

    #[test]
    fn no_state_becomes_itself_and_every_state_has_an_exit() {
        for state in S::ALL.iter().copied() {
            assert!(!state.can_become(state), "{state}");
            assert!(
                S::ALL.iter().any(|next| state.can_become(*next)),
                "{state} has no exit"
            );
        }
    }

    #[test]
    fn every_open_state_can_be_handed_to_a_person_and_paused() {
        for state in S::ALL.iter().copied() {
            if state.is_terminal() || state == S::NeedsPerson {
                continue;
            }
            assert!(state.can_become(S::NeedsPerson), "{state}");
            assert!(state == S::Paused || state.can_become(S::Paused), "{state}");
        }
    }

    #[test]
    fn approval_comes_from_review_only_and_approved_work_is_not_rejected() {
        for state in S::ALL.iter().copied() {
            let expected = matches!(state, S::InReview | S::Paused);
            assert_eq!(state.can_become(S::Approved), expected, "{state}");
        }
        assert!(!S::Approved.can_become(S::WontDo));
        assert!(!S::Approved.can_become(S::Duplicate));
    }

    #[test]
    fn a_closed_item_can_only_be_reopened() {
        for state in [S::Completed, S::Duplicate, S::WontDo] {
            let next: Vec<S> = S::ALL
                .iter()
                .copied()
                .filter(|next| state.can_become(*next))
                .collect();
            assert_eq!(next, [S::Unverified, S::Verified], "{state}");
        }
    }
}
