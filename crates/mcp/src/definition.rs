//! [`ServerDefinition`]: the connection settings of a server, the selection of its tools, and overrides
//! of the properties that the server declares for them.
//!
//! `${NAME}` stays unchanged in the texts. Values are inserted only when a connection is made
//! (`resolve.rs`). Values of `env` and `headers` are never printed.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Default idle time before a server is stopped.
const IDLE_SECONDS: f64 = 300.0;
/// Default timeout of a request.
const REQUEST_SECONDS: f64 = 120.0;
/// Default timeout of starting a server. Its first start may download packages.
const STARTUP_SECONDS: f64 = 60.0;

/// A value that may contain a secret: it is stored, but never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct HiddenText(String);

impl HiddenText {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the connection that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for HiddenText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[HIDDEN]")
    }
}

/// Transport to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// Standard input and output of a local program.
    Stdio,
    /// The legacy HTTP transport. Treated as `streamable-http`.
    Sse,
    /// Over HTTP.
    #[serde(alias = "http", alias = "streamable_http", alias = "streamableHttp")]
    StreamableHttp,
}

/// Protocol version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Protocol {
    /// The newest version that both sides support.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    /// The version that starts with `initialize`.
    #[serde(rename = "2025-11-25")]
    V2025,
    /// The version without an initialization handshake.
    #[serde(rename = "2026-07-28")]
    V2026,
}

/// Selection of a server's tools, by patterns with `*` and `?`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolFilter {
    /// Tools to include; all tools when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// Tools to exclude, even if `include` matches them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
}

impl ToolFilter {
    /// Returns whether a tool is selected. `tool` is the server's name for it.
    pub fn selects(&self, tool: &str) -> bool {
        let any = |patterns: &[String]| {
            patterns
                .iter()
                .any(|pattern| cleveragents_tools::matches_pattern(pattern, tool))
        };
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }
}

/// Overrides of the properties that a server declares for a tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolOverride {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// Whether the tool makes changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<bool>,
    /// Free text about what the tool may change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_scope: Option<Vec<String>>,
    /// Whether repeating a call has no further effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// Whether all changes of the tool are in the sandbox, so that a checkpoint can roll them back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpointable: Option<bool>,
    /// Whether the user must approve each call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_approval: Option<bool>,
    /// Timeout of one call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<f64>,
}

/// Authentication at a server over HTTP.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Auth {
    /// Sign-in through a browser.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth: Option<OAuth>,
}

/// Sign-in through a browser. All fields are optional: most servers provide the values themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OAuth {
    /// Client id, for servers where clients cannot register themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Client secret, best as `${NAME}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<HiddenText>,
    /// URL of a document that describes this client, for servers that accept it as an id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_metadata_url: Option<String>,
    /// Scopes to request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// Port on this machine that the browser is redirected to. Default: any free port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect_port: Option<u16>,
}

/// An MCP server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerDefinition {
    /// Name: a lowercase word, the namespace of its tools.
    pub name: String,
    /// Description for users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Transport. Default: derived from `command` or `url`.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "type")]
    pub transport: Option<Transport>,
    /// Program to start as the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Arguments of the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Environment variables of the program, in addition to a few inherited variables such as `PATH` and
    /// `HOME`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, HiddenText>,
    /// Working directory of the program, which the program may read. Default: the sandbox of its calls, or else its
    /// private home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Files and directories that the program may read in addition to system directories,
    /// toolchains, its private home and paths among its arguments: absolute, or starting with `~/`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// Directories that the program may read and write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<String>,
    /// Credential files and directories, such as `~/.aws`, that the program may read. A directory in `read`
    /// or `write` does not expose the credentials inside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty", alias = "readable")]
    pub credentials: Vec<String>,
    /// URL of a server over HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Headers of each HTTP request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, HiddenText>,
    /// Authentication over HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// Protocol version.
    #[serde(default)]
    pub protocol: Protocol,
    /// Selection of the server's tools.
    #[serde(default)]
    pub tool_filter: ToolFilter,
    /// Overrides of the server's tools, by name or pattern. An exact name takes precedence; otherwise the first
    /// matching pattern applies.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<String, ToolOverride>,
    /// Names of arguments that contain file paths, in addition to arguments recognised by their name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path_arguments: Vec<String>,
    /// Idle time after which the server is stopped; 0 for never.
    #[serde(default = "idle_seconds")]
    pub idle_timeout_seconds: f64,
    /// Timeout of a request.
    #[serde(default = "request_seconds")]
    pub timeout_seconds: f64,
    /// Timeout of starting the server.
    #[serde(default = "startup_seconds")]
    pub startup_timeout_seconds: f64,
    /// Whether to start the server only when it is needed.
    #[serde(default = "yes")]
    pub lazy_start: bool,
    /// Whether to restart the server after a crash.
    #[serde(default = "yes")]
    pub auto_restart: bool,
}

const fn idle_seconds() -> f64 {
    IDLE_SECONDS
}

const fn request_seconds() -> f64 {
    REQUEST_SECONDS
}

const fn startup_seconds() -> f64 {
    STARTUP_SECONDS
}

const fn yes() -> bool {
    true
}

impl ServerDefinition {
    /// Creates a server that is a local program.
    pub fn stdio(name: impl Into<String>, command: impl Into<String>, args: &[&str]) -> Self {
        Self {
            command: Some(command.into()),
            args: args.iter().map(|&text| text.to_owned()).collect(),
            ..Self::bare(name.into())
        }
    }

    /// Creates a server over HTTP.
    pub fn http(name: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            url: Some(url.into()),
            ..Self::bare(name.into())
        }
    }

    pub(crate) fn bare(name: String) -> Self {
        Self {
            name,
            description: None,
            transport: None,
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            cwd: None,
            read: Vec::new(),
            write: Vec::new(),
            credentials: Vec::new(),
            url: None,
            headers: BTreeMap::new(),
            auth: None,
            protocol: Protocol::Auto,
            tool_filter: ToolFilter::default(),
            overrides: BTreeMap::new(),
            path_arguments: Vec::new(),
            idle_timeout_seconds: IDLE_SECONDS,
            timeout_seconds: REQUEST_SECONDS,
            startup_timeout_seconds: STARTUP_SECONDS,
            lazy_start: true,
            auto_restart: true,
        }
    }

    pub fn transport(&self) -> Transport {
        match self.transport {
            Some(transport) => transport,
            None if self.command.is_some() => Transport::Stdio,
            None => Transport::StreamableHttp,
        }
    }

    /// Timeout of a request.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.timeout_seconds)
    }

    /// Timeout of starting the server.
    pub fn startup_timeout(&self) -> Duration {
        Duration::from_secs_f64(self.startup_timeout_seconds)
    }

    /// Idle time after which the server is stopped; `None` for never.
    pub fn idle_timeout(&self) -> Option<Duration> {
        (self.idle_timeout_seconds > 0.0)
            .then(|| Duration::from_secs_f64(self.idle_timeout_seconds))
    }

    /// Returns the overrides of a tool. `tool` is the server's name for it.
    pub fn override_for(&self, tool: &str) -> ToolOverride {
        let exact = self.overrides.get(tool);
        let by_pattern = || {
            self.overrides
                .iter()
                .find(|(pattern, _)| cleveragents_tools::matches_pattern(pattern, tool))
                .map(|(_, tool_override)| tool_override)
        };
        exact.or_else(by_pattern).cloned().unwrap_or_default()
    }
}
