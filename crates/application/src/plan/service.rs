//! [`PlanService`]: the entry point of front ends to the plans of a database. It connects creation, control, rollback,
//! and the runner with its phases.

use std::sync::Arc;

use cleveragents_domain::{
    ChildPlan, ChildState, DecisionId, MicroUsd, NewDecision, Placeholder, Plan, PlanId, PlanPhase,
    PlanReport, hint, suggest,
};
use cleveragents_sandbox::BranchUpdate;
use cleveragents_store::{Engine, child_plans, plan_steps, plans};

use super::actor_runner::PlanActorRunner;
use super::apply::ApplyPhase;
use super::apply_guard::ApplyGuard;
use super::children::{ChildPlans, DEFAULT_CHILD_DEPTH};
use super::control::{
    AddedPart, ConflictChoice, ConflictSelection, PlanControl, PlanPartAdded, QueueEntry,
    ResolvedConflicts,
};
use super::correction::{CorrectionMode, CorrectionPreview, PlanCorrected, PlanCorrection};
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
use crate::scheduler::PlanSlot;
use crate::session::SessionService;
use crate::stop_request::Watch;

/// Looks up an environment variable that a definition refers to.
pub(super) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Defaults for plans whose request and action do not specify these values.
#[derive(Debug, Clone, Default)]
pub struct PlanDefaults {
    /// The name of the automation profile.
    pub profile: String,
    pub actors: DefaultActors,
}

/// The names of actors by role, from the configuration or a request.
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

/// A request to create a plan from an action.
#[derive(Debug, Clone, Default)]
pub struct UseAction {
    pub action: String,
    /// The arguments of the action: names and values.
    pub arguments: Vec<(String, String)>,
    pub projects: Vec<String>,
    /// The automation profile. Default: the profile of the action, of a project, or of the configuration.
    pub profile: Option<String>,
    /// The actors. Default: the actors of the action or of the configuration.
    pub actors: DefaultActors,
    /// Invariants of this plan only.
    pub invariants: Vec<String>,
    pub max_cost: Option<MicroUsd>,
    /// True for a read-only plan, even if the action is not read-only.
    pub read_only: bool,
    /// The typed result that the plan reports. A plan whose report is its whole result is read-only.
    pub report: Option<PlanReport>,
}

/// Options of running a plan.
#[derive(Debug, Clone, Default)]
pub struct DriveOptions {
    /// The requested phase, which the plan enters without approval. The gates of other phases apply.
    pub consent: Option<PlanPhase>,
    /// Treatment of tool calls whose outcome is unknown.
    pub unknown_outcome: UnknownOutcome,
    /// The form of the result on a branch: one commit, or a merge.
    pub landing: BranchUpdate,
    /// The name of a new branch that receives the commits, instead of the user's current branch and files.
    pub branch: Option<String>,
    /// The commit message; a default is generated from the task and the steps.
    pub message: Option<String>,
    /// Permits the apply of a plan without changes.
    pub allow_empty: bool,
    /// Conditions of the caller, checked in the unit of work that starts the apply.
    pub guard: Option<ApplyGuard>,
}

/// Looks up an environment variable that a definition refers to. Can be shared between threads.
pub type KeptVariables = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Creates, changes and runs plans. Cheap to clone.
#[derive(Clone)]
pub struct PlanService {
    pub(super) store: PlanStore,
    pub(super) runs: RunService,
    pub(super) requirements: PlanRequirements,
    snapshots: DecisionSnapshots,
    gates: AutomationGates,
    creation: PlanCreation,
    pub(super) control: PlanControl,
    max_child_depth: u64,
}

impl PlanService {
    /// Creates a service for the plans of a database and their sandboxes.
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
            max_child_depth: DEFAULT_CHILD_DEPTH,
        }
    }

    /// Sets the maximum number of plans above a child plan.
    #[must_use]
    pub fn with_max_child_depth(mut self, max_child_depth: u64) -> Self {
        self.max_child_depth = max_child_depth;
        self
    }

    /// Replaces the sandbox policy.
    #[must_use]
    pub fn with_policy(mut self, policy: SandboxPolicy) -> Self {
        self.control.workspaces.policy = policy;
        self
    }

    pub fn get(&self, id: PlanId) -> Result<Plan, PlanError> {
        self.store.get(id)
    }

    /// The process that currently runs a plan.
    pub fn owner(&self, id: PlanId) -> Result<Option<String>, PlanError> {
        self.store.owner(id)
    }

    /// Creates a plan from an action, without starting it.
    pub fn create(
        &self,
        request: &UseAction,
        defaults: &PlanDefaults,
        variables: Variables<'_>,
    ) -> Result<Plan, PlanError> {
        self.creation.create(request, defaults, variables)
    }

    /// Cancels a plan: at once if no process runs it, otherwise asks that process to stop. Returns true if the plan
    /// is already cancelled.
    pub fn cancel(&self, id: PlanId, reason: &str) -> Result<bool, PlanError> {
        let is_cancelled = self.control.cancel(id, reason)?;
        if is_cancelled {
            self.cancel_children(id)?;
            self.leave_parent(id, reason)?;
        }
        Ok(is_cancelled)
    }

    /// Informs the parent of a cancelled child plan, so that the result of the child plan is not merged.
    fn leave_parent(&self, id: PlanId, reason: &str) -> Result<(), PlanError> {
        if self.get(id)?.parent.is_none() {
            return Ok(());
        }
        let reason = reason.to_owned();
        self.store.write(move |unit| {
            let unfinished = [ChildState::Open, ChildState::Complete, ChildState::Failed];
            let cancelled = ChildState::Cancelled;
            child_plans::set_state(unit, id, &unfinished, cancelled, Some(&reason))?;
            Ok(())
        })
    }

    /// Cancels the child plans of a cancelled plan, and removes their sandboxes. A process that runs one of them stops
    /// it.
    fn cancel_children(&self, parent: PlanId) -> Result<(), PlanError> {
        let children = self
            .store
            .read(|reader| child_plans::of_plan(reader, parent))?;
        for child in &children {
            self.cancel_child(child, "its parent was cancelled")?;
        }
        Ok(())
    }

    /// Cancels a child plan unless it is merged, and removes its sandbox.
    fn cancel_child(&self, child: &ChildPlan, reason: &'static str) -> Result<(), PlanError> {
        match self.cancel(child.plan, reason) {
            Ok(_) | Err(PlanError::NotReady { .. }) => {}
            Err(error) => return Err(error),
        }
        let id = child.plan;
        self.store.write(move |unit| {
            let unfinished = [ChildState::Open, ChildState::Complete, ChildState::Failed];
            let cancelled = ChildState::Cancelled;
            Ok(child_plans::set_state(
                unit,
                id,
                &unfinished,
                cancelled,
                Some(reason),
            )?)
        })?;
        Ok(())
    }

    /// Approves, rejects or answers the request that a plan waits for.
    pub fn answer(
        &self,
        id: PlanId,
        is_approved: bool,
        text: Option<&str>,
        person: &str,
    ) -> Result<Plan, PlanError> {
        self.control.answer(id, is_approved, text, person)
    }

    /// Decides conflicts between the child plans of a plan. When all are decided, the plan no longer waits.
    pub fn resolve_conflict(
        &self,
        id: PlanId,
        selection: &ConflictSelection,
        choice: &ConflictChoice,
        person: &str,
    ) -> Result<ResolvedConflicts, PlanError> {
        self.control.resolve_conflict(id, selection, choice, person)
    }

    /// Gives a plan guidance for its next step. Also returns the decision that records the guidance.
    pub fn prompt(&self, id: PlanId, guidance: &str) -> Result<(Plan, NewDecision), PlanError> {
        self.control.prompt(id, guidance)
    }

    /// Replaces the strategy of a plan before it is executed.
    pub fn edit(&self, id: PlanId, document: &str) -> Result<Plan, PlanError> {
        self.control.edit(id, document)
    }

    /// Adds a part to the strategy of a plan, which a child plan executes.
    pub fn add_part(&self, id: PlanId, part: &AddedPart) -> Result<PlanPartAdded, PlanError> {
        self.control.add_part(id, part, self.max_child_depth)
    }

    /// Returns a plan to the strategize phase for a new strategy.
    pub fn revert(&self, id: PlanId, reason: &str) -> Result<Plan, PlanError> {
        self.control.revert(id, reason)
    }

    /// Sets the cost limit of a plan. The limit applies from the next `execute` on.
    pub fn limit_cost(&self, id: PlanId, limit: MicroUsd) -> Result<Plan, PlanError> {
        self.control.limit_cost(id, limit)
    }

    /// Queues a plan for a worker.
    pub fn queue(&self, id: PlanId, entry: &QueueEntry) -> Result<Plan, PlanError> {
        self.control.queue(id, entry)
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
        let rolled_back = self.control.rollback.roll_back(id, checkpoint)?;
        self.cancel_children_of_undone_steps(id)?;
        Ok(rolled_back)
    }

    /// Cancels the unfinished child plans of steps that a rollback or correction undid, and removes their sandboxes.
    fn cancel_children_of_undone_steps(&self, parent: PlanId) -> Result<(), PlanError> {
        let (children, steps) = self.store.read(|reader| {
            Ok((
                child_plans::of_plan(reader, parent)?,
                plan_steps::of_plan(reader, parent)?,
            ))
        })?;
        let is_undone = |child: &ChildPlan| {
            let step = steps.iter().find(|step| step.number == child.step);
            step.is_some_and(|step| step.undone_by.is_some())
        };
        for child in children.iter().filter(|child| is_undone(child)) {
            self.cancel_child(child, "its step was undone")?;
        }
        Ok(())
    }

    /// Undoes the last rollback or correction.
    pub fn redo(&self, id: PlanId) -> Result<PlanRolledBack, PlanError> {
        match self.correction().undo_last(id)? {
            Some(undone) => Ok(undone),
            None => self.control.rollback.redo(id),
        }
    }

    /// Shows what a correction of a decision would discard, without changing anything.
    pub fn preview_correction(
        &self,
        id: PlanId,
        decision: DecisionId,
        mode: CorrectionMode,
    ) -> Result<CorrectionPreview, PlanError> {
        self.correction().preview(id, decision, mode)
    }

    /// Corrects a decision of a plan with the guidance of the user.
    pub fn correct(
        &self,
        id: PlanId,
        decision: DecisionId,
        mode: CorrectionMode,
        guidance: &str,
    ) -> Result<PlanCorrected, PlanError> {
        let corrected = self.correction().correct(id, decision, mode, guidance)?;
        self.cancel_children_of_undone_steps(id)?;
        Ok(corrected)
    }

    fn correction(&self) -> PlanCorrection {
        PlanCorrection {
            store: self.store.clone(),
            sandboxes: self.control.workspaces.sandboxes.clone(),
            snapshots: self.snapshots.clone(),
            rollback: self.control.rollback.clone(),
        }
    }

    /// Runs a plan through the requested phase, and through later phases as far as its automation profile allows.
    pub fn drive(
        &self,
        id: PlanId,
        options: &DriveOptions,
        runtime: &AgentRuntime,
        front_end: PlanFrontEnd<'_>,
    ) -> Result<Plan, PlanError> {
        self.drive_in_slot(id, options, runtime, front_end, None)
    }

    /// Like [`Self::drive`], in a slot of the scheduler, which the plan gives back while it waits for its child plans.
    pub(crate) fn drive_in_slot(
        &self,
        id: PlanId,
        options: &DriveOptions,
        runtime: &AgentRuntime,
        front_end: PlanFrontEnd<'_>,
        slot: Option<&PlanSlot>,
    ) -> Result<Plan, PlanError> {
        let _plan = tracing::error_span!("plan", plan = %id).entered();
        let lease = self.store.acquire(id)?;
        self.control.rollback.finish_interrupted(id, &lease)?;
        // The process that undid the steps may have died before it cancelled their child plans.
        self.cancel_children_of_undone_steps(id)?;
        let plan = self.get(id)?;
        let stop = front_end.cancel.child();
        let _guard = lease.guard(&stop);
        let _cancellation_watch = Watch::over(
            {
                let engine = Arc::clone(self.store.engine());
                // A failed read counts as not cancelled; the watch reads again.
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
        let outcome = self.run_leased(plan, options, runtime, front_end, &progress, slot);
        match &outcome {
            Ok(plan) => tracing::info!(stage = %plan.stage, "plan paused or finished"),
            Err(error) => tracing::info!(%error, "plan stopped"),
        }
        if matches!(outcome, Err(PlanError::Stopped { is_over: true, .. })) {
            self.cancel_children(id)?;
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
        slot: Option<&PlanSlot>,
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
        let children = &ChildPlans {
            service: self,
            requirements,
            snapshots,
            workspaces,
            progress,
            runtime,
            front_end: PlanFrontEnd {
                cancel: progress.cancel,
                ..front_end
            },
            slot,
            unknown_outcome: options.unknown_outcome,
            max_depth: self.max_child_depth,
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
                max_child_depth: self.max_child_depth,
            },
            execute: ExecutePhase {
                requirements,
                snapshots,
                workspaces,
                gates,
                control: &self.control,
                children,
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

/// The error for an operation on a plan that is already applied or cancelled.
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
