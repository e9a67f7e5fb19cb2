//! `plan edit`: edits the strategy of a plan in an editor, or replaces it with a file.

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
        Some(path) => read_definition(path, "the strategy file", Code::InvalidStrategy)?,
        None => edit_in_editor(context, &shown.document.unwrap_or_default())?,
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

/// Opens a text in the user's editor and returns the edited text.
fn edit_in_editor(context: &Context, text: &str) -> Result<String, CommandError> {
    let variable = |name: &str| {
        context
            .environment
            .text(name)
            .filter(|value| !value.is_empty())
    };
    let Some(editor) = variable("VISUAL").or_else(|| variable("EDITOR")) else {
        return Err(CommandError::usage("no editor is set")
            .with_hint("set EDITOR, or pass the document with --file FILE"));
    };
    let editor_error = |error: &std::io::Error| {
        CommandError::new(
            Code::FileAccess,
            "the strategy cannot be opened in an editor",
        )
        .caused_by(error)
        .with_hint("pass the document with --file FILE")
    };
    let folder = tempfile::tempdir().map_err(|error| editor_error(&error))?;
    let path = folder.path().join("strategy.md");
    std::fs::write(&path, text).map_err(|error| editor_error(&error))?;
    // The editor may include options, such as `code --wait`.
    let mut words = editor.split_whitespace();
    let program = words.next().unwrap_or("vi");
    let status = std::process::Command::new(program)
        .args(words)
        .arg(&path)
        .status()
        .map_err(|error| editor_error(&error))?;
    if !status.success() {
        return Err(
            CommandError::new(Code::FileAccess, format!("`{editor}` ended with {status}"))
                .with_hint("nothing changed; pass the document with --file FILE"),
        );
    }
    std::fs::read_to_string(&path).map_err(|error| editor_error(&error))
}
