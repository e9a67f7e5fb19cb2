//! `tool`, `permission` and `schema`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum};
use cleveragents_domain::InvocationOutcome;
use cleveragents_tools::Category;

use super::SafetyOptions;

#[derive(Debug, Subcommand)]
pub(crate) enum Tool {
    /// Register a tool of your own from a YAML file
    #[command(
        after_help = "The text of the file is kept; the file itself is not read again. `agents schema tool` prints the
JSON schema of such files, for editors.

Examples:
  agents tool add --config count-lines.yaml
  agents tool add --config count-lines.yaml --update"
    )]
    Add {
        /// The YAML file, `-` for standard input
        #[arg(long, short = 'c', value_name = "FILE")]
        config: PathBuf,
        /// Replace a tool of the same name
        #[arg(long)]
        update: bool,
    },
    /// List the tools there are
    List(ToolList),
    /// Show a tool: its schemas, what it declares about itself, and its file
    #[command(after_help = "Examples:
  agents tool show builtin/file-edit
  agents --format json tool show local/count-lines")]
    Show {
        #[command(flatten)]
        tool: ToolReference,
    },
    /// Remove a tool of your own
    #[command(after_help = "Example:
  agents tool remove local/count-lines --yes")]
    Remove {
        #[command(flatten)]
        tool: ToolReference,
        /// Do not ask for confirmation
        #[arg(long, short = 'y')]
        yes: bool,
    },
    /// Call a tool yourself, through the same gate as a model
    Run(Box<ToolRun>),
    /// List the calls that were made, by models and by hand, newest first
    Calls(ToolCalls),
    /// Show one call: its arguments, what came of it, and all that it said
    Call(ToolCallShow),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agents tool calls --session weekly --outcome refused
  agents tool calls --tool 'builtin/git-*' --limit 50
  agents tool calls --offset 20")]
pub(crate) struct ToolCalls {
    /// Only calls of this session
    #[arg(long, value_name = "SESSION")]
    pub(crate) session: Option<String>,
    /// Only calls of this tool, or of tools like builtin/git-*
    #[arg(long, value_name = "PATTERN")]
    pub(crate) tool: Option<String>,
    /// Only calls that ended like this
    #[arg(long, value_enum)]
    pub(crate) outcome: Option<CallOutcomeName>,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: u64,
    /// Skip so many first
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) offset: u64,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CallOutcomeName {
    Running,
    Succeeded,
    Failed,
    Refused,
}

impl CallOutcomeName {
    pub(crate) const fn outcome(self) -> InvocationOutcome {
        match self {
            Self::Running => InvocationOutcome::Running,
            Self::Succeeded => InvocationOutcome::Succeeded,
            Self::Failed => InvocationOutcome::Failed,
            Self::Refused => InvocationOutcome::Refused,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agents tool call 01JX3Q
  agents tool call 01JX3Q --output --page 2
  agents --format json tool call 01JX3Q --log --from 4096")]
pub(crate) struct ToolCallShow {
    /// The call: its id, or the first 6 or more characters of it
    #[arg(value_name = "ID")]
    pub(crate) call: String,
    /// Show all that it said, in pages
    #[arg(long)]
    pub(crate) output: bool,
    /// Show what it logged, in pages
    #[arg(long, conflicts_with = "output")]
    pub(crate) log: bool,
    /// Which page, from 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "from")]
    pub(crate) page: Option<u64>,
    /// From which byte on
    #[arg(long, value_name = "OFFSET")]
    pub(crate) from: Option<u64>,
    /// How many bytes a page has
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = clap::value_parser!(u64).range(4..=67_108_864))]
    pub(crate) bytes: u64,
}

#[derive(Debug, Args)]
pub(crate) struct ToolReference {
    /// The tool, such as builtin/file-read or local/count-lines
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agents tool list --source custom
  agents tool list --category git_operations")]
pub(crate) struct ToolList {
    /// Only tools, or only validations
    #[arg(long = "type", value_enum, value_name = "TYPE")]
    pub(crate) kind: Option<ToolKind>,
    /// Only tools of this namespace
    #[arg(long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// Only the program's own, or only yours
    #[arg(long, value_enum, value_name = "SOURCE")]
    pub(crate) source: Option<ToolSource>,
    /// Only tools of this group
    #[arg(long, value_name = "CATEGORY",
          value_parser = PossibleValuesParser::new(Category::ALL.map(Category::as_str)))]
    pub(crate) category: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolKind {
    Tool,
    Validation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ToolSource {
    Builtin,
    Custom,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The call is checked, asked about, written down and confined as if a model had made it. Tools
that work on files need a sandbox; your own files change only when you apply it: `agents sandbox
apply NAME`. VALUE is taken as text where the tool expects text, otherwise as JSON where it is
JSON.

Exit codes: 0 it succeeded, 1 it failed or was refused, 3 there is no such tool, 5 a person is
needed

Examples:
  agents tool run builtin/file-read --sandbox fix path=README.md
  agents tool run builtin/shell --sandbox fix command='cargo test'
  agents tool run local/count-lines --project local/shop --input '{\"path\": \"src/main.rs\"}'
  generate | agents tool run builtin/file-write --sandbox fix --input-file -"
)]
pub(crate) struct ToolRun {
    #[command(flatten)]
    pub(crate) tool: ToolReference,
    /// The arguments, one by one
    #[arg(value_name = "KEY=VALUE", conflicts_with_all = ["input", "input_file"])]
    pub(crate) pairs: Vec<String>,
    /// All arguments, as a JSON object
    #[arg(long, value_name = "JSON", conflicts_with = "input_file")]
    pub(crate) input: Option<String>,
    /// All arguments, as a file that holds a JSON object; `-` for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) input_file: Option<PathBuf>,
    /// Act in this sandbox
    #[arg(long, value_name = "NAME")]
    pub(crate) sandbox: Option<String>,
    /// Act in a sandbox of this project's resources, made when it is not there
    #[arg(long, value_name = "PROJECT", conflicts_with = "sandbox")]
    pub(crate) project: Option<String>,
    /// Have the tools of this skill too; may be repeated
    #[arg(long, value_name = "SKILL")]
    pub(crate) skill: Vec<String>,
    /// One more permission rule, such as \"deny builtin/shell(rm *)\"; may be repeated
    #[arg(long, value_name = "RULE")]
    pub(crate) rule: Vec<String>,
    /// Refuse tools that change something
    #[arg(long)]
    pub(crate) read_only: bool,
    #[command(flatten)]
    pub(crate) safety: SafetyOptions,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Permission {
    /// Remember a rule for every session and plan
    #[command(
        after_help = "A rule is `allow`, `ask` or `deny`, a tool or a pattern of tools, and perhaps a pattern of paths or
commands in parentheses. `deny` always wins; of the others the more exact rule counts.

Examples:
  agents permission add 'deny builtin/shell(curl *)'
  agents permission add 'allow builtin/file-write(src/**)'
  agents permission add 'ask builtin/git-*'"
    )]
    Add {
        /// The rule: allow|ask|deny TOOL[(PATTERN)]
        #[arg(value_name = "RULE")]
        rule: String,
    },
    /// List the remembered rules
    #[command(after_help = "Example:
  agents --format json permission list")]
    List,
    /// Forget a rule
    #[command(after_help = "Example:
  agents permission remove 'ask builtin/git-*'")]
    Remove {
        /// The rule, as `permission list` shows it
        #[arg(value_name = "RULE")]
        rule: String,
    },
}

/// The files of which there is a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaOf {
    /// The file of an actor, for `actor add`
    Actor,
    /// The file of an action, for `action create`
    Action,
    /// The file of an MCP server, for `mcp add`
    Mcp,
    /// The file of a tool, for `tool add`
    Tool,
    /// The file of a skill, for `skill add`
    Skill,
    /// models.yaml in the home folder
    Models,
    /// The file of a resource type, for `resource type add`
    ResourceType,
    /// The file of a safety profile, for --safety and `safety.profile`
    Safety,
    /// The file of an automation profile, for `automation-profile add`
    AutomationProfile,
    /// The file of a validation, for `validation add`
    Validation,
    /// Requests and responses of all operations, which are also the JSON data of commands
    Operations,
}
