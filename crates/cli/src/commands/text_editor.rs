//! [`TextEditor`]: opens a text in the user's editor.

use std::process::Command;

use cleveragents_domain::Code;

use crate::context::Context;
use crate::output::CommandError;

/// The editor of `VISUAL` or `EDITOR`.
pub(crate) struct TextEditor {
    /// Program with its options, such as `code --wait`.
    command: Option<String>,
}

impl TextEditor {
    pub(crate) fn new(context: &Context) -> Self {
        let variable = |name: &str| {
            let value = context.environment.text(name);
            value.filter(|value| !value.trim().is_empty())
        };
        Self {
            command: variable("VISUAL").or_else(|| variable("EDITOR")),
        }
    }

    /// Opens a text as a temporary file named `file_name`, and returns the saved text. `otherwise`
    /// completes the hint of an error: how to work without an editor.
    pub(crate) fn edit(
        &self,
        text: &str,
        file_name: &str,
        otherwise: &str,
    ) -> Result<String, CommandError> {
        let Some(editor) = &self.command else {
            return Err(CommandError::usage("no editor is set")
                .with_hint(format!("set VISUAL or EDITOR, or {otherwise}")));
        };
        let failed = |error: &std::io::Error| {
            let message = format!("the text cannot be opened in the editor `{editor}`");
            CommandError::new(Code::FileAccess, message)
                .caused_by(error)
                .with_hint(otherwise)
        };
        let folder = tempfile::tempdir().map_err(|error| failed(&error))?;
        let path = folder.path().join(file_name);
        std::fs::write(&path, text).map_err(|error| failed(&error))?;
        let mut words = editor.split_whitespace();
        let status = Command::new(words.next().unwrap_or_default())
            .args(words)
            .arg(&path)
            .status()
            .map_err(|error| failed(&error))?;
        if !status.success() {
            return Err(CommandError::new(
                Code::FileAccess,
                format!("`{editor}` ended with {status}"),
            )
            .with_hint(format!("nothing changed; {otherwise}")));
        }
        std::fs::read_to_string(&path).map_err(|error| failed(&error))
    }
}
