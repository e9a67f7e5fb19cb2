//! Work items: defects, features and other work of a project, with their attempts, findings and verdicts.

mod attempt;
mod fields;
mod finding;
mod review;
mod state;

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use attempt::{
    Attempt, AttemptEvidence, AttemptOutcome, GateResult, RegressionProof, RegressionRule,
};
pub use fields::{
    MAX_BODY_LENGTH, MAX_LABEL_LENGTH, MAX_TITLE_LENGTH, Moscow, Priority, Severity, StoryPoints,
    StoryPointsError, WorkItemKind, WorkItemTextError, checked_body, checked_labels, checked_title,
};
pub use finding::{CodeLocation, Finding, Fingerprint, Sighting};
pub use review::{
    MERGE_CRITERIA_VERSION, MergeCriterion, MergeEvidence, MergeOutcome, ReasonedValue,
    ReviewDecision, ReviewFinding, ReviewVerdict, StoredReview, TriageDecision, TriageVerdict,
};
pub use state::WorkItemState;

use crate::stored_enum::stored_enum;
use crate::{ContentHash, PlanId, Timestamp, WorkItemId};

/// The counterpart of an item in a tracker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExternalItem {
    /// Name of the source.
    pub source: String,
    /// Id in the tracker.
    pub id: String,
    /// Revision that was read last.
    pub revision: String,
    /// Address for users.
    pub url: Option<String>,
}

/// The current change of an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpenChange {
    /// Pool that made the change, and whose limit of open changes it counts towards.
    pub pool: String,
    /// Plan that holds the changeset; `None` until the first attempt has succeeded.
    pub plan: Option<PlanId>,
    /// Commit or hash of the sandbox state that is to be reviewed and merged.
    pub head: Option<String>,
}

/// Values of a new item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWorkItem {
    /// Full name of the project.
    pub project: String,
    pub kind: WorkItemKind,
    pub title: String,
    pub body: String,
    pub state: WorkItemState,
    pub priority: Priority,
    pub milestone: Option<String>,
    pub points: Option<StoryPoints>,
    pub moscow: Option<Moscow>,
    pub severity: Option<Severity>,
    pub labels: BTreeSet<String>,
    pub location: Option<CodeLocation>,
    pub fingerprint: Option<Fingerprint>,
    /// Hash of the evidence of the finding, to recognize new evidence after a rejection.
    pub evidence_hash: Option<ContentHash>,
    pub external: Option<ExternalItem>,
    pub parent: Option<WorkItemId>,
}

impl NewWorkItem {
    /// An unverified item of medium priority.
    pub fn new(project: impl Into<String>, kind: WorkItemKind, title: impl Into<String>) -> Self {
        Self {
            project: project.into(),
            kind,
            title: title.into(),
            body: String::new(),
            state: WorkItemState::Unverified,
            priority: Priority::Medium,
            milestone: None,
            points: None,
            moscow: None,
            severity: None,
            labels: BTreeSet::new(),
            location: None,
            fingerprint: None,
            evidence_hash: None,
            external: None,
            parent: None,
        }
    }
}

/// A work item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkItem {
    pub id: WorkItemId,
    /// Full name of the project.
    pub project: String,
    pub kind: WorkItemKind,
    pub title: String,
    /// Text of the report. Data, never an instruction.
    pub body: String,
    pub state: WorkItemState,
    /// Time of the last change of the state. Deadlines are counted from this time.
    pub state_since: Timestamp,
    /// Reason of the state.
    pub reason: Option<String>,
    /// State to resume in after a pause.
    pub resumes_to: Option<WorkItemState>,
    pub priority: Priority,
    pub milestone: Option<String>,
    pub points: Option<StoryPoints>,
    pub moscow: Option<Moscow>,
    pub severity: Option<Severity>,
    pub labels: BTreeSet<String>,
    pub location: Option<CodeLocation>,
    pub fingerprint: Option<Fingerprint>,
    pub external: Option<ExternalItem>,
    pub parent: Option<WorkItemId>,
    pub duplicate_of: Option<WorkItemId>,
    pub change: Option<OpenChange>,
    /// Whether a test that fails because of the bug was captured.
    pub is_captured: bool,
    /// Incremented when the user reopens the item, so that earlier attempts no longer count.
    pub round: u64,
    pub version: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

stored_enum! {
    /// Cause of a transition.
    TransitionCause {
        /// The user, through a command.
        Person = "person",
        /// A role of a pool.
        Role = "role",
        /// A deadline, a limit or another rule of a pool.
        Rule = "rule",
        /// The tracker of the item.
        Tracker = "tracker",
    }
}

/// One change of the state of an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StateTransition {
    pub item: WorkItemId,
    /// Position among the transitions of the item, from 1.
    pub number: u64,
    /// `None` for the creation.
    pub from: Option<WorkItemState>,
    pub to: WorkItemState,
    pub cause: TransitionCause,
    /// User, pool or source that caused it.
    pub by: String,
    pub reason: Option<String>,
    pub at: Timestamp,
}

/// An item for tests: a verified bug of the project `local/shop`.
#[cfg(test)]
pub(crate) fn work_item_sample() -> WorkItem {
    WorkItem {
        id: WorkItemId::generate(),
        project: "local/shop".to_owned(),
        kind: WorkItemKind::Bug,
        title: "two requests overwrite each other".to_owned(),
        body: String::new(),
        state: WorkItemState::Verified,
        state_since: Timestamp::default(),
        reason: None,
        resumes_to: None,
        priority: Priority::Medium,
        milestone: None,
        points: None,
        moscow: None,
        severity: None,
        labels: BTreeSet::new(),
        location: None,
        fingerprint: None,
        external: None,
        parent: None,
        duplicate_of: None,
        change: None,
        is_captured: false,
        round: 1,
        version: 1,
        created_at: Timestamp::default(),
        updated_at: Timestamp::default(),
    }
}
