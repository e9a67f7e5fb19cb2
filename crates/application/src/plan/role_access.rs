//! Access of pool roles to the sandbox, the checks and the typed report of a plan that they created.

use cleveragents_domain::{Plan, PlanId, ValidationMode};
use cleveragents_process::{Cancel, WhenMissing};
use cleveragents_store::validations::StoredResult;
use cleveragents_store::{plan_steps, validations};
use serde_json::Value;

use super::error::PlanError;
use super::service::PlanService;
use super::typed_report::{SUBMIT_FINDINGS, SUBMIT_TEST, SUBMIT_TRIAGE, SUBMIT_VERDICT};
use super::workspace::sandbox_name;
use crate::run::RunServiceError;
use crate::sandbox::{SandboxError, SandboxService};
use crate::tool::SandboxWorkspace;
use crate::turn::REPORT;
use crate::validation::EffectiveValidation;

/// A sandbox that is removed when it is dropped.
pub(crate) struct TemporaryWorkspace {
    sandboxes: SandboxService,
    name: String,
    workspace: Option<SandboxWorkspace>,
}

impl TemporaryWorkspace {
    pub(crate) const fn workspace(&self) -> Option<&SandboxWorkspace> {
        self.workspace.as_ref()
    }
}

impl Drop for TemporaryWorkspace {
    fn drop(&mut self) {
        // The lease of the sandbox is released before its removal.
        drop(self.workspace.take());
        if let Err(error) = self.sandboxes.discard(&self.name) {
            tracing::warn!(sandbox = self.name, %error, "temporary sandbox not removed");
        }
    }
}

impl PlanService {
    /// Opens the sandbox of a plan that no process runs. Creates the sandbox if it does not exist.
    pub(crate) fn open_workspace(
        &self,
        plan: &Plan,
        cancel: &Cancel,
    ) -> Result<SandboxWorkspace, PlanError> {
        self.control.workspaces.open(plan, cancel)
    }

    /// Creates the sandbox of a plan as a copy of another plan's sandbox in its current state.
    pub(crate) fn fork_workspace(
        &self,
        original: &Plan,
        copy: PlanId,
        cancel: &Cancel,
    ) -> Result<(), PlanError> {
        let workspace = self.open_workspace(original, cancel)?;
        workspace.fork(copy, &sandbox_name(copy))?;
        Ok(())
    }

    /// Creates a temporary sandbox of the resources of a plan, without the changes of the plan.
    pub(crate) fn base_workspace(
        &self,
        plan: &Plan,
        cancel: &Cancel,
    ) -> Result<TemporaryWorkspace, PlanError> {
        let sandboxes = self.control.workspaces.sandboxes.interrupted_by(cancel);
        let stamp = PlanId::generate().to_string().to_ascii_lowercase();
        let name = format!("base-{stamp}");
        let targets = self.requirements.targets(plan)?;
        let origin = format!("base of plan {}", plan.id);
        sandboxes.create(&name, &origin, &targets)?;
        let mut temporary = TemporaryWorkspace {
            sandboxes,
            name,
            workspace: None,
        };
        let open = temporary.sandboxes.open(&temporary.name)?;
        let service = temporary.sandboxes.clone();
        temporary.workspace = Some(SandboxWorkspace::new(service, open, WhenMissing::Warn)?);
        Ok(temporary)
    }

    /// Removes the sandbox of a plan whose result is not needed any more.
    pub(crate) fn discard_workspace(&self, plan: &Plan) -> Result<(), PlanError> {
        let sandboxes = &self.control.workspaces.sandboxes;
        match sandboxes.discard(&sandbox_name(plan.id)) {
            Ok(_) | Err(SandboxError::NotFound(_) | SandboxError::NotReady { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The attached validations that block the apply of a plan.
    pub(crate) fn required_validations(
        &self,
        plan: &Plan,
    ) -> Result<Vec<EffectiveValidation>, PlanError> {
        let mut all = self.requirements.validations_in_effect(plan)?;
        all.retain(|attached| attached.validation.mode == ValidationMode::Required);
        Ok(all)
    }

    /// The stored results of the checks of a plan, oldest first.
    pub(crate) fn check_results(&self, plan: PlanId) -> Result<Vec<StoredResult>, PlanError> {
        self.store.read(|reader| validations::results(reader, plan))
    }

    /// The last typed report of a plan; `None` if no actor reported one.
    pub(crate) fn typed_report(&self, plan: &Plan) -> Result<Option<Value>, PlanError> {
        const REPORTS: [&str; 4] = [SUBMIT_FINDINGS, SUBMIT_TEST, SUBMIT_TRIAGE, SUBMIT_VERDICT];
        let steps = self
            .store
            .read(|reader| plan_steps::of_plan(reader, plan.id))?;
        for step in steps.iter().rev().filter(|step| step.undone_by.is_none()) {
            let Some(run) = step.run else { continue };
            let run = match self.runs.get(run) {
                Ok(run) => run,
                Err(RunServiceError::NotFound { .. }) => continue,
                Err(error) => return Err(PlanError::from_service(error)),
            };
            let output = run.result.map(|mut result| result["output"].take());
            let is_report = |value: &Value| {
                let name = value[REPORT].as_str();
                name.is_some_and(|name| REPORTS.contains(&name))
            };
            if let Some(report) = output.filter(is_report) {
                return Ok(Some(report));
            }
        }
        Ok(None)
    }
}
