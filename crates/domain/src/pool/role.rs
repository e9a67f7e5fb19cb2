//! [`PoolRole`]: task of the workers of a pool, and the transitions that they may cause.

use crate::stored_enum::stored_enum;
use crate::{WorkItemKind, WorkItemState};

stored_enum! {
    /// Role of a pool.
    PoolRole {
        /// Searches a module for defects.
        Hunt = "hunt",
        /// Decides about reports: state, priority, milestone, points.
        Triage = "triage",
        /// Writes a test that fails because of the bug.
        Capture = "capture",
        /// Makes the change.
        Fix = "fix",
        /// Reviews a change.
        Review = "review",
        /// Applies an approved change.
        Merge = "merge",
        /// Checks the invariants of the loop.
        Watch = "watch",
    }
}

impl PoolRole {
    /// States from which a role takes items unless the pool names others.
    pub const fn default_states(self) -> &'static [WorkItemState] {
        use WorkItemState as S;
        match self {
            Self::Hunt | Self::Capture => &[S::Verified],
            Self::Triage => &[S::Unverified],
            Self::Fix => &[S::Verified, S::Captured, S::InProgress],
            Self::Review => &[S::InReview],
            Self::Merge => &[S::Approved],
            Self::Watch => &[],
        }
    }

    /// States that a pool of this role may name.
    pub fn may_take_from(self, state: WorkItemState) -> bool {
        self.default_states().contains(&state)
    }

    pub const fn accepts(self, kind: WorkItemKind) -> bool {
        match self {
            Self::Triage => true,
            Self::Hunt => matches!(kind, WorkItemKind::Task),
            Self::Capture => matches!(kind, WorkItemKind::Bug),
            Self::Fix | Self::Review | Self::Merge => {
                !matches!(kind, WorkItemKind::Epic | WorkItemKind::PostMortem)
            }
            Self::Watch => false,
        }
    }

    /// Whether the role may cause the transition. No option, retry or recovery extends this table. Handing an item to a
    /// user is always possible.
    pub const fn can_move(self, from: WorkItemState, to: WorkItemState) -> bool {
        use WorkItemState as S;
        if !from.can_become(to) {
            return false;
        }
        if matches!(to, S::NeedsPerson) {
            return !from.is_terminal() && !matches!(from, S::Paused);
        }
        match self {
            Self::Hunt => matches!((from, to), (S::Verified, S::Completed)),
            Self::Triage => {
                matches!(from, S::Unverified)
                    && matches!(to, S::Verified | S::Duplicate | S::WontDo)
            }
            Self::Capture => matches!((from, to), (S::Verified, S::Captured)),
            Self::Fix => matches!(
                (from, to),
                (S::Verified | S::Captured, S::InProgress) | (S::InProgress, S::InReview)
            ),
            Self::Review => {
                matches!(from, S::InReview) && matches!(to, S::Approved | S::InProgress)
            }
            Self::Merge => {
                matches!(from, S::Approved)
                    && matches!(to, S::Completed | S::InProgress | S::InReview)
            }
            Self::Watch => false,
        }
    }

    /// The state in which the role leaves an item after a success. Producers look at its queue.
    pub const fn produces(self) -> Option<WorkItemState> {
        match self {
            Self::Hunt => Some(WorkItemState::Unverified),
            Self::Triage => Some(WorkItemState::Verified),
            Self::Capture => Some(WorkItemState::Captured),
            Self::Fix => Some(WorkItemState::InReview),
            Self::Review => Some(WorkItemState::Approved),
            Self::Merge => Some(WorkItemState::Completed),
            Self::Watch => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PoolRole;
    use crate::{WorkItemKind, WorkItemState as S};

    /// Every transition that a role may cause, except to the user.
    fn moves(role: PoolRole) -> Vec<(S, S)> {
        let all = |from: S| S::ALL.iter().copied().map(move |to| (from, to));
        S::ALL
            .iter()
            .copied()
            .flat_map(all)
            .filter(|(from, to)| *to != S::NeedsPerson && role.can_move(*from, *to))
            .collect()
    }

    #[test]
    fn only_the_merge_role_completes_a_change() {
        for role in PoolRole::ALL.iter().copied() {
            for (from, to) in moves(role) {
                if to == S::Completed {
                    assert!(matches!(
                        (role, from),
                        (PoolRole::Merge, S::Approved) | (PoolRole::Hunt, S::Verified)
                    ));
                }
                if to == S::Approved {
                    assert_eq!(role, PoolRole::Review);
                }
                assert!(
                    !from.is_terminal() && !from.waits_for_person(),
                    "{role} {from}"
                );
            }
        }
        assert!(moves(PoolRole::Watch).is_empty());
    }

    #[test]
    fn no_role_rejects_work_that_was_triaged() {
        for role in PoolRole::ALL.iter().copied() {
            for (from, to) in moves(role) {
                if matches!(to, S::WontDo | S::Duplicate) {
                    assert_eq!((role, from), (PoolRole::Triage, S::Unverified));
                }
            }
        }
    }

    #[test]
    fn every_waiting_state_has_a_role_that_takes_it() {
        for state in S::ALL.iter().copied() {
            let is_taken = PoolRole::ALL.iter().any(|role| role.may_take_from(state));
            assert_eq!(
                is_taken,
                !state.is_terminal() && !state.waits_for_person(),
                "{state}"
            );
        }
    }

    #[test]
    fn a_hunt_completes_tasks_only() {
        for kind in WorkItemKind::ALL.iter().copied() {
            assert_eq!(PoolRole::Hunt.accepts(kind), kind == WorkItemKind::Task);
        }
    }
}
