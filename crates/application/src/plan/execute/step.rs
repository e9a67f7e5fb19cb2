//! Running one step: checkpoint, actor or tool call, retries, result.

use std::fmt::Write as _;

use cleveragents_domain::{
    AutomationGate, CheckpointNumber, DecisionType, FailureCategory, GateAction, InvocationOutcome,
    NewDecision, Plan, PlanPhase, StageTransition, StepCall, StepKind, StepRecord, StepState,
    ToolInvocation,
};
use cleveragents_store::plan_steps::{NewStep, StepEnd};
use cleveragents_store::{Error, decisions, invocations, plan_steps, plans};
use serde_json::json;

use super::ExecutePhase;
use super::prompt::StepPrompt;
use super::step_run::{StepRun, StepWork, run_key};
use crate::plan::actor_runner::{ActorTask, Performer, RunStop};
use crate::plan::built_in::DETERMINISTIC;
use crate::plan::decision::new_decision;
use crate::plan::error::PlanError;
use crate::plan::failure::{FailureFacts, PhaseFailure};
use crate::plan::lineage::Lineage;
use crate::plan::policy::CheckpointTrigger;
use crate::plan::progress::run_category;
use crate::plan::prompt::shortened;
use crate::plan::query::checkpoint_name;
use crate::plan::report::{StepReport, answer_text};
use crate::plan::strategize::reasoning;
use crate::plan::validate::path_violation;
use crate::run::{UnknownOutcome, WorkState as _};
use crate::tool::SandboxWorkspace;

/// Maximum size of an actor's answer that is stored with its step, in bytes.
const MAX_SUMMARY_LENGTH: usize = 20_000;

/// A step to run.
pub(super) struct StepSpec<'s> {
    pub(super) kind: StepKind,
    /// Identifies the step within the plan.
    pub(super) path: String,
    pub(super) title: String,
    /// The tool call, for a step without an actor.
    pub(super) call: Option<&'s StepCall>,
    /// The task of the actor; the prompt is built when the step starts.
    pub(super) prompt: StepPrompt<'s>,
    /// The type of the decision that is recorded when the step is done.
    pub(super) decision: DecisionType,
    /// The question of that decision.
    pub(super) question: String,
    /// The number of the step from 1, and the number of all steps, for the observer.
    pub(super) position: Option<(u64, u64)>,
}

impl ExecutePhase<'_> {
    /// Runs a step, or returns its record if it is already done.
    pub(super) fn run_step(
        &self,
        plan: &Plan,
        spec: &StepSpec<'_>,
        workspace: &SandboxWorkspace,
    ) -> Result<StepRecord, PlanError> {
        let id = plan.id;
        let known = self
            .progress
            .read(|reader| plan_steps::current(reader, id, &spec.path))?;
        if let Some(done) = &known
            && done.state == StepState::Done
        {
            return Ok(done.clone());
        }
        if self.progress.cancel.is_cancelled() {
            return Err(self.progress.stopped(plan)?);
        }
        if let Some((number, count)) = spec.position {
            let path = &spec.path;
            tracing::info!(step = number, steps = count, path, "step started");
            let as_size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
            self.progress
                .observer
                .plan_step_started(as_size(number), as_size(count), &spec.title);
        }
        let checkpoint = match &known {
            Some(_) => None,
            None => Some(workspace.mark(&spec.path)?.0),
        };
        let new = NewStep {
            path: spec.path.clone(),
            title: spec.title.clone(),
            checkpoint,
            position: workspace.position(),
        };
        let blocked = match &known {
            Some(known) => self.blocked_runs(plan, known)?,
            None => 0,
        };
        let record = self.progress.write(move |unit| {
            let step = plan_steps::begin(unit, id, &new)?;
            let run = id.run(&run_key(&new.path, step.number, blocked));
            plan_steps::set_run(unit, id, step.number, run)?;
            Ok(step)
        })?;
        self.undo_interrupted_call(plan, workspace)?;
        let run = self.prepare_run(plan, spec, &record, blocked, workspace)?;
        let answer = self.run_with_retries(plan, spec, &record, &run, workspace)?;
        self.finish_step(plan, spec, &record, &run, workspace, &answer)
    }

    /// Undoes the changes of a tool call with unknown outcome before its retry, so that the retry starts from the same
    /// files. The changes stay if another call ran since.
    fn undo_interrupted_call(
        &self,
        plan: &Plan,
        workspace: &SandboxWorkspace,
    ) -> Result<(), PlanError> {
        if self.actors.unknown_outcome != UnknownOutcome::Retry {
            return Ok(());
        }
        let calls = self
            .progress
            .read(|reader| invocations::of_plan(reader, plan.id))?;
        let is_interrupted = |call: &&ToolInvocation| {
            call.outcome == InvocationOutcome::Running && !call.is_repeatable
        };
        let Some(interrupted) = calls.iter().find(is_interrupted) else {
            return Ok(());
        };
        let ended_before = |call: &ToolInvocation| {
            call.finished_at
                .is_some_and(|finished| finished <= interrupted.started_at)
        };
        let is_last = calls
            .iter()
            .all(|call| call.id == interrupted.id || ended_before(call));
        let outcome = if is_last && workspace.undo_call(interrupted, &calls)? {
            "its changes are undone"
        } else {
            "its changes stay, because no checkpoint of its own precedes them"
        };
        self.progress.observer.note(&format!(
            "retrying the interrupted call of `{}`: {outcome}",
            interrupted.tool
        ));
        Ok(())
    }

    /// Runs the actor or the tool call of a step. Retries transient failures up to the limit of the profile.
    fn run_with_retries(
        &self,
        plan: &Plan,
        spec: &StepSpec<'_>,
        record: &StepRecord,
        run: &StepRun,
        workspace: &SandboxWorkspace,
    ) -> Result<String, PlanError> {
        let execution = &plan.inputs.actors.execution;
        if spec.call.is_none() && execution == DETERMINISTIC {
            let message = format!(
                "`{}` needs a model: it is not a tool call, and the plan has no execution actor",
                spec.title
            );
            let facts = FailureFacts::default();
            return self.fail_step(plan, spec, record, workspace, message, facts);
        }
        let mut retries = 0;
        // Only built-in actors have report tools.
        let is_built_in = spec.call.is_none() && self.actors.is_built_in(execution, spec.kind)?;
        let work = StepWork {
            workspace,
            position_before: record.position_before,
            is_read_only: plan.inputs.read_only,
        };
        loop {
            let task = ActorTask {
                key: &run.key,
                performer: match spec.call {
                    Some(call) => Performer::ToolCall(call),
                    None => Performer::Actor(execution, spec.kind),
                },
                prompt: run.prompt.clone(),
                phase: PlanPhase::Execute,
                workspace: Some(workspace),
                carried: run.carried.clone(),
                work: spec.call.is_none().then_some(&work as _),
            };
            let (message, code, is_transient) = match self.actors.run(plan, &task)? {
                // A tool call has no report.
                Ok(value) if spec.call.is_some() => return Ok(answer_text(&value)),
                Ok(value) => match StepReport::parse(&value, !is_built_in || work.may_end()) {
                    StepReport::Done(answer) => return Ok(answer),
                    StepReport::Blocked { reason, suggestion } => {
                        let suggestion = suggestion.as_deref();
                        return self.block_step(plan, spec, record, workspace, &reason, suggestion);
                    }
                },
                Err(RunStop::Cancelled) => return Err(self.progress.stopped(plan)?),
                Err(RunStop::NeedsInput(waiting)) => {
                    self.progress.record_usage(plan)?;
                    return self.progress.wait(plan, *waiting);
                }
                Err(RunStop::Failed {
                    message,
                    code,
                    is_transient,
                }) => (message, code, is_transient),
            };
            let max_retries = plan.inputs.profile.snapshot.max_retries;
            let may_retry =
                is_transient && retries < max_retries && self.passes_retry_gate(plan)?;
            if !may_retry {
                let facts = FailureFacts {
                    code: Some(code.as_str()),
                    is_retriable: Some(is_transient),
                    retry_count: Some(retries),
                    max_retries: Some(max_retries),
                    step: Some(spec.title.clone()),
                    step_path: Some(spec.path.clone()),
                    ..FailureFacts::default()
                };
                return self.fail_step(plan, spec, record, workspace, message, facts);
            }
            retries += 1;
            self.progress.observer.note(&format!(
                "retrying `{}` ({retries}/{max_retries}): {message}",
                spec.title
            ));
            self.record_retry(plan, spec, retries, &message)?;
        }
    }

    fn passes_retry_gate(&self, plan: &Plan) -> Result<bool, PlanError> {
        let gate = AutomationGate::RetryStep;
        Ok(self.gates.check(plan, gate, GateAction::Retry)?.is_open())
    }

    fn record_retry(
        &self,
        plan: &Plan,
        spec: &StepSpec<'_>,
        retries: u32,
        message: &str,
    ) -> Result<(), PlanError> {
        let (Some(root), id) = (plan.decision_root, plan.id) else {
            return Ok(());
        };
        let decision = NewDecision {
            snapshot: self.snapshots.take(plan, None)?,
            ..new_decision(
                root,
                DecisionType::ErrorRecovery,
                PlanPhase::Execute,
                format!("What to do about the failure of `{}`?", spec.title),
                format!("retry {retries}"),
                message,
            )
        };
        self.progress
            .write(move |unit| decisions::insert(unit, id, &decision).map(drop))
    }

    /// Fails a step whose actor reports that it is blocked: the user has to give guidance.
    fn block_step<T>(
        &self,
        plan: &Plan,
        spec: &StepSpec<'_>,
        record: &StepRecord,
        workspace: &SandboxWorkspace,
        reason: &str,
        suggestion: Option<&str>,
    ) -> Result<T, PlanError> {
        let mut message = format!("`{}` is blocked: {reason}", spec.title);
        if let Some(suggestion) = suggestion {
            message.truncate(message.trim_end_matches('.').len());
            let _written = write!(message, ". Suggestion: {suggestion}");
        }
        let facts = FailureFacts {
            is_retriable: Some(false),
            step: Some(spec.title.clone()),
            step_path: Some(spec.path.clone()),
            details: Some(json!({"reason": reason, "suggestion": suggestion})),
            ..FailureFacts::default()
        };
        let category = FailureCategory::Blocked;
        self.fail_step_as(plan, spec, record, workspace, message, facts, category)
    }

    /// Stores the failure of a step, and fails the phase.
    fn fail_step<T>(
        &self,
        plan: &Plan,
        spec: &StepSpec<'_>,
        record: &StepRecord,
        workspace: &SandboxWorkspace,
        message: String,
        facts: FailureFacts,
    ) -> Result<T, PlanError> {
        let category = run_category(facts.is_retriable == Some(true));
        self.fail_step_as(plan, spec, record, workspace, message, facts, category)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the step and the failure are passed in parts"
    )]
    fn fail_step_as<T>(
        &self,
        plan: &Plan,
        spec: &StepSpec<'_>,
        record: &StepRecord,
        workspace: &SandboxWorkspace,
        message: String,
        facts: FailureFacts,
        category: FailureCategory,
    ) -> Result<T, PlanError> {
        let policy = &self.workspaces.policy;
        let checkpoint = if policy.marks(CheckpointTrigger::Error) {
            workspace.mark("on_error").ok()
        } else {
            None
        };
        let (id, number) = (plan.id, record.number);
        let end = StepEnd {
            state: StepState::Failed,
            summary: message.clone(),
            position: workspace.position(),
            decision: None,
        };
        self.progress.write(move |unit| {
            plan_steps::finish(unit, id, number, &end)?;
            plans::record_usage(unit, id)
        })?;
        self.progress
            .observer
            .plan_step_failed(&spec.title, &message);
        let failure = PhaseFailure::new(category, message).with_facts(FailureFacts {
            checkpoint: checkpoint.map(checkpoint_name),
            ..facts
        });
        self.progress
            .fail(plan, StageTransition::FailExecute, failure)
    }

    /// Completes a step: stores its changes and the answer of its actor.
    fn finish_step(
        &self,
        plan: &Plan,
        spec: &StepSpec<'_>,
        record: &StepRecord,
        run: &StepRun,
        workspace: &SandboxWorkspace,
        answer: &str,
    ) -> Result<StepRecord, PlanError> {
        let changed = workspace.changed_since(record.position_before)?;
        if let Some(violation) = path_violation(&self.requirements.reconciled(plan)?, &changed) {
            let facts = FailureFacts {
                step: Some(spec.title.clone()),
                step_path: Some(spec.path.clone()),
                checkpoint: record.checkpoint.map(CheckpointNumber).map(checkpoint_name),
                ..FailureFacts::default()
            };
            let failed = StageTransition::FailExecute;
            return self.progress.fail_violation(plan, failed, violation, facts);
        }
        let (id, number) = (plan.id, record.number);
        let decision = self.step_decision(plan, spec, &run.key, answer, changed)?;
        let end = StepEnd {
            state: StepState::Done,
            summary: self
                .progress
                .redactor
                .text(&shortened(answer, MAX_SUMMARY_LENGTH))
                .into_owned(),
            position: workspace.position(),
            decision: decision.as_ref().map(|decision| decision.id),
        };
        let path = spec.path.clone();
        // A tool call reads no guidance.
        let read_until = spec.call.is_none().then_some(record.started_at);
        let record = self.progress.write(move |unit| {
            if let Some(decision) = &decision {
                decisions::insert(unit, id, decision)?;
            }
            plan_steps::finish(unit, id, number, &end)?;
            let guidance = plan_steps::guidance(unit, id)?;
            let last_read = read_until.and_then(|until| {
                let mut newest_first = guidance.iter().rev();
                newest_first.find(|entry| entry.created_at <= until)
            });
            if let Some(last) = last_read {
                plan_steps::mark_guidance_applied(unit, id, last.number)?;
            }
            plans::record_usage(unit, id)?;
            plan_steps::current(unit, id, &path)?
                .ok_or_else(|| Error::stored("a step of a plan", "is missing"))
        })?;
        let summary = record.summary.as_deref().unwrap_or_default();
        self.progress
            .observer
            .plan_step_succeeded(&spec.title, summary);
        self.progress.observer.usage(&self.progress.store.get(id)?);
        Ok(record)
    }

    /// The decision to record for a completed step.
    fn step_decision(
        &self,
        plan: &Plan,
        spec: &StepSpec<'_>,
        key: &str,
        answer: &str,
        changed: Vec<String>,
    ) -> Result<Option<NewDecision>, PlanError> {
        let Some(root) = plan.decision_root else {
            return Ok(None);
        };
        let first_line = answer.lines().find(|line| !line.trim().is_empty());
        let lineage = self.progress.read(|reader| {
            let decisions = decisions::of_plan(reader, plan.id)?;
            Ok(Lineage::of_step(
                plan,
                &decisions,
                &plan_steps::of_plan(reader, plan.id)?,
                &spec.path,
            ))
        })?;
        Ok(Some(NewDecision {
            artifacts: changed,
            influenced_by: lineage.influences,
            snapshot: self.snapshots.take(plan, Some(plan.id.run(key)))?,
            reasoning: reasoning(self.actors, plan, key)?,
            ..new_decision(
                lineage.parent.unwrap_or(root),
                spec.decision,
                PlanPhase::Execute,
                spec.question.clone(),
                first_line.map_or_else(|| "done".to_owned(), |line| shortened(line, 300)),
                shortened(answer, 4_000),
            )
        }))
    }
}
