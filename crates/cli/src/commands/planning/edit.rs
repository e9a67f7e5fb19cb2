//! `plan edit`: the strategy of a plan is changed by a person.

use std::path::Path;

use cleveragents_domain::{Code, Plan};
use serde_json::json;

use super::Desk;
use super::run::next_steps;
use crate::commands::read_definition;
use crate::commands::session::read_text;
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report};

pub(super) fn run(
    desk: &Desk<'_>,
    plan: &Plan,
    file: Option<&Path>,
) -> Result<Report, CommandError> {
    let Some(strategy) = &plan.strategy else {
        return Err(CommandError::new(
            Code::PlanNotReady,
            format!("the plan {} has no strategy yet", plan.id),
        )
        .with_hint(format!(
            "have it thought out: `agents plan execute {}`",
            plan.id
        )));
    };
    let before = strategy.to_markdown();
    let after = match file {
        Some(path) if path == Path::new("-") => read_text(desk.context)?,
        Some(path) => read_definition(path, "the file of a strategy", Code::InvalidStrategy)?,
        None if desk.context.served.is_none() => in_editor(desk.context, &before)?,
        None => return Err(CommandError::usage("the new strategy is missing")),
    };
    if after == before {
        return Ok(report(plan).ok("The strategy is as it was"));
    }
    let plan = desk.service.edit(plan.id, &after)?;
    Ok(report(&plan).ok("Strategy changed"))
}

fn report(plan: &Plan) -> Report {
    let steps = plan
        .strategy
        .as_ref()
        .map_or(0, |strategy| strategy.steps.len());
    Report::new("plan edit")
        .data(json!({
            "plan_id": plan.id, "phase": plan.stage.phase(), "state": plan.shown_state(),
            "steps": steps, "strategy": plan.strategy, "next_steps": next_steps(plan),
        }))
        .panel(
            Panel::new("Strategy")
                .row("Plan", Cell::Id(plan.id.to_string()))
                .row("Steps", steps),
        )
}

/// Lets a person change a text in the editor of their choice.
pub(crate) fn in_editor(context: &Context, text: &str) -> Result<String, CommandError> {
    let named = |name: &str| {
        context
            .environment
            .text(name)
            .filter(|value| !value.is_empty())
    };
    let Some(editor) = named("VISUAL").or_else(|| named("EDITOR")) else {
        return Err(CommandError::usage("no editor is named")
            .with_hint("set EDITOR, or give the document with --file FILE"));
    };
    let unusable = |error: &std::io::Error| {
        CommandError::new(
            Code::FileAccess,
            "the strategy cannot be given to an editor",
        )
        .caused_by(error)
        .with_hint("give the document with --file FILE")
    };
    let folder = tempfile::tempdir().map_err(|error| unusable(&error))?;
    let path = folder.path().join("strategy.md");
    std::fs::write(&path, text).map_err(|error| unusable(&error))?;
    // An editor may come with options, as `code --wait` does.
    let mut words = editor.split_whitespace();
    let program = words.next().unwrap_or("vi");
    let status = std::process::Command::new(program)
        .args(words)
        .arg(&path)
        .status()
        .map_err(|error| unusable(&error))?;
    if !status.success() {
        return Err(
            CommandError::new(Code::FileAccess, format!("`{editor}` ended with {status}"))
                .with_hint("nothing was changed; give the document with --file FILE"),
        );
    }
    std::fs::read_to_string(&path).map_err(|error| unusable(&error))
}
