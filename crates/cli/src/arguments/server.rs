//! `token`, `audit` and `server`.

use clap::{Args, Subcommand};

use super::Rehearsal;

#[derive(Debug, Subcommand)]
pub(crate) enum Token {
    /// Create a token; its secret is shown once
    #[command(
        after_help = "Roles on a namespace, each including the ones before it: viewer (read), editor (create, change,
run), admin (remove, and decide what runs without approval), owner. `*` is every namespace except `local`,
which remote callers cannot access. Only a hash of the secret is stored.

Examples:
  agents token create ci --grant acme=editor --expires 30d
  agents token create watcher --grant '*=viewer' --scope sessions --scope events"
    )]
    Create(TokenCreate),
    /// List tokens
    #[command(after_help = "Examples:
  agents token list
  agents token list --all")]
    List {
        /// Also list revoked tokens
        #[arg(long)]
        all: bool,
    },
    /// Revoke a token permanently
    #[command(after_help = "Examples:
  agents token revoke ci --dry-run
  agents token revoke ci")]
    Revoke {
        /// Token: name or id
        #[arg(value_name = "TOKEN")]
        token: String,
        #[command(flatten)]
        rehearsal: Rehearsal,
    },
}

#[derive(Debug, Args)]
pub(crate) struct TokenCreate {
    /// Name of the token, and of its caller in the audit log
    pub(crate) name: String,
    /// Role on a namespace, such as acme=editor; may be repeated
    #[arg(long, value_name = "NAMESPACE=ROLE", required = true)]
    pub(crate) grant: Vec<String>,
    /// Scope: sessions, plans, registry, events, tasks or server; all when not given; may be
    /// repeated
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Vec<String>,
    /// Expiry: a duration such as 30d, 12h or 90m, or a time (RFC 3339)
    #[arg(long, value_name = "TIME")]
    pub(crate) expires: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Audit {
    /// List audit entries, newest first
    #[command(after_help = "Examples:
  agents audit list --kind access_denied --limit 20
  agents audit list --identity ci --since 2026-01-01T00:00:00Z")]
    List(AuditList),
    /// Verify that no audit entry was changed
    #[command(
        after_help = "Each entry contains the hash of the previous one. Store the hash of the last entry elsewhere
and pass it to --expect-head later to detect removed entries.

Examples:
  agents audit verify
  agents audit verify --expect-head 3f0c…"
    )]
    Verify {
        /// Expected hash of the last entry
        #[arg(long, value_name = "HASH")]
        expect_head: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AuditList {
    /// Only entries of this kind, such as plan_applied or access_denied
    #[arg(long)]
    pub(crate) kind: Option<String>,
    /// Only entries of this user or token
    #[arg(long)]
    pub(crate) identity: Option<String>,
    /// Only entries about this object
    #[arg(long)]
    pub(crate) subject: Option<String>,
    /// Only entries at or after this time (RFC 3339)
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Maximum number of results
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) limit: u64,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Server {
    /// Connect this command line to a server
    #[command(
        after_help = "Stores nothing unless the server responds and accepts the token. The token is stored in the home
folder, in a file that only you can read. --local runs a command on this machine.

Examples:
  agents server connect https://agents.example.org --token ca_…
  agents server connect http://127.0.0.1:8420 --token ca_… --namespace acme"
    )]
    Connect(ServerConnect),
    /// Disconnect: run commands on this machine again
    Disconnect,
    /// Show the connected server, whether it responds, and your identity
    Status,
}

#[derive(Debug, Args)]
pub(crate) struct ServerConnect {
    /// URL of the server
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// Secret of a token; the variable CLEVERAGENTS_SERVER_TOKEN when not given
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// Namespace to assume for names without one
    #[arg(long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// Do not check the certificate of the server
    #[arg(long)]
    pub(crate) no_tls_verify: bool,
}
