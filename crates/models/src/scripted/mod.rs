//! `scripted/FILE.yaml`: a model that answers from a file, for tests, demos and bug reports.
//!
//! The next answer depends only on the number of answers that the request contains. A program that
//! was killed and restarted therefore receives the same answer. Only failures are counted in memory;
//! each occurs once.

mod file;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use self::file::{AnswerCounting, AtEnd, Pattern, Script, ScriptedAnswer, ScriptedFailure};
use crate::assemble::Assembler;
use crate::async_stream::{Outlet, generate};
use crate::error::{ErrorKind, ModelError};
use crate::event::{Completion, StreamEvent, Usage};
use crate::message::{ChatMessage, UserPart};
use crate::model::{Capabilities, EventStream};
use crate::name::ModelName;
use crate::price::Price;
use crate::request::ChatRequest;
use crate::retry::Backend;
use crate::wire::kind_of_status;

/// A model that answers from a file.
pub(crate) struct ScriptedModel(Arc<ScriptState>);

struct ScriptState {
    name: ModelName,
    script: Script,
    price: Option<Price>,
    /// Number of failures already produced for an answer, by its index in the file and in the
    /// conversation.
    failures: Mutex<HashMap<(usize, usize), usize>>,
}

impl ScriptedModel {
    /// Parses a script; `file` is its name in errors.
    pub(crate) fn read(name: &ModelName, file: &str, text: &str) -> Result<Self, ModelError> {
        let script = Script::read(file, text)?;
        Ok(Self(Arc::new(ScriptState {
            name: name.clone(),
            price: script.price.as_ref().and_then(Price::read),
            script,
            failures: Mutex::default(),
        })))
    }
}

impl Backend for ScriptedModel {
    fn name(&self) -> &ModelName {
        &self.0.name
    }

    fn capabilities(&self) -> Capabilities {
        self.0.script.capabilities
    }

    fn price(&self) -> Option<&Price> {
        self.0.price.as_ref()
    }

    fn attempt(&self, request: Arc<ChatRequest>) -> EventStream {
        let inner = Arc::clone(&self.0);
        generate(move |outlet| async move {
            if let Err(error) = inner.answer(&request, &outlet).await {
                outlet.give(Err(error)).await;
            }
        })
    }
}

type EventOutlet = Outlet<Result<StreamEvent, ModelError>>;

impl ScriptState {
    async fn answer(&self, request: &ChatRequest, outlet: &EventOutlet) -> Result<(), ModelError> {
        let (place, answer) = self.choose(request)?;
        let failure = self.next_failure(place, answer, request);
        if let Some(delay) = answer.first_delay_ms {
            tokio::time::sleep(Duration::from_millis(delay)).await;
        }
        let cut_after = match failure {
            None => None,
            Some(ScriptedFailure {
                cut_after: Some(cut_after),
                ..
            }) => Some(*cut_after),
            Some(failure) if failure.hang => std::future::pending().await,
            Some(failure) => return Err(self.failed(failure)),
        };
        let events = self.events(answer, request);
        let mut written = 0;
        for event in events.pieces {
            if let StreamEvent::Text(text) = &event {
                written += text.chars().count();
            }
            if answer.delay_ms > 0 {
                tokio::time::sleep(Duration::from_millis(answer.delay_ms)).await;
            }
            outlet.give(Ok(event)).await;
            if cut_after.is_some_and(|cut| written >= cut) {
                let message = "the script cuts the answer here";
                return Err(ModelError::new(ErrorKind::Interrupted, &self.name, message));
            }
        }
        if cut_after.is_some() {
            let message = "the script cuts the answer at its end";
            return Err(ModelError::new(ErrorKind::Interrupted, &self.name, message));
        }
        let finished = StreamEvent::Finished(Box::new(events.completion));
        outlet.give(Ok(finished)).await;
        Ok(())
    }

    /// Chooses the answer to a request, with its index in the file.
    fn choose(&self, request: &ChatRequest) -> Result<(usize, &ScriptedAnswer), ModelError> {
        let last = request
            .messages
            .last()
            .map(|last| message_text(last))
            .unwrap_or_default();
        let instructions = request.system.join("\n");
        if let Some(answer) = self.matching(&last, &instructions) {
            return Ok(answer);
        }
        let has_patterns = self
            .script
            .answers
            .iter()
            .any(|answer| !answer.is_in_order());
        // Answers chosen by a pattern are not counted, so that the other answers stay in order.
        let is_question =
            |message: &Arc<ChatMessage>| matches!(**message, ChatMessage::User { .. });
        let from = match self.script.count {
            AnswerCounting::Conversation => 0,
            AnswerCounting::Turn => request.messages.iter().rposition(is_question).unwrap_or(0),
        };
        let messages = &request.messages[from..];
        let counted = messages.windows(2).filter(|pair| {
            matches!(*pair[1], ChatMessage::Assistant(_))
                && (!has_patterns
                    || self
                        .matching(&message_text(&pair[0]), &instructions)
                        .is_none())
        });
        let mut number = counted.count();
        let first = messages.first().map(Arc::as_ref);
        if matches!(first, Some(ChatMessage::Assistant(_))) {
            number += 1;
        }
        let ordered: Vec<(usize, &ScriptedAnswer)> = self
            .script
            .answers
            .iter()
            .enumerate()
            .filter(|(_, answer)| answer.is_in_order())
            .collect();
        let answer = match self.script.at_end {
            _ if number < ordered.len() => Some(ordered[number]),
            AtEnd::RepeatLast => ordered.last().copied(),
            AtEnd::StartOver if !ordered.is_empty() => Some(ordered[number % ordered.len()]),
            AtEnd::StartOver | AtEnd::Fail => None,
        };
        answer.ok_or_else(|| {
            let message = format!(
                "the script has {} answers in order, and this request needs number {}",
                ordered.len(),
                number + 1
            );
            ModelError::new(ErrorKind::NoAnswer, &self.name, message)
        })
    }

    /// The first answer whose patterns match the last message and the instructions of a request.
    fn matching(&self, last: &str, instructions: &str) -> Option<(usize, &ScriptedAnswer)> {
        let mut answers = self.script.answers.iter().enumerate();
        answers.find(|(_, answer)| {
            let fits = |pattern: &Option<Pattern>, text: &str| {
                pattern
                    .as_ref()
                    .is_none_or(|pattern| pattern.0.is_match(text))
            };
            !answer.is_in_order() && fits(&answer.when, last) && fits(&answer.task, instructions)
        })
    }

    fn next_failure<'a>(
        &self,
        place: usize,
        answer: &'a ScriptedAnswer,
        request: &ChatRequest,
    ) -> Option<&'a ScriptedFailure> {
        let mut produced = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let count = produced.entry((place, request.answers())).or_default();
        let failure = answer.failures.get(*count)?;
        *count += 1;
        Some(failure)
    }

    fn failed(&self, failure: &ScriptedFailure) -> ModelError {
        let wait = failure
            .retry_after
            .and_then(|wait| Duration::try_from_secs_f64(wait).ok());
        let (kind, message) = match failure.status {
            Some(status) => (
                kind_of_status(status, wait),
                format!("the script answers with status {status}"),
            ),
            None => (
                ErrorKind::Timeout,
                "the script simulates a timeout".to_owned(),
            ),
        };
        let message = failure.message.clone().unwrap_or(message);
        let error = ModelError::new(kind, &self.name, message).with_retry_after(wait);
        match failure.status {
            Some(status) => error.with_status(status),
            None => error,
        }
    }

    fn events(&self, answer: &ScriptedAnswer, request: &ChatRequest) -> PreparedAnswer {
        let mut assembler = Assembler::new(self.name.provider(), request.calls());
        let size = if request.stream {
            answer.chunk
        } else {
            usize::MAX
        };
        pieces(&answer.reasoning, size, |piece| assembler.reasoning(piece));
        pieces(&answer.text, size, |piece| assembler.text(piece));
        for call in &answer.calls {
            let index = assembler.start_call(call.id.as_deref(), &call.name);
            pieces(&call.text(), size, |piece| {
                assembler.arguments(index, piece);
            });
        }
        let pieces = std::iter::from_fn(|| assembler.next_event()).collect();
        assembler.usage = answer.usage.unwrap_or_else(|| estimated(answer, request));
        if let Some(stop) = &answer.stop {
            assembler.stop(stop.clone());
        }
        let (message, usage, stop, cost) = assembler.finish();
        PreparedAnswer {
            pieces,
            completion: Completion {
                message,
                usage,
                cost_micro_usd: cost,
                stop,
                model: self.name.clone(),
                attempts: 1,
            },
        }
    }
}

/// An answer ready to be streamed.
struct PreparedAnswer {
    pieces: Vec<StreamEvent>,
    completion: Completion,
}

/// Splits a text into pieces of `size` characters.
fn pieces(text: &str, size: usize, mut give: impl FnMut(&str)) {
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest
            .char_indices()
            .nth(size)
            .map_or(rest.len(), |(end, _)| end);
        give(&rest[..end]);
        rest = &rest[end..];
    }
}

/// Returns the text of a message, against which patterns are matched.
fn message_text(message: &ChatMessage) -> Cow<'_, str> {
    let texts: Vec<&str> = match message {
        ChatMessage::User { parts } => parts
            .iter()
            .filter_map(|part| match part {
                UserPart::Text(text) => Some(text.as_str()),
                UserPart::Image { .. } => None,
            })
            .collect(),
        ChatMessage::Assistant(answer) => vec![&answer.text],
        ChatMessage::Tool { results } => results
            .iter()
            .map(|result| result.content.as_str())
            .collect(),
    };
    match texts.as_slice() {
        [only] => Cow::Borrowed(only),
        _ => Cow::Owned(texts.join("\n")),
    }
}

/// Length of the text of a message, in bytes.
fn message_bytes(message: &Arc<ChatMessage>) -> usize {
    let joined = |texts: usize, bytes: usize| bytes + texts.saturating_sub(1);
    match message.as_ref() {
        ChatMessage::User { parts } => {
            let texts = parts.iter().filter_map(|part| match part {
                UserPart::Text(text) => Some(text.len()),
                UserPart::Image { .. } => None,
            });
            let (count, bytes) =
                texts.fold((0, 0), |(count, sum), length| (count + 1, sum + length));
            joined(count, bytes)
        }
        ChatMessage::Assistant(answer) => answer.text.len(),
        ChatMessage::Tool { results } => {
            let bytes = results.iter().map(|result| result.content.len()).sum();
            joined(results.len(), bytes)
        }
    }
}

/// Usage when the script does not define it: one token per four bytes.
fn estimated(answer: &ScriptedAnswer, request: &ChatRequest) -> Usage {
    let tokens = |bytes: usize| bytes.div_ceil(4) as u64;
    let system: usize = request.system.iter().map(String::len).sum();
    let messages: usize = request.messages.iter().map(message_bytes).sum();
    let calls: usize = answer
        .calls
        .iter()
        .map(|call| call.name.len() + call.text().len())
        .sum();
    Usage {
        input_tokens: tokens(system + messages),
        output_tokens: tokens(answer.text.len() + answer.reasoning.len() + calls),
        reasoning_tokens: tokens(answer.reasoning.len()),
        ..Usage::default()
    }
}

#[cfg(test)]
mod tests;
