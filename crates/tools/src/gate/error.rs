//! [`GateError`]: a port failed. Mistakes of the model are never a `GateError`.

use cleveragents_domain::{Code, Diagnose, Hint, ToolInvocationId};
use serde_json::Value;

use crate::name::ToolName;
use crate::ports::PortError;

/// A port failed while the gate handled a call; not caused by the model.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// A port failed before the call ran.
    #[error("the call of `{tool}` did not run: {action} failed")]
    Before {
        /// The tool, as the model named it.
        tool: String,
        /// The action that failed, such as "storing the record of the call".
        action: &'static str,
        #[source]
        source: PortError,
    },
    /// The call ran, but its outcome could not be stored: its record still has the state `running`.
    #[error("`{tool}` ran, but {action} failed; check its effects before calling it again")]
    After {
        /// The tool that ran.
        tool: ToolName,
        /// Id of the record of the call in the ledger.
        invocation: ToolInvocationId,
        /// The action that failed, such as "storing the record of the call".
        action: &'static str,
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

    fn hint(&self) -> Option<Hint> {
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
