//! Why something with a sandbox did not work.

use std::path::PathBuf;

use cleveragents_domain::{Code, Diagnose, TreePath};
use serde_json::{Value, json};

use crate::apply::Conflict;

/// A failure of a sandbox.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error("{action} `{}` failed: {source}", .path.display())]
    Files {
        /// What was being done.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// The `git` program failed.
    #[error("`git {command}` failed: {message}")]
    Git {
        /// Its arguments.
        command: String,
        /// What it said.
        message: String,
    },
    /// The `git` program is missing or too old.
    #[error("{0}")]
    GitUnusable(String),
    /// A program could not be run.
    #[error(transparent)]
    Process(#[from] cleveragents_process::ProcessError),
    /// Somebody works on the repository right now.
    #[error("another git command works on `{}`: `{}` exists", .repository.display(), .lock.display())]
    RepositoryBusy {
        /// The repository.
        repository: PathBuf,
        /// The lock that is there.
        lock: PathBuf,
    },
    /// This kind of resource cannot be sandboxed.
    #[error("{what} cannot be sandboxed: {reason}")]
    CannotSandbox {
        /// The resource.
        what: String,
        /// Why.
        reason: String,
        /// What to do instead.
        hint: Option<String>,
    },
    /// Files of the sandbox are gone.
    #[error("the sandbox is damaged: {0}")]
    Damaged(String),
    /// A look at the files was stopped; nothing was recorded.
    #[error("recording what changed in the sandbox was interrupted")]
    Interrupted,
    /// Content that is needed is not kept anywhere.
    #[error("the earlier content of these paths is lost: {}", list(.0))]
    ContentLost(Vec<TreePath>),
    /// A change cannot be carried to the real resource.
    #[error("{alias}: {} of the changed paths cannot be applied: {}; nothing was applied", .problems.len(), some(.problems))]
    CannotApply {
        /// The part of the sandbox.
        alias: String,
        /// Each path and why.
        problems: Vec<(TreePath, String)>,
    },
    /// The real resources changed in the same places.
    #[error("{} of the changed paths changed outside the sandbox too: {}; nothing was applied", .0.len(), .0.iter().map(Conflict::label).collect::<Vec<_>>().join(", "))]
    Conflicts(Vec<Conflict>),
    /// Somebody changed something while it was being applied; everything was taken back.
    #[error("{0}; nothing was applied")]
    Raced(String),
    /// An apply failed halfway and was taken back.
    #[error("apply failed and was taken back, everything is as before: {0}")]
    TakenBack(String),
    /// An apply could be neither finished nor taken back.
    #[error("apply stopped halfway and could not be taken back: {0}")]
    Stuck(String),
    /// A database server cannot be reached, or is gone.
    #[error("database `{address}`: {message}")]
    Unreachable {
        /// Its address without the password.
        address: String,
        /// What the client or the server says.
        message: String,
    },
    /// A server refuses a statement.
    #[error("{name}, line {line}: {message} (SQLSTATE {state}); nothing was changed")]
    Sql {
        /// The text that holds it.
        name: &'static str,
        /// The line that the server means.
        line: usize,
        /// The server's code.
        state: String,
        /// What the server says.
        message: String,
        /// What the server advises.
        hint: Option<String>,
    },
    /// A statement cannot be part of the one transaction of a sandbox.
    #[error("{name}, line {line}: {reason}; nothing was changed")]
    SqlNotAdmitted {
        /// The text that holds it.
        name: &'static str,
        /// Its line.
        line: usize,
        /// Why.
        reason: String,
    },
    /// A database of the user's could not be read or written.
    #[error("database `{}`: {message}", .path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
        message: String,
    },
}

fn list(paths: &[TreePath]) -> String {
    paths
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

/// The first few paths, each with its reason; `details` has them all.
fn some(problems: &[(TreePath, String)]) -> String {
    const SHOWN: usize = 10;
    let mut named: Vec<_> = problems
        .iter()
        .take(SHOWN)
        .map(|(path, why)| format!("{path} ({why})"))
        .collect();
    if problems.len() > SHOWN {
        named.push(format!("and {} more", problems.len() - SHOWN));
    }
    named.join(", ")
}

/// Says what was being done when the system refused.
pub(crate) trait During<T> {
    fn during(self, action: &'static str, path: &std::path::Path) -> Result<T, Error>;
}

impl<T, E: Into<std::io::Error>> During<T> for Result<T, E> {
    fn during(self, action: &'static str, path: &std::path::Path) -> Result<T, Error> {
        self.map_err(|source| Error::Files {
            action,
            path: path.to_owned(),
            source: source.into(),
        })
    }
}

impl Diagnose for Error {
    fn code(&self) -> Code {
        match self {
            Self::Files { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
                Code::DiskFull
            }
            Self::Files { .. } => Code::FileAccess,
            Self::Git { .. } => Code::GitFailed,
            Self::GitUnusable(_) => Code::GitUnusable,
            Self::Process(error) => error.code(),
            Self::RepositoryBusy { .. } => Code::RepositoryBusy,
            Self::CannotSandbox { .. } => Code::CannotSandbox,
            Self::Damaged(_) => Code::SandboxDamaged,
            Self::Interrupted => Code::CaptureInterrupted,
            Self::ContentLost(_) => Code::ContentLost,
            Self::CannotApply { .. } => Code::CannotApply,
            Self::Conflicts(_) => Code::ApplyConflict,
            Self::Raced(_) => Code::ApplyRaced,
            Self::TakenBack(_) => Code::ApplyTakenBack,
            Self::Stuck(_) => Code::ApplyStuck,
            Self::Database { .. } | Self::Unreachable { .. } => Code::ResourceDatabase,
            Self::Sql { .. } => Code::SqlFailed,
            Self::SqlNotAdmitted { .. } => Code::SqlNotAdmitted,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Files { source, .. } => match source.kind() {
                std::io::ErrorKind::StorageFull => Some("free some space, then run the command again".to_owned()),
                std::io::ErrorKind::PermissionDenied => Some("check the permissions of the file and its folder".to_owned()),
                _ => None,
            },
            Self::Process(error) => error.hint(),
            Self::GitUnusable(_) => Some("install git 2.38 or newer".to_owned()),
            Self::RepositoryBusy { lock, .. } => Some(format!(
                "wait until it is done; if no git command runs, remove `{}`",
                lock.display()
            )),
            Self::CannotSandbox { hint, .. } => hint.clone(),
            Self::Damaged(_) => Some("save what you need from its folder, then run `agents sandbox discard NAME`".to_owned()),
            Self::Interrupted => Some("the next command on the sandbox records it; `agents sandbox rollback NAME` goes back to before".to_owned()),
            Self::ContentLost(_) => Some("the original changed while a command ran, the file is too large to be kept, or kept content was removed or damaged: choose another checkpoint, or save what you need and discard the sandbox".to_owned()),
            Self::CannotApply { .. } => Some("take those changes back in the sandbox, then apply again".to_owned()),
            Self::Conflicts(_) => Some("settle your own changes (commit, stash or undo them) or take the sandbox's back, then apply again".to_owned()),
            Self::Raced(_) => Some("apply again".to_owned()),
            Self::TakenBack(_) => Some("remove the cause, then apply again".to_owned()),
            Self::Stuck(_) => Some("remove the cause, then run any `agents sandbox` command: it tries again; nothing is thrown away".to_owned()),
            Self::Unreachable { .. } => Some("check that the server runs and takes this user and password; the address is that of the resource, see `agents resource show RESOURCE`".to_owned()),
            Self::Sql { hint, .. } => Some(hint.clone().unwrap_or_else(|| "correct the statement, then run the command again; `agents sandbox query` tries statements and keeps nothing".to_owned())),
            Self::SqlNotAdmitted { .. } => Some("take the statement out: all of the SQL runs in one transaction, which the program begins and commits".to_owned()),
            Self::Git { .. } | Self::Database { .. } => None,
        }
    }

    fn details(&self) -> Value {
        match self {
            Self::Conflicts(conflicts) => json!({"conflicts": conflicts}),
            Self::ContentLost(paths) => json!({"paths": paths}),
            Self::CannotApply { alias, problems } => json!({
                "alias": alias,
                "problems": problems.iter().map(|(path, why)| json!({"path": path, "reason": why})).collect::<Vec<_>>(),
            }),
            Self::Files { path, .. } | Self::Database { path, .. } => {
                json!({"path": path.display().to_string()})
            }
            Self::Unreachable { address, .. } => json!({"address": address}),
            Self::Sql {
                name, line, state, ..
            } => json!({"text": name, "line": line, "sqlstate": state}),
            Self::SqlNotAdmitted { name, line, .. } => json!({"text": name, "line": line}),
            Self::RepositoryBusy { repository, lock } => json!({
                "repository": repository.display().to_string(),
                "lock": lock.display().to_string(),
            }),
            Self::Process(error) => error.details(),
            _ => Value::Null,
        }
    }
}
