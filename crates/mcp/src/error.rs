//! [`McpError`]: why a server could not do what it was asked for.

use cleveragents_domain::{Code, Diagnose};
use serde_json::{Value, json};

/// What a server does when it starts, in [`McpError::Timeout`].
pub(crate) const STARTING: &str = "come up";

/// Why a server could not do what it was asked for. Nothing in it is a secret of ours.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum McpError {
    /// There is no server of this name.
    #[error("there is no MCP server named `{0}`")]
    NotFound(String),
    /// There is one already.
    #[error("an MCP server named `{0}` exists already")]
    Exists(String),
    /// Its definition breaks a rule.
    #[error("the MCP server `{server}` cannot be used: {message}")]
    Invalid {
        /// The server.
        server: String,
        /// What is wrong.
        message: String,
        /// What to do.
        fix: String,
    },
    /// It does not come up, or went away.
    #[error("the MCP server `{server}` cannot be reached: {why}")]
    Unreachable {
        /// The server.
        server: String,
        /// What happened.
        why: String,
        /// The last it wrote to standard error.
        log: String,
    },
    /// Its program cannot be started, or does not speak the protocol.
    #[error(
        "the MCP server `{server}` cannot be started: {why}. It sees only declared folders ({sees})"
    )]
    Startup {
        /// The server.
        server: String,
        /// What happened.
        why: String,
        /// The last it wrote to standard error.
        log: String,
        /// The declared paths that it sees.
        sees: String,
    },
    /// It says what the protocol does not allow, or refuses what it offered.
    #[error("the MCP server `{server}` breaks the protocol: {why}")]
    Protocol {
        /// The server.
        server: String,
        /// What it did.
        why: String,
    },
    /// It answered with an error of its own.
    #[error("the MCP server `{server}` says: {message}")]
    Answered {
        /// The server.
        server: String,
        /// Its words.
        message: String,
    },
    /// It took too long.
    #[error("the MCP server `{server}` did not {what} within {seconds} seconds")]
    Timeout {
        /// The server.
        server: String,
        /// What it was to do.
        what: &'static str,
        /// How long it had.
        seconds: f64,
    },
    /// It wants to know who we are.
    #[error("the MCP server `{server}` wants to know who you are: {why}")]
    Authorization {
        /// The server.
        server: String,
        /// What it asks for.
        why: String,
        /// Its own words for it, from which a sign-in can begin.
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

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotFound(_) => "run `agents mcp list` to see what there is".to_owned(),
            Self::Exists(name) => format!("remove it first: `agents mcp remove {name}`"),
            Self::Invalid { fix, .. } => fix.clone(),
            Self::Startup { server, .. } => format!(
                "if it needs another folder, declare it: `agents mcp add {server} --update --read FOLDER`, or \
                 --write FOLDER; `agents mcp test {server}` tries it alone"
            ),
            Self::Timeout { server, what, .. } if *what == STARTING => format!(
                "`agents mcp show {server} --offline` lists the folders that it sees; \
                 `agents mcp test {server}` tries it alone"
            ),
            Self::Unreachable { server, .. } | Self::Timeout { server, .. } => {
                format!("try it alone: `agents mcp test {server}`")
            }
            Self::Protocol { server, .. } | Self::Answered { server, .. } => {
                format!("`agents mcp test {server}` shows what it says")
            }
            Self::Authorization { server, .. } => format!("run `agents mcp login {server}`"),
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
