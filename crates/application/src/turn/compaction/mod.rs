//! Compaction: when a conversation approaches the context window, the model summarizes its beginning, and later
//! requests contain the summary instead. The user can also request a summary of the whole conversation.
//!
//! The messages stay in the store; a row in `context_summaries` holds the text of the summary and the range of messages
//! that it covers. Standing instructions are sent with every request and never summarized. When the summary fails,
//! `context.rs` shortens and leaves out messages instead.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use cleveragents_domain::{MicroUsd, SessionId, Timestamp, Turn, TurnId, TurnState};
use cleveragents_models::{AGENT_PROVIDER, ChatMessage, ChatRequest, UserPart};
use cleveragents_store::context_summaries::{self, ContextSummary};
use cleveragents_store::turns;

use super::ask::{ModelAnswer, RequestBase, output_tokens};
use super::calls::CallRunner;
use super::context::{size, turn_size};
use super::error::TurnError;
use super::history::{self, PastTurn};
use super::request::{TurnReport, TurnRequest};
use super::service::{RunningTurn, StepCost, TurnService, storing};
use super::session_lock::LockedSession;
use crate::observer::{AgentEvent, NoObserver};
use crate::tool::{StoreBudget, StoreLedger};

/// A conversation is compacted when it takes more than this percentage of the tokens available for messages.
const COMPACT_AT_PERCENT: usize = 80;

/// A conversation is compacted at this size in tokens even if the window is larger, because every request pays for it.
const COMPACT_AT_TOKENS: usize = 120_000;

/// Percentage of the limit that the newest messages may take after a compaction; older messages are summarized.
const KEPT_PERCENT: usize = 25;

/// Maximum size of a result or of arguments in the text to summarize, in bytes.
const SHOWN_BYTES: usize = 2_000;

/// Maximum length of a summary, in tokens.
const SUMMARY_TOKENS: u32 = 4_096;

/// Bytes per token, estimated low so that the number of tokens is estimated high.
const BYTES_PER_TOKEN: usize = 3;

/// The result of a compaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactionReport {
    /// The model that wrote the summary.
    pub model: String,
    /// Number of messages that the summary replaces. An earlier summary is part of the first message.
    pub messages: usize,
    /// Estimated number of tokens of these messages.
    pub tokens_before: u64,
    /// Estimated number of tokens of the summary.
    pub tokens_after: u64,
    pub cost_micro_usd: MicroUsd,
    pub is_cost_known: bool,
}

/// The part of a conversation that requests contain: the messages after the newest summary.
pub(super) struct RemainingMessages {
    pub(super) past: Vec<PastTurn>,
    pub(super) present: Vec<Arc<ChatMessage>>,
    /// Number of messages that the summary covers.
    pub(super) covered: usize,
}

impl RemainingMessages {
    /// Replaces the messages that a summary covers with the summary.
    pub(super) fn new(
        past: Vec<PastTurn>,
        running: &RunningTurn,
        summary: Option<&ContextSummary>,
    ) -> Self {
        let present = running.steps.clone();
        match summary {
            Some(summary) => Self::after(past, present, running.turn.id, summary),
            None => Self {
                past,
                present,
                covered: 0,
            },
        }
    }

    /// Whether the result of a tool call contains a text.
    pub(super) fn shows(&self, text: &str) -> bool {
        let past = self.past.iter().flat_map(|turn| &turn.messages);
        let present = self.present.iter().map(Arc::as_ref);
        past.chain(present).any(|message| match message {
            ChatMessage::Tool { results } => {
                let mut results = results.iter();
                results.any(|result| result.content.contains(text))
            }
            _ => false,
        })
    }

    fn after(
        mut past: Vec<PastTurn>,
        mut present: Vec<Arc<ChatMessage>>,
        turn: TurnId,
        summary: &ContextSummary,
    ) -> Self {
        let count = |past: &[PastTurn], present: &[Arc<ChatMessage>]| {
            past.iter().map(|turn| turn.messages.len()).sum::<usize>() + present.len()
        };
        let before = count(&past, &present);
        let covered = usize::try_from(summary.steps).unwrap_or(usize::MAX);
        past.retain(|past| past.first >= summary.sequence);
        for past in &mut past {
            if past.turn == Some(summary.turn) {
                remove_steps(&mut past.messages, covered);
            }
        }
        if turn == summary.turn {
            remove_steps(&mut present, covered);
        }
        let note = UserPart::Text(format!("{NOTE}\n\n{}", summary.text));
        let first = past.first_mut().and_then(|turn| turn.messages.first_mut());
        match first {
            Some(ChatMessage::User { parts }) => parts.insert(0, note),
            _ => {
                if let Some(question) = present.first_mut()
                    && let ChatMessage::User { parts } = Arc::make_mut(question)
                {
                    parts.insert(0, note);
                }
            }
        }
        Self {
            covered: before - count(&past, &present),
            past,
            present,
        }
    }
}

/// Precedes the text of a summary in the request.
const NOTE: &str = "(This summary replaces the beginning of the conversation. Files may have changed since: read them \
                    again before relying on details.)";

/// Removes the first `steps` messages after the question.
fn remove_steps<T>(messages: &mut Vec<T>, steps: usize) {
    let end = messages.len().min(steps.saturating_add(1));
    if end > 1 {
        messages.drain(1..end);
    }
}

/// The position in a conversation before which messages are summarized.
#[derive(Debug, PartialEq, Eq)]
struct CutPoint {
    /// Number of past turns that are covered.
    turns: usize,
    /// Number of steps of the current turn that are covered, not counting its question.
    steps: usize,
}

impl CutPoint {
    /// Chooses the cut so that about `kept` tokens stay, without separating a call from its result.
    /// `None` when there is nothing to summarize.
    fn choose(past: &[PastTurn], present: &[Arc<ChatMessage>], kept: usize) -> Option<Self> {
        let mut tokens = 0;
        // The newest exchange of the current turn always stays.
        let mut start = present.len();
        for (at, message) in present.iter().enumerate().skip(1).rev() {
            tokens += size(message);
            let begins = matches!(message.as_ref(), ChatMessage::Assistant(_));
            if begins && (tokens <= kept || start == present.len()) {
                start = at;
            }
        }
        if start > 1 && start < present.len() {
            return Some(Self {
                turns: past.len(),
                steps: start - 1,
            });
        }
        let mut turns = past.len();
        while turns > 0 && tokens + turn_size(&past[turns - 1]) <= kept {
            turns -= 1;
            tokens += turn_size(&past[turns]);
        }
        (turns > 0).then_some(Self { turns, steps: 0 })
    }

    /// The messages before the cut, and the question of the current turn when some of its steps are
    /// covered. The question itself also stays in the conversation.
    fn covered<'m>(
        &self,
        past: &'m [PastTurn],
        present: &'m [Arc<ChatMessage>],
    ) -> impl Iterator<Item = &'m ChatMessage> {
        let steps = if self.steps > 0 { self.steps + 1 } else { 0 };
        let past = past[..self.turns].iter().flat_map(|turn| &turn.messages);
        past.chain(present.iter().take(steps).map(Arc::as_ref))
    }
}

/// The covered messages as text to summarize, of at most `room` bytes unless the first and the last message are longer.
///
/// Drops messages that do not fit, oldest first. The first message stays, because it contains the earlier summary or
/// the task. The messages of the user, with requirements and decisions, are dropped last.
fn transcript(messages: &[&ChatMessage], room: usize) -> String {
    let mut texts: Vec<String> = messages.iter().map(|message| as_text(message)).collect();
    let mut bytes: usize = texts.iter().map(String::len).sum();
    let last = texts.len().saturating_sub(1);
    for drops_user in [false, true] {
        for at in 1..last {
            let is_user = matches!(messages[at], ChatMessage::User { .. });
            if bytes > room && is_user == drops_user {
                bytes -= texts[at].len();
                texts[at].clear();
            }
        }
    }
    texts.concat()
}

fn as_text(message: &ChatMessage) -> String {
    let mut text = String::new();
    match message {
        ChatMessage::User { parts } => {
            let _never_fails = writeln!(text, "## User\n{}\n", history::text_of(parts));
        }
        ChatMessage::Assistant(answer) => {
            let _never_fails = writeln!(text, "## Assistant\n{}", answer.text);
            for call in &answer.calls {
                let arguments = shorten(&call.arguments);
                let _never_fails = writeln!(text, "Call `{}`: {arguments}", call.name);
            }
            text.push('\n');
        }
        ChatMessage::Tool { results } => {
            for result in results {
                let outcome = if result.is_error {
                    "failed"
                } else {
                    "succeeded"
                };
                let content = shorten(&result.content);
                let _never_fails = writeln!(text, "## Result ({outcome})\n{content}\n");
            }
        }
    }
    text
}

/// Shortens a text to about [`SHOWN_BYTES`]: a quarter from its beginning, the rest from its end.
fn shorten(text: &str) -> String {
    if text.len() <= SHOWN_BYTES {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(SHOWN_BYTES / 4);
    let tail = text.ceil_char_boundary(text.len() - SHOWN_BYTES * 3 / 4);
    format!(
        "{}\n[{} bytes left out]\n{}",
        &text[..head],
        tail - head,
        &text[tail..]
    )
}

impl TurnService {
    /// Summarizes the beginning of the conversation when it has become long.
    pub(super) fn compact(
        &self,
        runner: &CallRunner<'_>,
        running: &mut RunningTurn,
        base: &mut RequestBase,
        report: &mut TurnReport,
    ) -> Result<(), TurnError> {
        let request = runner.request;
        // A remote agent stores the conversation itself.
        if request.model.name().provider() == AGENT_PROVIDER {
            return Ok(());
        }
        let room = base.room(request, running);
        let limit = (room / 100 * COMPACT_AT_PERCENT).min(COMPACT_AT_TOKENS);
        let RemainingMessages { past, present, .. } = base.remaining_messages(running);
        let present_size: usize = present.iter().map(|message| size(message)).sum();
        let total = past.iter().map(turn_size).sum::<usize>() + present_size;
        if total <= limit {
            return Ok(());
        }
        let Some(cut) = CutPoint::choose(&past, &present, limit / 100 * KEPT_PERCENT) else {
            return Ok(());
        };
        if !request.allowance.ask() {
            return Ok(());
        }
        match self.summarize(runner, running, base, &cut, None, report) {
            Ok(compacted) => request.observer.event(&AgentEvent::Compacted {
                path: None,
                tokens_before: compacted.tokens_before,
                tokens_after: compacted.tokens_after,
            }),
            Err(
                error @ (TurnError::Model(_) | TurnError::Budget { .. } | TurnError::EmptySummary),
            ) => {
                tracing::warn!(%error, "summary of the conversation failed");
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Summarizes all messages of a session at the request of the user, who may name what the
    /// summary must contain in `focus`. An interrupted turn stays as it is. `None` if no message
    /// follows the newest summary.
    pub fn compact_session(
        &self,
        locked_session: &mut LockedSession,
        request: &TurnRequest<'_>,
        focus: Option<&str>,
    ) -> Result<Option<CompactionReport>, TurnError> {
        let cancel = request.cancel.child();
        let _guard = locked_session.lease.guard(&cancel);
        let request = &TurnRequest {
            cancel: &cancel,
            ..request.clone()
        };
        let session = locked_session.session;
        let turn = match locked_session.interrupted() {
            Some(turn) => turn.clone(),
            None => self.last_turn(session, request)?,
        };
        let mut running = RunningTurn {
            turn,
            steps: Vec::new(),
            stored: 0,
            rows: Vec::new(),
            written: HashMap::new(),
            is_loaded: false,
            noted: None,
            fence: (
                locked_session.lease.subject().clone(),
                locked_session.lease.token(),
            ),
        };
        let mut base = self.request_base(request, session)?;
        let turns = base.remaining_messages(&running).past.len();
        if turns == 0 {
            return Ok(None);
        }
        let budget = StoreBudget::new(Arc::clone(&self.engine), request.scopes.clone());
        let ledger = StoreLedger::new(Arc::clone(&self.engine), None);
        let runner = CallRunner {
            request,
            session,
            budget: &budget,
            ledger: &ledger,
        };
        let mut report = TurnReport::new(running.turn.id, request.model.name());
        let cut = CutPoint { turns, steps: 0 };
        request.observer.event(&AgentEvent::ModelCall {
            path: None,
            number: 1,
        });
        self.summarize(&runner, &mut running, &mut base, &cut, focus, &mut report)
            .map(Some)
    }

    /// The newest turn of a session; a turn that is not stored if the session has none.
    fn last_turn(&self, session: SessionId, request: &TurnRequest<'_>) -> Result<Turn, TurnError> {
        let stored = self
            .engine
            .read(|reader| turns::of_session(reader, session))?;
        Ok(stored.into_iter().next_back().unwrap_or_else(|| Turn {
            id: TurnId::generate(),
            session,
            model: request.model.name().to_string(),
            sandbox: None,
            state: TurnState::Complete,
            error: None,
            started_at: Timestamp::now(),
            ended_at: None,
        }))
    }

    /// Requests a summary of the messages before the cut, and stores it with its cost.
    fn summarize(
        &self,
        runner: &CallRunner<'_>,
        running: &mut RunningTurn,
        base: &mut RequestBase,
        cut: &CutPoint,
        focus: Option<&str>,
        report: &mut TurnReport,
    ) -> Result<CompactionReport, TurnError> {
        let RemainingMessages { past, present, .. } = base.remaining_messages(running);
        let covered: Vec<&ChatMessage> = cut.covered(&past, &present).collect();
        let tokens_before: usize = covered.iter().map(|message| size(message)).sum();
        let room = base.room(runner.request, running);
        // A request for a summary declares no tools, so the messages and the instructions fit.
        let text = transcript(&covered, room / 10 * 9 * BYTES_PER_TOKEN);
        let (text, cost) = self.write_summary(runner, running, text, focus, report)?;
        let compacted = CompactionReport {
            model: runner.request.model.name().to_string(),
            messages: covered.len(),
            tokens_before: tokens_before as u64,
            tokens_after: (text.len() / BYTES_PER_TOKEN) as u64,
            cost_micro_usd: report.usage.cost_micro_usd,
            is_cost_known: !report.is_cost_partial,
        };
        let earlier_steps = match &base.summary {
            Some(summary) if summary.turn == running.turn.id => summary.steps,
            _ => 0,
        };
        let first_kept = past.get(cut.turns).map(|turn| turn.first);
        let summary = ContextSummary {
            sequence: first_kept.unwrap_or_else(|| base.next_sequence()),
            turn: running.turn.id,
            steps: earlier_steps + cut.steps as u64,
            tokens_before: compacted.tokens_before,
            tokens_after: compacted.tokens_after,
            text,
        };
        let (session, stored) = (running.turn.session, summary.clone());
        let store_steps = storing(running, Some(cost));
        self.engine.write(move |unit| {
            store_steps(unit)?;
            context_summaries::add(unit, session, &stored)
        })?;
        running.stored = running.steps.len();
        tracing::info!(
            %session, tokens_before = summary.tokens_before, tokens_after = summary.tokens_after,
            "conversation compacted"
        );
        base.summary = Some(summary);
        Ok(compacted)
    }

    /// Requests a summary from the model.
    fn write_summary(
        &self,
        runner: &CallRunner<'_>,
        running: &mut RunningTurn,
        transcript: String,
        focus: Option<&str>,
        report: &mut TurnReport,
    ) -> Result<(String, StepCost), TurnError> {
        let request = runner.request;
        let quiet = TurnRequest {
            observer: &NoObserver,
            ..request.clone()
        };
        let focus = focus.map(|focus| {
            let focus = request.redactor.text(focus);
            format!("The user asks the summary to keep in detail: {focus}")
        });
        let mut system = vec![request.settings.summary_prompt.clone()];
        system.extend(focus);
        let steps = running.steps.len();
        let chat = ChatRequest {
            system,
            messages: vec![ChatMessage::user(transcript).into()],
            max_output_tokens: Some(output_tokens(request).min(SUMMARY_TOKENS)),
            stream: request.settings.stream,
            key: (steps > 0).then(|| format!("{}-{steps}-summary", running.turn.id)),
            ..ChatRequest::default()
        };
        let ModelAnswer { completion, cost } =
            self.call_model(runner, &quiet, running, chat, report)?;
        let text = request.redactor.text(completion.message.text.trim());
        if text.is_empty() {
            // The answer is useless, but it has a cost.
            let store = storing(running, Some(cost));
            self.engine.write(move |unit| store(unit))?;
            running.stored = running.steps.len();
            return Err(TurnError::EmptySummary);
        }
        Ok((text.into_owned(), cost))
    }
}

#[cfg(test)]
mod tests;
