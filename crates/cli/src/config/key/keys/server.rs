//! The keys of server mode: settings of `agents serve`, and the server that commands are sent to.

use super::{Fallback, Key, Kind, Scope};

macro_rules! keys {
    ($($(#[$about:meta])+ $constant:ident = $name:literal, $variable:literal, $kind:expr, $default:expr, $description:literal;)+) => {$(
        $(#[$about])+
        pub static $constant: Key = Key {
            name: $name,
            kind: $kind,
            default: $default,
            variable: $variable,
            scope: Scope::Person,
            description: $description,
        };
    )+};
}

const fn number(minimum: u64, maximum: u64) -> Kind {
    Kind::Integer { minimum, maximum }
}

keys! {
    /// IP address that a server listens on.
    SERVE_HOST = "serve.host", "CLEVERAGENTS_SERVE_HOST", Kind::Host, Fallback::Text("127.0.0.1"),
        "IP address that `agents serve` listens on";
    /// Port that a server listens on.
    SERVE_PORT = "serve.port", "CLEVERAGENTS_SERVE_PORT", number(0, 65_535), Fallback::Integer(8420),
        "Port that `agents serve` listens on; 0 for any free port";
    /// URL under which clients reach the server.
    SERVE_PUBLIC_URL = "serve.public-url", "CLEVERAGENTS_SERVE_PUBLIC_URL", Kind::Web, Fallback::Automatic,
        "Public URL of the server; its listening address when not set";
    /// Path of the TLS certificate.
    SERVE_TLS_CERT = "serve.tls-cert", "CLEVERAGENTS_SERVE_TLS_CERT", Kind::File, Fallback::Automatic,
        "TLS certificate file in PEM; plain HTTP when not set";
    /// Path of the TLS key.
    SERVE_TLS_KEY = "serve.tls-key", "CLEVERAGENTS_SERVE_TLS_KEY", Kind::File, Fallback::Automatic,
        "Key file of the TLS certificate in PEM";
    /// Maximum size of a request body, in bytes.
    SERVE_MAX_BODY_BYTES = "serve.max-body-bytes", "CLEVERAGENTS_SERVE_MAX_BODY_BYTES",
        number(1, 1 << 30), Fallback::Integer(10 << 20), "Maximum size of a request body, in bytes";
    /// Maximum number of requests of one caller per second.
    SERVE_RATE = "serve.rate", "CLEVERAGENTS_SERVE_RATE", number(0, 10_000_000), Fallback::Integer(50_000),
        "Maximum number of requests per second of one caller, twice as many in a burst; 0 for no limit";
    /// Maximum number of connections.
    SERVE_MAX_CONNECTIONS = "serve.max-connections", "CLEVERAGENTS_SERVE_MAX_CONNECTIONS",
        number(1, 1_000_000), Fallback::Integer(4_096), "Maximum number of connections";
    /// Maximum number of connections from one address.
    SERVE_MAX_CONNECTIONS_PER_ADDRESS = "serve.max-connections-per-address",
        "CLEVERAGENTS_SERVE_MAX_CONNECTIONS_PER_ADDRESS", number(0, 1_000_000), Fallback::Integer(0),
        "Maximum number of connections from one address; 0 for half of all";
    /// Path of the server's log file.
    SERVE_LOG_FILE = "serve.log-file", "CLEVERAGENTS_SERVE_LOG_FILE", Kind::File, Fallback::Automatic,
        "Log file of a server, instead of `log.file`";
    /// Maximum number of concurrent runs.
    SERVE_MAX_RUNNING = "serve.max-running", "CLEVERAGENTS_SERVE_MAX_RUNNING", number(1, 1_024),
        Fallback::Integer(64), "Maximum number of concurrent turns, plans and operations of a server; others wait";
    /// Maximum time that a stopping server waits for running work, in seconds.
    SERVE_DRAIN_SECONDS = "serve.drain-seconds", "CLEVERAGENTS_SERVE_DRAIN_SECONDS", number(0, 86_400),
        Fallback::Integer(30), "Maximum wait for running work when a server stops, in seconds";
    /// Allows outbound calls to private addresses.
    SERVE_ALLOW_PRIVATE = "serve.allow-private-addresses", "CLEVERAGENTS_SERVE_ALLOW_PRIVATE_ADDRESSES",
        Kind::Flag, Fallback::Automatic, "Whether a server may send requests to private network addresses on behalf of callers";
    /// Endpoint of the trace collector.
    TELEMETRY_OTLP_ENDPOINT = "telemetry.otlp-endpoint", "CLEVERAGENTS_TELEMETRY_OTLP_ENDPOINT", Kind::Web,
        Fallback::Automatic, "OTLP/HTTP collector that receives the traces of a server; none when not set";
    /// Allows remote agents at private addresses.
    A2A_ALLOW_PRIVATE = "a2a.allow-private-addresses", "CLEVERAGENTS_A2A_ALLOW_PRIVATE_ADDRESSES", Kind::Flag,
        Fallback::Automatic, "Whether remote agents may be on this machine or in a private network";
    /// URL of the server that commands are sent to.
    SERVER_URL = "server.url", "CLEVERAGENTS_SERVER_URL", Kind::Web, Fallback::Automatic,
        "Server that runs commands; set by `agents server connect`";
    /// Default namespace on the connected server.
    SERVER_NAMESPACE = "server.namespace", "CLEVERAGENTS_SERVER_NAMESPACE", Kind::Namespace, Fallback::Automatic,
        "Namespace that the server assumes for names without one; set by `agents server connect`";
    /// Verifies the certificate of the connected server.
    SERVER_TLS_VERIFY = "server.tls-verify", "CLEVERAGENTS_SERVER_TLS_VERIFY", Kind::Flag, Fallback::Automatic,
        "Whether the certificate of the server is checked; true when not set";
}
