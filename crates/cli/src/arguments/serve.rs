//! `serve`: options of the server.

use clap::{Args, ValueEnum};

use crate::config::{Error, Flags, keys};

#[derive(Debug, Args)]
#[command(
    after_help = "Options are also configuration keys, such as `serve.port`, except those that bypass
authentication or models (insecure-local, conformance).

Callers need a token: `agents token create NAME --grant NAMESPACE=ROLE`. With insecure-local,
programs on this machine need none and have all permissions; the server listens on loopback only.

The log goes to standard error, and with --log-file also to a file that is rotated daily. It has
failed requests and the causes of internal errors; with -v every request.

SIGTERM and Ctrl-C stop the server: it accepts no new work, and finishes running work or stores
its progress. With `--format json` one line contains url, address and pid.

Examples:
  agents token create ci --grant acme=editor
  agents serve
  agents serve --host 0.0.0.0 --tls-cert server.pem --tls-key server.key
  agents serve --insecure-local --port 0
  agents serve --log-format json --log-file /var/log/agents.log -v"
)]
pub(crate) struct Serve {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) host: Option<String>,
    /// Port to listen on, 0 for any free port
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<String>,
    /// Accept programs on this machine without a token
    #[arg(long)]
    pub(crate) insecure_local: bool,
    /// Public URL of the server
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<String>,
    /// TLS certificate, in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<String>,
    /// Key of the certificate, in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<String>,
    /// Maximum size of a request body
    #[arg(long, value_name = "BYTES")]
    pub(crate) max_body_bytes: Option<String>,
    /// Maximum number of requests per second of one caller, 0 for no limit
    #[arg(long, value_name = "N")]
    pub(crate) rate: Option<String>,
    /// Maximum number of connections
    #[arg(long, value_name = "N")]
    pub(crate) max_connections: Option<String>,
    /// Maximum number of connections from one address, 0 for half of all
    #[arg(long, value_name = "N")]
    pub(crate) max_connections_per_address: Option<String>,
    /// Maximum number of concurrent turns, plans and operations
    #[arg(long, value_name = "N")]
    pub(crate) max_running: Option<String>,
    /// Maximum wait for running work at shutdown
    #[arg(long, value_name = "SECONDS")]
    pub(crate) drain_seconds: Option<String>,
    /// Allow requests to private network addresses on behalf of callers
    #[arg(long)]
    pub(crate) allow_private_addresses: bool,
    /// Send traces to this OTLP/HTTP collector
    #[arg(long, value_name = "URL")]
    pub(crate) otlp_endpoint: Option<String>,
    /// Actor that answers A2A tasks; `builtin/echo` repeats the message
    #[arg(long, value_name = "NAME")]
    pub(crate) actor: Option<String>,
    /// Answer A2A tasks as the A2A conformance kit expects, without a model
    #[arg(long, value_name = "PROFILE", num_args = 0..=1, default_missing_value = "full")]
    pub(crate) conformance: Option<ConformanceProfile>,
}

/// Capabilities that the agent card declares to the conformance kit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConformanceProfile {
    /// All capabilities
    Full,
    /// No streaming, push notifications or extended card
    Minimal,
    /// An extension that callers must support
    Extension,
}

impl Serve {
    /// Sets the configuration keys of the given options.
    pub(crate) fn flags(&self, flags: Flags) -> Result<Flags, Error> {
        let allows = self.allow_private_addresses.then_some("true");
        flags
            .with(&keys::SERVE_HOST, "--host", self.host.as_deref())?
            .with(&keys::SERVE_PORT, "--port", self.port.as_deref())?
            .with(
                &keys::SERVE_PUBLIC_URL,
                "--public-url",
                self.public_url.as_deref(),
            )?
            .with(
                &keys::SERVE_TLS_CERT,
                "--tls-cert",
                self.tls_cert.as_deref(),
            )?
            .with(&keys::SERVE_TLS_KEY, "--tls-key", self.tls_key.as_deref())?
            .with(
                &keys::SERVE_MAX_BODY_BYTES,
                "--max-body-bytes",
                self.max_body_bytes.as_deref(),
            )?
            .with(&keys::SERVE_RATE, "--rate", self.rate.as_deref())?
            .with(
                &keys::SERVE_MAX_CONNECTIONS,
                "--max-connections",
                self.max_connections.as_deref(),
            )?
            .with(
                &keys::SERVE_MAX_CONNECTIONS_PER_ADDRESS,
                "--max-connections-per-address",
                self.max_connections_per_address.as_deref(),
            )?
            .with(
                &keys::SERVE_MAX_RUNNING,
                "--max-running",
                self.max_running.as_deref(),
            )?
            .with(
                &keys::SERVE_DRAIN_SECONDS,
                "--drain-seconds",
                self.drain_seconds.as_deref(),
            )?
            .with(
                &keys::SERVE_ALLOW_PRIVATE,
                "--allow-private-addresses",
                allows,
            )?
            .with(
                &keys::TELEMETRY_OTLP_ENDPOINT,
                "--otlp-endpoint",
                self.otlp_endpoint.as_deref(),
            )
    }
}
