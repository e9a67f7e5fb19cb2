//! `plan edit`: the strategy of a plan is changed in an editor or by a file.

use std::path::Path;

use cleveragents_application::plan_operations::{EditStrategy, ShowPlan, StrategyFormat};
use cleveragents_domain::Code;

use crate::commands::read_definition;
use crate::commands::session::read_text;
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
        Some(path) => read_definition(path, "the file of a strategy", Code::InvalidStrategy)?,
        None => in_editor(context, &shown.document.unwrap_or_default())?,
    };
    let edited = context.call(EditStrategy {
        reference: shown.plan_id.to_string(),
        text,
    })?;
    let message = if edited.is_changed {
        "Strategy changed"
    } else {
        "The strategy is as it was"
    };
    Ok(Report::new("plan edit")
        .panel(
            Panel::new("Strategy")
                .row("Plan", Cell::Id(edited.plan_id.to_string()))
                .row("Steps", edited.steps),
        )
        .data(edited)
        .ok(message))
}

/// Lets a person change a text in the editor of their choice.
fn in_editor(context: &Context, text: &str) -> Result<String, CommandError> {
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
