//! [`ServerDefinition`]: what is written down about a server: how it is reached, which of its tools
//! are wanted, and what we know better than the server does.
//!
//! `${NAME}` stays in the texts as it is; values are put in only when a connection is made
//! ([`expand`](crate::expand)). Values of `env` and `headers` are never printed.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How long a server is kept without work.
const IDLE_SECONDS: f64 = 300.0;
/// How long one request may take.
const REQUEST_SECONDS: f64 = 120.0;
/// How long a server may take to come up. The first start may have to download it.
const STARTUP_SECONDS: f64 = 60.0;

/// A value that may be a secret or lead to one: it is stored, and never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Hidden(String);

impl Hidden {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the connection that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[HIDDEN]")
    }
}

/// How a server is talked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// Through the standard streams of a program that we start.
    Stdio,
    /// The transport over HTTP of old. Talked to as `streamable-http`.
    Sse,
    /// Over HTTP.
    #[serde(alias = "http", alias = "streamable_http", alias = "streamableHttp")]
    StreamableHttp,
}

/// Which version of the protocol is spoken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Protocol {
    /// The newest that the server knows too.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    /// The one that begins with `initialize`.
    #[serde(rename = "2025-11-25")]
    V2025,
    /// The one without a beginning.
    #[serde(rename = "2026-07-28")]
    V2026,
}

/// Which tools of a server are wanted, by patterns with `*` and `?`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolFilter {
    /// Only these; all when it is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// Not these, whatever `include` says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
}

impl ToolFilter {
    /// Whether a tool is wanted, by what the server calls it.
    pub fn wants(&self, tool: &str) -> bool {
        let any = |patterns: &[String]| {
            patterns
                .iter()
                .any(|pattern| cleveragents_tools::fits(pattern, tool))
        };
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }
}

/// What we know of a tool better than its server says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolOverride {
    /// It only looks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// It changes things.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writes: Option<bool>,
    /// What it may change, in your own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_scope: Option<Vec<String>>,
    /// Calling it twice does the same as once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// All it changes lies in the sandbox, so that a checkpoint takes it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpointable: Option<bool>,
    /// A person must agree to each call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needs_approval: Option<bool>,
    /// How long one call may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<f64>,
}

/// How we prove to a server over HTTP who we are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Auth {
    /// By signing in through a browser.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth: Option<OAuth>,
}

/// Signing in through a browser. Everything may be left out: most servers tell it themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OAuth {
    /// The client's id, for servers at which clients cannot register by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// The client's secret, best as `${NAME}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<Hidden>,
    /// The address of a document that describes this client, for servers that take it for an id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_metadata_url: Option<String>,
    /// What to ask for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// The port on this machine that the browser comes back to; any free one when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect_port: Option<u16>,
}

/// A server that speaks the Model Context Protocol.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerDefinition {
    /// What it is called here: a word in lower case, the namespace of its tools.
    pub name: String,
    /// What it is for, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How it is talked to; told by `command` or `url` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "type")]
    pub transport: Option<Transport>,
    /// The program that is the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Variables for the program, besides a few of ours such as `PATH` and `HOME`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, Hidden>,
    /// The folder it starts in, which it may read. Without it: the sandbox of its calls, else its
    /// private home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Files and folders that the program may read besides system folders, toolchains, its private
    /// home and paths among its arguments: absolute, or beginning with `~/`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// Folders that it may read and write.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<String>,
    /// Credential files and folders, such as `~/.aws`, that it may read. No folder of `read` or
    /// `write` shows those in it.
    #[serde(default, skip_serializing_if = "Vec::is_empty", alias = "readable")]
    pub credentials: Vec<String>,
    /// The address of a server over HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Headers for each request to it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Hidden>,
    /// How we prove who we are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// Which version of the protocol is spoken.
    #[serde(default)]
    pub protocol: Protocol,
    /// Which of its tools are wanted.
    #[serde(default)]
    pub tool_filter: ToolFilter,
    /// What we know of its tools better, by their names or by patterns. The first that fits counts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub overrides: BTreeMap<String, ToolOverride>,
    /// Arguments that name files, beside those whose names say so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub path_arguments: Vec<String>,
    /// After so long without work the server is stopped; 0 for never.
    #[serde(default = "idle_seconds")]
    pub idle_timeout_seconds: f64,
    /// How long one request may take.
    #[serde(default = "request_seconds")]
    pub timeout_seconds: f64,
    /// How long it may take to come up.
    #[serde(default = "startup_seconds")]
    pub startup_timeout_seconds: f64,
    /// Whether it is started only when it is needed.
    #[serde(default = "yes")]
    pub lazy_start: bool,
    /// Whether it is started again after it crashed.
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
    /// A server that is a program.
    pub fn stdio(name: impl Into<String>, command: impl Into<String>, args: &[&str]) -> Self {
        Self {
            command: Some(command.into()),
            args: args.iter().map(|&text| text.to_owned()).collect(),
            ..Self::bare(name.into())
        }
    }

    /// A server over HTTP.
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

    /// How it is talked to.
    pub fn transport(&self) -> Transport {
        match self.transport {
            Some(transport) => transport,
            None if self.command.is_some() => Transport::Stdio,
            None => Transport::StreamableHttp,
        }
    }

    /// How long one request may take.
    pub fn timeout(&self) -> Duration {
        Duration::from_secs_f64(self.timeout_seconds)
    }

    /// How long it may take to come up.
    pub fn startup_timeout(&self) -> Duration {
        Duration::from_secs_f64(self.startup_timeout_seconds)
    }

    /// After how long without work it is stopped; `None` for never.
    pub fn idle_timeout(&self) -> Option<Duration> {
        (self.idle_timeout_seconds > 0.0)
            .then(|| Duration::from_secs_f64(self.idle_timeout_seconds))
    }

    /// What we know better of a tool, by what the server calls it.
    pub fn override_for(&self, tool: &str) -> ToolOverride {
        let exact = self.overrides.get(tool);
        let by_pattern = || {
            self.overrides
                .iter()
                .find(|(pattern, _)| cleveragents_tools::fits(pattern, tool))
                .map(|(_, known)| known)
        };
        exact.or_else(by_pattern).cloned().unwrap_or_default()
    }
}
