//! What a plan stands on: what its models are told, what is checked before it begins, where it works.

use std::fmt::Write as _;

use cleveragents_domain::{InvocationOutcome, Plan, PlanId, SandboxState};
use cleveragents_process::{Cancel, WhenMissing};
use cleveragents_store::invocations;

use super::built_in::DETERMINISTIC;
use super::error::PlanError;
use super::policy::CheckpointTrigger;
use super::service::PlanService;
use crate::sandbox::SandboxError;
use crate::tool::SandboxWorkspace;

impl PlanService {
    /// What every model that works for a plan is told, whatever is left out of a long conversation.
    pub(super) fn instructions(&self, plan: &Plan) -> Result<Vec<String>, PlanError> {
        let mut text = format!(
            "# The plan\n\nWhat is to be done:\n{}\n\nIt is done when:\n{}\n",
            plan.description, plan.definition_of_done
        );
        let reconciled = self.reconciled(plan)?;
        if !reconciled.effective.is_empty() {
            text.push_str(
                "\n# Invariants\n\nThey hold whatever else is said, and no step may break one:\n",
            );
            for invariant in &reconciled.effective {
                let _written = writeln!(text, "- {}", invariant.text);
            }
        }
        if plan.made_with.read_only {
            text.push_str("\nNothing may be changed: this plan only looks.\n");
        }
        Ok(vec![text])
    }

    /// The checks before a plan begins: what is not as it must be.
    pub(super) fn preflight(
        &self,
        plan: &Plan,
        runtime: &crate::runtime::AgentRuntime,
    ) -> Vec<String> {
        let mut failed = Vec::new();
        if plan.made_with.action.is_none() {
            failed.push("it has no action".to_owned());
        }
        let actors = &plan.made_with.actors;
        let all = [
            Some(&actors.strategy),
            Some(&actors.execution),
            actors.estimation.as_ref(),
            actors.invariant.as_ref(),
            actors.review.as_ref(),
        ];
        for name in all
            .into_iter()
            .flatten()
            .filter(|name| *name != DETERMINISTIC)
        {
            // Compiling names everything that an actor needs and that is not there.
            if let Err(error) = runtime.actor(name) {
                failed.push(format!("the actor `{name}` cannot be used: {error}"));
            }
        }
        if let Err(error) = self.safety(plan) {
            failed.push(format!(
                "its profile `{}`: {error}",
                plan.made_with.profile.name
            ));
        }
        match self.targets(plan) {
            Err(error) => failed.push(error.to_string()),
            Ok(targets) => {
                if let Err(error) = self.sandboxes.check_targets(&targets) {
                    failed.push(error.to_string());
                }
                for target in targets {
                    let is_file = target.source != cleveragents_sandbox::Source::Postgres;
                    if is_file && !target.location.exists() {
                        failed.push(format!(
                            "the resource `{}` is not at `{}` any more",
                            target.resource,
                            target.location.display()
                        ));
                    }
                }
            }
        }
        if let Some(limit) = plan.made_with.max_cost_micro_usd
            && plan.usage.cost_micro_usd.0 >= limit
        {
            failed.push("its budget is spent".to_owned());
        }
        failed
    }

    /// The sandbox of a plan, made when it is not there, with nobody else in it.
    pub(super) fn workspace(
        &self,
        plan: &Plan,
        cancel: &Cancel,
    ) -> Result<SandboxWorkspace, PlanError> {
        let sandboxes = self.sandboxes.interrupted_by(cancel);
        let name = sandbox_name(plan.id);
        let is_there = match self.sandboxes.find(&name) {
            Ok(found) => match found.sandbox.state {
                // Whoever opens one that was cut off while it was made, or thrown away, ends that first.
                SandboxState::Creating | SandboxState::Discarding => {
                    match self.sandboxes.open(&name) {
                        Ok(_) => true,
                        Err(SandboxError::NotFound(_) | SandboxError::NotReady { .. }) => false,
                        Err(error) => return Err(error.into()),
                    }
                }
                SandboxState::Discarded => false,
                _ => true,
            },
            Err(SandboxError::NotFound(_)) => false,
            Err(error) => return Err(error.into()),
        };
        if !is_there {
            let targets = self.targets(plan)?;
            let origin = format!("plan {}", plan.id);
            self.sandboxes
                .create_for(Some(plan.id), &name, &origin, &targets)?;
        }
        let open = sandboxes.open(&name)?;
        let mut interrupted = self
            .engine
            .read(|reader| invocations::of_plan(reader, plan.id))?;
        interrupted.retain(|call| call.outcome == InvocationOutcome::Running);
        let workspace = SandboxWorkspace::resume(sandboxes, open, WhenMissing::Warn, &interrupted)?;
        Ok(workspace.marking(
            self.policy.marks(CheckpointTrigger::ToolWrite),
            self.policy.marks(CheckpointTrigger::ToolWriteComplete),
        ))
    }
}

/// What the sandbox of a plan is called.
pub(super) fn sandbox_name(plan: PlanId) -> String {
    format!("plan-{plan}").to_ascii_lowercase()
}
