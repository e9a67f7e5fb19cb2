//! Strategize: records what holds for a plan, has it thought out, and stores what was decided.

use std::fmt::Write as _;

use cleveragents_domain::{
    ContextSnapshot, DecisionId, DecisionType, EventKind, Move, NewDecision, NewEvent, Plan,
    PlanPhase, PlanStage, PlanStrategy, Reconciled, RunState, StepState,
};
use cleveragents_store::plan_steps::{NewStep, StepEnd};
use cleveragents_store::plans::Along;
use cleveragents_store::{decisions, plan_steps, plans, validations};
use serde_json::{Map, Value, json};

use super::built_in::DETERMINISTIC;
use super::deterministic;
use super::drive::{Drive, Stop, Task, Who};
use super::error::PlanError;
use super::ground::sandbox_name;
use super::rules::PathRule;
use super::snapshot::minding;
use super::strategy_parser::{Told, figures, read_told, violations};
use crate::run::{RunServiceError, bounded};

/// A decision of the program itself.
pub(super) fn decided(
    parent: DecisionId,
    kind: DecisionType,
    phase: PlanPhase,
    question: impl Into<String>,
    chosen: impl Into<String>,
    why: impl Into<String>,
) -> NewDecision {
    NewDecision {
        id: DecisionId::generate(),
        parent: Some(parent),
        kind,
        phase,
        question: question.into(),
        chosen: chosen.into(),
        alternatives: Vec::new(),
        confidence: None,
        rationale: why.into(),
        reasoning: None,
        snapshot: ContextSnapshot::default(),
        artifacts: Vec::new(),
        influenced_by: Vec::new(),
    }
}

impl Drive<'_> {
    /// Thinks the plan out.
    pub(super) fn strategize(&self, plan: Plan) -> Result<Plan, PlanError> {
        let plan = if plan.stage == PlanStage::StrategizeQueued {
            self.begin(&plan)?
        } else {
            plan
        };
        let Some(root) = plan.decision_root else {
            return Err(PlanError::NotFound(plan.id));
        };
        let told = match self.think(&plan)? {
            Ok(told) => told,
            Err(stop) => return self.halt(&plan, Move::FailStrategize, stop),
        };
        self.count(&plan)?;
        let key = strategize_path(&plan);
        let strategy = match told.strategy.clone().ordered() {
            Ok(strategy) => strategy,
            Err(fault) => {
                let message = format!("the strategy cannot be used: {fault}");
                return self.fail(
                    &plan,
                    Move::FailStrategize,
                    "strategy",
                    &message,
                    Value::Null,
                );
            }
        };
        let reconciled = self.service.check_invariants(&plan)?;
        if let Some(violation) = planned_violation(&reconciled, &strategy) {
            self.violated(&plan, &violation)?;
            return self.fail(
                &plan,
                Move::FailStrategize,
                "invariant",
                &violation,
                Value::Null,
            );
        }
        match self.ask_about_invariants(&plan, &reconciled, &strategy)? {
            Ok(None) => {}
            Ok(Some(violation)) => {
                self.violated(&plan, &violation)?;
                return self.fail(
                    &plan,
                    Move::FailStrategize,
                    "invariant",
                    &violation,
                    Value::Null,
                );
            }
            Err(stop) => return self.halt(&plan, Move::FailStrategize, stop),
        }
        let snapshot = self.service.snapshot(&plan, Some(plan.id.run(&key)))?;
        let mut all = Self::decisions(root, &told, &strategy, &snapshot);
        let reasoning = self.reasoning(&plan, &key)?;
        for decision in &mut all {
            decision.reasoning.clone_from(&reasoning);
        }
        let id = plan.id;
        let stored = strategy.clone();
        let summary = strategy.summary.clone();
        let path = key.clone();
        let first = all.first().map(|decision| decision.id);
        let is_read = plan.made_with.actors.strategy != DETERMINISTIC;
        let completed = self.write(move |unit| {
            for decision in &all {
                decisions::insert(unit, id, decision)?;
            }
            plans::set_strategy(unit, id, Some(&stored))?;
            if let Some(step) = plan_steps::current(unit, id, &path)? {
                let end = StepEnd {
                    state: StepState::Done,
                    summary: summary.clone(),
                    position: 0,
                    decision: first,
                };
                plan_steps::finish(unit, id, step.number, &end)?;
            }
            let heard = plan_steps::guidance(unit, id)?;
            if let Some(last) = heard.last().filter(|_| is_read) {
                plan_steps::heed(unit, id, last.number)?;
            }
            plans::count_taken(unit, id)?;
            let along = Along {
                forgets_error: true,
                ..Along::default()
            };
            plans::advance(unit, id, Move::CompleteStrategize, &along)
        })?;
        let plan = completed.ok_or(PlanError::NotFound(id))?;
        self.watcher.stage(&plan);
        self.watcher.strategy(&strategy);
        self.watcher.taken(&plan);
        self.estimate(&plan)
    }

    /// Asks the invariant actor, when there is one, whether the strategy would break an invariant. Nobody
    /// but it can judge those that are mere words.
    fn ask_about_invariants(
        &self,
        plan: &Plan,
        reconciled: &Reconciled,
        strategy: &PlanStrategy,
    ) -> Result<Result<Option<String>, Stop>, PlanError> {
        let name = plan.made_with.actors.invariant.as_deref();
        let Some(name) = name.filter(|name| *name != DETERMINISTIC) else {
            return Ok(Ok(None));
        };
        if reconciled.effective.is_empty() {
            return Ok(Ok(None));
        }
        let mut text = "Would this strategy break one of the invariants? Answer with one JSON object \
             {\"violations\": [{\"invariant\": …, \"reason\": …}]}, an empty list when it breaks none.\n\nInvariants:\n"
            .to_owned();
        for invariant in &reconciled.effective {
            let _written = writeln!(text, "- {}", invariant.text);
        }
        let _written = write!(text, "\n{}", strategy.to_markdown());
        let mut input = Map::new();
        input.insert("input".to_owned(), text.into());
        let key = format!("invariants/{}", plan.attempt);
        let said = self.recorded(plan, &key, "Judge invariants", 0, |drive| {
            drive.perform(
                plan,
                &Task {
                    key: &key,
                    who: Who::Actor(name),
                    input,
                    phase: PlanPhase::Strategize,
                    workspace: None,
                },
            )
        })?;
        Ok(said.map(|said| violations(&said)))
    }

    /// From queued to processing, with everything that is known beforehand, in one step.
    fn begin(&self, plan: &Plan) -> Result<Plan, PlanError> {
        let failed = self.service.preflight(plan, self.runtime);
        if !failed.is_empty() {
            return Err(PlanError::Preflight {
                plan: plan.id,
                failed,
            });
        }
        let reconciled = match self.service.check_invariants(plan) {
            Ok(reconciled) => reconciled,
            Err(PlanError::Invariant { reason, plan: id }) => {
                self.violated(plan, &reason)?;
                return Err(PlanError::Invariant { plan: id, reason });
            }
            Err(error) => return Err(error),
        };
        let id = plan.id;
        let known = plan.decision_root;
        let root = known.unwrap_or_else(DecisionId::generate);
        let snapshot = self.service.snapshot(plan, None)?;
        let mut new = Vec::new();
        if known.is_none() {
            new.push(NewDecision {
                id: root,
                parent: None,
                ..decided(
                    root,
                    DecisionType::PromptDefinition,
                    PlanPhase::Strategize,
                    "What is the plan to do?",
                    &plan.description,
                    format!("made from the action `{}`", plan.action),
                )
            });
        }
        let enforced: Vec<String> = if known.is_some() {
            self.engine()
                .read(|reader| decisions::of_plan(reader, id))?
                .into_iter()
                .filter(|decision| decision.said.kind == DecisionType::InvariantEnforced)
                .map(|decision| decision.said.chosen)
                .collect()
        } else {
            Vec::new()
        };
        for invariant in &reconciled.effective {
            if enforced.contains(&invariant.text) {
                continue;
            }
            let of = invariant.source_name.as_deref().unwrap_or("everywhere");
            new.push(decided(
                root,
                DecisionType::InvariantEnforced,
                PlanPhase::Strategize,
                "What must stay true?",
                &invariant.text,
                format!("set for {} ({of})", invariant.source.as_str()),
            ));
        }
        for decision in &mut new {
            decision.snapshot.clone_from(&snapshot);
        }
        let ids: Vec<DecisionId> = new
            .iter()
            .filter(|decision| decision.kind == DecisionType::InvariantEnforced)
            .map(|decision| decision.id)
            .collect();
        let payload = json!({
            "phase": "strategize", "effective_count": reconciled.effective.len(),
            "conflict_count": reconciled.conflicts.len(), "enforced_decision_ids": ids,
        });
        let sandbox = sandbox_name(id);
        let path = strategize_path(plan);
        let run = id.run(&path);
        let moved = self.write(move |unit| {
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
            let step = plan_steps::begin(
                unit,
                id,
                &NewStep {
                    path: path.clone(),
                    title: "Think it out".to_owned(),
                    checkpoint: None,
                    position: 0,
                },
            )?;
            plan_steps::set_run(unit, id, step.number, run)?;
            plans::advance(unit, id, Move::StartStrategize, &Along::default())
        })?;
        let plan = moved.ok_or(PlanError::NotFound(id))?;
        self.watcher.stage(&plan);
        Ok(plan)
    }

    /// Writes down that an invariant stands in the way.
    pub(super) fn violated(&self, plan: &Plan, reason: &str) -> Result<(), PlanError> {
        let (id, reason) = (plan.id, reason.to_owned());
        self.write(move |unit| {
            unit.emit(NewEvent {
                kind: EventKind::InvariantViolated,
                subject: id.to_string(),
                payload: json!({"reason": reason}),
            });
            let mut error = Map::new();
            error.insert("message".to_owned(), reason.clone().into());
            error.insert("error_category".to_owned(), "invariant".into());
            plans::merge_error(unit, id, &error)
        })
    }

    /// Asks the strategist.
    fn think(&self, plan: &Plan) -> Result<Result<Told, Stop>, PlanError> {
        let failed = |message: String| Stop::Failed {
            message,
            code: "CA-1145".to_owned(),
            is_transient: false,
        };
        let name = &plan.made_with.actors.strategy;
        if name == DETERMINISTIC {
            return Ok(deterministic::strategy(&plan.definition_of_done)
                .map(|strategy| Told {
                    strategy,
                    decisions: Vec::new(),
                })
                .map_err(failed));
        }
        let workspace = self.service.workspace(plan, self.cancel)?;
        let mut input = Map::new();
        input.insert("input".to_owned(), self.task_text(plan)?.into());
        let key = strategize_path(plan);
        let answer = self.perform(
            plan,
            &Task {
                key: &key,
                who: Who::Actor(name),
                input,
                phase: PlanPhase::Strategize,
                workspace: Some(&workspace),
            },
        )?;
        Ok(answer.and_then(|value| read_told(&value).map_err(failed)))
    }

    /// Whether the strategist came to an answer in this attempt.
    pub(super) fn has_answered(&self, plan: &Plan) -> Result<bool, PlanError> {
        match self.service.runs.get(plan.id.run(&strategize_path(plan))) {
            Ok(run) => Ok(run.state == RunState::Complete),
            Err(RunServiceError::NotFound { .. }) => Ok(false),
            Err(error) => Err(PlanError::of(error)),
        }
    }

    /// What the strategist is asked.
    fn task_text(&self, plan: &Plan) -> Result<String, PlanError> {
        let mut text = format!(
            "Think out a plan.\n\n{}\n\nIt is done when:\n{}\n",
            plan.description, plan.definition_of_done
        );
        if !plan.made_with.arguments.is_empty() {
            text.push_str("\nValues that were given:\n");
            for name in &plan.made_with.arguments_order {
                let value = &plan.made_with.arguments[name];
                let _written = writeln!(text, "- {name}: {value}");
            }
        }
        let attached = self.service.validations_in_effect(plan)?;
        if !attached.is_empty() {
            text.push_str("\nThese validations run at the end, and required ones must pass:\n");
            for one in &attached {
                let _written = writeln!(
                    text,
                    "- {} ({}): {}",
                    one.validation.name,
                    one.validation.mode.as_str(),
                    one.validation.description
                );
            }
        }
        let (said, results) = self.engine().read(|reader| {
            Ok::<_, cleveragents_store::Error>((
                plan_steps::guidance(reader, plan.id)?,
                validations::results(reader, plan.id)?,
            ))
        })?;
        if !said.is_empty() {
            text.push_str("\nThe person said:\n");
            for one in &said {
                let _written = writeln!(text, "- {}", one.text);
            }
        }
        if plan.attempt > 1 {
            text.push_str("\nAn earlier strategy did not work. It was:\n");
            if let Some(strategy) = &plan.strategy {
                text.push_str(&strategy.to_markdown());
            }
            if let Some(message) = plan.error.as_ref().and_then(|error| error.get("message")) {
                let _written = writeln!(text, "\nWhat went wrong: {message}");
            }
            for result in results.iter().filter(|result| !result.result.passed) {
                let _written = writeln!(
                    text,
                    "\nThe validation `{}` failed: {}",
                    result.result.validation, result.result.message
                );
            }
        }
        Ok(text)
    }

    /// The decisions of a strategy: the way, the choices, the steps.
    fn decisions(
        root: DecisionId,
        told: &Told,
        strategy: &PlanStrategy,
        snapshot: &ContextSnapshot,
    ) -> Vec<NewDecision> {
        let way = NewDecision {
            confidence: strategy.risk.map(|risk| 1.0 - risk),
            snapshot: snapshot.clone(),
            ..decided(
                root,
                DecisionType::StrategyChoice,
                PlanPhase::Strategize,
                "Which way is taken?",
                &strategy.summary,
                format!("{} steps", strategy.steps.len()),
            )
        };
        let above = way.id;
        let mut all = vec![way];
        let mut chosen: Vec<DecisionId> = Vec::new();
        for told in &told.decisions {
            let kind = match told.kind.as_deref() {
                Some("resource_selection") => DecisionType::ResourceSelection,
                _ => DecisionType::StrategyChoice,
            };
            let decision = NewDecision {
                alternatives: told.alternatives.clone(),
                confidence: told.confidence,
                snapshot: minding(snapshot, &told.resources),
                influenced_by: told
                    .depends_on
                    .iter()
                    .filter_map(|number| chosen.get(number.checked_sub(1)?).copied())
                    .collect(),
                ..decided(
                    above,
                    kind,
                    PlanPhase::Strategize,
                    &told.question,
                    &told.chosen,
                    &told.rationale,
                )
            };
            chosen.push(decision.id);
            all.push(decision);
        }
        let mut steps: Vec<DecisionId> = Vec::new();
        for (number, step) in (1..).zip(&strategy.steps) {
            let decision = NewDecision {
                confidence: step.risk.map(|risk| 1.0 - risk),
                snapshot: minding(snapshot, &step.files),
                influenced_by: step
                    .after
                    .iter()
                    .filter_map(|after| steps.get(after.checked_sub(1)?).copied())
                    .collect(),
                ..decided(
                    above,
                    DecisionType::StrategyChoice,
                    PlanPhase::Strategize,
                    format!("What is step {number}?"),
                    &step.title,
                    &step.description,
                )
            };
            steps.push(decision.id);
            all.push(decision);
        }
        all
    }

    /// What the actor of a run said and thought on the way to a decision, as far as it is kept.
    pub(super) fn reasoning(&self, plan: &Plan, key: &str) -> Result<Option<String>, PlanError> {
        let trace = self.service.runs.trace(plan.id.run(key));
        let trace = trace.map_err(PlanError::of)?;
        // Redacted first: a cut could leave a piece of a secret that is not recognised.
        Ok(trace.map(|trace| bounded(&self.runtime.redactor().text(&trace))))
    }

    /// Has it estimated what the plan will take. Nothing depends on it.
    fn estimate(&self, plan: &Plan) -> Result<Plan, PlanError> {
        let steps = plan
            .strategy
            .as_ref()
            .map_or(0, |strategy| strategy.steps.len());
        let files = plan
            .strategy
            .as_ref()
            .map_or(0, |strategy| strategy.files().len());
        let mut estimate = json!({"steps": steps, "files": files, "child_plans": 0});
        if let Some(name) = &plan.made_with.actors.estimation
            && name != DETERMINISTIC
        {
            let mut input = Map::new();
            let text = plan
                .strategy
                .as_ref()
                .map(PlanStrategy::to_markdown)
                .unwrap_or_default();
            input.insert(
                "input".to_owned(),
                format!("Estimate this strategy.\n\n{text}").into(),
            );
            let key = format!("estimate/{}", plan.attempt);
            let answer = self.recorded(plan, &key, "Estimate", 0, |drive| {
                drive.perform(
                    plan,
                    &Task {
                        key: &key,
                        who: Who::Actor(name),
                        input: input.clone(),
                        phase: PlanPhase::Strategize,
                        workspace: None,
                    },
                )
            });
            match answer {
                Ok(Ok(value)) => estimate["actor"] = figures(value),
                Ok(Err(Stop::Cancelled)) => return Err(self.stopped(plan)?),
                Ok(Err(Stop::Failed { message, .. })) => estimate["problem"] = message.into(),
                Ok(Err(Stop::Person(_))) => estimate["problem"] = "it asked for a person".into(),
                Err(error) => estimate["problem"] = error.to_string().into(),
            }
        }
        let id = plan.id;
        self.write(move |unit| {
            plans::set_estimate(unit, id, &estimate)?;
            plans::count_taken(unit, id)?;
            unit.emit(NewEvent {
                kind: EventKind::PlanEstimated,
                subject: id.to_string(),
                payload: estimate.clone(),
            });
            Ok(())
        })?;
        self.service.get(id)
    }

    /// Stops a phase as its run stopped.
    pub(super) fn halt(&self, plan: &Plan, way: Move, stop: Stop) -> Result<Plan, PlanError> {
        self.count(plan)?;
        match stop {
            Stop::Person(waiting) => self.wait(plan, *waiting),
            Stop::Cancelled => Err(self.stopped(plan)?),
            Stop::Failed {
                message,
                code,
                is_transient,
            } => {
                let category = if is_transient { "transient" } else { "failure" };
                let more = json!({"code": code, "is_retriable": true});
                self.fail(plan, way, category, &message, more)
            }
        }
    }

    /// Does something as a step of the plan that has a row of its own.
    pub(super) fn recorded<T>(
        &self,
        plan: &Plan,
        path: &str,
        title: &str,
        position: u64,
        work: impl FnOnce(&Self) -> Result<Result<T, Stop>, PlanError>,
    ) -> Result<Result<T, Stop>, PlanError> {
        let id = plan.id;
        let new = NewStep {
            path: path.to_owned(),
            title: title.to_owned(),
            checkpoint: None,
            position,
        };
        let run = id.run(path);
        let step = self.write(move |unit| {
            let step = plan_steps::begin(unit, id, &new)?;
            plan_steps::set_run(unit, id, step.number, run)?;
            Ok(step)
        })?;
        let done = work(self)?;
        let end = match &done {
            Ok(_) => Some((StepState::Done, String::new())),
            Err(Stop::Failed { message, .. }) => Some((StepState::Failed, message.clone())),
            Err(Stop::Person(_) | Stop::Cancelled) => None,
        };
        if let Some((state, summary)) = end {
            let end = StepEnd {
                state,
                summary,
                position,
                decision: None,
            };
            self.write(move |unit| plan_steps::finish(unit, id, step.number, &end))?;
        }
        Ok(done)
    }
}

/// By what the run of a plan's strategist is found again.
pub(super) fn strategize_path(plan: &Plan) -> String {
    format!("strategize/{}", plan.attempt)
}

/// The first invariant about paths that a strategy says it will break.
fn planned_violation(reconciled: &Reconciled, strategy: &PlanStrategy) -> Option<String> {
    for invariant in &reconciled.effective {
        let Some(rule) = PathRule::of(&invariant.text) else {
            continue;
        };
        for (number, step) in (1..).zip(&strategy.steps) {
            if let Some(path) = step.files.iter().find(|path| rule.forbids(path)) {
                return Some(format!(
                    "step {number} wants to change `{path}`, and the invariant \"{}\" forbids it",
                    invariant.text
                ));
            }
        }
    }
    None
}
