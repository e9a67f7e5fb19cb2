//! `plan`: plans, to be worked with; `do` and `worker`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::plan::{PlanChoice, PlanCommand, PlanReference};

/// Everything that can be done with plans.
#[derive(Debug, Subcommand)]
pub(crate) enum Plan {
    #[command(flatten)]
    Look(PlanCommand),
    #[command(flatten)]
    Work(Box<PlanWork>),
}

#[derive(Debug, Subcommand)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one, on the way from the command line"
)]
pub(crate) enum PlanWork {
    /// Make a plan from an action, and begin it as far as its automation profile allows
    #[command(
        after_help = "The automation profile decides what runs by itself: with `supervised`, the usual one, the plan is
thought out at once, and waits for `agents plan execute` and `agents plan apply`.

Exit codes: 0 made, 1 thinking it out failed, 2 a wrong argument, 3 no such action or project, 5 a person is needed,
130 interrupted

Examples:
  agents plan use local/fix-bug local/shop --arg issue=17
  agents plan use local/fix-bug local/shop --automation-profile trusted
  agents plan use local/port local/api local/web --strategy-actor local/architect --max-cost 2.50"
    )]
    Use(PlanUse),
    /// Carry a plan out, or go on with it where it stopped
    #[command(
        after_help = "Does the next phase: thinks a plan out that is not yet, carries one out that is. What was done before is not
done again, whatever stopped it.

Exit codes: 0 done, 1 failed, 4 somebody else works on it or it is over, 5 a person is needed, 130 interrupted

Examples:
  agents plan execute
  agents plan execute 01JX3Q --stream
  agents plan execute 01JX3Q --background
  agents plan execute 01JX3Q --redo"
    )]
    Execute(PlanExecute),
    /// Carry what a plan did to your files: all of it, or nothing
    #[command(
        after_help = "Refused while a required validation failed or did not run on what is in the sandbox now. On conflict
your files stay as they are.

Exit codes: 0 applied, 1 validations stand in the way, 4 conflict, 5 it was not confirmed, 130 interrupted

Examples:
  agents plan apply
  agents plan apply 01JX3Q --yes"
    )]
    Apply(PlanApply),
    /// Give a plan up
    Cancel {
        #[command(flatten)]
        plan: PlanReference,
        /// Why, for the log
        #[arg(
            short,
            long,
            value_name = "TEXT",
            default_value = "cancelled by the user"
        )]
        reason: String,
    },
    /// Say yes to what a plan waits for
    #[command(after_help = "Examples:
  agents plan approve 01JX3Q
  agents plan approve 01JX3Q --answer 'the second one'")]
    Approve {
        #[command(flatten)]
        plan: PlanChoice,
        /// The answer, when the plan asked a question
        #[arg(long, value_name = "TEXT")]
        answer: Option<String>,
    },
    /// Say no to what a plan waits for
    Reject {
        #[command(flatten)]
        plan: PlanChoice,
        /// Why, for the actor and the log
        #[arg(short, long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Tell a plan something for its next step
    #[command(after_help = "Example:
  agents plan prompt 01JX3Q 'keep the old name as an alias'")]
    Prompt {
        #[command(flatten)]
        plan: PlanReference,
        /// What to tell it
        guidance: String,
    },
    /// Take a plan back to a checkpoint: files, steps, decisions and calls together
    #[command(
        after_help = "Without a checkpoint those that there are are listed. `agents plan redo` takes it back.

Examples:
  agents plan rollback 01JX3Q
  agents plan rollback 01JX3Q cp_3 --preview
  agents plan rollback 01JX3Q cp_3 --yes"
    )]
    Rollback {
        #[command(flatten)]
        plan: PlanReference,
        /// The checkpoint: `cp_3`, 3, or its label
        checkpoint: Option<String>,
        /// Only show what would be taken back
        #[arg(long)]
        preview: bool,
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
    },
    /// Take the last rollback of a plan back
    Redo {
        #[command(flatten)]
        plan: PlanReference,
    },
    /// Take a plan back to its strategy, which is made anew with what was learned
    Revert {
        #[command(flatten)]
        plan: PlanReference,
        /// The phase to go back to
        #[arg(long, value_name = "PHASE", default_value = "strategize", value_parser = ["strategize"])]
        to_phase: String,
        /// Why, for the strategist and the log
        #[arg(
            short,
            long,
            value_name = "TEXT",
            default_value = "asked for by the user"
        )]
        reason: String,
    },
    /// Go on with a plan where it stopped
    Resume {
        #[command(flatten)]
        plan: PlanReference,
        /// Only show where it would go on
        #[arg(long)]
        dry_run: bool,
        /// Show what models say as they say it
        #[arg(long)]
        stream: bool,
    },
    /// Change the strategy of a plan before it is carried out
    #[command(after_help = "Opens the document in $EDITOR, or takes it from a file.

Examples:
  agents plan edit 01JX3Q
  agents plan show 01JX3Q --as markdown > s.md; agents plan edit 01JX3Q --file s.md")]
    Edit {
        #[command(flatten)]
        plan: PlanReference,
        /// The new document; `-` for standard input
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct PlanUse {
    /// The action
    pub(crate) action: String,
    /// The projects it works on
    #[arg(value_name = "PROJECT")]
    pub(crate) projects: Vec<String>,
    /// One more project
    #[arg(short, long = "project", value_name = "PROJECT")]
    pub(crate) more_projects: Vec<String>,
    /// The value of an argument of the action
    #[arg(long = "arg", value_name = "NAME=VALUE")]
    pub(crate) arguments: Vec<String>,
    #[command(flatten)]
    pub(crate) choices: PlanChoices,
    /// Only make it; nothing is begun
    #[arg(long)]
    pub(crate) no_start: bool,
    /// Show what models say as they say it
    #[arg(long)]
    pub(crate) stream: bool,
}

/// What a person chooses for a plan.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PlanChoices {
    /// How much it does by itself: `agents automation-profile list`
    #[arg(long, value_name = "NAME")]
    pub(crate) automation_profile: Option<String>,
    /// Who thinks it out
    #[arg(long, value_name = "ACTOR")]
    pub(crate) strategy_actor: Option<String>,
    /// Who carries it out
    #[arg(long, value_name = "ACTOR")]
    pub(crate) execution_actor: Option<String>,
    /// Who says what it will take
    #[arg(long, value_name = "ACTOR")]
    pub(crate) estimation_actor: Option<String>,
    /// Who judges whether it is done; `none` for nobody
    #[arg(long, value_name = "ACTOR")]
    pub(crate) review_actor: Option<String>,
    /// Who brings invariants together; `none` for nobody
    #[arg(long, value_name = "ACTOR")]
    pub(crate) invariant_actor: Option<String>,
    /// What it must keep true, beside all else
    #[arg(long, value_name = "TEXT")]
    pub(crate) invariant: Vec<String>,
    /// The most it may cost, in US dollars
    #[arg(long, value_name = "USD")]
    pub(crate) max_cost: Option<String>,
    /// It may only look
    #[arg(long)]
    pub(crate) read_only: bool,
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "options, each on its own")]
pub(crate) struct PlanExecute {
    #[command(flatten)]
    pub(crate) plan: PlanChoice,
    /// Show what models say as they say it
    #[arg(long)]
    pub(crate) stream: bool,
    /// Leave it to a worker, and begin one when there is none
    #[arg(long)]
    pub(crate) background: bool,
    /// Make a call again that was cut off
    #[arg(long, conflicts_with = "skip")]
    pub(crate) redo: bool,
    /// Take a call for done that was cut off
    #[arg(long)]
    pub(crate) skip: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PlanApply {
    #[command(flatten)]
    pub(crate) plan: PlanChoice,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// End a plan that changed nothing
    #[arg(long)]
    pub(crate) allow_empty: bool,
    /// Merge the plan's commit instead of adding one commit on top
    #[arg(long)]
    pub(crate) merge: bool,
    /// The message of the commit
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Several workers, on one machine or more, share the plans: each is driven by one at a time. A plan whose
worker died is taken over.

Examples:
  agents worker
  agents worker --concurrency 4
  agents worker --until-idle"
)]
pub(crate) struct Worker {
    /// How many plans to drive at the same time; `plan.concurrency` when not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=64))]
    pub(crate) concurrency: Option<u64>,
    /// End when there is nothing to do
    #[arg(long)]
    pub(crate) until_idle: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Makes a resource and a project of the folder when there are none, an action of your words, and a plan.
What is not allowed by the automation profile is asked, or waits for `agents plan approve`.

Examples:
  agents do 'fix the failing test'
  agents do 'rename Widget to Gadget everywhere' --check 'make test' --automation-profile trusted
  agents do 'run `make docs`' --strategy-actor builtin/deterministic"
)]
pub(crate) struct Do {
    /// What is to be done
    pub(crate) task: String,
    /// The folder to work on; this one when not given
    #[arg(long, value_name = "FOLDER")]
    pub(crate) folder: Option<PathBuf>,
    /// A command that must succeed in the end; may be given several times
    #[arg(long, value_name = "COMMAND")]
    pub(crate) check: Vec<String>,
    #[command(flatten)]
    pub(crate) choices: PlanChoices,
    /// Apply without asking when it is done
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Show what models say as they say it
    #[arg(long)]
    pub(crate) stream: bool,
}
