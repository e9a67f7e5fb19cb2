//! `session/tell`: asks the actor of a session, which can call tools.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

use std::path::PathBuf;
use std::time::{Duration, Instant};

use cleveragents_domain::identity::Permission;
use cleveragents_domain::{
    MicroUsd, Sequence, Session, SessionId, Tokens, ToolInvocationId, TurnId,
};
use cleveragents_models::{CancellationToken, Redactor, ToolCall};
use cleveragents_tools::CallOutcome;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{parse_id, requires};
use crate::observer::ToolCallStatus;
use crate::operation::{
    NamedKind, Operation, OperationContext, OperationError, Requirement, Resolver,
};
use crate::runtime::{
    Conversation, ConversationAnswer, ConversationOptions, ConversationTurn, SafetySelection,
    ToolRequirements, parse_usd,
};
use crate::tool::{call_status, called_tool, files_changed};
use crate::turn::{Ending, PromptImage};

/// Asks the actor of a session, or resumes the interrupted turn. The observer of the front end
/// receives the streamed answer, and the approver of the front end asks for approvals.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TellSession {
    /// Id, prefix of at least 6 characters, or name.
    pub session: String,
    /// The question. Required unless `resume` is set.
    #[serde(default)]
    pub prompt: Option<String>,
    /// Resume the interrupted turn instead of asking a question.
    #[serde(default)]
    pub resume: bool,
    /// The model or agent that answers. Defaults to the actor of the session, then to the default model.
    #[serde(default)]
    pub actor: Option<String>,
    /// Let tools act in a sandbox of the resources of this project.
    #[serde(default)]
    pub project: Option<String>,
    /// Skills whose tools the model may call.
    #[serde(default)]
    pub skill: Vec<String>,
    /// MCP servers whose tools the model may call.
    #[serde(default)]
    pub mcp: Vec<String>,
    /// Refuse every tool that changes something.
    #[serde(default)]
    pub read_only: bool,
    /// Maximum cost of the session, in US dollars.
    #[serde(default)]
    pub max_cost: Option<String>,
    /// Patterns of tools that are refused.
    #[serde(default)]
    pub deny_tool: Vec<String>,
    /// Patterns of allowed tools. If given, all other tools are refused.
    #[serde(default)]
    pub allow_tool: Vec<String>,
    /// Maximum number of tool calls per model response.
    #[serde(default)]
    pub max_calls: Option<u64>,
    /// Ask before every call that changes something.
    #[serde(default)]
    pub approve_writes: bool,
    /// Options of callers in this process, which are never sent or received.
    #[serde(skip)]
    pub local: LocalTurnOptions,
}

/// Options of a turn that refer to files or sandboxes of this machine, or that allow more than the
/// configuration. Only local callers may use them.
#[derive(Debug, Clone, Default)]
pub struct LocalTurnOptions {
    /// The images of the question.
    pub images: Vec<PromptImage>,
    /// Tools run in this sandbox.
    pub sandbox: Option<String>,
    /// Permission rules in addition to the stored rules.
    pub rules: Vec<String>,
    /// Whether each turn starts with the current files of the project.
    pub follows_files: bool,
    /// Name or file of a safety profile.
    pub safety: Option<String>,
    /// The file to which every exchange with the model is appended.
    pub record: Option<PathBuf>,
    /// Whether a turn that was cancelled or needs an absent user can be resumed; otherwise it ends as
    /// failed.
    pub keeps_unfinished: bool,
}

impl LocalTurnOptions {
    /// Refuses local options in requests of remote callers and in requests to a server.
    fn check(&self, resolver: &Resolver<'_>) -> Result<(), OperationError> {
        let given = [
            ("image", !self.images.is_empty()),
            ("sandbox", self.sandbox.is_some()),
            ("rule", !self.rules.is_empty()),
            ("safety", self.safety.is_some()),
            ("record", self.record.is_some()),
        ];
        for (parameter, is_given) in given {
            if is_given {
                resolver.local_only(parameter)?;
            }
        }
        Ok(())
    }
}

impl TellSession {
    /// The safety options of the request, in addition to the configuration.
    pub fn safety(&self) -> SafetySelection {
        SafetySelection {
            safety: self.local.safety.clone(),
            deny_tool: self.deny_tool.clone(),
            allow_tool: self.allow_tool.clone(),
            max_calls: self.max_calls,
            approve_writes: self.approve_writes,
        }
    }

    /// The model that answers, and its limits.
    pub fn conversation(&self) -> Result<ConversationOptions, OperationError> {
        Ok(ConversationOptions {
            actor: self.actor.clone(),
            project: self.project.clone(),
            sandbox: self.local.sandbox.clone(),
            follows_files: self.local.follows_files,
            read_only: self.read_only,
            rules: self.local.rules.clone(),
            requirements: ToolRequirements {
                skills: self.skill.iter().cloned().collect(),
                servers: self.mcp.iter().cloned().collect(),
            },
            max_cost: self.max_cost.as_deref().map(parse_usd).transpose()?,
        })
    }

    /// The question; `None` to resume the interrupted turn.
    fn question(&self) -> Result<Option<String>, OperationError> {
        match (&self.prompt, self.resume) {
            (None, true) => Ok(None),
            (Some(prompt), false) => Ok(Some(prompt.clone())),
            (None, false) => Err(OperationError::usage("the request contains no question")
                .with_hint("give a `prompt`, or `resume` the interrupted turn")),
            (Some(_), true) => Err(OperationError::usage(
                "a request either resumes a turn or asks a question",
            )
            .with_hint("leave out `prompt` or `resume`")),
        }
    }
}

/// Whether the front end received the answer while it streamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TurnMode {
    Stream,
    /// The answer was shown when it was complete.
    Whole,
}

/// The response of `session/tell`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TurnResult {
    pub session: TurnSession,
    /// The stored question, without secrets; `null` when a turn was resumed.
    pub prompt: Option<String>,
    pub response: String,
    /// Whether the answer was cut at the token limit.
    pub is_cut: bool,
    /// Whether the provider withheld some or all of the answer.
    pub is_withheld: bool,
    pub turn: TurnId,
    /// The sequence numbers of the messages of the turn.
    pub sequences: Vec<Sequence>,
    /// The number of model requests.
    pub steps: u32,
    pub tool_calls: Vec<TurnToolCall>,
    pub files_changed: Vec<String>,
    /// The sandbox in which tools acted.
    pub sandbox: Option<String>,
    /// The number of earlier messages that were left out of the last request.
    pub messages_left_out: u64,
    /// The interrupted turn that this turn resumed or ended.
    pub interrupted: Option<InterruptedTurn>,
    /// Warnings about an incomplete answer or an unenforceable cost limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caveats: Vec<String>,
    pub usage: TurnUsage,
}

/// The session of a turn.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TurnSession {
    pub id: SessionId,
    /// The model of the last answer.
    pub actor: String,
    pub mode: TurnMode,
    /// The automation profile.
    pub automation: String,
}

/// A tool call of a turn.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TurnToolCall {
    pub tool: String,
    /// The original arguments of the model, usually JSON, without secrets.
    pub arguments: String,
    pub outcome: ToolCallStatus,
    /// Reason of a failure or refusal.
    pub reason: Option<String>,
    /// The stored record of the call.
    pub invocation: ToolInvocationId,
}

/// State of an interrupted turn.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct InterruptedTurn {
    pub turn: TurnId,
    /// Tools whose calls have an unknown outcome.
    pub doubtful: Vec<String>,
    /// Whether the turn was resumed; otherwise it was ended as failed.
    pub resumed: bool,
}

/// Usage of a turn.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TurnUsage {
    /// Input and output tokens.
    pub tokens: u64,
    pub input_tokens: Tokens,
    pub output_tokens: Tokens,
    /// `null` when a model without a known price was called.
    pub cost_usd: Option<f64>,
    pub duration_s: f64,
    pub tool_calls: u64,
    /// `false` when a model without a known price was called; missing otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_known: Option<bool>,
    /// The cost of the calls with a known price; missing when all prices are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_known_part: Option<f64>,
}

impl TurnUsage {
    /// The known cost, and whether it includes all calls.
    pub fn known_cost(&self) -> (MicroUsd, bool) {
        let usd = self.cost_usd.or(self.cost_known_part).unwrap_or_default();
        let cost = MicroUsd::from_usd_rounded_up(usd).unwrap_or_default();
        (cost, self.cost_usd.is_some())
    }
}

impl TurnResult {
    /// The result of a turn that took `elapsed`.
    pub fn new(
        session: &Session,
        answer: ConversationAnswer,
        mode: TurnMode,
        redactor: &Redactor,
        elapsed: Duration,
    ) -> Self {
        let report = answer.report;
        let usage = report.usage;
        let (cost, is_known) = (usage.cost_micro_usd.as_usd(), !report.is_cost_partial);
        Self {
            caveats: report.caveats().map(str::to_owned).collect(),
            session: TurnSession {
                id: session.id,
                actor: report.model,
                mode,
                automation: session.automation.clone(),
            },
            prompt: answer.prompt,
            response: report.answer,
            is_cut: report.ending == Ending::Cut,
            is_withheld: report.ending == Ending::Withheld,
            turn: report.turn,
            sequences: report.sequences,
            steps: report.steps,
            files_changed: files_changed(report.calls.iter().map(|(_, outcome)| outcome)),
            sandbox: answer.sandbox,
            messages_left_out: report.left_out as u64,
            interrupted: report.interrupted.map(|summary| InterruptedTurn {
                turn: summary.turn,
                doubtful: summary.unknown_outcomes,
                resumed: summary.is_resumed,
            }),
            usage: TurnUsage {
                tokens: usage.input_tokens.0 + usage.output_tokens.0,
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
                cost_usd: is_known.then_some(cost),
                duration_s: elapsed.as_secs_f64(),
                tool_calls: report.calls.len() as u64,
                cost_known: (!is_known).then_some(false),
                cost_known_part: (!is_known).then_some(cost),
            },
            tool_calls: report
                .calls
                .iter()
                .map(|(call, outcome)| TurnToolCall::new(call, outcome, redactor))
                .collect(),
        }
    }
}

impl TurnToolCall {
    fn new(call: &ToolCall, outcome: &CallOutcome, redactor: &Redactor) -> Self {
        let (_, reason) = call_status(outcome);
        Self {
            tool: called_tool(call),
            arguments: redactor.text(&call.arguments).into_owned(),
            outcome: ToolCallStatus::from(outcome),
            reason,
            invocation: outcome.invocation(),
        }
    }
}

impl Operation for TellSession {
    const NAME: &'static str = "session/tell";
    const SUMMARY: &'static str = "Ask the actor of a session, which may call tools";
    const REQUIREMENT: Requirement = requires(Permission::Write);
    const RUNS_AGENTS: bool = true;
    type Response = TurnResult;

    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        self.local.check(resolver)?;
        resolver.session(&mut self.session)?;
        if let Some(project) = &mut self.project {
            resolver.name(project, NamedKind::Project)?;
        }
        if let Some(actor) = &mut self.actor {
            resolver.read_name(actor, NamedKind::Definition)?;
        }
        for name in self.skill.iter_mut().chain(&mut self.mcp) {
            resolver.read_name(name, NamedKind::Definition)?;
        }
        Ok(())
    }

    fn run(self, context: &OperationContext) -> Result<TurnResult, OperationError> {
        let started = Instant::now();
        let session = context.sessions().get(parse_id(&self.session)?)?;
        let prompt = self.question()?;
        let runtime = context.runtime(&self.safety(), self.local.record.as_deref())?;
        let redactor = runtime.redactor();
        let conversation = Conversation::new(runtime, self.conversation()?)?;
        let stop = CancellationToken::new();
        let model_stop = stop.clone();
        context.cancel().when_cancelled(move || model_stop.cancel());
        let front_end = context.front_end();
        let answer = conversation.ask(&ConversationTurn {
            session: &session,
            prompt,
            images: self.local.images,
            observer: &*front_end.observer,
            approver: &*front_end.approver,
            keeps_unfinished: self.local.keeps_unfinished,
            cancel: context.cancel(),
            stop: &stop,
        })?;
        let mode = if front_end.observer.is_watching() {
            TurnMode::Stream
        } else {
            TurnMode::Whole
        };
        let elapsed = started.elapsed();
        Ok(TurnResult::new(&session, answer, mode, &redactor, elapsed))
    }
}
