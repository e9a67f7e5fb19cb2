//! [`McpError`]: errors of operations on servers.

use cleveragents_domain::{Code, Diagnose, Hint, Placeholder, hint, suggest};
use serde_json::{Value, json};

/// The operation name for starting a server, in [`McpError::Timeout`].
pub(crate) const STARTING: &str = "start";

/// An operation on a server failed. The messages contain no secrets of the definition.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum McpError {
    /// No server has this name.
    #[error("MCP server `{0}` does not exist")]
    NotFound(String),
    /// A server with this name already exists.
    #[error("MCP server `{0}` already exists")]
    Exists(String),
    /// The definition is invalid.
    #[error("the MCP server `{server}` cannot be used: {message}")]
    Invalid {
        /// Name of the server.
        server: String,
        /// Description of the problem.
        message: String,
        /// Suggested fix.
        fix: Hint,
    },
    /// The server cannot be reached, or the connection was lost.
    #[error("the MCP server `{server}` cannot be reached: {why}")]
    Unreachable {
        /// Name of the server.
        server: String,
        /// Description of the failure.
        why: String,
        /// The end of the program's standard error.
        log: String,
    },
    /// The program cannot be started, or does not implement the protocol.
    #[error(
        "the MCP server `{server}` cannot be started: {why}. It can access only declared folders ({sees})"
    )]
    Startup {
        /// Name of the server.
        server: String,
        /// Description of the failure.
        why: String,
        /// The end of the program's standard error.
        log: String,
        /// Declared paths that are visible to the program.
        sees: String,
    },
    /// The server violates the protocol, or rejects a feature it advertised.
    #[error("the MCP server `{server}` violates the protocol: {why}")]
    Protocol {
        /// Name of the server.
        server: String,
        /// Description of the violation.
        why: String,
    },
    /// The server returned an error.
    #[error("the MCP server `{server}` returned an error: {message}")]
    Answered {
        /// Name of the server.
        server: String,
        /// Message of the server.
        message: String,
    },
    /// The operation timed out.
    #[error("the MCP server `{server}` did not {what} within {seconds} seconds")]
    Timeout {
        /// Name of the server.
        server: String,
        /// Name of the operation.
        what: &'static str,
        /// Time limit in seconds.
        seconds: f64,
    },
    /// The server requires a sign-in.
    #[error("the MCP server `{server}` requires a sign-in: {why}")]
    Authorization {
        /// Name of the server.
        server: String,
        /// Description of the requirement.
        why: String,
        /// The server's authentication challenge, used to start a sign-in.
        challenge: Option<String>,
    },
}

impl Diagnose for McpError {
    fn code(&self) -> Code {
        match self {
            Self::NotFound(_) => Code::McpServerNotFound,
            Self::Exists(_) => Code::McpServerExists,
            Self::Invalid { .. } => Code::InvalidMcp,
            Self::Unreachable { .. } | Self::Startup { .. } => Code::McpUnreachable,
            Self::Protocol { .. } | Self::Answered { .. } => Code::McpProtocol,
            Self::Timeout { .. } => Code::McpTimeout,
            Self::Authorization { .. } => Code::McpAuthorization,
        }
    }

    fn hint(&self) -> Option<Hint> {
        Some(match self {
            Self::NotFound(_) => hint!("run {} to list all servers", suggest::mcp_list()),
            Self::Exists(name) => hint!("remove it first: {}", suggest::mcp_remove(name)),
            Self::Invalid { fix, .. } => fix.clone(),
            Self::Startup { server, .. } => hint!(
                "if it needs another folder, declare it: {}, or {}; {} tests it",
                suggest::mcp_add_read(server, Placeholder("FOLDER")),
                suggest::mcp_add_write(Placeholder("FOLDER")).only_arguments(),
                suggest::mcp_test(server)
            ),
            Self::Timeout { server, what, .. } if *what == STARTING => hint!(
                "{} lists the folders that it can access; {} tests it",
                suggest::mcp_show_offline(server),
                suggest::mcp_test(server)
            ),
            Self::Unreachable { server, .. } | Self::Timeout { server, .. } => {
                hint!("test it: {}", suggest::mcp_test(server))
            }
            Self::Protocol { server, .. } | Self::Answered { server, .. } => {
                hint!("{} shows its output", suggest::mcp_test(server))
            }
            Self::Authorization { server, .. } => hint!("run {}", suggest::mcp_login(server)),
        })
    }

    fn details(&self) -> Value {
        match self {
            Self::Unreachable { log, .. } if !log.is_empty() => json!({ "log": log }),
            Self::Startup { log, sees, .. } => json!({ "log": log, "sees": sees }),
            _ => Value::Null,
        }
    }
}
