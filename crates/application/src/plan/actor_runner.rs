//! [`PlanActorRunner`]: runs actors and single tool calls for a plan.
//!
//! The id of a run is derived from the plan and the key of the task. A process that continues a plan therefore resumes
//! the unfinished runs of the previous process, and reuses the results of completed runs.

use std::path::Path;
use std::sync::Arc;

use cleveragents_actors::ports::FailureKind;
use cleveragents_actors::{Actor, RunError};
use cleveragents_domain::{
    AutomationGate, Code, Diagnose as _, MicroUsd, Plan, PlanId, PlanPhase, PlanReport, Run, RunId,
    RunState, StepCall, StepKind, Waiting,
};
use cleveragents_process::Cancel;
use cleveragents_sandbox::Source;
use cleveragents_store::{Error, plans};
use cleveragents_tools::ports::Approver;
use cleveragents_tools::{Phase, PlanMode};
use serde_json::{Map, Value, json};

use super::approver::{AnsweredBy, PlanApprover};
use super::built_in::{ESTIMATOR, EXECUTOR, REVIEWER, RolePrompts, STRATEGIST, in_plan};
use super::call_actor::tool_call_actor;
use super::error::PlanError;
use super::gates::AutomationGates;
use super::prompt::{plan_instructions, task_instructions};
use super::report::report_tools;
use super::requirements::{PlanRequirements, profile_safety};
use super::typed_report::{prompt_name, whole_result_tools};
use crate::actor::ActorBundle;
use crate::observer::Observer;
use crate::run::{
    CarriedConversation, RunService, RunServiceError, RunStart, UnknownOutcome, WorkState,
};
use crate::runtime::{
    AgentRequest, AgentRuntime, EffectiveSafety, ToolRequirements, find_safety_profile,
};
use crate::tool::SandboxWorkspace;
use crate::turn::ReportTools;

/// The reason why a run has no result.
pub(super) enum RunStop {
    /// The user has to approve or answer something.
    NeedsInput(Box<Waiting>),
    /// The plan was cancelled or interrupted.
    Cancelled,
    Failed {
        message: String,
        /// The error code of the cause.
        code: Code,
        /// True if a retry may succeed.
        is_transient: bool,
    },
}

/// A task for an actor of a plan.
pub(super) struct ActorTask<'t> {
    /// Identifies the run within the plan.
    pub(super) key: &'t str,
    pub(super) performer: Performer<'t>,
    /// The input of the run; an empty prompt means no input.
    pub(super) prompt: String,
    /// The phase, which decides the permissions of tools.
    pub(super) phase: PlanPhase,
    pub(super) workspace: Option<&'t SandboxWorkspace>,
    /// The conversation to continue.
    pub(super) carried: Option<CarriedConversation>,
    /// The state of the work, for an actor that changes files.
    pub(super) work: Option<&'t dyn WorkState>,
}

/// The actor or the tool call that performs a task.
pub(super) enum Performer<'t> {
    /// An actor for a kind of step, or a model that runs with the instructions of the built-in actor for that kind.
    Actor(&'t str, StepKind),
    /// A single tool call, without an actor.
    ToolCall(&'t StepCall),
}

/// The actor of a run, its definitions and their hash.
struct ResolvedActor {
    actor: Arc<Actor>,
    definitions: Value,
    hash: String,
}

/// Runs the actors of a plan.
pub(super) struct PlanActorRunner<'a> {
    pub(super) runs: &'a RunService,
    pub(super) runtime: &'a AgentRuntime,
    pub(super) requirements: &'a PlanRequirements,
    pub(super) gates: &'a AutomationGates,
    pub(super) approver: &'a dyn Approver,
    pub(super) observer: &'a dyn Observer,
    pub(super) cancel: &'a Cancel,
    pub(super) unknown_outcome: UnknownOutcome,
}

impl PlanActorRunner<'_> {
    /// Runs a task, or reuses the result of its completed run. Returns the answer of the actor.
    pub(super) fn run(
        &self,
        plan: &Plan,
        task: &ActorTask<'_>,
    ) -> Result<Result<Value, RunStop>, PlanError> {
        let id = plan.id.run(task.key);
        let known = self.stored_run(id)?;
        if let Some(run) = &known
            && run.state == RunState::Complete
        {
            return Ok(Ok(run
                .result
                .as_ref()
                .map_or(Value::Null, |result| result["output"].clone())));
        }
        let is_resumed = known.is_some();
        // A resumed run continues the conversation that it started with.
        let carried = match &known {
            Some(run) => stored_carried(&run.options["carried"]),
            None => task.carried.clone(),
        };
        let resolved = self.resolve_actor(task, is_resumed.then_some(id))?;
        let role = match task.performer {
            Performer::Actor(_, kind) => {
                built_in_role(kind).filter(|role| resolved.actor.name == *role)
            }
            Performer::ToolCall(_) => None,
        };
        let approver = PlanApprover::new(
            self.gates.store.clone(),
            plan.id,
            self.approver,
            self.answered_by(plan, task.phase)?,
        );
        let request = AgentRequest {
            actor: &resolved.actor,
            budget_name: budget_name(plan.id),
            cost_limits: vec![plan.inputs.max_cost_micro_usd.map(MicroUsd)],
            shared_budgets: self.ancestor_budgets(plan)?,
            plan: Some(plan.id),
            requirements: ToolRequirements::default(),
            extra_tools: &[],
            workspace: task.workspace,
            mode: plan_mode(plan, task),
            safety: self.safety(plan)?,
            rules: &[],
            instructions: self.instructions(plan, task, role)?,
            reports: reports_of(plan, task, role.is_some()),
            carried: carried.clone(),
            work: task.work,
            summary_prompt: Some(self.prompts(plan).text("summary").to_owned()),
            temperature: None,
            approver: &approver,
            observer: self.observer,
            cancel: self.cancel,
            unknown_outcome: self.unknown_outcome,
        };
        let run = || {
            self.runtime.run(&request, |context| {
                if is_resumed {
                    return self.runs.resume(id, &resolved.actor, context);
                }
                let mut input = Map::new();
                if !task.prompt.is_empty() {
                    input.insert("input".to_owned(), task.prompt.clone().into());
                }
                let start = RunStart {
                    id,
                    namespace: plans::plan_namespace(plan).to_owned(),
                    actor: Arc::clone(&resolved.actor),
                    actor_hash: resolved.hash.clone(),
                    definitions: resolved.definitions.clone(),
                    input,
                    context: Map::new(),
                    options: json!({"plan": plan.id, "carried": carried}),
                };
                self.runs.start(&start, context)
            })
        };
        let outcome = match task.workspace.filter(|_| request.mode.is_trial()) {
            // Changes made by commands are rolled back after the run, or by the next process that opens the sandbox.
            Some(workspace) => match workspace.without_trace(run) {
                Ok((outcome, _rolled_back)) => outcome,
                Err(_) if self.cancel.is_cancelled() => return Ok(Err(RunStop::Cancelled)),
                Err(error) => return Err(error.into()),
            },
            None => run(),
        };
        match outcome.map_err(PlanError::from_service)? {
            Ok(report) => Ok(Ok(report.outcome.output)),
            Err(RunServiceError::Stopped(stopped)) => {
                Ok(Err(run_stop(&stopped.why, approver.unanswered())))
            }
            Err(RunServiceError::Busy { owner, .. }) => Err(PlanError::Busy {
                plan: plan.id,
                owner,
            }),
            Err(error) => Err(PlanError::from_service(error)),
        }
    }

    fn stored_run(&self, id: RunId) -> Result<Option<Run>, PlanError> {
        match self.runs.get(id) {
            Ok(run) => Ok(Some(run)),
            Err(RunServiceError::NotFound { .. }) => Ok(None),
            Err(error) => Err(PlanError::from_service(error)),
        }
    }

    /// True if the run of a task is complete.
    pub(super) fn is_complete(&self, plan: &Plan, key: &str) -> Result<bool, PlanError> {
        let known = self.stored_run(plan.id.run(key))?;
        Ok(known.is_some_and(|run| run.state == RunState::Complete))
    }

    /// The instructions of the built-in actors, with the overrides of the plan's projects and of
    /// the home folder.
    pub(super) fn prompts(&self, plan: &Plan) -> RolePrompts {
        // A deleted project has no instructions. The phase reports that the project is missing.
        let targets = self.requirements.targets(plan).unwrap_or_default();
        let folders: Vec<&Path> = targets
            .iter()
            .filter(|target| target.source != Source::Postgres)
            .map(|target| target.location.as_path())
            .collect();
        RolePrompts::read(&self.runtime.options().home, &folders)
    }

    /// True if an actor is the built-in actor for a kind of step, or a model: a model runs with the instructions of the
    /// built-in actor.
    pub(super) fn is_built_in(&self, actor: &str, kind: StepKind) -> Result<bool, PlanError> {
        let resolved_actor = self.runtime.actor(actor).map_err(PlanError::from_service)?;
        Ok(built_in_role(kind).is_some_and(|role| {
            resolved_actor.bundle.files.is_empty() || resolved_actor.actor.name == role
        }))
    }

    /// The instructions that every request of a task contains. Strategist and executor receive identical bytes, so that
    /// the prompt caches of providers stay valid from phase to phase.
    fn instructions(
        &self,
        plan: &Plan,
        task: &ActorTask<'_>,
        role: Option<&str>,
    ) -> Result<Vec<String>, PlanError> {
        let plan_text = match task.performer {
            Performer::Actor(_, StepKind::Review) => task_instructions(plan),
            _ => plan_instructions(plan, &self.requirements.reconciled(plan)?),
        };
        let report = plan.inputs.report;
        let prompt = match role {
            Some(_) if report.is_some_and(PlanReport::is_whole_result) => report.map(prompt_name),
            Some(STRATEGIST | EXECUTOR) => Some("base"),
            Some(REVIEWER) => Some("reviewer"),
            Some(ESTIMATOR) => Some("estimator"),
            _ => None,
        };
        let role_instructions = prompt.map(|name| self.prompts(plan).text(name).to_owned());
        let is_capture = role.is_some() && report == Some(PlanReport::Test);
        let capture = is_capture.then(|| self.prompts(plan).text("capture").to_owned());
        let all = [plan_text].into_iter().chain(role_instructions);
        Ok(all.chain(capture).collect())
    }

    /// The budgets of the ancestors of a child plan.
    fn ancestor_budgets(&self, plan: &Plan) -> Result<Vec<(String, Option<MicroUsd>)>, PlanError> {
        let mut budgets = Vec::new();
        let mut parent = plan.parent;
        while let Some(id) = parent {
            let ancestor = self.gates.store.get(id)?;
            let (profile, guards) = profile_safety(&ancestor)?;
            let limits = [
                ancestor.inputs.max_cost_micro_usd.map(MicroUsd),
                guards.total_cost(&profile),
            ];
            budgets.push((budget_name(id), limits.into_iter().flatten().min()));
            parent = ancestor.parent;
        }
        Ok(budgets)
    }

    /// The safety rules that the action and the automation profile of a plan require.
    fn safety(&self, plan: &Plan) -> Result<Vec<EffectiveSafety>, PlanError> {
        let mut rules = Vec::new();
        let action = plan.inputs.action.as_ref();
        if let Some(name) = action.and_then(|action| action.safety_profile.as_deref()) {
            let folder = &self.runtime.options().working_folder;
            let safety = find_safety_profile(name, folder, "").map_err(PlanError::from_service)?;
            rules.push(EffectiveSafety::new(safety.profile, safety.guards));
        }
        let (profile, guards) = profile_safety(plan)?;
        rules.push(EffectiveSafety::new(profile, guards));
        Ok(rules)
    }

    /// Chooses the source of answers to questions of actors in a phase, by the gates of the plan's profile.
    fn answered_by(&self, plan: &Plan, phase: PlanPhase) -> Result<AnsweredBy, PlanError> {
        let thresholds = &plan.inputs.profile.snapshot.thresholds;
        let (phase_gate, other_gate) = match phase {
            PlanPhase::Strategize => (
                AutomationGate::StrategyDecision,
                AutomationGate::ExecutionDecision,
            ),
            _ => (
                AutomationGate::ExecutionDecision,
                AutomationGate::StrategyDecision,
            ),
        };
        let threshold = thresholds.threshold(phase_gate);
        let is_automated =
            threshold <= 0.0 || (threshold < 1.0 && self.gates.confidence(plan)?.passes(threshold));
        Ok(if !is_automated {
            AnsweredBy::User
        } else if threshold <= 0.0 && thresholds.threshold(other_gate) <= 0.0 {
            AnsweredBy::Actor
        } else {
            AnsweredBy::UserOrActor
        })
    }

    /// Resolves the actor of a task. A resumed run keeps the definitions that it started with.
    fn resolve_actor(
        &self,
        task: &ActorTask<'_>,
        resumed: Option<RunId>,
    ) -> Result<ResolvedActor, PlanError> {
        let (name, kind) = match task.performer {
            Performer::ToolCall(call) => {
                return Ok(ResolvedActor {
                    actor: Arc::new(tool_call_actor(call)),
                    definitions: json!({"call": call}),
                    hash: String::new(),
                });
            }
            Performer::Actor(name, kind) => (name, kind),
        };
        if let Some(run) = resumed {
            let files = self
                .runs
                .definitions(run)
                .map_err(PlanError::from_service)?;
            let bundle: ActorBundle = serde_json::from_value(files)
                .map_err(|error| Error::stored("the files of a run", error.to_string()))?;
            return Ok(ResolvedActor {
                actor: self
                    .runtime
                    .bundled_actor(&bundle)
                    .map_err(PlanError::from_service)?,
                definitions: Value::Null,
                hash: String::new(),
            });
        }
        let resolved_actor = self.runtime.actor(name).map_err(PlanError::from_service)?;
        match built_in_role(kind) {
            Some(role) if resolved_actor.bundle.files.is_empty() => {
                self.role_actor(role, Some(name))
            }
            Some(role) if resolved_actor.actor.name == role => self.role_actor(role, None),
            _ => Ok(ResolvedActor {
                actor: resolved_actor.actor,
                definitions: json!(resolved_actor.bundle),
                hash: resolved_actor.hash,
            }),
        }
    }

    /// The built-in actor for a role, with another model if one is given. The plan supplies the actor's instructions.
    fn role_actor(&self, role: &str, model: Option<&str>) -> Result<ResolvedActor, PlanError> {
        let built_in = self.runtime.actor(role).map_err(PlanError::from_service)?;
        let mut bundle = built_in.bundle;
        if let Some(file) = bundle.files.get_mut(role) {
            file.text = in_plan(&file.text, role, model)
                .map_err(|error| Error::stored("a built-in actor", error.to_string()))?;
        }
        Ok(ResolvedActor {
            actor: self
                .runtime
                .bundled_actor(&bundle)
                .map_err(PlanError::from_service)?,
            definitions: json!(bundle),
            hash: built_in.hash,
        })
    }
}

/// The label of the budget of a plan.
fn budget_name(plan: PlanId) -> String {
    format!("plan {plan}")
}

/// Parses the carried conversation that a run stores. Earlier versions stored only the id of its run.
fn stored_carried(stored: &Value) -> Option<CarriedConversation> {
    let id = || serde_json::from_value::<RunId>(stored.clone());
    let earlier_form = || {
        id().map(|run| CarriedConversation {
            run,
            kept_files: None,
        })
    };
    serde_json::from_value(stored.clone())
        .or_else(|_| earlier_form())
        .ok()
}

/// The built-in actor for a kind of step.
const fn built_in_role(kind: StepKind) -> Option<&'static str> {
    match kind {
        StepKind::Strategize => Some(STRATEGIST),
        StepKind::Estimate => Some(ESTIMATOR),
        StepKind::Review => Some(REVIEWER),
        StepKind::Step | StepKind::Fix | StepKind::Guidance => Some(EXECUTOR),
        StepKind::CheckInvariants => None,
    }
}

/// Permissions of the tools of a task. Actors of the strategize phase and of read-only plans may run commands, because
/// the changes of these commands are rolled back.
fn plan_mode(plan: &Plan, task: &ActorTask<'_>) -> PlanMode {
    let is_actor = matches!(task.performer, Performer::Actor(..));
    let is_read_only = plan.inputs.read_only;
    match task.phase {
        PlanPhase::Strategize if is_actor => PlanMode::Trial(Phase::Strategize),
        PlanPhase::Execute if is_actor && is_read_only => PlanMode::Trial(Phase::Execute),
        _ if is_read_only => PlanMode::ReadOnly,
        PlanPhase::Strategize => PlanMode::Normal(Phase::Strategize),
        PlanPhase::Execute => PlanMode::Normal(Phase::Execute),
        PlanPhase::Apply => PlanMode::Normal(Phase::Apply),
    }
}

fn run_stop(error: &RunError, unanswered: Option<Waiting>) -> RunStop {
    match error {
        RunError::Cancelled => RunStop::Cancelled,
        RunError::HumanNeeded { message, .. } => {
            let waiting = unanswered.unwrap_or(Waiting::Guidance {
                reason: message.clone(),
            });
            RunStop::NeedsInput(Box::new(waiting))
        }
        other => RunStop::Failed {
            message: other.to_string(),
            code: other.code(),
            is_transient: match other {
                RunError::Node { failure, .. } => failure.kind == FailureKind::Timeout,
                _ => false,
            },
        },
    }
}

/// The report tools of a task. `has_role` is true for a built-in actor.
fn reports_of(plan: &Plan, task: &ActorTask<'_>, has_role: bool) -> ReportTools<'static> {
    let report = plan.inputs.report;
    match task.performer {
        Performer::Actor(_, kind) if has_role => report_tools(kind, report),
        // An actor of the user also reports the typed result of its plan.
        Performer::Actor(_, StepKind::Strategize) => {
            report.and_then(whole_result_tools).unwrap_or_default()
        }
        _ => ReportTools::default(),
    }
}
