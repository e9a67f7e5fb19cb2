//! The reasoning and answers of the models of a run, stored with the decisions that they led to.

use cleveragents_domain::{Message, RunId, Sequence, SessionId, Turn, TurnId, TurnState};
use cleveragents_models::{AssistantMessage, ChatMessage};
use cleveragents_store::{Error, Reader, context_summaries, messages, runs, turns};
use serde_json::Value;

use super::error::RunServiceError;
use super::service::RunService;

/// Maximum size of a stored trace, in bytes. Longer traces keep their end, which contains the answer.
const MAX_TRACE_BYTES: usize = 64 * 1024;

impl RunService {
    /// Every message that models received and sent in a run, in chronological order.
    pub(crate) fn conversation(&self, id: RunId) -> Result<Vec<Value>, RunServiceError> {
        Ok(self.engine.read(|reader| {
            let mut all_turns: Vec<Turn> = Vec::new();
            if runs::get(reader, &self.visible, id)?.is_none() {
                return Ok(Vec::new());
            }
            for session in runs::sessions(reader, id)? {
                all_turns.extend(turns::of_session(reader, session)?);
            }
            // Sort by turn id, which contains the time; session ids are derived from the run.
            all_turns.sort_by_key(|turn| turn.id);
            let mut steps = Vec::new();
            for turn in all_turns {
                steps.extend(turns::steps(reader, turn.id)?);
            }
            Ok::<_, cleveragents_store::Error>(steps)
        })?)
    }

    /// The messages of the conversation of a run with the newest answer, including the messages that it
    /// started with. Empty when no model answered.
    pub(crate) fn last_messages(&self, id: RunId) -> Result<Vec<Message>, RunServiceError> {
        Ok(self.engine.read(|reader| {
            let Some(session) = last_conversation(reader, id)? else {
                return Ok(Vec::new());
            };
            messages(reader, session)
        })?)
    }

    /// The newest summary of the conversation of a run with the newest answer.
    pub(crate) fn last_summary(&self, id: RunId) -> Result<Option<String>, RunServiceError> {
        Ok(self.engine.read(|reader| {
            let Some(session) = last_conversation(reader, id)? else {
                return Ok(None);
            };
            let summary = context_summaries::newest(reader, session)?;
            Ok::<_, cleveragents_store::Error>(summary.map(|summary| summary.text))
        })?)
    }

    /// The reasoning and answers of the models of a run, in chronological order; `None` when no
    /// model was called.
    pub fn trace(&self, id: RunId) -> Result<Option<String>, RunServiceError> {
        let steps = self.conversation(id)?.into_iter();
        let answers: Vec<AssistantMessage> = steps
            .filter_map(|step| match serde_json::from_value(step) {
                Ok(ChatMessage::Assistant(answer)) => Some(answer),
                _ => None,
            })
            .collect();
        Ok(render_answers(&answers))
    }
}

/// The conversation of a run with the newest answer, even if its turn failed afterwards. `None` when
/// no model answered.
pub(super) fn last_conversation(
    reader: &mut dyn Reader,
    run: RunId,
) -> Result<Option<SessionId>, Error> {
    let mut newest: Option<(TurnId, SessionId)> = None;
    for session in runs::sessions(reader, run)? {
        let turns = turns::of_session(reader, session)?;
        let Some(last) = turns.last().filter(|turn| turn.state != TurnState::Running) else {
            continue;
        };
        let is_answer = |step: &Value| {
            matches!(
                serde_json::from_value(step.clone()),
                Ok(ChatMessage::Assistant(_))
            )
        };
        if last.state == TurnState::Failed
            && turns.len() == 1
            && !turns::steps(reader, last.id)?.iter().any(is_answer)
        {
            continue;
        }
        if newest.is_none_or(|(turn, _)| turn < last.id) {
            newest = Some((last.id, session));
        }
    }
    Ok(newest.map(|(_, session)| session))
}

/// Every message of a conversation, in order.
pub(super) fn messages(reader: &mut dyn Reader, session: SessionId) -> Result<Vec<Message>, Error> {
    messages::page(reader, session, Sequence(0), i64::MAX.unsigned_abs())
}

/// Joins answers into one text, with the reasoning before each answer.
fn render_answers(answers: &[AssistantMessage]) -> Option<String> {
    let mut parts: Vec<String> = Vec::new();
    for answer in answers {
        for thought in &answer.reasoning {
            let thought = thought.text.trim();
            if !thought.is_empty() {
                parts.push(format!("Thought:\n{thought}"));
            }
        }
        let text = answer.text.trim();
        if !text.is_empty() {
            parts.push(format!("Said:\n{text}"));
        }
    }
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

/// Shortens a long trace to its end, with a note about the omitted beginning.
pub(crate) fn bounded(trace: &str) -> String {
    if trace.len() <= MAX_TRACE_BYTES {
        return trace.to_owned();
    }
    let from = trace.ceil_char_boundary(trace.len() - MAX_TRACE_BYTES);
    format!("[the first {from} bytes are left out]\n{}", &trace[from..])
}

#[cfg(test)]
mod tests {
    use cleveragents_models::{AssistantMessage, Reasoning};

    use super::{MAX_TRACE_BYTES, bounded, render_answers};

    #[test]
    fn reasoning_precedes_the_answer_and_encrypted_reasoning_is_omitted() {
        let thought = |text: &str| Reasoning {
            text: text.to_owned(),
            provider: "scripted".to_owned(),
            seal: None,
            after_text: 0,
            after_calls: 0,
        };
        let first = AssistantMessage {
            reasoning: vec![thought("hm"), thought("")],
            ..AssistantMessage::default()
        };
        let second = AssistantMessage {
            text: "so be it\n".to_owned(),
            ..AssistantMessage::default()
        };
        assert_eq!(
            render_answers(&[first, second]).as_deref(),
            Some("Thought:\nhm\n\nSaid:\nso be it")
        );
        assert_eq!(render_answers(&[AssistantMessage::default()]), None);
    }

    #[test]
    fn a_long_trace_keeps_its_end_and_a_note() {
        let short = "é".repeat(MAX_TRACE_BYTES / 2);
        assert_eq!(bounded(&short), short);
        let long = format!("x{short}!");
        let kept = bounded(&long);
        let (note, end) = kept.split_once('\n').expect("two parts");
        assert_eq!(note, "[the first 3 bytes are left out]");
        assert_eq!(end, &long[3..]);
        assert!(end.len() <= MAX_TRACE_BYTES);
    }
}
