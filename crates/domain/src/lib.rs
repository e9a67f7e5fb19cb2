//! The domain model of CleverAgents: its entities and their rules.
//!
//! Everything here is pure and synchronous: no file, no database, no environment. `cleveragents-store` stores the
//! entities, and `cleveragents-application` implements the operations on them.
//!
//! Main types: [`SessionId`] and its siblings, [`Name`], [`Session`], [`Message`], [`Changeset`], [`ChangeEntry`],
//! [`Lease`], [`Event`], [`ResourceType`], [`Resource`], [`Project`], [`Action`], [`Invariant`], and the error
//! vocabulary [`Code`], [`Kind`], [`Diagnose`], [`Hint`].

mod action;
mod audit;
mod automation;
mod builtin;
mod changeset;
mod confidence;
mod definition;
mod error;
mod event;
mod file_state;
mod hash;
mod hint;
mod id;
pub mod identity;
mod inheritance;
mod invariant;
mod invocation;
mod lease;
mod message;
mod name;
pub mod nearest;
mod plan;
mod pool;
mod project;
mod remote_agent;
mod resource;
mod resource_type;
mod run;
mod sandbox;
mod search;
mod session;
mod stored_enum;
mod strategy;
pub mod suggest;
mod task;
mod time;
mod tree_path;
mod turn;
mod usage;
mod validation;
mod work_item;
pub mod yaml;

pub use action::{
    Action, ActionActors, ActionArgument, ActionArgumentError, ActionArgumentType, ActionPart,
    ActionParts, ActionState, ActionValues, ArgumentProblem, PartBounds, PartDivision,
};
pub use audit::{AUDIT_BEGINNING, AuditEntry, NewAuditEntry, audit_kinds};
pub use automation::{
    AutomationGate, AutomationGuard, AutomationProfile, DEFAULT_PROFILE, DEFAULT_RETRIES,
    GateAction, GateGroup, Thresholds, is_threshold,
};
pub use changeset::{
    ChangeEntry, Changeset, ChangesetState, EntryNumber, NewChange, Operation, OperationError,
};
pub use confidence::{Confidence, ConfidenceInputs, Factor, FactorName};
pub use definition::{DefinitionFault, DefinitionFileError, DefinitionKind};
pub use error::{Code, Diagnose, Kind};
pub use event::{Event, EventKind, NewEvent, Position};
pub use file_state::{FileKind, FileMode, FileState};
pub use hash::{ContentHash, HashError};
pub use hint::{ArgumentValue, Hint, Placeholder, Suggestion};
pub use id::{
    AttachmentId, AttemptId, AuditEntryId, ChangesetId, DecisionId, IdError, InvariantId,
    MIN_PREFIX_LENGTH, MessageId, PlanId, ProcessId, ProjectId, RequestId, ResourceId, RunId,
    SandboxId, SessionId, TaskId, TokenId, ToolInvocationId, TrackerWriteId, TurnId, WorkItemId,
    check_prefix, shortest_prefix,
};
pub use inheritance::{InheritanceError, InheritedType, MAX_CHAIN, inherit};
pub use invariant::{
    Invariant, InvariantScope, InvariantTextError, ReconciledInvariants, ResolvedConflict,
    SourcedInvariant, reconcile,
};
pub use invocation::{InvocationOutcome, ToolInvocation};
pub use lease::{Lease, LeaseSubject, LeaseToken, Owner, Ttl, TtlError};
pub use message::{
    ContentError, DEFAULT_MAX_CONTENT_BYTES, Message, MessageState, Metadata, NewMessage, Role,
    RoleError, Sequence,
};
pub use name::{ActorName, Name, NameError};
pub use plan::{
    AnswerVerdict, ChildFailureMode, ChildPlan, ChildSettings, ChildState, ConflictResolution,
    ContextSnapshot, DEFAULT_MAX_PARALLEL, Decision, DecisionType, ExecutionMode, FailureCategory,
    LinkedPlan, MAX_PARALLEL_LIMIT, MergeReason, MergeStrategy, NewDecision, Plan, PlanActors,
    PlanInputs, PlanPhase, PlanProfile, PlanProject, PlanReport, PlanStage, PlanState, PlanStep,
    PlanStrategy, REVERSION_LIMIT, StageTransition, StepCall, StepKind, StepRecord, StepState,
    StoredConflict, StrategyFault, Waiting, criteria, list_items,
};
pub use pool::{
    CODE_TIER, ItemFacts, ItemQuery, NextAttempt, OutcomeRules, PastAttempt, PoolBudgets,
    PoolDefinition, PoolLimits, PoolRole, PoolShare, PoolState, Tier, TierRule,
};
pub use project::{Alias, Project, ProjectLink, ProjectPartError, ProjectRules};
pub use remote_agent::{AGENT_TOKEN_PREFIX, RemoteAgent, is_agent_token_variable};
pub use resource::{Boundary, Properties, Resource, ResourceName};
pub use resource_type::{
    Activation, Argument, ArgumentType, AutoDiscovery, Capabilities, ChildType, MAX_SCAN_DEPTH,
    RESERVED_ARGUMENTS, ResourceKind, ResourceType, TypeName, TypeRuleError,
};
pub use run::{Run, RunState};
pub use sandbox::{
    Checkpoint, CheckpointNumber, CheckpointReason, Sandbox, SandboxName, SandboxNameError,
    SandboxState,
};
pub use search::{
    FilterTooLong, MAX_FILTER_CHARACTERS, SearchQuery, SearchQueryError, Term, check_filter,
};
pub use session::{Session, SessionName, SessionNameError, Version};
pub use strategy::{SandboxStrategy, StrategyError};
pub use task::{TaskKind, TaskState};
pub use time::{Timestamp, TimestampError};
pub use tree_path::{TreePath, TreePathError};
pub use turn::{Turn, TurnState};
pub use usage::{MicroUsd, TokenUsage, Tokens};
pub use validation::{Attachment, ValidationMode, ValidationResult, ValidationScope};
pub use work_item::{
    Attempt, AttemptEvidence, AttemptOutcome, CodeLocation, ExternalItem, Finding, Fingerprint,
    GateResult, MAX_BODY_LENGTH, MAX_LABEL_LENGTH, MAX_TITLE_LENGTH, MERGE_CRITERIA_VERSION,
    MergeCriterion, MergeEvidence, MergeOutcome, Moscow, NewWorkItem, OpenChange, Priority,
    ReasonedValue, RegressionProof, RegressionRule, ReviewDecision, ReviewFinding, ReviewVerdict,
    Severity, Sighting, StateTransition, StoredReview, StoryPoints, StoryPointsError,
    TransitionCause, TriageDecision, TriageVerdict, WorkItem, WorkItemKind, WorkItemState,
    WorkItemTextError, checked_body, checked_labels, checked_title,
};
