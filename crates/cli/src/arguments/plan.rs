//! `plan`: commands that read plans.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use cleveragents_domain::{PlanPhase, PlanState};

use super::Deletion;

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
        /// Print only the document
        #[arg(long = "as", value_enum, value_name = "DOCUMENT")]
        document: Option<StrategyDocument>,
    },
    /// Show progress, usage and pending input of a plan
    #[command(after_help = "Exit codes: 1 when the plan failed, else 0

Examples:
  agents plan status
  agents --format json plan status 01JX3Q")]
    Status {
        #[command(flatten)]
        plan: PlanChoice,
    },
    /// Draw the decision tree of a plan
    Tree(PlanTree),
    /// Explain a decision, or the first decision of a plan
    #[command(after_help = "Examples:
  agents plan explain
  agents plan explain 01JX3QD2
  agents plan explain 01JX3QD2 --show-context --show-reasoning")]
    Explain {
        /// Decision or plan: id, or prefix of at least 6 characters; the current plan of this folder when
        /// not given
        #[arg(value_name = "DECISION|PLAN")]
        reference: Option<String>,
        /// Show the context of the decision
        #[arg(long)]
        show_context: bool,
        /// Show the reasoning of the actor, unedited
        #[arg(long)]
        show_reasoning: bool,
    },
    /// Show the changes of a plan
    #[command(after_help = "With --format plain, prints only the patch.

Examples:
  agents plan diff 01JX3Q
  agents plan diff 01JX3Q --stat
  agents plan diff --correction
  agents --format plain plan diff 01JX3Q | git apply --check")]
    Diff {
        #[command(flatten)]
        plan: PlanChoice,
        /// Only paths and line counts
        #[arg(long)]
        stat: bool,
        /// Only changes since the last correction
        #[arg(long)]
        correction: bool,
    },
    /// List the paths that a plan wrote
    #[command(after_help = "Examples:
  agents plan artifacts
  agents plan artifacts 01JX3Q")]
    Artifacts {
        #[command(flatten)]
        plan: PlanChoice,
    },
    /// List the corrections of a plan
    #[command(after_help = "Examples:
  agents plan corrections
  agents --format json plan corrections 01JX3Q")]
    Corrections {
        #[command(flatten)]
        plan: PlanChoice,
    },
    /// List the child plans of a plan
    #[command(after_help = "Examples:
  agents plan children
  agents --format json plan children 01JX3Q")]
    Children {
        #[command(flatten)]
        plan: PlanChoice,
    },
    /// Show the conflicts between the child plans of a plan
    #[command(after_help = "Decide them with `agents plan resolve`.

Example:
  agents plan conflicts 01JX3Q")]
    Conflicts {
        #[command(flatten)]
        plan: PlanChoice,
    },
    /// Resolve conflicts between the child plans of a plan
    #[command(
        after_help = "`ours` is the version of the plan, with the changes of earlier child plans; `theirs` is the version
of the child plan. When all conflicts are resolved, continue with `agents plan execute`.

Exit codes: 0 resolved, 3 no conflict at the path, 4 the plan has no conflicts or is running

Examples:
  agents plan resolve src/lib.rs --take theirs
  agents plan resolve 01JX3Q src/lib.rs --file merged.rs
  agents plan resolve 01JX3Q src/lib.rs --child 2 --take ours
  agents plan resolve --all ours"
    )]
    Resolve(PlanResolve),
    /// Show the errors of a plan and how to recover
    #[command(after_help = "Examples:
  agents plan errors
  agents plan errors 01JX3Q")]
    Errors {
        #[command(flatten)]
        plan: PlanChoice,
    },
    /// Show the events of a plan in order
    Log(PlanLog),
    /// Wait until a plan finishes, fails or needs user input
    #[command(after_help = "Prints events to standard error while it waits.

Exit codes: 0 applied, 1 failed or cancelled, 4 timeout, 5 user input required

Example:
  agents plan wait 01JX3Q --timeout 600")]
    Wait {
        #[command(flatten)]
        plan: PlanChoice,
        /// Timeout in seconds; none when not given
        #[arg(long, value_name = "S")]
        timeout: Option<u64>,
    },
    /// Show the limits of a plan and their usage, or set its maximum cost
    #[command(after_help = "Examples:
  agents plan guard
  agents plan guard 01JX3Q --max-cost 2.50")]
    Guard {
        #[command(flatten)]
        plan: PlanChoice,
        /// Maximum cost of the plan from now on, in US dollars
        #[arg(long, value_name = "USD")]
        max_cost: Option<String>,
    },
    /// Manage checkpoints of a plan
    #[command(subcommand)]
    Checkpoint(PlanCheckpoint),
}

#[derive(Debug, Args)]
pub(crate) struct PlanChoice {
    /// Plan: id, prefix of at least 6 characters, or name; the current plan of this folder when not given
    #[arg(value_name = "PLAN")]
    pub(crate) reference: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct PlanResolve {
    /// Path in conflict; two arguments are a plan and the path. With --all, only a plan
    #[arg(value_name = "[PLAN] PATH", num_args = 0..=2)]
    pub(crate) path: Vec<String>,
    /// Version that the path gets
    #[arg(long, value_enum, value_name = "SIDE", conflicts_with_all = ["file", "all"])]
    pub(crate) take: Option<ConflictSideName>,
    /// Edited file whose content the path gets, `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "all")]
    pub(crate) file: Option<PathBuf>,
    /// Resolve all unresolved conflicts with this version
    #[arg(long, value_enum, value_name = "SIDE", conflicts_with = "child")]
    pub(crate) all: Option<ConflictSideName>,
    /// Number or id of the child plan, if several conflict at the path
    #[arg(long, value_name = "CHILD")]
    pub(crate) child: Option<String>,
}

/// The versions of a path in conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConflictSideName {
    /// The version of the plan
    Ours,
    /// The version of the child plan
    Theirs,
    /// Both: the model combines them when the plan continues
    Model,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agents plan list
  agents plan list --phase execute --state errored
  agents plan list --state awaiting_input --project local/shop
  agents plan list --tree
  agents plan list '^local/fix-'")]
pub(crate) struct PlanList {
    /// Only plans in this phase
    #[arg(long, value_enum)]
    pub(crate) phase: Option<PhaseName>,
    /// Only plans in this state
    #[arg(long, value_enum)]
    pub(crate) state: Option<StateName>,
    /// Only plans of this project
    #[arg(long, short = 'p', value_name = "PROJECT")]
    pub(crate) project: Option<String>,
    /// Only plans created from this action
    #[arg(long, value_name = "ACTION")]
    pub(crate) action: Option<String>,
    /// Only plans whose name, action or description matches this regular expression
    #[arg(value_name = "REGEX")]
    pub(crate) pattern: Option<String>,
    /// Also list child plans, each below its parent
    #[arg(long)]
    pub(crate) tree: bool,
}

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

/// Formats of an exported strategy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StrategyDocument {
    /// For reading and editing
    #[value(alias = "md")]
    Markdown,
    /// For programs
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
    /// Also show decisions that were replaced or rolled back
    #[arg(long)]
    pub(crate) show_superseded: bool,
    /// Maximum depth
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) depth: Option<u64>,
    /// Format of the drawing
    #[arg(long = "as", value_enum, default_value_t = TreeDrawing::Text)]
    pub(crate) drawing: TreeDrawing,
    /// Output file instead of standard output
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Formats of a drawn decision tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TreeDrawing {
    /// Text for a terminal
    Text,
    /// SVG image
    Svg,
    /// A Mermaid flowchart
    Mermaid,
    /// Graphviz DOT
    Dot,
}

#[derive(Debug, Args)]
#[command(
    after_help = "With --follow new events are printed until the plan finishes; with --format json,
one document per line.

Examples:
  agents plan log 01JX3Q
  agents plan log 01JX3Q --follow"
)]
pub(crate) struct PlanLog {
    #[command(flatten)]
    pub(crate) plan: PlanChoice,
    /// Print new events as they occur
    #[arg(long)]
    pub(crate) follow: bool,
    /// Maximum number of events; the newest are shown
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
    /// Delete checkpoints of a plan that is not running
    #[command(
        after_help = "The first and the newest checkpoint stay, as do those that `agents plan redo` needs. Either
all given checkpoints are deleted, or none.

Examples:
  agents plan checkpoint delete cp_2 --dry-run
  agents plan checkpoint delete 01JX3Q cp_2 cp_3"
    )]
    Delete {
        /// Checkpoints, such as cp_2, or their labels; the plan may precede them
        #[arg(value_name = "[PLAN] CHECKPOINT", num_args = 1.., required = true)]
        checkpoints: Vec<String>,
        #[command(flatten)]
        deletion: Deletion,
    },
}
