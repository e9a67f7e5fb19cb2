//! Command-line arguments as clap types; doc comments are the help texts.

mod action;
mod actor;
mod automation;
mod current;
mod deletion;
mod folder;
mod help;
mod invariant;
mod item;
mod item_source;
#[cfg(test)]
mod literals;
mod maintenance;
mod mcp;
mod model;
mod plan;
mod plan_work;
mod pool;
mod pool_work;
mod project;
mod resource;
mod run;
mod safety;
mod sandbox;
mod serve;
mod server;
mod skill;
mod synonyms;
mod tool;
mod turn;
mod validation;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};

pub(crate) use self::action::Action;
pub(crate) use self::actor::{Actor, ActorContext, ActorRun, Drawing, RoleName, WhichContext};
pub(crate) use self::automation::AutomationProfile;
pub(crate) use self::current::{CurrentPlan, PlanApprove, PlanPrompt, PlanReject, PlanUndo};
pub(crate) use self::deletion::{Deletion, Rehearsal};
pub(crate) use self::folder::{
    FolderChat, FolderConversation, FolderSession, OutputFormat, misplaced_conversation_options,
};
use self::help::FIRST_HELP;
use self::help::with_flowing_notes;
pub(crate) use self::help::{all_commands, unknown_command};
pub(crate) use self::invariant::{Invariant, InvariantPlaces};
pub(crate) use self::item::{Item, ItemAdd, ItemEdit, ItemList};
pub(crate) use self::item_source::{ItemSource, ItemSourceAdd, SourceKind};
pub(crate) use self::maintenance::{Cleanup, Db, Diagnostics, Init, Setup};
pub(crate) use self::mcp::{Mcp, McpAdd};
pub(crate) use self::model::{Model, ModelKey, ModelTest};
pub(crate) use self::plan::{
    ConflictSideName, PhaseName, PlanCheckpoint, PlanCommand, PlanList, PlanLog, PlanResolve,
    PlanTree, StateName, StrategyDocument, TreeDrawing,
};
pub(crate) use self::plan_work::{
    Do, Plan, PlanApply, PlanChoices, PlanCorrect, PlanExecute, PlanSpawn, PlanUse, PlanWork,
    Worker,
};
pub(crate) use self::pool::{Pool, PoolCommand, PoolStatus};
pub(crate) use self::pool_work::{Demo, DemoTopic, Fix, Hunt};
pub(crate) use self::project::{Project, ProjectCreate};
pub(crate) use self::resource::{Resource, ResourceAdd, ResourceType};
pub(crate) use self::run::{Run, RunList, RunResume, RunStateName};
pub(crate) use self::safety::{Safety, SafetyOptions};
pub(crate) use self::serve::{ConformanceProfile, Serve};
pub(crate) use self::server::{Audit, AuditList, Server, ServerConnect, Token, TokenCreate};
pub(crate) use self::skill::{Skill, SkillAdd};
use self::synonyms::with_synonyms;
pub(crate) use self::tool::{
    CallOutcomeName, Permission, PermissionPattern, SchemaOf, Tool, ToolCallShow, ToolCalls,
    ToolKind, ToolList, ToolRun, ToolSource,
};
pub(crate) use self::turn::{Chat, TurnOptions};
pub(crate) use self::validation::{
    Validation, ValidationAttach, ValidationAttachments, ValidationRun,
};
use crate::completion::CompletionShell;
use crate::output::Format;

pub(crate) use sandbox::{
    ApplyAs, Sandbox, SandboxApply, SandboxCreate, SandboxDiff, SandboxExec, SandboxQuery,
    SandboxRollback,
};

/// Formats of reports and of exported documents.
fn formats() -> PossibleValuesParser {
    let documents = ["markdown", "md"].map(|name| PossibleValue::new(name).hide(true));
    PossibleValuesParser::new(
        Format::NAMES
            .map(PossibleValue::new)
            .into_iter()
            .chain(documents),
    )
}

/// Run AI agents on real code with isolation, a log, rollback and safe concurrency
#[derive(Debug, Parser)]
#[command(
    name = "agents",
    version,
    propagate_version = false,
    override_usage = "agents [TASK]\n       agents [OPTIONS] COMMAND",
    help_template = "{about}\n\n{usage-heading} {usage}{after-help}\n\nOptions:\n{options}",
    disable_help_subcommand = true,
    after_help = FIRST_HELP
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) conversation: FolderConversation,
    // Last, because the heading of its options holds for the options after it.
    #[command(flatten)]
    pub(crate) global: GlobalOptions,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct GlobalOptions {
    /// Output format: rich, color, table, plain, json or yaml
    #[arg(long, short = 'f', global = true, value_name = "FORMAT", hide_possible_values = true,
          value_parser = formats())]
    pub(crate) format: Option<String>,

    /// Database to use instead of the configured one
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) database_url: Option<String>,

    /// Print long reports directly instead of showing them with $PAGER or less
    #[arg(long, global = true)]
    pub(crate) no_pager: bool,

    /// Run the command on this machine even when a server is connected
    #[arg(long, global = true)]
    pub(crate) local: bool,

    /// Log progress to standard error; -vv also logs details for maintainers
    #[arg(short = 'v', global = true, action = clap::ArgAction::Count)]
    pub(crate) verbosity: u8,

    /// Append the log to this file, rotated daily
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) log_file: Option<String>,

    /// Format of the log: text or json (one object per line)
    #[arg(long, global = true, value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,
}

/// A parsed command line.
#[derive(Debug)]
pub(crate) struct Invocation {
    pub(crate) global: GlobalOptions,
    pub(crate) command: Command,
}

/// The command line as the program parses and shows it.
pub(crate) fn command_line() -> clap::Command {
    with_flowing_notes(with_synonyms(Arguments::command()))
}

impl Invocation {
    /// Parses the arguments of the program.
    pub(crate) fn parse<A: Into<OsString> + Clone>(
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<Self, clap::Error> {
        let mut command = command_line();
        let mut arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
        // The long form of the first page has three lines per option and hides the commands.
        if let [_, only] = arguments.as_mut_slice()
            && only == "--help"
        {
            *only = "-h".into();
        }
        let mut matches = command.try_get_matches_from_mut(arguments)?;
        let parsed = Arguments::from_arg_matches_mut(&mut matches)
            .map_err(|error| error.format(&mut command))?;
        let Arguments {
            mut global,
            conversation,
            command,
        } = parsed;
        let mut command = match command {
            Some(command) if conversation.is_empty() => command.expand(),
            Some(_) => return Err(misplaced_conversation_options()),
            None => Command::Chat(conversation.into_chat()?),
        };
        // `resource add` receives all arguments after the type unparsed; they can include global options.
        if let Command::Resource(Resource::Add(add)) = &mut command {
            let trailing = resource::TrailingArguments::parse(std::mem::take(&mut add.rest))?;
            add.rest = trailing.rest;
            global.format = trailing.format.or(global.format);
            global.database_url = trailing.database_url.or(global.database_url);
            global.log_file = trailing.log_file.or(global.log_file);
            global.log_format = trailing.log_format.or(global.log_format);
            global.verbosity = trailing.verbosity.max(global.verbosity);
        }
        Ok(Self { global, command })
    }
}

impl GlobalOptions {
    /// Log filter that `-v` selects.
    pub(crate) const fn log_filter(&self) -> Option<&'static str> {
        match self.verbosity {
            0 => None,
            1 => Some(crate::logging::VERBOSE),
            _ => Some(crate::logging::VERY_VERBOSE),
        }
    }

    /// Format of the report; `None` for `markdown`, which selects the format of an exported document.
    pub(crate) fn report_format(&self) -> Option<Format> {
        self.format.as_deref().and_then(|name| name.parse().ok())
    }

    pub(crate) fn asks_for_markdown(&self) -> bool {
        matches!(self.format.as_deref(), Some("markdown" | "md"))
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    Current(Box<CurrentPlan>),
    /// Run a whole plan on an example project in a temporary folder, without a key
    Demo(Demo),
    /// Choose the default model and store its key
    Setup(Setup),
    /// Create the home folder, configuration file and database
    Init(Init),
    /// Show the versions of the program and its components
    Version,
    /// Show paths, versions and record counts
    Info,
    /// Check home, configuration, model and database, and repair problems
    #[command(alias = "doctor")]
    Diagnostics(Diagnostics),
    /// Explain an error code
    #[command(after_help = "Example:
  agents explain CA-0645")]
    Explain {
        /// Error code, such as CA-0645
        code: String,
    },
    /// List all commands, or show the help of one
    #[command(after_help = "Examples:
  agents help
  agents help --all
  agents help plan apply")]
    Help {
        /// List every command with its subcommands
        #[arg(long)]
        all: bool,
        /// Command
        #[arg(value_name = "COMMAND")]
        command: Vec<String>,
    },
    /// Read and change the configuration
    #[command(subcommand)]
    Config(Config),
    /// Chat with a model that calls tools
    Chat(Chat),
    /// Manage and run actors: models, tools and graphs of them
    #[command(subcommand)]
    Actor(Actor),
    /// Manage MCP servers and their tools
    #[command(subcommand)]
    Mcp(Mcp),
    /// Show, resume, cancel and replay runs of actors
    #[command(subcommand)]
    Run(Run),
    /// Create plans, execute them in a sandbox and apply them atomically
    #[command(subcommand)]
    Plan(Plan),
    /// Run a one-off task in this folder
    Do(Do),
    /// Search modules for defects and add them as work items
    Hunt(Hunt),
    /// Reproduce a work item with a failing test, fix it, review the fix and merge it
    Fix(Fix),
    /// Run queued plans and active pools in the background
    Worker(Worker),
    /// Manage work items: bugs, features and other work of a project
    #[command(subcommand)]
    Item(Item),
    /// Manage pools, which work on items under fixed rules
    #[command(subcommand)]
    Pool(Pool),
    /// Manage conversations and their messages
    #[command(subcommand)]
    Session(Session),
    /// Manage resources that plans work on: repositories, folders, databases
    #[command(subcommand)]
    Resource(Resource),
    /// Manage projects, which group resources
    #[command(subcommand)]
    Project(Project),
    /// Manage actions, the templates of plans
    #[command(subcommand)]
    Action(Action),
    /// Manage invariants: constraints that every plan must respect
    #[command(subcommand)]
    Invariant(Invariant),
    /// Work in isolated copies and apply the result atomically
    #[command(subcommand)]
    Sandbox(Sandbox),
    /// List, test and configure models
    #[command(subcommand)]
    Model(Model),
    /// List, register and call tools
    #[command(subcommand)]
    Tool(Tool),
    /// Manage skills: groups of tools, and folders of instructions
    #[command(subcommand)]
    Skill(Skill),
    /// Manage permission rules for tool calls
    #[command(subcommand)]
    Permission(Permission),
    /// Show the safety limits of tool calls and where they are set
    #[command(subcommand, alias = "safety-profile")]
    Safety(Safety),
    /// Manage validations, which check the results of plans
    #[command(subcommand)]
    Validation(Validation),
    /// Manage automation profiles, which set where plans ask for approval
    #[command(subcommand)]
    AutomationProfile(AutomationProfile),
    /// Print the JSON schema of a file format, for editors
    #[command(after_help = "Example:
  agents schema tool > tool.schema.json

For the YAML language server, start a tool file with:
  # yaml-language-server: $schema=tool.schema.json")]
    Schema {
        /// File format
        #[arg(value_name = "NAME", value_enum)]
        of: SchemaOf,
    },
    /// Check and maintain the database
    #[command(subcommand)]
    Db(Db),
    /// Show what a cleanup would free, or remove it
    #[command(
        after_help = "Without a subcommand, lists what `cleanup run` would remove, and its size.

Examples:
  agents cleanup
  agents cleanup run"
    )]
    Cleanup {
        #[command(subcommand)]
        command: Option<Cleanup>,
    },
    /// Serve the HTTP API and A2A
    Serve(Serve),
    /// Connect commands to a server
    #[command(subcommand)]
    Server(Server),
    /// Manage access tokens of a server
    #[command(subcommand)]
    Token(Token),
    /// Show and verify the audit log
    #[command(subcommand)]
    Audit(Audit),
    /// Print a completion script for a shell
    #[command(
        alias = "completions",
        after_help = "In Bash, Zsh and Fish, Tab also completes the names of plans, sandboxes, sessions, projects, actors,
pools, configuration keys and other objects.

Examples:
  agents completion bash > ~/.local/share/bash-completion/completions/agents
  agents completion zsh > ~/.zfunc/_agents     # ~/.zfunc is in $fpath
  agents completion fish > ~/.config/fish/completions/agents.fish"
    )]
    Completion {
        /// Shell
        #[arg(value_enum, value_name = "SHELL")]
        shell: CompletionShell,
    },
    /// Write the man pages of all commands to a folder
    #[command(after_help = "Examples:
  agents man --dir ~/.local/share/man/man1
  man agents-plan-apply")]
    Man {
        /// Folder, created if needed
        #[arg(long, value_name = "DIR")]
        dir: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Show the value and the source of a key
    #[command(after_help = "Examples:
  agents config get core.mode
  agents config get core.mode --verbose")]
    Get {
        /// Key, such as core.format
        key: String,
        /// Show the value at every level
        #[arg(long)]
        verbose: bool,
    },
    /// Set a key
    #[command(after_help = "Examples:
  agents config set core.format json
  agents config set --project session.max-message-bytes 65536")]
    Set {
        /// Key, such as core.format
        key: String,
        /// New value
        value: String,
        /// Set it in ./.cleveragents/config.toml, for this folder only
        #[arg(long)]
        project: bool,
    },
    /// Remove a key, so that the next level applies
    #[command(after_help = "Examples:
  agents config unset core.mode
  agents config unset core.mode --project")]
    Unset {
        /// Key, such as core.format
        key: String,
        /// Remove it from ./.cleveragents/config.toml
        #[arg(long)]
        project: bool,
    },
    /// List every key with its value and source
    List,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Session {
    /// Create a session
    Create(SessionCreate),
    /// List sessions
    List(SessionList),
    /// Show a session and its last messages
    #[command(after_help = "Examples:
  agents session show weekly
  agents session show weekly --recent 3")]
    Show {
        #[command(flatten)]
        session: SessionReference,
        /// Number of recent messages to show
        #[arg(long, default_value_t = 10, value_name = "N")]
        recent: u64,
    },
    /// Add a message, or a stream of messages, to a session
    Append(SessionAppend),
    /// List the messages of a session in order
    Messages(SessionMessages),
    /// Rename a session
    #[command(after_help = "Example:
  agents session rename weekly planning")]
    Rename {
        #[command(flatten)]
        session: SessionReference,
        /// New name, one line of text
        name: String,
        /// Rename only if the session still has this version
        #[arg(long, value_name = "VERSION")]
        if_version: Option<u64>,
    },
    /// Delete a session and its messages
    #[command(after_help = "Examples:
  agents session delete weekly --dry-run
  agents session delete weekly --yes")]
    Delete {
        #[command(flatten)]
        session: SessionReference,
        #[command(flatten)]
        deletion: Deletion,
    },
    /// Export a session to a file or to standard output
    Export(SessionExport),
    /// Create a session from an exported file
    Import(SessionImport),
    /// Create a session from the first messages of another
    #[command(after_help = "Example:
  agents session fork weekly --at 12 --name other")]
    Fork {
        #[command(flatten)]
        session: SessionReference,
        /// Last message to copy; all when not given
        #[arg(long, value_name = "SEQ")]
        at: Option<u64>,
        /// Name of the new session
        #[arg(long)]
        name: Option<String>,
    },
    /// Search all messages
    Search(SessionSearch),
    /// Send a message to a model, which may call tools
    Tell(Box<SessionTell>),
    /// Replace a long conversation by a summary in requests to the model
    Compact(SessionCompact),
}

#[derive(Debug, Args)]
#[command(
    after_help = "Tools run in a sandbox: --sandbox, or one created from the project's resources and named
after the session. Your own files change only when you apply it: `agents sandbox diff NAME`,
`agents sandbox apply NAME`. Without a sandbox, tools cannot read or change files.

Examples:
  agents session tell --session weekly \"What did we decide on Tuesday?\"
  agents session tell --session weekly --project local/shop \"Add a test\"
  git diff | agents session tell --session review --actor openai/gpt-5.1 -
  agents session tell --session weekly --resume"
)]
pub(crate) struct SessionTell {
    /// Session: id, prefix of at least 6 characters, or name
    #[arg(long, value_name = "SESSION")]
    pub(crate) session: String,
    /// Stream the answer
    #[arg(long)]
    pub(crate) stream: bool,
    #[command(flatten)]
    pub(crate) turn: TurnOptions,
    /// Resume the interrupted turn
    #[arg(long, conflicts_with = "prompt")]
    pub(crate) resume: bool,
    /// Message, `-` for standard input
    #[arg(value_name = "PROMPT", required_unless_present = "resume")]
    pub(crate) prompt: Option<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A model writes the summary. Later requests contain it instead of the messages, which all stay in the
session. Long conversations are compacted automatically.

Examples:
  agents session compact weekly
  agents session compact weekly \"the decisions about the database\""
)]
pub(crate) struct SessionCompact {
    #[command(flatten)]
    pub(crate) session: SessionReference,
    /// Topic that the summary must keep in detail
    #[arg(value_name = "FOCUS")]
    pub(crate) focus: Option<String>,
    /// Model that writes the summary, PROVIDER/MODEL; the session's actor or `model.default` when not given
    #[arg(long, visible_alias = "model", value_name = "MODEL")]
    pub(crate) actor: Option<String>,
    /// Maximum cost of the session, in US dollars
    #[arg(long, value_name = "USD")]
    pub(crate) max_cost: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SessionReference {
    /// Session: id, prefix of at least 6 characters, or name
    #[arg(value_name = "SESSION")]
    pub(crate) reference: String,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  agents session create --name weekly-planning --actor local/orchestrator")]
pub(crate) struct SessionCreate {
    /// Name, one line of text
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Actor that answers, such as local/orchestrator or openai/gpt-5
    #[arg(long)]
    pub(crate) actor: Option<String>,
    /// Namespace, `local` when not given
    #[arg(long)]
    pub(crate) namespace: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agents session list --sort messages --limit 10
  agents session list --name planning --since 2026-01-01T00:00:00Z")]
pub(crate) struct SessionList {
    /// Only sessions whose name contains this text
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
    /// Sort key
    #[arg(long, value_enum, default_value_t = SessionSort::Updated)]
    pub(crate) sort: SessionSort,
    /// Reverse the order
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Maximum number of results; all when not given
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Number of results to skip
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
    after_help = "With --jsonl each line is one message, {\"content\": …, \"role\": …, \"metadata\": …} with the last
two optional, and the command writes one acknowledgement {\"sequence\": N, \"message_id\": …} per line as
soon as the message is durable. An invalid line ends the stream; messages before it are kept.

Examples:
  agents session append weekly --role user 'Where do we stand?'
  git log -1 | agents session append weekly --role tool -
  producer | agents session append weekly --jsonl -"
)]
pub(crate) struct SessionAppend {
    #[command(flatten)]
    pub(crate) session: SessionReference,
    /// Role: user, assistant, system or tool
    #[arg(long, default_value = "user")]
    pub(crate) role: String,
    /// Metadata of the message, a JSON object
    #[arg(long, value_name = "JSON", conflicts_with = "jsonl")]
    pub(crate) metadata: Option<String>,
    /// Read messages from a JSON Lines file, `-` for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) jsonl: Option<PathBuf>,
    /// Text, `-` for standard input
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
    /// Maximum number of results; all when not given
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Without --output, standard output receives the document and nothing else.

Examples:
  agents session export weekly --output weekly.json
  agents session export weekly --as markdown > weekly.md"
)]
pub(crate) struct SessionExport {
    #[command(flatten)]
    pub(crate) session: SessionReference,
    /// Output file, `-` for standard output
    #[arg(long, short = 'o', value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Document format: json can be imported, markdown is for reading
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
#[command(after_help = "Examples:
  agents session import --input weekly.json
  agents session import --input weekly.json --namespace team")]
pub(crate) struct SessionImport {
    /// File that `session export` wrote, `-` for standard input
    #[arg(long, short = 'i', value_name = "FILE")]
    pub(crate) input: PathBuf,
    /// Import an edited file that no longer matches its checksum
    #[arg(long)]
    pub(crate) unverified: bool,
    /// Namespace of the new session; that of the file when not given
    #[arg(long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Messages must contain all words. Quotes match a phrase, a trailing star matches a prefix.

Examples:
  agents session search race condition
  agents session search '\"engine cache\" lock*' --role user"
)]
pub(crate) struct SessionSearch {
    /// Search terms
    #[arg(required = true, value_name = "WORDS")]
    pub(crate) query: Vec<String>,
    /// Only in this session
    #[arg(long, value_name = "SESSION")]
    pub(crate) session: Option<String>,
    /// Only messages of this role
    #[arg(long)]
    pub(crate) role: Option<String>,
    /// Maximum number of results
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: u64,
}
