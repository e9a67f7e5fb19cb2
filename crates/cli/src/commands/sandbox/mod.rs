//! `agents sandbox`.

mod apply;
mod exec;
mod history;
mod manage;
mod query;
mod targets;

use cleveragents_application::{RecoveredOperation, SandboxService};
use cleveragents_sandbox::Change;
use serde_json::{Value, json};

use crate::arguments::Sandbox;
use crate::context::Context;
use crate::output::{CommandError, Report};

/// Full name of a command, with its group, as in the `command` field of the JSON output.
pub(super) const fn name(command: &Sandbox) -> &'static str {
    match command {
        Sandbox::Create(_) => "sandbox create",
        Sandbox::List { .. } => "sandbox list",
        Sandbox::Show { .. } => "sandbox show",
        Sandbox::Exec(_) => "sandbox exec",
        Sandbox::Query(_) => "sandbox query",
        Sandbox::Diff(_) => "sandbox diff",
        Sandbox::Checkpoint { .. } => "sandbox checkpoint",
        Sandbox::Rollback(_) => "sandbox rollback",
        Sandbox::Redo { .. } => "sandbox redo",
        Sandbox::Apply(_) => "sandbox apply",
        Sandbox::Discard { .. } => "sandbox discard",
    }
}

pub(super) fn run(context: &Context, command: Sandbox) -> Result<Option<Report>, CommandError> {
    let service = context.sandboxes()?;
    let recovered = service.recover()?;
    let report = match command {
        Sandbox::Create(arguments) => manage::create(context, &service, &arguments)?,
        Sandbox::List { all } => manage::list(&service, all)?,
        Sandbox::Show { sandbox } => manage::show(&service, &sandbox.reference)?,
        Sandbox::Exec(arguments) => exec::run(context, &service, arguments)?,
        Sandbox::Query(arguments) => query::run(&service, &arguments)?,
        Sandbox::Diff(arguments) => match history::diff(context, &service, &arguments)? {
            Some(report) => report,
            None => return Ok(None),
        },
        Sandbox::Checkpoint { sandbox, label } => {
            history::checkpoint(&service, &sandbox.reference, label.as_deref())?
        }
        Sandbox::Rollback(arguments) => history::rollback(&service, &arguments)?,
        Sandbox::Redo { sandbox } => history::redo(&service, &sandbox.reference)?,
        Sandbox::Apply(arguments) => apply::run(&service, &arguments)?,
        Sandbox::Discard { sandbox, deletion } => {
            manage::discard(&service, &sandbox.reference, deletion)?
        }
    };
    Ok(Some(
        recovered
            .iter()
            .fold(report, |report, recovered_operation| {
                report.warn(recovery_message(recovered_operation))
            }),
    ))
}

/// Message about an interrupted earlier command that this command finished or undid.
fn recovery_message(recovered_operation: &RecoveredOperation) -> String {
    match recovered_operation {
        RecoveredOperation::Removed(name) => {
            format!("sandbox `{name}` was incomplete and is removed")
        }
        RecoveredOperation::Applied(name) => {
            format!("the interrupted apply of sandbox `{name}` is finished")
        }
        RecoveredOperation::ApplyRolledBack(name, changed_files) if changed_files.is_empty() => {
            format!("the interrupted apply of sandbox `{name}` is undone; all files are as before")
        }
        RecoveredOperation::ApplyRolledBack(name, changed_files) => format!(
            "the interrupted apply of sandbox `{name}` is undone, except for files changed since: {}",
            changed_files
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        ),
        RecoveredOperation::RolledBack(name) => {
            format!("the interrupted rollback of sandbox `{name}` is finished")
        }
        RecoveredOperation::Discarded(name) => format!("sandbox `{name}` is discarded"),
        RecoveredOperation::Failed(name, reason) => {
            format!("sandbox `{name}` was interrupted and could not be recovered: {reason}")
        }
    }
}

fn change_json(alias: &str, change: &Change) -> Value {
    json!({
        "part": alias,
        "path": change.path,
        "operation": operation(change),
        "before": change.before,
        "after": change.after,
    })
}

/// Name of the operation of a change, such as `create`.
fn operation(change: &Change) -> &'static str {
    cleveragents_domain::Operation::between(change.before, change.after)
        .map_or("none", |operation| operation.as_str())
}

/// Opens a sandbox for exclusive use.
fn open(
    service: &SandboxService,
    reference: &str,
) -> Result<cleveragents_application::OpenSandbox, CommandError> {
    Ok(service.open(reference)?)
}
