//! [`Tool`] and [`Prepared`]: what every tool is to the gate, and [`Call`]: what a running tool has
//! in its hands.

use std::fmt;
use std::time::{Duration, Instant};

use cleveragents_process::Cancel;
use serde_json::Value;

use crate::capability::Access;
use crate::gate::Permit;
use crate::output::{Log, Output};
use crate::ports::{Approver, Ledger, PartPath, PortError, Scope, Workspace};
use crate::safety::Fence;
use crate::spec::ToolSpec;

/// Something of a call that permission rules can speak about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A path in the sandbox.
    Path {
        /// The path.
        path: PartPath,
        /// What is done with it.
        access: Access,
    },
    /// The whole of a part.
    Part {
        /// Its alias.
        alias: String,
        /// What is done with it.
        access: Access,
    },
    /// A command for a shell.
    Command(String),
    /// Another text among the arguments.
    Text(String),
}

impl fmt::Display for Subject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path { path, .. } => path.fmt(formatter),
            Self::Part { alias, .. } => formatter.write_str(alias),
            Self::Command(text) | Self::Text(text) => formatter.write_str(text),
        }
    }
}

/// What a call can be prepared with.
#[derive(Clone, Copy)]
pub struct Grounds<'a> {
    /// The sandbox, when there is one.
    pub workspace: Option<&'a dyn Workspace>,
}

/// Why a call cannot even be prepared. Nothing has happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unprepared {
    /// The arguments fit the schema and make no sense all the same.
    Arguments(String),
    /// A path that leads out of the sandbox, or nowhere in it.
    Outside {
        /// The path as it was given.
        path: String,
        /// Why it is not one.
        why: String,
    },
    /// A change in a part that must not be changed.
    ReadOnlyPart(String),
    /// There is no sandbox to act in.
    NoWorkspace,
}

/// A tool.
pub trait Tool: Send + Sync {
    /// What it is.
    fn spec(&self) -> &ToolSpec;

    /// Understands the arguments, which fit the schema of the tool, and finds the paths they mean.
    /// It looks at names at most; it changes nothing and reads no content.
    fn prepare<'a>(
        &'a self,
        arguments: Value,
        grounds: Grounds<'a>,
    ) -> Result<Box<dyn Prepared + 'a>, Unprepared>;
}

/// A call that is understood and waits for permission.
pub trait Prepared {
    /// What rules can speak about.
    fn subjects(&self) -> Vec<Subject>;

    /// Does it. Only the gate has a permit.
    fn run(self: Box<Self>, permit: Permit, call: &mut Call<'_>) -> Result<Answer, Failure>;
}

/// What a tool changed, as far as it knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Touched {
    /// Nothing.
    #[default]
    Nothing,
    /// These paths, and what lies beneath none of them.
    Paths(Vec<PartPath>),
    /// It cannot tell.
    Anything,
}

/// What a tool says.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// What it has written to [`Call::output`].
    Written,
    /// This, which must fit its output schema when it has one.
    Json(Value),
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// What it says.
    pub body: Body,
    /// What it changed.
    pub touched: Touched,
    /// A word of the program's own beside it, such as how to read on.
    pub note: Option<String>,
    /// What was written, such as `image/png`, when it is a picture and not text.
    pub media_type: Option<&'static str>,
}

impl Answer {
    /// What was written to the output, and nothing changed.
    pub const fn written() -> Self {
        Self {
            body: Body::Written,
            touched: Touched::Nothing,
            note: None,
            media_type: None,
        }
    }

    /// The same with a word beside it.
    #[must_use]
    pub fn noting(mut self, note: Option<String>) -> Self {
        self.note = note;
        self
    }

    /// The same after these paths were changed.
    #[must_use]
    pub fn touching(mut self, paths: impl IntoIterator<Item = PartPath>) -> Self {
        self.touched = Touched::Paths(paths.into_iter().collect());
        self
    }
}

/// How a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The tool could not do it.
    Tool,
    /// It took too long and was stopped.
    Timeout,
    /// It was stopped on request.
    Cancelled,
    /// A person was needed and none was there.
    HumanNeeded,
    /// What it answered does not fit its schema, or is no JSON.
    BadOutput,
}

/// Why a call failed, in words for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// How.
    pub kind: FailureKind,
    /// Why, as a sentence.
    pub message: String,
    /// What it may have changed before.
    pub touched: Touched,
}

impl Failure {
    /// The tool could not do it.
    pub fn new(message: impl Into<String>) -> Self {
        Self::of(FailureKind::Tool, message)
    }

    /// A failure of another kind.
    pub fn of(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            touched: Touched::Nothing,
        }
    }

    /// The same after these paths were, perhaps, changed.
    #[must_use]
    pub fn touching(mut self, touched: Touched) -> Self {
        self.touched = touched;
        self
    }
}

impl From<PortError> for Failure {
    fn from(error: PortError) -> Self {
        Self::new(error.to_string())
    }
}

/// What a running tool has in its hands.
pub struct Call<'a> {
    /// Everything it says.
    pub output: Output<'a>,
    /// What it logs beside that, for people.
    pub log: Log,
    pub(crate) workspace: Option<&'a dyn Workspace>,
    pub(crate) approver: &'a dyn Approver,
    pub(crate) ledger: &'a dyn Ledger,
    pub(crate) scope: &'a Scope,
    pub(crate) cancel: &'a Cancel,
    pub(crate) fence: Fence<'a>,
    pub(crate) begun: Instant,
    pub(crate) timeout: Duration,
}

impl<'a> Call<'a> {
    /// The sandbox.
    pub fn workspace(&self) -> Result<&'a dyn Workspace, Failure> {
        self.workspace
            .ok_or_else(|| Failure::new("there is no sandbox to act in"))
    }

    /// Who can be asked.
    pub const fn approver(&self) -> &'a dyn Approver {
        self.approver
    }

    /// Where earlier outputs are.
    pub const fn ledger(&self) -> &'a dyn Ledger {
        self.ledger
    }

    /// For whom the call is made.
    pub const fn scope(&self) -> &'a Scope {
        self.scope
    }

    /// What stops the call.
    pub const fn cancel(&self) -> &'a Cancel {
        self.cancel
    }

    /// What rules say of paths that a tool comes upon, such as those beneath a folder it was given.
    pub const fn fence(&self) -> Fence<'a> {
        self.fence
    }

    /// How long it may still take.
    pub fn time_left(&self) -> Duration {
        self.timeout.saturating_sub(self.begun.elapsed())
    }

    /// How long it may still take when so much of the time so far does not count, such as the time
    /// in which a person thought about a question.
    pub fn time_left_after(&self, uncounted: Duration) -> Duration {
        let counted = self.begun.elapsed().saturating_sub(uncounted);
        self.timeout.saturating_sub(counted)
    }

    /// To be called every now and then by whatever may take long.
    pub fn keep_going(&self) -> Result<(), Failure> {
        if self.cancel.is_cancelled() {
            return Err(Failure::of(
                FailureKind::Cancelled,
                "the call was cancelled",
            ));
        }
        if self.time_left().is_zero() {
            return Err(self.timed_out());
        }
        Ok(())
    }

    pub(crate) fn timed_out(&self) -> Failure {
        let limit = self.timeout.as_secs_f64();
        Failure::of(
            FailureKind::Timeout,
            format!("it was stopped at its time limit of {limit} seconds"),
        )
    }
}
