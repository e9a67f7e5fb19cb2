//! [`StepRun`]: key, prompt and conversation of the run of a step.

use cleveragents_domain::{Plan, StepRecord, StepState};
use cleveragents_store::plan_steps;

use super::ExecutePhase;
use super::prompt::StepContext;
use super::step::StepSpec;
use crate::plan::built_in::DETERMINISTIC;
use crate::plan::error::PlanError;
use crate::plan::query::counted;
use crate::plan::shared_conversation::ThreadRequest;
use crate::run::{CarriedConversation, WorkState};
use crate::tool::SandboxWorkspace;

/// Maximum number of times that a step runs again after its actor reported that the step is blocked.
const MAX_RUNS: u64 = 1_000;

#[derive(Default)]
pub(super) struct StepRun {
    pub(super) key: String,
    pub(super) prompt: String,
    /// The conversation to continue.
    pub(super) carried: Option<CarriedConversation>,
}

/// The key of the run of a step. `number` differs when the step runs again after a rollback;
/// `blocked` counts earlier runs that reported that the step is blocked.
pub(super) fn run_key(path: &str, number: u64, blocked: u64) -> String {
    match blocked {
        0 => format!("{path}#{number}"),
        _ => format!("{path}#{number}.{blocked}"),
    }
}

impl ExecutePhase<'_> {
    /// Number of earlier runs that reported the step as blocked: the `blocked` number of the run to start or resume.
    pub(super) fn blocked_runs(&self, plan: &Plan, step: &StepRecord) -> Result<u64, PlanError> {
        let key_of = |number: u64| run_key(&step.path, step.number, number);
        let is_last = |number: &u64| Some(plan.id.run(&key_of(*number))) == step.run;
        let Some(last) = (0..MAX_RUNS).find(is_last) else {
            return Ok(0);
        };
        // If a step failed although its run is complete, the run reported that the step is blocked, and the user now
        // retries the step.
        let is_blocked =
            step.state == StepState::Failed && self.actors.is_complete(plan, &key_of(last))?;
        Ok(if is_blocked { last + 1 } else { last })
    }

    /// Builds the key, the prompt and the conversation of the run of a step.
    pub(super) fn prepare_run(
        &self,
        plan: &Plan,
        spec: &StepSpec<'_>,
        record: &StepRecord,
        blocked: u64,
        workspace: &SandboxWorkspace,
    ) -> Result<StepRun, PlanError> {
        let key = run_key(&spec.path, record.number, blocked);
        let actor = &plan.inputs.actors.execution;
        if spec.call.is_some() || actor == DETERMINISTIC {
            return Ok(StepRun {
                key,
                ..StepRun::default()
            });
        }
        let blocked_run = blocked
            .checked_sub(1)
            .map(|last| plan.id.run(&run_key(&spec.path, record.number, last)));
        let request = ThreadRequest {
            actor,
            before: record.number,
            blocked: blocked_run,
            changed: &workspace.changed_paths(0)?,
            strategy: plan.strategy.as_ref(),
        };
        let thread = self.actors.thread(plan, &request)?;
        let (steps, guidance) = self.progress.read(|reader| {
            Ok((
                plan_steps::of_plan(reader, plan.id)?,
                plan_steps::guidance(reader, plan.id)?,
            ))
        })?;
        let is_built_in = self.actors.is_built_in(actor, spec.kind)?;
        let prompts = is_built_in.then(|| self.actors.prompts(plan));
        let prompt = spec.prompt.text(&StepContext {
            thread: &thread,
            was_blocked: blocked_run.is_some(),
            steps: &steps,
            guidance: &guidance,
            prompts: prompts.as_ref(),
        });
        Ok(StepRun {
            key,
            prompt,
            carried: thread.carried,
        })
    }
}

/// The work of a step in the sandbox of its plan.
pub(super) struct StepWork<'w> {
    pub(super) workspace: &'w SandboxWorkspace,
    /// The position of the sandbox when the step started.
    pub(super) position_before: u64,
    pub(super) is_read_only: bool,
}

impl WorkState for StepWork<'_> {
    fn may_end(&self) -> bool {
        self.is_read_only
            || self
                .workspace
                .changed_since(self.position_before)
                .is_ok_and(|changed| !changed.is_empty())
    }

    fn diff(&self) -> Option<String> {
        let (view, diff) = self.workspace.net_diff().ok()?;
        let patch = counted(&view, &diff).ok()?.patch?;
        let patch = String::from_utf8_lossy(&patch).into_owned();
        Some(patch).filter(|patch| !patch.trim().is_empty())
    }
}
