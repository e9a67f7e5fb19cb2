//! `invariant`: constraints that plans must respect.

use clap::{Args, Subcommand};

use super::Deletion;

#[derive(Debug, Subcommand)]
pub(crate) enum Invariant {
    /// Add an invariant
    #[command(
        after_help = "An invariant applies to all later plans, or to the given projects, actions and plans only. If two
contradict each other, the order is: plan, action, project, global. A global invariant with the option
`--non-overridable` always wins.

Examples:
  agents invariant add --global 'Never push to main'
  agents invariant add --global --non-overridable 'No secrets in the code'
  agents invariant add --project local/shop 'The public API stays compatible'
  agents invariant add --action local/lint --action local/fix 'Change no test'"
    )]
    Add {
        #[command(flatten)]
        places: InvariantPlaces,
        /// No other invariant may override it; only with --global
        #[arg(long)]
        non_overridable: bool,
        /// Text of the invariant
        #[arg(value_name = "TEXT")]
        text: String,
    },
    /// List invariants, or those in effect for a plan
    #[command(
        after_help = "Without --effective, lists what `invariant add` added. With --effective, also lists those of
projects and action files, and marks the overridden ones.

Examples:
  agents invariant list
  agents invariant list --project local/shop --effective
  agents invariant list --plan 01JX3Q --effective
  agents invariant list '(?i)secret'"
    )]
    List {
        #[command(flatten)]
        places: InvariantPlaces,
        /// Show all invariants in effect, and the overridden ones
        #[arg(long)]
        effective: bool,
        /// Only invariants whose text matches this regular expression
        #[arg(value_name = "REGEX")]
        pattern: Option<String>,
    },
    /// Remove an invariant
    #[command(after_help = "Example:
  agents invariant remove 01JX3QAB --yes")]
    Remove {
        /// Invariant: id, or prefix of at least 6 characters
        #[arg(value_name = "ID")]
        id: String,
        #[command(flatten)]
        deletion: Deletion,
    },
}

/// Scope of invariants.
#[derive(Debug, Args)]
pub(crate) struct InvariantPlaces {
    /// All plans
    #[arg(long)]
    pub(crate) global: bool,
    /// Project; may be repeated
    #[arg(long, short = 'p', value_name = "PROJECT")]
    pub(crate) project: Vec<String>,
    /// Plan: id, or prefix of at least 6 characters; may be repeated
    #[arg(long, value_name = "PLAN")]
    pub(crate) plan: Vec<String>,
    /// Action; may be repeated
    #[arg(long, value_name = "ACTION")]
    pub(crate) action: Vec<String>,
}
