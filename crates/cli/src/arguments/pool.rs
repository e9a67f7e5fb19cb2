//! `pool`: workers with one role on the items of a project.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Deletion;

#[derive(Debug, Subcommand)]
pub(crate) enum Pool {
    /// Register a pool from a YAML file
    #[command(
        after_help = "The content of the file is stored; the file is not read again. A new pool is active.
`agents schema pool` prints the JSON schema of such files.

Examples:
  agents pool add --config fix.yaml
  agents pool add --config fix.yaml --update"
    )]
    Add {
        /// YAML file, `-` for standard input
        #[arg(long, short = 'c', value_name = "FILE")]
        config: PathBuf,
        /// Replace the pool of the same name
        #[arg(long)]
        update: bool,
    },
    /// List the ready-made pools, or print the file of one
    #[command(after_help = "Examples:
  agents pool library
  agents pool library fix --project local/shop > fix.yaml
  agents pool add --config fix.yaml")]
    Library {
        /// Ready-made pool: hunt, triage, capture, fix, review, merge, watch
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// Project of the file
        #[arg(long, value_name = "NAME")]
        project: Option<String>,
    },
    /// List pools
    #[command(after_help = "Example:
  agents pool list")]
    List,
    /// Show a pool with its tiers and limits
    #[command(after_help = "Example:
  agents pool show local/fix")]
    Show {
        /// Pool, such as local/fix
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Show queues, ages, throughput, cost and alerts of the pools
    #[command(after_help = "Examples:
  agents pool status
  agents pool status local/fix --days 30
  agents pool status --as svg --output burn-down.svg")]
    Status(PoolStatus),
    /// Show which attempts would start, and why every other item waits
    #[command(
        after_help = "Nothing is started or changed. The cost of an attempt is the average of earlier ones, or the budget of one.

Examples:
  agents pool plan
  agents pool plan local/fix --capacity 4"
    )]
    Plan {
        /// Only this pool
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// Maximum number of attempts of all pools together
        #[arg(long, value_name = "N")]
        capacity: Option<u64>,
    },
    /// Run active pools until they are stopped
    #[command(
        after_help = "Each attempt is a plan; its result counts only by stored evidence. Ctrl-C cancels the attempts of this
process, which are not charged; the next run continues. Any number of processes may run the same pools.

Examples:
  agents pool run --dry-run
  agents pool run local/fix --until-idle
  agents pool run --capacity 4"
    )]
    Run {
        /// Only this pool
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// Maximum number of attempts of all pools together
        #[arg(long, value_name = "N")]
        capacity: Option<u64>,
        /// Exit when nothing runs and nothing can start
        #[arg(long)]
        until_idle: bool,
        /// Show what would start, and why every other item waits
        #[arg(long)]
        dry_run: bool,
    },
    /// Pause a pool; running attempts finish
    #[command(after_help = "Example:
  agents pool pause local/fix --reason 'release week'")]
    Pause(PoolCommand),
    /// Start a paused or stopped pool again
    #[command(after_help = "Example:
  agents pool resume local/fix")]
    Resume(PoolCommand),
    /// Finish the started items of a pool, then pause it
    #[command(after_help = "Example:
  agents pool drain local/fix")]
    Drain(PoolCommand),
    /// Stop a pool and cancel its attempts
    #[command(after_help = "Example:
  agents pool stop local/merge --reason 'the base is broken'")]
    Stop(PoolCommand),
    /// Remove a pool; its items stay
    #[command(after_help = "Example:
  agents pool remove local/fix --yes")]
    Remove {
        /// Pool, such as local/fix
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        deletion: Deletion,
    },
}

#[derive(Debug, Args)]
pub(crate) struct PoolCommand {
    /// Pool, such as local/fix
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Reason, shown with the pool
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct PoolStatus {
    /// Only this pool
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Number of days of the history
    #[arg(long, value_name = "N")]
    pub(crate) days: Option<u64>,
    /// Print the burn-down chart in this format
    #[arg(long = "as", value_name = "FORMAT", value_parser = ["svg"])]
    pub(crate) drawing: Option<String>,
    /// Write the chart to this file
    #[arg(long, value_name = "FILE", requires = "drawing")]
    pub(crate) output: Option<PathBuf>,
}
