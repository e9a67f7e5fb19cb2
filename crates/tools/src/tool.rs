//! [`Tool`] and [`PreparedCall`]: the interface between the gate and tools; [`Call`]: the context of a
//! running tool.

use std::fmt;
use std::time::{Duration, Instant};

use cleveragents_process::Cancel;
use serde_json::Value;

use crate::capability::Access;
use crate::gate::Permit;
use crate::name::ToolName;
use crate::output::{Log, Output};
use crate::ports::{Approver, Ledger, PartPath, PortError, Scope, Workspace};
use crate::safety::PathPermissions;
use crate::spec::ToolSpec;

/// A part of a call that permission rules can match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A path in the sandbox.
    Path {
        /// Part and path.
        path: PartPath,
        /// Access of the call: reading or writing.
        access: Access,
    },
    /// A whole part of the sandbox.
    Part {
        /// Alias of the part.
        alias: String,
        /// Access of the call: reading or writing.
        access: Access,
    },
    /// A shell command.
    Command(String),
    /// Another text in the arguments.
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

/// The environment for preparing a call.
#[derive(Clone, Copy)]
pub struct PrepareContext<'a> {
    /// The sandbox, if there is one.
    pub workspace: Option<&'a dyn Workspace>,
}

/// Reason why a call cannot be prepared. The call had no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrepareError {
    /// The arguments match the schema but are inconsistent.
    Arguments(String),
    /// A path is outside the sandbox or invalid.
    BadPath {
        /// The path as the model wrote it.
        path: String,
        /// The error.
        why: String,
    },
    /// The call would change a read-only part.
    ReadOnlyPart(String),
    /// The tool needs a sandbox, and there is none.
    NoWorkspace,
}

/// A tool that the gate can call.
pub trait Tool: Send + Sync {
    /// The static description.
    fn spec(&self) -> &ToolSpec;

    /// Parses the arguments, which match the schema of the tool, and resolves their paths. May read metadata
    /// of files, but no content; changes nothing.
    fn prepare<'a>(
        &'a self,
        arguments: Value,
        context: PrepareContext<'a>,
    ) -> Result<Box<dyn PreparedCall + 'a>, PrepareError>;

    /// The tools that a call with these arguments replaces. Profiles, guards and rules for these tools apply to the
    /// call too. Empty for most tools.
    fn acts_as(&self, _arguments: &Value) -> Vec<ToolName> {
        Vec::new()
    }
}

/// A call with parsed arguments that waits for a permit.
pub trait PreparedCall {
    /// The subjects that permission rules can match.
    fn subjects(&self) -> Vec<Subject>;

    /// The subjects, each paired with the tool whose rules apply to it. Empty unless the call
    /// [acts as](Tool::acts_as) other tools.
    fn subjects_by_tool(&self) -> Vec<(ToolName, Subject)> {
        Vec::new()
    }

    /// Runs the call. Only the gate can create a permit.
    fn run(self: Box<Self>, permit: Permit, call: &mut Call<'_>) -> Result<Answer, Failure>;
}

/// Paths that a tool changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TouchedPaths {
    /// No changes.
    #[default]
    Nothing,
    /// Exactly these paths, not the content of directories among them.
    Paths(Vec<PartPath>),
    /// Unknown; the whole sandbox is scanned for changes.
    Anything,
}

/// The body of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// The text written to [`Call::output`].
    Written,
    /// A JSON value, which must match the output schema if there is one.
    Json(Value),
}

/// The result of a successful call.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The content.
    pub body: Body,
    /// Changed paths.
    pub touched: TouchedPaths,
    /// Note that the tool adds for the model, such as how to continue reading. It is shown after the output and not
    /// marked as untrusted data.
    pub note: Option<String>,
    /// Media type of the written output, such as `image/png`, when it is an image instead of text.
    pub media_type: Option<&'static str>,
}

impl Answer {
    /// An answer that consists of the written output, without changed paths.
    pub const fn written() -> Self {
        Self {
            body: Body::Written,
            touched: TouchedPaths::Nothing,
            note: None,
            media_type: None,
        }
    }

    /// Sets the note.
    #[must_use]
    pub fn with_note(mut self, note: Option<String>) -> Self {
        self.note = note;
        self
    }

    /// Sets the changed paths.
    #[must_use]
    pub fn touching(mut self, paths: impl IntoIterator<Item = PartPath>) -> Self {
        self.touched = TouchedPaths::Paths(paths.into_iter().collect());
        self
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The tool reported an error.
    Tool,
    /// The call reached its time limit.
    Timeout,
    /// The call was cancelled.
    Cancelled,
    /// The call needs a user, and none is available.
    HumanNeeded,
    /// The answer is not valid JSON or does not match its schema.
    BadOutput,
}

/// A failed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub kind: FailureKind,
    /// Error message for the model.
    pub message: String,
    /// Paths that may have changed before the failure.
    pub touched: TouchedPaths,
}

impl Failure {
    /// A failure of the kind [`FailureKind::Tool`].
    pub fn new(message: impl Into<String>) -> Self {
        Self::with_kind(FailureKind::Tool, message)
    }

    /// A failure of another kind.
    pub fn with_kind(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            touched: TouchedPaths::Nothing,
        }
    }

    /// Sets the paths that may have changed.
    #[must_use]
    pub fn touching(mut self, touched: TouchedPaths) -> Self {
        self.touched = touched;
        self
    }
}

impl From<PortError> for Failure {
    fn from(error: PortError) -> Self {
        Self::new(error.to_string())
    }
}

/// The context of a running tool.
pub struct Call<'a> {
    /// Output of the tool.
    pub output: Output<'a>,
    /// The log of the tool. If the call fails, the model receives the end of the log.
    pub log: Log,
    pub(crate) workspace: Option<&'a dyn Workspace>,
    pub(crate) approver: &'a dyn Approver,
    pub(crate) ledger: &'a dyn Ledger,
    pub(crate) scope: &'a Scope,
    pub(crate) cancel: &'a Cancel,
    pub(crate) path_permissions: PathPermissions<'a>,
    pub(crate) started_at: Instant,
    pub(crate) timeout: Duration,
}

impl<'a> Call<'a> {
    /// The sandbox, or a failure when there is none.
    pub fn workspace(&self) -> Result<&'a dyn Workspace, Failure> {
        self.workspace
            .ok_or_else(|| Failure::new("there is no sandbox"))
    }

    /// The approver, which asks the user.
    pub const fn approver(&self) -> &'a dyn Approver {
        self.approver
    }

    /// Stored calls and their outputs.
    pub const fn ledger(&self) -> &'a dyn Ledger {
        self.ledger
    }

    /// Session, plan and actor that make the call.
    pub const fn scope(&self) -> &'a Scope {
        self.scope
    }

    /// The token that cancels the call.
    pub const fn cancel(&self) -> &'a Cancel {
        self.cancel
    }

    /// Permission rules for paths that the tool finds, such as the content of a directory.
    pub const fn path_permissions(&self) -> PathPermissions<'a> {
        self.path_permissions
    }

    /// Remaining time.
    pub fn time_left(&self) -> Duration {
        self.timeout.saturating_sub(self.started_at.elapsed())
    }

    /// Remaining time if `uncounted` does not count toward the time limit, such as the time that a user took
    /// to answer a question.
    pub fn time_left_after(&self, uncounted: Duration) -> Duration {
        let counted = self.started_at.elapsed().saturating_sub(uncounted);
        self.timeout.saturating_sub(counted)
    }

    /// Fails when the call was cancelled or reached its time limit. Long loops call this regularly.
    pub fn check_running(&self) -> Result<(), Failure> {
        if self.cancel.is_cancelled() {
            return Err(Failure::with_kind(
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
        Failure::with_kind(
            FailureKind::Timeout,
            format!("stopped at the time limit of {limit} seconds"),
        )
    }
}
