//! [`PlanWorkspaces`]: opens and cleans up the sandboxes of plans.

use cleveragents_domain::{InvocationOutcome, Plan, PlanId, PlanStage, SandboxState};
use cleveragents_process::{Cancel, WhenMissing};
use cleveragents_store::invocations;

use super::error::PlanError;
use super::plan_store::PlanStore;
use super::policy::{CheckpointTrigger, SandboxCleanup, SandboxPolicy};
use super::requirements::PlanRequirements;
use crate::sandbox::{SandboxError, SandboxService};
use crate::tool::SandboxWorkspace;

/// The sandboxes of plans. Cheap to clone.
#[derive(Clone)]
pub(super) struct PlanWorkspaces {
    pub(super) store: PlanStore,
    pub(super) sandboxes: SandboxService,
    pub(super) requirements: PlanRequirements,
    pub(super) policy: SandboxPolicy,
}

impl PlanWorkspaces {
    /// Opens the sandbox of a plan for exclusive use by this process. Creates the sandbox if it does not exist.
    pub(super) fn open(&self, plan: &Plan, cancel: &Cancel) -> Result<SandboxWorkspace, PlanError> {
        let name = sandbox_name(plan.id);
        if !self.exists(&name)? {
            if plan.is_subplan() {
                // The parent creates it, from its own sandbox.
                return Err(SandboxError::NotFound(name).into());
            }
            let targets = self.requirements.targets(plan)?;
            let origin = format!("plan {}", plan.id);
            self.sandboxes
                .create_for(Some(plan.id), &name, &origin, &targets)?;
        }
        let sandboxes = self.sandboxes.interrupted_by(cancel);
        let open = sandboxes.open(&name)?;
        let mut interrupted = self
            .store
            .read(|reader| invocations::of_plan(reader, plan.id))?;
        interrupted.retain(|call| call.outcome == InvocationOutcome::Running);
        let workspace = SandboxWorkspace::resume(sandboxes, open, WhenMissing::Warn, &interrupted)?;
        Ok(workspace.with_checkpoints(
            self.policy.marks(CheckpointTrigger::ToolWrite),
            self.policy.marks(CheckpointTrigger::ToolWriteComplete),
        ))
    }

    pub(super) fn exists(&self, name: &str) -> Result<bool, PlanError> {
        match self.sandboxes.find(name) {
            Ok(view) => match view.sandbox.state {
                // Opening such a sandbox first finishes its interrupted creation or removal.
                SandboxState::Creating | SandboxState::Discarding => {
                    match self.sandboxes.open(name) {
                        Ok(_) => Ok(true),
                        Err(SandboxError::NotFound(_) | SandboxError::NotReady { .. }) => Ok(false),
                        Err(error) => Err(error.into()),
                    }
                }
                SandboxState::Discarded => Ok(false),
                _ => Ok(true),
            },
            Err(SandboxError::NotFound(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Discards the sandbox of a cancelled plan if the policy requires it. No process may have the sandbox open.
    pub(super) fn clean_up(&self, plan: &Plan) -> Result<(), PlanError> {
        if plan.is_subplan() && plan.stage.is_terminal() {
            return self.remove_fork(plan.id);
        }
        let is_due = self.policy.cleanup == SandboxCleanup::OnTerminal
            && plan.stage.is_terminal()
            && plan.stage != PlanStage::ApplyApplied;
        let Some(name) = plan.sandbox.as_deref().filter(|_| is_due) else {
            return Ok(());
        };
        self.discard(name)
    }

    /// Removes the sandbox of a child plan, whose result is merged or not wanted any more.
    pub(super) fn remove_fork(&self, child: PlanId) -> Result<(), PlanError> {
        self.discard(&sandbox_name(child))
    }

    fn discard(&self, name: &str) -> Result<(), PlanError> {
        match self.sandboxes.find(name) {
            Ok(view) if view.sandbox.state != SandboxState::Discarded => {}
            Ok(_) | Err(SandboxError::NotFound(_)) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        self.sandboxes.discard(name)?;
        Ok(())
    }
}

/// The name of the sandbox of a plan.
pub(super) fn sandbox_name(plan: PlanId) -> String {
    format!("plan-{plan}").to_ascii_lowercase()
}
