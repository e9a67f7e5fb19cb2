//! `action`: templates of plans.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use cleveragents_domain::ActionState;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Register an action from a YAML file
    #[command(
        after_help = "The content of the file is stored; the file is not read again. --update makes an archived action
available again. `agents schema action` prints the JSON schema of such files.

Examples:
  agents action create --config lint.yaml
  agents action create --config lint.yaml --update"
    )]
    Create {
        /// YAML file, `-` for standard input
        #[arg(long, short = 'c', value_name = "FILE")]
        config: PathBuf,
        /// Replace the action of the same name
        #[arg(long)]
        update: bool,
    },
    /// List actions
    #[command(after_help = "Examples:
  agents action list
  agents action list --state available --namespace local
  agents action list '^local/fix'")]
    List {
        /// Only actions whose name matches this regular expression
        #[arg(value_name = "REGEX")]
        pattern: Option<String>,
        /// Only actions in this state
        #[arg(long, value_enum)]
        state: Option<ActionStateName>,
        /// Only actions in this namespace
        #[arg(long, value_name = "NAMESPACE")]
        namespace: Option<String>,
    },
    /// Show an action: descriptions, arguments, actors and invariants
    #[command(after_help = "Examples:
  agents action show local/lint
  agents --format json action show local/lint")]
    Show {
        /// Action, such as local/lint
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Archive an action; its plans stay
    #[command(
        after_help = "`agents action create --config FILE --update` makes it available again.

Example:
  agents action archive local/lint --yes"
    )]
    Archive {
        /// Action, such as local/lint
        #[arg(value_name = "NAME")]
        name: String,
        /// Do not ask for confirmation
        #[arg(long, short = 'y')]
        yes: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ActionStateName {
    /// Plans can be created from it
    Available,
    /// Archived
    Archived,
}

impl From<ActionStateName> for ActionState {
    fn from(name: ActionStateName) -> Self {
        match name {
            ActionStateName::Available => Self::Available,
            ActionStateName::Archived => Self::Archived,
        }
    }
}
