//! [`ExecutePhase`]: runs the steps of a strategy in the plan's sandbox, validates the result, and fixes failed
//! validations.

mod prompt;
mod step;
mod step_run;

use cleveragents_domain::{
    AutomationGate, Decision, DecisionType, FailureCategory, GateAction, Plan, PlanStage,
    PlanStrategy, REVERSION_LIMIT, StageTransition, StepKind, ValidationMode,
};
use cleveragents_store::plan_steps::Guidance;
use cleveragents_store::plans::TransitionDetails;
use cleveragents_store::{decisions, plan_steps, plans};
use serde_json::Map;

use super::actor_runner::PlanActorRunner;
use super::built_in::DETERMINISTIC;
use super::children::{ChildPlans, ChildStep, PartRequest, is_requested_part, part_requests};
use super::control::{PlanControl, asks_to_combine};
use super::error::PlanError;
use super::failure::{FailureFacts, PhaseFailure};
use super::gates::{AutomationGates, GateOutcome};
use super::progress::PlanProgress;
use super::prompt::shortened;
use super::requirements::PlanRequirements;
use super::service::already_finished;
use super::snapshot::DecisionSnapshots;
use super::validate::{CheckResult, FailedResults, ValidatePhase};
use super::workspace::PlanWorkspaces;
use crate::tool::SandboxWorkspace;

use prompt::StepPrompt;
use step::StepSpec;

/// The second phase of a plan. It changes files only in the sandbox of the plan.
pub(super) struct ExecutePhase<'a> {
    pub(super) requirements: &'a PlanRequirements,
    pub(super) snapshots: &'a DecisionSnapshots,
    pub(super) workspaces: &'a PlanWorkspaces,
    pub(super) gates: &'a AutomationGates,
    pub(super) control: &'a PlanControl,
    pub(super) children: &'a ChildPlans<'a>,
    pub(super) validate: ValidatePhase<'a>,
    pub(super) actors: &'a PlanActorRunner<'a>,
    pub(super) progress: &'a PlanProgress<'a>,
}

impl ExecutePhase<'_> {
    /// Executes a plan. Returns when execution is complete, or when the plan returned to its strategy.
    pub(super) fn run(&self, plan: Plan, failed: FailedResults) -> Result<Plan, PlanError> {
        let plan = if plan.stage == PlanStage::ExecuteQueued {
            let details = TransitionDetails {
                clears_error: true,
                ..TransitionDetails::default()
            };
            self.progress
                .advance(&plan, StageTransition::StartExecute, details)?
        } else {
            plan
        };
        self.requirements.check_invariants(&plan)?;
        let Some(strategy) = plan.strategy.clone() else {
            let failure = PhaseFailure::new(FailureCategory::Strategy, "it has no strategy");
            return self
                .progress
                .fail(&plan, StageTransition::FailExecute, failure);
        };
        let workspace = self.workspaces.open(&plan, self.progress.cancel)?;
        self.run_steps(&plan, &strategy, &workspace)?;
        self.apply_guidance(&plan, &workspace)?;
        if let Some(reverted) = self.validate_and_fix(&plan, &workspace, failed)? {
            return Ok(reverted);
        }
        drop(workspace);
        self.complete(&plan)
    }

    /// Runs the steps in order. Steps that are child plans run together, as soon as those before them are done.
    fn run_steps(
        &self,
        plan: &Plan,
        strategy: &PlanStrategy,
        workspace: &SandboxWorkspace,
    ) -> Result<(), PlanError> {
        let count = strategy.steps.len() as u64;
        let path = |number: u64| StepKind::Step.path(&[plan.attempt, number]);
        let mut done = vec![false; strategy.steps.len()];
        for (number, step) in (1..).zip(&strategy.steps) {
            if step.child_plan {
                while !done[index(number)] {
                    let batch = ready_children(strategy, &done);
                    let steps: Vec<ChildStep<'_>> = batch
                        .iter()
                        .map(|number| ChildStep {
                            number: Some(*number),
                            path: path(*number),
                            step: &strategy.steps[index(*number)],
                        })
                        .collect();
                    self.run_children(plan, strategy, &steps, workspace)?;
                    for number in batch {
                        done[index(number)] = true;
                    }
                }
                continue;
            }
            let spec = StepSpec {
                kind: StepKind::Step,
                path: path(number),
                title: step.title.clone(),
                call: step.call.as_ref(),
                prompt: StepPrompt::Step {
                    strategy,
                    number,
                    step,
                },
                decision: DecisionType::ImplementationChoice,
                question: format!("How was step {number} executed?"),
                position: Some((number, count)),
            };
            self.run_step(plan, &spec, workspace)?;
            self.run_requested_parts(plan, &spec.path, workspace)?;
            done[index(number)] = true;
        }
        Ok(())
    }

    /// Runs the parts that the actor of a step requested as child plans.
    fn run_requested_parts(
        &self,
        plan: &Plan,
        path: &str,
        workspace: &SandboxWorkspace,
    ) -> Result<(), PlanError> {
        let mut requests = self
            .progress
            .read(|reader| part_requests(reader, plan.id))?;
        requests.retain(|request| request.path == path);
        if requests.is_empty() {
            return Ok(());
        }
        let records = self
            .progress
            .read(|reader| plan_steps::of_plan(reader, plan.id))?;
        let is_open = |request: &&PartRequest| {
            let mut records = records.iter();
            !records.any(|record| record.is_done() && record.path == request.part_path)
        };
        let steps: Vec<ChildStep<'_>> = requests
            .iter()
            .filter(is_open)
            .map(|request| ChildStep {
                number: None,
                path: request.part_path.clone(),
                step: &request.step,
            })
            .collect();
        if steps.is_empty() {
            return Ok(());
        }
        let strategy = plan.strategy.clone().unwrap_or_default();
        self.run_children(plan, &strategy, &steps, workspace)
    }

    /// Runs child plans and merges their results. Then the execution actor combines the versions of files for which the
    /// user asked it to.
    fn run_children(
        &self,
        plan: &Plan,
        strategy: &PlanStrategy,
        steps: &[ChildStep<'_>],
        workspace: &SandboxWorkspace,
    ) -> Result<(), PlanError> {
        self.children.run(plan, strategy, steps, workspace)?;
        let (guidance, known) = self.progress.read(|reader| {
            let guidance = plan_steps::guidance(reader, plan.id)?;
            Ok((guidance, decisions::of_plan(reader, plan.id)?))
        })?;
        let is_pending = |decision: &Decision| {
            let mut guidance = guidance.iter();
            guidance
                .any(|entry| entry.applied_at.is_none() && entry.decision == decision.content.id)
        };
        let mut requests = known.iter().filter(|decision| asks_to_combine(decision));
        if requests.any(is_pending) {
            self.apply_guidance(plan, workspace)?;
        }
        Ok(())
    }

    fn complete(&self, plan: &Plan) -> Result<Plan, PlanError> {
        let id = plan.id;
        let completed = self.progress.write(move |unit| {
            plans::record_usage(unit, id)?;
            let details = TransitionDetails::default();
            plans::advance(unit, id, StageTransition::CompleteExecute, &details)
        })?;
        let plan = completed.ok_or_else(|| already_finished(plan))?;
        self.progress.observer.stage_changed(&plan);
        self.progress.observer.usage(&plan);
        Ok(plan)
    }

    /// The newest guidance that no model has read yet.
    fn pending_guidance(&self, plan: &Plan) -> Result<Option<Guidance>, PlanError> {
        let all = self
            .progress
            .read(|reader| plan_steps::guidance(reader, plan.id))?;
        Ok(all
            .into_iter()
            .rev()
            .find(|entry| entry.applied_at.is_none()))
    }

    /// True if the execution actor has to apply pending guidance.
    pub(super) fn has_pending_guidance(&self, plan: &Plan) -> Result<bool, PlanError> {
        let is_read = plan.inputs.actors.execution != DETERMINISTIC;
        Ok(is_read && self.pending_guidance(plan)?.is_some())
    }

    /// Applies guidance that the user gave after the last step.
    fn apply_guidance(&self, plan: &Plan, workspace: &SandboxWorkspace) -> Result<(), PlanError> {
        let Some(last) = self.pending_guidance(plan)? else {
            return Ok(());
        };
        if plan.inputs.actors.execution == DETERMINISTIC {
            // No model reads the guidance, so it stays pending.
            self.progress.observer.note(&format!(
                "guidance is pending, and `{DETERMINISTIC}` cannot read it: {}",
                shortened(&last.text, 80)
            ));
            return Ok(());
        }
        let spec = StepSpec {
            kind: StepKind::Guidance,
            path: StepKind::Guidance.path(&[last.number]),
            title: format!("Apply guidance: {}", shortened(&last.text, 80)),
            call: None,
            prompt: StepPrompt::Guidance,
            decision: DecisionType::ImplementationChoice,
            question: "How was the guidance applied?".to_owned(),
            position: None,
        };
        self.run_step(plan, &spec, workspace)?;
        self.run_requested_parts(plan, &spec.path, workspace)?;
        let (id, through) = (plan.id, last.number);
        self.progress
            .write(move |unit| plan_steps::mark_guidance_applied(unit, id, through))
    }

    /// Validates the result, and runs fixes until all required checks pass or the limit of fixes is reached. Returns
    /// the plan if it returned to its strategy.
    fn validate_and_fix(
        &self,
        plan: &Plan,
        workspace: &SandboxWorkspace,
        mut earlier: FailedResults,
    ) -> Result<Option<Plan>, PlanError> {
        let limit = plan.inputs.profile.snapshot.validation_retries;
        loop {
            let fixes = self.completed_fixes(plan)?;
            let results = self.validate.run(plan, workspace, fixes + 1, earlier)?;
            earlier = FailedResults::Keep;
            let failed: Vec<&CheckResult> = results
                .iter()
                .filter(|result| !result.passed && result.mode == ValidationMode::Required)
                .collect();
            if failed.is_empty() {
                return Ok(None);
            }
            let reasons: Vec<String> = failed
                .iter()
                .map(|result| format!("`{}`: {}", result.name, result.message))
                .collect();
            let message = format!("check failed: {}", reasons.join("; "));
            if plan.inputs.actors.execution == DETERMINISTIC {
                return self.fail_validation(plan, message, Some(fixes + 1));
            }
            if fixes >= u64::from(limit) {
                return self.revise_or_fail(plan, &message, fixes).map(Some);
            }
            let is_reported = failed.iter().all(|result| !result.is_earlier);
            self.check_fix_gate(plan, &message, is_reported)?;
            let number = fixes + 1;
            let title = format!("Fixing failed checks ({number}/{limit})");
            self.progress.observer.note(&title);
            let spec = StepSpec {
                kind: StepKind::Fix,
                path: StepKind::Fix.path(&[plan.attempt, number]),
                title,
                call: None,
                prompt: StepPrompt::Fix(failed),
                decision: DecisionType::ValidationResponse,
                question: "How were the failed validations fixed?".to_owned(),
                position: None,
            };
            self.run_step(plan, &spec, workspace)?;
            self.run_requested_parts(plan, &spec.path, workspace)?;
        }
    }

    /// Stops the plan unless its automation profile or the user allows fixing failed checks. `is_reported` means that
    /// the observer has received the failed results.
    fn check_fix_gate(
        &self,
        plan: &Plan,
        message: &str,
        is_reported: bool,
    ) -> Result<(), PlanError> {
        let gate = AutomationGate::FixValidations;
        match self.gates.check(plan, gate, GateAction::Fix)? {
            GateOutcome::Open => Ok(()),
            GateOutcome::Rejected(reason) => {
                let reason = reason.map(|reason| format!(": {reason}"));
                let message = format!(
                    "{message}. The user rejected fixing it{}",
                    reason.unwrap_or_default()
                );
                self.fail_validation(plan, message, None)
            }
            GateOutcome::NeedsApproval(waiting) => {
                if !is_reported {
                    self.progress.observer.note(message);
                }
                self.progress.wait(plan, waiting)
            }
        }
    }

    fn fail_validation<T>(
        &self,
        plan: &Plan,
        message: String,
        validation_attempts: Option<u64>,
    ) -> Result<T, PlanError> {
        let facts = FailureFacts {
            validation_attempts,
            ..FailureFacts::default()
        };
        let failure = PhaseFailure::new(FailureCategory::Validation, message).with_facts(facts);
        self.progress
            .fail(plan, StageTransition::FailExecute, failure)
    }

    /// Number of fixes completed in this attempt.
    fn completed_fixes(&self, plan: &Plan) -> Result<u64, PlanError> {
        let steps = self
            .progress
            .read(|reader| plan_steps::of_plan(reader, plan.id))?;
        let attempt_prefix = format!("{}/", StepKind::Fix.path(&[plan.attempt]));
        let fixes = steps
            .iter()
            .filter(|step| step.is_done() && step.path.starts_with(&attempt_prefix))
            .filter(|step| !is_requested_part(&step.path));
        Ok(fixes.count() as u64)
    }

    /// Handles the limit of fixes: revises the strategy if the profile allows it, otherwise fails the phase.
    fn revise_or_fail(&self, plan: &Plan, message: &str, fixes: u64) -> Result<Plan, PlanError> {
        let gate = AutomationGate::ReviseStrategy;
        let may_revise = plan.reversions < REVERSION_LIMIT
            && self.gates.check(plan, gate, GateAction::Revise)?.is_open();
        if may_revise {
            self.progress
                .observer
                .note("the strategy is revised with the results of the checks");
            let id = plan.id;
            let mut error = Map::new();
            error.insert("message".to_owned(), message.into());
            self.progress
                .write(move |unit| plans::merge_error(unit, id, &error))?;
            let current = self.progress.store.get(id)?;
            return self
                .control
                .revert_leased(&current, message, self.progress.lease);
        }
        let message = format!("{message}. The limit of {fixes} fixes is reached");
        self.fail_validation(plan, message, Some(fixes + 1))
    }
}

/// Index of a step by its number, which starts at 1.
fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX) - 1
}

/// Numbers of the steps that can run as child plans now: those before the next ordinary step whose predecessors are
/// done. The steps are sorted by their dependencies, so that the first child plan that is not done is among them.
fn ready_children(strategy: &PlanStrategy, done: &[bool]) -> Vec<u64> {
    (1..)
        .zip(&strategy.steps)
        .take_while(|(number, step)| step.child_plan || done[index(*number)])
        .filter(|(number, step)| step.child_plan && !done[index(*number)])
        .filter(|(_, step)| step.after.iter().all(|number| done[number - 1]))
        .map(|(number, _)| number)
        .collect()
}
