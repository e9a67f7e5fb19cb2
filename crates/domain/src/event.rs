//! Domain events: what happened, in the order in which it became true.
//!
//! Events are stored by the unit of work that made them true, so there is none for work that was
//! rolled back and none is missing for work that was committed.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Timestamp;

/// The place of an event in the log. A reader that resumes after a position misses nothing.
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
    ($($(#[$doc:meta])* $variant:ident = $text:literal;)+) => {
        /// What kind of thing happened.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum EventKind { $($(#[$doc])* $variant,)+ }

        impl EventKind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The kind as stored and printed.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }
    };
}

kinds! {
    /// A session was made.
    SessionCreated = "session.created";
    /// A session got another name.
    SessionRenamed = "session.renamed";
    /// A session and its messages were removed.
    SessionDeleted = "session.deleted";
    /// A session was made from an export.
    SessionImported = "session.imported";
    /// A session was made from the beginning of another.
    SessionForked = "session.forked";
    /// A message was appended.
    MessageAppended = "session.message_appended";
    /// Tokens were used.
    UsageRecorded = "session.usage_recorded";
    /// A turn of a conversation began.
    TurnStarted = "session.turn_started";
    /// A turn of a conversation ended, with an answer or without.
    TurnEnded = "session.turn_ended";
    /// A tool is about to run.
    ToolInvoked = "tool.invoked";
    /// A tool has run.
    ToolFinished = "tool.finished";
    /// A call of a tool was refused.
    ToolRefused = "tool.refused";
    /// A custom tool was registered.
    ToolRegistered = "tool.registered";
    /// A custom tool was registered again.
    ToolUpdated = "tool.updated";
    /// A custom tool was removed.
    ToolRemoved = "tool.removed";
    /// A validation was tied to a resource.
    ValidationAttached = "validation.attached";
    /// A validation is no longer tied to a resource.
    ValidationDetached = "validation.detached";
    /// A validation judged a plan.
    ValidationJudged = "validation.judged";
    /// An actor, an action or another definition was registered.
    DefinitionRegistered = "definition.registered";
    /// An actor, an action or another definition was registered again.
    DefinitionUpdated = "definition.updated";
    /// An actor, an action or another definition was removed.
    DefinitionRemoved = "definition.removed";
    /// A definition was taken out of use.
    DefinitionArchived = "definition.archived";
    /// An archived definition was taken into use again.
    DefinitionUnarchived = "definition.unarchived";
    /// An invariant holds from now on.
    InvariantAdded = "invariant.added";
    /// An invariant does not hold any more.
    InvariantRemoved = "invariant.removed";
    /// A run of an actor began.
    RunStarted = "run.started";
    /// A run that was interrupted, or had failed, is gone on with.
    RunResumed = "run.resumed";
    /// A step of a run is finished.
    RunStepFinished = "run.step_finished";
    /// A run came to an end, or waits for a person.
    RunEnded = "run.ended";
    /// Somebody asked for the end of a run.
    RunCancelRequested = "run.cancel_requested";
    /// A person said "always" to a kind of call.
    PermissionGranted = "permission.granted";
    /// A remembered permission was taken back.
    PermissionRevoked = "permission.revoked";
    /// A budget stood in the way of a call.
    BudgetExhausted = "budget.exhausted";
    /// A plan was made.
    PlanCreated = "plan.created";
    /// A plan came into another phase.
    PlanPhaseChanged = "plan.phase_changed";
    /// A plan came into another state of its phase.
    PlanStateChanged = "plan.state_changed";
    /// Everything a plan did is in the real resources.
    PlanApplied = "plan.applied";
    /// A plan was given up.
    PlanCancelled = "plan.cancelled";
    /// A phase of a plan failed.
    PlanErrored = "plan.errored";
    /// A plan waits for a person.
    PlanWaiting = "plan.waiting";
    /// A person answered what a plan waited for.
    PlanAnswered = "plan.answered";
    /// A person told a plan something.
    PlanGuided = "plan.guided";
    /// A plan waits for a worker.
    PlanQueued = "plan.queued";
    /// Somebody asked for the end of a plan.
    PlanCancelRequested = "plan.cancel_requested";
    /// The strategy of a plan was changed by a person.
    PlanEdited = "plan.edited";
    /// A step of a plan was begun.
    PlanStepStarted = "plan.step_started";
    /// A step of a plan ended.
    PlanStepFinished = "plan.step_finished";
    /// A plan was taken back to an earlier state.
    PlanRolledBack = "plan.rolled_back";
    /// A rollback of a plan was taken back.
    PlanRedone = "plan.redone";
    /// What a plan will take was estimated.
    PlanEstimated = "plan.estimation_complete";
    /// A decision was made for a plan.
    DecisionCreated = "decision.created";
    /// Another decision took the place of one.
    DecisionSuperseded = "decision.superseded";
    /// The invariants of a plan were brought together.
    InvariantsReconciled = "invariant.reconciled";
    /// What a plan is about to do breaks an invariant.
    InvariantViolated = "invariant.violated";
    /// A validation passed.
    ValidationPassed = "validation.passed";
    /// A validation failed.
    ValidationFailed = "validation.failed";
    /// A changeset was opened.
    ChangesetOpened = "changeset.opened";
    /// A changeset was closed.
    ChangesetClosed = "changeset.closed";
    /// A sandbox is being made.
    SandboxCreating = "sandbox.creating";
    /// A sandbox is there to be worked in.
    SandboxCreated = "sandbox.created";
    /// A checkpoint of a sandbox was made.
    CheckpointCreated = "sandbox.checkpoint_created";
    /// A checkpoint of a sandbox was removed.
    CheckpointDeleted = "sandbox.checkpoint_deleted";
    /// A sandbox went back, or forward again, to an earlier state.
    SandboxRolledBack = "sandbox.rolled_back";
    /// What a sandbox changed is being carried to the real resources.
    SandboxApplying = "sandbox.applying";
    /// What a sandbox changed is in the real resources, all of it.
    SandboxApplied = "sandbox.applied";
    /// An apply was taken back; the real resources are as before.
    ApplyUndone = "sandbox.apply_undone";
    /// A sandbox was thrown away.
    SandboxDiscarded = "sandbox.discarded";
    /// A lease was given.
    LeaseAcquired = "lease.acquired";
    /// A lease was taken from an owner that was dead or late.
    LeaseTakenOver = "lease.taken_over";
    /// A lease was given back.
    LeaseReleased = "lease.released";
    /// A resource type was registered.
    ResourceTypeRegistered = "resource_type.registered";
    /// A resource type was registered again with another definition.
    ResourceTypeUpdated = "resource_type.updated";
    /// A resource type was removed.
    ResourceTypeRemoved = "resource_type.removed";
    /// A resource was registered by a person.
    ResourceRegistered = "resource.registered";
    /// A resource was found below another.
    ResourceDiscovered = "resource.discovered";
    /// A resource was registered again with other facts.
    ResourceUpdated = "resource.updated";
    /// A resource was removed.
    ResourceRemoved = "resource.removed";
    /// A resource was put below another.
    ResourceLinked = "resource.linked";
    /// A resource was taken away from below another.
    ResourceUnlinked = "resource.unlinked";
    /// A project was made.
    ProjectCreated = "project.created";
    /// A project was removed.
    ProjectDeleted = "project.deleted";
    /// A resource was linked to a project.
    ProjectResourceLinked = "project.resource_linked";
    /// A resource was taken out of a project.
    ProjectResourceUnlinked = "project.resource_unlinked";
    /// A token was made.
    TokenCreated = "token.created";
    /// A token was revoked.
    TokenRevoked = "token.revoked";
    /// What another agent or program asked for was taken on.
    TaskCreated = "task.created";
    /// A task came into another state.
    TaskStateChanged = "task.state_changed";
    /// A result of a task is there.
    TaskArtifact = "task.artifact_added";
    /// Somebody who wanted to be told of a task could not be told.
    TaskPushFailed = "task.push_failed";
    /// Old rows were removed.
    CleanupRan = "cleanup.ran";
}

impl EventKind {
    /// What the audit calls it; `None` for what it does not keep.
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
            _ => return None,
        })
    }

    /// Reads the stored form.
    pub fn from_stored(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == text)
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// An event that has no place in the log yet.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// What happened.
    pub kind: EventKind,
    /// The id of what it happened to.
    pub subject: String,
    /// Facts for readers.
    pub payload: Value,
}

/// A stored event.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Its place in the log.
    pub position: Position,
    /// What happened.
    pub kind: EventKind,
    /// The id of what it happened to.
    pub subject: String,
    /// Facts for readers.
    pub payload: Value,
    /// When.
    pub occurred_at: Timestamp,
}
