//! Options shared by all commands that run a turn, and the arguments of `chat`.

use std::path::PathBuf;

use clap::Args;
use cleveragents_application::SafetySelection;
use cleveragents_application::session_operations::{LocalTurnOptions, TellSession};

use super::{FolderChat, SafetyOptions};

/// Model, sandbox and permissions of a turn.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TurnOptions {
    /// Model that answers, PROVIDER/MODEL; the session's actor or `model.default` when not given
    #[arg(long, visible_alias = "model", value_name = "MODEL")]
    pub(crate) actor: Option<String>,
    /// Run tools in a sandbox of this project's resources
    #[arg(long, value_name = "PROJECT", conflicts_with = "sandbox")]
    pub(crate) project: Option<String>,
    /// Run tools in this sandbox
    #[arg(long, value_name = "NAME")]
    pub(crate) sandbox: Option<String>,
    /// Give the model this skill; may be repeated
    #[arg(long, value_name = "SKILL")]
    pub(crate) skill: Vec<String>,
    /// Refuse tools that write
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Additional permission rule, such as "deny builtin/shell(rm *)"; may be repeated
    #[arg(long, value_name = "RULE")]
    pub(crate) rule: Vec<String>,
    #[command(flatten)]
    pub(crate) safety: SafetyOptions,
    /// MCP server whose tools may be called; may be repeated
    #[arg(long, value_name = "SERVER")]
    pub(crate) mcp: Vec<String>,
    /// Maximum cost of the session, in US dollars
    #[arg(long, value_name = "USD")]
    pub(crate) max_cost: Option<String>,
    /// Whether each turn starts with the current files of the project. Set for conversations in a folder.
    #[arg(skip)]
    pub(crate) follows_files: bool,
    /// Append every model request and response to this file, which `--actor replay/FILE` answers from
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
}

impl TurnOptions {
    /// Request with these options, without session and message.
    pub(crate) fn request(&self) -> TellSession {
        let safety = SafetySelection::from(&self.safety);
        TellSession {
            actor: self.actor.clone(),
            project: self.project.clone(),
            skill: self.skill.clone(),
            mcp: self.mcp.clone(),
            read_only: self.read_only,
            max_cost: self.max_cost.clone(),
            deny_tool: safety.deny_tool,
            allow_tool: safety.allow_tool,
            max_calls: safety.max_calls,
            approve_writes: safety.approve_writes,
            local: LocalTurnOptions {
                images: Vec::new(),
                sandbox: self.sandbox.clone(),
                follows_files: self.follows_files,
                rules: self.rule.clone(),
                safety: safety.safety,
                record: self.record.clone(),
                keeps_unfinished: false,
            },
            ..TellSession::default()
        }
    }
}

#[derive(Debug, Args)]
#[command(
    after_help = "Tools run in a sandbox, as in `agents session tell`: the one that --sandbox names, or one
of the project's resources. A line that ends in `\\` continues on the next; lines between two lines of ``` are one
message. /help lists the commands. Ctrl-C stops an answer, Ctrl-D leaves.

If standard input is not a terminal, each line is a message, and the exit code is that of
the last failed one. With --format json, prints one JSON document per message, each on
one line.

Examples:
  agents chat
  agents chat weekly --project local/shop
  agents chat --sandbox fix --actor anthropic/claude-sonnet-4-5
  printf 'What is in notes.txt?\\n' | agents --format json chat --sandbox fix"
)]
pub(crate) struct Chat {
    /// Session to continue: id, prefix of at least 6 characters, or name; a new session when not
    /// given
    #[arg(value_name = "SESSION")]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) turn: TurnOptions,
    /// Set for `agents` without a command.
    #[arg(skip)]
    pub(crate) folder: Option<FolderChat>,
}
