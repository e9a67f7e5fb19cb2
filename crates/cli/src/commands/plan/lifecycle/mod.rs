//! `plan use|execute|apply|…`: commands that change plans; `do` and `worker`.

mod answer;
mod answer_filter;
mod do_task;
mod edit;
mod interactive;
mod preview;
mod rollback;
mod run;
mod use_action;
mod watcher;
mod worker;

use cleveragents_application::plan_operations::ResumePlan;

use crate::arguments::PlanWork;
use crate::context::Context;
use crate::output::{CommandError, Report};

pub(in crate::commands) use do_task::run as run_do;
pub(crate) use preview::patch_preview;
pub(in crate::commands) use worker::run as run_worker;
pub(crate) use worker::worker_starter;

/// Command path, as in the `command` field of the JSON output.
pub(in crate::commands) const fn name(command: &PlanWork) -> &'static str {
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

pub(in crate::commands) fn run(
    context: &Context,
    command: PlanWork,
) -> Result<Report, CommandError> {
    match command {
        PlanWork::Use(arguments) => use_action::run(context, arguments),
        PlanWork::Execute(arguments) => run::execute(context, arguments),
        PlanWork::Apply(arguments) => run::apply(context, arguments),
        PlanWork::Cancel { plan, reason } => answer::cancel(context, plan.reference, reason),
        PlanWork::Approve { plan, answer } => answer::approve(context, plan.reference, answer),
        PlanWork::Reject { plan, reason } => answer::reject(context, plan.reference, reason),
        PlanWork::Prompt { plan, guidance } => answer::prompt(context, plan.reference, guidance),
        PlanWork::Rollback {
            plan,
            checkpoint,
            preview,
            yes,
        } => rollback::rollback(context, plan.reference, checkpoint, preview, yes),
        PlanWork::Redo { plan } => rollback::redo(context, plan.reference),
        PlanWork::Revert { plan, reason, .. } => rollback::revert(context, plan.reference, reason),
        PlanWork::Resume {
            plan,
            dry_run,
            stream,
        } => {
            let request = ResumePlan {
                reference: plan.reference,
                dry_run,
            };
            run::resume(context, request, stream)
        }
        PlanWork::Edit { plan, file } => edit::run(context, plan.reference, file.as_deref()),
    }
}
