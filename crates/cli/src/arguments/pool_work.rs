//! Arguments of `hunt`, `fix` and `demo`.

use clap::{Args, Subcommand};

/// Arguments of `demo`.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    #[command(subcommand)]
    pub(crate) topic: Option<DemoTopic>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DemoTopic {
    /// Find, reproduce, fix, review and merge three races in an example project, without a key
    #[command(after_help = "Example:
  agents demo pools")]
    Pools {
        /// Use the configured model in place of the script
        #[arg(long)]
        live: bool,
    },
}

/// Arguments of `hunt`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agents hunt
  agents hunt src/store --limit 5
  agents hunt src/cache.py --actor anthropic/claude-sonnet-5
  agents hunt src --queue")]
pub(crate) struct Hunt {
    /// Folder or file of the project; all of it when not given
    #[arg(value_name = "PATH")]
    pub(crate) path: Option<String>,
    /// Project; that of the current folder when not given
    #[arg(long, value_name = "NAME")]
    pub(crate) project: Option<String>,
    /// Actor or model that hunts
    #[arg(long, value_name = "NAME")]
    pub(crate) actor: Option<String>,
    /// Maximum number of modules
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    pub(crate) limit: u64,
    /// Only add the modules as work items, for a hunt pool
    #[arg(long)]
    pub(crate) queue: bool,
}

/// Arguments of `fix`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agents fix 01J9ABCD
  agents fix 01J9ABCD --tier openai/gpt-5.1-mini --tier openai/gpt-5.1
  agents fix 01J9ABCD --only-capture")]
pub(crate) struct Fix {
    /// Id of the work item, or prefix of at least 6 characters
    #[arg(value_name = "ITEM")]
    pub(crate) item: String,
    /// Actor or model of a tier, cheapest first; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) tier: Vec<String>,
    /// Actor or model that triages the item and writes the failing test
    #[arg(long, value_name = "NAME")]
    pub(crate) actor: Option<String>,
    /// Actor or model that reviews; not one of the tiers
    #[arg(long, value_name = "NAME")]
    pub(crate) reviewer: Option<String>,
    /// Failed attempts per tier before the next tier
    #[arg(long, value_name = "NUMBER", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=20))]
    pub(crate) attempts_per_tier: u32,
    /// Only triage the item and write the failing test
    #[arg(long)]
    pub(crate) only_capture: bool,
    /// Merge the approved change without asking
    #[arg(short, long)]
    pub(crate) yes: bool,
}
