//! `token`, `audit` and `server`: who may call a server, what was done, and which server this command line uses.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Token {
    /// Make a token; its secret is shown once
    #[command(
        after_help = "Roles on a namespace, each with what those before it may: viewer (look), editor (make, change,
run), admin (remove, and decide what runs unasked), owner. `*` is every namespace but `local`,
which never leaves the machine. Only a hash of the secret is stored.

Examples:
  agents token create ci --grant acme=editor --expires 30d
  agents token create watcher --grant '*=viewer' --scope sessions --scope events"
    )]
    Create(TokenCreate),
    /// List tokens
    List {
        /// Those that were revoked too
        #[arg(long)]
        all: bool,
    },
    /// Revoke a token for ever
    Revoke {
        /// The token: its name or its id
        #[arg(value_name = "TOKEN")]
        token: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct TokenCreate {
    /// What to call it, and who its caller is in what is written down
    pub(crate) name: String,
    /// A role on a namespace, such as acme=editor; may be repeated
    #[arg(long, value_name = "NAMESPACE=ROLE", required = true)]
    pub(crate) grant: Vec<String>,
    /// What it may be used for: sessions, plans, registry, events, tasks, server; everything when not given
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Vec<String>,
    /// When it ends: after a time such as 30d, 12h or 90m, or at a time (RFC 3339)
    #[arg(long, value_name = "TIME")]
    pub(crate) expires: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Audit {
    /// List who did what, the newest first
    #[command(after_help = "Examples:
  agents audit list --kind access_denied --limit 20
  agents audit list --identity ci --since 2026-01-01T00:00:00Z")]
    List(AuditList),
    /// Verify that every entry is as it was written
    #[command(
        after_help = "Each entry carries the hash of the one before. Who notes the hash of the last one elsewhere
can tell later, with --expect-head, that the end was not cut off.

Examples:
  agents audit verify
  agents audit verify --expect-head 3f0c…"
    )]
    Verify {
        /// The hash that the last entry must have
        #[arg(long, value_name = "HASH")]
        expect_head: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AuditList {
    /// Only of this kind, such as plan_applied or access_denied
    #[arg(long)]
    pub(crate) kind: Option<String>,
    /// Only by this person or token
    #[arg(long)]
    pub(crate) identity: Option<String>,
    /// Only about this
    #[arg(long)]
    pub(crate) subject: Option<String>,
    /// Only at or after this time (RFC 3339)
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) limit: u64,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Server {
    /// Send commands to a server from now on
    #[command(
        after_help = "Nothing is stored unless the server answers and takes the token. The token is kept in a file
of the home folder that only you can read. With --local a command runs on this machine.

Examples:
  agents server connect https://agents.example.org --token ca_…
  agents server connect http://127.0.0.1:8420 --token ca_… --namespace acme"
    )]
    Connect(ServerConnect),
    /// Run commands on this machine again
    Disconnect,
    /// Show whether a server is used, whether it answers, and who one is there
    Status,
}

#[derive(Debug, Args)]
pub(crate) struct ServerConnect {
    /// The address of the server
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// The secret of a token; the variable CLEVERAGENTS_SERVER_TOKEN when not given
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// The namespace of names without one
    #[arg(long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// Do not check the certificate of the server
    #[arg(long)]
    pub(crate) no_tls_verify: bool,
}
