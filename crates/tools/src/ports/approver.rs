//! [`Approver`]: asks the user for approvals and answers.

use serde_json::Value;

use crate::name::ToolName;
use crate::safety::Rule;

/// A request for the user's approval of a call.
#[derive(Debug)]
pub struct ApprovalRequest<'a> {
    /// The tool to run.
    pub tool: &'a ToolName,
    /// Description of the tool.
    pub description: &'a str,
    /// Redacted arguments.
    pub arguments: &'a Value,
    /// Reason why the call needs approval.
    pub reason: &'a str,
    /// The rules that the answer "always" would add: for exactly these paths or this command, or, for a tool of
    /// an MCP server, for any arguments.
    pub always: &'a [Rule],
    /// The rule that the answer "always for this server" would add; only for tools of MCP servers.
    pub always_server: Option<&'a Rule>,
}

/// The user's decision about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    /// Allow this call only.
    Once,
    /// Allow now and in future: the rules of [`ApprovalRequest::always`] are stored.
    Always,
    /// Allow every tool of the MCP server: the rule of [`ApprovalRequest::always_server`] is stored.
    AlwaysServer,
    /// Rejected, with an optional message for the model.
    Refused(Option<String>),
    /// No user is available.
    NoUser,
}

/// The subject of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuestionKind {
    /// An actor or an MCP server asks for information.
    Information,
    /// The program asks what to do about a tool call whose outcome is unknown.
    UnknownOutcome,
}

/// A question to the user.
#[derive(Debug)]
pub struct Question<'a> {
    /// Subject of the question.
    pub kind: QuestionKind,
    pub text: &'a str,
    /// Answers to choose from; empty for free text.
    pub options: &'a [String],
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The answer as text.
    Text(String),
    /// The user declined to answer.
    Declined,
    /// The user was not asked, and the run continues without an answer. The text is the reason, for the model.
    NotAsked(String),
    /// No user is available.
    NoUser,
}

/// Asks the user, or a substitute such as an actor.
pub trait Approver: Send + Sync {
    /// Asks whether a call may run.
    fn approve(&self, request: &ApprovalRequest<'_>) -> Approval;

    /// Asks a question of a model, an MCP server or the program.
    fn question(&self, question: &Question<'_>) -> Reply;
}
