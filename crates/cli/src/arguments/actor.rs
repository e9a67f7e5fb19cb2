//! `actor`: models, tools and graphs of them, and runs of them.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use cleveragents_application::RunPlace;

use super::SafetyOptions;

#[derive(Debug, Subcommand)]
pub(crate) enum Actor {
    /// Register an actor from a YAML file
    #[command(
        after_help = "The text of the file is kept; the file itself is not read again. Other actors that it refers to
must be registered before it. `agents schema actor` prints the JSON schema of such files.

Examples:
  agents actor add --config review.yaml
  agents actor add --config review.yaml --update"
    )]
    Add {
        #[command(flatten)]
        file: ActorFile,
        /// Replace an actor of the same name
        #[arg(long)]
        update: bool,
    },
    /// List the actors there are: yours, and one for each model
    #[command(after_help = "Examples:
  agents actor list
  agents actor list --custom")]
    List {
        /// Only those that were registered
        #[arg(long)]
        custom: bool,
    },
    /// Show an actor: its models, tools and graph, and how it was used
    #[command(after_help = "Examples:
  agents actor show local/review
  agents --format json actor show openai/gpt-4o")]
    Show {
        #[command(flatten)]
        actor: ActorReference,
    },
    /// Register an actor again from its changed file
    #[command(after_help = "Example:
  agents actor update --config review.yaml")]
    Update {
        #[command(flatten)]
        file: ActorFile,
    },
    /// Remove a registered actor
    #[command(after_help = "Example:
  agents actor remove local/review --yes")]
    Remove {
        #[command(flatten)]
        actor: ActorReference,
        /// Do not ask for confirmation
        #[arg(long, short = 'y')]
        yes: bool,
    },
    /// Let an actor answer where none is named
    #[command(
        after_help = "It is written to the configuration as `actor.default.general`; with --role as the default of
that role.

Examples:
  agents actor set-default local/helper
  agents actor set-default local/thinker --role strategy"
    )]
    SetDefault {
        #[command(flatten)]
        actor: ActorReference,
        /// Only for this role
        #[arg(long, value_enum)]
        role: Option<RoleName>,
    },
    /// Run an actor: ask it something, and wait for its answer
    Run(Box<ActorRun>),
    /// Draw the graph of an actor
    #[command(after_help = "Examples:
  agents actor graph local/review
  agents actor graph local/review --as mermaid
  agents actor graph --config review.yaml --as svg --output review.svg")]
    Graph {
        /// The actor
        #[arg(value_name = "NAME", required_unless_present = "config")]
        name: Option<String>,
        /// Draw the actor of this file instead, without registering it
        #[arg(long, short = 'c', value_name = "FILE", conflicts_with = "name")]
        config: Option<PathBuf>,
        /// How to draw it
        #[arg(long = "as", value_enum, default_value_t = Drawing::Text)]
        drawing: Drawing,
        /// Write it to this file instead of standard output
        #[arg(long, short = 'o', value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Named conversations that runs go on with
    #[command(subcommand)]
    Context(ActorContext),
}

#[derive(Debug, Args)]
pub(crate) struct ActorFile {
    /// The YAML file, `-` for standard input
    #[arg(long, short = 'c', value_name = "FILE")]
    pub(crate) config: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ActorReference {
    /// The actor, such as local/review or openai/gpt-4o
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// A role of an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleName {
    Strategy,
    Execution,
    Estimation,
    Invariant,
    Review,
}

/// How a graph is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Drawing {
    /// For a terminal
    Text,
    /// A Mermaid flowchart
    Mermaid,
    /// A picture
    Svg,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The run is stored step by step. When it is cut off, by Ctrl-C, a crash or a failing model, `agents
run resume RUN` goes on after the last finished step; `agents run show RUN` shows the steps.

Exit codes: 0 it came to its end, 1 it failed or was cancelled, 3 there is no such actor, 5 a person
is needed, 130 interrupted

Examples:
  agents actor run local/review 'Look at the last commit' --project local/shop
  agents actor run openai/gpt-4o 'Say hello' --skill local/file-ops --sandbox fix
  git diff | agents actor run local/review -
  agents actor run --config draft.yaml 'Try this' --input '{\"tone\": \"dry\"}'"
)]
pub(crate) struct ActorRun {
    /// The actor; `actor.default.general` when not given
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// What it is asked, `-` for standard input
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,
    /// What it is asked, instead of PROMPT
    #[arg(
        long = "prompt",
        short = 'p',
        value_name = "TEXT",
        conflicts_with = "prompt"
    )]
    pub(crate) asked: Option<String>,
    /// Run the actor of this file, without registering it
    #[arg(long, short = 'c', value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// More values of the state it begins with, as a JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) input: Option<String>,
    /// A value that templates see as context.KEY; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// A skill, the tools of which every model of it may call; may be repeated
    #[arg(long, value_name = "SKILL")]
    pub(crate) skill: Vec<String>,
    /// An MCP server, the tools of which every model of it may call; may be repeated
    #[arg(long, value_name = "SERVER")]
    pub(crate) mcp: Vec<String>,
    /// A tool, or tools like builtin/git-*, that every model of it may call; may be repeated
    #[arg(long, value_name = "PATTERN")]
    pub(crate) tool: Vec<String>,
    /// How freely models choose words, from 0 to 2
    #[arg(long, value_name = "NUMBER", value_parser = temperature)]
    pub(crate) temperature: Option<f64>,
    /// Go on with this named conversation, and add to it
    #[arg(long, value_name = "NAME", conflicts_with = "load_context")]
    pub(crate) context: Option<String>,
    /// Begin with the messages of this exported context
    #[arg(long, value_name = "FILE")]
    pub(crate) load_context: Option<PathBuf>,
    /// Write the answer to this file too
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Show the answer as it comes
    #[arg(long)]
    pub(crate) stream: bool,
    /// Allow an actor whose file says `unsafe: true`
    #[arg(long = "unsafe")]
    pub(crate) allow_unsafe: bool,
    #[command(flatten)]
    pub(crate) ground: RunGround,
    /// Add every exchange with models to this file, to be given again by replay/FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
}

/// Where the tools of a run act, and what they may do. Kept with the run for whoever goes on with it.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct RunGround {
    /// Let tools act in a sandbox of this project's resources
    #[arg(long, value_name = "PROJECT", conflicts_with = "sandbox")]
    pub(crate) project: Option<String>,
    /// Let tools act in this sandbox
    #[arg(long, value_name = "NAME")]
    pub(crate) sandbox: Option<String>,
    /// Let tools look but change nothing
    #[arg(long)]
    pub(crate) read_only: bool,
    /// One more permission rule, such as "deny builtin/shell(rm *)"; may be repeated
    #[arg(long, value_name = "RULE")]
    pub(crate) rule: Vec<String>,
    /// The most that this run may cost, in US dollars
    #[arg(long, value_name = "USD")]
    pub(crate) max_cost: Option<String>,
    #[command(flatten)]
    pub(crate) safety: SafetyOptions,
}

impl From<&RunGround> for RunPlace {
    fn from(ground: &RunGround) -> Self {
        Self {
            project: ground.project.clone(),
            sandbox: ground.sandbox.clone(),
            read_only: ground.read_only,
            rule: ground.rule.clone(),
            max_cost: ground.max_cost.clone(),
            safety: (&ground.safety).into(),
        }
    }
}

/// The same bounds as in files of actors.
fn temperature(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(given) if (0.0..=2.0).contains(&given) => Ok(given),
        _ => Err("write a number from 0 to 2".to_owned()),
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum ActorContext {
    /// List the contexts there are
    #[command(after_help = "Example:
  agents actor context list")]
    List,
    /// Show what was said in a context
    #[command(after_help = "Example:
  agents actor context show weekly")]
    Show {
        /// The context
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Take all messages out of a context, or of all; the context stays
    #[command(after_help = "Examples:
  agents actor context clear weekly --yes
  agents actor context clear --all --yes")]
    Clear {
        #[command(flatten)]
        which: WhichContext,
    },
    /// Remove a context with all that was said in it
    #[command(after_help = "Example:
  agents actor context remove weekly --yes")]
    Remove {
        #[command(flatten)]
        which: WhichContext,
    },
    /// Write a context to a file: YAML when its name ends so, else JSON
    #[command(after_help = "Examples:
  agents actor context export weekly --output weekly.json
  agents actor context export weekly")]
    Export {
        /// The context
        #[arg(value_name = "NAME")]
        name: String,
        /// The file; standard output when not given
        #[arg(long, short = 'o', value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Read a context from a file, JSON or YAML
    #[command(after_help = "Examples:
  agents actor context import weekly.json
  agents actor context import weekly.yaml --name copy")]
    Import {
        /// The file, `-` for standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Another name for it
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct WhichContext {
    /// The context
    #[arg(
        value_name = "NAME",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    pub(crate) name: Option<String>,
    /// All contexts
    #[arg(long, short = 'a')]
    pub(crate) all: bool,
    /// Do not ask for confirmation
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
}
