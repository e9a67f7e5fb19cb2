//! The keys of server mode: how `agents serve` is set up, and which server commands are sent to.

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
    /// Where a server listens.
    SERVE_HOST = "serve.host", "CLEVERAGENTS_SERVE_HOST", Kind::Host, Fallback::Text("127.0.0.1"),
        "The address at which `agents serve` listens";
    /// The port at which a server listens.
    SERVE_PORT = "serve.port", "CLEVERAGENTS_SERVE_PORT", number(0, 65_535), Fallback::Integer(8420),
        "The port at which `agents serve` listens; 0 takes a free one";
    /// The address under which others reach it.
    SERVE_PUBLIC_URL = "serve.public-url", "CLEVERAGENTS_SERVE_PUBLIC_URL", Kind::Web, Fallback::Automatic,
        "The address under which others reach the server; where it listens when not set";
    /// The certificate.
    SERVE_TLS_CERT = "serve.tls-cert", "CLEVERAGENTS_SERVE_TLS_CERT", Kind::File, Fallback::Automatic,
        "The file with the certificate of the server in PEM; without one it speaks plain HTTP";
    /// Its key.
    SERVE_TLS_KEY = "serve.tls-key", "CLEVERAGENTS_SERVE_TLS_KEY", Kind::File, Fallback::Automatic,
        "The file with the key of the certificate in PEM";
    /// The most bytes of a body.
    SERVE_MAX_BODY_BYTES = "serve.max-body-bytes", "CLEVERAGENTS_SERVE_MAX_BODY_BYTES",
        number(1, 1 << 30), Fallback::Integer(10 << 20), "The largest body of a request, in bytes";
    /// How many requests a caller may make.
    SERVE_RATE = "serve.rate", "CLEVERAGENTS_SERVE_RATE", number(0, 10_000_000), Fallback::Integer(50_000),
        "How many requests a second one caller may make, twice as many in a burst; 0 for any number";
    /// The most connections.
    SERVE_MAX_CONNECTIONS = "serve.max-connections", "CLEVERAGENTS_SERVE_MAX_CONNECTIONS",
        number(1, 1_000_000), Fallback::Integer(4_096), "The most connections of callers at a time";
    /// The most connections of one address.
    SERVE_MAX_CONNECTIONS_PER_ADDRESS = "serve.max-connections-per-address",
        "CLEVERAGENTS_SERVE_MAX_CONNECTIONS_PER_ADDRESS", number(0, 1_000_000), Fallback::Integer(0),
        "The most connections from one address at a time; 0 for half of all";
    /// Where the log goes.
    SERVE_LOG_FILE = "serve.log-file", "CLEVERAGENTS_SERVE_LOG_FILE", Kind::File, Fallback::Automatic,
        "File to which the log of a server is added, instead of `log.file`";
    /// How much runs at a time.
    SERVE_MAX_RUNNING = "serve.max-running", "CLEVERAGENTS_SERVE_MAX_RUNNING", number(1, 1_024),
        Fallback::Integer(64), "How many turns, plans and operations a server runs at a time; others wait";
    /// How long an ending server waits.
    SERVE_DRAIN_SECONDS = "serve.drain-seconds", "CLEVERAGENTS_SERVE_DRAIN_SECONDS", number(0, 86_400),
        Fallback::Integer(30), "How long a server that is told to end waits for what it has begun, in seconds";
    /// Whether private addresses may be called.
    SERVE_ALLOW_PRIVATE = "serve.allow-private-addresses", "CLEVERAGENTS_SERVE_ALLOW_PRIVATE_ADDRESSES",
        Kind::Flag, Fallback::Automatic, "Whether a server may call addresses of private networks for its callers";
    /// Where traces are told.
    TELEMETRY_OTLP_ENDPOINT = "telemetry.otlp-endpoint", "CLEVERAGENTS_TELEMETRY_OTLP_ENDPOINT", Kind::Web,
        Fallback::Automatic, "The collector to which a server sends traces (OTLP over HTTP); none when not set";
    /// Whether remote agents may be near.
    A2A_ALLOW_PRIVATE = "a2a.allow-private-addresses", "CLEVERAGENTS_A2A_ALLOW_PRIVATE_ADDRESSES", Kind::Flag,
        Fallback::Automatic, "Whether remote agents may be on this machine or in a private network";
    /// The server that commands are sent to.
    SERVER_URL = "server.url", "CLEVERAGENTS_SERVER_URL", Kind::Web, Fallback::Automatic,
        "The server that commands are sent to; set by `agents server connect`";
    /// The namespace that is used there.
    SERVER_NAMESPACE = "server.namespace", "CLEVERAGENTS_SERVER_NAMESPACE", Kind::Namespace, Fallback::Automatic,
        "The namespace on the server of names without one; set by `agents server connect`";
    /// Whether its certificate is checked.
    SERVER_TLS_VERIFY = "server.tls-verify", "CLEVERAGENTS_SERVER_TLS_VERIFY", Kind::Flag, Fallback::Automatic,
        "Whether the certificate of the server is checked; it is when not set";
}
