//! `plan apply --pr`: applies a plan on a branch, pushes it and opens a change request.

use std::path::Path;
use std::sync::Arc;

use cleveragents_application::{ChangeRequestService, PublishedBranch};
use cleveragents_domain::Code;
use serde_json::json;

use super::run;
use crate::arguments::PlanApply;
use crate::commands::counted;
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report, write_err};

pub(super) fn apply_and_publish(
    context: &Context,
    arguments: PlanApply,
) -> Result<Report, CommandError> {
    if context.connection.is_some() {
        let message = "--pr works only on the machine of the repository, not with a server";
        return Err(CommandError::usage(message).with_hint(
            "run the command there, or apply with --branch and push the branch by hand",
        ));
    }
    let folder = context.environment.working_folder();
    let service = ChangeRequestService::new(
        context.engine()?,
        context.sandboxes()?,
        Arc::new(context.variables()),
        folder.unwrap_or_else(|| Path::new("/")),
    );
    let reference = arguments.plan.reference.as_deref();
    let target = service.target(reference, arguments.branch.as_deref())?;
    let (plan, title) = (target.plan.id, arguments.title.clone());
    let report = if target.is_applied {
        Report::new("plan apply").info(format!("already applied on branch {}", target.branch))
    } else {
        let mut arguments = arguments;
        arguments.plan.reference = Some(plan.to_string());
        arguments.branch = Some(target.branch.clone());
        let report = run::apply(context, arguments)?;
        if !service.is_applied(plan)? {
            return Ok(report);
        }
        report
    };
    let published = service.publish(plan, title.as_deref(), &|command| {
        write_err(&format!("$ {command}\n"));
    })?;
    let report = report.data(json!({
        "plan_id": plan,
        "branch": target.branch,
        "was_applied": target.is_applied,
        "change_requests": published,
    }));
    Ok(view(report, &published))
}

fn view(mut report: Report, published: &[PublishedBranch]) -> Report {
    for branch in published {
        report = report.panel(
            Panel::new("Change Request")
                .row("Repository", branch.repository.clone())
                .row("Branch", branch.branch.clone())
                .row("Into", branch.base.clone())
                .row(
                    "Commit",
                    Cell::Id(branch.commit.get(..10).unwrap_or_default().to_owned()),
                )
                .row(
                    "Pushed",
                    if branch.is_pushed {
                        "yes"
                    } else {
                        "already pushed"
                    },
                )
                .row("Address", branch.url.clone()),
        );
    }
    let missing = published.iter().find(|branch| branch.url.is_none());
    if let Some(branch) = missing {
        let problem = branch.problem.as_deref().unwrap_or_default();
        let message = format!(
            "branch {} was pushed, but no change request was opened: {problem}",
            branch.branch
        );
        let hint = match &branch.page {
            Some(page) => format!("open it by hand: {page}"),
            None => "open it by hand where the repository is hosted".to_owned(),
        };
        return report.failed(Code::NoChangeRequest, message, hint);
    }
    let urls: Vec<&str> = published
        .iter()
        .filter_map(|branch| branch.url.as_deref())
        .collect();
    let is_new = published.iter().any(|branch| branch.is_created);
    match (urls.len(), is_new) {
        (0, _) => report.ok("No branch was created, because git sees no change"),
        (1, true) => report.ok(format!("Change request opened: {}", urls[0])),
        (1, false) => report.ok(format!("Change request is open: {}", urls[0])),
        (count, _) => report.ok(format!(
            "{} open: {}",
            counted(count, "change request"),
            urls.join(", ")
        )),
    }
}
