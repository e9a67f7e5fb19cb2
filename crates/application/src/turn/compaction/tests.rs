use std::sync::Arc;

use cleveragents_domain::TurnId;
use cleveragents_models::{AssistantMessage, ChatMessage, ToolCall, ToolResult, UserPart};
use cleveragents_store::context_summaries::ContextSummary;
use proptest::prelude::*;

use super::{CutPoint, RemainingMessages, SHOWN_BYTES, transcript};
use crate::turn::context::{size, turn_size};
use crate::turn::history::PastTurn;

fn exchange(number: usize, bytes: usize) -> [ChatMessage; 2] {
    let id = format!("call-{number}");
    [
        ChatMessage::Assistant(AssistantMessage {
            calls: vec![ToolCall {
                id: id.clone(),
                name: "shell".to_owned(),
                arguments: "{}".to_owned(),
                signature: None,
            }],
            ..AssistantMessage::default()
        }),
        ChatMessage::Tool {
            results: vec![ToolResult {
                call_id: id,
                content: "x".repeat(bytes),
                is_error: false,
                pictures: Vec::new(),
            }],
        },
    ]
}

/// A turn with a question, exchanges, and an answer.
fn past_turn(number: usize, exchanges: usize, bytes: usize) -> PastTurn {
    let mut messages = vec![ChatMessage::user(format!("question {number}"))];
    messages.extend((0..exchanges).flat_map(|at| exchange(number * 100 + at, bytes)));
    messages.push(ChatMessage::Assistant(AssistantMessage {
        text: format!("answer {number}"),
        ..AssistantMessage::default()
    }));
    PastTurn {
        first: number as u64 * 10,
        turn: Some(TurnId::generate()),
        messages,
    }
}

fn present(exchanges: usize, bytes: usize) -> Vec<Arc<ChatMessage>> {
    let steps = (0..exchanges).flat_map(|at| exchange(10_000 + at, bytes));
    std::iter::once(ChatMessage::user("now"))
        .chain(steps)
        .map(Arc::new)
        .collect()
}

fn summary(sequence: u64, turn: TurnId, steps: u64) -> ContextSummary {
    ContextSummary {
        sequence,
        turn,
        steps,
        text: "SUMMARY".to_owned(),
        tokens_before: 0,
        tokens_after: 0,
    }
}

fn first_text(message: &ChatMessage) -> String {
    match message {
        ChatMessage::User { parts } => match &parts[0] {
            UserPart::Text(text) => text.clone(),
            UserPart::Image { .. } => panic!("an image"),
        },
        other => panic!("not a question: {other:?}"),
    }
}

#[test]
fn a_summary_replaces_earlier_turns_and_precedes_the_next_question() {
    let past: Vec<_> = (0..4).map(|number| past_turn(number, 1, 10)).collect();
    let turn = TurnId::generate();
    let remaining =
        RemainingMessages::after(past.clone(), present(0, 0), turn, &summary(20, turn, 0));
    assert_eq!(remaining.past.len(), 2);
    assert!(first_text(&remaining.past[0].messages[0]).contains("SUMMARY"));
    assert_eq!(remaining.past[0].messages[1..], past[2].messages[1..]);
    assert_eq!(remaining.past[1], past[3]);
    assert_eq!(remaining.present, present(0, 0));
}

#[test]
fn a_summary_of_the_running_turn_keeps_its_question() {
    let turn = TurnId::generate();
    let steps = present(3, 10);
    let remaining = RemainingMessages::after(
        vec![past_turn(0, 1, 10)],
        steps.clone(),
        turn,
        &summary(10, turn, 4),
    );
    assert!(remaining.past.is_empty());
    assert_eq!(remaining.present.len(), 3);
    assert!(first_text(&remaining.present[0]).contains("SUMMARY"));
    assert_eq!(remaining.present[1..], steps[5..]);
}

#[test]
fn a_summary_covers_its_turn_after_the_turn_ended() {
    let turn = past_turn(1, 3, 10);
    let summary = summary(10, turn.turn.expect("a turn"), 4);
    let remaining = RemainingMessages::after(
        vec![past_turn(0, 1, 10), turn.clone()],
        present(0, 0),
        TurnId::generate(),
        &summary,
    );
    assert_eq!(remaining.past.len(), 1);
    assert!(first_text(&remaining.past[0].messages[0]).contains("SUMMARY"));
    assert_eq!(remaining.past[0].messages[1..], turn.messages[5..]);
}

#[test]
fn nothing_is_cut_from_a_single_question() {
    assert_eq!(CutPoint::choose(&[], &present(0, 0), 0), None);
    assert_eq!(CutPoint::choose(&[], &present(1, 50_000), 10), None);
}

#[test]
fn long_results_are_shortened_and_the_oldest_texts_are_dropped() {
    let messages: Vec<ChatMessage> = (0..50)
        .flat_map(|number| exchange(number, 10_000))
        .collect();
    let messages: Vec<&ChatMessage> = messages.iter().collect();
    let whole = transcript(&messages, usize::MAX);
    assert!(whole.len() < 50 * (SHOWN_BYTES + 300));
    assert!(whole.contains("bytes left out"));
    let short = transcript(&messages, 10_000);
    assert!(short.len() <= 10_000);
    let (first, newest) = short.split_at(transcript(&messages[..1], 0).len());
    assert!(whole.starts_with(first));
    assert!(whole.ends_with(newest));
}

/// The earlier summary is part of the first message.
#[test]
fn the_first_message_and_those_of_the_user_stay_in_the_text_to_summarize() {
    let turns: Vec<PastTurn> = (0..20).map(|number| past_turn(number, 2, 5_000)).collect();
    let messages: Vec<&ChatMessage> = turns.iter().flat_map(|turn| &turn.messages).collect();
    let text = transcript(&messages, 8_000);
    assert!(text.len() <= 8_000, "{}", text.len());
    for number in 0..20 {
        assert!(text.contains(&format!("question {number}\n")), "{text}");
    }
    // Below the size of the user's messages, the oldest of them are dropped, but never the first.
    let text = transcript(&messages, 100);
    assert!(
        text.contains("question 0\n") && !text.contains("question 1\n"),
        "{text}"
    );
    assert!(text.ends_with("answer 19\n\n"), "{text}");
}

proptest! {
    #[test]
    fn compacted_conversations_are_small_and_every_call_keeps_its_result(
        turns in prop::collection::vec((0..4_usize, 0..3_000_usize), 0..8),
        exchanges in 0..12_usize,
        bytes in 0..3_000_usize,
        kept in 0..4_000_usize,
    ) {
        let past: Vec<_> = turns
            .iter()
            .enumerate()
            .map(|(number, (exchanges, bytes))| past_turn(number, *exchanges, *bytes))
            .collect();
        let present = present(exchanges, bytes);
        let Some(cut) = CutPoint::choose(&past, &present, kept) else {
            return Ok(());
        };
        prop_assert!(cut.turns > 0 || cut.steps > 0);
        prop_assert_eq!(cut.steps % 2, 0, "exchanges stay together");
        let covered: Vec<_> = cut.covered(&past, &present).collect();
        prop_assert!(!covered.is_empty());
        let remaining: usize = past[cut.turns..].iter().map(turn_size).sum::<usize>()
            + present.iter().skip(cut.steps + 1).map(|message| size(message)).sum::<usize>();
        let newest: usize = present
            .iter()
            .rev()
            .take(2)
            .map(|message| size(message))
            .sum();
        prop_assert!(remaining <= kept.max(newest), "{} of {}", remaining, kept);
    }
}
