//! The services that every front end calls. Business rules are enforced here or below, never in a
//! front end.
//!
//! - Conversations: [`SessionService`] stores them, and [`TurnService`] answers questions in them.
//! - Plans: [`PlanService`] creates, changes and runs them, [`PlanQueries`] reads them, and
//!   [`PlanExecutionContext`] records the changes of a run.
//! - Inputs of plans: [`ActionService`] manages templates, [`InvariantService`] rules,
//!   [`ResourceService`] and [`ProjectService`] the resources that plans work on, [`ToolService`]
//!   and [`SkillService`] tools.
//! - [`SandboxService`] manages the copies of resources in which changes are made.
//! - [`TaskService`] stores tasks that other agents send over A2A.
//! - [`LeaseService`] gives one process at a time the right to work on an object.

mod action;
mod actor;
mod answer_json;
mod automation;
mod change_request;
mod count;
mod definition;
mod environment;
mod event;
mod forge;
mod invariant;
mod lease;
mod log_fields;
mod mcp;
pub mod model_operations;
mod observer;
mod operation;
mod plan;
mod pool;
mod process;
mod project;
mod reference;
mod resource;
mod run;
mod runtime;
mod sandbox;
mod scheduler;
mod server;
mod services;
mod session;
mod skill;
mod stop_request;
mod sync;
mod system;
mod task;
mod text_file;
mod tool;
mod tracker;
mod turn;
mod unknown_outcome;
mod usage;
mod validation;
mod work_item;

pub use action::operations as action_operations;
pub use action::{ActionFilter, ActionService, RegisteredAction};
pub use actor::operations as actor_operations;
pub use actor::{
    ActorBundle, ActorService, ActorText, ActorWorld, ContextMessage, ContextService,
    ContextServiceError, ExportedContext, FoundActor, IsModel, ReferableNames, read_context,
};
pub use automation::operations as automation_operations;
pub use automation::{AutomationService, Mode};
pub use change_request::{
    ChangeRequestError, ChangeRequestService, ChangeRequestTarget, PublishedBranch,
};
/// The handle of an open database, from which services are created.
pub use cleveragents_store::Engine;
/// An error of the database.
pub use cleveragents_store::Error as StoreError;
/// Types of the stored rows that services take and return.
pub use cleveragents_store::{
    plans::ListedPlan,
    request_keys::{KeyClaim, RequestKey},
    search::{Hit as SearchHit, Scope as SearchScope},
    sessions::{ExpectedVersion, SessionFilter},
    tokens::Token,
    usage_metrics::{BUCKET_BOUNDS as DURATION_BUCKET_BOUNDS, Durations, UsageMetrics},
};
pub use count::counted;
pub use definition::{
    AddedDefinition, DefinitionError, DefinitionService, DefinitionText, DefinitionType,
    RegisteredDefinition, definition_schema,
};
pub use event::{EventScope, EventService};
pub use invariant::operations as invariant_operations;
pub use invariant::{
    ActionRules, EffectiveQuery, InvariantError, InvariantQuery, InvariantService, InvariantTarget,
    NewInvariant,
};
pub use lease::{FencingToken, HeldLease, LeaseError, LeaseService, WorkGuard};
pub use mcp::{McpService, McpServiceError, hide_secrets};
pub use observer::{AgentEvent, NoApprover, NoObserver, Observer, ToolCallStatus};
pub use operation::{
    AccessTarget, Application, FrontEnd, NamedKind, Operation, OperationContext, OperationEntry,
    OperationError, OperationSettings, PlanSettings, PreparedCall, PreparedRequest,
    ProgressStarter, Requirement, Resolver, WorkerStarter, authorize, check_sendable,
    find_operation, forbidden, namespace_of, operations, record_denial,
};
pub use operation::{
    CatalogueFactory, PageSummary, ProcessEnvironment, RemovedDefinition, RuntimeFactory,
    RuntimeRequest,
};
pub use plan::operations as plan_operations;
pub use plan::{AddedPart, ConflictChoice, ConflictSelection, PlanPartAdded, ResolvedConflicts};
pub use plan::{
    AffectedCall, AffectedChild, AffectedDecision, AffectedStep, ContextError, CorrectionAttempt,
    CorrectionMode, CorrectionPreview, DETERMINISTIC, DefaultActors, DriveOptions, ESTIMATOR,
    EXECUTOR, FailedCheck, KeptVariables, OpenChangeset, PROMPTS, PlanCorrected, PlanDefaults,
    PlanError, PlanExecutionContext, PlanFrontEnd, PlanLookup, PlanQueue, PlanRollbackPreview,
    PlanRolledBack, PlanService, QueueEntry, REVIEWER, SERVER_LEASE, STRATEGIST, ServerClaim,
    UseAction, built_in_actors, calling_actor, one_off_action,
};
pub use plan::{
    Alternative, AppliedCommit, ChangeStatus, CorrectionImpact, DecisionNode, DecisionTree,
    Explanation, FileChange, Hunk, Impact, LimitUsage, PhaseProgress, PlanCandidate, PlanChanges,
    PlanFailure, PlanFailureKind, PlanFailures, PlanGuard, PlanListQuery, PlanQueries,
    PlanQueryError, PlanStatus, ProgressState, TreeOptions, TreeSummary, UndoneApply,
    checkpoint_name, describe_event,
};
pub use plan::{ApplyGuard, CheckpointTrigger, SandboxCleanup, SandboxPolicy};
pub use pool::operations as pool_operations;
pub use pool::roles::operations as pool_role_operations;
pub use pool::{
    Dispatch, DispatchPlan, Escalation, PlannedDispatch, PoolDefinitions, PoolEvent, PoolReading,
    PoolRunSummary, PoolService, PoolSnapshot, PoolView, Reconciler, ReconcilerOptions,
    RoleFailure, RoleReport, RoleRunner, RunningAttempt, StoredAttemptResult, WaitReason,
    item_lease, plan_dispatches, record_base, require_may_apply,
};
pub use pool::{PlanRoleRunner, PoolActors, READY_MADE_POOLS, ReadyMadePool, RuntimeSource};
pub use process::{Liveness, current_owner, liveness};
pub use project::operations as project_operations;
pub use project::{LinkRequest, NewProject, ProjectError, ProjectService, ProjectTarget};
pub use resource::operations as resource_operations;
pub use resource::{
    GitProbe, GitProblem, GitState, Inspection, NewResource, Outcome, Presence, Register,
    RegisteredResource, RegisteredType, ResourceDetails, ResourceError, ResourceFilter,
    ResourceService, ResourceTreeNode, ResourceUser, TypeRegistry, git_probe, resource_type_schema,
};
pub use run::operations as run_operations;
pub use run::{
    GivenAnswer, ModelSource, OpenQuestion, RunContext, RunReport, RunService, RunServiceError,
    RunStart, RunView, StepView, StoppedRun, ToolSources, UnknownOutcome, run_namespace,
};
pub use runtime::{
    ActorRunOptions, ActorRunReport, ActorRunRequest, ActorRunner, AgentRequest, AgentRuntime,
    ConnectedTools, Conversation, ConversationAnswer, ConversationCompaction, ConversationOptions,
    ConversationTurn, EffectiveSafety, RememberingApprover, RunFrontEnd, RunPlace, RuntimeOptions,
    SafetyLayer, SafetySelection, ToolCallRequest, ToolRequirements, Toolset, ToolsetOptions,
    WarningHandler, agents_of, answer_text, find_safety_profile, for_each_node, mcp_server_homes,
    mcp_server_options, parse_usd, session_mode,
};
pub use sandbox::{
    ApplyRequest, ApplyResult, CacheTotal, CaptureReport, ChangeAuthor, ComputedMerge, DiskUsage,
    ExecReport, ExecRequest, ForkToMerge, IDLE_SANDBOX_HOURS, IdleSandbox, MemberChanges,
    OpenSandbox, PendingChanges, QueryReport, QueryRequest, Recording, RecoveredOperation,
    RollbackTarget, RolledBack, SandboxDiff, SandboxError, SandboxService, SandboxView,
    SourceChanges, Target,
};
pub use scheduler::{
    APPLICABLE_STAGES, EXECUTABLE_STAGES, Scheduler, Worker, WorkerEvent, WorkerOptions,
    WorkerSummary, phase_to_execute, phase_to_resume, stays_queued,
};
pub use server::{
    AuditCheck, AuditError, AuditService, CreatedToken, NewToken, RequestKeyService,
    Secret as TokenSecret, TokenError, TokenService, UsageService,
};
pub use services::Services;
pub use session::operations as session_operations;
pub use session::{
    Answer, AppendOutcome, AppendRequest, AppendResponder, BatchAppender, EXPORT_SCHEMA,
    ExportSummary, Failure, ImportCheck, ImportSummary, Question, SessionError, SessionOverview,
    SessionService, SessionView, StoredMessage, without_data_tags,
};
pub use skill::operations as skill_operations;
pub use skill::{
    AddedSkill, KnownSkill, RefreshReport, SkillError, SkillOrigin, SkillReading, SkillService,
    SkillSource, SkillTools,
};
pub use system::operations as system_operations;
pub use system::{
    CheckSeverity, DiagnosticCheck, DiagnosticRepair, DiagnosticSummary, DiagnosticsReport,
    check_confinement, check_database, check_database_file, check_disk, check_git, check_home,
    check_sqlite,
};
pub use task::{
    ArtifactChunk, CreatedTask, MessageActor, MessageOutcome, MessageTurn, NewTask, PendingPush,
    PushDelivery, PushFailure, Snapshot, TaskError, TaskFilter, TaskPage, TaskRecord, TaskReply,
    TaskService, TaskView, TurnStart, agent_message, plan_of_task, prompt_text, task_options,
};
pub use text_file::{MAX_TEXT_FILE_BYTES, read_text, read_text_file};
pub use tool::operations as tool_operations;
pub use tool::{
    CallableTools, Excerpt, LeftOut, ProjectRule, ProjectRules, SandboxWorkspace, SpendScope,
    StoreBudget, StoreLedger, ToolError, ToolService, call_status, called_tool, complete_rule,
    files_changed,
};
pub use tracker::operations as tracker_operations;
pub use tracker::{
    AccessProblem, DeliverySummary, ExternalId, FieldChanges, ForgejoTracker, GitHubTracker,
    IdempotencyKey, LabelMapping, MappedFields, MarkdownTracker, NewIssue, SyncError, SyncReport,
    Tracker, TrackerAccess, TrackerEffect, TrackerError, TrackerIssue, TrackerKind, TrackerListing,
    Trackers, WriteAttempt, WrittenComment, WrittenIssue, access_problems, deliver_outbox,
    mirror_comment, mirror_fields, mirror_item, mirror_status, self_approval_problem, sync_source,
};
pub use turn::{
    CompactionReport, Ending, InterruptedTurnSummary, LockedSession, PromptImage, ReportTool,
    ReportTools, TextAnswer, TurnAllowance, TurnError, TurnReport, TurnRequest, TurnService,
    TurnSettings, TurnTools, UnlimitedAllowance, Waiting, instructions, project_instructions,
    prompt_images,
};
pub use validation::operations as validation_operations;
pub use validation::{
    AttachRequest, AttachmentQuery, AttachmentView, CommandCheck, CommandLine, EffectiveValidation,
    SecretValues, Validation, ValidationCheck, ValidationError, ValidationOutcome,
    ValidationRunner, ValidationService, WrappedCheck, WrappedTool,
};
pub use work_item::operations as work_item_operations;
pub use work_item::{WorkItemDetails, WorkItemEdit, WorkItemError, WorkItemService};
