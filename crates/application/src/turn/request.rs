//! [`TurnRequest`] and [`TurnReport`]: input and output of a turn.

use std::collections::BTreeSet;
use std::sync::Arc;

use cleveragents_domain::{ActorName, PlanId, Sequence, TokenUsage, TurnId};
use cleveragents_models::{
    CancellationToken, Model, ModelName, ReasoningEffort, Redactor, ResponseSchema, StopReason,
    ToolCall,
};
use cleveragents_process::Cancel;
use cleveragents_tools::ports::Approver;
use cleveragents_tools::{
    CallOutcome, Gate, Guards, PermissionRules, PlanMode, SafetyProfile, ToolName,
};
use serde_json::{Map, Value};

use super::images::PromptImage;
use super::report::ReportTools;
use crate::observer::Observer;
use crate::tool::{SandboxWorkspace, SpendScope};

/// The built-in instructions for a summary.
const SUMMARY_PROMPT: &str = include_str!("../../prompts/summary.md");

/// Limits and model parameters of a turn.
#[derive(Debug, Clone)]
pub struct TurnSettings {
    /// Maximum number of model requests.
    pub max_steps: u32,
    /// Maximum number of input tokens; the model's context window when not given.
    pub context_tokens: Option<u64>,
    /// Maximum number of output tokens of one step; the model's default when not given.
    pub max_output_tokens: Option<u32>,
    /// Maximum size of the output of a tool that the model receives, in bytes.
    pub shown_bytes: usize,
    /// Whether the answer is streamed.
    pub stream: bool,
    /// The sampling temperature.
    pub temperature: Option<f64>,
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Further parameters for the model, such as `top_p`.
    pub options: Map<String, Value>,
    /// Maximum number of answers in the run of this turn. The model receives a warning before the
    /// last answers.
    pub answer_limit: Option<u64>,
    /// The system prompt that requests a summary of a long conversation.
    pub summary_prompt: String,
    /// The JSON schema of the answer, for models that support one.
    pub response_schema: Option<ResponseSchema>,
    /// Whether a turn that was cancelled or needs the user can be resumed; otherwise it ends as
    /// failed.
    pub keeps_unfinished: bool,
}

impl Default for TurnSettings {
    fn default() -> Self {
        Self {
            max_steps: 50,
            context_tokens: None,
            max_output_tokens: None,
            shown_bytes: cleveragents_tools::DEFAULT_SHOWN_BYTES,
            stream: true,
            temperature: None,
            reasoning_effort: None,
            options: Map::new(),
            answer_limit: None,
            summary_prompt: SUMMARY_PROMPT.to_owned(),
            response_schema: None,
            keeps_unfinished: false,
        }
    }
}

/// The tools of a turn, and their permissions.
#[derive(Clone)]
pub struct TurnTools<'a> {
    /// The gate that runs all tool calls.
    pub gate: &'a Gate,
    /// The capabilities that the plan or session allows.
    pub mode: PlanMode,
    pub profile: &'a SafetyProfile,
    /// Limits for calls that run without approval.
    pub guards: &'a Guards,
    pub rules: &'a PermissionRules,
    pub workspace: Option<&'a SandboxWorkspace>,
    /// Asks the user for approvals and answers.
    pub approver: &'a dyn Approver,
    /// Tools that requests declare only after the model found them by searching.
    pub deferred: &'a BTreeSet<ToolName>,
}

/// The input of a turn: a question with the model, the tools and the limits for its answer.
#[derive(Clone)]
pub struct TurnRequest<'a> {
    /// The question; `None` resumes the interrupted turn.
    pub prompt: Option<String>,
    /// The images of the question.
    pub images: Vec<PromptImage>,
    /// The model that answers.
    pub model: Arc<dyn Model>,
    /// The plan that the turn belongs to.
    pub plan: Option<PlanId>,
    /// The name of the actor that answers.
    pub actor: Option<ActorName>,
    /// Standing instructions.
    pub system: Vec<String>,
    pub tools: TurnTools<'a>,
    /// Tools with which the model reports its result.
    pub reports: ReportTools<'a>,
    /// Spending limits.
    pub scopes: Vec<SpendScope>,
    /// Removes secrets from text that is stored or displayed.
    pub redactor: Redactor,
    /// Limits and model parameters.
    pub settings: TurnSettings,
    /// Limits that the turn shares with other turns.
    pub allowance: &'a dyn TurnAllowance,
    /// Receives progress events.
    pub observer: &'a dyn Observer,
    /// Stops the turn.
    pub cancel: &'a Cancel,
    /// Stops the model; cancelled together with `cancel`.
    pub stop: CancellationToken,
}

/// Limits of model requests and tool calls that several turns share.
pub trait TurnAllowance: Sync {
    /// Claims one model request. Returns whether the request is within the limits.
    fn ask(&self) -> bool {
        true
    }

    /// Claims tool calls: all of them or none. Returns whether they are within the limits.
    fn call(&self, _calls: u64) -> bool {
        true
    }
}

/// A [`TurnAllowance`] without limits.
#[derive(Debug, Clone, Copy, Default)]
pub struct UnlimitedAllowance;

impl TurnAllowance for UnlimitedAllowance {}

/// State of an interrupted turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterruptedTurnSummary {
    pub turn: TurnId,
    /// The tools whose calls started and have an unknown outcome.
    pub unknown_outcomes: Vec<String>,
    /// Whether the turn is resumed; otherwise it was ended as failed.
    pub is_resumed: bool,
}

/// The reason why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The answer is complete.
    Whole,
    /// The answer reached the token limit.
    Cut,
    /// The provider withheld some or all of the answer.
    Withheld,
    /// The provider ended the answer early for another reason, such as a malformed call.
    Unfinished,
}

impl From<&StopReason> for Ending {
    fn from(reason: &StopReason) -> Self {
        match reason {
            StopReason::MaxTokens => Self::Cut,
            StopReason::ContentFilter => Self::Withheld,
            // Anthropic pauses a long turn of its server tools; Gemini stops at a malformed call.
            StopReason::Other(reason)
                if matches!(
                    reason.as_str(),
                    "pause_turn"
                        | "malformed_function_call"
                        | "unexpected_tool_call"
                        | "too_many_tool_calls"
                        | "error"
                ) =>
            {
                Self::Unfinished
            }
            StopReason::EndTurn | StopReason::ToolCalls | StopReason::Other(_) => Self::Whole,
        }
    }
}

impl TurnReport {
    /// The report of a turn that has sent no request yet.
    pub(super) fn new(turn: TurnId, model: &ModelName) -> Self {
        Self {
            turn,
            answer: String::new(),
            ending: Ending::Whole,
            model: model.to_string(),
            usage: TokenUsage::default(),
            is_cost_partial: false,
            is_beyond_limits: false,
            steps: 0,
            calls: Vec::new(),
            sequences: Vec::new(),
            interrupted: None,
            left_out: 0,
        }
    }

    /// Warnings for the user about an incomplete answer and about a spending limit that cannot be
    /// enforced.
    pub fn caveats(&self) -> impl Iterator<Item = &'static str> {
        let money = self.is_beyond_limits.then_some(
            "the price of the model is unknown, so its answers do not count towards the spending \
             limit: set the price in models.yaml",
        );
        self.about_answer().into_iter().chain(money)
    }

    fn about_answer(&self) -> Option<&'static str> {
        match self.ending {
            Ending::Cut => Some("the answer was cut at the token limit"),
            Ending::Withheld => {
                Some("the provider withheld the rest of the answer: its content filter stopped it")
            }
            Ending::Unfinished => Some("the provider ended the answer before it was complete"),
            Ending::Whole if self.answer.trim().is_empty() => {
                Some("the model returned an empty answer")
            }
            Ending::Whole => None,
        }
    }
}

/// The result of a turn.
#[derive(Debug, Clone)]
pub struct TurnReport {
    pub turn: TurnId,
    pub answer: String,
    /// Reason why the answer ended.
    pub ending: Ending,
    /// The model of the last answer.
    pub model: String,
    /// Usage and cost.
    pub usage: TokenUsage,
    /// Whether the cost of some calls is unknown.
    pub is_cost_partial: bool,
    /// Whether a spending limit cannot be enforced because a price is unknown.
    pub is_beyond_limits: bool,
    /// The number of model requests.
    pub steps: u32,
    /// The tool calls, in order: tool and outcome.
    pub calls: Vec<(ToolCall, CallOutcome)>,
    /// The sequence numbers of the messages of the turn.
    pub sequences: Vec<Sequence>,
    /// The interrupted turn that this turn resumed or ended.
    pub interrupted: Option<InterruptedTurnSummary>,
    /// The number of messages that were left out of the last request or replaced by a summary.
    pub left_out: usize,
}
