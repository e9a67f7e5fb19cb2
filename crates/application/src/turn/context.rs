//! Fits the messages of a request into the context window of the model.
//!
//! Standing instructions, the current turn and the last turns before it are never left out. A
//! conversation that is too long is reduced in three steps: first, the tool results in old turns are
//! shortened; then a note replaces old turns, oldest first; finally, the older results of the
//! current turn are shortened. A call is never separated from its result.

use std::sync::Arc;

use cleveragents_models::{ChatMessage, UserPart};
use cleveragents_tools::untrusted;

use super::history::PastTurn;

/// Number of turns before the current one that are always kept.
const KEPT_TURNS: usize = 2;

/// Number of messages at the end of the current turn that are never shortened.
const KEPT_MESSAGES: usize = 4;

/// Length to which older results are shortened, in bytes.
const SHORTENED_BYTES: usize = 400;

/// Bytes per token, estimated low so that the number of tokens is estimated high.
const BYTES_PER_TOKEN: usize = 3;

/// Estimated tokens of an image.
const TOKENS_PER_IMAGE: usize = 1_500;

/// Messages that fit into the context window.
#[derive(Debug, PartialEq)]
pub(super) struct FittedMessages {
    pub(super) messages: Vec<Arc<ChatMessage>>,
    /// The number of earlier messages that were left out.
    pub(super) left_out: usize,
}

/// Fits past turns and the current turn into at most `tokens` tokens.
pub(super) fn fit(
    mut past: Vec<PastTurn>,
    present: &[Arc<ChatMessage>],
    tokens: usize,
) -> FittedMessages {
    let fixed: usize = present.iter().map(|message| size(message)).sum();
    let exceeds_limit =
        |past: &[PastTurn]| past.iter().map(turn_size).sum::<usize>() + fixed > tokens;
    let old = past.len().saturating_sub(KEPT_TURNS);
    for at in 0..old {
        if !exceeds_limit(&past) {
            break;
        }
        past[at].messages.iter_mut().for_each(shorten);
    }
    let mut left_out = 0;
    let mut first = 0;
    while first < old && exceeds_limit(&past[first..]) {
        left_out += past[first].messages.len();
        first += 1;
    }
    let mut messages = Vec::new();
    if left_out > 0 {
        // The note is part of the next question, because two questions in a row confuse some models.
        let note =
            format!("(Note: {left_out} earlier messages of this conversation are left out.)");
        match past
            .get_mut(first)
            .and_then(|turn| turn.messages.first_mut())
        {
            Some(ChatMessage::User { parts }) => parts.insert(0, UserPart::Text(note)),
            _ => messages.push(ChatMessage::user(note).into()),
        }
    }
    let kept = past.into_iter().skip(first);
    messages.extend(kept.flat_map(|turn| turn.messages).map(Arc::new));
    let mut total = messages.iter().map(|message| size(message)).sum::<usize>() + fixed;
    let shortenable = present.len().saturating_sub(KEPT_MESSAGES);
    for (at, message) in present.iter().enumerate() {
        let mut message = Arc::clone(message);
        if total > tokens && at < shortenable {
            let before = size(&message);
            shorten(Arc::make_mut(&mut message));
            total = total - before + size(&message);
        }
        messages.push(message);
    }
    FittedMessages { messages, left_out }
}

pub(super) fn turn_size(turn: &PastTurn) -> usize {
    turn.messages.iter().map(size).sum()
}

/// Number of tokens of a message, estimated high.
pub(super) fn size(message: &ChatMessage) -> usize {
    let (bytes, images) = match message {
        ChatMessage::User { parts } => {
            parts
                .iter()
                .fold((0, 0), |(bytes, images), part| match part {
                    UserPart::Text(text) => (bytes + text.len(), images),
                    UserPart::Image { .. } => (bytes, images + 1),
                })
        }
        ChatMessage::Assistant(answer) => {
            let calls = answer.calls.iter();
            let calls: usize = calls
                .map(|call| call.name.len() + call.arguments.len())
                .sum();
            let thoughts: usize = answer
                .reasoning
                .iter()
                .map(|thought| thought.text.len())
                .sum();
            (answer.text.len() + calls + thoughts, 0)
        }
        ChatMessage::Tool { results } => results.iter().fold((0, 0), |(bytes, images), result| {
            (bytes + result.content.len(), images + result.pictures.len())
        }),
    };
    bytes / BYTES_PER_TOKEN + images * TOKENS_PER_IMAGE + 4
}

fn shorten(message: &mut ChatMessage) {
    let ChatMessage::Tool { results } = message else {
        return;
    };
    for result in results {
        untrusted::shorten(&mut result.content, SHORTENED_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{KEPT_MESSAGES, KEPT_TURNS, size};
    use crate::turn::history::PastTurn;
    use cleveragents_models::{AssistantMessage, ChatMessage, ToolCall, ToolResult};
    use proptest::prelude::*;

    struct FittedMessages {
        messages: Vec<ChatMessage>,
        left_out: usize,
    }

    fn fit(past: Vec<PastTurn>, present: &[ChatMessage], tokens: usize) -> FittedMessages {
        let present: Vec<_> = present.iter().cloned().map(Arc::new).collect();
        let fitted = super::fit(past, &present, tokens);
        FittedMessages {
            messages: fitted
                .messages
                .into_iter()
                .map(Arc::unwrap_or_clone)
                .collect(),
            left_out: fitted.left_out,
        }
    }

    fn turn(number: usize, calls: usize, bytes: usize) -> PastTurn {
        let mut messages = vec![ChatMessage::user(format!("question {number}"))];
        if calls > 0 {
            let id = |call: usize| format!("{number}-{call}");
            messages.push(ChatMessage::Assistant(AssistantMessage {
                calls: (0..calls)
                    .map(|call| ToolCall {
                        id: id(call),
                        name: "tool".to_owned(),
                        arguments: "{}".to_owned(),
                        signature: None,
                    })
                    .collect(),
                ..AssistantMessage::default()
            }));
            messages.push(ChatMessage::Tool {
                results: (0..calls)
                    .map(|call| ToolResult {
                        pictures: Vec::new(),
                        call_id: id(call),
                        content: "é".repeat(bytes),
                        is_error: false,
                    })
                    .collect(),
            });
        }
        messages.push(ChatMessage::Assistant(AssistantMessage {
            text: "x".repeat(bytes),
            ..AssistantMessage::default()
        }));
        PastTurn {
            messages,
            ..PastTurn::default()
        }
    }

    #[test]
    fn older_results_of_the_current_turn_are_shortened_last() {
        let present: Vec<ChatMessage> = (0..6)
            .flat_map(|number| turn(number, 1, 2_000).messages)
            .collect();
        let whole: usize = present.iter().map(size).sum();
        assert_eq!(fit(Vec::new(), &present, whole).messages, present);
        let fitted = fit(Vec::new(), &present, whole / 2).messages;
        assert_eq!(fitted.len(), present.len());
        assert!(fitted.iter().map(size).sum::<usize>() < whole);
        let kept = present.len() - KEPT_MESSAGES;
        assert_eq!(
            fitted[kept..],
            present[kept..],
            "the newest messages are complete"
        );
        assert_eq!(fitted[0], present[0], "questions are complete");
        assert!(format!("{:?}", fitted[2]).contains("truncated from 4000 bytes"));
    }

    proptest! {
        #[test]
        fn calls_keep_their_results_and_the_last_turns_stay(
            turns in prop::collection::vec((0..3_usize, 0..2_000_usize), 0..12),
            tokens in 0..6_000_usize,
        ) {
            let past: Vec<_> = turns
                .iter()
                .enumerate()
                .map(|(number, (calls, bytes))| turn(number, *calls, *bytes))
                .collect();
            let present = vec![ChatMessage::user("now")];
            let fitted = fit(past.clone(), &present, tokens);
            prop_assert_eq!(fitted.messages.last(), present.last());
            let mut open: Vec<String> = Vec::new();
            for message in &fitted.messages {
                match message {
                    ChatMessage::Assistant(answer) => {
                        prop_assert!(open.is_empty(), "a call lost its result");
                        open = answer.calls.iter().map(|call| call.id.clone()).collect();
                    }
                    ChatMessage::Tool { results } => {
                        let answered: Vec<_> =
                            results.iter().map(|result| result.call_id.clone()).collect();
                        prop_assert_eq!(&answered, &open);
                        open.clear();
                    }
                    ChatMessage::User { .. } => prop_assert!(open.is_empty()),
                }
            }
            let all: usize = past.iter().map(|turn| turn.messages.len()).sum();
            prop_assert_eq!(fitted.messages.len() - 1 + fitted.left_out, all);
            // The last turns are complete.
            let kept: Vec<_> = past.iter().rev().take(KEPT_TURNS).rev().collect();
            let tail: Vec<_> = kept.iter().flat_map(|turn| turn.messages.iter().skip(1)).collect();
            for message in tail {
                prop_assert!(fitted.messages.contains(message));
            }
            let total: usize = fitted.messages.iter().map(size).sum();
            prop_assert!(total <= tokens + 20 || past.len() - kept.len() == 0 || fitted.left_out > 0
                || total <= past.iter().flat_map(|turn| &turn.messages).map(size).sum::<usize>() + size(&present[0]));
        }
    }

    #[test]
    fn a_fitting_conversation_is_unchanged() {
        let past = vec![turn(0, 2, 50), turn(1, 0, 10)];
        let fitted = fit(past.clone(), &[ChatMessage::user("now")], 100_000);
        assert_eq!(fitted.left_out, 0);
        let expected: Vec<_> = past
            .into_iter()
            .flat_map(|turn| turn.messages)
            .chain([ChatMessage::user("now")])
            .collect();
        assert_eq!(fitted.messages, expected);
    }

    #[test]
    fn long_results_are_shortened_then_messages_are_dropped_oldest_first() {
        let past: Vec<_> = (0..6).map(|number| turn(number, 1, 3_000)).collect();
        let fitted = fit(past, &[ChatMessage::user("now")], 4_000);
        assert!(fitted.left_out > 0);
        let text = format!("{:?}", fitted.messages);
        assert!(text.contains("earlier messages of this conversation are left out"));
        assert!(
            !text.contains("question 0") && text.contains("question 5"),
            "{text}"
        );
    }
}
