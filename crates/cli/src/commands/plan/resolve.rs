//! `plan resolve`: decides conflicts between the child plans of a plan.

use cleveragents_application::plan_operations::{
    ConflictVersion, ResolveConflict, ResolvedConflictReport,
};
use cleveragents_domain::Code;

use crate::arguments::{ConflictSideName, PlanResolve};
use crate::commands::{counted, read_definition};
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report};

pub(super) fn run(context: &Context, arguments: PlanResolve) -> Result<Report, CommandError> {
    let request = request(arguments)?;
    let response = context.call(request)?;
    Ok(view(response))
}

fn request(arguments: PlanResolve) -> Result<ResolveConflict, CommandError> {
    let PlanResolve {
        path: mut words,
        take,
        file,
        all,
        child,
    } = arguments;
    let side = take.or(all).map(|side| match side {
        ConflictSideName::Ours => ConflictVersion::Ours,
        ConflictSideName::Theirs => ConflictVersion::Theirs,
        ConflictSideName::Model => ConflictVersion::Model,
    });
    let mut path = None;
    if all.is_none() {
        path = words.pop();
        if path.is_none() {
            return Err(CommandError::usage("no path was given")
                .with_hint("name the path, or resolve all with `--all ours` or `--all theirs`"));
        }
        if side.is_none() && file.is_none() {
            return Err(CommandError::usage("no version was chosen")
                .with_hint("add `--take ours`, `--take theirs` or `--file FILE`"));
        }
    } else if words.len() > 1 {
        return Err(CommandError::usage("--all takes no path")
            .with_hint("resolve one path with `--take ours` or `--take theirs`"));
    }
    let content = match file {
        Some(file) => Some(read_definition(&file, "the edited file", Code::Usage)?),
        None => None,
    };
    Ok(ResolveConflict {
        reference: words.pop(),
        path,
        side,
        content,
        child,
        all: all.is_some(),
    })
}

fn view(response: ResolvedConflictReport) -> Report {
    let mut panel = Panel::new("Resolved").row("Plan", Cell::Id(response.plan_id.to_string()));
    for conflict in &response.resolved {
        let resolution = conflict.resolution.map_or("", |side| side.as_str());
        let child = &conflict.child;
        let version = format!(
            "{resolution} (child plan {}, {})",
            child.number, child.title
        );
        panel = panel.row(conflict.label.clone(), version);
    }
    let mut report = Report::new("plan resolve").panel(panel);
    report = match response.unresolved {
        0 if response.queued => report.info("a worker continues the plan"),
        0 => report.info(format!(
            "continue with `agents plan execute {}`",
            response.plan_id
        )),
        open => report.info(format!(
            "{} left: `agents plan conflicts {}`",
            counted(open, "conflict"),
            response.plan_id
        )),
    };
    let message = format!("{} resolved", counted(response.resolved.len(), "conflict"));
    report
        .data(response)
        .commands_at(&["/next_steps"])
        .ok(message)
}
