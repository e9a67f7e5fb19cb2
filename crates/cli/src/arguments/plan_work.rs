//! `plan`: commands that change plans; `do` and `worker`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use cleveragents_application::Mode;

use super::current::{PlanApprove, PlanPrompt, PlanReject, PlanUndo, UNDO_HELP};
use super::plan::{PlanChoice, PlanCommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Plan {
    #[command(flatten)]
    Look(PlanCommand),
    #[command(flatten)]
    Work(Box<PlanWork>),
}

#[derive(Debug, Subcommand)]
pub(crate) enum PlanWork {
    /// Create a plan from an action and start it, as far as its automation profile allows
    #[command(
        after_help = "The automation profile decides what needs approval: with `supervised`, the default, the plan
strategizes at once and then waits for `agents plan execute` and `agents plan apply`.

Exit codes: 0 created, 1 strategizing failed, 2 invalid argument, 3 action or project not found, 5 user input required,
130 interrupted

Examples:
  agents plan use local/fix-bug local/shop --arg issue=17
  agents plan use local/fix-bug local/shop --automation-profile trusted
  agents plan use local/port local/api local/web --max-cost 2.50"
    )]
    Use(PlanUse),
    /// Execute a plan, or resume it where it stopped
    #[command(
        after_help = "Runs the next phase: strategizes, or executes if there is a strategy. Finished steps are not
repeated.

Exit codes: 0 done, 1 failed, 4 running elsewhere or already finished, 5 user input required, 130 interrupted

Examples:
  agents plan execute
  agents plan execute 01JX3Q --stream
  agents plan execute 01JX3Q --background
  agents plan execute 01JX3Q --retry"
    )]
    Execute(PlanExecute),
    /// Apply the changes of a plan to your files atomically
    #[command(
        after_help = "Refused while a required validation has failed or has not run on the current sandbox. On conflict
your files stay unchanged.

Exit codes: 0 applied, 1 refused by validations, 4 conflict, 5 not confirmed, 130 interrupted

Examples:
  agents plan apply
  agents plan apply 01JX3Q --yes
  agents plan apply --branch fix/parser
  agents plan apply --pr --title 'Fix the parser'"
    )]
    Apply(PlanApply),
    /// Undo the last step of a plan, or its apply
    #[command(after_help = UNDO_HELP)]
    Undo(PlanUndo),
    /// Cancel a plan
    #[command(
        after_help = "Without PLAN, cancels the current plan of this folder after confirmation.

Exit codes: 0 cancelled, 4 already finished, 5 not confirmed

Examples:
  agents plan cancel 01JX3Q
  agents plan cancel --yes --reason 'no longer needed'"
    )]
    Cancel {
        #[command(flatten)]
        plan: PlanChoice,
        /// Reason, for the log
        #[arg(
            short,
            long,
            value_name = "TEXT",
            default_value = "cancelled by the user"
        )]
        reason: String,
        /// Do not ask for confirmation when PLAN is not given
        #[arg(short, long)]
        yes: bool,
    },
    /// Approve the pending request of a plan
    #[command(after_help = "Examples:
  agents plan approve 01JX3Q
  agents plan approve 01JX3Q --answer 'the second one'")]
    Approve(PlanApprove),
    /// Reject the pending request of a plan
    #[command(after_help = "Example:
  agents plan reject 01JX3Q --reason 'the check must stay'")]
    Reject(PlanReject),
    /// Give a plan guidance for its next step
    #[command(after_help = "Example:
  agents plan prompt 01JX3Q 'keep the old name as an alias'")]
    Prompt(PlanPrompt),
    /// Roll a plan back to a checkpoint: files, steps, decisions and tool calls
    #[command(
        after_help = "Without a checkpoint, lists the checkpoints. `agents plan redo` undoes a rollback.

Examples:
  agents plan rollback 01JX3Q
  agents plan rollback cp_3 --dry-run
  agents plan rollback 01JX3Q cp_3 --yes"
    )]
    Rollback {
        /// Plan: id, prefix of at least 6 characters, or name; the current plan of this folder when not given
        #[arg(value_name = "PLAN")]
        plan: Option<String>,
        /// Checkpoint: `cp_3`, 3, or a label
        checkpoint: Option<String>,
        /// Only show what would be rolled back
        #[arg(long = "dry-run", alias = "preview")]
        preview: bool,
        /// Do not ask for confirmation
        #[arg(short, long)]
        yes: bool,
    },
    /// Correct a decision; only what follows from it is discarded and repeated
    #[command(after_help = "\
Examples:
  agents plan tree                             # shows the ids of the decisions
  agents plan correct 01JX3Q --guidance 'use SQLite' --dry-run
  agents plan correct 01JX3Q --mode append --guidance 'also write the changelog'")]
    Correct(PlanCorrect),
    /// Add a part to a plan, which a child plan executes
    #[command(after_help = "\
Finished steps are not repeated: `agents plan execute` runs only the new part.

Examples:
  agents plan spawn 'translate the shop to French' --files 'shop/**'
  agents plan spawn 01JX3Q 'write the changelog' --after 1,2")]
    Spawn(PlanSpawn),
    /// Undo the last rollback or correction of a plan
    #[command(after_help = "Examples:
  agents plan redo
  agents plan redo 01JX3Q")]
    Redo {
        #[command(flatten)]
        plan: PlanChoice,
    },
    /// Return a plan to its strategy phase; the strategist receives the reason and earlier results
    #[command(after_help = "Example:
  agents plan revert 01JX3Q --reason 'use SQLite'")]
    Revert {
        #[command(flatten)]
        plan: PlanChoice,
        /// Phase to return to
        #[arg(long, value_name = "PHASE", default_value = "strategize", value_parser = ["strategize"])]
        to_phase: String,
        /// Reason, for the strategist and the log
        #[arg(
            short,
            long,
            value_name = "TEXT",
            default_value = "requested by the user"
        )]
        reason: String,
    },
    /// Resume a plan where it stopped
    #[command(after_help = "Examples:
  agents plan resume --dry-run
  agents plan resume 01JX3Q")]
    Resume {
        #[command(flatten)]
        plan: PlanChoice,
        /// Only show where it would resume
        #[arg(long)]
        dry_run: bool,
        /// Stream the output of models
        #[arg(long)]
        stream: bool,
    },
    /// Edit the strategy of a plan before it is executed
    #[command(after_help = "Opens the document in $EDITOR, or reads it from a file.

Examples:
  agents plan edit 01JX3Q
  agents plan show --as markdown > s.md; agents plan edit --file s.md")]
    Edit {
        #[command(flatten)]
        plan: PlanChoice,
        /// New document, `-` for standard input
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct PlanUse {
    /// Action
    pub(crate) action: String,
    /// Projects that the plan works on
    #[arg(value_name = "PROJECT")]
    pub(crate) projects: Vec<String>,
    /// Additional project
    #[arg(
        short = 'p',
        short_alias = 'm',
        long = "project",
        value_name = "PROJECT"
    )]
    pub(crate) more_projects: Vec<String>,
    /// Argument of the action
    #[arg(long = "arg", value_name = "NAME=VALUE")]
    pub(crate) arguments: Vec<String>,
    #[command(flatten)]
    pub(crate) choices: PlanChoices,
    /// Only create the plan, do not start it
    #[arg(long)]
    pub(crate) no_start: bool,
    /// Stream the output of models
    #[arg(long)]
    pub(crate) stream: bool,
}

/// Options of new plans.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PlanChoices {
    /// Automation profile, see `agents automation-profile list`
    #[arg(long, value_name = "NAME")]
    pub(crate) automation_profile: Option<String>,
    /// Actor that works out the strategy
    #[arg(long, value_name = "ACTOR")]
    pub(crate) strategy_actor: Option<String>,
    /// Actor that executes the steps
    #[arg(long, value_name = "ACTOR")]
    pub(crate) execution_actor: Option<String>,
    /// Actor that estimates effort and cost
    #[arg(long, value_name = "ACTOR")]
    pub(crate) estimation_actor: Option<String>,
    /// Actor that reviews the result; `none` to skip the review
    #[arg(long, value_name = "ACTOR")]
    pub(crate) review_actor: Option<String>,
    /// Actor that reconciles invariants; `none` to skip it
    #[arg(long, value_name = "ACTOR")]
    pub(crate) invariant_actor: Option<String>,
    /// Additional invariant; may be repeated
    #[arg(long, value_name = "TEXT")]
    pub(crate) invariant: Vec<String>,
    /// Maximum cost, in US dollars
    #[arg(long, value_name = "USD")]
    pub(crate) max_cost: Option<String>,
    /// Refuse tools that write
    #[arg(long)]
    pub(crate) read_only: bool,
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "options, each on its own")]
pub(crate) struct PlanExecute {
    #[command(flatten)]
    pub(crate) plan: PlanChoice,
    /// Stream the output of models
    #[arg(long)]
    pub(crate) stream: bool,
    /// Queue the plan for a worker, and start a worker if none runs
    #[arg(long)]
    pub(crate) background: bool,
    /// Retry a call whose outcome is unknown
    #[arg(long = "retry", alias = "redo", conflicts_with = "skip")]
    pub(crate) redo: bool,
    /// Assume that a call whose outcome is unknown succeeded
    #[arg(long)]
    pub(crate) skip: bool,
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "one per option")]
pub(crate) struct PlanApply {
    #[command(flatten)]
    pub(crate) plan: PlanChoice,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Finish a plan that changed nothing
    #[arg(long)]
    pub(crate) allow_empty: bool,
    /// Merge the plan's commit instead of adding one commit on top
    #[arg(long)]
    pub(crate) merge: bool,
    /// Commit on a new branch; your files and current branch stay unchanged
    #[arg(long, value_name = "NAME", conflicts_with = "merge")]
    pub(crate) branch: Option<String>,
    /// Commit on a new branch, push it to `origin` and open a pull or merge request
    #[arg(long, conflicts_with = "merge")]
    pub(crate) pr: bool,
    /// Title of the pull or merge request; the first line of the task when not given
    #[arg(long, value_name = "TEXT", requires = "pr")]
    pub(crate) title: Option<String>,
    /// Commit message
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Runs queued plans, and starts attempts on the work items of active pools. Several workers, on one or
more machines, share both: each plan and each item has one worker at a time. When a worker dies, another
one resumes its plans and repeats its attempts. Ctrl-C and SIGTERM end a worker; interrupted attempts are
not charged to their items.

With --until-idle, only queued plans run, no pools. `agents pool run` runs pools without queued plans.

Examples:
  agents worker
  agents worker --concurrency 4
  agents worker --until-idle"
)]
pub(crate) struct Worker {
    /// Maximum number of plans to run in parallel, and of attempts of pools; `plan.concurrency` when not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=64))]
    pub(crate) concurrency: Option<u64>,
    /// Run only queued plans, and exit when the queue is empty
    #[arg(long)]
    pub(crate) until_idle: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Creates a resource and a project for the folder if needed, an action from your description, and a
plan. Where the mode needs approval, asks you or waits for `agents plan approve`.

Modes: `plan` stops after the strategy; `ask` asks before execution and apply; `edit` asks before
apply; `auto` also applies when all required checks pass. Default: the key `core.mode`, else `ask`.

Examples:
  agents do 'fix the failing test'
  agents do 'rename Widget to Gadget everywhere' --check 'make test' --mode edit
  agents do 'run `make docs`' --strategy-actor builtin/deterministic"
)]
pub(crate) struct Do {
    /// Description of the task
    pub(crate) task: String,
    /// Folder to work on; the current one when not given
    #[arg(long, value_name = "FOLDER")]
    pub(crate) folder: Option<PathBuf>,
    /// Command that must succeed at the end; may be repeated
    #[arg(long, value_name = "COMMAND")]
    pub(crate) check: Vec<String>,
    /// Model of all roles without an actor of their own, PROVIDER/MODEL
    #[arg(long, short = 'm', value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Degree of automation: plan, ask, edit, auto
    #[arg(long, value_name = "MODE", value_parser = super::automation::modes(), conflicts_with = "automation_profile")]
    pub(crate) mode: Option<Mode>,
    #[command(flatten)]
    pub(crate) choices: PlanChoices,
    /// Apply without asking
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Stream the output of models
    #[arg(long)]
    pub(crate) stream: bool,
}

/// Arguments of `plan spawn`.
#[derive(Debug, Args)]
pub(crate) struct PlanSpawn {
    /// Task of the part; two arguments are a plan and the task
    #[arg(value_name = "[PLAN] TASK", num_args = 1..=2, required = true)]
    pub(crate) task: Vec<String>,
    /// Paths that the part changes, comma-separated
    #[arg(long, value_name = "PATHS", value_delimiter = ',')]
    pub(crate) files: Vec<String>,
    /// Numbers of the steps that must be done before, comma-separated
    #[arg(long, value_name = "STEPS", value_delimiter = ',')]
    pub(crate) after: Vec<usize>,
}

/// Arguments of `plan correct`.
#[derive(Debug, Args)]
pub(crate) struct PlanCorrect {
    /// Id of the decision, or prefix of at least 6 characters
    pub(crate) decision: String,
    /// Instruction to follow instead (revert) or in addition (append)
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) guidance: String,
    /// `revert` discards what follows from the decision; `append` keeps everything and adds a child plan
    #[arg(long, default_value = "revert", value_parser = ["revert", "append"])]
    pub(crate) mode: String,
    /// Only show what would be discarded
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
}
