//! `serve`: the options of a server.

use clap::{Args, ValueEnum};

use crate::config::{Error, Flags, keys};

#[derive(Debug, Args)]
#[command(
    after_help = "Options are also keys of the configuration, such as `serve.port`; those that let in
or stand in for somebody (insecure-local, conformance) are not.

Callers need a token: `agents token create NAME --grant NAMESPACE=ROLE`. With insecure-local,
programs on this machine need none and may do everything; the server listens on loopback only.

The log goes to standard error, and with --log-file also to a file that is rotated daily. It has
failed requests and the causes of internal errors; with -v every request.

SIGTERM and Ctrl-C end it: nothing new is begun, what was begun is finished or stored as far as
it came. With `--format json` one line says where it listens: url, address and pid.

Examples:
  agents token create ci --grant acme=editor
  agents serve
  agents serve --host 0.0.0.0 --tls-cert server.pem --tls-key server.key
  agents serve --insecure-local --port 0
  agents serve --log-format json --log-file /var/log/agents.log -v"
)]
pub(crate) struct Serve {
    /// The address to listen at
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) host: Option<String>,
    /// The port to listen at, 0 for a free one
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<String>,
    /// Let programs on this machine in without a token
    #[arg(long)]
    pub(crate) insecure_local: bool,
    /// The address under which others reach the server
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<String>,
    /// The certificate, in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<String>,
    /// The key of the certificate, in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<String>,
    /// The largest body of a request
    #[arg(long, value_name = "BYTES")]
    pub(crate) max_body_bytes: Option<String>,
    /// How many requests a second one caller may make, 0 for any number
    #[arg(long, value_name = "N")]
    pub(crate) rate: Option<String>,
    /// The most connections at a time
    #[arg(long, value_name = "N")]
    pub(crate) max_connections: Option<String>,
    /// Maximum number of connections from one address, 0 for half of all
    #[arg(long, value_name = "N")]
    pub(crate) max_connections_per_address: Option<String>,
    /// How many turns, plans and operations run at a time
    #[arg(long, value_name = "N")]
    pub(crate) max_running: Option<String>,
    /// How long to wait at the end for what was begun
    #[arg(long, value_name = "SECONDS")]
    pub(crate) drain_seconds: Option<String>,
    /// Let the server call addresses of private networks for its callers
    #[arg(long)]
    pub(crate) allow_private_addresses: bool,
    /// Tell traces to the collector at this address (OTLP over HTTP)
    #[arg(long, value_name = "URL")]
    pub(crate) otlp_endpoint: Option<String>,
    /// The actor that answers tasks of other agents; `builtin/echo` repeats what it is told
    #[arg(long, value_name = "NAME")]
    pub(crate) actor: Option<String>,
    /// Answer tasks of other agents as the conformance kit of A2A expects, without a model
    #[arg(long, value_name = "PROFILE", num_args = 0..=1, default_missing_value = "full")]
    pub(crate) conformance: Option<ConformanceProfile>,
}

/// What the agent says of itself to the conformance kit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConformanceProfile {
    /// Everything that it can do
    Full,
    /// Neither streams, push notifications nor an extended card
    Minimal,
    /// That callers must know an extension
    Extension,
}

impl Serve {
    /// What the command line says about keys of the configuration.
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
