//! `automation-profile`: profiles that set which gates of a plan need approval.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use cleveragents_application::Mode;

use super::Deletion;

#[derive(Debug, Subcommand)]
pub(crate) enum AutomationProfile {
    /// Register a custom profile from a YAML file
    #[command(
        after_help = "A file sets a threshold for each of the eleven gates, or inherits from a profile with `extends:`
and overrides some. A plan passes a gate without asking if its confidence reaches the threshold:
0.0 always, 1.0 never. `agents schema automation-profile` prints the JSON schema of such files.

Examples:
  agents automation-profile add --config careful.yaml
  agents automation-profile add --config careful.yaml --update"
    )]
    Add {
        /// YAML file, `-` for standard input
        #[arg(long, short = 'c', value_name = "FILE")]
        config: PathBuf,
        /// Replace the profile of the same name
        #[arg(long)]
        update: bool,
    },
    /// List profiles
    #[command(after_help = "Examples:
  agents automation-profile list
  agents automation-profile list '^local/'")]
    List {
        /// Only profiles whose name matches this regular expression
        #[arg(value_name = "REGEX")]
        pattern: Option<String>,
    },
    /// Show the gates of a profile and their thresholds
    #[command(after_help = "Examples:
  agents automation-profile show trusted
  agents --format json automation-profile show local/careful")]
    Show {
        #[command(flatten)]
        profile: ProfileReference,
    },
    /// Remove a custom profile that is not in use
    #[command(after_help = "Example:
  agents automation-profile remove local/careful --yes")]
    Remove {
        #[command(flatten)]
        profile: ProfileReference,
        #[command(flatten)]
        deletion: Deletion,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ProfileReference {
    /// Profile, such as trusted or local/careful
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// Parses a mode. The help lists all modes with their descriptions.
pub(super) fn modes() -> impl TypedValueParser<Value = Mode> {
    let values = Mode::ALL.map(|mode| PossibleValue::new(mode.as_str()).help(mode.description()));
    PossibleValuesParser::new(values).map(|name| name.parse().unwrap_or(Mode::Ask))
}
