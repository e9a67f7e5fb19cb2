//! Execute: carries a strategy out step by step in the plan's sandbox, then has the result judged, and
//! mended while that is allowed.

use std::fmt::Write as _;

use cleveragents_domain::{
    AutomationGate, DecisionType, GateAction, InvocationOutcome, Move, NewDecision, Plan,
    PlanPhase, PlanStage, PlanStep, PlanStrategy, REVERSION_LIMIT, StepCall, StepRecord, StepState,
    ToolInvocation, ValidationMode, Waiting,
};
use cleveragents_store::plan_steps::{NewStep, StepEnd};
use cleveragents_store::plans::Along;
use cleveragents_store::{decisions, invocations, plan_steps, plans};
use serde_json::{Map, Value, json};

use super::built_in::DETERMINISTIC;
use super::drive::{Drive, Stop, Task, Who};
use super::error::PlanError;
use super::gates::Passage;
use super::policy::CheckpointTrigger;
use super::rules::PathRule;
use super::service::over;
use super::strategize::decided;
use super::validate::Finding;
use crate::run::UnknownOutcome;
use crate::tool::SandboxWorkspace;

/// So much of what an actor said about a step is kept with it.
const LONGEST_SUMMARY: usize = 20_000;

/// A piece of work, as it is to be done.
struct Piece<'p> {
    path: String,
    title: &'p str,
    call: Option<&'p StepCall>,
    prompt: String,
    kind: DecisionType,
    question: String,
    /// Its number among how many steps, for whoever watches.
    place: Option<(usize, usize)>,
}

impl Drive<'_> {
    /// Puts a plan where what a person asked for can be done.
    pub(super) fn make_ready(&self, plan: Plan, asked: PlanPhase) -> Result<Plan, PlanError> {
        let wrong = |reason: &str, hint: String| PlanError::NotReady {
            plan: plan.id,
            stage: plan.stage,
            reason: reason.to_owned(),
            hint,
        };
        if plan.stage.is_terminal() {
            return Err(over(&plan));
        }
        let id = plan.id;
        match (asked, plan.stage) {
            (PlanPhase::Apply, stage) if stage.phase() != PlanPhase::Apply => {
                if stage == PlanStage::ExecuteComplete {
                    return Ok(plan);
                }
                let hint = format!("carry it out first: `agents plan execute {id}`");
                Err(wrong("only what is carried out can be applied", hint))
            }
            (PlanPhase::Apply, PlanStage::ApplyErrored | PlanStage::ApplyConstrained) => {
                let along = Along {
                    forgets_error: true,
                    ..Along::default()
                };
                self.advance(&plan, Move::Retry, along)
            }
            (PlanPhase::Apply, _) => Ok(plan),
            (_, PlanStage::StrategizeErrored) => {
                // An answer that was refused stays refused: the strategist is asked anew, and told why.
                let along = Along {
                    begins_attempt: self.has_answered(&plan)?,
                    ..Along::default()
                };
                self.advance(&plan, Move::Retry, along)
            }
            (_, PlanStage::ExecuteErrored) => {
                self.watcher
                    .note("steps that were done are kept; what failed is tried again");
                self.advance(&plan, Move::Retry, Along::default())
            }
            (_, PlanStage::ExecuteComplete) if !self.has_open_guidance(&plan)? => Ok(plan),
            (
                _,
                PlanStage::ExecuteComplete
                | PlanStage::ApplyConstrained
                | PlanStage::ApplyErrored
                | PlanStage::ApplyQueued,
            ) => {
                let along = Along {
                    forgets_error: true,
                    reason: Some("there is something to mend".to_owned()),
                    ..Along::default()
                };
                self.advance(&plan, Move::Rework, along)
            }
            (_, PlanStage::ApplyProcessing) => {
                let hint = format!("end it with `agents plan apply {id}`");
                Err(wrong("it is being applied", hint))
            }
            _ => Ok(plan),
        }
    }

    /// Whether everything is done but what a person has to allow: then there is nothing to execute.
    pub(super) fn only_waits_to_be_applied(&self, plan: &Plan) -> Result<bool, PlanError> {
        let waits = matches!(
            &plan.waiting,
            Some(Waiting::Gate {
                opens: GateAction::Apply,
                ..
            })
        );
        Ok(waits && plan.stage == PlanStage::ExecuteComplete && !self.has_open_guidance(plan)?)
    }

    /// Whether there is guidance that a model has not read yet.
    fn has_open_guidance(&self, plan: &Plan) -> Result<bool, PlanError> {
        if plan.made_with.actors.execution == DETERMINISTIC {
            return Ok(false);
        }
        let said = self
            .engine()
            .read(|reader| plan_steps::guidance(reader, plan.id))?;
        Ok(said.iter().any(|one| one.applied_at.is_none()))
    }

    /// Carries the plan out.
    pub(super) fn execute(&self, plan: Plan) -> Result<Plan, PlanError> {
        let plan = if plan.stage == PlanStage::ExecuteQueued {
            let along = Along {
                forgets_error: true,
                ..Along::default()
            };
            self.advance(&plan, Move::StartExecute, along)?
        } else {
            plan
        };
        self.service.check_invariants(&plan)?;
        let Some(strategy) = plan.strategy.clone() else {
            let message = "it has no strategy";
            return self.fail(&plan, Move::FailExecute, "strategy", message, Value::Null);
        };
        let workspace = self.service.workspace(&plan, self.cancel)?;
        let count = strategy.steps.len();
        for (number, step) in (1..).zip(&strategy.steps) {
            let piece = Piece {
                path: format!("step/{}/{number}", plan.attempt),
                title: &step.title,
                call: step.call.as_ref(),
                prompt: String::new(),
                kind: DecisionType::ImplementationChoice,
                question: format!("How was step {number} carried out?"),
                place: Some((number, count)),
            };
            self.piece(&plan, piece, &workspace, |drive, plan| {
                drive.step_prompt(plan, &strategy, number, step)
            })?;
        }
        self.heed(&plan, &workspace)?;
        if let Some(reverted) = self.until_good(&plan, &workspace)? {
            return Ok(reverted);
        }
        drop(workspace);
        let id = plan.id;
        let completed = self.write(move |unit| {
            plans::count_taken(unit, id)?;
            plans::advance(unit, id, Move::CompleteExecute, &Along::default())
        })?;
        let plan = completed.ok_or_else(|| over(&plan))?;
        self.watcher.stage(&plan);
        self.watcher.taken(&plan);
        Ok(plan)
    }

    /// Does a piece of work once: what was done before is not done again.
    fn piece(
        &self,
        plan: &Plan,
        mut piece: Piece<'_>,
        workspace: &SandboxWorkspace,
        prompt: impl FnOnce(&Self, &Plan) -> Result<String, PlanError>,
    ) -> Result<StepRecord, PlanError> {
        let id = plan.id;
        let known = self
            .engine()
            .read(|reader| plan_steps::current(reader, id, &piece.path))?;
        if let Some(done) = &known
            && done.state == StepState::Done
        {
            return Ok(done.clone());
        }
        if self.cancel.is_cancelled() {
            return Err(self.stopped(plan)?);
        }
        if let Some((number, count)) = piece.place {
            tracing::info!(
                step = number,
                steps = count,
                path = piece.path,
                "step started"
            );
            self.watcher.step(number, count, piece.title);
        }
        let checkpoint = match &known {
            Some(_) => None,
            None => Some(workspace.mark(&piece.path)?.0),
        };
        let new = NewStep {
            path: piece.path.clone(),
            title: piece.title.to_owned(),
            checkpoint,
            position: workspace.position(),
        };
        let path = piece.path.clone();
        let record = self.write(move |unit| {
            let step = plan_steps::begin(unit, id, &new)?;
            plan_steps::set_run(unit, id, step.number, id.run(&run_key(&path, step.number)))?;
            Ok(step)
        })?;
        piece.prompt = prompt(self, plan)?;
        self.take_back(plan, workspace)?;
        let said = self.try_piece(plan, &piece, &record, workspace)?;
        self.finish_piece(plan, &piece, &record, workspace, &said)
    }

    /// Before a call that was cut off is made again: what it had changed by then is taken back, so that it
    /// finds what it found the first time. Left alone when another call was at work since.
    fn take_back(&self, plan: &Plan, workspace: &SandboxWorkspace) -> Result<(), PlanError> {
        if self.options.unknown_outcome != UnknownOutcome::Retry {
            return Ok(());
        }
        let calls = self
            .engine()
            .read(|reader| invocations::of_plan(reader, plan.id))?;
        let in_doubt = |call: &&ToolInvocation| {
            call.outcome == InvocationOutcome::Running && !call.is_repeatable
        };
        let Some(cut_off) = calls.iter().find(in_doubt) else {
            return Ok(());
        };
        let is_alone = calls
            .iter()
            .filter(|call| call.id != cut_off.id)
            .all(|call| {
                call.finished_at
                    .is_some_and(|finished| finished <= cut_off.started_at)
            });
        let is_taken_back = is_alone && workspace.take_back(cut_off, &calls)?;
        let what = if is_taken_back {
            "is taken back"
        } else {
            "stays, for there is no checkpoint of its own before it"
        };
        self.watcher.note(&format!(
            "what the call of `{}` that was cut off had changed {what}; it is made again",
            cut_off.tool
        ));
        Ok(())
    }

    /// Has a piece done; what fails for a passing reason is tried again as often as the profile allows.
    fn try_piece(
        &self,
        plan: &Plan,
        piece: &Piece<'_>,
        record: &StepRecord,
        workspace: &SandboxWorkspace,
    ) -> Result<String, PlanError> {
        let key = run_key(&piece.path, record.number);
        let mut input = Map::new();
        input.insert("input".to_owned(), piece.prompt.clone().into());
        let mut tries = 0;
        loop {
            let execution = &plan.made_with.actors.execution;
            let who = match piece.call {
                Some(call) => Who::Call(call),
                None if execution == DETERMINISTIC => {
                    let message = format!(
                        "`{}` needs a model: it is no call of a tool, and the plan has no execution actor",
                        piece.title
                    );
                    return self.step_failed(plan, piece, record, workspace, &message, json!({}));
                }
                None => Who::Actor(execution),
            };
            let task = Task {
                key: &key,
                who,
                input: input.clone(),
                phase: PlanPhase::Execute,
                workspace: Some(workspace),
            };
            match self.perform(plan, &task)? {
                Ok(value) => return Ok(text_of(&value)),
                Err(Stop::Cancelled) => return Err(self.stopped(plan)?),
                Err(Stop::Person(waiting)) => {
                    self.count(plan)?;
                    return self.wait(plan, *waiting);
                }
                Err(Stop::Failed {
                    message,
                    code,
                    is_transient,
                }) => {
                    let profile = &plan.made_with.profile.snapshot;
                    let may_try = is_transient
                        && tries < profile.max_retries
                        && matches!(
                            self.service.pass(
                                plan,
                                AutomationGate::RetryStep,
                                GateAction::Retry
                            )?,
                            Passage::Open
                        );
                    let more = json!({
                        "code": code, "retry_count": tries, "max_retries": profile.max_retries,
                        "is_retriable": is_transient, "step": piece.title, "step_path": piece.path,
                    });
                    if !may_try {
                        return self.step_failed(plan, piece, record, workspace, &message, more);
                    }
                    tries += 1;
                    self.watcher.note(&format!(
                        "`{}` is tried again ({tries}): {message}",
                        piece.title
                    ));
                    self.recover(plan, piece, tries, &message)?;
                }
            }
        }
    }

    /// Writes down that something is tried again.
    fn recover(
        &self,
        plan: &Plan,
        piece: &Piece<'_>,
        tries: u32,
        message: &str,
    ) -> Result<(), PlanError> {
        let (Some(root), id) = (plan.decision_root, plan.id) else {
            return Ok(());
        };
        let decision = NewDecision {
            snapshot: self.service.snapshot(plan, None)?,
            ..decided(
                root,
                DecisionType::ErrorRecovery,
                PlanPhase::Execute,
                format!("What is done about the failure of `{}`?", piece.title),
                format!("it is tried again, for the {tries}. time"),
                message,
            )
        };
        self.write(move |unit| decisions::insert(unit, id, &decision).map(drop))
    }

    fn step_failed<T>(
        &self,
        plan: &Plan,
        piece: &Piece<'_>,
        record: &StepRecord,
        workspace: &SandboxWorkspace,
        message: &str,
        more: Value,
    ) -> Result<T, PlanError> {
        let checkpoint = if self.service.policy.marks(CheckpointTrigger::Error) {
            workspace.mark("on_error").ok().map(|number| number.0)
        } else {
            None
        };
        let (id, number) = (plan.id, record.number);
        let end = StepEnd {
            state: StepState::Failed,
            summary: message.to_owned(),
            position: workspace.position(),
            decision: None,
        };
        self.write(move |unit| {
            plan_steps::finish(unit, id, number, &end)?;
            plans::count_taken(unit, id)
        })?;
        self.watcher.step_ended(piece.title, message, false);
        let mut more = more;
        more["checkpoint"] = json!(checkpoint.map(|number| format!("cp_{number}")));
        let category = if more["is_retriable"] == json!(true) {
            "transient"
        } else {
            "failure"
        };
        self.fail(plan, Move::FailExecute, category, message, more)
    }

    /// Stores that a piece is done, with what it changed and what was said about it.
    fn finish_piece(
        &self,
        plan: &Plan,
        piece: &Piece<'_>,
        record: &StepRecord,
        workspace: &SandboxWorkspace,
        said: &str,
    ) -> Result<StepRecord, PlanError> {
        let changed = workspace.changed_since(record.position_before)?;
        if let Some(violation) = self.path_violation(plan, &changed)? {
            self.violated(plan, &violation)?;
            let more = json!({
                "step": piece.title, "step_path": piece.path,
                "checkpoint": record.checkpoint.map(|number| format!("cp_{number}")),
            });
            return self.fail(plan, Move::FailExecute, "invariant", &violation, more);
        }
        let (id, number) = (plan.id, record.number);
        let mut decision = None;
        if let Some(root) = plan.decision_root {
            let first = said.lines().find(|line| !line.trim().is_empty());
            let key = run_key(&piece.path, number);
            decision = Some(NewDecision {
                artifacts: changed.clone(),
                snapshot: self.service.snapshot(plan, Some(id.run(&key)))?,
                reasoning: self.reasoning(plan, &key)?,
                ..decided(
                    root,
                    piece.kind,
                    PlanPhase::Execute,
                    piece.question.clone(),
                    first.map_or_else(|| "done".to_owned(), |line| shortened(line, 300)),
                    shortened(said, 4_000),
                )
            });
        }
        let redactor = self.runtime.redactor();
        let end = StepEnd {
            state: StepState::Done,
            summary: redactor
                .text(&shortened(said, LONGEST_SUMMARY))
                .into_owned(),
            position: workspace.position(),
            decision: decision.as_ref().map(|decision| decision.id),
        };
        let path = piece.path.clone();
        // A call of a tool reads no guidance.
        let said_before = piece.call.is_none().then_some(record.started_at);
        let record = self.write(move |unit| {
            if let Some(decision) = &decision {
                decisions::insert(unit, id, decision)?;
            }
            plan_steps::finish(unit, id, number, &end)?;
            let heard = plan_steps::guidance(unit, id)?;
            let heard = said_before.and_then(|before| {
                let mut newest_first = heard.iter().rev();
                newest_first.find(|one| one.created_at <= before)
            });
            if let Some(last) = heard {
                plan_steps::heed(unit, id, last.number)?;
            }
            plans::count_taken(unit, id)?;
            plan_steps::current(unit, id, &path)?
                .ok_or_else(|| cleveragents_store::Error::stored("a step of a plan", "is missing"))
        })?;
        self.watcher.step_ended(
            piece.title,
            record.summary.as_deref().unwrap_or_default(),
            true,
        );
        self.watcher.taken(&self.service.get(id)?);
        Ok(record)
    }

    /// The first invariant about paths that changes break.
    pub(super) fn path_violation(
        &self,
        plan: &Plan,
        changed: &[String],
    ) -> Result<Option<String>, PlanError> {
        for invariant in self.service.reconciled(plan)?.effective {
            let Some(rule) = PathRule::of(&invariant.text) else {
                continue;
            };
            // Paths begin with the name of their part; rules are written without it.
            let broken = changed.iter().find(|path| {
                rule.forbids(path)
                    || path
                        .split_once('/')
                        .is_some_and(|(_, inside)| rule.forbids(inside))
            });
            if let Some(path) = broken {
                return Ok(Some(format!(
                    "`{path}` was changed, and the invariant \"{}\" forbids it",
                    invariant.text
                )));
            }
        }
        Ok(None)
    }

    /// What an actor is asked for a step.
    fn step_prompt(
        &self,
        plan: &Plan,
        strategy: &PlanStrategy,
        number: usize,
        step: &PlanStep,
    ) -> Result<String, PlanError> {
        let mut text = format!(
            "Carry out step {number} of {}: {}\n\n{}\n",
            strategy.steps.len(),
            step.title,
            step.description
        );
        if !step.files.is_empty() {
            let _written = writeln!(text, "\nFiles it is about: {}", step.files.join(", "));
        }
        let _written = write!(text, "\nThe whole strategy:\n\n{}", strategy.to_markdown());
        self.add_history(plan, &mut text)?;
        Ok(text)
    }

    /// What was done, and what the person said.
    fn add_history(&self, plan: &Plan, text: &mut String) -> Result<(), PlanError> {
        let (steps, said) = self.engine().read(|reader| {
            Ok::<_, cleveragents_store::Error>((
                plan_steps::of_plan(reader, plan.id)?,
                plan_steps::guidance(reader, plan.id)?,
            ))
        })?;
        let done: Vec<&StepRecord> = steps
            .iter()
            .filter(|step| step.state == StepState::Done && step.undone_by.is_none())
            .filter(|step| step.path.starts_with("step/") || step.path.starts_with("fix/"))
            .collect();
        if !done.is_empty() {
            text.push_str("\nDone so far:\n");
            for step in done {
                let summary = step.summary.as_deref().unwrap_or_default();
                let _written = writeln!(text, "- {}: {}", step.title, shortened(summary, 400));
            }
        }
        if !said.is_empty() {
            text.push_str("\nThe person said, in this order; the last word counts most:\n");
            for one in &said {
                let _written = writeln!(text, "- {}", one.text);
            }
        }
        Ok(())
    }

    /// Does what a person said after the last step was done.
    fn heed(&self, plan: &Plan, workspace: &SandboxWorkspace) -> Result<(), PlanError> {
        let said = self
            .engine()
            .read(|reader| plan_steps::guidance(reader, plan.id))?;
        let Some(last) = said.iter().rev().find(|one| one.applied_at.is_none()) else {
            return Ok(());
        };
        if plan.made_with.actors.execution == DETERMINISTIC {
            // No model reads it: it stays pending.
            self.watcher.note(&format!(
                "guidance is pending, and `{DETERMINISTIC}` cannot read it: {}",
                shortened(&last.text, 80)
            ));
            return Ok(());
        }
        let title = format!("Do what the person said: {}", shortened(&last.text, 80));
        let piece = Piece {
            path: format!("guidance/{}", last.number),
            title: &title,
            call: None,
            prompt: String::new(),
            kind: DecisionType::ImplementationChoice,
            question: "What was done about the person's word?".to_owned(),
            place: None,
        };
        let text = last.text.clone();
        let through = last.number;
        self.piece(plan, piece, workspace, |drive, plan| {
            let mut prompt = format!(
                "The steps of the plan are done. The person has looked, and says:\n\n{text}\n\nDo what is asked.\n"
            );
            drive.add_history(plan, &mut prompt)?;
            Ok(prompt)
        })?;
        let id = plan.id;
        self.write(move |unit| plan_steps::heed(unit, id, through))
    }

    /// Has the result judged, and mended until it is good or may not be mended any more. Gives the plan when
    /// it went back to its strategy.
    fn until_good(
        &self,
        plan: &Plan,
        workspace: &SandboxWorkspace,
    ) -> Result<Option<Plan>, PlanError> {
        let profile = &plan.made_with.profile.snapshot;
        loop {
            let fixes = self.fixes(plan)?;
            let findings = self.judge_all(plan, workspace, fixes + 1)?;
            let failed: Vec<&Finding> = findings
                .iter()
                .filter(|finding| !finding.passed && finding.mode == ValidationMode::Required)
                .collect();
            if failed.is_empty() {
                return Ok(None);
            }
            let what: Vec<String> = failed
                .iter()
                .map(|finding| format!("`{}`: {}", finding.name, finding.message))
                .collect();
            let message = format!("what was done is not good: {}", what.join("; "));
            if plan.made_with.actors.execution == DETERMINISTIC {
                let more = json!({"validation_attempts": fixes + 1});
                return self.fail(plan, Move::FailExecute, "validation", &message, more);
            }
            if fixes >= u64::from(profile.validation_retries) {
                return self.exhausted(plan, &message, fixes).map(Some);
            }
            match self
                .service
                .pass(plan, AutomationGate::FixValidations, GateAction::Fix)?
            {
                Passage::Open => {}
                Passage::Closed(why) => {
                    let message = format!(
                        "{message}. A person does not want it mended{}",
                        why.map(|why| format!(": {why}")).unwrap_or_default()
                    );
                    return self.fail(plan, Move::FailExecute, "validation", &message, Value::Null);
                }
                Passage::Asks(waiting) => {
                    self.watcher.note(&message);
                    return self.wait(plan, waiting);
                }
            }
            let number = fixes + 1;
            let title = format!(
                "Mend what was found ({number} of {})",
                profile.validation_retries
            );
            self.watcher.note(&title);
            let piece = Piece {
                path: format!("fix/{}/{number}", plan.attempt),
                title: &title,
                call: None,
                prompt: String::new(),
                kind: DecisionType::ValidationResponse,
                question: "What was done about the validations that failed?".to_owned(),
                place: None,
            };
            let findings: Vec<String> = failed.iter().map(|finding| finding.told()).collect();
            self.piece(plan, piece, workspace, |drive, plan| {
                let mut prompt = format!(
                    "The steps of the plan are done, but the result was checked and is not good. Find out why, and \
                     mend it within the strategy. Do not weaken or remove what checks it.\n\n{}\n",
                    findings.join("\n\n")
                );
                drive.add_history(plan, &mut prompt)?;
                Ok(prompt)
            })?;
        }
    }

    /// How often what was found has been mended in this attempt.
    fn fixes(&self, plan: &Plan) -> Result<u64, PlanError> {
        let steps = self
            .engine()
            .read(|reader| plan_steps::of_plan(reader, plan.id))?;
        let prefix = format!("fix/{}/", plan.attempt);
        let done = steps.iter().filter(|step| {
            step.path.starts_with(&prefix)
                && step.state == StepState::Done
                && step.undone_by.is_none()
        });
        Ok(done.count() as u64)
    }

    /// It may not be mended any more: back to the strategy where that is allowed, otherwise it failed.
    fn exhausted(&self, plan: &Plan, message: &str, fixes: u64) -> Result<Plan, PlanError> {
        let may_revise = plan.reversions < REVERSION_LIMIT
            && matches!(
                self.service
                    .pass(plan, AutomationGate::ReviseStrategy, GateAction::Revise)?,
                Passage::Open
            );
        if may_revise {
            self.watcher
                .note("the strategy is made anew with what was found");
            let id = plan.id;
            let mut error = Map::new();
            error.insert("message".to_owned(), message.into());
            self.write(move |unit| plans::merge_error(unit, id, &error))?;
            return self
                .service
                .revert_held(&self.service.get(id)?, message, self.lease);
        }
        let message = format!("{message}. It was mended {fixes} times, which is the most");
        let more = json!({"validation_attempts": fixes + 1});
        self.fail(plan, Move::FailExecute, "validation", &message, more)
    }
}

/// By what the run of a step is found again: the number makes another one after a rollback.
fn run_key(path: &str, number: u64) -> String {
    format!("{path}#{number}")
}

/// What an actor answered, as text.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => serde_json::to_string_pretty(other).unwrap_or_else(|_| other.to_string()),
    }
}

/// The beginning of a text.
pub(super) fn shortened(text: &str, length: usize) -> String {
    let text = text.trim();
    if text.len() <= length {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(length)])
}
