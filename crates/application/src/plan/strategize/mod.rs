//! [`StrategizePhase`]: checks if a plan can start, runs the strategist, and stores the strategy and its decisions.

mod deterministic;
mod division;
mod parts;
mod preflight;
mod prompt;
mod strategy_decisions;
mod strategy_parser;

use std::fmt::Write as _;

use cleveragents_domain::{
    ActionParts, Code, DecisionId, DecisionType, EventKind, FailureCategory, NewDecision, NewEvent,
    Plan, PlanPhase, PlanReport, PlanStage, PlanStep, PlanStrategy, ReconciledInvariants,
    StageTransition, StepKind, StepState,
};
use cleveragents_store::plan_steps::{NewStep, StepEnd};
use cleveragents_store::plans::TransitionDetails;
use cleveragents_store::{child_plans, decisions, plan_steps, plans, validations};
use serde_json::{Value, json};

use super::actor_runner::{ActorTask, Performer, PlanActorRunner, RunStop};
use super::built_in::DETERMINISTIC;
use super::children::part_requests;
use super::decision::new_decision;
use super::error::PlanError;
use super::failure::{FailureFacts, PhaseFailure};
use super::progress::PlanProgress;
use super::report::StrategyOutcome;
use super::requirements::PlanRequirements;
use super::shared_conversation::ThreadRequest;
use super::snapshot::DecisionSnapshots;
use super::validate::PathRule;
use super::workspace::{PlanWorkspaces, sandbox_name};
use crate::run::bounded;

pub(super) use deterministic::{Criterion, TASK_CRITERION, plan_criteria};
use prompt::{StrategyInputs, invariants_prompt, report_prompt, strategy_prompt};
pub(super) use strategy_decisions::step_decisions;
use strategy_decisions::strategy_decisions;
use strategy_parser::{StrategyResponse, parse_estimate, parse_strategy, parse_violations};

enum StrategistAnswer {
    Strategy(Box<StrategyResponse>),
    /// The strategist reported that the task cannot be done.
    Blocked {
        reason: String,
        suggestion: Option<String>,
    },
}

/// The first phase of a plan. All file changes of its commands are rolled back.
pub(super) struct StrategizePhase<'a> {
    pub(super) requirements: &'a PlanRequirements,
    pub(super) snapshots: &'a DecisionSnapshots,
    pub(super) workspaces: &'a PlanWorkspaces,
    pub(super) actors: &'a PlanActorRunner<'a>,
    pub(super) progress: &'a PlanProgress<'a>,
    /// Maximum number of plans above a child plan.
    pub(super) max_child_depth: u64,
}

impl StrategizePhase<'_> {
    /// Runs the phase. Returns the plan in its new stage.
    pub(super) fn run(&self, plan: Plan) -> Result<Plan, PlanError> {
        let plan = if plan.stage == PlanStage::StrategizeQueued {
            self.start(&plan)?
        } else {
            plan
        };
        let Some(root) = plan.decision_root else {
            return Err(PlanError::NotFound(plan.id));
        };
        let failed = StageTransition::FailStrategize;
        let response = match self.ask_strategist(&plan)? {
            Ok(StrategistAnswer::Strategy(response)) => *response,
            Ok(StrategistAnswer::Blocked { reason, suggestion }) => {
                self.progress.record_usage(&plan)?;
                return self.block(&plan, &reason, suggestion.as_deref());
            }
            Err(stop) => return self.progress.stop_phase(&plan, failed, stop),
        };
        self.progress.record_usage(&plan)?;
        let strategy = match response.strategy.clone().ordered() {
            Ok(strategy) => strategy,
            // Nothing has to change; the checks of the plan confirm it.
            Err(_) if response.has_nothing_to_do => response.strategy.clone(),
            Err(fault) => {
                let message = format!("the strategy cannot be used: {fault}");
                let failure = PhaseFailure::new(FailureCategory::Strategy, message);
                return self.progress.fail(&plan, failed, failure);
            }
        };
        if let Some(message) = self.depth_fault(&plan, &strategy)? {
            let failure = PhaseFailure::new(FailureCategory::Strategy, message);
            return self.progress.fail(&plan, failed, failure);
        }
        let reconciled = self.requirements.check_invariants(&plan)?;
        let violation = match planned_violation(&reconciled, &strategy) {
            Some(violation) => Some(violation),
            None => match self.check_invariants(&plan, &reconciled, &strategy)? {
                Ok(violation) => violation,
                Err(stop) => return self.progress.stop_phase(&plan, failed, stop),
            },
        };
        if let Some(violation) = violation {
            let facts = FailureFacts::default();
            return self
                .progress
                .fail_violation(&plan, failed, violation, facts);
        }
        let plan = self.complete(&plan, root, &response, &strategy)?;
        self.estimate(&plan)
    }

    /// Describes why a strategy is refused; `None` if its child plans are not deeper than the limit.
    fn depth_fault(
        &self,
        plan: &Plan,
        strategy: &PlanStrategy,
    ) -> Result<Option<String>, PlanError> {
        let levels = strategy.child_levels();
        if levels == 0 {
            return Ok(None);
        }
        let above = self
            .progress
            .read(|reader| child_plans::depth(reader, plan.id))?;
        let depth = above + levels;
        Ok((depth > self.max_child_depth).then(|| {
            format!(
                "the strategy cannot be used: its child plans would be {depth} levels deep, and \
                 `plan.max-child-depth` is {}",
                self.max_child_depth
            )
        }))
    }

    /// Starts the phase: stores the root decision, the invariants and the new stage in one transaction.
    fn start(&self, plan: &Plan) -> Result<Plan, PlanError> {
        let failed = preflight::failed_checks(
            plan,
            self.requirements,
            &self.workspaces.sandboxes,
            self.actors.runtime,
        );
        if !failed.is_empty() {
            return Err(PlanError::Preflight {
                plan: plan.id,
                failed,
            });
        }
        let reconciled = match self.requirements.check_invariants(plan) {
            Ok(reconciled) => reconciled,
            Err(PlanError::Invariant { reason, plan: id }) => {
                self.progress.record_violation(plan, &reason)?;
                return Err(PlanError::Invariant { plan: id, reason });
            }
            Err(error) => return Err(error),
        };
        let id = plan.id;
        let root = plan.decision_root.unwrap_or_else(DecisionId::generate);
        let new = self.first_decisions(plan, root, &reconciled)?;
        let enforced: Vec<DecisionId> = new
            .iter()
            .filter(|decision| decision.kind == DecisionType::InvariantEnforced)
            .map(|decision| decision.id)
            .collect();
        let payload = json!({
            "phase": PlanPhase::Strategize, "effective_count": reconciled.effective.len(),
            "conflict_count": reconciled.conflicts.len(), "enforced_decision_ids": enforced,
        });
        let sandbox = sandbox_name(id);
        let path = strategize_path(plan);
        let started = self.progress.write(move |unit| {
            for decision in &new {
                decisions::insert(unit, id, decision)?;
            }
            plans::set_root(unit, id, root)?;
            plans::set_sandbox(unit, id, &sandbox)?;
            unit.emit(NewEvent {
                kind: EventKind::InvariantsReconciled,
                subject: id.to_string(),
                payload: payload.clone(),
            });
            let new = NewStep {
                path: path.clone(),
                title: "Strategize".to_owned(),
                checkpoint: None,
                position: 0,
            };
            let step = plan_steps::begin(unit, id, &new)?;
            plan_steps::set_run(unit, id, step.number, id.run(&path))?;
            let details = TransitionDetails::default();
            plans::advance(unit, id, StageTransition::StartStrategize, &details)
        })?;
        let plan = started.ok_or(PlanError::NotFound(id))?;
        self.progress.observer.stage_changed(&plan);
        Ok(plan)
    }

    /// The root decision, and a decision for each invariant that has none yet.
    fn first_decisions(
        &self,
        plan: &Plan,
        root: DecisionId,
        reconciled: &ReconciledInvariants,
    ) -> Result<Vec<NewDecision>, PlanError> {
        let mut new = Vec::new();
        if plan.decision_root.is_none() {
            new.push(NewDecision {
                id: root,
                parent: None,
                ..new_decision(
                    root,
                    DecisionType::PromptDefinition,
                    PlanPhase::Strategize,
                    "What should the plan do?",
                    &plan.description,
                    format!("created from the action `{}`", plan.action),
                )
            });
        }
        let enforced: Vec<String> = self
            .progress
            .read(|reader| decisions::of_plan(reader, plan.id))?
            .into_iter()
            .filter(|decision| decision.content.kind == DecisionType::InvariantEnforced)
            .map(|decision| decision.content.chosen)
            .collect();
        for invariant in &reconciled.effective {
            if enforced.contains(&invariant.text) {
                continue;
            }
            let source_name = invariant.source_name.as_deref().unwrap_or("everywhere");
            new.push(new_decision(
                root,
                DecisionType::InvariantEnforced,
                PlanPhase::Strategize,
                "What must stay true?",
                &invariant.text,
                format!("set for {} ({source_name})", invariant.source.as_str()),
            ));
        }
        let snapshot = self.snapshots.take(plan, None)?;
        for decision in &mut new {
            decision.snapshot.clone_from(&snapshot);
        }
        Ok(new)
    }

    /// Fails the phase because the strategist reported that the task cannot be done.
    fn block(
        &self,
        plan: &Plan,
        reason: &str,
        suggestion: Option<&str>,
    ) -> Result<Plan, PlanError> {
        let mut message = format!("the task is blocked: {reason}");
        if let Some(suggestion) = suggestion {
            message.truncate(message.trim_end_matches('.').len());
            let _written = write!(message, ". Suggestion: {suggestion}");
        }
        let facts = FailureFacts {
            is_retriable: Some(false),
            details: Some(json!({"reason": reason, "suggestion": suggestion})),
            ..FailureFacts::default()
        };
        let failure = PhaseFailure::new(FailureCategory::Blocked, message).with_facts(facts);
        self.progress
            .fail(plan, StageTransition::FailStrategize, failure)
    }

    /// Asks the strategist for a strategy.
    fn ask_strategist(&self, plan: &Plan) -> Result<Result<StrategistAnswer, RunStop>, PlanError> {
        let unusable = |message: String| RunStop::Failed {
            message,
            code: Code::PlanFailed,
            is_transient: false,
        };
        if let Some(strategy) = plan
            .strategy
            .as_ref()
            .filter(|_| plan.is_subplan() && plan.attempt == 1)
        {
            return Ok(Ok(StrategistAnswer::Strategy(Box::new(
                strategy.clone().into(),
            ))));
        }
        if let Some(parts) = divided_by_action(plan) {
            let workspace = self.workspaces.open(plan, self.progress.cancel)?;
            return Ok(parts::strategy(parts, &workspace)
                .map(|strategy| StrategistAnswer::Strategy(Box::new(strategy.into())))
                .map_err(unusable));
        }
        let name = &plan.inputs.actors.strategy;
        if name == DETERMINISTIC {
            return Ok(deterministic::strategy(plan)
                .map(|strategy| StrategistAnswer::Strategy(Box::new(strategy.into())))
                .map_err(unusable));
        }
        let workspace = self.workspaces.open(plan, self.progress.cancel)?;
        let path = strategize_path(plan);
        let (step, guidance, results) = self.progress.read(|reader| {
            Ok((
                plan_steps::current(reader, plan.id, &path)?,
                plan_steps::guidance(reader, plan.id)?,
                validations::results(reader, plan.id)?,
            ))
        })?;
        let thread = ThreadRequest {
            actor: name,
            before: step.map_or(u64::MAX, |step| step.number),
            blocked: None,
            changed: &workspace.changed_paths(0)?,
            strategy: None,
        };
        let kind = StepKind::Strategize;
        let is_built_in = self.actors.is_built_in(name, kind)?;
        let report = plan.inputs.report;
        let is_whole_result = report.is_some_and(PlanReport::is_whole_result);
        let inputs = StrategyInputs {
            validations: self.requirements.validations_in_effect(plan)?,
            guidance,
            results,
            thread: self.actors.thread(plan, &thread)?,
            instructions: (is_built_in && !is_whole_result)
                .then(|| self.actors.prompts(plan).text("strategist").to_owned()),
        };
        let answer = self.actors.run(
            plan,
            &ActorTask {
                key: &path,
                performer: Performer::Actor(name, kind),
                prompt: if is_whole_result {
                    report_prompt(plan, &inputs)
                } else {
                    strategy_prompt(plan, &inputs)
                },
                phase: PlanPhase::Strategize,
                workspace: Some(&workspace),
                carried: inputs.thread.carried.clone(),
                work: None,
            },
        )?;
        let requested = self.requested_parts(plan, &path)?;
        Ok(
            answer.and_then(|value| match StrategyOutcome::parse(&value) {
                StrategyOutcome::Blocked { reason, suggestion } => {
                    Ok(StrategistAnswer::Blocked { reason, suggestion })
                }
                StrategyOutcome::NothingToDo(summary) if !requested.is_empty() => {
                    let strategy = PlanStrategy {
                        summary,
                        steps: requested,
                        ..PlanStrategy::default()
                    };
                    Ok(StrategistAnswer::Strategy(Box::new(strategy.into())))
                }
                StrategyOutcome::NothingToDo(reason) => {
                    let response = StrategyResponse::nothing_to_do(&reason);
                    Ok(StrategistAnswer::Strategy(Box::new(response)))
                }
                StrategyOutcome::Strategy => parse_strategy(&value)
                    .map(|mut response| {
                        response.strategy.steps.extend(requested);
                        StrategistAnswer::Strategy(Box::new(response))
                    })
                    .map_err(unusable),
            }),
        )
    }

    /// The parts that the strategist requested with a tool.
    fn requested_parts(&self, plan: &Plan, path: &str) -> Result<Vec<PlanStep>, PlanError> {
        let requests = self
            .progress
            .read(|reader| part_requests(reader, plan.id))?;
        let of_strategist = requests.into_iter().filter(|request| request.path == path);
        Ok(of_strategist.map(|request| request.step).collect())
    }

    /// True if the strategist answered in this attempt.
    pub(super) fn has_answered(&self, plan: &Plan) -> Result<bool, PlanError> {
        self.actors.is_complete(plan, &strategize_path(plan))
    }

    /// Checks the strategy with the invariant actor, if the plan has one. Only a model can check invariants in prose.
    fn check_invariants(
        &self,
        plan: &Plan,
        reconciled: &ReconciledInvariants,
        strategy: &PlanStrategy,
    ) -> Result<Result<Option<String>, RunStop>, PlanError> {
        let name = plan.inputs.actors.invariant.as_deref();
        let Some(name) = name.filter(|name| *name != DETERMINISTIC) else {
            return Ok(Ok(None));
        };
        if reconciled.effective.is_empty() {
            return Ok(Ok(None));
        }
        let prompt = invariants_prompt(reconciled, strategy);
        let kind = StepKind::CheckInvariants;
        let answer = self.run_recorded(plan, name, kind, "Check invariants", prompt)?;
        Ok(answer.map(|answer| parse_violations(&answer)))
    }

    /// Stores the strategy and its decisions, and completes the phase.
    fn complete(
        &self,
        plan: &Plan,
        root: DecisionId,
        response: &StrategyResponse,
        strategy: &PlanStrategy,
    ) -> Result<Plan, PlanError> {
        let (id, path) = (plan.id, strategize_path(plan));
        let snapshot = self.snapshots.take(plan, Some(id.run(&path)))?;
        let mut new = strategy_decisions(root, response, strategy, &snapshot);
        let reasoning = reasoning(self.actors, plan, &path)?;
        for decision in &mut new {
            decision.reasoning.clone_from(&reasoning);
        }
        let stored = strategy.clone();
        let is_guidance_read =
            plan.inputs.actors.strategy != DETERMINISTIC && divided_by_action(plan).is_none();
        let completed = self.progress.write(move |unit| {
            for decision in &new {
                decisions::insert(unit, id, decision)?;
            }
            plans::set_strategy(unit, id, Some(&stored))?;
            if let Some(step) = plan_steps::current(unit, id, &path)? {
                let end = StepEnd {
                    state: StepState::Done,
                    summary: stored.summary.clone(),
                    position: 0,
                    decision: new.first().map(|decision| decision.id),
                };
                plan_steps::finish(unit, id, step.number, &end)?;
            }
            let guidance = plan_steps::guidance(unit, id)?;
            if let Some(last) = guidance.last().filter(|_| is_guidance_read) {
                plan_steps::mark_guidance_applied(unit, id, last.number)?;
            }
            plans::record_usage(unit, id)?;
            let details = TransitionDetails {
                clears_error: true,
                ..TransitionDetails::default()
            };
            plans::advance(unit, id, StageTransition::CompleteStrategize, &details)
        })?;
        let plan = completed.ok_or(PlanError::NotFound(id))?;
        self.progress.observer.stage_changed(&plan);
        self.progress.observer.strategy(strategy);
        self.progress.observer.usage(&plan);
        Ok(plan)
    }

    /// Estimates effort and cost with the estimation actor, if the plan has one. A failure of the actor is stored in
    /// the estimate and does not stop the plan.
    fn estimate(&self, plan: &Plan) -> Result<Plan, PlanError> {
        let strategy = plan.strategy.clone().unwrap_or_default();
        let mut estimate = json!({"steps": strategy.steps.len(), "files": strategy.files().len()});
        if let Some(name) = &plan.inputs.actors.estimation
            && name != DETERMINISTIC
        {
            let prompt = format!("Estimate this strategy.\n\n{}", strategy.to_markdown());
            match self.run_recorded(plan, name, StepKind::Estimate, "Estimate", prompt) {
                Ok(Ok(value)) => estimate["actor"] = parse_estimate(value),
                Ok(Err(RunStop::Cancelled)) => return Err(self.progress.stopped(plan)?),
                Ok(Err(RunStop::Failed { message, .. })) => estimate["problem"] = message.into(),
                Ok(Err(RunStop::NeedsInput(_))) => {
                    estimate["problem"] = "it requested input from the user".into();
                }
                Err(error) => estimate["problem"] = error.to_string().into(),
            }
        }
        let id = plan.id;
        self.progress.write(move |unit| {
            plans::set_estimate(unit, id, &estimate)?;
            plans::record_usage(unit, id)?;
            unit.emit(NewEvent {
                kind: EventKind::PlanEstimated,
                subject: id.to_string(),
                payload: estimate.clone(),
            });
            Ok(())
        })?;
        self.progress.store.get(id)
    }

    /// Runs an actor as a step of the plan, and stores the record of the step.
    fn run_recorded(
        &self,
        plan: &Plan,
        actor: &str,
        kind: StepKind,
        title: &str,
        prompt: String,
    ) -> Result<Result<Value, RunStop>, PlanError> {
        let id = plan.id;
        let path = kind.path(&[plan.attempt]);
        let new = NewStep {
            path: path.clone(),
            title: title.to_owned(),
            checkpoint: None,
            position: 0,
        };
        let run = id.run(&path);
        let step = self.progress.write(move |unit| {
            let step = plan_steps::begin(unit, id, &new)?;
            plan_steps::set_run(unit, id, step.number, run)?;
            Ok(step)
        })?;
        let task = ActorTask {
            key: &path,
            performer: Performer::Actor(actor, kind),
            prompt,
            phase: PlanPhase::Strategize,
            workspace: None,
            carried: None,
            work: None,
        };
        let outcome = self.actors.run(plan, &task)?;
        let end = match &outcome {
            Ok(_) => Some((StepState::Done, String::new())),
            Err(RunStop::Failed { message, .. }) => Some((StepState::Failed, message.clone())),
            Err(RunStop::NeedsInput(_) | RunStop::Cancelled) => None,
        };
        if let Some((state, summary)) = end {
            let end = StepEnd {
                state,
                summary,
                position: 0,
                decision: None,
            };
            self.progress
                .write(move |unit| plan_steps::finish(unit, id, step.number, &end))?;
        }
        Ok(outcome)
    }
}

/// The division of the task by the action. A child plan, which has the action of its parent, is one of the parts.
fn divided_by_action(plan: &Plan) -> Option<&ActionParts> {
    let action = plan.inputs.action.as_ref()?;
    action.parts.as_ref().filter(|_| !plan.is_subplan())
}

/// The path of the strategist's step, which is also the key of its run.
fn strategize_path(plan: &Plan) -> String {
    StepKind::Strategize.path(&[plan.attempt])
}

/// The stored answers and reasoning of the run that led to a decision, redacted and shortened.
pub(super) fn reasoning(
    actors: &PlanActorRunner<'_>,
    plan: &Plan,
    key: &str,
) -> Result<Option<String>, PlanError> {
    let trace = actors
        .runs
        .trace(plan.id.run(key))
        .map_err(PlanError::from_service)?;
    // The text is redacted before it is shortened, because the redactor does not recognize parts of secrets.
    Ok(trace.map(|trace| bounded(&actors.runtime.redactor().text(&trace))))
}

/// Describes the first planned change that violates an invariant about paths.
fn planned_violation(reconciled: &ReconciledInvariants, strategy: &PlanStrategy) -> Option<String> {
    for invariant in &reconciled.effective {
        let Some(rule) = PathRule::parse(&invariant.text) else {
            continue;
        };
        for (number, step) in (1..).zip(&strategy.steps) {
            if let Some(path) = step.files.iter().find(|path| rule.forbids(path)) {
                return Some(format!(
                    "step {number} plans to change `{path}`, and the invariant \"{}\" forbids it",
                    invariant.text
                ));
            }
        }
    }
    None
}
