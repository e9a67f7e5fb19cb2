//! The failure of a command, from any crate, in the form that users see.

use std::error::Error;
use std::fmt;
use std::path::Path;

use cleveragents_application::OperationError;
use cleveragents_domain::{Code, Diagnose, Hint};
use serde_json::{Map, Value, json};

use super::suggestion::{hint_text, write_commands};

/// Exit code of a command that a signal stopped, regardless of its error code.
const INTERRUPTED: u8 = 130;

/// Failure of a command: a stable code, a message, its causes, and a hint.
///
/// `?` converts every error that implements [`Diagnose`].
#[derive(Debug, Clone, PartialEq)]
pub struct CommandError(Box<Failure>);

/// Content of an error; boxed so that results stay small.
#[derive(Debug, Clone, PartialEq)]
struct Failure {
    code: Code,
    /// True if a signal stopped the command.
    is_interrupted: bool,
    message: String,
    hint: Option<Hint>,
    details: Value,
    causes: Vec<String>,
}

impl CommandError {
    /// A failure with a code and a message that names the object concerned.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self(Box::new(Failure {
            code,
            is_interrupted: false,
            message: message.into(),
            hint: None,
            details: Value::Null,
            causes: Vec::new(),
        }))
    }

    /// An invalid command line.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Code::Usage, message)
    }

    /// A violated invariant of the program itself.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::Internal, message)
    }

    /// Sets the hint: a sentence with the command to run.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<Hint>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Marks the failure as caused by a signal, which determines the exit code.
    #[must_use]
    pub(crate) fn interrupted(mut self) -> Self {
        self.0.is_interrupted = true;
        self
    }

    /// Puts the name of the file before the message, except for `-` (standard input).
    #[must_use]
    pub fn in_file(mut self, file: &Path) -> Self {
        if file != Path::new("-") {
            self.0.message = format!("`{}`: {}", file.display(), self.0.message);
        }
        self
    }

    /// Adds details for programs.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.0.details = details;
        self
    }

    /// Adds an error and its sources as causes.
    #[must_use]
    pub fn caused_by(mut self, error: &(dyn Error + 'static)) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            self.0.causes.push(error.to_string());
            next = error.source();
        }
        self
    }

    /// The stable code.
    pub const fn code(&self) -> Code {
        self.0.code
    }

    /// The message, without the causes.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Details for programs, including the causes as `causes`.
    pub(crate) fn details(&self) -> Value {
        let mut details = match &self.0.details {
            Value::Null => Value::Object(Map::new()),
            details => details.clone(),
        };
        if let Value::Object(map) = &mut details
            && !self.0.causes.is_empty()
        {
            map.entry("causes").or_insert_with(|| json!(self.0.causes));
        }
        details
    }

    /// The hint with its suggested operations, not yet converted to commands.
    pub(crate) const fn hint(&self) -> Option<&Hint> {
        self.0.hint.as_ref()
    }

    /// The hint with the commands to run.
    pub fn hint_text(&self) -> Option<String> {
        self.0.hint.as_ref().map(hint_text)
    }

    /// The causes, from the nearest to the deepest.
    pub fn causes(&self) -> &[String] {
        &self.0.causes
    }

    /// The exit code of the process.
    pub const fn exit_code(&self) -> u8 {
        if self.0.is_interrupted {
            return INTERRUPTED;
        }
        self.0.code.kind().exit_code()
    }

    /// The JSON form: `code`, `message`, `details`, `hint`.
    ///
    /// Causes are listed in `details.causes`.
    pub(crate) fn to_value(&self) -> Value {
        let mut details = self.details();
        details.get_mut("recovery_options").map(write_commands);
        json!({
            "code": self.0.code.as_str(),
            "message": self.0.message,
            "details": details,
            "hint": self.hint_text(),
        })
    }
}

/// The message and its causes, on one line.
impl fmt::Display for CommandError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.message)?;
        self.0
            .causes
            .iter()
            .try_for_each(|cause| write!(formatter, ": {cause}"))
    }
}

impl<E: Diagnose + 'static> From<E> for CommandError {
    fn from(error: E) -> Self {
        let converted = Self(Box::new(Failure {
            code: error.code(),
            is_interrupted: false,
            message: error.to_string(),
            hint: error.hint(),
            details: error.details(),
            causes: Vec::new(),
        }));
        match error.source() {
            Some(source) => converted.caused_by(source),
            None => converted,
        }
    }
}

/// For callbacks that the application calls and a command implements: they return an `OperationError`.
impl From<CommandError> for OperationError {
    fn from(error: CommandError) -> Self {
        let converted = Self::new(error.code(), error.to_string()).with_details(error.details());
        match error.hint() {
            Some(hint) => converted.with_hint(hint.clone()),
            None => converted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::CommandError;
    use cleveragents_domain::{Code, Diagnose, Hint, hint, suggest};
    use serde_json::{Value, json};

    #[derive(Debug, thiserror::Error)]
    #[error("open the store")]
    struct OuterError(#[source] MiddleError);

    #[derive(Debug, thiserror::Error)]
    #[error("read page 3")]
    struct MiddleError(#[source] std::io::Error);

    impl Diagnose for OuterError {
        fn code(&self) -> Code {
            Code::DatabaseUnavailable
        }
        fn hint(&self) -> Option<Hint> {
            Some(hint!("run {}", suggest::diagnostics()))
        }
        fn details(&self) -> Value {
            json!({"page": 3})
        }
    }

    #[test]
    fn a_diagnosed_error_keeps_its_code_hint_details_and_whole_chain() {
        let error = CommandError::from(OuterError(MiddleError(std::io::Error::other(
            "disk on fire",
        ))));
        assert_eq!(error.exit_code(), 1);
        assert_eq!(error.causes(), ["read page 3", "disk on fire"]);
        assert_eq!(
            error.to_string(),
            "open the store: read page 3: disk on fire"
        );
        assert_eq!(
            error.to_value(),
            json!({
                "code": "CA-0202",
                "message": "open the store",
                "details": {"page": 3, "causes": ["read page 3", "disk on fire"]},
                "hint": "run `agents diagnostics`",
            })
        );
    }

    #[test]
    fn a_usage_error_exits_with_two() {
        assert_eq!(CommandError::usage("no such flag").exit_code(), 2);
    }

    #[test]
    fn an_interrupted_command_keeps_its_code_and_exits_with_130() {
        let error = CommandError::new(Code::TurnStopped, "stopped").interrupted();
        assert_eq!((error.code(), error.exit_code()), (Code::TurnStopped, 130));
    }
}
