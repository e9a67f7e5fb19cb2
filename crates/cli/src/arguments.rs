//! The command line as a tree of commands, with the help people read.

mod action;
mod actor;
mod automation;
mod invariant;
mod mcp;
mod model;
mod plan;
mod plan_work;
mod project;
mod resource;
mod run;
mod safety;
mod sandbox;
mod serve;
mod server;
mod skill;
mod tool;
mod turn;
mod validation;

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use self::action::Action;
pub(crate) use self::actor::{Actor, ActorContext, ActorRun, Drawing, RoleName, WhichContext};
pub(crate) use self::automation::AutomationProfile;
pub(crate) use self::invariant::{Invariant, InvariantPlaces};
pub(crate) use self::mcp::{Mcp, McpAdd};
pub(crate) use self::model::{Model, ModelKey, ModelTest};
pub(crate) use self::plan::PlanChoice;
pub(crate) use self::plan::{
    PhaseName, PlanCheckpoint, PlanCommand, PlanList, PlanLog, PlanTree, StateName,
    StrategyDocument, TreeDrawing,
};
pub(crate) use self::plan_work::{
    Do, Plan, PlanApply, PlanChoices, PlanExecute, PlanUse, PlanWork, Worker,
};
pub(crate) use self::project::{Project, ProjectCreate};
pub(crate) use self::resource::{Resource, ResourceAdd, ResourceType};
pub(crate) use self::run::{Run, RunList, RunResume, RunStateName};
pub(crate) use self::safety::{Safety, SafetyOptions};
pub(crate) use self::serve::{ConformanceProfile, Serve};
pub(crate) use self::server::{Audit, AuditList, Server, ServerConnect, Token, TokenCreate};
pub(crate) use self::skill::{Skill, SkillAdd};
pub(crate) use self::tool::{
    CallOutcomeName, Permission, SchemaOf, Tool, ToolCallShow, ToolCalls, ToolKind, ToolList,
    ToolRun, ToolSource,
};
pub(crate) use self::turn::{Chat, TurnOptions};
pub(crate) use self::validation::{
    Validation, ValidationAttach, ValidationAttachments, ValidationRun,
};
use crate::output::Format;

pub(crate) use sandbox::{
    ApplyAs, Sandbox, SandboxApply, SandboxCreate, SandboxDiff, SandboxExec, SandboxQuery,
    SandboxRollback,
};

/// The formats of a report, and of an exported document.
fn formats() -> PossibleValuesParser {
    let documents = ["markdown", "md"].map(|name| PossibleValue::new(name).hide(true));
    PossibleValuesParser::new(
        Format::NAMES
            .map(PossibleValue::new)
            .into_iter()
            .chain(documents),
    )
}

/// Agents that change real code with the care of a database
#[derive(Debug, Parser)]
#[command(
    name = "agents",
    version,
    propagate_version = false,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:
  agents demo                                  see what it does, in a temporary folder, without a key
  agents do 'fix the failing test'             have something done in a copy of this folder, then look and apply
  agents plan list                             see what is being done
  agents session create --name weekly          start a conversation
  agents session append weekly --role user Hi  add a message
  agents sandbox create fix --path .           work in a copy, apply it whole or not at all
  agents actor run --config review.yaml Hello  run a graph of models and tools, step by step
  agents --format json session list            one JSON document for programs
  agents -v do 'fix the failing test'          log model calls, tool calls and steps to standard error
  CLEVERAGENTS_LOG=info,cleveragents_store=debug agents info   choose what is logged (docs/logs.md)

Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 conflict, 5 a person is needed,
130 interrupted"
)]
pub(crate) struct Arguments {
    /// How to print: rich, color, table, plain, json or yaml
    #[arg(long, short = 'f', global = true, value_name = "FORMAT", hide_possible_values = true,
          value_parser = formats())]
    pub(crate) format: Option<String>,

    /// The database to use instead of the configured one
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) database_url: Option<String>,

    /// Run the command on this machine, though a server is connected
    #[arg(long, global = true)]
    pub(crate) local: bool,

    /// Log to standard error what is done; -vv also logs details for maintainers
    #[arg(short = 'v', global = true, action = clap::ArgAction::Count)]
    pub(crate) verbosity: u8,

    /// Add the log to this file, which is rotated daily
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) log_file: Option<String>,

    /// Write the log as text or as JSON lines: text or json
    #[arg(long, global = true, value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Arguments {
    /// Takes the options that every command has from behind a type's flags, where only `resource
    /// add` would see them.
    pub(crate) fn gather(mut self) -> Result<Self, clap::Error> {
        if let Command::Resource(Resource::Add(add)) = &mut self.command {
            let behind = resource::Behind::of(std::mem::take(&mut add.rest))?;
            add.rest = behind.rest;
            self.format = behind.format.or(self.format);
            self.database_url = behind.database_url.or(self.database_url);
            self.log_file = behind.log_file.or(self.log_file);
            self.log_format = behind.log_format.or(self.log_format);
            self.verbosity = behind.verbosity.max(self.verbosity);
        }
        Ok(self)
    }

    /// The filter of the log that `-v` stands for.
    pub(crate) const fn log_filter(&self) -> Option<&'static str> {
        match self.verbosity {
            0 => None,
            1 => Some(crate::logging::VERBOSE),
            _ => Some(crate::logging::VERY_VERBOSE),
        }
    }

    /// The format of the report. `markdown` names the document of an export instead.
    pub(crate) fn report_format(&self) -> Option<Format> {
        self.format.as_deref().and_then(|name| name.parse().ok())
    }

    pub(crate) fn asks_for_markdown(&self) -> bool {
        matches!(self.format.as_deref(), Some("markdown" | "md"))
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// See the story of a plan told by doing it, in a temporary folder and without a key
    Demo,
    /// Make the home folder, configuration file and database
    Init(Init),
    /// Show the version of the program and its parts
    Version,
    /// Show where everything is and how much there is
    Info,
    /// Check home, configuration and database, and repair what can be repaired
    Diagnostics(Diagnostics),
    /// Read and change the configuration
    #[command(subcommand)]
    Config(Config),
    /// Talk with a model that acts through tools
    Chat(Chat),
    /// Keep actors, models, tools and graphs of them, and run them
    #[command(subcommand)]
    Actor(Actor),
    /// Keep servers of the Model Context Protocol, whose tools models can use
    #[command(subcommand)]
    Mcp(Mcp),
    /// Look at runs of actors step by step, go on with them, stop them
    #[command(subcommand)]
    Run(Run),
    /// Make plans, carry them out in a sandbox, apply them whole or not at all
    #[command(subcommand)]
    Plan(Plan),
    /// Have something done in this folder: an action, a plan, and the way through it
    Do(Do),
    /// Drive plans that were left to a worker
    Worker(Worker),
    /// Keep conversations
    #[command(subcommand)]
    Session(Session),
    /// Keep what plans work on: repositories, folders, databases
    #[command(subcommand)]
    Resource(Resource),
    /// Keep projects, which link resources
    #[command(subcommand)]
    Project(Project),
    /// Keep actions, the templates that plans are made from
    #[command(subcommand)]
    Action(Action),
    /// Say what plans must keep true
    #[command(subcommand)]
    Invariant(Invariant),
    /// Work in copies and apply the result whole or not at all
    #[command(subcommand)]
    Sandbox(Sandbox),
    /// See which models can be asked, and try one
    #[command(subcommand)]
    Model(Model),
    /// See, register and call tools
    #[command(subcommand)]
    Tool(Tool),
    /// Keep skills: tools that belong together, and folders of instructions
    #[command(subcommand)]
    Skill(Skill),
    /// Say what tools may do without asking, and what they may not do
    #[command(subcommand)]
    Permission(Permission),
    /// See how careful tools are made to be, and by whom
    #[command(subcommand, alias = "safety-profile")]
    Safety(Safety),
    /// Keep validations, which judge the work of plans
    #[command(subcommand)]
    Validation(Validation),
    /// Say how much plans do by themselves, and where they ask
    #[command(subcommand)]
    AutomationProfile(AutomationProfile),
    /// Print the JSON schema of a file that the program reads, for editors
    #[command(after_help = "Example:
  agents schema tool > tool.schema.json

With the YAML language server, write this as the first line of the file of a tool:
  # yaml-language-server: $schema=tool.schema.json")]
    Schema {
        /// Which file
        #[arg(value_name = "NAME", value_enum)]
        of: SchemaOf,
    },
    /// Look after the database
    #[command(subcommand)]
    Db(Db),
    /// Remove what is no longer kept
    #[command(subcommand)]
    Cleanup(Cleanup),
    /// Let others call this program over HTTP
    Serve(Serve),
    /// Choose the server that commands are sent to
    #[command(subcommand)]
    Server(Server),
    /// Say who may call a server, and what they may do
    #[command(subcommand)]
    Token(Token),
    /// See who did what, and that nobody changed the account of it
    #[command(subcommand)]
    Audit(Audit),
    /// Print a completion script for a shell
    #[command(after_help = "Example:
  agents completion bash > ~/.local/share/bash-completion/completions/agents")]
    Completion {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
#[command(
    after_help = "Without --force nothing that exists is changed. With --force the present database and
configuration are moved to a folder under backups/ in the home, never deleted."
)]
pub(crate) struct Init {
    /// Start anew: move the present data to backups/ first
    #[arg(long)]
    pub(crate) force: bool,
    /// Do not ask for confirmation
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Diagnostics {
    /// Repair what can be repaired; nothing is ever deleted
    #[arg(long)]
    pub(crate) repair: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Show the value of a key and where it comes from
    Get {
        /// The key, such as core.format
        key: String,
        /// Show every level that could set it
        #[arg(long)]
        verbose: bool,
    },
    /// Set a key
    #[command(after_help = "Examples:
  agents config set core.format json
  agents config set --project session.max-message-bytes 65536")]
    Set {
        /// The key, such as core.format
        key: String,
        /// Its value
        value: String,
        /// Set it in ./.cleveragents/config.toml for this folder instead
        #[arg(long)]
        project: bool,
    },
    /// Remove a key, so that the next level decides
    Unset {
        /// The key, such as core.format
        key: String,
        /// Remove it from ./.cleveragents/config.toml instead
        #[arg(long)]
        project: bool,
    },
    /// List every key with its value and where it comes from
    List,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Session {
    /// Start a session
    Create(SessionCreate),
    /// List sessions
    List(SessionList),
    /// Show a session and its last messages
    Show {
        #[command(flatten)]
        session: SessionReference,
        /// How many of its last messages to show
        #[arg(long, default_value_t = 10, value_name = "N")]
        recent: u64,
    },
    /// Add a message, or a stream of messages, to a session
    Append(SessionAppend),
    /// Show the messages of a session in order
    Messages(SessionMessages),
    /// Give a session another name
    Rename {
        #[command(flatten)]
        session: SessionReference,
        /// The new name, one line of text
        name: String,
        /// Only if the session is still at this version
        #[arg(long, value_name = "VERSION")]
        if_version: Option<u64>,
    },
    /// Remove a session and its messages
    Delete {
        #[command(flatten)]
        session: SessionReference,
        /// Do not ask for confirmation
        #[arg(long, short = 'y')]
        yes: bool,
    },
    /// Write a session to a file or to standard output
    Export(SessionExport),
    /// Make a new session from an exported file
    Import(SessionImport),
    /// Make a new session from the beginning of another
    Fork {
        #[command(flatten)]
        session: SessionReference,
        /// The last message to take along; all of them when not given
        #[arg(long, value_name = "SEQ")]
        at: Option<u64>,
        /// The name of the new session
        #[arg(long)]
        name: Option<String>,
    },
    /// Search all messages
    Search(SessionSearch),
    /// Ask a model something, and let it act on it with tools
    Tell(Box<SessionTell>),
}

#[derive(Debug, Args)]
#[command(
    after_help = "Tools act in a sandbox: the one of --sandbox, or one made of the project's resources, named
after the session. Your own files change only when you apply it: `agents sandbox diff NAME`,
`agents sandbox apply NAME`. Without a sandbox nothing can be read or changed.

Examples:
  agents session tell --session weekly \"What did we decide on Tuesday?\"
  agents session tell --session weekly --project local/shop --stream \"Add a test for the basket\"
  git diff | agents session tell --session review --actor anthropic/claude-sonnet-4-5 -
  agents session tell --session weekly --resume"
)]
pub(crate) struct SessionTell {
    /// The session: its id, the first 6 or more characters of it, or its name
    #[arg(long, value_name = "SESSION")]
    pub(crate) session: String,
    /// Show the answer as it comes
    #[arg(long)]
    pub(crate) stream: bool,
    #[command(flatten)]
    pub(crate) turn: TurnOptions,
    /// Go on with the turn that was interrupted
    #[arg(long, conflicts_with = "prompt")]
    pub(crate) resume: bool,
    /// What to ask, `-` to read it from standard input
    #[arg(value_name = "PROMPT", required_unless_present = "resume")]
    pub(crate) prompt: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SessionReference {
    /// The session: its id, the first 6 or more characters of it, or its name
    #[arg(value_name = "SESSION")]
    pub(crate) reference: String,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  agents session create --name weekly-planning --actor local/orchestrator")]
pub(crate) struct SessionCreate {
    /// What to call it, one line of text
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// The actor that answers in it, such as local/orchestrator or openai/gpt-5
    #[arg(long)]
    pub(crate) actor: Option<String>,
    /// The namespace it belongs to, `local` when not given
    #[arg(long)]
    pub(crate) namespace: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agents session list --sort messages --limit 10
  agents session list --name planning --since 2026-01-01T00:00:00Z")]
pub(crate) struct SessionList {
    /// Only sessions whose name holds this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) name: Option<String>,
    /// Only sessions with this actor
    #[arg(long)]
    pub(crate) actor: Option<String>,
    /// Only sessions in this namespace
    #[arg(long)]
    pub(crate) namespace: Option<String>,
    /// Only sessions changed at or after this time (RFC 3339)
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<cleveragents_domain::Timestamp>,
    /// What to sort by
    #[arg(long, value_enum, default_value_t = SessionSort::Updated)]
    pub(crate) sort: SessionSort,
    /// Turn the order around
    #[arg(long)]
    pub(crate) reverse: bool,
    /// At most so many; all when not given
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Skip so many first
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) offset: u64,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum SessionSort {
    Updated,
    Created,
    Name,
    Messages,
}

#[derive(Debug, Args)]
#[command(
    after_help = "With --jsonl one message is read per line, {\"content\": …, \"role\": …, \"metadata\": …} with the
last two optional, and one acknowledgement {\"sequence\": N, \"message_id\": …} is written per line as
soon as that message is durable. A wrong line ends the stream; the lines before it are kept.

Examples:
  agents session append weekly --role user 'Where do we stand?'
  git log -1 | agents session append weekly --role tool -
  producer | agents session append weekly --jsonl -"
)]
pub(crate) struct SessionAppend {
    #[command(flatten)]
    pub(crate) session: SessionReference,
    /// Who says it: user, assistant, system or tool
    #[arg(long, default_value = "user")]
    pub(crate) role: String,
    /// Facts about the message, a JSON object
    #[arg(long, value_name = "JSON", conflicts_with = "jsonl")]
    pub(crate) metadata: Option<String>,
    /// Read messages from a file of JSON lines, `-` for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) jsonl: Option<PathBuf>,
    /// The text, `-` to read it from standard input
    #[arg(
        value_name = "TEXT",
        conflicts_with = "jsonl",
        required_unless_present = "jsonl"
    )]
    pub(crate) text: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Example, page by page:
  agents session messages weekly --limit 100
  agents session messages weekly --after 99 --limit 100")]
pub(crate) struct SessionMessages {
    #[command(flatten)]
    pub(crate) session: SessionReference,
    /// Only messages after this number
    #[arg(long, value_name = "SEQ")]
    pub(crate) after: Option<u64>,
    /// At most so many; all when not given
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Without --output the document itself is written to standard output and nothing else.

Examples:
  agents session export weekly --output weekly.json
  agents session export weekly --as markdown > weekly.md"
)]
pub(crate) struct SessionExport {
    #[command(flatten)]
    pub(crate) session: SessionReference,
    /// The file to write, `-` for standard output
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The document: json can be imported again, markdown is for reading
    #[arg(long = "as", value_enum, value_name = "DOCUMENT")]
    pub(crate) document: Option<ExportDocument>,
    /// Overwrite the file if it exists
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportDocument {
    Json,
    #[value(alias = "md")]
    Markdown,
}

#[derive(Debug, Args)]
pub(crate) struct SessionImport {
    /// The file that `session export` wrote, `-` for standard input
    #[arg(long, short = 'i', value_name = "FILE")]
    pub(crate) input: PathBuf,
    /// Import a file that was changed on purpose and no longer matches its checksum
    #[arg(long)]
    pub(crate) unverified: bool,
    /// The namespace of the new session; the one in the file when not given
    #[arg(long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "All words must occur. Quotes make a phrase, a star at the end matches as a prefix.

Examples:
  agents session search race condition
  agents session search '\"engine cache\" lock*' --role user"
)]
pub(crate) struct SessionSearch {
    /// What to search for
    #[arg(required = true, value_name = "WORDS")]
    pub(crate) query: Vec<String>,
    /// Only in this session
    #[arg(long, value_name = "SESSION")]
    pub(crate) session: Option<String>,
    /// Only messages of this role
    #[arg(long)]
    pub(crate) role: Option<String>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: u64,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Db {
    /// Show what the database is, its schema version and its size
    Status,
    /// Bring the schema up to date
    Upgrade,
    /// Look for damage and broken rules
    Check,
    /// Give unused space back to the system
    Vacuum,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Cleanup {
    /// Show what a cleanup would remove
    Status,
    /// Remove what is no longer kept
    Run {
        /// Only show what would be removed
        #[arg(long)]
        dry_run: bool,
    },
}
