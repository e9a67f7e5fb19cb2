//! `setup`, `init`, `diagnostics`, `db` and `cleanup`.

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(
    after_help = "Without --force, existing files stay unchanged. With --force, the current database and
configuration are moved to a folder below backups/ in the home folder, never deleted.

Examples:
  agents init
  agents init --force --yes"
)]
pub(crate) struct Init {
    /// Reset: move existing data to backups/ first
    #[arg(long)]
    pub(crate) force: bool,
    /// Do not ask for confirmation
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Lists the models whose keys are set, the models of a running Ollama, and those of other
providers, and asks for one. With a keyring, it also asks for a missing key.

Examples:
  agents setup
  agents setup --model anthropic/claude-sonnet-4-5"
)]
pub(crate) struct Setup {
    /// Default model, PROVIDER/MODEL
    #[arg(long, short = 'm', value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Only show what would change
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agents doctor
  agents doctor --repair")]
pub(crate) struct Diagnostics {
    /// Repair problems; deletes nothing
    #[arg(long)]
    pub(crate) repair: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Db {
    /// Show backend, schema version and size of the database
    Status,
    /// Migrate the schema to the current version
    Upgrade,
    /// Check integrity and constraints
    Check,
    /// Reclaim unused space
    Vacuum,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Cleanup {
    /// List what `cleanup run` would remove
    Status,
    /// Remove expired data
    #[command(after_help = "Examples:
  agents cleanup run --dry-run
  agents cleanup run")]
    Run {
        /// Only list what would be removed
        #[arg(long)]
        dry_run: bool,
    },
}
