//! `plan`: plans, to be looked at.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use cleveragents_domain::{PlanPhase, PlanState};

#[derive(Debug, Subcommand)]
pub(crate) enum PlanCommand {
    /// List plans, newest first
    List(PlanList),
    /// Show the strategy of a plan
    #[command(after_help = "Examples:
  agents plan show 01JX3Q
  agents plan show 01JX3Q --as markdown > strategy.md")]
    Show {
        #[command(flatten)]
        plan: PlanChoice,
        /// Print the document alone
        #[arg(long = "as", value_enum, value_name = "DOCUMENT")]
        document: Option<StrategyDocument>,
    },
    /// Show how far a plan is, what it took and what it waits for
    #[command(after_help = "Exit codes: 1 when the plan failed, else 0

Examples:
  agents plan status
  agents --format json plan status 01JX3Q")]
    Status {
        #[command(flatten)]
        plan: PlanChoice,
    },
    /// Draw the decisions of a plan
    Tree(PlanTree),
    /// Explain a decision, or the first one of a plan
    #[command(after_help = "Examples:
  agents plan explain 01JX3QD2
  agents plan explain 01JX3QD2 --show-context --show-reasoning")]
    Explain {
        /// The decision or the plan: its id, or the first 6 or more characters of it
        #[arg(value_name = "DECISION|PLAN")]
        reference: String,
        /// Show what was known when it was decided
        #[arg(long)]
        show_context: bool,
        /// Show what the actor thought, as it thought it
        #[arg(long)]
        show_reasoning: bool,
    },
    /// Show what a plan changes
    #[command(after_help = "In the format plain the patch alone is written.

Examples:
  agents plan diff 01JX3Q
  agents plan diff 01JX3Q --stat
  agents --format plain plan diff 01JX3Q | git apply --check")]
    Diff {
        #[command(flatten)]
        plan: PlanChoice,
        /// Only the paths and how many lines of each
        #[arg(long)]
        stat: bool,
    },
    /// List the paths that a plan wrote
    Artifacts {
        #[command(flatten)]
        plan: PlanChoice,
    },
    /// Show what went wrong for a plan, and what can be done about it
    Errors {
        #[command(flatten)]
        plan: PlanChoice,
    },
    /// Show what happened to a plan, in order
    Log(PlanLog),
    /// Wait until a plan is over, needs a person or fails
    #[command(after_help = "What happens meanwhile is told on standard error.

Exit codes: 0 applied, 1 failed or given up, 4 the time is over, 5 a person is needed

Example:
  agents plan wait 01JX3Q --timeout 600")]
    Wait {
        #[command(flatten)]
        plan: PlanChoice,
        /// Seconds to wait at most; for ever when not given
        #[arg(long, value_name = "S")]
        timeout: Option<u64>,
    },
    /// Show what limits a plan, and how much of it is used up, or set what it may cost
    Guard {
        #[command(flatten)]
        plan: PlanChoice,
        /// The most the plan may cost from now on, in US dollars
        #[arg(long, value_name = "USD")]
        max_cost: Option<String>,
    },
    /// States of a plan that can be returned to
    #[command(subcommand)]
    Checkpoint(PlanCheckpoint),
}

#[derive(Debug, Args)]
pub(crate) struct PlanReference {
    /// The plan: its id, the first 6 or more characters of it, or its name
    #[arg(value_name = "PLAN")]
    pub(crate) reference: String,
}

#[derive(Debug, Args)]
pub(crate) struct PlanChoice {
    /// The plan: its id, the first 6 or more characters of it, or its name; the only one when not
    /// given
    #[arg(value_name = "PLAN")]
    pub(crate) reference: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agents plan list
  agents plan list --phase execute --state errored
  agents plan list --state awaiting_input --project local/shop
  agents plan list '^local/fix-'")]
pub(crate) struct PlanList {
    /// Only plans in this phase
    #[arg(long, value_enum)]
    pub(crate) phase: Option<PhaseName>,
    /// Only plans in this state
    #[arg(long, value_enum)]
    pub(crate) state: Option<StateName>,
    /// Only plans that work on this project
    #[arg(long, short = 'p', value_name = "PROJECT")]
    pub(crate) project: Option<String>,
    /// Only plans made from this action
    #[arg(long, value_name = "ACTION")]
    pub(crate) action: Option<String>,
    /// Only plans whose name, action or description it matches
    #[arg(value_name = "REGEX")]
    pub(crate) pattern: Option<String>,
}

/// A phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PhaseName {
    Strategize,
    Execute,
    Apply,
}

impl PhaseName {
    pub(crate) const fn phase(self) -> PlanPhase {
        match self {
            Self::Strategize => PlanPhase::Strategize,
            Self::Execute => PlanPhase::Execute,
            Self::Apply => PlanPhase::Apply,
        }
    }
}

/// A state in which a plan is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum StateName {
    Queued,
    Processing,
    Complete,
    Errored,
    Cancelled,
    Applied,
    Constrained,
    AwaitingInput,
}

impl StateName {
    pub(crate) const fn state(self) -> PlanState {
        match self {
            Self::Queued => PlanState::Queued,
            Self::Processing => PlanState::Processing,
            Self::Complete => PlanState::Complete,
            Self::Errored => PlanState::Errored,
            Self::Cancelled => PlanState::Cancelled,
            Self::Applied => PlanState::Applied,
            Self::Constrained => PlanState::Constrained,
            Self::AwaitingInput => PlanState::AwaitingInput,
        }
    }
}

/// The strategy as a document of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StrategyDocument {
    /// As people read and change it
    #[value(alias = "md")]
    Markdown,
    /// As programs do
    Json,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agents plan tree
  agents plan tree 01JX3Q --show-superseded --depth 3
  agents plan tree 01JX3Q --as svg --output decisions.svg")]
pub(crate) struct PlanTree {
    #[command(flatten)]
    pub(crate) plan: PlanChoice,
    /// Show decisions too that were replaced or taken back
    #[arg(long)]
    pub(crate) show_superseded: bool,
    /// How deep to draw
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) depth: Option<u64>,
    /// How to draw
    #[arg(long = "as", value_enum, default_value_t = TreeDrawing::Text)]
    pub(crate) drawing: TreeDrawing,
    /// Write the drawing to this file instead of standard output
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// How decisions are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TreeDrawing {
    /// For a terminal
    Text,
    /// A picture
    Svg,
    /// A Mermaid flowchart
    Mermaid,
    /// The language of Graphviz
    Dot,
}

#[derive(Debug, Args)]
#[command(
    after_help = "With --follow new lines are written as they come, until the plan is over; in the format json
each is a document on a line of its own.

Examples:
  agents plan log 01JX3Q
  agents plan log 01JX3Q --follow"
)]
pub(crate) struct PlanLog {
    #[command(flatten)]
    pub(crate) plan: PlanChoice,
    /// Go on as more happens
    #[arg(long)]
    pub(crate) follow: bool,
    /// At most so many, the newest
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) limit: u64,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PlanCheckpoint {
    /// List the checkpoints of a plan
    #[command(after_help = "Example:
  agents plan checkpoint list 01JX3Q")]
    List {
        #[command(flatten)]
        plan: PlanChoice,
    },
    /// Remove checkpoints of a plan that nobody works on
    #[command(
        after_help = "The first checkpoint, the newest one, and those that a rollback can still be taken back to
stay. Either all that are named are removed, or none.

Example:
  agents plan checkpoint delete 01JX3Q cp_2 cp_3"
    )]
    Delete {
        #[command(flatten)]
        plan: PlanReference,
        /// The checkpoints, such as cp_2, or their labels
        #[arg(value_name = "CHECKPOINT", required = true)]
        checkpoints: Vec<String>,
        /// Do not ask for confirmation
        #[arg(long, short = 'y')]
        yes: bool,
    },
}
