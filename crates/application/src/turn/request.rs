//! What a turn is asked with, and what it answers.

use std::collections::BTreeSet;
use std::sync::Arc;

use cleveragents_domain::{ActorName, PlanId, Sequence, TokenUsage, TurnId};
use cleveragents_models::{
    CancellationToken, Model, ReasoningEffort, Redactor, ResponseSchema, Retry, StopReason,
    ToolCall,
};
use cleveragents_process::Cancel;
use cleveragents_tools::ports::Approver;
use cleveragents_tools::{
    CallOutcome, Gate, Guards, PermissionRules, PlanMode, SafetyProfile, ToolName,
};
use serde_json::{Map, Value};

use crate::tool::{SandboxWorkspace, SpendScope};

/// Bounds of a turn.
#[derive(Debug, Clone)]
pub struct TurnSettings {
    /// How often the model may be asked.
    pub max_steps: u32,
    /// What the model may be given to read, in tokens; its context window when not given.
    pub context_tokens: Option<u64>,
    /// The longest answer of one step; a usual limit of the model when not given.
    pub max_output_tokens: Option<u32>,
    /// How much of an output the model is shown.
    pub shown_bytes: usize,
    /// Whether the answer is wanted piece by piece.
    pub stream: bool,
    /// How freely the model chooses words.
    pub temperature: Option<f64>,
    /// How hard it thinks.
    pub reasoning_effort: Option<ReasoningEffort>,
    /// Further parameters for the model, such as `top_p`.
    pub options: Map<String, Value>,
    /// The form its answer must have, where the model can be bound to one.
    pub response_schema: Option<ResponseSchema>,
    /// Whether a turn that was stopped, or needs a person, is left to be gone on with; otherwise it is
    /// ended as failed.
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
            response_schema: None,
            keeps_unfinished: false,
        }
    }
}

/// The tools of a turn, and what they may do.
#[derive(Clone)]
pub struct TurnTools<'a> {
    /// The one caller of tools.
    pub gate: &'a Gate,
    /// What the plan or session allows.
    pub mode: PlanMode,
    /// How careful to be.
    pub profile: &'a SafetyProfile,
    /// Limits of what runs by itself.
    pub guards: &'a Guards,
    /// What is allowed, asked and denied.
    pub rules: &'a PermissionRules,
    /// The sandbox.
    pub workspace: Option<&'a SandboxWorkspace>,
    /// Who is asked.
    pub approver: &'a dyn Approver,
    /// Tools that requests declare only once the model found them by searching.
    pub deferred: &'a BTreeSet<ToolName>,
}

/// One question, and what is needed to answer it.
#[derive(Clone)]
pub struct TurnRequest<'a> {
    /// The question; `None` goes on with the turn that was interrupted.
    pub prompt: Option<String>,
    /// The model that answers.
    pub model: Arc<dyn Model>,
    /// The plan for which it is asked.
    pub plan: Option<PlanId>,
    /// The actor in whose name it answers.
    pub actor: Option<ActorName>,
    /// Standing instructions.
    pub system: Vec<String>,
    /// Its tools.
    pub tools: TurnTools<'a>,
    /// What may be spent, by whom.
    pub scopes: Vec<SpendScope>,
    /// Takes secrets out of what is stored and shown.
    pub redactor: Redactor,
    /// Bounds.
    pub settings: TurnSettings,
    /// How many questions and calls there may be, beside the bounds.
    pub allowance: &'a dyn TurnAllowance,
    /// Who watches.
    pub observer: &'a dyn TurnObserver,
    /// What stops the turn.
    pub cancel: &'a Cancel,
    /// What stops the model; to be cancelled together with `cancel`.
    pub stop: CancellationToken,
}

/// Grants the questions and calls of a turn, where it shares limits with others.
pub trait TurnAllowance: Sync {
    /// Whether the model may be asked once more.
    fn ask(&self) -> bool {
        true
    }

    /// Whether so many tools may be called.
    fn call(&self, _calls: u64) -> bool {
        true
    }
}

/// Grants everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unlimited;

impl TurnAllowance for Unlimited {}

/// Who watches a turn as it happens.
pub trait TurnObserver: Send + Sync {
    /// Another turn of the session is waited for.
    fn waiting(&self) {}
    /// A piece of the answer.
    fn text(&self, _piece: &str) {}
    /// A piece of what the model thinks.
    fn reasoning(&self, _piece: &str) {}
    /// An attempt to get an answer failed, and another follows. `shown` says whether pieces of the failed answer
    /// were passed to [`text`](Self::text): they are void, and the answer restarts.
    fn retrying(&self, _retry: &Retry, _shown: bool) {}
    /// The model is asked again.
    fn step(&self, _number: u32) {}
    /// A tool is about to be called.
    fn calling(&self, _call: &ToolCall) {}
    /// A tool was called.
    fn called(&self, _call: &ToolCall, _outcome: &CallOutcome) {}
    /// A turn that was interrupted is brought to an end, or gone on with.
    fn recovered(&self, _interrupted: &Interrupted) {}
}

/// Nobody watches.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl TurnObserver for NoObserver {}

/// What an interrupted turn left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interrupted {
    /// The turn.
    pub turn: TurnId,
    /// Calls that were begun and of which nobody knows what came: the tools.
    pub doubtful: Vec<String>,
    /// Whether it is gone on with; otherwise it was ended as failed.
    pub is_resumed: bool,
}

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The model said all it had to say.
    Whole,
    /// It was cut at the limit of tokens.
    Cut,
    /// The provider withheld the rest of it, or all of it.
    Withheld,
    /// The provider ended it early for another reason, such as a malformed call.
    Unfinished,
}

impl From<&StopReason> for Ending {
    fn from(reason: &StopReason) -> Self {
        match reason {
            StopReason::MaxTokens => Self::Cut,
            StopReason::ContentFilter => Self::Withheld,
            // Anthropic pauses a long turn of its own tools; Gemini ends at a call it cannot write.
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
    /// What a person must know before relying on the answer, or on the limit of money.
    pub fn caveats(&self) -> impl Iterator<Item = &'static str> {
        let money = self.is_beyond_limits.then_some(
            "the price of the model is not known, so its answers do not count towards the limit of \
             money: give the price in models.yaml",
        );
        self.about_answer().into_iter().chain(money)
    }

    fn about_answer(&self) -> Option<&'static str> {
        match self.ending {
            Ending::Cut => Some("the answer is cut at the limit of tokens"),
            Ending::Withheld => {
                Some("the provider withheld the rest of the answer: its content filter stopped it")
            }
            Ending::Unfinished => Some("the provider ended the answer before it was complete"),
            Ending::Whole if self.answer.trim().is_empty() => {
                Some("the model ended without saying anything")
            }
            Ending::Whole => None,
        }
    }
}

/// What a turn did.
#[derive(Debug, Clone)]
pub struct TurnReport {
    /// The turn.
    pub turn: TurnId,
    /// The answer.
    pub answer: String,
    /// Whether that is all of it.
    pub ending: Ending,
    /// Who answered last.
    pub model: String,
    /// What it took and cost.
    pub usage: TokenUsage,
    /// Whether some of the cost is not known.
    pub is_cost_partial: bool,
    /// Whether there is a limit of money that does not hold, since a price is not known.
    pub is_beyond_limits: bool,
    /// How many times the model was asked.
    pub steps: u32,
    /// The calls, in order: tool and outcome.
    pub calls: Vec<(ToolCall, CallOutcome)>,
    /// The numbers of its messages in the session.
    pub sequences: Vec<Sequence>,
    /// What an interrupted turn before it left.
    pub interrupted: Option<Interrupted>,
    /// How many earlier messages the model was not shown.
    pub left_out: usize,
}
