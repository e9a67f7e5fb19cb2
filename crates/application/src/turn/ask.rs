//! One question to the model: what it is given, what that may cost, and what it says.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cleveragents_domain::{Diagnose as _, Message, MicroUsd, TokenUsage, Tokens};
use cleveragents_models::{
    AGENT_PROVIDER, AssistantMessage, ChatMessage, ChatRequest, Completion, ErrorKind, EventStream,
    ModelError, Price, StopReason, StreamEvent, ToolCall, ToolDefinition, ToolResult, Usage, Veil,
};
use cleveragents_tools::{Ground, ToolName, ToolSearch, ToolSpec};
use futures_util::StreamExt as _;
use serde_json::Value;
use tracing::field::Empty;
use tracing::{Span, info_span};

use super::calls::CallRunner;
use super::context::fit;
use super::error::TurnError;
use super::history;
use super::request::{TurnReport, TurnRequest};
use super::secrets;
use super::service::{Running, StepCost, TurnService, chat_text};
use crate::log_fields::milliseconds;
use crate::tool::{Held, Shortage};

/// So often somebody who listens to a model looks whether the turn is to end.
const LOOK_UP: Duration = Duration::from_millis(50);

/// The context window of a model of which none is known, in tokens.
const USUAL_WINDOW: u64 = 128_000;

/// What is the same for every question of a turn.
pub(super) struct Standing {
    /// What was said in the session before.
    earlier: Vec<Message>,
    /// The ids of the calls in it.
    known: HashSet<String>,
    /// The tools that every question declares.
    tools: Arc<[ToolDefinition]>,
    /// The deferred tools that were found in earlier turns, in the order in which they were found.
    found: Vec<ToolName>,
}

impl Standing {
    pub(super) fn new(request: &TurnRequest<'_>, earlier: Vec<Message>) -> Self {
        let past = history::past(&earlier).turns;
        let past = || past.iter().flat_map(|turn| &turn.messages);
        let mut found = Vec::new();
        find_deferred(request.tools.deferred, past(), &mut found);
        Self {
            known: past().flat_map(calls).map(|call| call.id.clone()).collect(),
            tools: definitions(request),
            found,
            earlier,
        }
    }

    /// The tools that the next question declares: those of every question, and behind them the deferred ones that
    /// were found so far. The list only grows at its end, so that providers' caches of it stay valid.
    fn declared(&self, request: &TurnRequest<'_>, running: &Running) -> Arc<[ToolDefinition]> {
        if request.tools.deferred.is_empty() || !request.model.capabilities().tools {
            return Arc::clone(&self.tools);
        }
        let mut found = self.found.clone();
        let steps = running.steps.iter().map(Arc::as_ref);
        find_deferred(request.tools.deferred, steps, &mut found);
        let registry = request.tools.gate.registry();
        let found = found.iter().filter_map(|name| {
            let spec = registry.list().find(|spec| spec.name == *name)?;
            can_run(request, spec).then(|| definition(spec))
        });
        let found: Vec<ToolDefinition> = found.collect();
        // Where not all have room, those that were found first are left out.
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

/// Adds the deferred tools that a conversation came across: those that a search listed, and those that the model
/// called, in the order of the conversation.
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
        .map(|name| (name.wire_name(), name))
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
                    let Ok(name) = ToolName::from_wire(&call.name) else {
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

/// The length of what a model reads of tools.
fn tool_bytes(tools: &[ToolDefinition]) -> usize {
    let bytes = tools
        .iter()
        .map(|tool| tool.description.len() + tool.input_schema.to_string().len());
    bytes.sum()
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
        let request = runner.request;
        let mut chat = Self::chat(request, running, standing, report);
        chat.key = Some(format!("{}-{}", running.turn.id, running.steps.len()));
        chat.noted = running.noted.take();
        let price = request.model.price();
        let (held, bound) = reserve(runner, price.as_ref(), &mut chat)?;
        let input_bound = most_expensive(price.as_ref(), &chat, 0);
        let span = model_span(request, running);
        let begun = Instant::now();
        let heard = span.in_scope(|| {
            let heard = self.listen(request, running, chat);
            log_end(&span, &heard.0, begun);
            heard
        });
        drop(span);
        let (answer, streamed) = heard;
        // Attempts that were cut are paid for, though nobody said how much: at most their input, and a token for
        // each byte that came.
        let lost = price.as_ref().map_or(MicroUsd(0), |price| {
            let output = price.cost(&Usage {
                output_tokens: streamed.lost_bytes,
                ..Usage::default()
            });
            let input = input_bound.0.saturating_mul(streamed.lost_attempts);
            MicroUsd(input.saturating_add(output.0))
        });
        let plus_lost = |spent: MicroUsd| MicroUsd(spent.0.saturating_add(lost.0));
        let mut completion = match answer {
            Ok(completion) => completion,
            Err(error) => {
                let has_begun = streamed.has_begun;
                held.settle(plus_lost(if has_begun { bound } else { MicroUsd(0) }))?;
                return Err(match error {
                    TurnError::Model(error) if *error.kind() == ErrorKind::Cancelled => {
                        TurnError::Cancelled
                    }
                    error => error,
                });
            }
        };
        // What nobody counted is taken for the most it could be: a limit must hold all the same.
        let settlement = held.settlement(plus_lost(completion.cost_micro_usd.unwrap_or(bound)));
        let is_cost_known = completion.cost_micro_usd.is_some() && streamed.lost_attempts == 0;
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
        report.is_cost_partial |= !is_cost_known;
        report.is_beyond_limits |= completion.cost_micro_usd.is_none()
            && bound == MicroUsd(0)
            && request.scopes.iter().any(|scope| scope.limit.is_some());
        let cost = StepCost {
            usage,
            settlement,
            is_known: is_cost_known,
        };
        self.add_answer(runner, running, completion.message.clone(), cost)?;
        Ok(completion)
    }

    /// Listens to the model; returns also what was streamed, of failed attempts too.
    fn listen(
        &self,
        request: &TurnRequest<'_>,
        running: &mut Running,
        chat: ChatRequest,
    ) -> (Result<Completion, TurnError>, Streamed) {
        let failed =
            |kind, why: String| TurnError::from(ModelError::new(kind, request.model.name(), why));
        let runtime = match self.runtime() {
            Ok(runtime) => runtime,
            Err(error) => {
                let why = format!("the system gives no means to listen: {error}");
                return (Err(failed(ErrorKind::Protocol, why)), Streamed::default());
            }
        };
        let mut hearing = Hearing {
            request,
            events: request.model.stream(chat, request.stop.clone()),
            text: Veil::new(request.redactor.clone()),
            reasoning: Veil::new(request.redactor.clone()),
            streamed: Streamed::default(),
            was_shown: false,
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
            return (answer, hearing.streamed);
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
        let output = output_tokens(request);
        let input = match request.settings.context_tokens {
            Some(window) => window.saturating_sub(output.into()),
            None => request
                .model
                .capabilities()
                .input_tokens(output)
                .unwrap_or_else(|| USUAL_WINDOW.saturating_sub(output.into())),
        };
        let tools = standing.declared(request, running);
        let fixed = system.iter().map(String::len).sum::<usize>() / 3 + tool_bytes(&tools) / 3;
        let room = usize::try_from(input)
            .unwrap_or(usize::MAX)
            .saturating_sub(fixed);
        let fitted = fit(past.turns, &running.steps, room);
        report.left_out = fitted.left_out;
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
    streamed: Streamed,
    /// Whether text of the current attempt was shown.
    was_shown: bool,
}

/// What came of an answer piece by piece.
#[derive(Debug, Clone, Copy, Default)]
struct Streamed {
    /// Whether something of the last attempt came.
    has_begun: bool,
    /// The bytes of the last attempt.
    bytes: u64,
    /// How many attempts failed after something of them came.
    lost_attempts: u64,
    /// The bytes of those.
    lost_bytes: u64,
}

impl Streamed {
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
                    self.text = Veil::new(self.request.redactor.clone());
                    self.reasoning = Veil::new(self.request.redactor.clone());
                    retry.reason = self.request.redactor.text(&retry.reason).into_owned();
                    let was_shown = std::mem::take(&mut self.was_shown);
                    self.request.observer.retrying(&retry, was_shown);
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

    fn show_text(&mut self, piece: &str) {
        if !piece.is_empty() {
            self.was_shown = true;
            self.request.observer.text(piece);
        }
    }

    fn show_reasoning(&self, piece: &str) {
        if !piece.is_empty() {
            self.request.observer.reasoning(piece);
        }
    }
}

/// The span of a call of a model, or of an agent on another machine.
fn model_span(request: &TurnRequest<'_>, running: &Running) -> Span {
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

/// Records how a call of a model ended and what it took, never what was said.
fn log_end(span: &Span, answer: &Result<Completion, TurnError>, begun: Instant) {
    let duration_ms = milliseconds(begun);
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
    if completion.usage.is_told() {
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

/// The longest answer that is asked for.
fn output_tokens(request: &TurnRequest<'_>) -> u32 {
    let capabilities = request.model.capabilities();
    capabilities.output_tokens(request.settings.max_output_tokens)
}

/// An answer that small budgets can hold, when nobody configured how long it may be.
const SMALL_OUTPUT: u32 = 8_192;

/// Reserves what the call could cost at most. Where the usual length of an answer is more than the budget holds,
/// a shorter answer is asked for.
fn reserve<'a>(
    runner: &CallRunner<'a>,
    price: Option<&Price>,
    chat: &mut ChatRequest,
) -> Result<(Held<'a>, MicroUsd), TurnError> {
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

/// What a call could cost at most: no token has less than a byte.
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

/// Whether a tool could run at all; others are not worth declaring.
pub(super) fn can_run(request: &TurnRequest<'_>, spec: &ToolSpec) -> bool {
    let tools = &request.tools;
    let has_ground = spec.ground == Ground::Nothing || tools.workspace.is_some();
    let may_write = tools.mode.allows_writing() || !spec.capability.is_writing();
    has_ground && may_write
}

fn definition(spec: &ToolSpec) -> ToolDefinition {
    ToolDefinition {
        name: spec.name.wire_name(),
        description: spec.description.clone(),
        input_schema: spec.input_schema.clone(),
    }
}

/// The tools that every question declares: those that could run and are not deferred.
fn definitions(request: &TurnRequest<'_>) -> Arc<[ToolDefinition]> {
    if !request.model.capabilities().tools {
        return Arc::default();
    }
    request
        .tools
        .gate
        .registry()
        .list()
        .filter(|spec| can_run(request, spec) && !request.tools.deferred.contains(&spec.name))
        .map(definition)
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
        // What a later search lists comes behind, and nothing comes twice.
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
