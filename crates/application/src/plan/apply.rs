//! Apply: everything a plan did is carried to the real resources at once, or nothing is.

use cleveragents_domain::{
    AutomationGate, GateAction, Move, Plan, PlanStage, SandboxState, ValidationMode,
};
use cleveragents_store::plans::Along;
use cleveragents_store::{leases, plans, validations};
use serde_json::{Value, json};

use super::drive::Drive;
use super::error::PlanError;
use super::gates::Passage;
use super::policy::SandboxCleanup;
use super::service::{PlanService, over};
use crate::lease::HeldLease;
use crate::sandbox::{ApplyRequest, OpenSandbox, SandboxError};

impl PlanService {
    /// What stands in the way of applying a plan: validations that failed or did not run on what is there
    /// now, criteria that are not met, invariants that are broken.
    pub(super) fn hindrances(
        &self,
        plan: &Plan,
        open: &OpenSandbox,
    ) -> Result<Vec<String>, PlanError> {
        let results = self
            .engine
            .read(|reader| validations::results(reader, plan.id))?;
        let is_fresh = |position: u64| -> Result<bool, PlanError> {
            Ok(self.sandboxes.net(open, position)?.path_count() == 0)
        };
        let mut reasons = Vec::new();
        for wanted in self.wanted(plan)? {
            if wanted.mode() != ValidationMode::Required {
                continue;
            }
            let latest = results
                .iter()
                .rev()
                .find(|stored| wanted.is_about(&stored.result));
            match latest {
                None => reasons.push(format!("`{}` did not run", wanted.name())),
                Some(stored) if !stored.result.passed => reasons.push(format!(
                    "`{}` failed: {}",
                    wanted.name(),
                    stored.result.message
                )),
                Some(stored) if !is_fresh(stored.result.position)? => reasons.push(format!(
                    "`{}` did not run on what is in the sandbox now",
                    wanted.name()
                )),
                Some(_) => {}
            }
        }
        Ok(reasons)
    }

    /// Brings an apply that was cut off to its end, whichever it is, and the plan with it.
    pub(super) fn settle_apply(
        &self,
        plan: &Plan,
        sandbox: &str,
        lease: &HeldLease,
    ) -> Result<Plan, PlanError> {
        let id = plan.id;
        let view = match self.sandboxes.open(sandbox) {
            Ok(open) => open.view,
            Err(_) => self.sandboxes.find(sandbox)?,
        };
        if view.sandbox.state != SandboxState::Applied {
            return self.get(id);
        }
        let report = view
            .sandbox
            .result
            .as_deref()
            .map(serde_json::from_str::<Value>);
        let report = report.and_then(Result::ok).unwrap_or_default();
        let fence = (lease.subject().clone(), lease.token());
        let along = Along {
            report: Some(json!({"parts": report["parts"], "recovered": true})),
            ..Along::default()
        };
        let moved = self.engine.write(move |unit| {
            leases::require(unit, &fence.0, fence.1)?;
            plans::advance(unit, id, Move::CompleteApply, &along)
        })?;
        moved.ok_or_else(|| over(plan))
    }
}

/// How long is waited for another apply.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(50);

/// What came of one attempt to apply.
enum Once {
    /// It is applied, or went back into execution.
    Done(Box<Plan>),
    /// Somebody else applies something to the same resources, or what it is judged by has changed.
    Again(Box<Plan>),
}

fn done(plan: Plan) -> Once {
    Once::Done(Box::new(plan))
}

impl Drive<'_> {
    /// Applies the plan.
    pub(super) fn apply(&self, plan: Plan) -> Result<Plan, PlanError> {
        let Some(sandbox) = plan.sandbox.clone() else {
            return Err(PlanError::NotFound(plan.id));
        };
        if plan.stage == PlanStage::ApplyProcessing {
            let settled = self.service.settle_apply(&plan, &sandbox, self.lease)?;
            if settled.stage == PlanStage::ApplyApplied {
                self.watcher.stage(&settled);
                return Ok(settled);
            }
        }
        self.service.check_invariants(&plan)?;
        let mut plan = plan;
        loop {
            plan = match self.apply_once(plan, &sandbox)? {
                Once::Done(applied) => return Ok(*applied),
                Once::Again(plan) => *plan,
            };
            // When another plan is being applied to the same resources, that takes a moment.
            if self.cancel.is_cancelled() {
                return Err(self.stopped(&plan)?);
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn apply_once(&self, plan: Plan, sandbox: &str) -> Result<Once, PlanError> {
        let mut open = match self.service.sandboxes.open(sandbox) {
            Ok(open) => open,
            Err(error @ (SandboxError::NotFound(_) | SandboxError::NotReady { .. })) => {
                let plan = self.processing(plan)?;
                // An attempt may have failed only after its turning point: then it is applied.
                let settled = self.service.settle_apply(&plan, sandbox, self.lease);
                if let Ok(settled) = settled
                    && settled.stage == PlanStage::ApplyApplied
                {
                    self.watcher.stage(&settled);
                    return Ok(done(settled));
                }
                let message = format!("its sandbox cannot be used: {error}");
                return self
                    .fail(&plan, Move::FailApply, "resource", &message, Value::Null)
                    .map(done);
            }
            Err(error) => return Err(error.into()),
        };
        // Before anything is judged: what comes after this is found when the apply begins.
        let standing = self.service.standing(&plan)?;
        let diff = self.service.sandboxes.diff(&mut open)?;
        let changed: Vec<String> = diff
            .parts
            .iter()
            .flat_map(|part| {
                part.changes
                    .iter()
                    .filter(|change| !is_folder(change))
                    .map(move |change| format!("{}/{}", part.member.alias, change.path))
            })
            .collect();
        let mut reasons = self.service.hindrances(&plan, &open)?;
        let violation = self.path_violation(&plan, &changed)?;
        // The execution runs validations again and fixes what they find; a forbidden path stays forbidden.
        let is_reworkable = violation.is_none();
        reasons.extend(violation);
        if !reasons.is_empty() {
            return self.constrain(&plan, reasons, is_reworkable).map(done);
        }
        if changed.is_empty() && !self.options.allow_empty && !plan.made_with.read_only {
            return Err(PlanError::NothingToApply(plan.id));
        }
        let counted = super::book::counted(&open.view, &diff).map_err(PlanError::of)?;
        let plan = if plan.stage == PlanStage::ApplyProcessing {
            plan
        } else {
            match self.service.begin_apply(&plan, &standing, self.lease)? {
                Some(begun) => begun,
                None => return Ok(Once::Again(Box::new(plan))),
            }
        };
        self.watcher.stage(&plan);
        let request = ApplyRequest {
            landing: self.options.landing,
            message: Some(
                self.options
                    .message
                    .clone()
                    .unwrap_or_else(|| message(&plan)),
            ),
            keeps_files: self.service.policy.cleanup == SandboxCleanup::Manual,
        };
        let applied = match self.service.sandboxes.apply(open, &request) {
            Ok(applied) => applied,
            Err(error) if error.is_held() => return Ok(Once::Again(Box::new(plan))),
            Err(error) => return self.not_applied(&plan, error).map(done),
        };
        let report = json!({
            "parts": applied.parts, "changed": changed,
            "insertions": counted.insertions(), "deletions": counted.deletions(),
        });
        let along = Along {
            report: Some(report),
            forgets_error: true,
            ..Along::default()
        };
        self.advance(&plan, Move::CompleteApply, along).map(done)
    }

    /// Writes down why a plan cannot be applied. Gives the plan when it goes back into execution.
    fn constrain(
        &self,
        plan: &Plan,
        reasons: Vec<String>,
        is_reworkable: bool,
    ) -> Result<Plan, PlanError> {
        let mut error = serde_json::Map::new();
        error.insert("message".to_owned(), reasons.join("; ").into());
        error.insert("error_category".to_owned(), "validation".into());
        error.insert("error_phase".to_owned(), "apply".into());
        error.insert(
            "recovery_hint".to_owned(),
            format!(
                "`agents plan prompt {0} TEXT` and `agents plan execute {0}`, or `agents plan revert {0}`",
                plan.id
            )
            .into(),
        );
        let along = Along {
            error: Some(error),
            ..Along::default()
        };
        let constrained = self.advance(plan, Move::Constrain, along)?;
        if is_reworkable && self.may_go_back(&constrained)? {
            self.watcher
                .note("the apply is refused; the plan goes back into execution to validate the result again");
            let along = Along {
                forgets_error: true,
                reason: Some(format!("it could not be applied: {}", reasons.join("; "))),
                ..Along::default()
            };
            return self.advance(&constrained, Move::Rework, along);
        }
        Err(PlanError::Constrained {
            plan: plan.id,
            reasons,
        })
    }

    /// Whether a plan that could not be applied goes back into execution by itself.
    fn may_go_back(&self, plan: &Plan) -> Result<bool, PlanError> {
        let passage =
            self.service
                .pass(plan, AutomationGate::ReturnToExecution, GateAction::Execute)?;
        Ok(matches!(passage, Passage::Open))
    }

    fn processing(&self, plan: Plan) -> Result<Plan, PlanError> {
        if plan.stage == PlanStage::ApplyProcessing {
            return Ok(plan);
        }
        self.advance(&plan, Move::StartApply, Along::default())
    }

    /// Nothing was applied.
    fn not_applied(&self, plan: &Plan, error: SandboxError) -> Result<Plan, PlanError> {
        use cleveragents_domain::{Code, Diagnose as _};
        let category = match error.code() {
            Code::ApplyConflict => "merge_conflict",
            _ => "resource",
        };
        let more = json!({"code": error.code().as_str(), "details": error.details()});
        match self.fail(plan, Move::FailApply, category, &error.to_string(), more) {
            // What the sandbox says tells more: which paths, and both sides.
            Err(PlanError::Failed { .. }) => Err(error.into()),
            other => other,
        }
    }
}

/// Folders come and go with the files in them.
fn is_folder(change: &cleveragents_sandbox::Change) -> bool {
    let state = change.after.or(change.before);
    state.is_some_and(|state| state.kind() == cleveragents_domain::FileKind::Directory)
}

/// The message of the commit.
fn message(plan: &Plan) -> String {
    let first = plan.description.lines().next().unwrap_or_default().trim();
    let title: String = first.chars().take(72).collect();
    let title = if title.is_empty() {
        plan.action.clone()
    } else {
        title
    };
    format!("{title}\n\nPlan: {}\nAction: {}\n", plan.id, plan.action)
}
