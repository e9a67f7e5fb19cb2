//! Domain events, in the order in which they were committed.
//!
//! The unit of work that causes an event stores it. Work that was rolled back therefore leaves no event, and committed
//! work has all of its events.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Timestamp;

/// Position of an event in the log. A reader that resumes after a position misses nothing.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(transparent)]
pub struct Position(pub u64);

macro_rules! kinds {
    ($(#[doc = $description:literal] $variant:ident = $text:literal;)+) => {
        /// Kind of an event.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum EventKind { $(#[doc = $description] $variant,)+ }

        impl EventKind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Stored and printed name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// Description of the event in one sentence, for the reference.
            pub const fn description(self) -> &'static str {
                match self { $(Self::$variant => $description.trim_ascii(),)+ }
            }
        }
    };
}

kinds! {
    /// A session was created.
    SessionCreated = "session.created";
    /// A session was renamed.
    SessionRenamed = "session.renamed";
    /// A session and its messages were deleted.
    SessionDeleted = "session.deleted";
    /// A session was imported from an export.
    SessionImported = "session.imported";
    /// A session was forked from the beginning of another.
    SessionForked = "session.forked";
    /// A message was appended.
    MessageAppended = "session.message_appended";
    /// Token usage was recorded.
    UsageRecorded = "session.usage_recorded";
    /// A turn of a conversation started.
    TurnStarted = "session.turn_started";
    /// A turn of a conversation ended, with or without an answer.
    TurnEnded = "session.turn_ended";
    /// A tool is about to run.
    ToolInvoked = "tool.invoked";
    /// A tool has run.
    ToolFinished = "tool.finished";
    /// A tool call was refused.
    ToolRefused = "tool.refused";
    /// A custom tool was registered.
    ToolRegistered = "tool.registered";
    /// A custom tool was replaced.
    ToolUpdated = "tool.updated";
    /// A custom tool was removed.
    ToolRemoved = "tool.removed";
    /// A validation was attached to a resource.
    ValidationAttached = "validation.attached";
    /// A validation was detached from a resource.
    ValidationDetached = "validation.detached";
    /// A validation ran on a plan.
    ValidationJudged = "validation.judged";
    /// An actor, an action or another definition was registered.
    DefinitionRegistered = "definition.registered";
    /// An actor, an action or another definition was replaced.
    DefinitionUpdated = "definition.updated";
    /// An actor, an action or another definition was removed.
    DefinitionRemoved = "definition.removed";
    /// A definition was archived.
    DefinitionArchived = "definition.archived";
    /// An archived definition was restored.
    DefinitionUnarchived = "definition.unarchived";
    /// An invariant was added.
    InvariantAdded = "invariant.added";
    /// An invariant was removed.
    InvariantRemoved = "invariant.removed";
    /// A run of an actor started.
    RunStarted = "run.started";
    /// An interrupted or failed run was resumed.
    RunResumed = "run.resumed";
    /// A step of a run finished.
    RunStepFinished = "run.step_finished";
    /// A run ended, or waits for the user.
    RunEnded = "run.ended";
    /// Cancellation of a run was requested.
    RunCancelRequested = "run.cancel_requested";
    /// A user allowed a kind of call permanently.
    PermissionGranted = "permission.granted";
    /// A stored permission was revoked.
    PermissionRevoked = "permission.revoked";
    /// A call was refused because of a budget.
    BudgetExhausted = "budget.exhausted";
    /// A plan was created.
    PlanCreated = "plan.created";
    /// A plan entered another phase.
    PlanPhaseChanged = "plan.phase_changed";
    /// A plan entered another state of its phase.
    PlanStateChanged = "plan.state_changed";
    /// All changes of a plan were applied to the real resources.
    PlanApplied = "plan.applied";
    /// A plan was cancelled.
    PlanCancelled = "plan.cancelled";
    /// A phase of a plan failed.
    PlanErrored = "plan.errored";
    /// A plan waits for the user.
    PlanWaiting = "plan.waiting";
    /// The user answered what a plan waited for.
    PlanAnswered = "plan.answered";
    /// The user gave guidance to a plan.
    PlanGuided = "plan.guided";
    /// A plan was queued for a worker.
    PlanQueued = "plan.queued";
    /// Cancellation of a plan was requested.
    PlanCancelRequested = "plan.cancel_requested";
    /// The user edited the strategy of a plan.
    PlanEdited = "plan.edited";
    /// A step of a plan started.
    PlanStepStarted = "plan.step_started";
    /// A step of a plan ended.
    PlanStepFinished = "plan.step_finished";
    /// A plan was rolled back to an earlier state.
    PlanRolledBack = "plan.rolled_back";
    /// A rollback of a plan was undone.
    PlanRedone = "plan.redone";
    /// The apply of a plan was undone by a commit.
    PlanApplyReverted = "plan.apply_reverted";
    /// Effort and cost of a plan were estimated.
    PlanEstimated = "plan.estimation_complete";
    /// A decision was made for a plan.
    DecisionCreated = "decision.created";
    /// A decision was replaced by another one.
    DecisionSuperseded = "decision.superseded";
    /// The invariants of a plan were reconciled.
    InvariantsReconciled = "invariant.reconciled";
    /// A plan is about to violate an invariant.
    InvariantViolated = "invariant.violated";
    /// A validation passed.
    ValidationPassed = "validation.passed";
    /// A validation failed.
    ValidationFailed = "validation.failed";
    /// A changeset was opened.
    ChangesetOpened = "changeset.opened";
    /// A changeset was closed.
    ChangesetClosed = "changeset.closed";
    /// A sandbox is being created.
    SandboxCreating = "sandbox.creating";
    /// A sandbox is ready for use.
    SandboxCreated = "sandbox.created";
    /// A checkpoint of a sandbox was created.
    CheckpointCreated = "sandbox.checkpoint_created";
    /// A checkpoint of a sandbox was deleted.
    CheckpointDeleted = "sandbox.checkpoint_deleted";
    /// A sandbox was rolled back, or a rollback of it was undone.
    SandboxRolledBack = "sandbox.rolled_back";
    /// The changes of a sandbox are being applied.
    SandboxApplying = "sandbox.applying";
    /// All changes of a sandbox were applied to the real resources.
    SandboxApplied = "sandbox.applied";
    /// An apply was undone; the real resources are as before.
    ApplyUndone = "sandbox.apply_undone";
    /// A sandbox was discarded.
    SandboxDiscarded = "sandbox.discarded";
    /// A lease was acquired.
    LeaseAcquired = "lease.acquired";
    /// A lease was taken over from an owner whose process was dead or whose lease had expired.
    LeaseTakenOver = "lease.taken_over";
    /// A lease was released.
    LeaseReleased = "lease.released";
    /// A resource type was registered.
    ResourceTypeRegistered = "resource_type.registered";
    /// A resource type was replaced.
    ResourceTypeUpdated = "resource_type.updated";
    /// A resource type was removed.
    ResourceTypeRemoved = "resource_type.removed";
    /// A user registered a resource.
    ResourceRegistered = "resource.registered";
    /// Discovery found a resource below another.
    ResourceDiscovered = "resource.discovered";
    /// A resource was updated.
    ResourceUpdated = "resource.updated";
    /// A resource was removed.
    ResourceRemoved = "resource.removed";
    /// A resource was linked to a parent.
    ResourceLinked = "resource.linked";
    /// A resource was unlinked from a parent.
    ResourceUnlinked = "resource.unlinked";
    /// A project was created.
    ProjectCreated = "project.created";
    /// A project was deleted.
    ProjectDeleted = "project.deleted";
    /// A resource was linked to a project.
    ProjectResourceLinked = "project.resource_linked";
    /// A resource was unlinked from a project.
    ProjectResourceUnlinked = "project.resource_unlinked";
    /// A token was created.
    TokenCreated = "token.created";
    /// A token was revoked.
    TokenRevoked = "token.revoked";
    /// A task of another agent or program was accepted.
    TaskCreated = "task.created";
    /// A task changed its state.
    TaskStateChanged = "task.state_changed";
    /// An artifact of a task was added or changed.
    TaskArtifact = "task.artifact_added";
    /// An update of a task could not be delivered to a subscriber.
    TaskPushFailed = "task.push_failed";
    /// A work item was created.
    WorkItemCreated = "work_item.created";
    /// Fields, links or dependencies of a work item changed.
    WorkItemChanged = "work_item.changed";
    /// A work item entered another state.
    WorkItemStateChanged = "work_item.state_changed";
    /// A known defect was reported again.
    WorkItemSighted = "work_item.sighted";
    /// A pool started an attempt on a work item.
    AttemptStarted = "attempt.started";
    /// An attempt on a work item ended.
    AttemptFinished = "attempt.finished";
    /// A change of a work item was reviewed.
    WorkItemReviewed = "work_item.reviewed";
    /// A pool was started, paused, drained or stopped.
    PoolStateChanged = "pool.state_changed";
    /// The base of a project changed between passing and failing its gates.
    ProjectBaseChanged = "project.base_changed";
    /// A pool found an anomaly.
    PoolAlertRaised = "pool.alert_raised";
    /// An anomaly of a pool ended.
    PoolAlertResolved = "pool.alert_resolved";
    /// A cleanup removed old rows.
    CleanupRan = "cleanup.ran";
}

impl EventKind {
    /// Kind of the audit entry; `None` for events that are not audited.
    pub const fn audited(self) -> Option<&'static str> {
        Some(match self {
            Self::PlanCreated => "plan_created",
            Self::PlanPhaseChanged => "plan_phase_changed",
            Self::PlanErrored => "plan_errored",
            Self::PlanEdited => "plan_edited",
            Self::PlanGuided => "plan_guided",
            Self::DecisionCreated => "decision_created",
            Self::ToolInvoked => "tool_invoked",
            Self::ToolRefused => "tool_refused",
            Self::PlanApplied => "plan_applied",
            Self::PlanCancelled => "plan_cancelled",
            Self::PlanAnswered => "plan_answered",
            Self::PlanRolledBack | Self::PlanRedone => "plan_rolled_back",
            Self::PlanApplyReverted => "plan_apply_reverted",
            Self::SandboxApplied => "resource_modified",
            Self::SessionCreated | Self::SessionImported | Self::SessionForked => "session_created",
            Self::SessionDeleted
            | Self::ToolRemoved
            | Self::DefinitionRemoved
            | Self::InvariantRemoved
            | Self::ResourceRemoved
            | Self::ResourceTypeRemoved
            | Self::ProjectDeleted => "entity_deleted",
            Self::PermissionGranted => "permission_granted",
            Self::PermissionRevoked => "permission_revoked",
            Self::TokenCreated => "token_created",
            Self::TokenRevoked => "token_revoked",
            Self::WorkItemStateChanged => "work_item_state_changed",
            Self::AttemptFinished => "attempt_finished",
            Self::PoolStateChanged => "pool_state_changed",
            _ => return None,
        })
    }

    /// Parses the stored name.
    pub fn from_stored(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == text)
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// An event that is not stored yet.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    pub kind: EventKind,
    /// Id of the affected entity.
    pub subject: String,
    /// Facts for readers.
    pub payload: Value,
}

/// A stored event.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Position in the log.
    pub position: Position,
    pub kind: EventKind,
    /// Id of the affected entity.
    pub subject: String,
    /// Facts for readers.
    pub payload: Value,
    /// Time of the event.
    pub occurred_at: Timestamp,
}
