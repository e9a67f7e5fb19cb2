//! Messages of a session as a model sees them, and back.

use std::sync::Arc;

use cleveragents_domain::{Message, Metadata, NewMessage, Role, ToolInvocationId, TurnId};
use cleveragents_models::{AssistantMessage, ChatMessage, ToolResult, UserPart};
use serde_json::{Value, json};

use super::error::TurnError;
use crate::tool::storable;

/// Where the whole message is kept beside its text.
const CHAT: &str = "chat";

/// A turn in the words of a model: a question and everything until the next one. Never split, so calls
/// stay with their results.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct PastTurn {
    pub(super) messages: Vec<ChatMessage>,
}

/// The turns of a session, oldest first, and the standing instructions said in it.
#[derive(Debug, Default)]
pub(super) struct Past {
    pub(super) system: Vec<String>,
    pub(super) turns: Vec<PastTurn>,
}

/// Reads messages in the order of the session. Questions that nobody answered are left out.
pub(super) fn past(messages: &[Message]) -> Past {
    let mut past = Past::default();
    let mut turn = PastTurn::default();
    for message in messages {
        let chat = message
            .metadata
            .get(CHAT)
            .and_then(|chat| serde_json::from_value::<ChatMessage>(chat.clone()).ok());
        match message.role {
            Role::System => past.system.push(message.content.clone()),
            Role::User => {
                past.turns.push(std::mem::take(&mut turn));
                turn.messages
                    .push(chat.unwrap_or_else(|| ChatMessage::user(message.content.clone())));
            }
            Role::Assistant => {
                turn.messages.push(chat.unwrap_or_else(|| {
                    ChatMessage::Assistant(AssistantMessage {
                        text: message.content.clone(),
                        ..AssistantMessage::default()
                    })
                }));
            }
            Role::Tool => {
                // Without a call before it, a result means nothing to a model.
                let Some(ChatMessage::Tool { results }) = chat else {
                    continue;
                };
                match turn.messages.last_mut() {
                    Some(ChatMessage::Tool { results: there }) => there.extend(results),
                    Some(ChatMessage::Assistant(answer)) if !answer.calls.is_empty() => {
                        turn.messages.push(ChatMessage::Tool { results });
                    }
                    _ => {}
                }
            }
        }
    }
    past.turns.push(turn);
    for turn in &mut past.turns {
        close(&mut turn.messages);
        // A conversation with a model begins with a person.
        if matches!(turn.messages.first(), Some(first) if !matches!(first, ChatMessage::User { .. }))
        {
            let begun = ChatMessage::user("(The conversation began before this.)");
            turn.messages.insert(0, begun);
        }
    }
    let is_answered = |turn: &PastTurn| {
        turn.messages
            .iter()
            .any(|message| matches!(message, ChatMessage::Assistant(_)))
    };
    past.turns.retain(is_answered);
    past
}

/// Gives every call a result, so that a model accepts the messages.
fn close(messages: &mut Vec<ChatMessage>) {
    let mut at = 0;
    while at < messages.len() {
        let ChatMessage::Assistant(answer) = &messages[at] else {
            at += 1;
            continue;
        };
        let calls: Vec<String> = answer.calls.iter().map(|call| call.id.clone()).collect();
        at += 1;
        if calls.is_empty() {
            continue;
        }
        if !matches!(messages.get(at), Some(ChatMessage::Tool { .. })) {
            messages.insert(
                at,
                ChatMessage::Tool {
                    results: Vec::new(),
                },
            );
        }
        if let Some(ChatMessage::Tool { results }) = messages.get_mut(at) {
            results.retain(|result| calls.contains(&result.call_id));
            for id in calls {
                if !results.iter().any(|result| result.call_id == id) {
                    results.push(ToolResult {
                        pictures: Vec::new(),
                        call_id: id,
                        content: "The result of this call is not known.".to_owned(),
                        is_error: true,
                    });
                }
            }
        }
        at += 1;
    }
}

/// The text of a question.
pub(super) fn text_of(parts: &[UserPart]) -> String {
    let texts: Vec<&str> = parts
        .iter()
        .map(|part| match part {
            UserPart::Text(text) => text.as_str(),
            UserPart::Image { .. } => "[image]",
        })
        .collect();
    texts.join("\n")
}

/// The messages that a turn adds to its session. `failure` says why it has no answer.
pub(super) fn stored(
    turn: TurnId,
    steps: &[Arc<ChatMessage>],
    invocations: &[(String, ToolInvocationId)],
    failure: Option<&str>,
) -> Result<Vec<NewMessage>, TurnError> {
    // The question was measured when it was asked; what was answered is kept whatever its size.
    let limit = usize::MAX;
    let mut all = Vec::new();
    let facts = |chat: &ChatMessage| -> Metadata {
        let mut facts = Metadata::new();
        facts.insert("turn".to_owned(), json!(turn));
        facts.insert(CHAT.to_owned(), storable_chat(chat));
        facts
    };
    for step in steps {
        match step.as_ref() {
            ChatMessage::User { parts } => {
                let text = storable(&text_of(parts));
                let mut metadata = facts(step);
                if matches!(parts.as_slice(), [UserPart::Text(_)]) {
                    metadata.remove(CHAT);
                }
                let message = NewMessage::new(Role::User, text, metadata, limit)?;
                all.push(match failure {
                    Some(reason) => message.failed(reason),
                    None => message,
                });
            }
            ChatMessage::Assistant(answer) => {
                let text = storable(&shown(answer));
                all.push(NewMessage::new(Role::Assistant, text, facts(step), limit)?);
            }
            ChatMessage::Tool { results } => {
                for result in results {
                    let chat = ChatMessage::Tool {
                        results: vec![result.clone()],
                    };
                    let mut metadata = facts(&chat);
                    let row = invocations.iter().find(|(id, _)| *id == result.call_id);
                    if let Some((_, id)) = row {
                        metadata.insert("invocation".to_owned(), json!(id));
                    }
                    let text = match result.content.trim() {
                        "" => "(nothing)".to_owned(),
                        _ => storable(&result.content),
                    };
                    all.push(NewMessage::new(Role::Tool, text, metadata, limit)?);
                }
            }
        }
    }
    Ok(all)
}

fn storable_chat(chat: &ChatMessage) -> Value {
    let value = serde_json::to_value(chat).unwrap_or(Value::Null);
    crate::tool::storable_json(&value)
}

/// An answer as people read it; one that only calls tools says which.
pub(super) fn shown(answer: &AssistantMessage) -> String {
    if !answer.text.trim().is_empty() {
        return answer.text.clone();
    }
    let names: Vec<String> = answer
        .calls
        .iter()
        .map(
            |call| match cleveragents_tools::ToolName::from_wire(&call.name) {
                Ok(name) => name.to_string(),
                Err(_) => call.name.clone(),
            },
        )
        .collect();
    match names.as_slice() {
        [] => "(no answer)".to_owned(),
        names => format!("(calls {})", names.join(", ")),
    }
}
