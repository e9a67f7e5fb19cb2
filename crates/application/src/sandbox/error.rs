//! Why something with a sandbox did not work.

use cleveragents_domain::{Code, Diagnose, SandboxNameError, SandboxState};
use serde_json::{Value, json};

use super::history::MAX_LABEL;
use crate::lease::LeaseError;

/// A failure of the sandbox service.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// No sandbox has this name or id.
    #[error("sandbox `{0}` does not exist")]
    NotFound(String),
    /// A sandbox of this name is there already.
    #[error("sandbox `{0}` exists already")]
    Exists(String),
    /// The name is not allowed.
    #[error(transparent)]
    Name(#[from] SandboxNameError),
    /// It cannot be worked with in this state.
    #[error("sandbox `{name}` is {}", .state.as_str())]
    NotReady {
        /// The sandbox.
        name: String,
        /// Its state.
        state: SandboxState,
    },
    /// Its files are on another machine.
    #[error("sandbox `{name}` is on the machine `{machine}`")]
    Elsewhere {
        /// The sandbox.
        name: String,
        /// The machine.
        machine: String,
    },
    /// There is no such checkpoint.
    #[error("sandbox `{name}` has no checkpoint `{checkpoint}`")]
    CheckpointNotFound {
        /// The sandbox.
        name: String,
        /// What was asked for.
        checkpoint: String,
    },
    /// It has no part of this name.
    #[error("sandbox `{name}` has no part `{part}`")]
    PartNotFound {
        /// The sandbox.
        name: String,
        /// What was asked for.
        part: String,
    },
    /// A checkpoint cannot be called this.
    #[error("`{0}` cannot be the label of a checkpoint")]
    Label(String),
    /// No earlier state differs from the present one.
    #[error("sandbox `{0}` has nothing to take back")]
    NothingToTakeBack(String),
    /// No rollback can be undone.
    #[error("sandbox `{0}` has nothing to redo")]
    NothingToRedo(String),
    /// It has no database on a server, or several, and none is named.
    #[error("sandbox `{name}` has {}", databases(.parts))]
    WhichDatabase {
        /// The sandbox.
        name: String,
        /// Its databases on servers.
        parts: Vec<String>,
    },
    /// The part cannot be asked with statements.
    #[error("part `{part}` of sandbox `{name}` is not a PostgreSQL database")]
    NoDatabase {
        /// The sandbox.
        name: String,
        /// The part.
        part: String,
    },
    /// Someone else works with it.
    #[error(transparent)]
    Lease(Box<LeaseError>),
    /// Its files.
    #[error(transparent)]
    Files(#[from] cleveragents_sandbox::Error),
    /// A resource it shall hold.
    #[error(transparent)]
    Resource(#[from] crate::resource::ResourceError),
    /// A command in it.
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
    /// Whether someone else works with it, or with the same resources, right now.
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

    fn hint(&self) -> Option<String> {
        match self {
            Self::NotFound(_) => {
                Some("run `agents sandbox list --all` to see what there is".to_owned())
            }
            Self::Exists(name) => Some(format!(
                "choose another name, or run `agents sandbox discard {name}` first"
            )),
            Self::Name(_) => Some(
                "use up to 64 letters, digits, `.`, `_` and `-`, beginning with a letter or digit"
                    .to_owned(),
            ),
            Self::NotReady { name, state } => Some(if state.is_over() {
                format!("make a new one: `agents sandbox create {name} --path DIR`")
            } else {
                "wait until that is done, then run the command again".to_owned()
            }),
            Self::Elsewhere { machine, .. } => Some(format!("run the command on `{machine}`")),
            Self::CheckpointNotFound { name, .. } => Some(format!(
                "run `agents sandbox show {name}` to see its checkpoints"
            )),
            Self::PartNotFound { name, .. } => {
                Some(format!("run `agents sandbox show {name}` to see its parts"))
            }
            Self::Label(_) => Some(format!(
                "use up to {MAX_LABEL} characters on one line, not only digits: a number means a checkpoint by its number"
            )),
            Self::NothingToTakeBack(name) | Self::NothingToRedo(name) => Some(format!(
                "run `agents sandbox rollback {name} --to N` to reach any checkpoint"
            )),
            Self::WhichDatabase { parts, .. } if !parts.is_empty() => {
                Some("name one of them with --part".to_owned())
            }
            Self::WhichDatabase { name, .. } | Self::NoDatabase { name, .. } => Some(format!(
                "a file, an SQLite database too, is looked at with a command: `agents sandbox exec {name} -- COMMAND`"
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
