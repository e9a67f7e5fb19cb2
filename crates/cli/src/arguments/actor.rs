//! `actor`: manages and runs actors: models, tools and graphs of them.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use cleveragents_application::RunPlace;

use super::{Deletion, SafetyOptions};

#[derive(Debug, Subcommand)]
pub(crate) enum Actor {
    /// Register an actor from a YAML file
    #[command(
        after_help = "The content of the file is stored; the file is not read again. Actors that it refers to
must be registered before it. `agents schema actor` prints the JSON schema of such files.

Examples:
  agents actor add --config review.yaml
  agents actor add --config review.yaml --update"
    )]
    Add {
        #[command(flatten)]
        file: ActorFile,
        /// Replace the actor of the same name
        #[arg(long)]
        update: bool,
    },
    /// List actors: registered ones, and one for each model
    #[command(after_help = "Examples:
  agents actor list
  agents actor list --custom")]
    List {
        /// Only registered actors
        #[arg(long)]
        custom: bool,
    },
    /// Show an actor: models, tools, graph and usage
    #[command(after_help = "Examples:
  agents actor show local/review
  agents --format json actor show openai/gpt-4o")]
    Show {
        #[command(flatten)]
        actor: ActorReference,
    },
    /// Update a registered actor from its file
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
        #[command(flatten)]
        deletion: Deletion,
    },
    /// Set the actor that answers when none is given
    #[command(
        after_help = "Sets the configuration key `actor.default.general`; with --role, the default of
that role.

Examples:
  agents actor set-default local/helper
  agents actor set-default local/thinker --role strategy"
    )]
    SetDefault {
        #[command(flatten)]
        actor: ActorReference,
        /// Role
        #[arg(long, value_enum)]
        role: Option<RoleName>,
    },
    /// Run an actor and wait for its answer
    Run(Box<ActorRun>),
    /// Draw the graph of an actor
    #[command(after_help = "Examples:
  agents actor graph local/review
  agents actor graph local/review --as mermaid
  agents actor graph --config review.yaml --as svg --output review.svg")]
    Graph {
        /// Actor
        #[arg(value_name = "NAME", required_unless_present = "config")]
        name: Option<String>,
        /// Draw the actor of this file, without registering it
        #[arg(long, short = 'c', value_name = "FILE", conflicts_with = "name")]
        config: Option<PathBuf>,
        /// Format of the drawing
        #[arg(long = "as", value_enum, default_value_t = Drawing::Text)]
        drawing: Drawing,
        /// Output file instead of standard output
        #[arg(long, short = 'o', value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Manage named conversations that runs continue
    #[command(subcommand)]
    Context(ActorContext),
}

#[derive(Debug, Args)]
pub(crate) struct ActorFile {
    /// YAML file, `-` for standard input
    #[arg(long, short = 'c', value_name = "FILE")]
    pub(crate) config: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ActorReference {
    /// Actor, such as local/review or openai/gpt-4o
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleName {
    Strategy,
    Execution,
    Estimation,
    Invariant,
    Review,
}

/// Formats of a drawn graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Drawing {
    /// Text for a terminal
    Text,
    /// A Mermaid flowchart
    Mermaid,
    /// Graphviz DOT
    Dot,
    /// SVG image
    Svg,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Every step is stored. When Ctrl-C, a crash or a failing model interrupts the run, `agents
run resume RUN` continues after the last finished step; `agents run show RUN` shows the steps.

Exit codes: 0 finished, 1 failed or cancelled, 3 actor not found, 5 user input
required, 130 interrupted

Examples:
  agents actor run local/review 'Look at the last commit' --project local/shop
  agents actor run openai/gpt-4o 'Say hello' --skill local/files --sandbox fix
  git diff | agents actor run local/review -
  agents actor run --config draft.yaml 'Try this' --input '{\"tone\": \"dry\"}'"
)]
pub(crate) struct ActorRun {
    /// Actor; `actor.default.general` when not given
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Prompt, `-` for standard input
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,
    /// Prompt, instead of PROMPT
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
    /// Additional values of the initial state, a JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) input: Option<String>,
    /// Value for templates, as context.KEY; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Skill whose tools every model of the actor may call; may be repeated
    #[arg(long, value_name = "SKILL")]
    pub(crate) skill: Vec<String>,
    /// MCP server whose tools every model of the actor may call; may be repeated
    #[arg(long, value_name = "SERVER")]
    pub(crate) mcp: Vec<String>,
    /// Tool or pattern, such as builtin/git-*, that every model of the actor may call; may be
    /// repeated
    #[arg(long, value_name = "PATTERN")]
    pub(crate) tool: Vec<String>,
    /// Sampling temperature of models, from 0 to 2
    #[arg(long, value_name = "NUMBER", value_parser = temperature)]
    pub(crate) temperature: Option<f64>,
    /// Continue this named conversation and append to it
    #[arg(long, value_name = "NAME", conflicts_with = "load_context")]
    pub(crate) context: Option<String>,
    /// Start with the messages of this exported context
    #[arg(long, value_name = "FILE")]
    pub(crate) load_context: Option<PathBuf>,
    /// Also write the answer to this file
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Stream the answer
    #[arg(long)]
    pub(crate) stream: bool,
    /// Allow an actor whose file has `unsafe: true`
    #[arg(long = "unsafe")]
    pub(crate) allow_unsafe: bool,
    #[command(flatten)]
    pub(crate) options: RunOptions,
    /// Append every model request and response to this file, for replay/FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
}

/// Sandbox and permissions of the tools of a run. Stored with the run, so that `run resume` uses
/// the same.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct RunOptions {
    /// Run tools in a sandbox of this project's resources
    #[arg(long, value_name = "PROJECT", conflicts_with = "sandbox")]
    pub(crate) project: Option<String>,
    /// Run tools in this sandbox
    #[arg(long, value_name = "NAME")]
    pub(crate) sandbox: Option<String>,
    /// Refuse tools that write
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Additional permission rule, such as "deny builtin/shell(rm *)"; may be repeated
    #[arg(long, value_name = "RULE")]
    pub(crate) rule: Vec<String>,
    /// Maximum cost of the run, in US dollars
    #[arg(long, value_name = "USD")]
    pub(crate) max_cost: Option<String>,
    #[command(flatten)]
    pub(crate) safety: SafetyOptions,
}

impl From<&RunOptions> for RunPlace {
    fn from(options: &RunOptions) -> Self {
        Self {
            project: options.project.clone(),
            sandbox: options.sandbox.clone(),
            read_only: options.read_only,
            rule: options.rule.clone(),
            max_cost: options.max_cost.clone(),
            safety: (&options.safety).into(),
        }
    }
}

/// Parses a sampling temperature: from 0 to 2, as in actor files.
fn temperature(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if (0.0..=2.0).contains(&number) => Ok(number),
        _ => Err("write a number from 0 to 2".to_owned()),
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum ActorContext {
    /// List contexts
    #[command(after_help = "Example:
  agents actor context list")]
    List,
    /// Show the messages of a context
    #[command(after_help = "Example:
  agents actor context show weekly")]
    Show {
        /// Context
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Delete all messages of one context or all contexts; the contexts stay
    #[command(after_help = "Examples:
  agents actor context clear weekly --yes
  agents actor context clear --all --yes")]
    Clear {
        #[command(flatten)]
        which: WhichContext,
    },
    /// Delete a context and its messages
    #[command(after_help = "Example:
  agents actor context remove weekly --yes")]
    Remove {
        #[command(flatten)]
        which: WhichContext,
    },
    /// Export a context: as YAML if the file name ends in .yaml or .yml, otherwise as JSON
    #[command(after_help = "Examples:
  agents actor context export weekly --output weekly.json
  agents actor context export weekly")]
    Export {
        /// Context
        #[arg(value_name = "NAME")]
        name: String,
        /// Output file; standard output when not given
        #[arg(long, short = 'o', value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Import a context from a JSON or YAML file
    #[command(after_help = "Examples:
  agents actor context import weekly.json
  agents actor context import weekly.yaml --name copy")]
    Import {
        /// File, `-` for standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Name of the imported context
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct WhichContext {
    /// Context
    #[arg(
        value_name = "NAME",
        required_unless_present = "all",
        conflicts_with = "all"
    )]
    pub(crate) name: Option<String>,
    /// All contexts
    #[arg(long, short = 'a')]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) deletion: Deletion,
}
