//! [`Program`]: what the front end that starts a server lends it. The server knows protocols, callers and limits;
//! what commands there are, and what models and tools turns run with, is the front end's.

use std::sync::Arc;

use cleveragents_domain::identity::{Caller, Namespaces, Permission, Scope};
use cleveragents_domain::{Code, Diagnose, PlanId, SessionId};
use cleveragents_process::Cancel;
use serde_json::Value;

/// One thing that can be asked for: a command, a method `_cleveragents/NAME` and a path
/// `/api/v1/operations/NAME`, all from one table.
#[derive(Debug, Clone)]
pub struct Operation {
    /// Its name, such as `plan/list`.
    pub name: String,
    /// One sentence about it.
    pub summary: String,
    /// The part of the server it belongs to.
    pub scope: Scope,
    /// What it needs.
    pub permission: Permission,
    /// The JSON schema of its parameters.
    pub parameters: Value,
}

/// A call of an operation.
#[derive(Debug)]
pub struct Call<'a> {
    /// Who calls.
    pub caller: &'a Caller,
    /// What is called.
    pub operation: &'a Operation,
    /// With what.
    pub parameters: &'a Value,
    /// What may be seen.
    pub visible: Namespaces,
    /// What stops it.
    pub cancel: &'a Cancel,
}

/// The terminal of another machine's command line, on which a command tells what happens while it happens.
pub trait Screen: Send + Sync {
    /// Standard output.
    fn out(&self, text: &str);
    /// Standard error.
    fn err(&self, text: &str);
}

/// A command of another machine's command line.
pub struct Line<'a> {
    /// Who calls.
    pub caller: &'a Caller,
    /// What is called.
    pub operation: &'a Operation,
    /// With what.
    pub parameters: &'a Value,
    /// The namespace of names without one; the caller's own when not given.
    pub namespace: Option<&'a str>,
    /// The format in which what comes of it is printed.
    pub format: &'a str,
    /// Where is told what happens while it happens, if anybody looks.
    pub screen: Option<Arc<dyn Screen>>,
    /// What may be seen.
    pub visible: Namespaces,
    /// What stops it.
    pub cancel: &'a Cancel,
}

/// What came of a call.
#[derive(Debug, Clone)]
pub struct Done {
    /// What programs read.
    pub data: Value,
    /// What the command line shows, for a remote one.
    pub report: Value,
    /// The exit code of the command.
    pub exit_code: u8,
}

/// Why something could not be done, with all that any protocol tells of it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    code: Code,
    message: String,
    hint: Option<String>,
    details: Value,
}

impl Failure {
    /// A failure with a code.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: None,
            details: Value::Null,
        }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds facts for programs.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = details;
        self
    }

    /// Any error that knows its code.
    pub fn of(error: &dyn Diagnose) -> Self {
        Self {
            code: error.code(),
            message: error.to_string(),
            hint: error.hint(),
            details: error.details(),
        }
    }
}

impl Diagnose for Failure {
    fn code(&self) -> Code {
        self.code
    }

    fn hint(&self) -> Option<String> {
        self.hint.clone()
    }

    fn details(&self) -> Value {
        self.details.clone()
    }
}

impl From<cleveragents_application::StoreError> for Failure {
    fn from(error: cleveragents_application::StoreError) -> Self {
        Self::of(&error)
    }
}

/// A message for a conversation, to be answered.
pub struct Tell<'a> {
    /// Who asks.
    pub caller: &'a Caller,
    /// The conversation.
    pub session: SessionId,
    /// What is asked; `None` goes on with a turn that was cut off or waits for an answer.
    pub prompt: Option<String>,
    /// The actor that answers; `None` for that of the session, or the default.
    pub actor: Option<String>,
    /// Whether who runs the server chose the actor: then the caller need not be allowed to.
    pub is_actor_given: bool,
    /// Hears the answer while it comes.
    pub listener: &'a dyn Listener,
    /// What stops it.
    pub cancel: &'a Cancel,
}

/// Hears an answer while it comes.
pub trait Listener: Send + Sync {
    /// A piece of text.
    fn text(&self, _piece: &str) {}
    /// A tool is called.
    fn tool(&self, _name: &str) {}
    /// The answer begins anew: what came so far does not count.
    fn reset(&self) {}
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// With an answer.
    Answered {
        /// The text.
        text: String,
    },
    /// It waits for a person, who answers with the next message.
    Waiting {
        /// What is asked.
        question: String,
    },
    /// It was stopped.
    Stopped,
}

/// What a server is lent by the front end that starts it. Every function may take long and is called on a thread of
/// its own.
pub trait Program: Send + Sync + 'static {
    /// What can be asked for. The same list for as long as the server runs.
    fn operations(&self) -> &[Operation];

    /// Whether a caller may call an operation with parameters; a denial is recorded.
    fn authorize(
        &self,
        caller: &Caller,
        operation: &Operation,
        parameters: &Value,
    ) -> Result<(), Failure>;

    /// Does it, as the caller.
    fn run(&self, call: &Call<'_>) -> Result<Done, Failure>;

    /// Runs a command for another machine's command line, which prints what is given back: `report` or `error`.
    /// Everything that the command touches is checked by it.
    fn run_line(&self, line: &Line<'_>) -> Result<Value, Failure> {
        Err(Failure::new(
            Code::UnknownOperation,
            format!(
                "`{}` cannot be run from another machine",
                line.operation.name
            ),
        ))
    }

    /// Answers a message in a conversation.
    fn tell(&self, tell: &Tell<'_>) -> Result<Told, Failure>;

    /// Drives a plan on, as `plan execute` does, and gives its data. The plan's own state says how it ended.
    fn drive(&self, caller: &Caller, plan: PlanId, cancel: &Cancel) -> Result<Value, Failure>;

    /// The version of the program.
    fn version(&self) -> &'static str;
}
