//! Converts stored messages of a session to model messages, and back.

use std::sync::Arc;

use cleveragents_domain::{Message, Metadata, NewMessage, Role, ToolInvocationId, TurnId};
use cleveragents_models::{AssistantMessage, ChatMessage, ToolResult, UserPart};
use cleveragents_store::messages::is_undone;
use serde_json::{Value, json};

use super::error::TurnError;
use crate::tool::storable;

/// The result of a call that was interrupted.
const INTERRUPTED: &str = "Interrupted: the result of this call is unknown.";

/// The metadata key of the complete message, stored next to its text.
const CHAT: &str = "chat";

/// A turn as model messages: a question and all messages before the next question. Turns are never
/// split, so that calls stay with their results.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct PastTurn {
    /// The sequence number of the first message in the session.
    pub(super) first: u64,
    /// The turn that stored the messages; `None` for imported and appended messages.
    pub(super) turn: Option<TurnId>,
    pub(super) messages: Vec<ChatMessage>,
}

/// The turns of a session, oldest first, and its standing instructions.
#[derive(Debug, Default)]
pub(super) struct Past {
    pub(super) system: Vec<String>,
    pub(super) turns: Vec<PastTurn>,
}

/// The stored model message of a session message. `None` if no turn stored the message, or if it is a question of plain
/// text.
pub(crate) fn chat_message(message: &Message) -> Option<ChatMessage> {
    let chat = message.metadata.get(CHAT)?;
    serde_json::from_value(chat.clone()).ok()
}

/// Replaces the stored model message; for a tool result, also replaces the text of the session message.
pub(crate) fn set_chat_message(message: &mut Message, chat: &ChatMessage) {
    message
        .metadata
        .insert(CHAT.to_owned(), storable_chat(chat));
    if let ChatMessage::Tool { results } = chat {
        let texts: Vec<&str> = results
            .iter()
            .map(|result| result.content.as_str())
            .collect();
        message.content = storable(&texts.join("\n"));
    }
}

/// Groups the messages of a session into turns. Leaves out questions without an answer, and messages that the user
/// undid.
pub(super) fn past(messages: &[Message]) -> Past {
    let mut past = Past::default();
    let mut turn = PastTurn::default();
    for message in messages.iter().filter(|message| !is_undone(message)) {
        let chat = chat_message(message);
        if message.role == Role::User {
            past.turns.push(std::mem::take(&mut turn));
        }
        if turn.messages.is_empty() && message.role != Role::System {
            turn.first = message.sequence.0;
            let id = message.metadata.get("turn").cloned();
            turn.turn = id.and_then(|id| serde_json::from_value(id).ok());
        }
        match message.role {
            Role::System => past.system.push(message.content.clone()),
            Role::User => {
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
                // A result without its call is useless to a model.
                let Some(ChatMessage::Tool { results }) = chat else {
                    continue;
                };
                match turn.messages.last_mut() {
                    Some(ChatMessage::Tool { results: earlier }) => earlier.extend(results),
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
        // A conversation with a model starts with a message of the user.
        if matches!(turn.messages.first(), Some(first) if !matches!(first, ChatMessage::User { .. }))
        {
            let opening = ChatMessage::user("(Earlier messages are omitted.)");
            turn.messages.insert(0, opening);
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

/// Adds a result to every call without one, because providers refuse such calls.
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
                        content: INTERRUPTED.to_owned(),
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

/// The messages that a turn adds to its session. `failure` is the reason why the turn has no answer.
pub(super) fn stored(
    turn: TurnId,
    steps: &[Arc<ChatMessage>],
    invocations: &[(String, ToolInvocationId)],
    failure: Option<&str>,
) -> Result<Vec<NewMessage>, TurnError> {
    // The size of the question was checked at the start of the turn. The size of answers has no
    // limit.
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

/// An answer as text for users. An answer without text lists its tool calls.
pub(super) fn shown(answer: &AssistantMessage) -> String {
    if !answer.text.trim().is_empty() {
        return answer.text.clone();
    }
    let names: Vec<String> = answer
        .calls
        .iter()
        .map(
            |call| match cleveragents_tools::called_tool(&call.name, &call.arguments) {
                Some(name) => name.to_string(),
                None => call.name.clone(),
            },
        )
        .collect();
    match names.as_slice() {
        [] => "(no answer)".to_owned(),
        names => format!("(calls {})", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use cleveragents_domain::{
        Message, MessageId, MessageState, Metadata, Role, Sequence, Timestamp,
    };
    use cleveragents_models::ChatMessage;

    use super::past;

    fn message(sequence: u64, role: Role, is_undone: bool) -> Message {
        let mut metadata = Metadata::new();
        if is_undone {
            metadata.insert("undone".to_owned(), true.into());
        }
        Message {
            id: MessageId::generate(),
            sequence: Sequence(sequence),
            role,
            content: format!("message {sequence}"),
            metadata,
            state: MessageState::Complete,
            created_at: Timestamp::now(),
        }
    }

    #[test]
    fn messages_that_the_user_undid_are_left_out() {
        let messages = [
            message(0, Role::User, false),
            message(1, Role::Assistant, false),
            message(2, Role::User, true),
            message(3, Role::Assistant, true),
            message(4, Role::User, false),
            message(5, Role::Assistant, false),
        ];
        let past = past(&messages);
        let firsts: Vec<u64> = past.turns.iter().map(|turn| turn.first).collect();
        assert_eq!(firsts, [0, 4]);
        let hidden = ChatMessage::user("message 2");
        assert!(
            past.turns
                .iter()
                .all(|turn| !turn.messages.contains(&hidden))
        );
    }
}
