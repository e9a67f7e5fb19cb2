//! `safety`, and the safety options of all commands that call tools.

use clap::{Args, Subcommand};
use cleveragents_application::SafetySelection;

#[derive(Debug, Subcommand)]
pub(crate) enum Safety {
    /// List built-in safety profiles
    #[command(after_help = "Example:
  agents --format json safety list")]
    List,
    /// Show the limits in effect and where they are set, or one profile
    #[command(
        after_help = "Profiles and guards of all levels are combined; the stricter one wins. Without a profile of
your own, `standard` applies; the file of a project can only restrict it further.

Examples:
  agents safety show
  agents safety show careful
  agents safety show ./team.yaml"
    )]
    Show {
        /// Profile or file; the limits in effect when not given
        #[arg(value_name = "PROFILE|FILE")]
        profile: Option<String>,
        #[command(flatten)]
        options: SafetyOptions,
    },
}

/// Help heading of each safety option. A heading on the struct would also apply to the options that follow it.
const HEADING: &str = "Safety";

/// Safety options of one command. Each restricts what the configuration allows.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SafetyOptions {
    /// Safety profile (see `agents safety list`) or profile file
    #[arg(long, value_name = "PROFILE|FILE", help_heading = HEADING)]
    pub(crate) safety: Option<String>,
    /// Refuse these tools, such as builtin/shell or builtin/git-*; may be repeated
    #[arg(long, value_name = "PATTERN", help_heading = HEADING)]
    pub(crate) deny_tool: Vec<String>,
    /// Refuse all tools but these; may be repeated
    #[arg(long, value_name = "PATTERN", help_heading = HEADING)]
    pub(crate) allow_tool: Vec<String>,
    /// Maximum number of tool calls per model response
    #[arg(long, value_name = "N", help_heading = HEADING)]
    pub(crate) max_calls: Option<u64>,
    /// Ask before every call that writes
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
