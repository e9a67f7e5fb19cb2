//! `automation-profile`: how much plans do by themselves.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum AutomationProfile {
    /// Register a profile of your own from a YAML file
    #[command(
        after_help = "A file gives a threshold for each of the eleven gates, or builds on a profile with `extends:` and
gives what differs. A plan passes a gate by itself when it is at least that sure: 0.0 always, 1.0
never. `agents schema automation-profile` prints the JSON schema of such files.

Examples:
  agents automation-profile add --config careful.yaml
  agents automation-profile add --config careful.yaml --update"
    )]
    Add {
        /// The YAML file, `-` for standard input
        #[arg(long, short = 'c', value_name = "FILE")]
        config: PathBuf,
        /// Replace a profile of the same name
        #[arg(long)]
        update: bool,
    },
    /// List the profiles there are
    #[command(after_help = "Examples:
  agents automation-profile list
  agents automation-profile list '^local/'")]
    List {
        /// Only those whose names match this regular expression
        #[arg(value_name = "REGEX")]
        pattern: Option<String>,
    },
    /// Show a profile: what each gate stands before, and how sure a plan must be there
    #[command(after_help = "Examples:
  agents automation-profile show trusted
  agents --format json automation-profile show local/careful")]
    Show {
        #[command(flatten)]
        profile: ProfileReference,
    },
    /// Remove a profile of your own that nothing uses
    #[command(after_help = "Example:
  agents automation-profile remove local/careful --yes")]
    Remove {
        #[command(flatten)]
        profile: ProfileReference,
        /// Do not ask for confirmation
        #[arg(long, short = 'y')]
        yes: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ProfileReference {
    /// The profile, such as trusted or local/careful
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}
