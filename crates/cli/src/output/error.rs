//! The failure of a command, whatever crate it came from, ready to be shown.

use std::error::Error;
use std::fmt;
use std::path::Path;

use cleveragents_application::OperationError;
use cleveragents_domain::{Code, Diagnose};
use serde_json::{Map, Value, json};

/// The exit code of a command that a signal stopped, whatever code it has.
const INTERRUPTED: u8 = 130;

/// Why a command failed: a stable code, a message, the causes beneath it, and what to do.
///
/// Every error that implements [`Diagnose`] becomes one with `?`.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandError(Box<Failure>);

/// What an error says; boxed so that results stay small.
#[derive(Debug, Clone, PartialEq)]
struct Failure {
    code: Code,
    /// Whether a signal stopped the command, whatever it was doing.
    is_interrupted: bool,
    message: String,
    hint: Option<String>,
    details: Value,
    causes: Vec<String>,
}

impl CommandError {
    /// A failure with a code and a message that names the thing it is about.
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

    /// A command line that cannot be carried out.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Code::Usage, message)
    }

    /// A broken rule of the program itself.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::Internal, message)
    }

    /// Says what to do about it: a sentence with the command to run.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Tells it as the work of a signal, which decides the exit code.
    #[must_use]
    pub(crate) fn interrupted(mut self) -> Self {
        self.0.is_interrupted = true;
        self
    }

    /// Names the file that the message speaks of; `-`, standard input, has no name.
    #[must_use]
    pub fn in_file(mut self, file: &Path) -> Self {
        if file != Path::new("-") {
            self.0.message = format!("`{}`: {}", file.display(), self.0.message);
        }
        self
    }

    /// Adds facts for programs.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.0.details = details;
        self
    }

    /// Adds an error and everything beneath it as causes.
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

    /// What went wrong, without the causes.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Everything that an error says, as it was put in.
    pub(super) fn parts(&self) -> (Code, &str, Option<&str>, &Value, &[String]) {
        let Failure {
            code,
            // A server is not interrupted by the signals of who asks it.
            is_interrupted: _,
            message,
            hint,
            details,
            causes,
        } = &*self.0;
        (*code, message, hint.as_deref(), details, causes)
    }

    /// The error of these parts.
    pub(super) fn from_parts(
        code: Code,
        message: String,
        hint: Option<String>,
        details: Value,
        causes: Vec<String>,
    ) -> Self {
        Self(Box::new(Failure {
            code,
            is_interrupted: false,
            message,
            hint,
            details,
            causes,
        }))
    }

    /// Facts for programs; the causes are among them.
    pub(crate) fn details(&self) -> Value {
        self.to_value()["details"].take()
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
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

    /// The error as programs read it: `code`, `message`, `details`, `hint`.
    ///
    /// Causes are listed in `details.causes`.
    pub(crate) fn to_value(&self) -> Value {
        let mut details = match &self.0.details {
            Value::Null => Value::Object(Map::new()),
            details => details.clone(),
        };
        if let Value::Object(map) = &mut details
            && !self.0.causes.is_empty()
        {
            map.entry("causes").or_insert_with(|| json!(self.0.causes));
        }
        json!({
            "code": self.0.code.as_str(),
            "message": self.0.message,
            "details": details,
            "hint": self.0.hint,
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
        let found = Self(Box::new(Failure {
            code: error.code(),
            is_interrupted: false,
            message: error.to_string(),
            hint: error.hint(),
            details: error.details(),
            causes: Vec::new(),
        }));
        match error.source() {
            Some(source) => found.caused_by(source),
            None => found,
        }
    }
}

/// For callbacks of the application that a command implements.
impl From<CommandError> for OperationError {
    fn from(error: CommandError) -> Self {
        let found = Self::new(error.code(), error.to_string()).with_details(error.details());
        match error.hint() {
            Some(hint) => found.with_hint(hint),
            None => found,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::CommandError;
    use cleveragents_domain::{Code, Diagnose};
    use serde_json::{Value, json};

    #[derive(Debug, thiserror::Error)]
    #[error("open the store")]
    struct Outer(#[source] Middle);

    #[derive(Debug, thiserror::Error)]
    #[error("read page 3")]
    struct Middle(#[source] std::io::Error);

    impl Diagnose for Outer {
        fn code(&self) -> Code {
            Code::DatabaseUnavailable
        }
        fn hint(&self) -> Option<String> {
            Some("run `agents diagnostics`".to_owned())
        }
        fn details(&self) -> Value {
            json!({"page": 3})
        }
    }

    #[test]
    fn a_diagnosed_error_keeps_its_code_hint_details_and_whole_chain() {
        let error = CommandError::from(Outer(Middle(std::io::Error::other("disk on fire"))));
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
