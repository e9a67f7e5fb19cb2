//! `safety`, and the options of every command that calls tools.

use clap::{Args, Subcommand};
use cleveragents_application::SafetySelection;

#[derive(Debug, Subcommand)]
pub(crate) enum Safety {
    /// List the safety profiles that are part of the program
    #[command(after_help = "Example:
  agents --format json safety list")]
    List,
    /// Show what is in force here and who said it, or what one profile says
    #[command(
        after_help = "Profiles and guards of all levels hold together, and the tighter always wins. Without a profile of
yours the profile `standard` holds; the file of a project can only narrow it.

Examples:
  agents safety show
  agents safety show careful
  agents safety show ./team.yaml"
    )]
    Show {
        /// A profile, or a file; what is in force when not given
        #[arg(value_name = "PROFILE|FILE")]
        profile: Option<String>,
        #[command(flatten)]
        options: SafetyOptions,
    },
}

/// The heading of these options; one for the whole struct would also take what comes after them.
const HEADING: &str = "Safety";

/// How careful to be in one command. Each option narrows what the configuration allows.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SafetyOptions {
    /// A safety profile (see `agents safety list`), or a file that holds one
    #[arg(long, value_name = "PROFILE|FILE", help_heading = HEADING)]
    pub(crate) safety: Option<String>,
    /// Refuse these tools, such as builtin/shell or builtin/git-*; may be repeated
    #[arg(long, value_name = "PATTERN", help_heading = HEADING)]
    pub(crate) deny_tool: Vec<String>,
    /// Refuse all tools but these; may be repeated
    #[arg(long, value_name = "PATTERN", help_heading = HEADING)]
    pub(crate) allow_tool: Vec<String>,
    /// How many tools may be called after one answer of the model
    #[arg(long, value_name = "N", help_heading = HEADING)]
    pub(crate) max_calls: Option<u64>,
    /// Ask before every call that changes something
    #[arg(long, help_heading = HEADING)]
    pub(crate) approve_writes: bool,
}

impl From<&SafetyOptions> for SafetySelection {
    fn from(options: &SafetyOptions) -> Self {
        let SafetyOptions {
            safety,
            deny_tool,
            allow_tool,
            max_calls,
            approve_writes,
        } = options.clone();
        Self {
            safety,
            deny_tool,
            allow_tool,
            max_calls,
            approve_writes,
        }
    }
}
