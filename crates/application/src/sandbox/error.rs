//! Errors of the sandbox service.

use cleveragents_domain::{
    Code, Diagnose, Hint, Placeholder, SandboxNameError, SandboxState, hint, suggest,
};
use serde_json::{Value, json};

use super::history::MAX_LABEL;
use crate::lease::LeaseError;

/// A failure of the sandbox service.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// No sandbox has this name or id.
    #[error("sandbox `{0}` does not exist")]
    NotFound(String),
    /// A sandbox of this name exists.
    #[error("sandbox `{0}` exists already")]
    Exists(String),
    /// The name is not allowed.
    #[error(transparent)]
    Name(#[from] SandboxNameError),
    /// The sandbox cannot be used in its current state.
    #[error("sandbox `{name}` is {}", .state.as_str())]
    NotReady {
        name: String,
        /// Current state of the sandbox.
        state: SandboxState,
    },
    /// The files of the sandbox are on another machine.
    #[error("sandbox `{name}` is on the machine `{machine}`")]
    Elsewhere {
        name: String,
        /// Name of the other machine.
        machine: String,
    },
    /// The checkpoint does not exist.
    #[error("sandbox `{name}` has no checkpoint `{checkpoint}`")]
    CheckpointNotFound {
        name: String,
        /// Requested number or label.
        checkpoint: String,
    },
    /// The sandbox has no part of this name.
    #[error("sandbox `{name}` has no part `{part}`")]
    PartNotFound {
        name: String,
        /// Requested part.
        part: String,
    },
    /// The label of a checkpoint is not allowed.
    #[error("`{0}` cannot be the label of a checkpoint")]
    Label(String),
    /// No earlier state differs from the current one.
    #[error("sandbox `{0}` has nothing to roll back")]
    NothingToTakeBack(String),
    /// No rollback can be undone.
    #[error("sandbox `{0}` has nothing to redo")]
    NothingToRedo(String),
    /// The request names no part, and the sandbox does not have exactly one database on a server.
    #[error("sandbox `{name}` has {}", databases(.parts))]
    WhichDatabase {
        name: String,
        /// The parts of the sandbox that are databases on servers.
        parts: Vec<String>,
    },
    /// The part does not accept SQL statements.
    #[error("part `{part}` of sandbox `{name}` is not a PostgreSQL database")]
    NoDatabase {
        name: String,
        /// Requested part.
        part: String,
    },
    /// Another process uses the sandbox.
    #[error(transparent)]
    Lease(Box<LeaseError>),
    /// An operation on the files of the sandbox failed.
    #[error(transparent)]
    Files(#[from] cleveragents_sandbox::Error),
    /// An operation on a resource failed.
    #[error(transparent)]
    Resource(#[from] crate::resource::ResourceError),
    /// A command in the sandbox could not run.
    #[error(transparent)]
    Process(#[from] cleveragents_process::ProcessError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] cleveragents_store::Error),
}

fn databases(parts: &[String]) -> String {
    if parts.is_empty() {
        "no PostgreSQL database".to_owned()
    } else {
        format!("several PostgreSQL databases: {}", parts.join(", "))
    }
}

impl From<LeaseError> for SandboxError {
    fn from(error: LeaseError) -> Self {
        Self::Lease(Box::new(error))
    }
}

impl SandboxError {
    /// Whether another process currently holds the lease of the sandbox or of one of its resources.
    pub fn is_held(&self) -> bool {
        matches!(self, Self::Lease(error) if matches!(**error, LeaseError::Held { .. }))
    }
}

impl Diagnose for SandboxError {
    fn code(&self) -> Code {
        match self {
            Self::NotFound(_) | Self::PartNotFound { .. } => Code::SandboxNotFound,
            Self::Exists(_) => Code::SandboxExists,
            Self::Name(_) => Code::InvalidSandboxName,
            Self::NotReady { .. } => Code::SandboxNotReady,
            Self::Elsewhere { .. } => Code::SandboxElsewhere,
            Self::CheckpointNotFound { .. } => Code::CheckpointNotFound,
            Self::NothingToTakeBack(_) | Self::NothingToRedo(_) => Code::NothingToRedo,
            Self::Label(_) | Self::WhichDatabase { .. } | Self::NoDatabase { .. } => Code::Usage,
            Self::Lease(error) => error.code(),
            Self::Files(error) => error.code(),
            Self::Process(error) => error.code(),
            Self::Resource(error) => error.code(),
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::NotFound(_) => Some(hint!(
                "run {} to list the sandboxes",
                suggest::sandbox_list_all()
            )),
            Self::Exists(name) => Some(hint!(
                "choose another name, or run {} first",
                suggest::sandbox_discard(name)
            )),
            Self::Name(_) => Some(
                "use up to 64 letters, digits, `.`, `_` and `-`, starting with a letter or digit"
                    .into(),
            ),
            Self::NotReady { name, state } => Some(if state.is_over() {
                hint!(
                    "create a new one: {}",
                    suggest::sandbox_create(name, Placeholder("DIR"))
                )
            } else {
                "wait until it is finished, then run the command again".into()
            }),
            Self::Elsewhere { machine, .. } => Some(hint!("run the command on `{}`", machine)),
            Self::CheckpointNotFound { name, .. } => Some(hint!(
                "run {} to list its checkpoints",
                suggest::sandbox_show(name)
            )),
            Self::PartNotFound { name, .. } => Some(hint!(
                "run {} to list its parts",
                suggest::sandbox_show(name)
            )),
            Self::Label(_) => Some(hint!(
                "use up to {} characters on one line, not only digits, because a number identifies a checkpoint",
                MAX_LABEL
            )),
            Self::NothingToTakeBack(name) | Self::NothingToRedo(name) => Some(hint!(
                "run {} to reach any checkpoint",
                suggest::sandbox_rollback_to(name, Placeholder("N"))
            )),
            Self::WhichDatabase { parts, .. } if !parts.is_empty() => {
                Some("name one of them with --part".into())
            }
            Self::WhichDatabase { name, .. } | Self::NoDatabase { name, .. } => Some(hint!(
                "read a file, or an SQLite database, with a command: {}",
                suggest::sandbox_exec(name, Placeholder("COMMAND"))
            )),
            Self::Lease(error) => error.hint(),
            Self::Files(error) => error.hint(),
            Self::Process(error) => error.hint(),
            Self::Resource(error) => error.hint(),
            Self::Store(error) => error.hint(),
        }
    }

    fn details(&self) -> Value {
        match self {
            Self::NotFound(name)
            | Self::Exists(name)
            | Self::NothingToTakeBack(name)
            | Self::NothingToRedo(name) => {
                json!({"sandbox": name})
            }
            Self::NotReady { name, state } => json!({"sandbox": name, "state": state}),
            Self::Elsewhere { name, machine } => json!({"sandbox": name, "machine": machine}),
            Self::CheckpointNotFound { name, checkpoint } => {
                json!({"sandbox": name, "checkpoint": checkpoint})
            }
            Self::WhichDatabase { name, parts } => json!({"sandbox": name, "parts": parts}),
            Self::PartNotFound { name, part } | Self::NoDatabase { name, part } => {
                json!({"sandbox": name, "part": part})
            }
            Self::Lease(error) => error.details(),
            Self::Files(error) => error.details(),
            Self::Process(error) => error.details(),
            Self::Resource(error) => error.details(),
            Self::Store(error) => error.details(),
            Self::Label(label) => json!({"label": label}),
            Self::Name(_) => Value::Null,
        }
    }
}
