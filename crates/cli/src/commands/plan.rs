//! `plan`: plans, to be looked at.

mod checkpoint;
mod diff;
mod errors;
mod explain;
mod guard;
mod list;
pub(crate) mod log;
mod show;
mod status;
mod tree;
pub(crate) mod wait;

pub(super) use diff::made_by_commands;

use cleveragents_domain::{Plan, PlanStage, Timestamp};

use crate::arguments::{PlanCheckpoint, PlanCommand};
use crate::context::Context;
use crate::output::{Cell, CommandError, Report};

/// The short name of a command.
pub(super) const fn name(command: &PlanCommand) -> &'static str {
    match command {
        PlanCommand::List(_) => "plan list",
        PlanCommand::Show { .. } => "plan show",
        PlanCommand::Status { .. } => "plan status",
        PlanCommand::Tree(_) => "plan tree",
        PlanCommand::Explain { .. } => "plan explain",
        PlanCommand::Diff { .. } => "plan diff",
        PlanCommand::Artifacts { .. } => "plan artifacts",
        PlanCommand::Errors { .. } => "plan errors",
        PlanCommand::Log(_) => "plan log",
        PlanCommand::Wait { .. } => "plan wait",
        PlanCommand::Guard { .. } => "plan guard",
        PlanCommand::Checkpoint(PlanCheckpoint::List { .. }) => "plan checkpoint list",
        PlanCommand::Checkpoint(PlanCheckpoint::Delete { .. }) => "plan checkpoint delete",
    }
}

pub(super) fn run(context: &Context, command: PlanCommand) -> Result<Option<Report>, CommandError> {
    let book = context.plans()?;
    let plan = |reference: Option<String>| book.find(reference.as_deref());
    let report = match command {
        PlanCommand::List(arguments) => list::run(&book, context.visible(), &arguments)?,
        PlanCommand::Show {
            plan: choice,
            document,
        } => show::run(&book, &plan(choice.reference)?, document)?,
        PlanCommand::Status { plan: choice } => status::run(&book, plan(choice.reference)?)?,
        PlanCommand::Tree(arguments) => tree::run(context, &book, &arguments)?,
        PlanCommand::Explain {
            reference,
            show_context,
            show_reasoning,
        } => explain::run(&book, &reference, show_context, show_reasoning)?,
        PlanCommand::Diff { plan: choice, stat } => {
            diff::run(context, &book, &plan(choice.reference)?, stat)?
        }
        PlanCommand::Artifacts { plan: choice } => {
            diff::artifacts(&book, &plan(choice.reference)?)?
        }
        PlanCommand::Errors { plan: choice } => errors::run(&book, plan(choice.reference)?)?,
        PlanCommand::Log(arguments) => return log::run(context, &book, &arguments),
        PlanCommand::Wait {
            plan: choice,
            timeout,
        } => wait::run(context, &book, &plan(choice.reference)?, timeout)?,
        PlanCommand::Guard {
            plan: choice,
            max_cost,
        } => guard::run(context, &book, plan(choice.reference)?, max_cost.as_deref())?,
        PlanCommand::Checkpoint(PlanCheckpoint::List { plan: choice }) => {
            checkpoint::list(&book, &plan(choice.reference)?)?
        }
        PlanCommand::Checkpoint(PlanCheckpoint::Delete {
            plan,
            checkpoints,
            yes,
        }) => checkpoint::delete(
            context,
            &book,
            &book.resolve(&plan.reference)?,
            &checkpoints,
            yes,
        )?,
    };
    Ok(Some(report))
}

/// The checkpoints of a plan, for whoever wants to go back to one.
pub(super) fn checkpoints(
    book: &cleveragents_application::PlanBook,
    plan: &Plan,
) -> Result<Report, CommandError> {
    checkpoint::list(book, plan)
}

/// The names of a plan's projects, as one text.
fn projects(plan: &Plan) -> Option<String> {
    let names: Vec<&str> = plan
        .made_with
        .projects
        .iter()
        .map(|project| project.name.as_str())
        .collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// Seconds since work on a plan began, up to its end.
fn elapsed(plan: &Plan) -> Option<f64> {
    let end = plan.completed_at.unwrap_or_else(Timestamp::now);
    plan.started_at
        .map(|start| end.seconds_since(start).max(0.0))
}

/// A duration as `HH:MM:SS`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive; the cast saturates"
)]
fn clock(seconds: f64) -> String {
    let whole = seconds.max(0.0) as u64;
    format!(
        "{:02}:{:02}:{:02}",
        whole / 3600,
        whole / 60 % 60,
        whole % 60
    )
}

/// The state of a plan in its colour.
fn state_cell(plan: &Plan) -> Cell {
    let text = plan.shown_state().to_owned();
    match plan.stage {
        PlanStage::ApplyApplied => Cell::Good(text),
        PlanStage::ApplyConstrained => Cell::Bad(text),
        stage if stage.is_errored() => Cell::Bad(text),
        stage if stage.is_terminal() => Cell::Muted(text),
        _ if plan.waiting.is_some() => Cell::Warn(text),
        _ => Cell::Text(text),
    }
}

#[cfg(test)]
mod tests {
    use super::clock;

    #[test]
    fn a_duration_is_written_like_a_clock() {
        assert_eq!(clock(0.9), "00:00:00");
        assert_eq!(clock(3_725.2), "01:02:05");
        assert_eq!(clock(360_000.0), "100:00:00");
        assert_eq!(clock(-3.0), "00:00:00");
    }
}
