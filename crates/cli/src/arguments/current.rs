//! Commands on the current plan of the folder, which are short forms of `plan`.

use clap::Subcommand;

use super::plan::{PlanChoice, PlanCommand, StrategyDocument};
use super::{Command, Plan, PlanApply, PlanExecute, PlanLog, PlanTree, PlanWork};

#[derive(Debug, Subcommand)]
pub(crate) enum CurrentPlan {
    /// Show progress, usage and pending input of the current plan
    #[command(
        after_help = "The current plan of a folder is its newest unfinished plan, else its newest
plan that is not cancelled.

Exit codes: 1 when the plan failed, else 0

Examples:
  agents status
  agents status 01JX3Q"
    )]
    Status {
        #[command(flatten)]
        plan: PlanChoice,
    },
    /// Show the changes of the current plan
    #[command(after_help = "With --format plain, prints only the patch.

Examples:
  agents diff
  agents diff --stat")]
    Diff {
        #[command(flatten)]
        plan: PlanChoice,
        /// Only paths and line counts
        #[arg(long)]
        stat: bool,
    },
    /// Apply the changes of the current plan to your files atomically
    #[command(
        after_help = "Shows the changes and asks. On conflict your files stay unchanged.

Examples:
  agents apply
  agents apply --yes
  agents apply --branch fix/parser
  agents apply --pr --title 'Fix the parser'"
    )]
    Apply(PlanApply),
    /// Undo the last step of the current plan, or its apply
    #[command(after_help = UNDO_HELP)]
    Undo(PlanUndo),
    /// Undo the last rollback of the current plan
    #[command(after_help = "Examples:
  agents redo
  agents redo 01JX3Q")]
    Redo {
        #[command(flatten)]
        plan: PlanChoice,
    },
    /// Show the events of the current plan in order
    Log(PlanLog),
    /// Draw the decision tree of the current plan
    Tree(PlanTree),
    /// Show the strategy of the current plan
    #[command(after_help = "Examples:
  agents show
  agents show --as markdown > strategy.md")]
    Show {
        #[command(flatten)]
        plan: PlanChoice,
        /// Print only the document
        #[arg(long = "as", value_enum, value_name = "DOCUMENT")]
        document: Option<StrategyDocument>,
    },
    /// Approve the pending request of the current plan
    #[command(after_help = "Examples:
  agents approve
  agents approve --answer 'the second one'")]
    Approve(PlanApprove),
    /// Reject the pending request of the current plan
    #[command(after_help = "Example:
  agents reject --reason 'the check must stay'")]
    Reject(PlanReject),
    /// Give the current plan guidance for its next step
    #[command(after_help = "Example:
  agents prompt 'keep the old name as an alias'")]
    Prompt(PlanPrompt),
    /// Run the next phase of the current plan, or resume it where it stopped
    #[command(after_help = "Examples:
  agents execute
  agents execute --background")]
    Execute(PlanExecute),
}

/// Help of `undo` and `plan undo`.
pub(super) const UNDO_HELP: &str = "\
Before a plan is applied, rolls it back to the checkpoint before its last change; `agents redo`
undoes that. After it is applied, makes a commit that reverts the changes of the apply: other
changes stay, and if they overlap, nothing is changed. Asks first.

Examples:
  agents undo
  agents undo 01JX3Q --yes";

/// `undo` and `plan undo`.
#[derive(Debug, clap::Args)]
pub(crate) struct PlanUndo {
    #[command(flatten)]
    pub(crate) plan: PlanChoice,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Only show what would be undone
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// `approve` and `plan approve`.
#[derive(Debug, clap::Args)]
pub(crate) struct PlanApprove {
    #[command(flatten)]
    pub(crate) plan: PlanChoice,
    /// Answer, if the plan asked a question
    #[arg(long, value_name = "TEXT")]
    pub(crate) answer: Option<String>,
}

/// `reject` and `plan reject`.
#[derive(Debug, clap::Args)]
pub(crate) struct PlanReject {
    #[command(flatten)]
    pub(crate) plan: PlanChoice,
    /// Reason, for the actor and the log
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}

/// `prompt` and `plan prompt`.
#[derive(Debug, clap::Args)]
pub(crate) struct PlanPrompt {
    /// Guidance for the actor; two arguments are a plan and the guidance
    #[arg(value_name = "[PLAN] GUIDANCE", num_args = 1..=2, required = true)]
    pub(crate) guidance: Vec<String>,
}

impl Command {
    /// Expands a short form into its `plan` command; returns other commands unchanged.
    pub(super) fn expand(self) -> Self {
        let Self::Current(short) = self else {
            return self;
        };
        let look = |command| Self::Plan(Plan::Look(command));
        let work = |command| Self::Plan(Plan::Work(Box::new(command)));
        match *short {
            CurrentPlan::Status { plan } => look(PlanCommand::Status { plan }),
            CurrentPlan::Diff { plan, stat } => look(PlanCommand::Diff {
                plan,
                stat,
                correction: false,
            }),
            CurrentPlan::Log(log) => look(PlanCommand::Log(log)),
            CurrentPlan::Tree(tree) => look(PlanCommand::Tree(tree)),
            CurrentPlan::Show { plan, document } => look(PlanCommand::Show { plan, document }),
            CurrentPlan::Apply(apply) => work(PlanWork::Apply(apply)),
            CurrentPlan::Undo(undo) => work(PlanWork::Undo(undo)),
            CurrentPlan::Redo { plan } => work(PlanWork::Redo { plan }),
            CurrentPlan::Approve(approve) => work(PlanWork::Approve(approve)),
            CurrentPlan::Reject(reject) => work(PlanWork::Reject(reject)),
            CurrentPlan::Prompt(prompt) => work(PlanWork::Prompt(prompt)),
            CurrentPlan::Execute(execute) => work(PlanWork::Execute(execute)),
        }
    }
}
