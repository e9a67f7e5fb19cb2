//! [`StreamingAnswer`]: receives the streamed answer of a model, redacts it, and sends each piece to the observer.

use std::time::Duration;

use cleveragents_models::{
    ChatRequest, Completion, EventStream, ModelError, StreamEvent, StreamRedactor,
};
use futures_util::StreamExt as _;
use serde_json::Value;

use super::request::TurnRequest;
use crate::observer::AgentEvent;

/// Interval at which a streaming request checks whether the turn was cancelled.
const CANCEL_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// An answer that is being streamed.
pub(super) struct StreamingAnswer<'a> {
    request: &'a TurnRequest<'a>,
    events: EventStream,
    text: StreamRedactor,
    reasoning: StreamRedactor,
    pub(super) streamed: StreamStats,
    /// Whether the observer received text of the current attempt.
    was_shown: bool,
}

/// The size of a streamed answer and of its failed attempts.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StreamStats {
    /// Whether the last attempt sent anything.
    pub(super) has_begun: bool,
    /// The bytes of the last attempt.
    bytes: u64,
    /// The number of attempts that failed after they sent something.
    pub(super) lost_attempts: u64,
    /// The bytes of the failed attempts.
    pub(super) lost_bytes: u64,
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
pub(super) enum StreamPause {
    /// The answer is complete.
    Answer(Box<Completion>),
    /// A note that must be stored before streaming continues.
    Note(Value),
    /// The stream ended without an answer.
    Ended,
}

impl<'a> StreamingAnswer<'a> {
    /// Sends the request and starts to receive its answer.
    pub(super) fn start(request: &'a TurnRequest<'a>, chat: ChatRequest) -> Self {
        Self {
            request,
            events: request.model.stream(chat, request.stop.clone()),
            text: StreamRedactor::new(request.redactor.clone()),
            reasoning: StreamRedactor::new(request.redactor.clone()),
            streamed: StreamStats::default(),
            was_shown: false,
        }
    }

    /// Streams until the answer is complete or a note must be stored. Sends each piece of text to the
    /// observer.
    pub(super) async fn receive(&mut self) -> Result<StreamPause, ModelError> {
        loop {
            // Cancelling the tools of a turn also cancels the model.
            let next = tokio::time::timeout(CANCEL_POLL_INTERVAL, self.events.next()).await;
            let Ok(next) = next else {
                if self.request.cancel.is_cancelled() {
                    self.request.stop.cancel();
                }
                continue;
            };
            let Some(event) = next else {
                return Ok(StreamPause::Ended);
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
                    return Ok(StreamPause::Answer(completion));
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
