//! One request to the model: its messages, the reservation of its cost, and the streamed answer.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cleveragents_domain::{Diagnose as _, Message, MicroUsd, TokenUsage, Tokens};
use cleveragents_models::{
    AGENT_PROVIDER, AssistantMessage, ChatMessage, ChatRequest, Completion, ErrorKind, EventStream,
    ModelError, Price, StopReason, StreamEvent, StreamRedactor, ToolCall, ToolDefinition,
    ToolResult, Usage,
};
use cleveragents_store::context_summaries::ContextSummary;
use cleveragents_tools::{
    Declaration, EditTool, Ground, ToolName, ToolOffer, ToolSearch, ToolSpec, called_tool,
};
use futures_util::StreamExt as _;
use serde_json::Value;
use tracing::field::Empty;
use tracing::{Span, info_span};

use super::calls::CallRunner;
use super::compaction::RemainingMessages;
use super::context::fit;
use super::error::TurnError;
use super::history;
use super::report::ReportTool;
use super::request::{TurnReport, TurnRequest};
use super::secrets;
use super::service::{RunningTurn, StepCost, TurnService, chat_text};
use crate::log_fields::milliseconds;
use crate::observer::AgentEvent;
use crate::tool::{MoneyReservation, Shortage};

/// Poll interval of the check whether the turn is to stop, while the model streams.
const LOOK_UP: Duration = Duration::from_millis(50);

/// Assumed context window of a model without a known one, in tokens.
pub(crate) const USUAL_WINDOW: u64 = 128_000;

/// The parts that all requests of a turn share.
pub(super) struct RequestBase {
    /// The earlier messages of the session.
    earlier: Vec<Message>,
    /// The ids of the calls in it.
    known: HashSet<String>,
    /// The tools that every request declares.
    tools: Arc<[ToolDefinition]>,
    /// The deferred tools that were found in earlier turns, in the order in which they were found.
    found: Vec<ToolName>,
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
        let mut found = Vec::new();
        find_deferred(request.tools.deferred, past(), &mut found);
        Self {
            known: past().flat_map(calls).map(|call| call.id.clone()).collect(),
            tools: definitions(request),
            found,
            earlier,
            summary,
        }
    }

    /// The part of the conversation that requests contain.
    pub(super) fn uncovered(&self, running: &RunningTurn) -> RemainingMessages {
        let past = history::past(&self.earlier).turns;
        RemainingMessages::new(past, running, self.summary.as_ref())
    }

    /// The number after the last message of the session.
    pub(super) fn next_sequence(&self) -> u64 {
        self.earlier
            .last()
            .map_or(0, |message| message.sequence.0 + 1)
    }

    /// Standing instructions: those of the turn, then those of the session.
    fn system(&self, request: &TurnRequest<'_>) -> Vec<String> {
        let past = history::past(&self.earlier);
        request.system.iter().cloned().chain(past.system).collect()
    }

    /// Room for messages in a request, in tokens.
    pub(super) fn room(&self, request: &TurnRequest<'_>, running: &RunningTurn) -> usize {
        let output = output_tokens(request);
        let input = match request.settings.context_tokens {
            Some(window) => window.saturating_sub(output.into()),
            None => request
                .model
                .capabilities()
                .input_tokens(output)
                .unwrap_or_else(|| USUAL_WINDOW.saturating_sub(output.into())),
        };
        let system = self.system(request);
        let tools = self.declared(request, running);
        let fixed = system.iter().map(String::len).sum::<usize>() / 3 + tool_bytes(&tools) / 3;
        usize::try_from(input)
            .unwrap_or(usize::MAX)
            .saturating_sub(fixed)
    }

    /// The tools that the next request declares: those of every request, followed by the deferred
    /// ones found so far. The list only grows at its end, so that providers' caches of it stay
    /// valid.
    fn declared(&self, request: &TurnRequest<'_>, running: &RunningTurn) -> Arc<[ToolDefinition]> {
        if request.tools.deferred.is_empty() || !request.model.capabilities().tools {
            return Arc::clone(&self.tools);
        }
        let mut found = self.found.clone();
        let steps = running.steps.iter().map(Arc::as_ref);
        find_deferred(request.tools.deferred, steps, &mut found);
        let registry = request.tools.gate.registry();
        let found = found.iter().filter_map(|name| {
            let spec = registry.list().find(|spec| spec.name == *name)?;
            can_run(request, spec).then(|| definition(spec.into()))
        });
        let found: Vec<ToolDefinition> = found.collect();
        // Over the limit, the tools that were found first are left out.
        let most = request.model.capabilities().max_tools;
        let room = most.map_or(usize::MAX, |most| {
            usize::try_from(most)
                .unwrap_or(usize::MAX)
                .saturating_sub(self.tools.len())
        });
        let first = found.len().saturating_sub(room);
        let found = found.into_iter().skip(first);
        self.tools.iter().cloned().chain(found).collect()
    }
}

/// The tool that searches among deferred tools of MCP servers.
pub(super) const SEARCH_TOOLS: &str = "mcp/search-tools";

/// Adds the deferred tools that occur in a conversation: those that a search listed and those that
/// the model called, in the order of the conversation.
fn find_deferred<'a>(
    deferred: &BTreeSet<ToolName>,
    messages: impl Iterator<Item = &'a ChatMessage>,
    found: &mut Vec<ToolName>,
) {
    if deferred.is_empty() {
        return;
    }
    let wire: Vec<(String, &ToolName)> = deferred
        .iter()
        .map(|name| (name.declared_name(), name))
        .collect();
    let mut add = |name: &ToolName| {
        if !found.contains(name) {
            found.push(name.clone());
        }
    };
    let mut searches: HashSet<&str> = HashSet::new();
    for message in messages {
        match message {
            ChatMessage::Assistant(answer) => {
                for call in &answer.calls {
                    let Some(name) = called_tool(&call.name, &call.arguments) else {
                        continue;
                    };
                    let is_search =
                        name == ToolSearch::builtin_name() || name.to_string() == SEARCH_TOOLS;
                    if is_search {
                        searches.insert(call.id.as_str());
                    } else if deferred.contains(&name) {
                        add(&name);
                    }
                }
            }
            ChatMessage::Tool { results } => {
                let is_search = |result: &&ToolResult| searches.contains(result.call_id.as_str());
                for result in results.iter().filter(is_search) {
                    let mut listed: Vec<(usize, &ToolName)> = wire
                        .iter()
                        .filter_map(|(wire, name)| {
                            let quoted = format!("\"{wire}\"");
                            Some((result.content.find(&quoted)?, *name))
                        })
                        .collect();
                    listed.sort_unstable();
                    for (_, name) in listed {
                        add(name);
                    }
                }
            }
            ChatMessage::User { .. } => {}
        }
    }
}

/// Size of the tool declarations in a request, in bytes.
fn tool_bytes(tools: &[ToolDefinition]) -> usize {
    let bytes = tools
        .iter()
        .map(|tool| tool.description.len() + tool.input_schema.to_string().len());
    bytes.sum()
}

impl TurnService {
    /// Asks the model, and stores the answer with its cost.
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
        // The calls of this turn count even when they no longer fit into the request: their rows
        // are looked up by their ids.
        let made = || running.steps.iter().flat_map(|step| calls(step));
        let is_known = |id: &str| base.known.contains(id) || made().any(|call| call.id == id);
        let count = base.known.len() + made().count();
        make_distinct(&mut completion.message, count, is_known);
        running.written = secrets::take_out(&mut completion.message, &request.redactor);
        running.is_loaded = false;
        self.add_answer(runner, running, completion.message.clone(), cost)?;
        Ok(completion)
    }

    /// Sends a request and receives the answer, within the budget. `request` may have another
    /// observer than the turn.
    pub(super) fn call_model(
        &self,
        runner: &CallRunner<'_>,
        request: &TurnRequest<'_>,
        running: &mut RunningTurn,
        mut chat: ChatRequest,
        report: &mut TurnReport,
    ) -> Result<ModelAnswer, TurnError> {
        let price = request.model.price();
        let (held, bound) = reserve(runner, price.as_ref(), &mut chat)?;
        let input_bound = most_expensive(price.as_ref(), &chat, 0);
        let span = model_span(request, running);
        let started = Instant::now();
        let streamed_answer = span.in_scope(|| {
            let streamed_answer = self.receive(request, running, chat);
            log_end(&span, &streamed_answer.0, started);
            streamed_answer
        });
        drop(span);
        let (answer, streamed) = streamed_answer;
        // The provider reports no usage for interrupted attempts. They count as at most their input
        // and one token for each received byte.
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
                held.charge(plus_lost(if has_begun { bound } else { MicroUsd(0) }))?;
                return Err(match error {
                    TurnError::Model(error) if *error.kind() == ErrorKind::Cancelled => {
                        TurnError::Cancelled
                    }
                    error => error,
                });
            }
        };
        // Unreported usage counts as the highest possible value, so that a spending limit holds.
        let settlement = held.settlement(plus_lost(completion.cost_micro_usd.unwrap_or(bound)));
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

    /// Streams the answer; returns also the usage of failed attempts.
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
        let mut stream = StreamingAnswer {
            request,
            events: request.model.stream(chat, request.stop.clone()),
            text: StreamRedactor::new(request.redactor.clone()),
            reasoning: StreamRedactor::new(request.redactor.clone()),
            streamed: StreamStats::default(),
            was_shown: false,
        };
        loop {
            // Notes are stored between two stretches of streaming, because the database blocks the
            // thread.
            let streamed_answer = runtime.block_on(stream.receive());
            let answer = match streamed_answer {
                Ok(StreamPause::Whole(completion)) => Ok(*completion),
                Ok(StreamPause::Note(note)) => match self.note(running, &note) {
                    Ok(()) => continue,
                    Err(error) => Err(error),
                },
                Ok(StreamPause::Nothing) => {
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
        } = base.uncovered(running);
        let fitted = fit(past, &present, base.room(request, running));
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

/// An answer that is being streamed.
struct StreamingAnswer<'a> {
    request: &'a TurnRequest<'a>,
    events: EventStream,
    text: StreamRedactor,
    reasoning: StreamRedactor,
    streamed: StreamStats,
    /// Whether text of the current attempt was shown.
    was_shown: bool,
}

/// The size of a streamed answer and of its failed attempts.
#[derive(Debug, Clone, Copy, Default)]
struct StreamStats {
    /// Whether the last attempt sent anything.
    has_begun: bool,
    /// The bytes of the last attempt.
    bytes: u64,
    /// The number of attempts that failed after they had sent something.
    lost_attempts: u64,
    /// The bytes of the failed attempts.
    lost_bytes: u64,
}

impl StreamStats {
    fn add(&mut self, bytes: usize) {
        self.has_begun = true;
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }

    fn restart(&mut self) {
        if self.has_begun {
            self.lost_attempts += 1;
            self.lost_bytes = self.lost_bytes.saturating_add(self.bytes);
        }
        self.has_begun = false;
        self.bytes = 0;
    }
}

/// The reason why streaming paused or ended.
enum StreamPause {
    /// The answer.
    Whole(Box<Completion>),
    /// A note that must be stored before streaming continues.
    Note(Value),
    /// The stream ended without an answer.
    Nothing,
}

impl StreamingAnswer<'_> {
    /// Streams until the answer is complete or a note has to be stored, and shows the pieces.
    async fn receive(&mut self) -> Result<StreamPause, ModelError> {
        loop {
            // Cancelling the tools of a turn also cancels the model.
            let next = tokio::time::timeout(LOOK_UP, self.events.next()).await;
            let Ok(next) = next else {
                if self.request.cancel.is_cancelled() {
                    self.request.stop.cancel();
                }
                continue;
            };
            let Some(event) = next else {
                return Ok(StreamPause::Nothing);
            };
            match event? {
                StreamEvent::Text(piece) => {
                    self.streamed.add(piece.len());
                    let piece = self.text.push(&piece);
                    self.show_text(&piece);
                }
                StreamEvent::Reasoning(piece) => {
                    self.streamed.add(piece.len());
                    let piece = self.reasoning.push(&piece);
                    self.show_reasoning(&piece);
                }
                StreamEvent::ToolCallStarted { name, .. } => self.streamed.add(name.len()),
                StreamEvent::ToolCallArguments { fragment, .. } => {
                    self.streamed.add(fragment.len());
                }
                StreamEvent::Retrying(mut retry) => {
                    self.streamed.restart();
                    self.text = StreamRedactor::new(self.request.redactor.clone());
                    self.reasoning = StreamRedactor::new(self.request.redactor.clone());
                    retry.reason = self.request.redactor.text(&retry.reason).into_owned();
                    let was_shown = std::mem::take(&mut self.was_shown);
                    let event = AgentEvent::retry(&retry, was_shown);
                    self.request.observer.event(&event);
                }
                StreamEvent::Noted(note) => return Ok(StreamPause::Note(note)),
                StreamEvent::Finished(completion) => {
                    let (reasoning, text) = (self.reasoning.finish(), self.text.finish());
                    self.show_reasoning(&reasoning);
                    self.show_text(&text);
                    return Ok(StreamPause::Whole(completion));
                }
            }
        }
    }

    fn show_text(&mut self, piece: &str) {
        if !piece.is_empty() {
            self.was_shown = true;
            self.request.observer.event(&AgentEvent::Text {
                path: None,
                text: piece.to_owned(),
            });
        }
    }

    fn show_reasoning(&self, piece: &str) {
        if !piece.is_empty() {
            self.request.observer.event(&AgentEvent::Reasoning {
                path: None,
                text: piece.to_owned(),
            });
        }
    }
}

/// The tracing span of a call of a model, or of an agent on another machine.
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

/// Records how a call of a model ended and its usage, never its text.
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

/// Output limit that fits small budgets, used when none is configured.
const SMALL_OUTPUT: u32 = 8_192;

/// Reserves the highest possible cost of the call. When the budget does not cover the default
/// length of an answer, requests a shorter answer.
fn reserve<'a>(
    runner: &CallRunner<'a>,
    price: Option<&Price>,
    chat: &mut ChatRequest,
) -> Result<(MoneyReservation<'a>, MicroUsd), TurnError> {
    let cost = |chat: &ChatRequest| {
        let output = chat.max_output_tokens.unwrap_or(u32::MAX);
        most_expensive(price, chat, output.into())
    };
    let is_usual = runner.request.settings.max_output_tokens.is_none();
    if is_usual && chat.max_output_tokens > Some(SMALL_OUTPUT) {
        let bound = cost(chat);
        match runner.budget.probe_money(bound, None) {
            Ok(held) => return Ok((held, bound)),
            Err(Shortage::Store(error)) => return Err(error.into()),
            Err(Shortage::Money { .. }) => chat.max_output_tokens = Some(SMALL_OUTPUT),
        }
    }
    let bound = cost(chat);
    let held = runner
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
    Ok((held, bound))
}

/// The highest possible cost of a call: a token has at least one byte.
fn most_expensive(price: Option<&Price>, chat: &ChatRequest, output_tokens: u64) -> MicroUsd {
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

/// Highest possible number of tokens of the images in results. A small file may hold a large image.
fn pictures(message: &ChatMessage) -> usize {
    const LEAST: usize = 20_000;
    let ChatMessage::Tool { results } = message else {
        return 0;
    };
    let pictures = results.iter().flat_map(|result| &result.pictures);
    pictures.map(|picture| picture.data.len().max(LEAST)).sum()
}

/// The tool calls of an answer.
fn calls(message: &ChatMessage) -> &[ToolCall] {
    match message {
        ChatMessage::Assistant(answer) => &answer.calls,
        _ => &[],
    }
}

/// Gives calls ids that are unique in the conversation: some servers restart their ids with each
/// answer, and others refuse a conversation with duplicate ids.
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

/// Whether a tool could run at all; other tools are not declared.
pub(super) fn can_run(request: &TurnRequest<'_>, spec: &ToolSpec) -> bool {
    let tools = &request.tools;
    let has_ground = spec.ground == Ground::Nothing || tools.workspace.is_some();
    let may_write = tools.mode.offers_writing() || !spec.capability.is_writing();
    has_ground && may_write
}

fn definition(declaration: Declaration) -> ToolDefinition {
    ToolDefinition {
        name: declaration.name,
        description: declaration.description,
        input_schema: declaration.input_schema,
    }
}

/// The selection of built-in tools for the model of a turn. Plans send many requests: they declare
/// the fewest.
pub(super) fn offer(request: &TurnRequest<'_>) -> ToolOffer {
    ToolOffer {
        edit: if request.model.capabilities().apply_patch {
            EditTool::ApplyPatch
        } else {
            EditTool::EditFile
        },
        is_compact: request.plan.is_some(),
    }
}

/// The tools that every request declares: those that could run and are not deferred.
fn definitions(request: &TurnRequest<'_>) -> Arc<[ToolDefinition]> {
    if !request.model.capabilities().tools {
        return Arc::default();
    }
    let is_declared =
        |spec: &ToolSpec| can_run(request, spec) && !request.tools.deferred.contains(&spec.name);
    let registry = request.tools.gate.registry();
    let declared = registry.declarations(is_declared, offer(request));
    let reports = request.reports.offered.iter().map(ReportTool::definition);
    declared
        .into_iter()
        .map(definition)
        .chain(reports)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use cleveragents_models::{AssistantMessage, ChatMessage, ToolCall, ToolResult};
    use cleveragents_tools::ToolName;

    use super::{find_deferred, make_distinct};

    fn asked(id: &str, name: &str) -> ChatMessage {
        ChatMessage::Assistant(AssistantMessage {
            calls: vec![ToolCall {
                id: id.to_owned(),
                name: name.to_owned(),
                arguments: "{}".to_owned(),
                signature: None,
            }],
            ..AssistantMessage::default()
        })
    }

    fn answered(id: &str, content: &str) -> ChatMessage {
        ChatMessage::Tool {
            results: vec![ToolResult {
                call_id: id.to_owned(),
                content: content.to_owned(),
                is_error: false,
                pictures: Vec::new(),
            }],
        }
    }

    #[test]
    fn found_tools_are_those_that_a_search_listed_or_the_model_called_in_that_order() {
        let name = |text: &str| text.parse::<ToolName>().expect("a name");
        let deferred: BTreeSet<ToolName> =
            ["mcp/s-alpha", "mcp/s-beta", "mcp/s-gamma", "mcp/s-delta"]
                .map(name)
                .into();
        let messages = [
            ChatMessage::user("find \"mcp_S_s-delta\""),
            asked("1", "mcp_S_search-tools"),
            answered(
                "1",
                r#"[{"name": "mcp_S_s-gamma"}, {"name": "mcp_S_s-alpha"}]"#,
            ),
            asked("2", "builtin_S_file-read"),
            answered("2", r#""mcp_S_s-delta""#),
            asked("3", "mcp_S_s-beta"),
        ];
        let mut found = Vec::new();
        find_deferred(&deferred, messages.iter(), &mut found);
        assert_eq!(
            found,
            ["mcp/s-gamma", "mcp/s-alpha", "mcp/s-beta"].map(name)
        );
        // Tools of a later search are added at the end, without duplicates.
        let later = [
            asked("4", "mcp_S_search-tools"),
            answered(
                "4",
                r#"[{"name":"mcp_S_s-alpha"},{"name":"mcp_S_s-delta"}]"#,
            ),
        ];
        find_deferred(&deferred, later.iter(), &mut found);
        assert_eq!(
            found,
            ["mcp/s-gamma", "mcp/s-alpha", "mcp/s-beta", "mcp/s-delta"].map(name)
        );
    }

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
