//! One request to the model: its messages, the reservation of its cost, and its answer.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use cleveragents_domain::{Diagnose as _, Message, MicroUsd, TokenUsage, Tokens};
use cleveragents_models::{
    AGENT_PROVIDER, AssistantMessage, ChatMessage, ChatRequest, Completion, ErrorKind, ModelError,
    Price, StopReason, ToolCall, ToolDefinition, Usage, UserPart,
};
use cleveragents_store::context_summaries::ContextSummary;
use cleveragents_tools::ToolName;
use tracing::field::Empty;
use tracing::{Span, info_span};

use super::answer_stream::{StreamPause, StreamStats, StreamingAnswer};
use super::calls::CallRunner;
use super::compaction::RemainingMessages;
use super::context::fit;
use super::error::TurnError;
use super::history;
use super::repeats::shorten_repeats;
use super::request::{TurnReport, TurnRequest};
use super::secrets;
use super::service::{RunningTurn, StepCost, TurnService, chat_text};
use super::tool_declarations::{can_run, definition, definitions, find_deferred, tool_bytes};
use crate::log_fields::milliseconds;
use crate::observer::AgentEvent;
use crate::tool::{MoneyReservation, Shortage};

/// Assumed context window of a model without a known one, in tokens.
pub(crate) const DEFAULT_WINDOW: u64 = 128_000;

/// The parts that all requests of a turn share.
pub(super) struct RequestBase {
    /// The earlier messages of the session.
    earlier: Vec<Message>,
    /// The ids of the tool calls in the earlier messages.
    earlier_call_ids: HashSet<String>,
    /// The tools that every request declares.
    tools: Arc<[ToolDefinition]>,
    /// The deferred tools that the model found in earlier turns, in the order of their discovery.
    found_tools: Vec<ToolName>,
    /// The newest summary of the conversation.
    pub(super) summary: Option<ContextSummary>,
}

impl RequestBase {
    pub(super) fn new(
        request: &TurnRequest<'_>,
        earlier: Vec<Message>,
        summary: Option<ContextSummary>,
    ) -> Self {
        let past = history::past(&earlier).turns;
        let past = || past.iter().flat_map(|turn| &turn.messages);
        let mut found_tools = Vec::new();
        find_deferred(request.tools.deferred, past(), &mut found_tools);
        Self {
            earlier_call_ids: past().flat_map(calls).map(|call| call.id.clone()).collect(),
            tools: definitions(request),
            found_tools,
            earlier,
            summary,
        }
    }

    /// The messages that requests contain: all messages after the newest summary.
    pub(super) fn remaining_messages(&self, running: &RunningTurn) -> RemainingMessages {
        let past = history::past(&self.earlier).turns;
        RemainingMessages::new(past, running, self.summary.as_ref())
    }

    /// The sequence number of the next message of the session.
    pub(super) fn next_sequence(&self) -> u64 {
        self.earlier
            .last()
            .map_or(0, |message| message.sequence.0 + 1)
    }

    /// The standing instructions of the turn, followed by the standing instructions of the session.
    fn system(&self, request: &TurnRequest<'_>) -> Vec<String> {
        let past = history::past(&self.earlier);
        request.system.iter().cloned().chain(past.system).collect()
    }

    /// Number of tokens that a request has left for messages: the context window without the output,
    /// the instructions and the tool declarations.
    pub(super) fn room(&self, request: &TurnRequest<'_>, running: &RunningTurn) -> usize {
        let output = output_tokens(request);
        let input = match request.settings.context_tokens {
            Some(window) => window.saturating_sub(output.into()),
            None => request
                .model
                .capabilities()
                .input_tokens(output)
                .unwrap_or_else(|| DEFAULT_WINDOW.saturating_sub(output.into())),
        };
        let system = self.system(request);
        let tools = self.declared(request, running);
        let fixed = system.iter().map(String::len).sum::<usize>() / 3 + tool_bytes(&tools) / 3;
        usize::try_from(input)
            .unwrap_or(usize::MAX)
            .saturating_sub(fixed)
    }

    /// The tools that the next request declares: the tools of every request, followed by the deferred
    /// tools found so far. New tools are only appended, so that the provider's prompt cache stays
    /// valid.
    fn declared(&self, request: &TurnRequest<'_>, running: &RunningTurn) -> Arc<[ToolDefinition]> {
        if request.tools.deferred.is_empty() || !request.model.capabilities().tools {
            return Arc::clone(&self.tools);
        }
        let mut found_tools = self.found_tools.clone();
        let steps = running.steps.iter().map(Arc::as_ref);
        find_deferred(request.tools.deferred, steps, &mut found_tools);
        let registry = request.tools.gate.registry();
        let found_tools = found_tools.iter().filter_map(|name| {
            let spec = registry.list().find(|spec| spec.name == *name)?;
            can_run(request, spec).then(|| definition(spec.into()))
        });
        let found_tools: Vec<ToolDefinition> = found_tools.collect();
        // When the provider limits the number of tools, the tools found first are left out.
        let max_tools = request.model.capabilities().max_tools;
        let room = max_tools.map_or(usize::MAX, |max_tools| {
            usize::try_from(max_tools)
                .unwrap_or(usize::MAX)
                .saturating_sub(self.tools.len())
        });
        let first = found_tools.len().saturating_sub(room);
        let found_tools = found_tools.into_iter().skip(first);
        self.tools.iter().cloned().chain(found_tools).collect()
    }
}

impl TurnService {
    /// Sends a request to the model and stores the answer with its cost.
    pub(super) fn ask(
        &self,
        runner: &CallRunner<'_>,
        running: &mut RunningTurn,
        base: &RequestBase,
        report: &mut TurnReport,
    ) -> Result<Completion, TurnError> {
        let request = runner.request;
        let mut chat = Self::chat(request, running, base, report);
        chat.key = Some(format!("{}-{}", running.turn.id, running.steps.len()));
        chat.noted = running.noted.take();
        let ModelAnswer {
            mut completion,
            cost,
        } = self.call_model(runner, request, running, chat, report)?;
        // Ids must also differ from the ids of calls that the request leaves out, because the rows of
        // calls are looked up by id.
        let turn_calls = || running.steps.iter().flat_map(|step| calls(step));
        let is_known =
            |id: &str| base.earlier_call_ids.contains(id) || turn_calls().any(|call| call.id == id);
        let count = base.earlier_call_ids.len() + turn_calls().count();
        make_distinct(&mut completion.message, count, is_known);
        running.written = secrets::take_out(&mut completion.message, &request.redactor);
        running.is_loaded = false;
        self.add_answer(runner, running, completion.message.clone(), cost)?;
        Ok(completion)
    }

    /// Sends a request and receives the answer within the budget. `request` may have a different
    /// observer from the turn.
    pub(super) fn call_model(
        &self,
        runner: &CallRunner<'_>,
        request: &TurnRequest<'_>,
        running: &mut RunningTurn,
        mut chat: ChatRequest,
        report: &mut TurnReport,
    ) -> Result<ModelAnswer, TurnError> {
        let price = request.model.price();
        let (reservation, bound) = reserve(runner, price.as_ref(), &mut chat)?;
        let input_bound = cost_upper_bound(price.as_ref(), &chat, 0);
        let span = model_span(request, running);
        let started = Instant::now();
        let streamed_answer = span.in_scope(|| {
            let streamed_answer = self.receive(request, running, chat);
            log_end(&span, &streamed_answer.0, started);
            streamed_answer
        });
        drop(span);
        let (answer, streamed) = streamed_answer;
        // The provider reports no usage for interrupted attempts. Each is charged for its input and
        // one output token per received byte, which is at least its real cost.
        let lost = price.as_ref().map_or(MicroUsd(0), |price| {
            let output = price.cost(&Usage {
                output_tokens: streamed.lost_bytes,
                ..Usage::default()
            });
            let input = input_bound.0.saturating_mul(streamed.lost_attempts);
            MicroUsd(input.saturating_add(output.0))
        });
        let plus_lost = |spent: MicroUsd| MicroUsd(spent.0.saturating_add(lost.0));
        let completion = match answer {
            Ok(completion) => completion,
            Err(error) => {
                let has_begun = streamed.has_begun;
                reservation.charge(plus_lost(if has_begun { bound } else { MicroUsd(0) }))?;
                return Err(match error {
                    TurnError::Model(error) if *error.kind() == ErrorKind::Cancelled => {
                        TurnError::Cancelled
                    }
                    error => error,
                });
            }
        };
        // When the provider reports no usage, the highest possible cost is charged, so that a
        // spending limit holds.
        let settlement =
            reservation.settlement(plus_lost(completion.cost_micro_usd.unwrap_or(bound)));
        let is_cost_known = completion.cost_micro_usd.is_some() && streamed.lost_attempts == 0;
        let usage = TokenUsage {
            input_tokens: Tokens(completion.usage.input_tokens),
            output_tokens: Tokens(completion.usage.output_tokens),
            cost_micro_usd: completion.cost_micro_usd.unwrap_or_default(),
        };
        report.usage = report.usage.plus(usage);
        request.observer.event(&AgentEvent::AnswerUsage {
            path: None,
            model: completion.model.to_string(),
            input_tokens: completion.usage.input_tokens,
            cached_input_tokens: completion.usage.cached_input_tokens,
            output_tokens: completion.usage.output_tokens,
            cost_micro_usd: completion.cost_micro_usd.map(|cost| cost.0),
        });
        report.is_cost_partial |= !is_cost_known;
        report.is_beyond_limits |= completion.cost_micro_usd.is_none()
            && bound == MicroUsd(0)
            && request.scopes.iter().any(|scope| scope.limit.is_some());
        let cost = StepCost {
            usage,
            settlement,
            is_known: is_cost_known,
        };
        Ok(ModelAnswer { completion, cost })
    }

    /// Streams the answer. Also returns the size of the failed attempts.
    fn receive(
        &self,
        request: &TurnRequest<'_>,
        running: &mut RunningTurn,
        chat: ChatRequest,
    ) -> (Result<Completion, TurnError>, StreamStats) {
        let failed =
            |kind, why: String| TurnError::from(ModelError::new(kind, request.model.name(), why));
        let runtime = match self.runtime() {
            Ok(runtime) => runtime,
            Err(error) => {
                let why = format!("the event loop for model requests cannot be started: {error}");
                return (
                    Err(failed(ErrorKind::Protocol, why)),
                    StreamStats::default(),
                );
            }
        };
        let mut stream = StreamingAnswer::start(request, chat);
        loop {
            // Streaming pauses to store a note, because a database write blocks the thread.
            let streamed_answer = runtime.block_on(stream.receive());
            let answer = match streamed_answer {
                Ok(StreamPause::Answer(completion)) => Ok(*completion),
                Ok(StreamPause::Note(note)) => match self.note(running, &note) {
                    Ok(()) => continue,
                    Err(error) => Err(error),
                },
                Ok(StreamPause::Ended) => {
                    let why = "the stream ended before the answer was complete".to_owned();
                    Err(failed(ErrorKind::Interrupted, why))
                }
                Err(error) => Err(error.into()),
            };
            return (answer, stream.streamed);
        }
    }

    /// Builds the request.
    fn chat(
        request: &TurnRequest<'_>,
        running: &RunningTurn,
        base: &RequestBase,
        report: &mut TurnReport,
    ) -> ChatRequest {
        let system = base.system(request);
        let output = output_tokens(request);
        let tools = base.declared(request, running);
        let RemainingMessages {
            past,
            present,
            covered,
        } = base.remaining_messages(running);
        let mut fitted = fit(past, &present, base.room(request, running));
        if !request.model.capabilities().vision {
            fitted.messages.iter_mut().for_each(omit_images);
        }
        shorten_repeats(&mut fitted.messages);
        report.left_out = fitted.left_out + covered;
        ChatRequest {
            system,
            messages: fitted.messages,
            tools,
            response_schema: request
                .settings
                .response_schema
                .clone()
                .filter(|_| request.model.capabilities().json_schema),
            max_output_tokens: Some(output),
            temperature: request.settings.temperature,
            reasoning_effort: request.settings.reasoning_effort,
            options: request.settings.options.clone(),
            stream: request.settings.stream,
            cache_key: Some(match request.plan {
                Some(plan) => plan.to_string(),
                None => running.turn.session.to_string(),
            }),
            ..ChatRequest::default()
        }
    }
}

/// An answer with its cost, which is stored together with it.
pub(super) struct ModelAnswer {
    pub(super) completion: Completion,
    pub(super) cost: StepCost,
}

/// The tracing span of a call to a model or to a remote agent.
fn model_span(request: &TurnRequest<'_>, running: &RunningTurn) -> Span {
    let model = request.model.name();
    let (provider, session) = (model.provider(), running.turn.session);
    if provider == AGENT_PROVIDER {
        return info_span!(
            "invoke_agent", otel.kind = "client", provider, actor = model.model(), %session,
            response_model = Empty, finish_reason = Empty, input_tokens = Empty, output_tokens = Empty, code = Empty,
        );
    }
    info_span!(
        "chat", otel.kind = "client", provider, model = model.model(), %session,
        max_tokens = output_tokens(request), temperature = request.settings.temperature,
        response_model = Empty, finish_reason = Empty, input_tokens = Empty, output_tokens = Empty, code = Empty,
    )
}

/// Logs the result and the usage of a model call, but never its text.
fn log_end(span: &Span, answer: &Result<Completion, TurnError>, started: Instant) {
    let duration_ms = milliseconds(started);
    let completion = match answer {
        Ok(completion) => completion,
        Err(error) => {
            span.record("code", error.code().as_str());
            tracing::warn!(%error, duration_ms, "model call failed");
            return;
        }
    };
    span.record("response_model", completion.model.model());
    let reason = match &completion.stop {
        StopReason::EndTurn => "stop",
        StopReason::ToolCalls => "tool_calls",
        StopReason::MaxTokens => "length",
        StopReason::ContentFilter => "content_filter",
        StopReason::Other(_) => "other",
    };
    span.record("finish_reason", reason);
    if completion.usage.is_reported() {
        span.record("input_tokens", completion.usage.input_tokens);
        span.record("output_tokens", completion.usage.output_tokens);
    }
    tracing::info!(
        attempts = completion.attempts,
        calls = completion.message.calls.len(),
        cost_micro_usd = completion.cost_micro_usd.map(|cost| cost.0),
        duration_ms,
        "model call finished"
    );
}

/// Maximum number of output tokens of a request.
pub(super) fn output_tokens(request: &TurnRequest<'_>) -> u32 {
    let capabilities = request.model.capabilities();
    capabilities.output_tokens(request.settings.max_output_tokens)
}

/// Output limit in tokens when the budget does not cover the default limit of the model.
const SMALL_OUTPUT: u32 = 8_192;

/// Reserves the highest possible cost of the call. When the budget does not cover the default
/// output limit, lowers the limit of the request.
fn reserve<'a>(
    runner: &CallRunner<'a>,
    price: Option<&Price>,
    chat: &mut ChatRequest,
) -> Result<(MoneyReservation<'a>, MicroUsd), TurnError> {
    let cost = |chat: &ChatRequest| {
        let output = chat.max_output_tokens.unwrap_or(u32::MAX);
        cost_upper_bound(price, chat, output.into())
    };
    let is_usual = runner.request.settings.max_output_tokens.is_none();
    if is_usual && chat.max_output_tokens > Some(SMALL_OUTPUT) {
        let bound = cost(chat);
        match runner.budget.probe_money(bound, None) {
            Ok(reservation) => return Ok((reservation, bound)),
            Err(Shortage::Store(error)) => return Err(error.into()),
            Err(Shortage::Money { .. }) => chat.max_output_tokens = Some(SMALL_OUTPUT),
        }
    }
    let bound = cost(chat);
    let reservation =
        runner
            .budget
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
    Ok((reservation, bound))
}

/// Upper bound for the cost of a call. Every byte counts as one token, because a token has at least
/// one byte.
fn cost_upper_bound(price: Option<&Price>, chat: &ChatRequest, output_tokens: u64) -> MicroUsd {
    let Some(price) = price else {
        return MicroUsd(0);
    };
    let mut bytes = tool_bytes(&chat.tools) + chat.system.iter().map(String::len).sum::<usize>();
    bytes += chat
        .messages
        .iter()
        .map(|message| chat_text(message).len() + pictures(message))
        .sum::<usize>();
    let usage = |cache_write_tokens| Usage {
        input_tokens: bytes as u64,
        output_tokens,
        cache_write_tokens,
        ..Usage::default()
    };
    price.cost(&usage(0)).max(price.cost(&usage(bytes as u64)))
}

/// Upper bound for the number of tokens of the images, in addition to their bytes in the JSON of the
/// message. Each image counts as at least `MIN_TOKENS`, because a small file may hold a large image.
fn pictures(message: &ChatMessage) -> usize {
    const MIN_TOKENS: usize = 20_000;
    match message {
        ChatMessage::Tool { results } => {
            let pictures = results.iter().flat_map(|result| &result.pictures);
            pictures
                .map(|picture| picture.data.len().max(MIN_TOKENS))
                .sum()
        }
        ChatMessage::User { parts } => {
            let images = parts.iter().filter_map(|part| match part {
                UserPart::Image { data, .. } => Some(MIN_TOKENS.saturating_sub(data.len())),
                UserPart::Text(_) => None,
            });
            images.sum()
        }
        ChatMessage::Assistant(_) => 0,
    }
}

/// Replaces the images of a user message by a note, for a model that does not accept images.
fn omit_images(message: &mut Arc<ChatMessage>) {
    let is_image = |part: &UserPart| matches!(part, UserPart::Image { .. });
    let ChatMessage::User { parts } = message.as_ref() else {
        return;
    };
    if !parts.iter().any(is_image) {
        return;
    }
    if let ChatMessage::User { parts } = Arc::make_mut(message) {
        for part in parts.iter_mut().filter(|part| is_image(part)) {
            *part = UserPart::Text("[an image that this model cannot see]".to_owned());
        }
    }
}

fn calls(message: &ChatMessage) -> &[ToolCall] {
    match message {
        ChatMessage::Assistant(answer) => &answer.calls,
        _ => &[],
    }
}

/// Makes the ids of calls unique in the conversation: some servers restart their ids with each
/// answer, and others refuse a conversation with duplicate ids.
fn make_distinct(
    message: &mut AssistantMessage,
    mut number: usize,
    is_known: impl Fn(&str) -> bool,
) {
    let mut used_ids: HashSet<String> = HashSet::new();
    for call in &mut message.calls {
        while call.id.trim().is_empty() || used_ids.contains(&call.id) || is_known(&call.id) {
            call.id = format!("call-{number}");
            number += 1;
        }
        used_ids.insert(call.id.clone());
    }
}

#[cfg(test)]
mod tests {
    use cleveragents_models::{AssistantMessage, ToolCall};

    use super::make_distinct;

    #[test]
    fn call_ids_are_unique_in_a_conversation() {
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
