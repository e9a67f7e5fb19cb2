//! One question to the model: what it is given, what that may cost, and what it says.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_domain::{Diagnose as _, Message, MicroUsd, TokenUsage, Tokens};
use cleveragents_models::{
    AGENT_PROVIDER, AssistantMessage, ChatMessage, ChatRequest, Completion, ErrorKind, EventStream,
    ModelError, Price, StopReason, StreamEvent, ToolCall, ToolDefinition, Usage, Veil,
};
use cleveragents_telemetry::{self as telemetry, Kind, Span, name};
use cleveragents_tools::{Ground, ToolSpec};
use futures_util::StreamExt as _;
use serde_json::Value;

use super::calls::CallRunner;
use super::context::fit;
use super::error::TurnError;
use super::history;
use super::request::{TurnReport, TurnRequest};
use super::secrets;
use super::service::{Running, StepCost, TurnService, chat_text};
use crate::tool::Shortage;

/// So often somebody who listens to a model looks whether the turn is to end.
const LOOK_UP: Duration = Duration::from_millis(50);

/// What is the same for every question of a turn.
pub(super) struct Standing {
    /// What was said in the session before.
    earlier: Vec<Message>,
    /// The ids of the calls in it.
    known: HashSet<String>,
    tools: Arc<[ToolDefinition]>,
    /// The length of what the model is told of the tools.
    tool_bytes: usize,
}

impl Standing {
    pub(super) fn new(request: &TurnRequest<'_>, earlier: Vec<Message>) -> Self {
        let tools = definitions(request);
        let bytes = tools
            .iter()
            .map(|tool| tool.description.len() + tool.input_schema.to_string().len());
        let past = history::past(&earlier).turns;
        let past = past.iter().flat_map(|turn| &turn.messages);
        Self {
            known: past.flat_map(calls).map(|call| call.id.clone()).collect(),
            earlier,
            tool_bytes: bytes.sum(),
            tools,
        }
    }
}

impl TurnService {
    /// Asks the model, and stores what it says with what that cost.
    pub(super) fn ask(
        &self,
        runner: &CallRunner<'_>,
        running: &mut Running,
        standing: &Standing,
        report: &mut TurnReport,
    ) -> Result<Completion, TurnError> {
        let (request, budget) = (runner.request, runner.budget);
        let mut chat = Self::chat(request, running, standing, report);
        chat.key = Some(format!("{}-{}", running.turn.id, running.steps.len()));
        chat.noted = running.noted.take();
        let price = request.model.price();
        let bound = most_expensive(price.as_ref(), &chat, standing.tool_bytes);
        let held = budget
            .reserve_money(bound, None)
            .map_err(|shortage| match shortage {
                Shortage::Money { scope, limit, used } => TurnError::Budget {
                    scope,
                    limit,
                    used,
                    wanted: bound,
                },
                Shortage::Store(error) => error.into(),
            })?;
        let mut span = model_span(request, running);
        let heard = {
            let _in = telemetry::attach(span.context());
            self.listen(request, running, chat)
        };
        tell_end(&mut span, &heard.0);
        drop(span);
        let mut completion = match heard {
            (Ok(completion), _) => completion,
            (Err(error), has_begun) => {
                // What was streamed was paid for, though nobody said how much.
                held.settle(if has_begun { bound } else { MicroUsd(0) })?;
                return Err(match error {
                    TurnError::Model(error) if *error.kind() == ErrorKind::Cancelled => {
                        TurnError::Cancelled
                    }
                    error => error,
                });
            }
        };
        // What nobody counted is taken for the most it could be: a limit must hold all the same.
        let settlement = held.settlement(completion.cost_micro_usd.unwrap_or(bound));
        // Those of this turn even where the model is no longer given them: their rows are found by their ids.
        let made = || running.steps.iter().flat_map(|step| calls(step));
        let is_known = |id: &str| standing.known.contains(id) || made().any(|call| call.id == id);
        let count = standing.known.len() + made().count();
        make_distinct(&mut completion.message, count, is_known);
        running.written = secrets::take_out(&mut completion.message, &request.redactor);
        running.is_loaded = false;
        let usage = TokenUsage {
            input_tokens: Tokens(completion.usage.input_tokens),
            output_tokens: Tokens(completion.usage.output_tokens),
            cost_micro_usd: completion.cost_micro_usd.unwrap_or_default(),
        };
        report.usage = report.usage.plus(usage);
        report.is_cost_partial |= completion.cost_micro_usd.is_none();
        report.is_beyond_limits |= completion.cost_micro_usd.is_none()
            && bound == MicroUsd(0)
            && request.scopes.iter().any(|scope| scope.limit.is_some());
        let cost = StepCost {
            usage,
            settlement,
            is_known: completion.cost_micro_usd.is_some(),
        };
        self.add_answer(runner, running, completion.message.clone(), cost)?;
        Ok(completion)
    }

    /// Listens to the model; says also whether it had begun to answer.
    fn listen(
        &self,
        request: &TurnRequest<'_>,
        running: &mut Running,
        chat: ChatRequest,
    ) -> (Result<Completion, TurnError>, bool) {
        let failed =
            |kind, why: String| TurnError::from(ModelError::new(kind, request.model.name(), why));
        let runtime = match self.runtime() {
            Ok(runtime) => runtime,
            Err(error) => {
                let why = format!("the system gives no means to listen: {error}");
                return (Err(failed(ErrorKind::Protocol, why)), false);
            }
        };
        let mut hearing = Hearing {
            request,
            events: request.model.stream(chat, request.stop.clone()),
            text: Veil::new(request.redactor.clone()),
            reasoning: Veil::new(request.redactor.clone()),
            has_begun: false,
        };
        loop {
            // Notes are stored between two stretches of listening: the database waits in its own way.
            let heard = runtime.block_on(hearing.listen());
            let answer = match heard {
                Ok(Heard::Whole(completion)) => Ok(*completion),
                Ok(Heard::Note(note)) => match self.note(running, &note) {
                    Ok(()) => continue,
                    Err(error) => Err(error),
                },
                Ok(Heard::Nothing) => {
                    let why = "the answer ended before it was whole".to_owned();
                    Err(failed(ErrorKind::Interrupted, why))
                }
                Err(error) => Err(error.into()),
            };
            return (answer, hearing.has_begun);
        }
    }

    /// Everything the model is given.
    fn chat(
        request: &TurnRequest<'_>,
        running: &Running,
        standing: &Standing,
        report: &mut TurnReport,
    ) -> ChatRequest {
        let past = history::past(&standing.earlier);
        let system: Vec<String> = request.system.iter().cloned().chain(past.system).collect();
        let window = request
            .settings
            .context_tokens
            .or_else(|| request.model.capabilities().context_window)
            .unwrap_or(128_000);
        let fixed = system.iter().map(String::len).sum::<usize>() / 3 + standing.tool_bytes / 3;
        let room = usize::try_from(window)
            .unwrap_or(usize::MAX)
            .saturating_sub(fixed)
            .saturating_sub(request.settings.max_output_tokens as usize);
        let fitted = fit(past.turns, &running.steps, room);
        report.left_out = fitted.left_out;
        ChatRequest {
            system,
            messages: fitted.messages,
            tools: Arc::clone(&standing.tools),
            response_schema: request
                .settings
                .response_schema
                .clone()
                .filter(|_| request.model.capabilities().json_schema),
            max_output_tokens: Some(request.settings.max_output_tokens),
            temperature: request.settings.temperature,
            reasoning_effort: request.settings.reasoning_effort,
            stream: request.settings.stream,
            ..ChatRequest::default()
        }
    }
}

/// An answer that is being listened to.
struct Hearing<'a> {
    request: &'a TurnRequest<'a>,
    events: EventStream,
    text: Veil,
    reasoning: Veil,
    has_begun: bool,
}

/// What comes of listening.
enum Heard {
    /// The answer.
    Whole(Box<Completion>),
    /// Something to be kept, before more is heard.
    Note(Value),
    /// The end, without an answer.
    Nothing,
}

impl Hearing<'_> {
    /// Listens until the answer is whole or something is to be kept, and shows the pieces.
    async fn listen(&mut self) -> Result<Heard, ModelError> {
        loop {
            // Whoever cancels the tools of a turn means the model too.
            let next = tokio::time::timeout(LOOK_UP, self.events.next()).await;
            let Ok(next) = next else {
                if self.request.cancel.is_cancelled() {
                    self.request.stop.cancel();
                }
                continue;
            };
            let Some(event) = next else {
                return Ok(Heard::Nothing);
            };
            match event? {
                StreamEvent::Text(piece) => {
                    self.has_begun = true;
                    let piece = self.text.push(&piece);
                    self.show_text(&piece);
                }
                StreamEvent::Reasoning(piece) => {
                    self.has_begun = true;
                    let piece = self.reasoning.push(&piece);
                    self.show_reasoning(&piece);
                }
                StreamEvent::ToolCallStarted { .. } | StreamEvent::ToolCallArguments { .. } => {
                    self.has_begun = true;
                }
                StreamEvent::Noted(note) => return Ok(Heard::Note(note)),
                StreamEvent::Finished(completion) => {
                    let (reasoning, text) = (self.reasoning.finish(), self.text.finish());
                    self.show_reasoning(&reasoning);
                    self.show_text(&text);
                    return Ok(Heard::Whole(completion));
                }
            }
        }
    }

    fn show_text(&self, piece: &str) {
        if !piece.is_empty() {
            self.request.observer.text(piece);
        }
    }

    fn show_reasoning(&self, piece: &str) {
        if !piece.is_empty() {
            self.request.observer.reasoning(piece);
        }
    }
}

/// A span of a question to a model, or to an agent on another machine.
fn model_span(request: &TurnRequest<'_>, running: &Running) -> Span {
    let model = request.model.name();
    let is_agent = model.provider() == AGENT_PROVIDER;
    let operation = if is_agent {
        name::INVOKE_AGENT
    } else {
        name::CHAT
    };
    let mut span = Span::begin(Kind::Client, || format!("{operation} {}", model.model()));
    span.set(name::OPERATION, operation);
    span.set(name::PROVIDER, name::provider(model.provider()));
    span.set(name::CONVERSATION, running.turn.session.to_string());
    if is_agent {
        span.set(name::AGENT, model.model());
        return span;
    }
    span.set(name::REQUEST_MODEL, model.model());
    let settings = &request.settings;
    span.set(name::MAX_TOKENS, u64::from(settings.max_output_tokens));
    if let Some(temperature) = settings.temperature {
        span.set(name::TEMPERATURE, temperature);
    }
    span
}

/// Tells what came of a question: how it ended and what it took, never what was said.
fn tell_end(span: &mut Span, answer: &Result<Completion, TurnError>) {
    let completion = match answer {
        Ok(completion) => completion,
        Err(error) => {
            span.fail(error.code().as_str());
            return;
        }
    };
    span.set(name::RESPONSE_MODEL, completion.model.model());
    let reason = match &completion.stop {
        StopReason::EndTurn => "stop",
        StopReason::ToolCalls => "tool_calls",
        StopReason::MaxTokens => "length",
        StopReason::ContentFilter => "content_filter",
        StopReason::Other(_) => "other",
    };
    span.set(name::FINISH_REASONS, vec![reason.to_owned()]);
    if completion.usage.is_told() {
        span.set(name::INPUT_TOKENS, completion.usage.input_tokens);
        span.set(name::OUTPUT_TOKENS, completion.usage.output_tokens);
    }
}

/// What a call could cost at most: no token has less than a byte.
fn most_expensive(price: Option<&Price>, chat: &ChatRequest, tool_bytes: usize) -> MicroUsd {
    let Some(price) = price else {
        return MicroUsd(0);
    };
    let mut bytes = tool_bytes + chat.system.iter().map(String::len).sum::<usize>();
    bytes += chat
        .messages
        .iter()
        .map(|message| chat_text(message).len() + pictures(message))
        .sum::<usize>();
    let usage = |cache_write_tokens| Usage {
        input_tokens: bytes as u64,
        output_tokens: u64::from(chat.max_output_tokens.unwrap_or(u32::MAX)),
        cache_write_tokens,
        ..Usage::default()
    };
    price.cost(&usage(0)).max(price.cost(&usage(bytes as u64)))
}

/// What the pictures of results may come to. A small file may hold a large picture.
fn pictures(message: &ChatMessage) -> usize {
    const LEAST: usize = 20_000;
    let ChatMessage::Tool { results } = message else {
        return 0;
    };
    let pictures = results.iter().flat_map(|result| &result.pictures);
    pictures.map(|picture| picture.data.len().max(LEAST)).sum()
}

/// The calls that an answer asks for.
fn calls(message: &ChatMessage) -> &[ToolCall] {
    match message {
        ChatMessage::Assistant(answer) => &answer.calls,
        _ => &[],
    }
}

/// Gives calls ids that no other call of the conversation has: some servers begin anew with each
/// answer, and others refuse a conversation in which an id occurs twice.
fn make_distinct(
    message: &mut AssistantMessage,
    mut number: usize,
    is_known: impl Fn(&str) -> bool,
) {
    let mut taken: HashSet<String> = HashSet::new();
    for call in &mut message.calls {
        while call.id.trim().is_empty() || taken.contains(&call.id) || is_known(&call.id) {
            call.id = format!("call-{number}");
            number += 1;
        }
        taken.insert(call.id.clone());
    }
}

/// Whether a tool could run at all; others are not worth telling of.
fn is_offered(request: &TurnRequest<'_>, spec: &ToolSpec) -> bool {
    let tools = &request.tools;
    let has_ground = spec.ground == Ground::Nothing || tools.workspace.is_some();
    let may_write = tools.mode.allows_writing() || !spec.capability.is_writing();
    has_ground && may_write && !tools.deferred.contains(&spec.name)
}

/// The tools as the model is told of them: those that could run.
fn definitions(request: &TurnRequest<'_>) -> Arc<[ToolDefinition]> {
    if !request.model.capabilities().tools {
        return Arc::default();
    }
    request
        .tools
        .gate
        .registry()
        .list()
        .filter(|spec| is_offered(request, spec))
        .map(|spec| ToolDefinition {
            name: spec.name.wire_name(),
            description: spec.description.clone(),
            input_schema: spec.input_schema.clone(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use cleveragents_models::{AssistantMessage, ToolCall};

    use super::make_distinct;

    #[test]
    fn no_id_occurs_twice_in_a_conversation() {
        let call = |id: &str| ToolCall {
            id: id.to_owned(),
            name: "tool".to_owned(),
            arguments: String::new(),
            signature: None,
        };
        let mut answer = AssistantMessage {
            calls: ["call_0", "new", "new", " "].map(call).into(),
            ..AssistantMessage::default()
        };
        make_distinct(&mut answer, 2, |id| ["call_0", "call-2"].contains(&id));
        let ids: Vec<&str> = answer.calls.iter().map(|call| call.id.as_str()).collect();
        assert_eq!(ids, ["call-3", "new", "call-4", "call-5"]);
    }
}
