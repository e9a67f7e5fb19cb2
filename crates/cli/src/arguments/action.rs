//! `action`: the templates of plans.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use cleveragents_domain::ActionState;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Register an action from a YAML file
    #[command(
        after_help = "The text of the file is kept; the file itself is not read again. With --update an archived action
comes into use again. `agents schema action` prints the JSON schema of such files.

Examples:
  agents action create --config lint.yaml
  agents action create --config lint.yaml --update"
    )]
    Create {
        /// The YAML file, `-` for standard input
        #[arg(long, short = 'c', value_name = "FILE")]
        config: PathBuf,
        /// Replace an action of the same name
        #[arg(long)]
        update: bool,
    },
    /// List actions
    #[command(after_help = "Examples:
  agents action list
  agents action list --state available --namespace local
  agents action list '^local/fix'")]
    List {
        /// Only those whose name this regular expression finds something in
        #[arg(value_name = "REGEX")]
        pattern: Option<String>,
        /// Only those in this state
        #[arg(long, value_enum)]
        state: Option<ActionStateName>,
        /// Only those in this namespace
        #[arg(long, value_name = "NAMESPACE")]
        namespace: Option<String>,
    },
    /// Show an action: its texts, arguments, actors and invariants
    #[command(after_help = "Examples:
  agents action show local/lint
  agents --format json action show local/lint")]
    Show {
        /// The action, such as local/lint
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Take an action out of use; its plans stay as they are
    #[command(
        after_help = "`agents action create --config FILE --update` takes it into use again.

Example:
  agents action archive local/lint --yes"
    )]
    Archive {
        /// The action, such as local/lint
        #[arg(value_name = "NAME")]
        name: String,
        /// Do not ask for confirmation
        #[arg(long, short = 'y')]
        yes: bool,
    },
}

/// The state of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ActionStateName {
    /// Plans can be made from it
    Available,
    /// It is out of use
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
