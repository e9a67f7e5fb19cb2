//! `plan`: commands that read plans.

mod checkpoint;
mod children;
mod conflicts;
mod corrections;
mod diff;
mod errors;
mod explain;
mod guard;
pub(super) mod lifecycle;
mod list;
pub(crate) mod log;
mod resolve;
mod show;
mod status;
mod tree;
mod wait;

pub(super) use checkpoint::list as list_checkpoints;
pub(super) use diff::made_by_commands;

use cleveragents_application::UndoneApply;
use cleveragents_application::plan_operations::ExplainDecision;
use cleveragents_domain::{MicroUsd, PlanState};

use crate::arguments::{PlanCheckpoint, PlanCommand};
use crate::context::Context;
use crate::output::{Cell, CommandError, Report};

/// Commands that run as operations of the application, on this machine or on a server.
pub(crate) const OPERATIONS: &[&str] = &[
    "plan apply",
    "plan approve",
    "plan artifacts",
    "plan cancel",
    "plan checkpoint delete",
    "plan checkpoint list",
    "plan children",
    "plan conflicts",
    "plan diff",
    "plan edit",
    "plan errors",
    "plan execute",
    "plan explain",
    "plan guard",
    "plan list",
    "plan log",
    "plan prompt",
    "plan redo",
    "plan reject",
    "plan resolve",
    "plan resume",
    "plan revert",
    "plan rollback",
    "plan show",
    "plan status",
    "plan tree",
    "plan undo",
    "plan use",
    "plan wait",
];

/// Full name of a command, with its group, as in the `command` field of the JSON output.
pub(super) const fn name(command: &PlanCommand) -> &'static str {
    match command {
        PlanCommand::List(_) => "plan list",
        PlanCommand::Show { .. } => "plan show",
        PlanCommand::Status { .. } => "plan status",
        PlanCommand::Tree(_) => "plan tree",
        PlanCommand::Explain { .. } => "plan explain",
        PlanCommand::Diff { .. } => "plan diff",
        PlanCommand::Artifacts { .. } => "plan artifacts",
        PlanCommand::Children { .. } => "plan children",
        PlanCommand::Corrections { .. } => "plan corrections",
        PlanCommand::Conflicts { .. } => "plan conflicts",
        PlanCommand::Resolve(_) => "plan resolve",
        PlanCommand::Errors { .. } => "plan errors",
        PlanCommand::Log(_) => "plan log",
        PlanCommand::Wait { .. } => "plan wait",
        PlanCommand::Guard { .. } => "plan guard",
        PlanCommand::Checkpoint(PlanCheckpoint::List { .. }) => "plan checkpoint list",
        PlanCommand::Checkpoint(PlanCheckpoint::Delete { .. }) => "plan checkpoint delete",
    }
}

pub(super) fn run(context: &Context, command: PlanCommand) -> Result<Report, CommandError> {
    match command {
        PlanCommand::List(arguments) => list::run(context, arguments),
        PlanCommand::Show { plan, document } => show::run(context, plan.reference, document),
        PlanCommand::Status { plan } => status::run(context, plan.reference),
        PlanCommand::Tree(arguments) => tree::run(context, arguments),
        PlanCommand::Explain {
            reference,
            show_context,
            show_reasoning,
        } => explain::run(
            context,
            ExplainDecision {
                reference: lifecycle::plan_reference(context, reference)?,
                show_context,
                show_reasoning,
            },
        ),
        PlanCommand::Diff {
            plan,
            stat,
            correction,
        } => diff::run(context, plan.reference, stat, correction),
        PlanCommand::Artifacts { plan } => diff::artifacts(context, plan.reference),
        PlanCommand::Children { plan } => children::run(context, plan.reference),
        PlanCommand::Corrections { plan } => corrections::run(context, plan.reference),
        PlanCommand::Conflicts { plan } => conflicts::run(context, plan.reference),
        PlanCommand::Resolve(arguments) => resolve::run(context, arguments),
        PlanCommand::Errors { plan } => errors::run(context, plan.reference),
        PlanCommand::Log(arguments) => log::run(context, arguments),
        PlanCommand::Wait { plan, timeout } => wait::run(context, plan.reference, timeout),
        PlanCommand::Guard { plan, max_cost } => guard::run(context, plan.reference, max_cost),
        PlanCommand::Checkpoint(PlanCheckpoint::List { plan }) => {
            checkpoint::list(context, plan.reference)
        }
        PlanCommand::Checkpoint(PlanCheckpoint::Delete {
            checkpoints,
            deletion,
        }) => checkpoint::delete(context, checkpoints, deletion),
    }
}

/// Known part of a cost in US dollars, and whether it is the whole cost.
pub(super) fn known_cost(cost: Option<f64>, known_part: Option<f64>) -> (MicroUsd, bool) {
    let known = cost.or(known_part).and_then(MicroUsd::from_usd_rounded_up);
    (known.unwrap_or_default(), cost.is_some())
}

/// State of a plan, or of its undone apply, with its colour. An undone plan names the commits that reverted it.
pub(super) fn state_or_undone_cell(state: PlanState, undone: Option<&UndoneApply>) -> Cell {
    match undone {
        None => state_cell(state),
        Some(undone) => Cell::Warn(format!(
            "{}, then undone{}",
            state.as_str(),
            by_commits(&undone.commits)
        )),
    }
}

/// `by commit 1a2b3c4`, with a leading space; empty without commits.
pub(super) fn by_commits(commits: &[String]) -> String {
    match commits {
        [] => String::new(),
        commits => {
            let ids: Vec<&str> = commits.iter().map(|id| short_commit(id)).collect();
            let noun = if ids.len() == 1 { "commit" } else { "commits" };
            format!(" by {noun} {}", ids.join(", "))
        }
    }
}

/// First characters of the id of a commit.
pub(super) fn short_commit(id: &str) -> &str {
    id.get(..10).unwrap_or(id)
}

/// State of a plan with its colour.
pub(super) fn state_cell(state: PlanState) -> Cell {
    let text = state.as_str().to_owned();
    match state {
        PlanState::Applied => Cell::Good(text),
        PlanState::Constrained | PlanState::Errored => Cell::Bad(text),
        PlanState::Cancelled => Cell::Muted(text),
        PlanState::AwaitingInput => Cell::Warn(text),
        PlanState::Queued | PlanState::Processing | PlanState::Complete => Cell::Text(text),
    }
}
