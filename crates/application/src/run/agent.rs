//! Runs an agent node: one turn in a conversation whose id is derived from the run and the step, so
//! that a resumed run finds the conversation and resumes its turn.

use cleveragents_actors::graph::ResponseFormat;
use cleveragents_actors::ports::{AgentCall, Allowance, Answer, Failure, FailureKind, StepUsage};
use cleveragents_domain::{
    EventKind, Metadata, NewMessage, Role, SessionId, TokenUsage, TurnState,
};
use cleveragents_models::{
    CancellationToken, ChatMessage, Model, ReasoningEffort, ResponseSchema, drop_optional_nulls,
};
use cleveragents_store::messages::{AppendEvents, AppendedMessage};
use cleveragents_store::sessions::NewSession;
use cleveragents_store::{runs, sessions, turns};
use cleveragents_tools::{check_value, example_arguments, untrusted};
use serde::Deserialize as _;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

use super::context::WorkState;
use super::executor::{RunExecutor, broken, failure, refused};
use super::prune::prune;
use super::trace;
use super::usage::{self, answered};
use crate::answer_json::json_values;
use crate::observer::{AgentEvent, StepObserver};
use crate::turn::{
    TextAnswer, TurnAllowance, TurnError, TurnRequest, TurnSettings, TurnTools, Waiting, is_refusal,
};
use crate::unknown_outcome::UnknownOutcomeApprover;

/// Maximum number of times that a model may correct an answer that does not fit the schema.
const MAX_CORRECTIONS: usize = 2;

/// Maximum number of reminders to report the result.
const MAX_REMINDERS: usize = 1;

/// Maximum size of the diff in the prompt that continues a failed turn, in bytes.
const SHOWN_DIFF_BYTES: usize = 8_000;

/// Maximum size of an answer that an error message quotes, in bytes.
const SHOWN_ANSWER_BYTES: usize = 300;

/// Maximum wait for the lock of a conversation. Only a process that died can still hold the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// State of the conversation of a step.
enum ConversationState {
    /// The conversation does not exist yet.
    Absent,
    /// The conversation exists and has no turn.
    Open,
    /// The last turn was interrupted.
    Interrupted,
    /// The last turn is complete; `turns` is the number of complete turns.
    Answered { answer: TurnAnswer, turns: usize },
    /// The last turn failed.
    Failed {
        reason: String,
        /// Whether the model answered in the failed turn; otherwise the question is asked again.
        has_answer: bool,
        /// Whether the previous turn failed too and the model did not answer in this one.
        is_hopeless: bool,
    },
}

/// Answer of the model in a turn.
enum TurnAnswer {
    /// Plain text.
    Text(String),
    /// The arguments of a report tool.
    Report(Value),
}

impl RunExecutor<'_> {
    /// Asks the model, or returns the answer that an earlier attempt of the run stored.
    pub(super) fn ask(&self, call: &AgentCall<'_>) -> Result<Answer, Failure> {
        let agent = call.agent;
        let models = self.run_context.models;
        let model = match &agent.remote {
            Some(remote) => models.agent(&agent.name, remote),
            None => models.open(agent.model.as_deref()),
        };
        let model = model.map_err(refused)?;
        let gate = self.gate(&agent.tools, &agent.skills, &agent.mcp_servers)?;
        let mut number = 0_u32;
        let mut prompt = Some(call.prompt.clone());
        // Usage of abandoned conversations.
        let mut abandoned_usage = StepUsage::default();
        let (mut is_known, mut has_reported) = (false, false);
        loop {
            let key = format!("{}~{}~{number}", call.path, call.attempt);
            let session = self.run.session(&key);
            let state = self.conversation_state(session).map_err(broken)?;
            // In a plan, the retry of a failed turn starts with fresh limits.
            let is_retry = matches!(state, ConversationState::Failed { .. });
            let has_new_limits = is_retry && self.run_context.work.is_some();
            if !is_known && !has_new_limits {
                call.allowance.count(self.usage(session).map_err(broken)?);
            }
            is_known = true;
            match state {
                // The conversation itself may cause the failures, so start a new one.
                ConversationState::Failed {
                    is_hopeless: true, ..
                } => {
                    abandoned_usage = abandoned_usage.plus(self.usage(session).map_err(broken)?);
                    number += 1;
                    is_known = false;
                    continue;
                }
                ConversationState::Failed {
                    reason, has_answer, ..
                } => {
                    prompt = Some(if has_answer {
                        self.continuation(&reason)
                    } else {
                        call.prompt.clone()
                    });
                }
                ConversationState::Absent => self.begin(session, call)?,
                ConversationState::Open => {}
                ConversationState::Interrupted => prompt = None,
                ConversationState::Answered { answer, turns } => {
                    let usage = abandoned_usage.plus(self.usage(session).map_err(broken)?);
                    let is_reminded = agent.response_format.is_none();
                    let limit = if is_reminded {
                        MAX_REMINDERS
                    } else {
                        MAX_CORRECTIONS
                    };
                    let text = match &answer {
                        TurnAnswer::Text(text) => text.clone(),
                        TurnAnswer::Report(_) => String::new(),
                    };
                    match self.read_answer(agent.response_format.as_ref(), answer) {
                        Ok(value) => return Ok(Answer { value, usage }),
                        // The caller interprets the text.
                        Err(_)
                            if turns > limit
                                && is_reminded
                                && self.run_context.reports.text != TextAnswer::Report =>
                        {
                            let value = Value::String(text);
                            return Ok(Answer { value, usage });
                        }
                        // An earlier attempt of the run reached the limit of corrections. This attempt
                        // starts a new conversation.
                        Err(_) if turns > limit && !has_reported => {
                            abandoned_usage = usage;
                            number += 1;
                            is_known = false;
                            continue;
                        }
                        Err(why) if turns > limit => {
                            return Err(Failure {
                                kind: FailureKind::InvalidFormat,
                                message: unusable_answer(&why, &text),
                                usage,
                            });
                        }
                        Err(why) => {
                            prompt = Some(self.correction(&why, agent.response_format.as_ref()));
                        }
                    }
                }
            }
            self.run_turn(call, &gate, &model, session, prompt.clone())
                .map_err(|failure| Failure {
                    usage: abandoned_usage.plus(failure.usage),
                    ..failure
                })?;
            has_reported = true;
        }
    }

    fn conversation_state(
        &self,
        session: SessionId,
    ) -> Result<ConversationState, cleveragents_store::Error> {
        self.engine.read(|reader| {
            if sessions::get(reader, session)?.is_none() {
                return Ok(ConversationState::Absent);
            }
            let all = turns::of_session(reader, session)?;
            let Some(last) = all.last() else {
                return Ok(ConversationState::Open);
            };
            Ok(match last.state {
                TurnState::Running => ConversationState::Interrupted,
                TurnState::Failed => {
                    let has_answer = turns::steps(reader, last.id)?.iter().any(is_answer);
                    let mut earlier = all.iter().rev().skip(1);
                    ConversationState::Failed {
                        reason: last.error.clone().unwrap_or_default(),
                        has_answer,
                        is_hopeless: !has_answer
                            && earlier
                                .next()
                                .is_some_and(|turn| turn.state == TurnState::Failed),
                    }
                }
                TurnState::Complete => ConversationState::Answered {
                    answer: self.answer_of(turns::steps(reader, last.id)?),
                    turns: all
                        .iter()
                        .filter(|turn| turn.state == TurnState::Complete)
                        .count(),
                },
            })
        })
    }

    fn answer_of(&self, steps: Vec<Value>) -> TurnAnswer {
        let last = steps.iter().skip(steps.len().saturating_sub(2));
        let last: Vec<ChatMessage> = last
            .filter_map(|step| ChatMessage::deserialize(step).ok())
            .collect();
        match self.run_context.reports.reported(&last) {
            Some(report) => TurnAnswer::Report(report),
            None => TurnAnswer::Text(last_answer(steps)),
        }
    }

    /// Reads an answer as a value: a report, plain text, or JSON when a format is given. The error is the reason why
    /// the answer cannot be used.
    fn read_answer(
        &self,
        format: Option<&ResponseFormat>,
        answer: TurnAnswer,
    ) -> Result<Value, String> {
        let text = match answer {
            TurnAnswer::Report(report) => return Ok(report),
            TurnAnswer::Text(text) => text,
        };
        match format {
            Some(format) => formatted(format, &text),
            None if self.run_context.reports.text.expects_report() => {
                let report = self.run_context.reports.in_text(&text);
                let is_done = self.run_context.reports.text == TextAnswer::RemindedUnlessDone
                    && !text.trim().is_empty()
                    && !is_refusal(&text)
                    && self.run_context.work.is_some_and(WorkState::may_end);
                match report {
                    Err(_) if is_done => Ok(Value::String(text)),
                    report => report,
                }
            }
            None => Ok(Value::String(text)),
        }
    }

    /// The prompt that continues a failed turn in its conversation.
    fn continuation(&self, reason: &str) -> String {
        let mut prompt = format!(
            "Your last turn was interrupted: {}. The conversation above is what you did. Calls without a known result may \
             have had an effect: check before you repeat them. Continue where you stopped; do not start over.",
            reason.trim_end_matches('.')
        );
        if let Some(mut diff) = self.run_context.work.and_then(WorkState::diff) {
            diff = self.run_context.redactor.text(&diff).into_owned();
            let mut shown = untrusted::wrap("diff", &diff);
            untrusted::shorten(&mut shown, SHOWN_DIFF_BYTES);
            prompt.push_str("\n\nThe changes so far:\n");
            prompt.push_str(&shown);
        }
        prompt
    }

    /// The prompt that asks the model to correct an unusable answer.
    fn correction(&self, why: &str, format: Option<&ResponseFormat>) -> String {
        let tools: Vec<String> = self
            .run_context
            .reports
            .expected()
            .map(|tool| format!("`{}`", tool.name))
            .collect();
        if tools.is_empty() {
            let example = format.and_then(|format| example_arguments(&format.schema));
            let example =
                example.map_or_else(String::new, |example| format!(" Its form: {example}"));
            return format!(
                "Your answer cannot be used: {why}. Give the whole answer again, as one JSON value and nothing \
                 else.{example}"
            );
        }
        let why = if self.run_context.reports.text == TextAnswer::RemindedUnlessDone {
            "you ended without a report, and a text answer does not end a phase".to_owned()
        } else {
            format!("your answer is not a report: {why}")
        };
        format!(
            "Not finished: {why}. Continue with the work if something is missing. Then call {}. Without tools, answer \
             with the arguments of the report as one JSON object and nothing else.",
            tools.join(" or ")
        )
    }

    /// Creates the conversation with all earlier messages in one transaction: messages from
    /// the state of the actor, or a copy of the conversation that this run continues.
    fn begin(&self, session: SessionId, call: &AgentCall<'_>) -> Result<(), Failure> {
        let mut earlier = Vec::new();
        for message in call.messages {
            let text = match &message["content"] {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            if text.trim().is_empty() {
                continue;
            }
            let role = match message["role"].as_str() {
                Some("assistant") => Role::Assistant,
                Some("system") => Role::System,
                _ => Role::User,
            };
            let text = self.run_context.redactor.text(&text).into_owned();
            let message: NewMessage = self
                .sessions
                .message(role, text, Metadata::new())
                .map_err(|error| refused(error.to_string()))?;
            earlier.push(AppendedMessage::from(message));
        }
        let new = NewSession {
            owner: Some(runs::owner(self.run)),
            name: None,
            actor: None,
            namespace: "local".to_owned(),
            automation: "supervised".to_owned(),
            usage: TokenUsage::default(),
            forked_from: None,
            created_at: None,
        };
        let carried = self
            .run_context
            .carried
            .clone()
            .filter(|_| call.messages.is_empty());
        self.engine
            .write(move |unit| {
                sessions::insert(unit, session, &new, EventKind::SessionCreated)?;
                let source = match &carried {
                    Some(carried) => trace::last_conversation(unit, carried.run)?,
                    None => None,
                };
                if let Some(source) = source {
                    let mut messages = trace::messages(unit, source)?;
                    if let Some(kept) = carried
                        .as_ref()
                        .and_then(|carried| carried.kept_files.as_ref())
                    {
                        prune(&mut messages, kept);
                    }
                    let copied: Vec<AppendedMessage> = messages
                        .into_iter()
                        .map(|message| AppendedMessage {
                            message_at: Some(message.created_at),
                            message: NewMessage::copy_of(message),
                        })
                        .collect();
                    cleveragents_store::messages::append(
                        unit,
                        session,
                        &copied,
                        AppendEvents::Nothing,
                    )?;
                }
                if !earlier.is_empty() {
                    cleveragents_store::messages::append(
                        unit,
                        session,
                        &earlier,
                        AppendEvents::Each,
                    )?;
                }
                Ok::<(), cleveragents_store::Error>(())
            })
            .map_err(broken)
    }

    fn run_turn(
        &self,
        call: &AgentCall<'_>,
        gate: &cleveragents_tools::Gate,
        model: &Arc<dyn Model>,
        session: SessionId,
        prompt: Option<String>,
    ) -> Result<(), Failure> {
        let run_context = self.run_context;
        let observer = StepObserver {
            path: call.path,
            observer: run_context.observer,
            is_streamed: call.is_streamed,
        };
        let waiting = Waiting {
            patience: LOCK_TIMEOUT,
            observer: &observer,
            cancel: call.cancel,
        };
        let mut locked = self
            .turns
            .take(session, &waiting)
            .map_err(|error| self.failed(&error, session))?;
        let approver = UnknownOutcomeApprover {
            unknown_outcome: run_context.unknown_outcome,
            other: run_context.approver,
        };
        let request = TurnRequest {
            prompt,
            images: Vec::new(),
            model: Arc::clone(model),
            plan: run_context.plan,
            actor: call.actor.name.parse().ok(),
            system: self.system(call, model.as_ref()),
            tools: TurnTools {
                gate,
                mode: run_context.mode,
                profile: run_context.profile,
                guards: run_context.guards,
                rules: run_context.rules,
                workspace: run_context.workspace,
                approver: &approver,
                deferred: run_context.deferred,
            },
            reports: run_context.reports,
            scopes: run_context.scopes.clone(),
            redactor: run_context.redactor.clone(),
            settings: self.settings(call, model.as_ref())?,
            allowance: &RunAllowance(call.allowance),
            observer: &observer,
            cancel: call.cancel,
            stop: CancellationToken::new(),
        };
        let result = self.turns.run(&mut locked, &request);
        run_context
            .observer
            .event(&AgentEvent::AnswerComplete { path: None }.in_step(call.path));
        let report = result.map_err(|error| self.failed(&error, session))?;
        for caveat in report.caveats() {
            let caveat = AgentEvent::Caveat {
                path: None,
                text: caveat.to_owned(),
            };
            run_context.observer.event(&caveat.in_step(call.path));
        }
        Ok(())
    }

    /// The instructions that every request contains.
    fn system(&self, call: &AgentCall<'_>, model: &dyn Model) -> Vec<String> {
        let mut system = self.run_context.instructions.clone();
        system.extend(call.system.clone());
        system.extend(self.run_context.sources.disclosure(&call.agent.skills));
        // Every model receives the schema as text, because some providers cannot enforce a schema while
        // tools are declared.
        if let Some(format) = self.format(call, model) {
            let first = if model.capabilities().tools {
                "Call the tools you need first. Then give"
            } else {
                "Give"
            };
            system.push(format!(
                "{first} your final answer as one JSON value and nothing else. It must fit this JSON schema:\n{}",
                format.schema
            ));
        }
        system
    }

    /// The format of a text answer. A model without tools answers with the arguments of the expected
    /// report.
    fn format(&self, call: &AgentCall<'_>, model: &dyn Model) -> Option<ResponseFormat> {
        if let Some(format) = &call.agent.response_format {
            return Some(format.clone());
        }
        let reports = &self.run_context.reports;
        let is_expected = reports.text.expects_report() && !model.capabilities().tools;
        let report = reports.expected().next().filter(|_| is_expected)?;
        Some(ResponseFormat {
            name: report.name.to_owned(),
            schema: report.schema.clone(),
            strict: false,
        })
    }

    fn settings(&self, call: &AgentCall<'_>, model: &dyn Model) -> Result<TurnSettings, Failure> {
        let agent = call.agent;
        let standard = TurnSettings::default();
        // The request limit of the actor replaces the default. The run enforces it, so the turn itself
        // has no limit.
        let request_limit = call.actor.graph.limits.max_model_calls;
        let reasoning_effort = agent
            .reasoning_effort
            .as_ref()
            .map(|word| {
                serde_json::from_value::<ReasoningEffort>(Value::String(word.clone()))
                    .map_err(|_| refused(format!("`{word}` is not a reasoning effort")))
            })
            .transpose()?;
        Ok(TurnSettings {
            max_steps: request_limit.map_or(standard.max_steps, |_| u32::MAX),
            max_output_tokens: agent.max_output_tokens,
            context_tokens: agent.memory.max_tokens,
            temperature: self.run_context.temperature.or(agent.temperature),
            reasoning_effort,
            options: agent.options.clone(),
            answer_limit: request_limit.filter(|_| !self.run_context.reports.offered.is_empty()),
            response_schema: self.format(call, model).map(|format| ResponseSchema {
                name: format.name,
                schema: format.schema,
                strict: format.strict,
            }),
            stream: call.is_streamed,
            keeps_unfinished: true,
            summary_prompt: self
                .run_context
                .summary_prompt
                .clone()
                .unwrap_or(standard.summary_prompt),
            ..TurnSettings::default()
        })
    }

    /// The error of a failed turn, with its usage.
    fn failed(&self, error: &TurnError, session: SessionId) -> Failure {
        let kind = match error {
            TurnError::Cancelled => FailureKind::Cancelled,
            TurnError::HumanNeeded { .. } => FailureKind::HumanNeeded,
            TurnError::Budget { .. } => FailureKind::Refused,
            TurnError::Model(error) if error.is_retryable() => FailureKind::Timeout,
            TurnError::Store(_)
            | TurnError::Lease(_)
            | TurnError::Sandbox(_)
            | TurnError::Gate(_)
            | TurnError::Busy(_) => FailureKind::Broken,
            _ => FailureKind::Failed,
        };
        Failure {
            usage: self.usage(session).unwrap_or_default(),
            ..failure(kind, error.to_string())
        }
    }

    /// Usage of a conversation.
    fn usage(&self, session: SessionId) -> Result<StepUsage, cleveragents_store::Error> {
        self.engine
            .read(|reader| usage::of_session(reader, session))
    }
}

/// Whether a stored message of a turn is an answer of the model.
fn is_answer(step: &Value) -> bool {
    matches!(
        ChatMessage::deserialize(step),
        Ok(ChatMessage::Assistant(_))
    )
}

/// The error message for an unusable answer: the reason and the beginning of the answer.
fn unusable_answer(why: &str, text: &str) -> String {
    let text = text.trim();
    let message = format!("the answer does not fit the response format: {why}");
    if text.is_empty() {
        return message;
    }
    let end = text.floor_char_boundary(SHOWN_ANSWER_BYTES);
    let more = if end < text.len() { "…" } else { "" };
    format!("{message}; it answered: \"{}{more}\"", &text[..end])
}

/// The text of the last answer of a turn.
fn last_answer(steps: Vec<Value>) -> String {
    steps
        .into_iter()
        .rev()
        .find_map(|step| answered(&step))
        .unwrap_or_default()
}

/// The first JSON value in an answer that fits the format.
fn formatted(format: &ResponseFormat, text: &str) -> Result<Value, String> {
    if text.trim().is_empty() {
        return Err("it is empty".to_owned());
    }
    let mut misfit = None;
    for mut value in json_values(text) {
        drop_optional_nulls(&format.schema, &mut value);
        match check_value(&format.schema, &value) {
            Ok(()) => return Ok(value),
            Err(why) => misfit = misfit.or(Some(why)),
        }
    }
    Err(misfit.unwrap_or_else(|| "it contains no JSON value".to_owned()))
}

/// Applies the limits of the run to a turn.
struct RunAllowance<'a>(&'a dyn Allowance);

impl TurnAllowance for RunAllowance<'_> {
    fn ask(&self) -> bool {
        self.0.ask()
    }

    fn call(&self, calls: u64) -> bool {
        self.0.call(calls)
    }
}
