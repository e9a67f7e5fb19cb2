//! Typed verdicts of triage, review and merge.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::attempt::Attempt;
use super::fields::{Moscow, Priority, Severity, StoryPoints, WorkItemKind};
use crate::stored_enum::stored_enum;
use crate::{AttemptId, AttemptOutcome, Timestamp, WorkItemId};

/// A value of a triage with the reason for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReasonedValue<T> {
    pub value: T,
    pub reason: String,
}

/// Verdict of triage on an item as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "decision", rename_all = "snake_case", deny_unknown_fields)]
pub enum TriageVerdict {
    /// It is real and worth doing.
    Accept,
    /// It is the same as another item of the project.
    Duplicate { of: WorkItemId },
    /// It is not worth doing.
    Reject,
    /// The user has to decide.
    AskPerson { question: String },
}

/// The decision of a triage: typed fields, each with its reason. Only these fields are applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TriageDecision {
    pub verdict: ReasonedValue<TriageVerdict>,
    #[serde(default)]
    pub kind: Option<ReasonedValue<WorkItemKind>>,
    #[serde(default)]
    pub priority: Option<ReasonedValue<Priority>>,
    #[serde(default)]
    pub milestone: Option<ReasonedValue<String>>,
    #[serde(default)]
    pub points: Option<ReasonedValue<StoryPoints>>,
    #[serde(default)]
    pub moscow: Option<ReasonedValue<Moscow>>,
    /// Labels to add. Labels that the project does not know are refused.
    #[serde(default)]
    pub labels: Option<ReasonedValue<Vec<String>>>,
}

stored_enum! {
    /// Decision of a reviewer.
    ReviewDecision {
        Approve = "approve",
        RequestChanges = "request_changes",
    }
}

/// A finding of a review.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReviewFinding {
    pub severity: Severity,
    pub path: String,
    #[serde(default)]
    pub line: Option<u32>,
    pub message: String,
}

/// The typed verdict of a review.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReviewVerdict {
    pub decision: ReviewDecision,
    pub findings: Vec<ReviewFinding>,
    /// Shown to users; decides nothing.
    pub summary: String,
}

impl ReviewVerdict {
    /// Findings that block: those of the severity `limit` or worse.
    pub fn blocking(&self, limit: Severity) -> impl Iterator<Item = &ReviewFinding> {
        self.findings
            .iter()
            .filter(move |finding| finding.severity.is_at_least(limit))
    }

    /// Whether the verdict can be used: a request for changes names at least one finding.
    pub fn is_usable(&self) -> bool {
        self.decision == ReviewDecision::Approve || !self.findings.is_empty()
    }

    /// Whether the review approves: it has no blocking finding, and it approves or has only findings that do not
    /// block. A request for changes of style does not stop a change.
    pub fn approves(&self, limit: Severity) -> bool {
        self.is_usable() && !self.blocks(limit)
    }

    /// Whether the review has a blocking finding.
    pub fn blocks(&self, limit: Severity) -> bool {
        self.blocking(limit).next().is_some()
    }
}

/// A stored review of one state of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoredReview {
    pub item: WorkItemId,
    /// Commit or hash of the sandbox state that was reviewed.
    pub head: String,
    /// Profile of the review: the name of the pool.
    pub profile: String,
    pub attempt: AttemptId,
    pub actor: String,
    pub verdict: ReviewVerdict,
    /// Whether it approves under the rules of its pool.
    pub approves: bool,
    pub reviewed_at: Timestamp,
}

stored_enum! {
    /// A criterion without which nothing is merged.
    MergeCriterion {
        /// A successful attempt produced exactly this state.
        SucceededAttempt = "succeeded_attempt",
        /// Each required gate has the exit code 0 on exactly this state.
        GatesPassed = "gates_passed",
        /// A review approves exactly this state.
        Approved = "approved",
        /// The approving actor is another one than the author.
        ReviewerDiffers = "reviewer_differs",
        /// No review of this state has a blocking finding.
        NoBlockingFinding = "no_blocking_finding",
        /// The captured test fails on the base and passes on this state.
        RegressionProven = "regression_proven",
        /// Everything that the item depends on is completed.
        DependenciesCompleted = "dependencies_completed",
        /// The base passes its gates, or the item fixes it.
        BaseGreen = "base_green",
    }
}

/// Version of the list of criteria. It grows with every change of the list or of a criterion.
pub const MERGE_CRITERIA_VERSION: u32 = 1;

/// Stored facts on which the criteria are evaluated.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one fact of a criterion"
)]
pub struct MergeEvidence<'a> {
    /// Commit or hash of the sandbox state to merge.
    pub head: &'a str,
    /// Names of the gates that the pool requires.
    pub required_gates: &'a [String],
    /// Attempts on the item.
    pub attempts: &'a [Attempt],
    pub reviews: &'a [StoredReview],
    /// Severity from which findings block.
    pub blocking: Severity,
    /// Whether a test was captured for the item.
    pub is_captured: bool,
    pub dependencies_completed: bool,
    pub is_base_green: bool,
    pub fixes_base: bool,
}

impl MergeEvidence<'_> {
    /// The criteria that are not met, in the order of the list.
    pub fn failing(&self) -> Vec<MergeCriterion> {
        MergeCriterion::ALL
            .iter()
            .copied()
            .filter(|criterion| !self.is_met(*criterion))
            .collect()
    }

    fn author(&self) -> Option<&Attempt> {
        self.attempts.iter().rev().find(|attempt| {
            attempt.head.as_deref() == Some(self.head)
                && attempt.outcome == Some(AttemptOutcome::Succeeded)
                && attempt.role == crate::PoolRole::Fix
        })
    }

    fn current_reviews(&self) -> impl Iterator<Item = &StoredReview> {
        self.reviews
            .iter()
            .filter(|review| review.head == self.head)
    }

    fn is_met(&self, criterion: MergeCriterion) -> bool {
        match criterion {
            MergeCriterion::SucceededAttempt => self.author().is_some(),
            MergeCriterion::GatesPassed => self.author().is_some_and(|attempt| {
                let passed = |name: &str| {
                    let mut results = attempt
                        .gates
                        .iter()
                        .filter(|gate| gate.name == name)
                        .peekable();
                    results.peek().is_some()
                        && results.all(|gate| {
                            gate.has_passed() && gate.commit_or_sandbox_state == self.head
                        })
                };
                let flagged = attempt.gates.iter().filter(|gate| gate.required);
                self.required_gates.iter().all(|name| passed(name))
                    && flagged.map(|gate| gate.name.as_str()).all(passed)
                    && attempt.gates.iter().any(|gate| gate.required)
            }),
            MergeCriterion::Approved => self.current_reviews().any(|review| review.approves),
            MergeCriterion::ReviewerDiffers => self.author().is_some_and(|attempt| {
                self.current_reviews()
                    .any(|review| review.approves && review.actor != attempt.actor)
            }),
            MergeCriterion::NoBlockingFinding => !self
                .current_reviews()
                .any(|review| review.verdict.blocks(self.blocking)),
            MergeCriterion::RegressionProven => {
                !self.is_captured
                    || self.author().is_some_and(|attempt| {
                        attempt
                            .regression
                            .as_ref()
                            .is_some_and(|proof| proof.fails_on_base() && proof.passes_on_head())
                    })
            }
            MergeCriterion::DependenciesCompleted => self.dependencies_completed,
            MergeCriterion::BaseGreen => self.is_base_green || self.fixes_base,
        }
    }
}

/// Result of a merge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum MergeOutcome {
    /// The change is applied.
    Merged {
        /// Commit, or hash of the state, after the merge.
        commit: String,
    },
    /// Apply refused: the names of the preconditions that failed.
    Refused { failing: Vec<String> },
    /// The change conflicts with the base and has to be made again on it.
    Conflict { paths: Vec<String> },
    /// The user has to approve the merge.
    NeedsApproval { reason: String },
}

#[cfg(test)]
mod tests {
    use super::{ReviewDecision, ReviewFinding, ReviewVerdict};
    use crate::Severity;

    fn verdict(decision: ReviewDecision, severities: &[Severity]) -> ReviewVerdict {
        ReviewVerdict {
            decision,
            findings: severities
                .iter()
                .map(|severity| ReviewFinding {
                    severity: *severity,
                    path: "a.py".to_owned(),
                    line: None,
                    message: "wrong".to_owned(),
                })
                .collect(),
            summary: "APPROVED".to_owned(),
        }
    }

    #[test]
    fn only_blocking_findings_block_and_prose_approves_nothing() {
        let limit = Severity::High;
        assert!(verdict(ReviewDecision::Approve, &[Severity::Low]).approves(limit));
        assert!(!verdict(ReviewDecision::Approve, &[Severity::High]).approves(limit));
        assert!(!verdict(ReviewDecision::RequestChanges, &[]).approves(limit));
        assert!(!verdict(ReviewDecision::RequestChanges, &[]).is_usable());
        assert!(verdict(ReviewDecision::RequestChanges, &[Severity::Low]).approves(limit));
        assert!(!verdict(ReviewDecision::RequestChanges, &[Severity::Critical]).approves(limit));
        assert!(verdict(ReviewDecision::RequestChanges, &[Severity::Critical]).blocks(limit));
    }
}
