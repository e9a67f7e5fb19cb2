//! [`GateError`]: something behind a port broke. What a model does wrong is never one.

use cleveragents_domain::{Code, Diagnose, ToolInvocationId};
use serde_json::Value;

use crate::name::ToolName;
use crate::ports::PortError;

/// Something that broke while a call was handled; not the doing of the model.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// The call did not run.
    #[error("the call of `{tool}` did not run: {action} failed")]
    Before {
        /// The tool as it was named.
        tool: String,
        /// What was being done.
        action: &'static str,
        /// What broke.
        #[source]
        source: PortError,
    },
    /// The call ran, and what came of it could not be stored: its row says that it is still running.
    #[error("`{tool}` ran, and {action} failed; look at what it did before calling it again")]
    After {
        /// The tool.
        tool: ToolName,
        /// Its row.
        invocation: ToolInvocationId,
        /// What was being done.
        action: &'static str,
        /// What broke.
        #[source]
        source: PortError,
    },
}

impl Diagnose for GateError {
    fn code(&self) -> Code {
        match self {
            Self::Before { source, .. } | Self::After { source, .. } => source.code(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Before { source, .. } | Self::After { source, .. } => source.hint(),
        }
    }

    fn details(&self) -> Value {
        match self {
            Self::Before { source, .. } | Self::After { source, .. } => source.details(),
        }
    }
}
