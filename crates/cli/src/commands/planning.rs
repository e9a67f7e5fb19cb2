//! `plan use|execute|apply|…`: plans, to be worked with; `do` and `worker`.

mod ad_hoc;
mod answer;
mod back;
mod edit;
mod make;
mod preview;
mod run;
mod watcher;
mod worker;

use std::sync::Arc;

use cleveragents_application::{PlanBook, PlanService};
use cleveragents_domain::{Plan, PlanId, PlanStage};

use crate::arguments::{PlanChoice, PlanWork};
use crate::context::Context;
use crate::output::{CommandError, Report};

pub(super) use ad_hoc::run as run_do;
pub(crate) use preview::patch_preview;
pub(super) use worker::run as run_worker;
pub(crate) use worker::worker_starter;

/// The short name of a command.
pub(super) const fn name(command: &PlanWork) -> &'static str {
    match command {
        PlanWork::Use(_) => "plan use",
        PlanWork::Execute(_) => "plan execute",
        PlanWork::Apply(_) => "plan apply",
        PlanWork::Cancel { .. } => "plan cancel",
        PlanWork::Approve { .. } => "plan approve",
        PlanWork::Reject { .. } => "plan reject",
        PlanWork::Prompt { .. } => "plan prompt",
        PlanWork::Rollback { .. } => "plan rollback",
        PlanWork::Redo { .. } => "plan redo",
        PlanWork::Revert { .. } => "plan revert",
        PlanWork::Resume { .. } => "plan resume",
        PlanWork::Edit { .. } => "plan edit",
    }
}

/// Everything that works with plans needs.
pub(crate) struct Desk<'a> {
    pub(crate) context: &'a Context,
    pub(crate) service: PlanService,
    pub(crate) book: PlanBook,
}

impl<'a> Desk<'a> {
    pub(crate) fn new(context: &'a Context) -> Result<Self, CommandError> {
        let engine = context.engine()?;
        Ok(Self {
            context,
            service: PlanService::new(
                Arc::clone(&engine),
                context.sessions()?,
                context.sandboxes()?,
                Arc::new(context.variables()),
            )
            .with_policy(context.settings.sandbox_policy().clone()),
            book: context.plans()?,
        })
    }

    /// The plan that is named, or the only one in one of these stages.
    fn chosen(
        &self,
        choice: &PlanChoice,
        stages: &[PlanStage],
        purpose: &str,
    ) -> Result<Plan, CommandError> {
        match &choice.reference {
            Some(reference) => Ok(self.book.resolve(reference)?),
            None => Ok(self.book.only(stages, purpose)?),
        }
    }
}

/// Drives a plan on, as `plan execute` does.
pub(super) fn drive(context: &Context, plan: PlanId) -> Result<Report, CommandError> {
    let desk = Desk::new(context)?;
    let plan = desk.book.resolve(&plan.to_string())?;
    run::carry_on(&desk, &plan)
}

pub(super) fn run(context: &Context, command: PlanWork) -> Result<Report, CommandError> {
    match command {
        PlanWork::Use(arguments) => make::run(&Desk::new(context)?, &arguments),
        PlanWork::Execute(arguments) => run::execute(&Desk::new(context)?, &arguments),
        PlanWork::Apply(arguments) => run::apply(&Desk::new(context)?, &arguments),
        PlanWork::Cancel { plan, reason } => answer::cancel(context, plan.reference, reason),
        PlanWork::Approve { plan, answer } => answer::approve(context, plan.reference, answer),
        PlanWork::Reject { plan, reason } => answer::reject(context, plan.reference, reason),
        PlanWork::Prompt { plan, guidance } => answer::prompt(context, plan.reference, guidance),
        PlanWork::Rollback {
            plan,
            checkpoint,
            preview,
            yes,
        } => back::rollback(context, plan.reference, checkpoint, preview, yes),
        PlanWork::Redo { plan } => back::redo(context, plan.reference),
        PlanWork::Revert { plan, reason, .. } => back::revert(context, plan.reference, reason),
        PlanWork::Resume {
            plan,
            dry_run,
            stream,
        } => {
            let desk = Desk::new(context)?;
            let plan = desk.book.resolve(&plan.reference)?;
            run::resume(&desk, &plan, dry_run, stream)
        }
        PlanWork::Edit { plan, file } => edit::run(context, plan.reference, file.as_deref()),
    }
}
