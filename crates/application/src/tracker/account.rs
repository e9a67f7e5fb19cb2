//! [`TrackerAccess`]: the permissions of an account at a tracker, checked before the first item.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The rights of an account at a tracker.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct TrackerAccess {
    /// Name of the account; `None` if the tracker has no accounts or the token may not read it.
    pub account: Option<String>,
    /// Whether the tracker identifies accounts.
    pub has_accounts: bool,
    /// Whether the account may set labels and close issues of others.
    pub can_write: bool,
    pub has_issues: bool,
    pub is_archived: bool,
}

/// A reason for which work with a tracker would fail later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AccessProblem {
    /// A stable word, such as `self-approval`.
    pub problem: String,
    /// One sentence.
    pub message: String,
}

impl AccessProblem {
    fn new(problem: &str, message: &str) -> Self {
        Self {
            problem: problem.to_owned(),
            message: message.to_owned(),
        }
    }
}

/// The reasons for which writes to a tracker would fail.
pub fn access_problems(access: &TrackerAccess) -> Vec<AccessProblem> {
    let mut problems = Vec::new();
    if access.has_accounts && access.account.is_none() {
        problems.push(AccessProblem::new(
            "unknown-account",
            "the token may not read its own account, so comments of this account cannot be recognized",
        ));
    }
    if !access.has_issues {
        problems.push(AccessProblem::new(
            "no-issues",
            "the repository has no issues",
        ));
    }
    if access.is_archived {
        problems.push(AccessProblem::new(
            "archived",
            "the repository is archived and cannot be changed",
        ));
    }
    if !access.can_write {
        problems.push(AccessProblem::new(
            "read-only",
            "the account may not set labels or close issues",
        ));
    }
    problems
}

/// The problem of an author and a reviewer with the same account: forges refuse self-approval.
pub fn self_approval_problem(
    author: &TrackerAccess,
    reviewer: &TrackerAccess,
) -> Option<AccessProblem> {
    if !author.has_accounts {
        return None;
    }
    match (&author.account, &reviewer.account) {
        (Some(author), Some(reviewer)) if author.eq_ignore_ascii_case(reviewer) => {
            Some(AccessProblem::new(
                "self-approval",
                "author and reviewer use the same account, and the tracker refuses self-approval",
            ))
        }
        (Some(_), Some(_)) => None,
        _ => Some(AccessProblem::new(
            "unknown-reviewer",
            "an account is unknown, so self-approval cannot be ruled out",
        )),
    }
}
