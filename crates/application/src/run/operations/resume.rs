//! `run/resume`: resumes a run of an actor after its last stored step.

use std::time::Instant;

use cleveragents_domain::identity::Permission;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{parse_id, requires};
use crate::actor::operations::ActorRunResult;
use crate::operation::{Operation, OperationContext, OperationError, Requirement, Resolver};
use crate::run::UnknownOutcome;
use crate::runtime::{ActorRunOptions, ActorRunner, RunFrontEnd};

/// Resumes a run that was interrupted, failed, was stopped or waits for an answer.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeRun {
    /// Id, or a prefix of at least 6 characters.
    pub run: String,
    /// Retry tool calls whose outcome is unknown.
    #[serde(default)]
    pub redo: bool,
    /// Assume that tool calls whose outcome is unknown are done.
    #[serde(default)]
    pub skip: bool,
    /// The answer to the question that the run waits for.
    #[serde(default)]
    pub answer: Option<String>,
}

impl ResumeRun {
    fn unknown_outcome(&self) -> Result<UnknownOutcome, OperationError> {
        match (self.redo, self.skip, &self.answer) {
            (true, false, None) => Ok(UnknownOutcome::Retry),
            (false, true, None) => Ok(UnknownOutcome::AssumeDone),
            (false, false, _) => Ok(UnknownOutcome::Ask),
            _ => Err(OperationError::usage(
                "only one of `redo`, `skip` and `answer` can be given",
            )),
        }
    }
}

impl Operation for ResumeRun {
    const NAME: &'static str = "run/resume";
    const SUMMARY: &'static str = "Resume a run that stopped or waits";
    const REQUIREMENT: Requirement = requires(Permission::Write);
    const RUNS_AGENTS: bool = true;
    type Response = ActorRunResult;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        resolver.resumed_run(&mut self.run)
    }

    fn run(self, context: &OperationContext) -> Result<ActorRunResult, OperationError> {
        let started = Instant::now();
        let unknown_outcome = self.unknown_outcome()?;
        let runs = context.runs();
        let run = runs.get(parse_id(&self.run)?)?;
        let options = ActorRunOptions::stored(&run)?;
        let runtime = context.runtime(&options.place.safety, None)?;
        let runner = ActorRunner::new(&runtime, runs);
        let front_end = context.front_end();
        let report = runner.resume(
            &run,
            self.answer.as_deref(),
            unknown_outcome,
            RunFrontEnd {
                approver: &*front_end.approver,
                observer: &*front_end.observer,
                cancel: context.cancel(),
            },
        )?;
        ActorRunResult::new(context, &report, started.elapsed())
    }
}
