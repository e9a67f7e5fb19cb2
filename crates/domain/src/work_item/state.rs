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
        /// Set aside by the user; resumed in the state that it had.
        Paused = "paused",
        /// Duplicate of another item.
        Duplicate = "duplicate",
        /// Rejected.
        WontDo = "wont_do",
        /// Waits for a decision of the user.
        NeedsPerson = "needs_person",
    }
}

impl WorkItemState {
    /// Whether the transition exists. The user may cause each of them; a role only those that
    /// [`PoolRole::can_move`](crate::PoolRole::can_move) lists.
    ///
    /// Approved work is never rejected directly: the user has to move it out of this state first.
    pub const fn can_become(self, next: Self) -> bool {
        match self {
            Self::Unverified => matches!(
                next,
                Self::Verified
                    | Self::Completed
                    | Self::Paused
                    | Self::Duplicate
                    | Self::WontDo
                    | Self::NeedsPerson
            ),
            Self::Verified => matches!(
                next,
                Self::Unverified
                    | Self::Captured
                    | Self::InProgress
                    | Self::Completed
                    | Self::Paused
                    | Self::Duplicate
                    | Self::WontDo
                    | Self::NeedsPerson
            ),
            Self::Captured => matches!(
                next,
                Self::Verified
                    | Self::InProgress
                    | Self::Completed
                    | Self::Paused
                    | Self::Duplicate
                    | Self::WontDo
                    | Self::NeedsPerson
            ),
            Self::InProgress => matches!(
                next,
                Self::Verified
                    | Self::Captured
                    | Self::InReview
                    | Self::Completed
                    | Self::Paused
                    | Self::Duplicate
                    | Self::WontDo
                    | Self::NeedsPerson
            ),
            Self::InReview => matches!(
                next,
                Self::InProgress
                    | Self::Approved
                    | Self::Completed
                    | Self::Paused
                    | Self::Duplicate
                    | Self::WontDo
                    | Self::NeedsPerson
            ),
            Self::Approved => matches!(
                next,
                Self::InProgress
                    | Self::InReview
                    | Self::Completed
                    | Self::Paused
                    | Self::NeedsPerson
            ),
            Self::Paused => !matches!(next, Self::Paused),
            Self::NeedsPerson => !matches!(next, Self::NeedsPerson | Self::Approved),
            // A closed item can be reopened, for example when its tracker reopens it.
            Self::Completed | Self::Duplicate | Self::WontDo => {
                matches!(next, Self::Unverified | Self::Verified)
            }
        }
    }

    /// Whether no work is left: completed, duplicate or rejected.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Duplicate | Self::WontDo)
    }

    /// Whether the item waits for the user, and no pool may take it.
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
    fn states_round_trip_through_storage() {
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
    fn every_open_state_can_be_handed_to_the_user_and_paused() {
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
