//! The services every front end calls. A rule that matters is enforced here or below, never in a
//! front end.
//!
//! [`SessionService`] keeps conversations, [`PlanExecutionContext`] records what a plan run changes,
//! [`PlanBook`] looks up plans,
//! [`TaskService`] keeps what other agents ask for over A2A,
//! [`LeaseService`] gives one owner at a time the right to work on something, [`ResourceService`] and
//! [`ProjectService`] keep what plans work on, [`SandboxService`] the copies in which they do,
//! [`ActionService`] and [`InvariantService`] what plans are made from and must keep true,
//! [`ToolService`] what may be called in them, [`SkillService`] what belongs together of that, [`TurnService`] answers questions with all of it.

mod action;
mod actor;
mod answer_json;
mod automation;
mod event;
mod invariant;
mod lease;
mod log_fields;
mod mcp;
pub mod model_operations;
mod operation;
mod plan;
mod process;
mod project;
mod resource;
mod run;
mod runtime;
mod sandbox;
mod scheduler;
mod server;
mod services;
mod session;
mod skill;
mod sync;
mod task;
mod text_file;
mod tool;
mod turn;
mod unknown_outcome;
mod usage;
mod validation;
mod watch;

pub use action::operations as action_operations;
pub use action::{
    ActionError, ActionFileError, ActionFilter, ActionService, AddedAction, RegisteredAction,
};
pub use actor::operations as actor_operations;
pub use actor::{
    ActorError, ActorService, ActorText, ActorWorld, AddedActor, Bundle, ContextService,
    ContextServiceError, ExportedContext, ExportedMessage, FoundActor, IsModel, RegisteredActor,
    Supplies, read_context,
};
pub use automation::operations as automation_operations;
pub use automation::{
    AddedProfile, AutomationError, AutomationService, RegisteredProfile, automation_profile_schema,
};
/// The handle of an open database, from which services are made.
pub use cleveragents_store::Engine;
/// Why the database failed.
pub use cleveragents_store::Error as StoreError;
/// Types of the stored rows that services take and return.
pub use cleveragents_store::{
    plans::ListedPlan,
    request_keys::{KeyClaim, RequestKey},
    search::{Hit as SearchHit, Scope as SearchScope},
    sessions::{Expect as ExpectedVersion, SessionFilter},
    tokens::Token,
    usage_metrics::{Durations, RANGES as DURATION_RANGES, UsageMetrics},
};
pub use event::{EventScope, EventService};
pub use invariant::operations as invariant_operations;
pub use invariant::{
    ActionRules, EffectiveQuery, InvariantError, InvariantQuery, InvariantService, InvariantTarget,
    NewInvariant,
};
pub use lease::{Fence, HeldLease, LeaseError, LeaseService, WorkGuard};
pub use mcp::{AddedServer, McpService, McpServiceError, RegisteredServer, hide_secrets};
pub use operation::{
    Application, NamedKind, Operation, OperationContext, OperationEntry, OperationError,
    OperationSettings, Prepared, PreparedCall, ProgressStarter, Requirement, Resolver, Touched,
    WorkerStarter, authorize, check_sendable, find_operation, namespace_of, operations,
};
pub use operation::{CatalogueFactory, PageSummary, ProcessEnvironment, RemovedDefinition};
pub use plan::operations as plan_operations;
pub use plan::{
    Alternative, BookError, ChangeStatus, CorrectionImpact, DecisionNode, DecisionTree,
    Explanation, FileChange, Hunk, Impact, PhaseProgress, PlanBook, PlanCandidate, PlanChanges,
    PlanGuard, PlanQuery, PlanStatus, PlanTrouble, ProgressState, Spent, TreeOptions, TreeSummary,
    Trouble, TroubleKind, checkpoint_name, told, waiting_commands,
};
pub use plan::{CheckpointTrigger, SandboxCleanup, SandboxPolicy};
pub use plan::{
    ContextError, DETERMINISTIC, DefaultActors, DriveOptions, ESTIMATOR, EXECUTOR, FailedCheck,
    KeptVariables, OpenChangeset, PROMPTS, PlanDefaults, PlanError, PlanExecutionContext,
    PlanFrontEnd, PlanLookup, PlanQueue, PlanRollbackPreview, PlanRolledBack, PlanService,
    PlanWatcher, Queued, REVIEWER, SERVER_LEASE, STRATEGIST, Served, UseAction, built_in_actors,
    calling_actor,
};
pub use process::{Liveness, current_owner, liveness};
pub use project::operations as project_operations;
pub use project::{LinkRequest, NewProject, ProjectError, ProjectService, ProjectTarget};
pub use resource::operations as resource_operations;
pub use resource::{
    GitProbe, GitProblem, GitState, Holder, Inspection, NewResource, Outcome, Presence, Register,
    Registered, RegisteredType, ResourceDetails, ResourceError, ResourceFilter, ResourceService,
    TreeNode, TypeRegistry, git_probe, resource_type_schema,
};
pub use run::operations as run_operations;
pub use run::{
    GivenAnswer, ModelSource, OpenQuestion, RunContext, RunReport, RunService, RunServiceError,
    RunStart, RunView, RunWatcher, StepView, StoppedRun, ToolSources, Unheard, UnknownOutcome,
    run_namespace,
};
pub use runtime::{
    ActorRunOptions, ActorRunReport, ActorRunRequest, ActorRunner, AgentRequest, AgentRuntime,
    ConnectedTools, Conversation, ConversationAnswer, ConversationOptions, ConversationTurn,
    EffectiveSafety, RememberingApprover, RunFrontEnd, RunPlace, RuntimeOptions, SafetyLayer,
    SafetySelection, ToolCallRequest, ToolRequirements, Toolset, ToolsetOptions, WarningHandler,
    agents_of, answer_text, find_safety_profile, for_each_node, mcp_server_homes,
    mcp_server_options, parse_usd, session_mode,
};
pub use sandbox::{
    Applied, ApplyRequest, CaptureReport, Doer, ExecReport, ExecRequest, MemberChanges,
    OpenSandbox, QueryReport, QueryRequest, Recording, Recovered, RollbackTarget, RolledBack,
    SandboxDiff, SandboxError, SandboxService, SandboxView, Target,
};
pub use scheduler::{
    APPLICABLE_STAGES, EXECUTABLE_STAGES, Scheduler, Worker, WorkerEvent, WorkerOptions,
    WorkerSummary, phase_to_execute, phase_to_resume,
};
pub use server::{
    AuditCheck, AuditError, AuditService, MadeToken, NewToken, RequestKeyService,
    Secret as TokenSecret, TokenError, TokenService, UsageService,
};
pub use services::Services;
pub use session::operations as session_operations;
pub use session::{
    Answer, AppendOutcome, AppendRequest, AppendResponder, BatchAppender, EXPORT_SCHEMA,
    ExportSummary, Failure, ImportCheck, ImportSummary, Question, SessionError, SessionService,
    SessionView, Stored,
};
pub use skill::operations as skill_operations;
pub use skill::{
    AddedSkill, Equipped, KnownSkill, Refreshed, SkillError, SkillOrigin, SkillService,
    SkillSource, SkillUser,
};
pub use task::{
    ArtifactChunk, CreatedTask, NewTask, PendingPush, PushDelivery, PushFailure, Snapshot,
    TaskError, TaskFilter, TaskPage, TaskRecord, TaskReply, TaskService, TaskView, TurnStart,
    agent_message, plan_of_task, prompt_text, task_options,
};
pub use text_file::{MAX_TEXT_FILE_BYTES, read_text, read_text_file};
pub use tool::operations as tool_operations;
pub use tool::{
    AddedTool, Callable, Excerpt, LeftOut, RegisteredTool, SandboxWorkspace, SpendScope,
    StoreBudget, StoreLedger, ToolError, ToolService,
};
pub use turn::{
    Ending, Interrupted, NoObserver, TakenSession, TurnAllowance, TurnError, TurnObserver,
    TurnReport, TurnRequest, TurnService, TurnSettings, TurnTools, Unlimited, Waiting,
    instructions, project_instructions,
};
pub use validation::operations as validation_operations;
pub use validation::{
    AddedValidation, AttachRequest, AttachmentQuery, AttachmentView, CommandCheck, CommandLine,
    InEffect, Judgement, Keys, RegisteredValidation, Validation, ValidationCheck, ValidationError,
    ValidationRunner, ValidationService, WrappedCheck, WrappedTool, validation_schema,
};
