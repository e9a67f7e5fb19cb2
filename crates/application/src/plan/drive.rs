//! [`Drive`]: takes a plan from stage to stage, under its lease, until it is where it was meant to get to,
//! waits for a person, fails or is stopped.
//!
//! Every stage is a row before the next one begins, and everything in between is found again: the runs of
//! actors by ids that follow from plan and step, the sandbox by its name, finished steps by their paths. So
//! whoever drives a plan after another died goes on where that one was.

use std::sync::Arc;

use cleveragents_actors::graph::{Argument, Graph, Limits, Node, NodeIndex, NodeKind, ToolNode};
use cleveragents_actors::ports::FailureKind;
use cleveragents_actors::{Actor, ActorKind, RunError};
use cleveragents_domain::{
    AutomationGate, GateAction, Move, Plan, PlanPhase, PlanStage, REVERSION_LIMIT, RunId, RunState,
    StepCall, Waiting,
};
use cleveragents_process::Cancel;
use cleveragents_store::plans::Along;
use cleveragents_store::{Engine, Error, UnitOfWork, leases, plans};
use cleveragents_tools::ports::Approver;
use cleveragents_tools::{Phase, PlanMode};
use serde_json::{Map, Value, json};

use super::approver::{AnsweredBy, PlanPerson};
use super::built_in::{DETERMINISTIC, ESTIMATOR, EXECUTOR, REVIEWER, STRATEGIST};
use super::error::PlanError;
use super::gates::Passage;
use super::observer::PlanWatcher;
use super::service::{DriveOptions, PlanService};
use crate::actor::Bundle;
use crate::lease::HeldLease;
use crate::run::{RunServiceError, RunStart};
use crate::runtime::{
    AgentRequest, AgentRuntime, EffectiveSafety, ToolRequirements, find_safety_profile,
};
use crate::tool::SandboxWorkspace;

/// The threshold that no confidence reaches.
const ALWAYS_ASK: f64 = 1.0;

/// A plan that is being driven.
pub(super) struct Drive<'a> {
    pub(super) service: &'a PlanService,
    pub(super) runtime: &'a AgentRuntime,
    pub(super) approver: &'a dyn Approver,
    pub(super) watcher: &'a dyn PlanWatcher,
    pub(super) cancel: &'a Cancel,
    pub(super) lease: &'a HeldLease,
    pub(super) options: &'a DriveOptions,
}

/// Why a run did not come to its end.
pub(super) enum Stop {
    /// A person is needed.
    Person(Box<Waiting>),
    /// It was stopped.
    Cancelled,
    /// It failed.
    Failed {
        message: String,
        code: String,
        /// Whether the same may go well another time.
        is_transient: bool,
    },
}

/// What an actor is asked to do for a plan.
pub(super) struct Task<'t> {
    /// By what its run is found again.
    pub(super) key: &'t str,
    pub(super) who: Who<'t>,
    pub(super) input: Map<String, Value>,
    pub(super) phase: PlanPhase,
    pub(super) workspace: Option<&'t SandboxWorkspace>,
}

/// Who does it.
pub(super) enum Who<'t> {
    /// An actor.
    Actor(&'t str),
    /// Nobody: it is one call of a tool.
    Call(&'t StepCall),
}

impl Drive<'_> {
    pub(super) fn engine(&self) -> &Arc<Engine> {
        &self.service.engine
    }

    /// Writes under the lease of the plan: whoever lost it writes nothing any more.
    pub(super) fn write<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&mut UnitOfWork<'_>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, PlanError> {
        let fence = (self.lease.subject().clone(), self.lease.token());
        Ok(self.engine().write(move |unit| {
            leases::require(unit, &fence.0, fence.1)?;
            work(unit)
        })?)
    }

    /// Moves the plan.
    pub(super) fn advance(&self, plan: &Plan, way: Move, along: Along) -> Result<Plan, PlanError> {
        let id = plan.id;
        let moved = self.write(move |unit| plans::advance(unit, id, way, &along))?;
        let moved = moved.ok_or_else(|| PlanError::NotReady {
            plan: id,
            stage: plan.stage,
            reason: "it is not where it was a moment ago".to_owned(),
            hint: format!("`agents plan status {id}` shows where it is"),
        })?;
        tracing::info!(stage = %moved.stage, attempt = moved.attempt, "plan stage changed");
        self.watcher.stage(&moved);
        Ok(moved)
    }

    /// Says that the plan waits, and stops.
    pub(super) fn wait<T>(&self, plan: &Plan, waiting: Waiting) -> Result<T, PlanError> {
        let (id, stored) = (plan.id, waiting.clone());
        self.write(move |unit| plans::wait_for(unit, id, &stored))?;
        Err(PlanError::Waits {
            plan: id,
            waiting: Box::new(waiting),
        })
    }

    /// Takes the plan as far as it goes. `consent` is the phase that a person asked for.
    pub(super) fn go(
        &self,
        mut plan: Plan,
        mut consent: Option<PlanPhase>,
    ) -> Result<Plan, PlanError> {
        loop {
            if self.cancel.is_cancelled() {
                return Err(self.stopped(&plan)?);
            }
            let is_asked = |phase: PlanPhase| consent == Some(phase);
            plan = match plan.stage {
                PlanStage::StrategizeQueued => {
                    if !is_asked(PlanPhase::Strategize)
                        && !self.may(&plan, AutomationGate::Strategize, GateAction::Strategize)?
                    {
                        return self.service.get(plan.id);
                    }
                    consent = None;
                    let outcome = self.strategize(plan.clone());
                    self.record_error(&plan, Move::FailStrategize, outcome)?
                }
                PlanStage::StrategizeProcessing => {
                    let outcome = self.strategize(plan.clone());
                    self.record_error(&plan, Move::FailStrategize, outcome)?
                }
                PlanStage::StrategizeComplete => {
                    let may = is_asked(PlanPhase::Execute)
                        || (self.may(
                            &plan,
                            AutomationGate::StartExecution,
                            GateAction::Execute,
                        )? && self.may(
                            &plan,
                            AutomationGate::StrategyDecision,
                            GateAction::Execute,
                        )?);
                    if !may {
                        return self.service.get(plan.id);
                    }
                    consent = None;
                    self.service.check_invariants(&plan)?;
                    self.advance(&plan, Move::QueueExecute, Along::default())?
                }
                PlanStage::ExecuteQueued | PlanStage::ExecuteProcessing => {
                    consent = consent.filter(|phase| *phase != PlanPhase::Execute);
                    let outcome = self.execute(plan.clone());
                    self.record_error(&plan, Move::FailExecute, outcome)?
                }
                PlanStage::ExecuteComplete => {
                    let guards = plan.made_with.profile.snapshot.guards.as_ref();
                    let must_ask = guards.is_some_and(|guards| guards.require_approval_for_apply);
                    let may = is_asked(PlanPhase::Apply) || self.may_apply(&plan, must_ask)?;
                    if !may {
                        return self.service.get(plan.id);
                    }
                    consent = None;
                    self.advance(&plan, Move::QueueApply, Along::default())?
                }
                PlanStage::ApplyQueued | PlanStage::ApplyProcessing => self.apply(plan)?,
                _ => return Ok(plan),
            };
        }
    }

    /// Records the error of a phase that could not run, such as a resource that cannot be copied: without that the
    /// plan would look as if it were still running. The error itself is returned as it is.
    fn record_error(
        &self,
        plan: &Plan,
        way: Move,
        outcome: Result<Plan, PlanError>,
    ) -> Result<Plan, PlanError> {
        let error = match outcome {
            Err(
                error @ (PlanError::World(_)
                | PlanError::Sandbox(_)
                | PlanError::EmptyProject(_)
                | PlanError::Usage(_)),
            ) => error,
            other => return other,
        };
        let now = self.service.get(plan.id)?;
        let is_running = matches!(
            now.stage,
            PlanStage::StrategizeProcessing | PlanStage::ExecuteProcessing
        );
        if is_running && !self.cancel.is_cancelled() {
            let message = error.to_string();
            match self.fail::<()>(&now, way, "resource", &message, Value::Null) {
                Ok(()) | Err(PlanError::Failed { .. }) => {}
                Err(not_recorded) => return Err(not_recorded),
            }
        }
        Err(error)
    }

    /// Whether a gate between phases opens by itself. The plan says what it waits for when not.
    fn may(&self, plan: &Plan, gate: AutomationGate, opens: GateAction) -> Result<bool, PlanError> {
        self.is_open(plan, self.service.pass(plan, gate, opens)?)
    }

    fn is_open(&self, plan: &Plan, passage: Passage) -> Result<bool, PlanError> {
        match passage {
            Passage::Open => Ok(true),
            Passage::Closed(_) => Ok(false),
            Passage::Asks(waiting) => {
                let id = plan.id;
                self.write(move |unit| plans::wait_for(unit, id, &waiting))?;
                Ok(false)
            }
        }
    }

    fn may_apply(&self, plan: &Plan, must_ask: bool) -> Result<bool, PlanError> {
        let (gate, opens) = (AutomationGate::Apply, GateAction::Apply);
        if !must_ask {
            return self.may(plan, gate, opens);
        }
        // The guard asks whatever the threshold of the profile is.
        let passage = self.service.pass_at(plan, gate, opens, ALWAYS_ASK)?;
        self.is_open(plan, passage)
    }

    /// What a plan that was stopped is told: whether for good.
    pub(super) fn stopped(&self, plan: &Plan) -> Result<PlanError, PlanError> {
        self.lease.check()?;
        let now = self.service.get(plan.id)?;
        if now.is_cancelled && !now.stage.is_terminal() {
            let along = Along {
                reason: Some("somebody asked for its end".to_owned()),
                ..Along::default()
            };
            self.advance(&now, Move::Cancel, along)?;
        }
        Ok(PlanError::Stopped {
            plan: plan.id,
            is_over: now.is_cancelled,
        })
    }

    /// The failure of a phase, written down.
    pub(super) fn fail<T>(
        &self,
        plan: &Plan,
        way: Move,
        category: &str,
        message: &str,
        more: Value,
    ) -> Result<T, PlanError> {
        let message = self.runtime.redactor().text(message).into_owned();
        let id = plan.id;
        let phase = plan.stage.phase();
        let mut command = format!("agents plan execute {id}");
        let hint = match category {
            "validation" => {
                let back = if plan.reversions < REVERSION_LIMIT {
                    format!(", or go back to the strategy with `agents plan revert {id}`")
                } else {
                    String::new()
                };
                // No model would read guidance.
                let fix = if plan.made_with.actors.execution == DETERMINISTIC {
                    format!("try again with `agents plan execute {id}`")
                } else {
                    format!(
                        "say how to mend it with `agents plan prompt {id} TEXT` and go on with \
                         `agents plan execute {id}`"
                    )
                };
                format!("`agents plan errors {id}` shows all that was printed; {fix}{back}")
            }
            "merge_conflict" => format!(
                "bring the files to what they were, or go back with `agents plan revert {id}`; then \
                 `agents plan apply {id}`"
            ),
            "strategy" | "invariant" if phase == PlanPhase::Strategize => format!(
                "say what to do instead with `agents plan prompt {id} TEXT`; `agents plan execute {id}` has it \
                 thought out anew"
            ),
            "invariant" => {
                let back = more["checkpoint"].as_str().map_or_else(
                    || format!("go back to the strategy with `agents plan revert {id}`"),
                    |checkpoint| {
                        command = format!("agents plan rollback {id} {checkpoint} --yes");
                        format!("take the step back with `{command}`")
                    },
                );
                format!(
                    "{back}, say what to do instead with `agents plan prompt {id} TEXT`, and go on with \
                     `agents plan execute {id}`"
                )
            }
            _ => format!(
                "`agents plan errors {id}` tells more; `agents plan execute {id}` tries again from where it stopped"
            ),
        };
        let mut error = Map::new();
        error.insert("message".to_owned(), message.clone().into());
        error.insert("error_category".to_owned(), category.into());
        error.insert("error_phase".to_owned(), phase.as_str().into());
        error.insert("recovery_hint".to_owned(), hint.clone().into());
        error.insert("recovery_command".to_owned(), command.into());
        if let Value::Object(more) = more {
            error.extend(more);
        }
        let along = Along {
            error: Some(error),
            ..Along::default()
        };
        let moved = self.advance(plan, way, along)?;
        Err(PlanError::Failed {
            plan: id,
            stage: moved.stage,
            message,
            hint,
        })
    }

    /// Has an actor do something, or takes what it did before. Gives what it answered.
    pub(super) fn perform(
        &self,
        plan: &Plan,
        task: &Task<'_>,
    ) -> Result<Result<Value, Stop>, PlanError> {
        let id = plan.id.run(task.key);
        let service = &self.service.runs;
        let known = match service.get(id) {
            Ok(run) => Some(run),
            Err(RunServiceError::NotFound { .. }) => None,
            Err(error) => return Err(PlanError::of(error)),
        };
        if let Some(run) = &known
            && run.state == RunState::Complete
        {
            let result = run.result.clone().unwrap_or_default();
            return Ok(Ok(result["output"].clone()));
        }
        let (actor, bundle, hash) = self.who(task, known.is_some().then_some(id))?;
        let person = PlanPerson::new(
            Arc::clone(self.engine()),
            plan.id,
            self.approver,
            self.answered_by(plan, task.phase)?,
        );
        let mode = if plan.made_with.read_only {
            PlanMode::ReadOnly
        } else {
            PlanMode::Normal(match task.phase {
                PlanPhase::Strategize => Phase::Strategize,
                PlanPhase::Execute => Phase::Execute,
                PlanPhase::Apply => Phase::Apply,
            })
        };
        let request = AgentRequest {
            actor: &actor,
            budget_name: format!("plan {}", plan.id),
            cost_limits: vec![
                plan.made_with
                    .max_cost_micro_usd
                    .map(cleveragents_domain::MicroUsd),
            ],
            plan: Some(plan.id),
            requirements: ToolRequirements::default(),
            extra_tools: &[],
            workspace: task.workspace,
            mode,
            safety: self.safety(plan)?,
            rules: &[],
            instructions: self.service.instructions(plan)?,
            temperature: None,
            approver: &person,
            observer: self.watcher,
            cancel: self.cancel,
            unknown_outcome: self.options.unknown_outcome,
        };
        let outcome = self.runtime.run(&request, |context| {
            if known.is_some() {
                return service.resume(id, &actor, context);
            }
            let start = RunStart {
                id,
                namespace: plans::belongs_to(plan).to_owned(),
                actor: Arc::clone(&actor),
                actor_hash: hash.clone(),
                definitions: bundle.clone(),
                input: task.input.clone(),
                context: Map::new(),
                options: json!({"plan": plan.id}),
            };
            service.start(&start, context)
        });
        match outcome.map_err(PlanError::of)? {
            Ok(report) => Ok(Ok(report.outcome.output)),
            Err(RunServiceError::Stopped(stopped)) => {
                Ok(Err(why_stopped(&stopped.why, person.open())))
            }
            Err(RunServiceError::Busy { owner, .. }) => Err(PlanError::Busy {
                plan: plan.id,
                owner,
            }),
            Err(error) => Err(PlanError::of(error)),
        }
    }

    /// What the action and the automation profile of a plan demand of tool calls.
    fn safety(&self, plan: &Plan) -> Result<Vec<EffectiveSafety>, PlanError> {
        let mut demands = Vec::new();
        let action = plan.made_with.action.as_ref();
        if let Some(name) = action.and_then(|action| action.safety_profile.as_deref()) {
            let folder = &self.runtime.options().working_folder;
            let safety = find_safety_profile(name, folder, "").map_err(PlanError::of)?;
            demands.push(EffectiveSafety::of(safety.profile, safety.guards));
        }
        let (profile, guards) = self.service.safety(plan)?;
        demands.push(EffectiveSafety::of(profile, guards));
        Ok(demands)
    }

    /// Who answers the questions that actors ask in a phase, by the gates of the plan's profile.
    fn answered_by(&self, plan: &Plan, phase: PlanPhase) -> Result<AnsweredBy, PlanError> {
        let thresholds = &plan.made_with.profile.snapshot.thresholds;
        let (of_phase, of_other) = match phase {
            PlanPhase::Strategize => (
                AutomationGate::StrategyDecision,
                AutomationGate::ExecutionDecision,
            ),
            _ => (
                AutomationGate::ExecutionDecision,
                AutomationGate::StrategyDecision,
            ),
        };
        let threshold = thresholds.threshold(of_phase);
        let is_automated = threshold <= 0.0
            || (threshold < 1.0 && self.service.confidence(plan)?.passes(threshold));
        Ok(if !is_automated {
            AnsweredBy::User
        } else if threshold <= 0.0 && thresholds.threshold(of_other) <= 0.0 {
            AnsweredBy::Actor
        } else {
            AnsweredBy::UserOrActor
        })
    }

    /// The actor of a task, its files and their hash. One that was begun goes on with the files it began with.
    fn who(
        &self,
        task: &Task<'_>,
        begun: Option<RunId>,
    ) -> Result<(Arc<Actor>, Value, String), PlanError> {
        let name = match &task.who {
            Who::Call(call) => {
                return Ok((
                    Arc::new(of_call(call)),
                    json!({"call": call}),
                    String::new(),
                ));
            }
            Who::Actor(name) => name,
        };
        let Some(run) = begun else {
            let found = self.runtime.actor(name).map_err(PlanError::of)?;
            return match role(task.key).filter(|_| found.bundle.files.is_empty()) {
                Some(role) => self.model_as(role, name),
                None => Ok((found.actor, json!(found.bundle), found.hash)),
            };
        };
        let files = self.service.runs.definitions(run).map_err(PlanError::of)?;
        let bundle: Bundle = serde_json::from_value(files)
            .map_err(|error| Error::stored("the files of a run", error.to_string()))?;
        Ok((
            self.runtime.bundled_actor(&bundle).map_err(PlanError::of)?,
            Value::Null,
            String::new(),
        ))
    }

    /// A model takes a part of a plan. Alone it has neither instructions nor tools, so it is given those of the
    /// program's own actor for the part.
    fn model_as(&self, role: &str, model: &str) -> Result<(Arc<Actor>, Value, String), PlanError> {
        let own = self.runtime.actor(role).map_err(PlanError::of)?;
        let mut bundle = own.bundle;
        if let Some(file) = bundle.files.get_mut(role) {
            let mut read: Value = serde_json::from_str(&file.text)
                .map_err(|error| Error::stored("a built-in actor", error.to_string()))?;
            read["model"] = model.into();
            file.text = read.to_string();
        }
        let actor = self.runtime.bundled_actor(&bundle).map_err(PlanError::of)?;
        Ok((actor, json!(bundle), own.hash))
    }

    /// What the runs of the plan took, written to its row.
    pub(super) fn count(&self, plan: &Plan) -> Result<Plan, PlanError> {
        let id = plan.id;
        self.write(move |unit| plans::count_taken(unit, id))?;
        let plan = self.service.get(id)?;
        self.watcher.taken(&plan);
        Ok(plan)
    }
}

/// The program's own actor for a part of a plan, by the path of the step.
fn role(key: &str) -> Option<&'static str> {
    match key.split('/').next() {
        Some("strategize") => Some(STRATEGIST),
        Some("estimate") => Some(ESTIMATOR),
        Some("review") => Some(REVIEWER),
        Some("step" | "fix" | "guidance") => Some(EXECUTOR),
        _ => None,
    }
}

fn why_stopped(why: &RunError, open: Option<Waiting>) -> Stop {
    match why {
        RunError::Cancelled => Stop::Cancelled,
        RunError::HumanNeeded { message, .. } => {
            Stop::Person(Box::new(open.unwrap_or(Waiting::Guidance {
                reason: message.clone(),
            })))
        }
        other => Stop::Failed {
            message: other.to_string(),
            code: cleveragents_domain::Diagnose::code(other)
                .as_str()
                .to_owned(),
            is_transient: match other {
                RunError::Node { failure, .. } => failure.kind == FailureKind::Timeout,
                _ => false,
            },
        },
    }
}

/// The actor of a run that is one call of a plan, by what was kept of it; nothing for other runs.
pub fn calling_actor(definitions: &Value) -> Option<Actor> {
    let call = definitions.get("call")?.clone();
    serde_json::from_value(call).ok().as_ref().map(of_call)
}

/// An actor that makes one call.
fn of_call(call: &StepCall) -> Actor {
    Actor {
        name: "builtin/deterministic".to_owned(),
        kind: ActorKind::Tool,
        description: format!("Calls {}", call.tool),
        version: None,
        role: None,
        is_unsafe: false,
        graph: Graph {
            nodes: vec![Node {
                id: "call".into(),
                kind: NodeKind::Tool(ToolNode {
                    calls: vec![cleveragents_actors::graph::ToolCall {
                        tool: call.tool.clone(),
                        arguments: Argument::Plain(call.arguments.clone()),
                    }],
                    output: "output".to_owned(),
                }),
                edges: Vec::new(),
                is_exit: true,
                timeout: None,
                retries: 0,
                on_error: None,
            }],
            entry: NodeIndex(0),
            keys: std::collections::BTreeMap::new(),
            limits: Limits::of_nodes(1),
        },
        context: Map::new(),
        warnings: Vec::new(),
    }
}
