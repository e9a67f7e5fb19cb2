//! `invariant`: what plans must keep true.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Invariant {
    /// Say what plans must keep true
    #[command(
        after_help = "It holds for every plan from then on: everywhere, or in the projects, actions and plans that are
named. Where two say the opposite, that of the plan holds before that of the action, of the project
and the global ones; a global one that is --non-overridable holds before all.

Examples:
  agents invariant add --global 'Never push to main'
  agents invariant add --global --non-overridable 'No secrets in the code'
  agents invariant add --project local/shop 'The public API stays compatible'
  agents invariant add --action local/lint --action local/fix 'Change no test'"
    )]
    Add {
        #[command(flatten)]
        places: InvariantPlaces,
        /// Let no other take its place; only with --global
        #[arg(long)]
        non_overridable: bool,
        /// The sentence
        #[arg(value_name = "TEXT")]
        text: String,
    },
    /// List what was said, or all that holds for a plan
    #[command(
        after_help = "Without --effective those are listed that were added with `invariant add`. With --effective all that
holds is shown, those of projects and action files included, and which of them give way to others.

Examples:
  agents invariant list
  agents invariant list --project local/shop --effective
  agents invariant list --plan 01JX3Q --effective
  agents invariant list '(?i)secret'"
    )]
    List {
        #[command(flatten)]
        places: InvariantPlaces,
        /// Show all that holds for these, and what gives way
        #[arg(long)]
        effective: bool,
        /// Only those in whose text this regular expression finds something
        #[arg(value_name = "REGEX")]
        pattern: Option<String>,
    },
    /// Let an invariant hold no more
    #[command(after_help = "Example:
  agents invariant remove 01JX3QAB --yes")]
    Remove {
        /// The invariant: its id, or the first 6 or more characters of it
        #[arg(value_name = "ID")]
        id: String,
        /// Do not ask for confirmation
        #[arg(long, short = 'y')]
        yes: bool,
    },
}

/// Where invariants hold.
#[derive(Debug, Args)]
pub(crate) struct InvariantPlaces {
    /// Everywhere
    #[arg(long)]
    pub(crate) global: bool,
    /// A project; may be repeated
    #[arg(long, short = 'p', value_name = "PROJECT")]
    pub(crate) project: Vec<String>,
    /// A plan: its id, or the first 6 or more characters of it; may be repeated
    #[arg(long, value_name = "PLAN")]
    pub(crate) plan: Vec<String>,
    /// An action; may be repeated
    #[arg(long, value_name = "ACTION")]
    pub(crate) action: Vec<String>,
}
