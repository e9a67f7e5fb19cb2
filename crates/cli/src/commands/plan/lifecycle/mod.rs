//! `plan use|execute|apply|…`: commands that change plans; `do` and `worker`.

mod answer;
mod answer_filter;
mod change_request;
mod child_lines;
mod correct;
mod do_task;
mod edit;
mod interactive;
mod preview;
mod question;
mod rollback;
mod run;
mod spawn;
mod undo;
mod use_action;
mod watcher;
mod worker;

use cleveragents_application::plan_operations::{ResumePlan, ShowPlanStatus};

use crate::arguments::{PlanApprove, PlanPrompt, PlanReject, PlanWork};
use crate::context::Context;
use crate::output::{CommandError, Report};

pub(in crate::commands) use do_task::run as run_do;
pub(crate) use interactive::call as call_interactive;
pub(crate) use preview::patch_preview;
pub(in crate::commands) use worker::run as run_worker;
pub(crate) use worker::worker_starter;

/// Full name of a command, with its group, as in the `command` field of the JSON output.
pub(in crate::commands) const fn name(command: &PlanWork) -> &'static str {
    match command {
        PlanWork::Use(_) => "plan use",
        PlanWork::Execute(_) => "plan execute",
        PlanWork::Apply(_) => "plan apply",
        PlanWork::Undo(_) => "plan undo",
        PlanWork::Cancel { .. } => "plan cancel",
        PlanWork::Approve(_) => "plan approve",
        PlanWork::Reject(_) => "plan reject",
        PlanWork::Prompt(_) => "plan prompt",
        PlanWork::Rollback { .. } => "plan rollback",
        PlanWork::Correct(_) => "plan correct",
        PlanWork::Spawn(_) => "plan spawn",
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
        PlanWork::Apply(arguments) if arguments.pr => {
            change_request::apply_and_publish(context, arguments)
        }
        PlanWork::Apply(arguments) => run::apply(context, arguments),
        PlanWork::Cancel { plan, reason, yes } => {
            let plan = match plan.reference {
                Some(reference) => reference,
                None => answer::confirm_cancel(context, yes)?,
            };
            answer::cancel(context, plan, reason)
        }
        PlanWork::Approve(PlanApprove { plan, answer }) => {
            answer::approve(context, plan.reference, answer)
        }
        PlanWork::Reject(PlanReject { plan, reason }) => {
            answer::reject(context, plan.reference, reason)
        }
        PlanWork::Prompt(PlanPrompt { mut guidance }) => {
            let text = guidance.pop().unwrap_or_default();
            let plan = plan_reference(context, guidance.pop())?;
            answer::prompt(context, plan, text)
        }
        PlanWork::Undo(arguments) => undo::run(context, arguments),
        PlanWork::Rollback {
            plan,
            checkpoint,
            preview,
            yes,
        } => {
            let (plan, checkpoint) = rollback_target(plan, checkpoint);
            let plan = plan_reference(context, plan)?;
            rollback::rollback(context, plan, checkpoint, preview, yes)
        }
        PlanWork::Correct(arguments) => correct::run(context, arguments),
        PlanWork::Spawn(arguments) => spawn::run(context, arguments),
        PlanWork::Redo { plan } => {
            rollback::redo(context, plan_reference(context, plan.reference)?)
        }
        PlanWork::Revert { plan, reason, .. } => {
            rollback::revert(context, plan_reference(context, plan.reference)?, reason)
        }
        PlanWork::Resume {
            plan,
            dry_run,
            stream,
        } => {
            let request = ResumePlan {
                reference: plan_reference(context, plan.reference)?,
                dry_run,
            };
            run::resume(context, request, stream)
        }
        PlanWork::Edit { plan, file } => {
            let plan = plan_reference(context, plan.reference)?;
            edit::run(context, plan, file.as_deref())
        }
    }
}

/// Returns the given reference of a plan, or the id of the current plan.
pub(super) fn plan_reference(
    context: &Context,
    reference: Option<String>,
) -> Result<String, CommandError> {
    if let Some(reference) = reference {
        return Ok(reference);
    }
    let status = context.call(ShowPlanStatus { reference: None })?;
    Ok(status.plan_id.to_string())
}

/// Plan and checkpoint of `rollback [PLAN] [CHECKPOINT]`. If only one argument is given, a number or `cp_N` is a
/// checkpoint and other text is a plan.
fn rollback_target(
    plan: Option<String>,
    checkpoint: Option<String>,
) -> (Option<String>, Option<String>) {
    match (plan, checkpoint) {
        (Some(target), None) => {
            let digits = target.strip_prefix("cp_").unwrap_or(&target);
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            if is_number {
                (None, Some(target))
            } else {
                (Some(target), None)
            }
        }
        both => both,
    }
}
