//! `tool`, `permission` and `schema`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueEnum};
use cleveragents_domain::InvocationOutcome;
use cleveragents_tools::Category;

use super::{Deletion, Rehearsal, SafetyOptions};

#[derive(Debug, Subcommand)]
pub(crate) enum Tool {
    /// Register a custom tool from a YAML file
    #[command(
        after_help = "The content of the file is stored; the file is not read again. `agents schema tool` prints the
JSON schema of such files, for editors.

Examples:
  agents tool add --config count-lines.yaml
  agents tool add --config count-lines.yaml --update"
    )]
    Add {
        /// YAML file, `-` for standard input
        #[arg(long, short = 'c', value_name = "FILE")]
        config: PathBuf,
        /// Replace the tool of the same name
        #[arg(long)]
        update: bool,
    },
    /// List tools
    List(ToolList),
    /// Show a tool: schemas, declared properties and file
    #[command(after_help = "Examples:
  agents tool show builtin/file-edit
  agents --format json tool show local/count-lines")]
    Show {
        #[command(flatten)]
        tool: ToolReference,
    },
    /// Remove a custom tool
    #[command(after_help = "Example:
  agents tool remove local/count-lines --yes")]
    Remove {
        #[command(flatten)]
        tool: ToolReference,
        #[command(flatten)]
        deletion: Deletion,
    },
    /// Call a tool through the same gate as a model
    Run(Box<ToolRun>),
    /// List tool calls of models and users, newest first
    Calls(ToolCalls),
    /// Show one tool call: arguments, outcome and output
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
    /// Only calls of this tool or pattern, such as builtin/git-*
    #[arg(long, value_name = "PATTERN")]
    pub(crate) tool: Option<String>,
    /// Only calls with this outcome
    #[arg(long, value_enum)]
    pub(crate) outcome: Option<CallOutcomeName>,
    /// Maximum number of results
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) limit: u64,
    /// Number of results to skip
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) offset: u64,
}

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
    /// Call: id, or prefix of at least 6 characters
    #[arg(value_name = "ID")]
    pub(crate) call: String,
    /// Show the full output, in pages
    #[arg(long)]
    pub(crate) output: bool,
    /// Show the log of the call, in pages
    #[arg(long, conflicts_with = "output")]
    pub(crate) log: bool,
    /// Page, from 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "from")]
    pub(crate) page: Option<u64>,
    /// Offset of the first byte
    #[arg(long, value_name = "OFFSET")]
    pub(crate) from: Option<u64>,
    /// Page size in bytes
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = clap::value_parser!(u64).range(4..=67_108_864))]
    pub(crate) bytes: u64,
}

#[derive(Debug, Args)]
pub(crate) struct ToolReference {
    /// Tool, such as builtin/file-read or local/count-lines
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agents tool list --source custom
  agents tool list --category git_operations")]
pub(crate) struct ToolList {
    /// Only tools or only validations
    #[arg(long = "type", value_enum, value_name = "TYPE")]
    pub(crate) kind: Option<ToolKind>,
    /// Only tools of this namespace
    #[arg(long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// Only built-in or only custom tools
    #[arg(long, value_enum, value_name = "SOURCE")]
    pub(crate) source: Option<ToolSource>,
    /// Only tools of this category
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
    after_help = "The call is authorized, recorded and confined like a call of a model. Tools
that work on files need a sandbox; your own files change only when you apply it: `agents sandbox
apply NAME`. VALUE is text if the tool expects text, otherwise JSON if it parses as
JSON.

Exit codes: 0 succeeded, 1 failed or refused, 3 tool not found, 5 user input
required

Examples:
  agents tool run builtin/file-read --sandbox fix path=README.md
  agents tool run builtin/shell --sandbox fix command='cargo test'
  agents tool run local/count-lines --sandbox fix --input '{\"path\": \"a.rs\"}'
  generate | agents tool run builtin/file-write --sandbox fix --input-file -"
)]
pub(crate) struct ToolRun {
    #[command(flatten)]
    pub(crate) tool: ToolReference,
    /// Arguments
    #[arg(value_name = "KEY=VALUE", conflicts_with_all = ["input", "input_file"])]
    pub(crate) pairs: Vec<String>,
    /// All arguments, as a JSON object
    #[arg(long, value_name = "JSON", conflicts_with = "input_file")]
    pub(crate) input: Option<String>,
    /// File with all arguments as a JSON object, `-` for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) input_file: Option<PathBuf>,
    /// Sandbox of the call
    #[arg(long, value_name = "NAME")]
    pub(crate) sandbox: Option<String>,
    /// Project of the call: uses its sandbox, created if needed
    #[arg(long, value_name = "PROJECT", conflicts_with = "sandbox")]
    pub(crate) project: Option<String>,
    /// Also offer the tools of this skill; may be repeated
    #[arg(long, value_name = "SKILL")]
    pub(crate) skill: Vec<String>,
    /// Additional permission rule, such as "deny builtin/shell(rm *)"; may be repeated
    #[arg(long, value_name = "RULE")]
    pub(crate) rule: Vec<String>,
    /// Refuse tools that write
    #[arg(long)]
    pub(crate) read_only: bool,
    #[command(flatten)]
    pub(crate) safety: SafetyOptions,
}

/// The tools of a permission rule.
#[derive(Debug, Args)]
pub(crate) struct PermissionPattern {
    /// Tool or pattern of tools, and optionally commands or paths in parentheses: TOOL[(PATTERN)]
    #[arg(value_name = "PATTERN")]
    pub(crate) pattern: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Permission {
    /// Add a rule for all sessions and plans
    #[command(
        after_help = "A rule is `allow`, `ask` or `deny`, a tool or a pattern of tools, and optionally a pattern of paths or
commands in parentheses. `deny` always wins; among the others the more specific rule wins.

Examples:
  agents permission add 'deny builtin/shell(curl *)'
  agents permission add 'allow builtin/file-write(src/**)'
  agents permission add 'ask builtin/git-*'"
    )]
    Add {
        /// Rule: allow|ask|deny TOOL[(PATTERN)]
        #[arg(value_name = "RULE")]
        rule: String,
    },
    /// Let a tool run without asking
    #[command(after_help = "Examples:
  agents permission allow 'shell(cargo test *)'
  agents permission allow 'file-write(src/**)'")]
    Allow {
        #[command(flatten)]
        pattern: PermissionPattern,
    },
    /// Ask before a tool runs
    #[command(after_help = "Examples:
  agents permission ask 'git-*'
  agents permission ask 'file-write(migrations/**)'")]
    Ask {
        #[command(flatten)]
        pattern: PermissionPattern,
    },
    /// Refuse a tool
    #[command(after_help = "Examples:
  agents permission deny 'shell(git push *)'
  agents permission deny local/deploy")]
    Deny {
        #[command(flatten)]
        pattern: PermissionPattern,
    },
    /// List your rules and those of this project
    #[command(
        after_help = "A project sets its rules in `.cleveragents/rules.toml`, as `rules = [\"deny shell(git push *)\"]`.
They can only ask or deny: the stricter of your rules and the project's rules counts.

Example:
  agents --format json permission list"
    )]
    List,
    /// Remove a rule
    #[command(after_help = "Example:
  agents permission remove 'ask builtin/git-*'")]
    Remove {
        /// Rule, as `permission list` shows it
        #[arg(value_name = "RULE")]
        rule: String,
        #[command(flatten)]
        rehearsal: Rehearsal,
    },
}

/// File formats that have a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaOf {
    /// Actor file, for `actor add`
    Actor,
    /// Action file, for `action create`
    Action,
    /// MCP server file, for `mcp add`
    Mcp,
    /// Pool file, for `pool add`
    Pool,
    /// Tool file, for `tool add`
    Tool,
    /// Skill file, for `skill add`
    Skill,
    /// models.yaml in the home folder
    Models,
    /// Resource type file, for `resource type add`
    ResourceType,
    /// Safety profile file, for --safety and `safety.profile`
    Safety,
    /// Automation profile file, for `automation-profile add`
    AutomationProfile,
    /// Validation file, for `validation add`
    Validation,
    /// Requests and responses of all operations, which are also the JSON output of commands
    Operations,
}
