//! Checks before a plan starts.

use cleveragents_domain::Plan;
use cleveragents_sandbox::Source;

use crate::plan::built_in::DETERMINISTIC;
use crate::plan::requirements::{PlanRequirements, profile_safety};
use crate::runtime::AgentRuntime;
use crate::sandbox::SandboxService;

/// Runs the preflight checks of a plan. Returns one sentence for each failed check.
pub(super) fn failed_checks(
    plan: &Plan,
    requirements: &PlanRequirements,
    sandboxes: &SandboxService,
    runtime: &AgentRuntime,
) -> Vec<String> {
    let mut failed = Vec::new();
    if plan.inputs.action.is_none() {
        failed.push("it has no action".to_owned());
    }
    let actors = &plan.inputs.actors;
    let required = [&actors.strategy, &actors.execution];
    let optional = [&actors.estimation, &actors.invariant, &actors.review];
    for name in required
        .into_iter()
        .chain(optional.into_iter().flatten())
        .filter(|name| *name != DETERMINISTIC)
    {
        // Compiling an actor reports all missing dependencies.
        if let Err(error) = runtime.actor(name) {
            failed.push(format!("the actor `{name}` cannot be used: {error}"));
        }
    }
    if let Err(error) = profile_safety(plan) {
        failed.push(format!(
            "its profile `{}`: {error}",
            plan.inputs.profile.name
        ));
    }
    failed.extend(failed_target_checks(plan, requirements, sandboxes));
    if let Some(limit) = plan.inputs.max_cost_micro_usd
        && plan.usage.cost_micro_usd.0 >= limit
    {
        failed.push("its budget is spent".to_owned());
    }
    failed
}

fn failed_target_checks(
    plan: &Plan,
    requirements: &PlanRequirements,
    sandboxes: &SandboxService,
) -> Vec<String> {
    let targets = match requirements.targets(plan) {
        Ok(targets) => targets,
        Err(error) => return vec![error.to_string()],
    };
    let mut failed = Vec::new();
    if let Err(error) = sandboxes.check_targets(&targets) {
        failed.push(error.to_string());
    }
    for target in targets {
        let is_file = target.source != Source::Postgres;
        if is_file && !target.location.exists() {
            failed.push(format!(
                "the resource `{}` is no longer at `{}`",
                target.resource,
                target.location.display()
            ));
        }
    }
    failed
}
