//! [`ApplyPhase`]: applies the result of a plan to the real resources atomically.

mod preconditions;

use std::fmt::Write as _;
use std::time::Duration;

use cleveragents_domain::{
    AutomationGate, Code, Diagnose as _, FailureCategory, GateAction, Plan, PlanStage,
    SandboxState, StageTransition, StepKind, StepRecord, hint, suggest,
};
use cleveragents_store::plans::{self, TransitionDetails};
use cleveragents_store::validations::StoredResult;
use cleveragents_store::{plan_steps, validations};
use serde_json::{Value, json};

use super::error::PlanError;
use super::failure::{FailureFacts, PhaseFailure, Recovery};
use super::gates::AutomationGates;
use super::plan_store::PlanStore;
use super::policy::SandboxCleanup;
use super::progress::PlanProgress;
use super::query::{PlanChanges, counted, is_folder};
use super::requirements::PlanRequirements;
use super::service::{DriveOptions, already_finished};
use super::validate::path_violation;
use super::workspace::PlanWorkspaces;
use crate::lease::HeldLease;
use crate::pool::roles::sandbox_changes::change_state;
use crate::sandbox::{ApplyRequest, OpenSandbox, SandboxDiff, SandboxError, SandboxService};

use preconditions::{ApplyPreconditions, ApplyStart, unmet_checks};

/// The pause before a temporarily refused apply is retried.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// The result of one attempt to apply.
enum ApplyAttempt {
    /// The plan is applied, or it returned to execution.
    Done(Box<Plan>),
    /// Another plan is being applied to the same resources, or the preconditions changed.
    Retry(Box<Plan>),
}

impl ApplyAttempt {
    fn done(plan: Plan) -> Self {
        Self::Done(Box::new(plan))
    }
}

/// The last phase of a plan.
pub(super) struct ApplyPhase<'a> {
    pub(super) requirements: &'a PlanRequirements,
    pub(super) workspaces: &'a PlanWorkspaces,
    pub(super) gates: &'a AutomationGates,
    pub(super) progress: &'a PlanProgress<'a>,
    pub(super) options: &'a DriveOptions,
}

impl ApplyPhase<'_> {
    /// Applies a plan. Returns when the plan is applied, or when it returned to execution.
    pub(super) fn run(&self, plan: Plan) -> Result<Plan, PlanError> {
        let Some(sandbox) = plan.sandbox.clone() else {
            return Err(PlanError::NotFound(plan.id));
        };
        if plan.stage == PlanStage::ApplyProcessing
            && let Some(applied) = self.recover_completed(&plan, &sandbox)?
        {
            return Ok(applied);
        }
        self.requirements.check_invariants(&plan)?;
        let mut plan = plan;
        loop {
            plan = match self.attempt(plan, &sandbox)? {
                ApplyAttempt::Done(applied) => return Ok(*applied),
                ApplyAttempt::Retry(plan) => *plan,
            };
            if self.progress.cancel.is_cancelled() {
                return Err(self.progress.stopped(&plan)?);
            }
            std::thread::sleep(RETRY_PAUSE);
        }
    }

    /// Returns the applied plan if an interrupted apply turns out to be complete.
    fn recover_completed(&self, plan: &Plan, sandbox: &str) -> Result<Option<Plan>, PlanError> {
        let (store, lease) = (self.progress.store, self.progress.lease);
        let recovered = recover_apply(store, &self.workspaces.sandboxes, plan, sandbox, lease)?;
        let is_applied = recovered.stage == PlanStage::ApplyApplied;
        if is_applied {
            self.progress.observer.stage_changed(&recovered);
        }
        Ok(is_applied.then_some(recovered))
    }

    fn attempt(&self, plan: Plan, sandbox: &str) -> Result<ApplyAttempt, PlanError> {
        let sandboxes = &self.workspaces.sandboxes;
        let mut open = match sandboxes.open(sandbox) {
            Ok(open) => open,
            Err(error @ (SandboxError::NotFound(_) | SandboxError::NotReady { .. })) => {
                return self.unusable_sandbox(plan, sandbox, &error);
            }
            Err(error) => return Err(error.into()),
        };
        // The preconditions are read before any check: the start of the apply detects later changes.
        let store = self.progress.store;
        let preconditions = ApplyPreconditions::read(store, self.requirements, &plan)?;
        let diff = sandboxes.diff(&mut open)?;
        let changed = changed_files(&diff);
        let mut reasons = unmet_checks(store, self.requirements, sandboxes, &plan, &open)?;
        let violation = path_violation(&self.requirements.reconciled(&plan)?, &changed);
        // Execution validates again and fixes failed checks, but it cannot fix a change of a forbidden path.
        let is_reworkable = violation.is_none();
        reasons.extend(violation);
        if !reasons.is_empty() {
            return self
                .constrain(&plan, reasons, is_reworkable)
                .map(ApplyAttempt::done);
        }
        // A strategy without steps states that nothing has to change.
        let expects_nothing = plan.inputs.read_only
            || plan
                .strategy
                .as_ref()
                .is_some_and(|strategy| strategy.steps.is_empty());
        if changed.is_empty() && !self.options.allow_empty && !expects_nothing {
            return Err(PlanError::NothingToApply(plan.id));
        }
        let counts = counted(&open.view, &diff).map_err(PlanError::from_service)?;
        let plan = if plan.stage == PlanStage::ApplyProcessing {
            plan
        } else {
            let start = ApplyStart {
                report: self.target_report(&plan),
                guard: self.options.guard.clone(),
                state: change_state(&diff),
            };
            match preconditions.start_apply(store, &plan, &start, self.progress.lease)? {
                Some(started) => started,
                None => return Ok(ApplyAttempt::Retry(Box::new(plan))),
            }
        };
        self.progress.observer.stage_changed(&plan);
        self.apply(plan, open, &changed, &counts)
    }

    /// Fails the phase because the sandbox of the plan cannot be opened, unless an earlier attempt applied the plan.
    fn unusable_sandbox(
        &self,
        plan: Plan,
        sandbox: &str,
        error: &SandboxError,
    ) -> Result<ApplyAttempt, PlanError> {
        let plan = if plan.stage == PlanStage::ApplyProcessing {
            plan
        } else {
            let details = TransitionDetails::default();
            self.progress
                .advance(&plan, StageTransition::StartApply, details)?
        };
        if let Ok(Some(applied)) = self.recover_completed(&plan, sandbox) {
            return Ok(ApplyAttempt::done(applied));
        }
        let message = format!("its sandbox cannot be used: {error}");
        let failure = PhaseFailure::new(FailureCategory::Resource, message);
        self.progress
            .fail(&plan, StageTransition::FailApply, failure)
    }

    /// The target of the apply, stored with the transitions that start it: a later process resumes an interrupted apply
    /// with the same target.
    pub(super) fn target_report(&self, plan: &Plan) -> Option<Value> {
        let branch = self.options.branch.as_deref();
        match (branch, &plan.report) {
            (None, None) => None,
            (None, Some(_)) if plan.stage == PlanStage::ApplyQueued => plan.report.clone(),
            (branch, _) => Some(json!({"branch": branch})),
        }
    }

    /// The branch that the apply creates. An interrupted apply keeps its target.
    fn target_branch(&self, plan: &Plan) -> Result<Option<String>, PlanError> {
        let stored = stored_branch(plan);
        match &self.options.branch {
            Some(branch) if stored.as_ref() != Some(branch) => {
                let target = stored.map_or_else(
                    || "your current branch".to_owned(),
                    |stored| format!("branch `{stored}`"),
                );
                Err(PlanError::NotReady {
                    plan: plan.id,
                    stage: plan.stage,
                    reason: format!("its apply to {target} was interrupted"),
                    hint: hint!("finish it first: {}", suggest::plan_apply(plan.id)),
                })
            }
            _ => Ok(stored),
        }
    }

    /// Applies the changes of the sandbox, and completes the plan.
    fn apply(
        &self,
        plan: Plan,
        open: OpenSandbox,
        changed: &[String],
        counts: &PlanChanges,
    ) -> Result<ApplyAttempt, PlanError> {
        let message = self.options.message.clone();
        let request = ApplyRequest {
            branch: self.target_branch(&plan)?,
            landing: self.options.landing,
            message: Some(match message {
                Some(message) => message,
                None => self.commit_message(&plan)?,
            }),
            keeps_files: self.workspaces.policy.cleanup == SandboxCleanup::Manual,
        };
        let applied = match self.workspaces.sandboxes.apply(open, &request) {
            Ok(applied) => applied,
            Err(error) if error.is_held() => return Ok(ApplyAttempt::Retry(Box::new(plan))),
            Err(error) => return self.fail_apply(&plan, error).map(ApplyAttempt::done),
        };
        let mut report = json!({
            "parts": applied.parts, "changed": changed,
            "insertions": counts.insertions(), "deletions": counts.deletions(),
        });
        add_branch(&mut report, &plan);
        let details = TransitionDetails {
            report: Some(report),
            clears_error: true,
            ..TransitionDetails::default()
        };
        self.progress
            .advance(&plan, StageTransition::CompleteApply, details)
            .map(ApplyAttempt::done)
    }

    fn commit_message(&self, plan: &Plan) -> Result<String, PlanError> {
        let (steps, results) = self.progress.read(|reader| {
            Ok((
                plan_steps::of_plan(reader, plan.id)?,
                validations::results(reader, plan.id)?,
            ))
        })?;
        Ok(commit_message(plan, &steps, &results))
    }

    /// Stores why a plan may not be applied. Returns the plan if it returned to execution, otherwise the error.
    fn constrain(
        &self,
        plan: &Plan,
        reasons: Vec<String>,
        is_reworkable: bool,
    ) -> Result<Plan, PlanError> {
        let failure = PhaseFailure::new(FailureCategory::Validation, reasons.join("; "));
        let recovery = Recovery::of_constraint(plan);
        let details = TransitionDetails {
            error: Some(failure.document(plan.stage.phase(), &recovery)),
            ..TransitionDetails::default()
        };
        let constrained = self
            .progress
            .advance(plan, StageTransition::Constrain, details)?;
        let (gate, opens) = (AutomationGate::ReturnToExecution, GateAction::Execute);
        if is_reworkable && self.gates.check(&constrained, gate, opens)?.is_open() {
            self.progress.observer.note(
                "the apply is refused; the plan returns to execution to validate the result again",
            );
            let details = TransitionDetails {
                clears_error: true,
                reason: Some(format!("it could not be applied: {}", reasons.join("; "))),
                ..TransitionDetails::default()
            };
            return self
                .progress
                .advance(&constrained, StageTransition::Rework, details);
        }
        Err(PlanError::Constrained {
            plan: plan.id,
            reasons,
        })
    }

    /// Fails the phase for an error of the sandbox. Nothing was applied.
    fn fail_apply(&self, plan: &Plan, error: SandboxError) -> Result<Plan, PlanError> {
        let category = match error.code() {
            Code::ApplyConflict => FailureCategory::MergeConflict,
            _ => FailureCategory::Resource,
        };
        let facts = FailureFacts {
            code: Some(error.code().as_str()),
            details: Some(error.details()).filter(|details| !details.is_null()),
            ..FailureFacts::default()
        };
        let failure = PhaseFailure::new(category, error.to_string()).with_facts(facts);
        match self
            .progress
            .fail(plan, StageTransition::FailApply, failure)
        {
            // The error of the sandbox has more details, such as the conflicting paths, so it replaces the error of the
            // phase.
            Err(PlanError::Failed { .. }) => Err(error.into()),
            other => other,
        }
    }
}

/// Recovers from an interrupted apply. Completes the plan if its sandbox was applied; otherwise nothing was applied,
/// and the plan is returned unchanged.
pub(super) fn recover_apply(
    store: &PlanStore,
    sandboxes: &SandboxService,
    plan: &Plan,
    sandbox: &str,
    lease: &HeldLease,
) -> Result<Plan, PlanError> {
    let id = plan.id;
    let view = match sandboxes.open(sandbox) {
        Ok(open) => open.view,
        Err(_) => sandboxes.find(sandbox)?,
    };
    if view.sandbox.state != SandboxState::Applied {
        return store.get(id);
    }
    let report = view
        .sandbox
        .result
        .as_deref()
        .map(serde_json::from_str::<Value>);
    let report = report.and_then(Result::ok).unwrap_or_default();
    let mut recovered = json!({"parts": report["parts"], "recovered": true});
    add_branch(&mut recovered, plan);
    let details = TransitionDetails {
        report: Some(recovered),
        ..TransitionDetails::default()
    };
    let completed = store.write_leased(lease, move |unit| {
        let transition = StageTransition::CompleteApply;
        Ok(plans::advance(unit, id, transition, &details)?)
    })?;
    completed.ok_or_else(|| already_finished(plan))
}

/// The branch that the apply of a plan creates, as stored when the apply started.
fn stored_branch(plan: &Plan) -> Option<String> {
    let report = plan.report.as_ref()?;
    report["branch"].as_str().map(str::to_owned)
}

/// Adds the branch that the apply created to its report.
fn add_branch(report: &mut Value, plan: &Plan) {
    let mut parts = report["parts"].as_array().into_iter().flatten();
    let is_created = parts.any(|part| part["commit"]["is_new_branch"] == true);
    if let Some(branch) = stored_branch(plan).filter(|_| is_created) {
        report["branch"] = branch.into();
    }
}

/// The changed files with the alias of their project, without folders.
fn changed_files(diff: &SandboxDiff) -> Vec<String> {
    diff.parts
        .iter()
        .flat_map(|part| {
            part.changes
                .iter()
                .filter(|change| !is_folder(change))
                .map(move |change| format!("{}/{}", part.member.alias, change.path))
        })
        .collect()
}

/// Maximum length of the subject of a commit message, in characters.
const SUBJECT: usize = 72;

/// Maximum number of lines of the summary of a step in a commit message.
const SUMMARY_LINES: usize = 6;

/// The default commit message: the task as subject, summaries of the steps, validation results, and the plan.
fn commit_message(plan: &Plan, steps: &[StepRecord], results: &[StoredResult]) -> String {
    let first = plan.description.lines().map(str::trim);
    let first = first.into_iter().find(|line| !line.is_empty());
    let mut message = subject(first.unwrap_or(&plan.action));
    let done = steps
        .iter()
        .filter(|step| step.is_done() && step.undone_by.is_none())
        .filter(|step| {
            matches!(
                step.kind(),
                Some(StepKind::Step | StepKind::Fix | StepKind::Guidance)
            )
        });
    let mut body = String::new();
    for step in done {
        let summary = step.summary.as_deref().unwrap_or_default().trim();
        // The summary ends with the checks that the actor ran itself, one per line; they are omitted.
        let lines = summary.lines().filter(|line| !line.starts_with("- `"));
        let lines: Vec<&str> = lines.take(SUMMARY_LINES).collect();
        let text = if lines.is_empty() {
            step.title.clone()
        } else {
            lines.join("\n")
        };
        let _written = writeln!(body, "{}", wrap_lines(&text));
    }
    if !body.is_empty() {
        let _written = write!(message, "\n\n{}", body.trim_end());
    }
    let mut checked: Vec<(&str, &str)> = Vec::new();
    for result in results {
        let verdict = if result.result.passed {
            "passed"
        } else {
            "failed"
        };
        let name = result.result.validation.as_str();
        checked.retain(|(known, _)| *known != name);
        checked.push((name, verdict));
    }
    if !checked.is_empty() {
        message.push_str("\n\nChecked:");
        for (name, verdict) in checked {
            let _written = write!(message, "\n- {name}: {verdict}");
        }
    }
    let _written = write!(message, "\n\nPlan: {}\n", plan.id);
    message
}

/// Shortens a line to at most [`SUBJECT`] characters, between words.
pub(crate) fn subject(line: &str) -> String {
    if line.chars().count() <= SUBJECT {
        return line.trim_end_matches('.').to_owned();
    }
    let short: String = line.chars().take(SUBJECT - 1).collect();
    let cut = short.rfind(char::is_whitespace).unwrap_or(short.len());
    let words = short[..cut].trim_end_matches(|letter: char| !letter.is_alphanumeric());
    format!("{words}…")
}

/// Wraps the lines of a text at [`SUBJECT`] characters, between words.
fn wrap_lines(text: &str) -> String {
    let mut all: Vec<String> = Vec::new();
    for line in text.lines() {
        let mut current = String::new();
        for word in line.split_whitespace() {
            let length = current.chars().count() + 1 + word.chars().count();
            if !current.is_empty() && length > SUBJECT {
                all.push(std::mem::take(&mut current));
            }
            if !current.is_empty() {
                current.push(' ');
            }
            current.push_str(word);
        }
        all.push(current);
    }
    all.join("\n")
}

#[cfg(test)]
mod tests {
    use super::{subject, wrap_lines};

    #[test]
    fn a_subject_is_cut_between_words() {
        assert_eq!(subject("Fix the price."), "Fix the price");
        let long =
            "Make the parser accept ranges whose end is included, as the manual describes it";
        let short = subject(long);
        assert!(short.chars().count() <= 72, "{short}");
        assert_eq!(
            short,
            "Make the parser accept ranges whose end is included, as the manual…"
        );
        assert!(subject(&"é".repeat(200)).chars().count() <= 72);
    }

    #[test]
    fn body_lines_are_wrapped_between_words() {
        let text = wrap_lines(&format!("{}\nnext", "word ".repeat(30)));
        assert!(text.lines().all(|line| line.len() <= 72), "{text}");
        assert_eq!(text.split_whitespace().count(), 31);
        assert!(text.ends_with("\nnext"));
    }
}
