//! [`PlanService`]: the plans of a database, for front ends. It connects the parts of this module:
//! creation, control, rollback, and the runner with its phases.

use std::sync::Arc;

use cleveragents_domain::{
    MicroUsd, NewDecision, Placeholder, Plan, PlanId, PlanPhase, hint, suggest,
};
use cleveragents_sandbox::BranchUpdate;
use cleveragents_store::{Engine, plans};

use super::actor_runner::PlanActorRunner;
use super::apply::ApplyPhase;
use super::control::{PlanControl, QueueEntry};
use super::create::PlanCreation;
use super::error::PlanError;
use super::execute::ExecutePhase;
use super::front_end::PlanFrontEnd;
use super::gates::AutomationGates;
use super::plan_store::PlanStore;
use super::policy::SandboxPolicy;
use super::progress::PlanProgress;
use super::requirements::PlanRequirements;
use super::rollback::{PlanRollback, PlanRollbackPreview, PlanRolledBack};
use super::runner::PlanRunner;
use super::snapshot::DecisionSnapshots;
use super::strategize::StrategizePhase;
use super::validate::ValidatePhase;
use super::workspace::PlanWorkspaces;
use crate::action::ActionService;
use crate::automation::AutomationService;
use crate::project::ProjectService;
use crate::run::{RunService, UnknownOutcome};
use crate::runtime::AgentRuntime;
use crate::sandbox::SandboxService;
use crate::session::SessionService;
use crate::watch::Watch;

/// Environment variables that definitions refer to.
pub(super) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The defaults of plans whose request and action name no other.
#[derive(Debug, Clone, Default)]
pub struct PlanDefaults {
    /// The automation profile.
    pub profile: String,
    pub actors: DefaultActors,
}

/// Actors by role, as a configuration or a request names them.
#[derive(Debug, Clone, Default)]
pub struct DefaultActors {
    /// Makes strategies.
    pub strategy: Option<String>,
    /// Executes steps.
    pub execution: Option<String>,
    /// Estimates effort and cost.
    pub estimation: Option<String>,
    /// Checks strategies against invariants.
    pub invariant: Option<String>,
    /// Reviews results.
    pub review: Option<String>,
}

/// A plan to be created.
#[derive(Debug, Clone, Default)]
pub struct UseAction {
    pub action: String,
    /// Its arguments, as name and value.
    pub arguments: Vec<(String, String)>,
    pub projects: Vec<String>,
    /// The automation profile; otherwise that of the action, a project or the configuration.
    pub profile: Option<String>,
    /// Actors; otherwise those of the action or the configuration.
    pub actors: DefaultActors,
    /// Invariants of this plan alone.
    pub invariants: Vec<String>,
    /// The cost limit.
    pub max_cost: Option<MicroUsd>,
    /// Whether it is read-only, whatever the action states.
    pub read_only: bool,
}

/// Options of running a plan.
#[derive(Debug, Clone, Default)]
pub struct DriveOptions {
    /// The requested phase. The gates before other phases apply.
    pub consent: Option<PlanPhase>,
    /// Treatment of tool calls with unknown outcome.
    pub unknown_outcome: UnknownOutcome,
    /// Form of the result on a branch.
    pub landing: BranchUpdate,
    /// The message of the commit.
    pub message: Option<String>,
    /// Whether a plan without changes may be applied.
    pub allow_empty: bool,
}

/// Environment variables that definitions refer to, shared.
pub type KeptVariables = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Creates, changes and runs plans. Cheap to clone.
#[derive(Clone)]
pub struct PlanService {
    store: PlanStore,
    runs: RunService,
    requirements: PlanRequirements,
    snapshots: DecisionSnapshots,
    gates: AutomationGates,
    creation: PlanCreation,
    control: PlanControl,
}

impl PlanService {
    /// A service over a store and its sandboxes.
    pub fn new(
        engine: Arc<Engine>,
        sessions: SessionService,
        sandboxes: SandboxService,
        variables: KeptVariables,
    ) -> Self {
        let store = PlanStore::new(Arc::clone(&engine));
        let runs = RunService::new(Arc::clone(&engine), sessions);
        let requirements = PlanRequirements::new(&engine, variables);
        let snapshots = DecisionSnapshots {
            runs: runs.clone(),
            requirements: requirements.clone(),
        };
        Self {
            gates: AutomationGates {
                store: store.clone(),
                requirements: requirements.clone(),
            },
            creation: PlanCreation {
                store: store.clone(),
                actions: ActionService::new(Arc::clone(&engine)),
                automation: AutomationService::new(Arc::clone(&engine)),
                projects: ProjectService::new(engine),
                requirements: requirements.clone(),
                sandboxes: sandboxes.clone(),
            },
            control: PlanControl {
                store: store.clone(),
                rollback: PlanRollback {
                    store: store.clone(),
                    sandboxes: sandboxes.clone(),
                    snapshots: snapshots.clone(),
                },
                workspaces: PlanWorkspaces {
                    store: store.clone(),
                    sandboxes,
                    requirements: requirements.clone(),
                    policy: SandboxPolicy::default(),
                },
                snapshots: snapshots.clone(),
            },
            store,
            runs,
            requirements,
            snapshots,
        }
    }

    /// The same service with another sandbox policy.
    #[must_use]
    pub fn with_policy(mut self, policy: SandboxPolicy) -> Self {
        self.control.workspaces.policy = policy;
        self
    }

    /// The plan with an id.
    pub fn get(&self, id: PlanId) -> Result<Plan, PlanError> {
        self.store.get(id)
    }

    /// The process that runs a plan now.
    pub fn owner(&self, id: PlanId) -> Result<Option<String>, PlanError> {
        self.store.owner(id)
    }

    /// Creates a plan from an action. It does not run yet.
    pub fn create(
        &self,
        request: &UseAction,
        defaults: &PlanDefaults,
        variables: Variables<'_>,
    ) -> Result<Plan, PlanError> {
        self.creation.create(request, defaults, variables)
    }

    /// Cancels a plan: at once when no process runs it, otherwise that process is asked to stop. Returns whether the
    /// plan is cancelled already.
    pub fn cancel(&self, id: PlanId, reason: &str) -> Result<bool, PlanError> {
        self.control.cancel(id, reason)
    }

    /// Approves, rejects or answers what a plan waits for.
    pub fn answer(
        &self,
        id: PlanId,
        is_approved: bool,
        text: Option<&str>,
        person: &str,
    ) -> Result<Plan, PlanError> {
        self.control.answer(id, is_approved, text, person)
    }

    /// Gives a plan guidance for its next step. Returns the decision that records it, too.
    pub fn prompt(&self, id: PlanId, guidance: &str) -> Result<(Plan, NewDecision), PlanError> {
        self.control.prompt(id, guidance)
    }

    /// Replaces the strategy of a plan before it is executed.
    pub fn edit(&self, id: PlanId, document: &str) -> Result<Plan, PlanError> {
        self.control.edit(id, document)
    }

    /// Returns a plan to the strategize phase for a new strategy.
    pub fn revert(&self, id: PlanId, reason: &str) -> Result<Plan, PlanError> {
        self.control.revert(id, reason)
    }

    /// Sets the cost limit of a plan. It applies from the next `execute` on.
    pub fn limit_cost(&self, id: PlanId, limit: MicroUsd) -> Result<Plan, PlanError> {
        self.control.limit_cost(id, limit)
    }

    /// Queues a plan for a worker.
    pub fn queue(&self, id: PlanId, how: &QueueEntry) -> Result<Plan, PlanError> {
        self.control.queue(id, how)
    }

    /// Removes a plan from the queue.
    pub fn unqueue(&self, id: PlanId) -> Result<(), PlanError> {
        self.control.unqueue(id)
    }

    /// Previews a rollback to a checkpoint.
    pub fn preview_rollback(
        &self,
        id: PlanId,
        checkpoint: &str,
    ) -> Result<PlanRollbackPreview, PlanError> {
        self.control.rollback.preview(id, checkpoint)
    }

    /// Rolls a plan back to a checkpoint of its sandbox.
    pub fn rollback(&self, id: PlanId, checkpoint: &str) -> Result<PlanRolledBack, PlanError> {
        self.control.rollback.roll_back(id, checkpoint)
    }

    /// Undoes the last rollback.
    pub fn redo(&self, id: PlanId) -> Result<PlanRolledBack, PlanError> {
        self.control.rollback.redo(id)
    }

    /// Runs a plan through the phase that the user asks for, and through later ones as far as its automation profile
    /// allows.
    pub fn drive(
        &self,
        id: PlanId,
        options: &DriveOptions,
        runtime: &AgentRuntime,
        front_end: PlanFrontEnd<'_>,
    ) -> Result<Plan, PlanError> {
        let _plan = tracing::error_span!("plan", plan = %id).entered();
        let lease = self.store.acquire(id)?;
        self.control.rollback.finish_interrupted(id, &lease)?;
        let plan = self.get(id)?;
        let stop = front_end.cancel.child();
        let _guard = lease.guard(&stop);
        let _until_the_end = Watch::over(
            {
                let engine = Arc::clone(self.store.engine());
                // A database read that fails is retried after a moment.
                move || {
                    let plan = engine.read(|reader| plans::get(reader, id));
                    matches!(plan, Ok(Some(plan)) if plan.is_cancelled)
                }
            },
            stop.clone(),
        );
        let progress = PlanProgress {
            store: &self.store,
            lease: &lease,
            observer: front_end.observer,
            cancel: &stop,
            redactor: runtime.redactor(),
        };
        let outcome = self.run_leased(plan, options, runtime, front_end, &progress);
        match &outcome {
            Ok(plan) => tracing::info!(stage = %plan.stage, "plan paused or finished"),
            Err(error) => tracing::info!(%error, "plan stopped"),
        }
        if matches!(outcome, Err(PlanError::Stopped { is_over: true, .. })) {
            self.control.workspaces.clean_up(&self.get(id)?)?;
        }
        outcome
    }

    /// Connects the phases for one run of a plan, and runs it.
    fn run_leased(
        &self,
        plan: Plan,
        options: &DriveOptions,
        runtime: &AgentRuntime,
        front_end: PlanFrontEnd<'_>,
        progress: &PlanProgress<'_>,
    ) -> Result<Plan, PlanError> {
        let (requirements, snapshots, gates) = (&self.requirements, &self.snapshots, &self.gates);
        let workspaces = &self.control.workspaces;
        let actors = &PlanActorRunner {
            runs: &self.runs,
            runtime,
            requirements,
            gates,
            approver: front_end.approver,
            observer: front_end.observer,
            cancel: progress.cancel,
            unknown_outcome: options.unknown_outcome,
        };
        let runner = PlanRunner {
            requirements,
            gates,
            strategize: StrategizePhase {
                requirements,
                snapshots,
                workspaces,
                actors,
                progress,
            },
            execute: ExecutePhase {
                requirements,
                snapshots,
                workspaces,
                gates,
                control: &self.control,
                validate: ValidatePhase {
                    requirements,
                    actors,
                    progress,
                },
                actors,
                progress,
            },
            apply: ApplyPhase {
                requirements,
                workspaces,
                gates,
                progress,
                options,
            },
            progress,
        };
        runner.run(plan, options.consent)
    }
}

/// The error for a plan that is applied or cancelled.
pub(super) fn already_finished(plan: &Plan) -> PlanError {
    PlanError::NotReady {
        plan: plan.id,
        stage: plan.stage,
        reason: "it is finished".to_owned(),
        hint: hint!(
            "{} lists the others; {} creates a new one",
            suggest::plan_list(),
            suggest::plan_use(Placeholder("ACTION"), Placeholder("PROJECT"))
        ),
    }
}
