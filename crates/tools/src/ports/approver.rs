//! [`Approver`]: the person who is asked, or what stands in for one.

use serde_json::Value;

use crate::name::ToolName;
use crate::safety::Rule;

/// What a person is asked to allow.
#[derive(Debug)]
pub struct ApprovalRequest<'a> {
    /// The tool.
    pub tool: &'a ToolName,
    /// What it does.
    pub description: &'a str,
    /// Its arguments, without secrets.
    pub arguments: &'a Value,
    /// Why somebody has to agree, as a sentence.
    pub reason: &'a str,
    /// The rules that "always" would add: exactly these paths or this command; for a tool of an MCP
    /// server the tool, whatever it is given.
    pub always: &'a [Rule],
    /// The rule that "always for this server" would add; only for tools of MCP servers.
    pub always_server: Option<&'a Rule>,
}

/// What the person says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    /// This once.
    Once,
    /// From now on: the rules of [`ApprovalRequest::always`] are stored.
    Always,
    /// From now on for every tool of the MCP server: the rule of [`ApprovalRequest::always_server`] is stored.
    AlwaysServer,
    /// No, perhaps with a word for the model.
    Refused(Option<String>),
    /// There is nobody to ask.
    NobodyThere,
}

/// A question that a model has for a person.
#[derive(Debug)]
pub struct Question<'a> {
    /// The question.
    pub text: &'a str,
    /// Answers to choose from; empty for free text.
    pub options: &'a [String],
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// In words.
    Text(String),
    /// The person does not want to answer.
    Declined,
    /// Nobody was asked, and the work goes on without an answer. The text tells the model why.
    NotAsked(String),
    /// There is nobody to ask.
    NobodyThere,
}

/// The person who is asked, or what stands in for one.
pub trait Approver: Send + Sync {
    /// Asks whether a call may run.
    fn approve(&self, request: &ApprovalRequest<'_>) -> Approval;

    /// Asks what a model wants to know.
    fn question(&self, question: &Question<'_>) -> Reply;
}
