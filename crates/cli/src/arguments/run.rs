//! `run`: runs of actors, step by step.

use clap::{Args, Subcommand, ValueEnum};
use cleveragents_domain::RunState;

#[derive(Debug, Subcommand)]
pub(crate) enum Run {
    /// List runs, newest first
    List(RunList),
    /// Show a run step by step
    #[command(after_help = "Examples:
  agents run show
  agents run show 01JX3Q
  agents --format json run show 01JX3Q")]
    Show {
        /// The run: its id, or the first 6 or more characters of it; the newest when not given
        #[arg(value_name = "RUN")]
        run: Option<String>,
    },
    /// Go on with a run that was cut off, failed, was stopped or waits for a person
    #[command(
        after_help = "Finished steps are not done again. A call of a tool that was begun when the run was cut off, and
that may have taken effect, is asked about; --redo and --skip answer for you.

A run that waits shows its question with `agents run show`. Without a terminal --answer answers it: `yes` approves a
call, `no` refuses it, other words refuse it and tell the model why; a question takes the text or the number of an option.

Examples:
  agents run resume 01JX3Q
  agents run resume 01JX3Q --skip
  agents run resume 01JX3Q --answer 'the second one'"
    )]
    Resume(RunResume),
    /// Stop a run, or give up one that nobody works on
    #[command(after_help = "Example:
  agents run cancel 01JX3Q")]
    Cancel {
        #[command(flatten)]
        run: RunReference,
    },
    /// Walk a run again from its stored steps, doing nothing, and compare the result
    #[command(after_help = "Example:
  agents run replay 01JX3Q")]
    Replay {
        #[command(flatten)]
        run: RunReference,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunReference {
    /// The run: its id, or the first 6 or more characters of it
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agents run list
  agents run list --actor local/review --state failed
  agents run list --limit 50 --offset 50")]
pub(crate) struct RunList {
    /// Only runs of this actor
    #[arg(long, value_name = "NAME")]
    pub(crate) actor: Option<String>,
    /// Only runs that are this far
    #[arg(long, value_enum)]
    pub(crate) state: Option<RunStateName>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: u64,
    /// Skip so many first
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) offset: u64,
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RunStateName {
    Running,
    Waiting,
    Complete,
    Failed,
    Cancelled,
}

impl RunStateName {
    pub(crate) const fn state(self) -> RunState {
        match self {
            Self::Running => RunState::Running,
            Self::Waiting => RunState::Waiting,
            Self::Complete => RunState::Complete,
            Self::Failed => RunState::Failed,
            Self::Cancelled => RunState::Cancelled,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct RunResume {
    #[command(flatten)]
    pub(crate) run: RunReference,
    /// Make calls again of which nobody knows whether they were done
    #[arg(long, conflicts_with = "skip")]
    pub(crate) redo: bool,
    /// Take calls for done of which nobody knows whether they were
    #[arg(long)]
    pub(crate) skip: bool,
    /// Answer to the question that the run waits for
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["redo", "skip"])]
    pub(crate) answer: Option<String>,
    /// Show the answer as it comes
    #[arg(long)]
    pub(crate) stream: bool,
}
