//! How a server is set up.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// How a server is set up.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where it listens.
    pub address: SocketAddr,
    /// The address under which others reach it, for the agent card; `None` for the one it listens at.
    pub public_url: Option<String>,
    /// Whether callers on this machine need no token.
    pub insecure_local: bool,
    /// Certificate and key, for TLS.
    pub tls: Option<Tls>,
    /// The most bytes of a body.
    pub max_body_bytes: usize,
    /// The most bytes of a message.
    pub max_message_bytes: usize,
    /// The most bytes of all headers.
    pub max_header_bytes: usize,
    /// How long a caller may take to send its headers, and then its body.
    pub request_timeout: Duration,
    /// The most connections at a time.
    pub max_connections: usize,
    /// The most of them from one address; callers behind one proxy share it. 0 for half of all.
    pub max_connections_per_address: usize,
    /// How many requests a second one caller may make, twice as many in a burst; 0 for any number.
    pub requests_per_second: u32,
    /// How many turns, plans and operations run at a time.
    pub max_running: usize,
    /// How many of them one caller may have waiting.
    pub max_waiting: usize,
    /// Whether addresses of private networks may be called for others.
    pub allow_private_addresses: bool,
    /// How often a listener to whom nothing happens gets a sign of life, and is asked for its token again.
    pub keep_alive: Duration,
    /// Whether tasks of other agents are answered by the built-in actor that the conformance kit of A2A expects, and
    /// what the agent says that it can do.
    pub conformance: Option<Conformance>,
    /// The actor that answers tasks of other agents which name none; `None` for the usual one.
    pub actor: Option<String>,
    /// How long the server waits for what it has begun when it is told to end.
    pub drain: Duration,
}

/// Where the certificate and its key are, in PEM.
#[derive(Debug, Clone)]
pub struct Tls {
    /// The certificate, and those it was issued with.
    pub certificates: PathBuf,
    /// Its key.
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

/// What the agent that the conformance kit of A2A tries says of itself. What it does not say it refuses, as the kit
/// checks too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conformance {
    /// Everything that it can do.
    Full,
    /// Neither streams, push notifications nor an extended card.
    Minimal,
    /// That callers must know an extension.
    Extension,
}
