//! Settings of a server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Settings of a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// The address to listen at.
    pub address: SocketAddr,
    /// The public address for the agent card; `None` for the address that the server listens at.
    pub public_url: Option<String>,
    /// Accepts callers on this machine without a token.
    pub insecure_local: bool,
    /// Certificate and key, for TLS.
    pub tls: Option<Tls>,
    /// Maximum size of a request body in bytes.
    pub max_body_bytes: usize,
    /// Maximum size of a message in bytes.
    pub max_message_bytes: usize,
    /// Maximum size of all headers in bytes.
    pub max_header_bytes: usize,
    /// Timeout for reading the headers, and again for reading the body.
    pub request_timeout: Duration,
    /// Maximum number of open connections.
    pub max_connections: usize,
    /// Maximum number of open connections of one address; clients behind one proxy share it. 0 for half of all.
    pub max_connections_per_address: usize,
    /// Maximum number of requests per second and caller, twice as many in a burst; 0 for no limit.
    pub requests_per_second: u32,
    /// Maximum number of turns, plans and operations that run at the same time.
    pub max_running: usize,
    /// Maximum number of turns, plans and operations that one caller may have waiting.
    pub max_waiting: usize,
    /// Allows requests to private networks on behalf of callers, such as for push notifications.
    pub allow_private_addresses: bool,
    /// Interval at which idle event streams get a keep-alive and their tokens are checked again.
    pub keep_alive: Duration,
    /// Answers A2A tasks with the built-in actor that the A2A conformance kit expects, and selects the capabilities on
    /// the agent card.
    pub conformance: Option<Conformance>,
    /// The actor of A2A tasks that name no actor; `None` for the default actor.
    pub actor: Option<String>,
    /// Maximum wait for running work when the server stops.
    pub drain: Duration,
}

/// Paths of the certificate and its key, in PEM.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The certificate, followed by its chain.
    pub certificates: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], 8420)),
            public_url: None,
            insecure_local: false,
            tls: None,
            max_body_bytes: 10 << 20,
            max_message_bytes: cleveragents_domain::DEFAULT_MAX_CONTENT_BYTES,
            max_header_bytes: 32 << 10,
            request_timeout: Duration::from_secs(20),
            max_connections: 4_096,
            max_connections_per_address: 0,
            requests_per_second: 50_000,
            max_running: 64,
            max_waiting: 1_024,
            allow_private_addresses: false,
            keep_alive: Duration::from_secs(15),
            conformance: None,
            actor: None,
            drain: Duration::from_secs(30),
        }
    }
}

/// The capabilities that the agent advertises to the A2A conformance kit. The agent rejects requests that need other
/// capabilities, which the kit checks too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conformance {
    /// All capabilities.
    Full,
    /// No streams, push notifications or extended card.
    Minimal,
    /// Callers must support an extension.
    Extension,
}
