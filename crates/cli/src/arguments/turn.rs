//! What a turn is taken with, for every command that takes one, and `chat`.

use std::path::PathBuf;

use clap::Args;
use cleveragents_application::{ConversationOptions, OperationError, ToolRequirements, parse_usd};

use super::SafetyOptions;

/// Who answers, where tools act, and what they may do.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TurnOptions {
    /// The model that answers, PROVIDER/MODEL; the session's actor or `model.default` when not given
    #[arg(long, visible_alias = "model", value_name = "MODEL")]
    pub(crate) actor: Option<String>,
    /// Let tools act in a sandbox of this project's resources
    #[arg(long, value_name = "PROJECT", conflicts_with = "sandbox")]
    pub(crate) project: Option<String>,
    /// Let tools act in this sandbox
    #[arg(long, value_name = "NAME")]
    pub(crate) sandbox: Option<String>,
    /// Give the model this skill; may be repeated
    #[arg(long, value_name = "SKILL")]
    pub(crate) skill: Vec<String>,
    /// Let tools look but change nothing
    #[arg(long)]
    pub(crate) read_only: bool,
    /// One more permission rule, such as "deny builtin/shell(rm *)"; may be repeated
    #[arg(long, value_name = "RULE")]
    pub(crate) rule: Vec<String>,
    #[command(flatten)]
    pub(crate) safety: SafetyOptions,
    /// An MCP server, the tools of which may be called too; may be repeated
    #[arg(long, value_name = "SERVER")]
    pub(crate) mcp: Vec<String>,
    /// The most that this session may cost, in US dollars
    #[arg(long, value_name = "USD")]
    pub(crate) max_cost: Option<String>,
    /// Add every exchange with the model to this file, to be given again by replay/FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
}

impl TurnOptions {
    /// The same options for the application.
    pub(crate) fn conversation(&self) -> Result<ConversationOptions, OperationError> {
        Ok(ConversationOptions {
            actor: self.actor.clone(),
            project: self.project.clone(),
            sandbox: self.sandbox.clone(),
            read_only: self.read_only,
            rules: self.rule.clone(),
            requirements: ToolRequirements {
                skills: self.skill.iter().cloned().collect(),
                servers: self.mcp.iter().cloned().collect(),
            },
            max_cost: self.max_cost.as_deref().map(parse_usd).transpose()?,
        })
    }
}

#[derive(Debug, Args)]
#[command(
    after_help = "Tools act in a sandbox, as in `agents session tell`: the one of --sandbox, or one of the
project's resources. A line that ends in `\\`, and what stands between two lines of ```, is one
question. /help lists what else can be said. Ctrl-C stops an answer, Ctrl-D leaves.

When standard input is no terminal, each line of it is a question, and the exit code is that of
the last one that failed. With --format json each is answered by one JSON document on a line of
its own.

Examples:
  agents chat
  agents chat weekly --project local/shop
  agents chat --sandbox fix --actor anthropic/claude-sonnet-4-5
  printf 'What is in notes.txt?\\n' | agents --format json chat --sandbox fix"
)]
pub(crate) struct Chat {
    /// The session to go on with: its id, the first 6 or more characters of it, or its name; a new one when not
    /// given
    #[arg(value_name = "SESSION")]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) turn: TurnOptions,
}
