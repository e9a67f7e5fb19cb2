//! Why a command could not be run. How a command that did run ended is no error but an
//! [`Ending`](crate::Ending).

use cleveragents_domain::{Code, Diagnose};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A command that could not be run.
#[derive(Debug, Error)]
pub enum ProcessError {
    /// There is no such program.
    #[error("program `{}` was not found", program.display())]
    ProgramNotFound {
        /// The program as it was named.
        program: OsString,
    },
    /// A folder the command needs is not there.
    #[error("folder `{}` for the command cannot be used", folder.display())]
    FolderMissing {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// This machine cannot confine the command, and the policy says to refuse then.
    #[error("command `{}` cannot be confined here and was not run", program.display())]
    ConfinementUnavailable {
        /// The program as it was named.
        program: OsString,
        /// What is missing and why, one per layer.
        missing: Vec<String>,
    },
    /// The command could not be started.
    #[error("command `{}` cannot be started: {step}", program.display())]
    CannotStart {
        /// The program as it was named.
        program: OsString,
        /// What was tried.
        step: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The process that watched over the command vanished.
    #[error("the supervisor of command `{}` was lost, and the command was killed", program.display())]
    SupervisorLost {
        /// The program as it was named.
        program: OsString,
    },
    /// The policy contradicts itself.
    #[error("the confinement of command `{}` is wrong: {reason}", program.display())]
    InvalidPolicy {
        /// The program as it was named.
        program: OsString,
        /// The contradiction.
        reason: String,
    },
}

impl Diagnose for ProcessError {
    fn code(&self) -> Code {
        match self {
            Self::ProgramNotFound { .. } => Code::ProgramNotFound,
            Self::FolderMissing { .. } => Code::CommandFolder,
            Self::ConfinementUnavailable { .. } => Code::ConfinementUnavailable,
            Self::CannotStart { .. } => Code::CommandNotStarted,
            Self::SupervisorLost { .. } => Code::SupervisorLost,
            Self::InvalidPolicy { .. } => Code::InvalidPolicy,
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::ProgramNotFound { program } => {
                format!("install `{}`, or name it with its path", program.display())
            }
            Self::FolderMissing { .. } => "make the folder, or name another one".to_owned(),
            Self::ConfinementUnavailable { missing, .. } => format!(
                "run it on Linux 6.2 or newer with Landlock, or where user namespaces are allowed \
                 ({})",
                missing.join("; ")
            ),
            Self::CannotStart { .. } => {
                "check that the program can be run from a shell in the same folder".to_owned()
            }
            Self::SupervisorLost { .. } => {
                "repeat the command; the system log tells when memory ran out".to_owned()
            }
            Self::InvalidPolicy { .. } => {
                "name folders that exist, and a TMPDIR beneath one of them".to_owned()
            }
        })
    }

    fn details(&self) -> Value {
        match self {
            Self::ProgramNotFound { program } | Self::SupervisorLost { program } => {
                json!({ "program": program.to_string_lossy() })
            }
            Self::FolderMissing { folder, .. } => json!({ "folder": folder.to_string_lossy() }),
            Self::ConfinementUnavailable { program, missing } => {
                json!({ "program": program.to_string_lossy(), "missing": missing })
            }
            Self::CannotStart { program, step, .. } => {
                json!({ "program": program.to_string_lossy(), "step": step })
            }
            Self::InvalidPolicy { program, reason } => {
                json!({ "program": program.to_string_lossy(), "reason": reason })
            }
        }
    }
}
