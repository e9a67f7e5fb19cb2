//! Errors of sandbox operations.

use std::path::PathBuf;

use cleveragents_domain::{Code, Diagnose, Hint, Placeholder, TreePath, hint, suggest};
use serde_json::{Value, json};

use crate::apply::Conflict;

/// Failure of a sandbox operation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error("{action} `{}` failed: {source}", .path.display())]
    Files {
        /// Attempted operation.
        action: &'static str,
        /// Affected file or folder.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The `git` program failed.
    #[error("`git {command}` failed: {message}")]
    Git {
        /// Arguments of the command.
        command: String,
        /// Error output of git.
        message: String,
    },
    /// The `git` program is missing or too old.
    #[error("{0}")]
    GitUnusable(String),
    /// A program could not be run.
    #[error(transparent)]
    Process(#[from] cleveragents_process::ProcessError),
    /// Another process is using the repository.
    #[error("another git command uses `{}`: `{}` exists", .repository.display(), .lock.display())]
    RepositoryBusy {
        repository: PathBuf,
        /// Path of the existing lock.
        lock: PathBuf,
    },
    /// This kind of resource cannot be sandboxed.
    #[error("{what} cannot be sandboxed: {reason}")]
    CannotSandbox {
        /// Name or path of the resource.
        what: String,
        /// Reason of the refusal.
        reason: String,
        /// Suggested alternative.
        hint: Option<Hint>,
    },
    /// Files of the sandbox are missing.
    #[error("the sandbox is damaged: {0}")]
    Damaged(String),
    /// A scan of the files was cancelled; nothing was recorded.
    #[error("recording the changes in the sandbox was interrupted")]
    Interrupted,
    /// Required content is stored nowhere.
    #[error("the earlier content of these paths is lost: {}", list(.0))]
    ContentLost(Vec<TreePath>),
    /// A change cannot be applied to the real resource.
    #[error("{alias}: {} of the changed paths cannot be applied: {}; nothing was applied", .problems.len(), first_problems(.problems))]
    CannotApply {
        /// Alias of the sandbox member.
        alias: String,
        /// Each path with the reason.
        problems: Vec<(TreePath, String)>,
    },
    /// The changes cannot be committed on a new branch.
    #[error(
        "the changes cannot be committed on the new branch `{branch}`: {reason}; nothing was applied"
    )]
    BranchRefused {
        /// Name of the branch.
        branch: String,
        /// Reason of the refusal.
        reason: String,
        /// Suggested alternative.
        hint: Option<Hint>,
    },
    /// The real resources changed at the same paths.
    #[error("{} of the changed paths changed outside the sandbox too: {}; nothing was applied", .0.len(), .0.iter().map(Conflict::label).collect::<Vec<_>>().join(", "))]
    Conflicts(Vec<Conflict>),
    /// Another process changed something during the apply; everything was rolled back.
    #[error("{0}; nothing was applied")]
    Raced(String),
    /// An apply failed after its first change and was rolled back.
    #[error("apply failed and was rolled back, nothing was changed: {0}")]
    RolledBack(String),
    /// An apply could be neither completed nor rolled back.
    #[error("apply was interrupted and could not be rolled back: {0}")]
    Stuck(String),
    /// A database server is unreachable, or the connection was lost.
    #[error("database `{address}`: {message}")]
    Unreachable {
        /// Address without the password.
        address: String,
        /// Message of the client library or the server.
        message: String,
        /// Suggested fix, if the cause is known.
        hint: Option<Hint>,
    },
    /// A server rejects a statement.
    #[error("{name}, line {line}: {message} (SQLSTATE {state}); nothing was changed")]
    Sql {
        /// Name of the text that contains the statement.
        name: &'static str,
        /// Line that the server reports.
        line: usize,
        /// SQLSTATE code.
        state: String,
        /// Message of the server.
        message: String,
        /// Hint of the server.
        hint: Option<String>,
    },
    /// A statement cannot be part of the single transaction of a sandbox.
    #[error("{name}, line {line}: {reason}; nothing was changed")]
    SqlNotAdmitted {
        /// Name of the text that contains the statement.
        name: &'static str,
        /// Line of the statement.
        line: usize,
        /// Reason of the refusal.
        reason: String,
    },
    /// A database of the user could not be read or written.
    #[error("database `{}`: {message}", .path.display())]
    Database {
        /// Path of the database.
        path: PathBuf,
        /// Message of SQLite.
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

/// The first paths, each with its reason; `details` lists all paths.
fn first_problems(problems: &[(TreePath, String)]) -> String {
    const MAX_SHOWN: usize = 10;
    let mut named: Vec<_> = problems
        .iter()
        .take(MAX_SHOWN)
        .map(|(path, why)| format!("{path} ({why})"))
        .collect();
    if problems.len() > MAX_SHOWN {
        named.push(format!("and {} more", problems.len() - MAX_SHOWN));
    }
    named.join(", ")
}

/// Adds the attempted operation to an error of the operating system.
pub(crate) trait PathContext<T> {
    fn during(self, action: &'static str, path: &std::path::Path) -> Result<T, Error>;
}

impl<T, E: Into<std::io::Error>> PathContext<T> for Result<T, E> {
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
            Self::CannotApply { .. } | Self::BranchRefused { .. } => Code::CannotApply,
            Self::Conflicts(_) => Code::ApplyConflict,
            Self::Raced(_) => Code::ApplyRaced,
            Self::RolledBack(_) => Code::ApplyRolledBack,
            Self::Stuck(_) => Code::ApplyStuck,
            Self::Database { .. } | Self::Unreachable { .. } => Code::ResourceDatabase,
            Self::Sql { .. } => Code::SqlFailed,
            Self::SqlNotAdmitted { .. } => Code::SqlNotAdmitted,
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Files { source, .. } => match source.kind() {
                std::io::ErrorKind::StorageFull => Some("free some space, then run the command again".into()),
                std::io::ErrorKind::PermissionDenied => Some("check the permissions of the file and its folder".into()),
                _ => None,
            },
            Self::Process(error) => error.hint(),
            Self::GitUnusable(_) => Some("install git 2.38 or newer".into()),
            Self::RepositoryBusy { lock, .. } => Some(hint!(
                "wait until that command ends; if no git command runs, remove `{}`",
                lock.display()
            )),
            Self::CannotSandbox { hint, .. } | Self::BranchRefused { hint, .. } => hint.clone(),
            Self::Damaged(_) => Some(hint!(
                "save what you need from its folder, then run {}",
                suggest::sandbox_discard(Placeholder("NAME"))
            )),
            Self::Interrupted => Some(hint!(
                "the next command on the sandbox records them; {} rolls them back",
                suggest::sandbox_rollback(Placeholder("NAME"))
            )),
            Self::ContentLost(_) => Some("the original changed while a command ran, the file is too large to be stored, or stored content was removed or damaged: choose another checkpoint, or save what you need and discard the sandbox".into()),
            Self::CannotApply { .. } => Some("undo those changes in the sandbox, then apply again".into()),
            Self::Conflicts(_) => Some("commit, stash or undo your own changes, or undo those of the sandbox, then apply again".into()),
            Self::Raced(_) => Some("apply again".into()),
            Self::RolledBack(_) => Some("remove the cause, then apply again".into()),
            Self::Stuck(_) => Some(hint!(
                "remove the cause, then run any {} command: it retries the apply; no changes are lost",
                suggest::sandbox()
            )),
            Self::Unreachable { hint: Some(known), .. } => Some(known.clone()),
            Self::Unreachable { .. } => Some(hint!(
                "check that the server runs and accepts this user and password; {} shows the address of the resource",
                suggest::resource_show(Placeholder("RESOURCE"))
            )),
            Self::Sql { hint: Some(advice), .. } => Some(advice.into()),
            Self::Sql { .. } => Some(hint!(
                "correct the statement, then run the command again; {} runs statements without storing their changes",
                suggest::sandbox_query()
            )),
            Self::SqlNotAdmitted { .. } => Some("remove the statement: all of the SQL runs in one transaction, which the program starts and commits".into()),
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
            Self::BranchRefused { branch, .. } => json!({"branch": branch}),
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
