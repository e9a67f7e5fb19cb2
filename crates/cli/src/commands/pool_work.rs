//! `hunt` and `fix`: the roles of pools in the foreground.

use std::path::PathBuf;

use cleveragents_application::pool_role_operations::{
    FixItem, FixReport, FoundItem, HuntDefects, HuntedModule, ReportedAttempt,
};
use cleveragents_application::project_operations::ProjectOfFolder;
use cleveragents_domain::{AttemptOutcome, Code, PoolRole, WorkItemState};

use super::plan::lifecycle::call_interactive;
use super::{can_confirm, confirm, counted};
use crate::arguments::{Fix, Hunt};
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table};

/// `hunt`.
pub(crate) fn hunt(context: &Context, arguments: Hunt) -> Result<Report, CommandError> {
    let (project, path) = match arguments.project {
        Some(project) => (project, arguments.path),
        None => project_of_folder(context, arguments.path)?,
    };
    let request = HuntDefects {
        project,
        path,
        actor: arguments.actor,
        limit: arguments.limit,
        queue: arguments.queue,
    };
    let report = call_interactive(context, request, false)?;
    let is_searched = |module: &&HuntedModule| module.outcome == Some(AttemptOutcome::Succeeded);
    let searched = report.modules.iter().filter(is_searched).count();
    let modules = Table::new("Modules")
        .column("Module", Align::Left)
        .column("Result", Align::Left)
        .column("Cost", Align::Right)
        .rows(report.modules.iter().map(module_row));
    let items = Table::new("Findings")
        .column("Item", Align::Left)
        .column("State", Align::Left)
        .column("Severity", Align::Left)
        .column("Place", Align::Left)
        .column("Title", Align::Left)
        .empty(if searched > 0 {
            "No defect was found"
        } else {
            "No module was searched"
        })
        .rows(report.items.iter().map(item_row));
    let new = report.items.iter().filter(|found| found.is_new).count();
    let mut shown = Report::new("hunt").table(modules);
    if !arguments.queue {
        shown = shown.table(items);
    }
    if report.left_out > 0 {
        shown = shown.info(format!(
            "{} left out: raise --limit",
            counted(
                usize::try_from(report.left_out).unwrap_or(usize::MAX),
                "module"
            )
        ));
    }
    if let Some(first) = report.items.first() {
        shown = shown.info(format!("next: `agents fix {}`", first.item.id));
    }
    let failed = report.modules.len() - searched;
    if failed > 0 && !arguments.queue {
        let message = format!(
            "{failed} of {} not searched",
            counted(report.modules.len(), "module")
        );
        let hint = "the table shows the reasons; `agents config set model.default MODEL` sets a model, `--actor MODEL` \
                    names one";
        return Ok(shown.failed(Code::RoleStopped, message, hint).data(report));
    }
    let modules = counted(report.modules.len(), "module");
    let message = if arguments.queue {
        shown = shown.info("a pool of the role `hunt` takes them: `agents pool library hunt`");
        format!("{modules} queued")
    } else {
        format!("{} in {modules}", counted(new, "new finding"))
    };
    Ok(shown.ok(message).records(report))
}

fn module_row(module: &HuntedModule) -> Vec<Cell> {
    let result = match module.outcome {
        Some(AttemptOutcome::Succeeded) => {
            Cell::Text(module.summary.lines().next().unwrap_or_default().to_owned())
        }
        None if module.reason.is_none() => Cell::Muted(module.summary.clone()),
        _ => Cell::Bad(
            module
                .reason
                .clone()
                .unwrap_or_else(|| "no result".to_owned()),
        ),
    };
    vec![
        module.path.as_str().into(),
        result,
        Cell::Text(format!("${:.4}", module.cost_usd)),
    ]
}

fn item_row(found: &FoundItem) -> Vec<Cell> {
    let item = &found.item;
    let place = item
        .location
        .as_ref()
        .map(|location| format!("{}:{}", location.path, location.line_start));
    vec![
        Cell::Id(item.id.to_string()),
        Cell::Text(if found.is_new {
            item.state.as_str().to_owned()
        } else {
            format!("{}, known", item.state)
        }),
        item.severity
            .map(|severity| severity.as_str().to_owned())
            .unwrap_or_default()
            .into(),
        place.unwrap_or_default().into(),
        item.title.as_str().into(),
    ]
}

/// The project of the current folder, and a path relative to its folder.
fn project_of_folder(
    context: &Context,
    path: Option<String>,
) -> Result<(String, Option<String>), CommandError> {
    let folder = context.environment.working_folder().map(PathBuf::from);
    let folder = folder.ok_or_else(|| CommandError::usage("there is no working folder"))?;
    let project = context.call(ProjectOfFolder {
        folder: folder.clone(),
        whole_repository: true,
    })?;
    let Some(path) = path else {
        return Ok((project.name, None));
    };
    let missing = |error: &std::io::Error| {
        CommandError::new(Code::LocationNotFound, format!("`{path}` does not exist"))
            .caused_by(error)
    };
    let absolute = std::fs::canonicalize(folder.join(&path)).map_err(|error| missing(&error))?;
    let root = std::fs::canonicalize(&project.folder).map_err(|error| missing(&error))?;
    match absolute.strip_prefix(&root) {
        Ok(relative) => Ok((project.name, Some(relative.to_string_lossy().into_owned()))),
        Err(_) => Err(CommandError::usage(format!(
            "`{path}` is not in the folder of the project `{}`",
            project.name
        ))),
    }
}

/// `fix`.
pub(crate) fn fix(context: &Context, arguments: Fix) -> Result<Report, CommandError> {
    let request = FixItem {
        item: arguments.item,
        tiers: arguments.tier,
        actor: arguments.actor,
        reviewer: arguments.reviewer,
        attempts_per_tier: arguments.attempts_per_tier,
        merge: arguments.yes,
        only_capture: arguments.only_capture,
    };
    let mut report = call_interactive(context, request.clone(), false)?;
    if report.item.state == WorkItemState::Approved && !arguments.yes && can_confirm() {
        let question = format!("Merge the approved change of `{}`?", report.item.title);
        if confirm(&question, false).is_ok() {
            let request = FixItem {
                merge: true,
                ..request
            };
            let merged = call_interactive(context, request, false)?;
            report.attempts.extend(merged.attempts);
            report.item = merged.item;
            report.stopped = merged.stopped;
        }
    }
    Ok(fix_view(report))
}

fn fix_view(report: FixReport) -> Report {
    let item = &report.item;
    let attempts = Table::new("Attempts")
        .column("Role", Align::Left)
        .column("Actor", Align::Left)
        .column("Outcome", Align::Left)
        .column("Evidence", Align::Left)
        .column("Cost", Align::Right)
        .empty("No attempt was needed")
        .rows(report.attempts.iter().map(attempt_row));
    let panel = Panel::new("Work item")
        .row("Item", Cell::Id(item.id.to_string()))
        .row("Title", item.title.as_str())
        .row("State", item.state.as_str())
        .row("Priority", item.priority.as_str());
    let mut shown = Report::new("fix").panel(panel).table(attempts);
    let failed = report.attempts.iter().filter(|attempt| {
        attempt.outcome != Some(AttemptOutcome::Succeeded) && attempt.role == PoolRole::Fix
    });
    for attempt in failed {
        shown = shown.text(attempt.comment.clone());
    }
    let id = item.id;
    shown = match item.state {
        WorkItemState::Completed => shown.ok("Fixed and merged"),
        WorkItemState::Approved => {
            let next = format!("next: `agents fix {id} --yes` merges the change");
            shown.info(next).ok("Fixed and approved; not merged")
        }
        WorkItemState::Captured => shown.ok("Captured in a failing test"),
        state => {
            let reason = report
                .stopped
                .clone()
                .unwrap_or_else(|| format!("the item is {state}"));
            shown.failed(
                Code::RoleStopped,
                reason,
                format!("show the item: `agents item show {id}`"),
            )
        }
    };
    shown.data(report)
}

fn attempt_row(attempt: &ReportedAttempt) -> Vec<Cell> {
    let outcome = attempt
        .outcome
        .map(|outcome| outcome.as_str().replace('_', " "));
    let outcome = outcome.unwrap_or_else(|| "running".to_owned());
    let evidence = match (&attempt.regression, &attempt.reason) {
        (_, Some(reason)) => reason.clone(),
        (Some(proof), None) if proof.head_runs > 0 => format!(
            "test: {} of {} runs fail before, {} of {} after",
            proof.base_failures, proof.base_runs, proof.head_failures, proof.head_runs
        ),
        (Some(proof), None) => {
            format!(
                "test: {} of {} runs fail",
                proof.base_failures, proof.base_runs
            )
        }
        (None, None) => String::new(),
    };
    vec![
        attempt.role.as_str().into(),
        attempt.actor.as_str().into(),
        match attempt.outcome {
            Some(AttemptOutcome::Succeeded) => Cell::Good(outcome),
            _ => Cell::Bad(outcome),
        },
        evidence.into(),
        Cell::Text(format!("${:.4}", attempt.cost_usd)),
    ]
}
