//! `plan undo`: undoes the last change of a plan, or its apply.

use cleveragents_application::plan_operations::{UndoPlan, UndoneChange, UndonePlan};

use crate::arguments::PlanUndo;
use crate::commands::plan::short_commit;
use crate::commands::{confirm, counted};
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report};

pub(super) fn run(context: &Context, arguments: PlanUndo) -> Result<Report, CommandError> {
    let request = |reference, dry_run| UndoPlan {
        reference,
        dry_run,
        yes: true,
    };
    if arguments.dry_run || !arguments.yes {
        let preview = context.call(request(arguments.plan.reference.clone(), true))?;
        if arguments.dry_run {
            return Ok(view(preview).ok("Nothing changed"));
        }
        confirm(&question(&preview), false)?;
        // Undoes the plan of the preview, even if another plan became current in the meantime.
        let id = preview.plan_id.to_string();
        return Ok(undone_report(context.call(request(Some(id), false))?));
    }
    Ok(undone_report(
        context.call(request(arguments.plan.reference, false))?,
    ))
}

fn question(preview: &UndonePlan) -> String {
    let mut question = String::new();
    for file in &preview.files {
        question.push_str("  ");
        question.push_str(file);
        question.push('\n');
    }
    let files = counted(preview.files.len(), "file");
    let asked = match &preview.undone {
        UndoneChange::Step { checkpoint, .. } => {
            format!("Roll the plan back to {checkpoint}, which restores {files} in its sandbox?")
        }
        UndoneChange::Apply { commits } => {
            let ids: Vec<&str> = commits
                .iter()
                .map(|commit| short_commit(&commit.commit))
                .collect();
            format!(
                "Make a commit that reverts {}, which changes {files}?",
                ids.join(", ")
            )
        }
    };
    question + &asked
}

fn undone_report(undone: UndonePlan) -> Report {
    let plan = undone.plan_id;
    match &undone.undone {
        UndoneChange::Step { .. } => view(undone)
            .info(format!("redo it with `agents redo {plan}`"))
            .ok("Last change undone in the sandbox"),
        UndoneChange::Apply { commits } => {
            let new_commits = commits
                .iter()
                .filter_map(|commit| commit.reverted_by.as_deref());
            let new_commits: Vec<&str> = new_commits.map(short_commit).collect();
            let message = format!("Apply undone by commit {}", new_commits.join(", "));
            view(undone).ok(message)
        }
    }
}

fn view(undone: UndonePlan) -> Report {
    let mut panel = Panel::new("Undo").row("Plan", Cell::Id(undone.plan_id.to_string()));
    match &undone.undone {
        UndoneChange::Step { checkpoint, label } => {
            panel = panel
                .row("Checkpoint", checkpoint.clone())
                .row("Label", label.clone());
        }
        UndoneChange::Apply { commits } => {
            for commit in commits {
                panel = panel
                    .row("Repository", commit.location.clone())
                    .row("Reverts", short_commit(&commit.commit).to_owned())
                    .row(
                        "New commit",
                        commit
                            .reverted_by
                            .as_deref()
                            .map(short_commit)
                            .map(str::to_owned),
                    );
            }
        }
    }
    panel = panel.row("Files", undone.files.join(", "));
    Report::new("plan undo")
        .panel(panel)
        .data(undone)
        .commands_at(&["/next_steps"])
}
