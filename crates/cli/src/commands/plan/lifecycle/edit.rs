//! `plan edit`: edits the strategy of a plan in an editor, or replaces it with a file.

use std::path::Path;

use cleveragents_application::plan_operations::{EditStrategy, ShowPlan, StrategyFormat};
use cleveragents_domain::Code;

use crate::commands::read_definition;
use crate::commands::session::read_text;
use crate::commands::text_editor::TextEditor;
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report};

pub(super) fn run(
    context: &Context,
    reference: String,
    file: Option<&Path>,
) -> Result<Report, CommandError> {
    let shown = context.call(ShowPlan {
        reference: Some(reference),
        document: Some(StrategyFormat::Markdown),
    })?;
    let text = match file {
        Some(path) if path == Path::new("-") => read_text(context)?,
        Some(path) => read_definition(path, "the strategy file", Code::InvalidStrategy)?,
        None => TextEditor::new(context).edit(
            &shown.document.unwrap_or_default(),
            "strategy.md",
            "pass the document with --file FILE",
        )?,
    };
    let edited = context.call(EditStrategy {
        reference: shown.plan_id.to_string(),
        text,
    })?;
    let message = if edited.is_changed {
        "Strategy changed"
    } else {
        "The strategy is unchanged"
    };
    Ok(Report::new("plan edit")
        .panel(
            Panel::new("Strategy")
                .row("Plan", Cell::Id(edited.plan_id.to_string()))
                .row("Steps", edited.steps),
        )
        .data(edited)
        .commands_at(&["/next_steps"])
        .ok(message))
}
