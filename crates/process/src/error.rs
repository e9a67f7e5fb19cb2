//! [`ProcessError`]: a command could not be run. A command that ran and failed is not an error: its result has an
//! [`Ending`](crate::Ending).

use cleveragents_domain::{Code, Diagnose, Hint, hint};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A command could not be run.
#[derive(Debug, Error)]
pub enum ProcessError {
    /// The program does not exist.
    #[error("program `{}` was not found", program.display())]
    ProgramNotFound {
        /// Program as given.
        program: OsString,
    },
    /// A directory that the command needs does not exist.
    #[error("folder `{}` for the command cannot be used", folder.display())]
    FolderMissing {
        /// Path of the directory.
        folder: PathBuf,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// This machine cannot confine the command, and the policy requires confinement.
    #[error("command `{}` cannot be confined here and was not run", program.display())]
    ConfinementUnavailable {
        /// Program as given.
        program: OsString,
        /// Missing layers with the reasons, one entry per layer.
        missing: Vec<String>,
    },
    /// The command could not be started.
    #[error("command `{}` cannot be started: {step}", program.display())]
    CannotStart {
        /// Program as given.
        program: OsString,
        /// Step that failed.
        step: String,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The process that supervised the command disappeared.
    #[error("the supervisor of command `{}` was lost, and the command was killed", program.display())]
    SupervisorLost {
        /// Program as given.
        program: OsString,
    },
    /// The policy is contradictory.
    #[error("the confinement of command `{}` is invalid: {reason}", program.display())]
    InvalidPolicy {
        /// Program as given.
        program: OsString,
        /// Description of the contradiction.
        reason: String,
    },
    /// The owner has the maximum number of running background commands.
    #[error("{most} background commands run already, the maximum; the command was not started")]
    TooManyBackgroundCommands {
        /// Maximum number.
        most: usize,
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
            Self::TooManyBackgroundCommands { .. } => Code::TooManyBackgroundCommands,
        }
    }

    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::ProgramNotFound { program } => {
                hint!("install `{}`, or give its path", program.display())
            }
            Self::FolderMissing { .. } => "create the folder, or name another one".into(),
            Self::ConfinementUnavailable { missing, .. } => hint!(
                "run it on Linux 6.2 or newer with Landlock, or where user namespaces are allowed \
                 ({})",
                missing.join("; ")
            ),
            Self::CannotStart { .. } => {
                "check that the program can be run from a shell in the same folder".into()
            }
            Self::SupervisorLost { .. } => {
                "repeat the command; if memory ran out, the system log has an entry".into()
            }
            Self::InvalidPolicy { .. } => {
                "name folders that exist, and a TMPDIR beneath one of them".into()
            }
            Self::TooManyBackgroundCommands { .. } => {
                "stop one of them, or wait until one has ended".into()
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
            Self::TooManyBackgroundCommands { most } => json!({ "most": most }),
        }
    }
}
