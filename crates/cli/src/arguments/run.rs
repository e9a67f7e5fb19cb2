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
        /// Run: id, or prefix of at least 6 characters; the newest when not given
        #[arg(value_name = "RUN")]
        run: Option<String>,
    },
    /// Resume a run that was interrupted, failed, was stopped or waits for input
    #[command(
        after_help = "Finished steps are not repeated. If a tool call had started when the run was interrupted, its
outcome is unknown and the command asks what to do; --retry and --skip answer in advance.

`agents run show` shows the question of a waiting run. Without a terminal, --answer answers it: `yes` approves a
call, `no` refuses it, other text refuses it and is sent to the model as the reason; for a question, the text or the number of an option.

Examples:
  agents run resume 01JX3Q
  agents run resume 01JX3Q --skip
  agents run resume 01JX3Q --answer 'the second one'"
    )]
    Resume(RunResume),
    /// Cancel a run
    #[command(after_help = "Example:
  agents run cancel 01JX3Q")]
    Cancel {
        #[command(flatten)]
        run: RunReference,
    },
    /// Replay a run from its stored steps without side effects, and compare the results
    #[command(after_help = "Example:
  agents run replay 01JX3Q")]
    Replay {
        #[command(flatten)]
        run: RunReference,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunReference {
    /// Run: id, or prefix of at least 6 characters
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
    /// Only runs in this state
    #[arg(long, value_enum)]
    pub(crate) state: Option<RunStateName>,
    /// Maximum number of results
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: u64,
    /// Number of results to skip
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) offset: u64,
}

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
    /// Retry calls whose outcome is unknown
    #[arg(long = "retry", alias = "redo", conflicts_with = "skip")]
    pub(crate) redo: bool,
    /// Assume that calls whose outcome is unknown succeeded
    #[arg(long)]
    pub(crate) skip: bool,
    /// Answer to the question that the run waits for
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["redo", "skip"])]
    pub(crate) answer: Option<String>,
    /// Stream the answer
    #[arg(long)]
    pub(crate) stream: bool,
}
