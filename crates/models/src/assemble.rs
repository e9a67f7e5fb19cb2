//! Assembles an answer from its pieces while they are streamed to the caller.
//!
//! Every wire format feeds the same [`Assembler`], so that the streamed events and the final
//! message cannot disagree, and irregular provider data (indices, repeated ids, missing ids) is
//! normalised in one place.

use std::collections::VecDeque;

use cleveragents_domain::MicroUsd;
use serde_json::Value;

use crate::event::{StopReason, StreamEvent, Usage};
use crate::message::{AssistantMessage, Reasoning, ToolCall};
use crate::wire::ToolNames;

/// An answer in progress.
pub(crate) struct Assembler {
    provider: String,
    /// Names of the offered tools.
    names: ToolNames,
    /// Number of the first call of this answer, counted over the whole conversation.
    first_call: usize,
    message: AssistantMessage,
    /// Whether the last reasoning block is still growing.
    is_thinking: bool,
    pending: VecDeque<StreamEvent>,
    stop: Option<StopReason>,
    /// Token counts reported so far.
    pub(crate) usage: Usage,
    /// Cost, if the provider reports it.
    pub(crate) cost: Option<MicroUsd>,
}

impl Assembler {
    pub(crate) fn new(provider: &str, first_call: usize) -> Self {
        Self {
            provider: provider.to_owned(),
            names: ToolNames::default(),
            first_call,
            message: AssistantMessage::default(),
            is_thinking: false,
            pending: VecDeque::new(),
            stop: None,
            usage: Usage::default(),
            cost: None,
        }
    }

    /// Maps tool names of the provider to the names of the caller.
    pub(crate) fn with_names(mut self, names: ToolNames) -> Self {
        self.names = names;
        self
    }

    /// Appends text.
    pub(crate) fn text(&mut self, text: &str) {
        if !text.is_empty() {
            self.is_thinking = false;
            self.message.text.push_str(text);
            self.pending.push_back(StreamEvent::Text(text.to_owned()));
        }
    }

    /// Appends reasoning text.
    pub(crate) fn reasoning(&mut self, text: &str) {
        if !text.is_empty() {
            self.current_reasoning().text.push_str(text);
            self.pending
                .push_back(StreamEvent::Reasoning(text.to_owned()));
        }
    }

    /// Changes the seal (the provider's opaque data) of the current reasoning block. Starts a block if there is none.
    pub(crate) fn seal(&mut self, change: impl FnOnce(&mut Option<Value>)) {
        change(&mut self.current_reasoning().seal);
    }

    /// Ends the current reasoning block; further reasoning starts a new one.
    pub(crate) fn end_reasoning(&mut self) {
        self.is_thinking = false;
    }

    fn current_reasoning(&mut self) -> &mut Reasoning {
        if !self.is_thinking || self.message.reasoning.is_empty() {
            self.message.reasoning.push(Reasoning {
                text: String::new(),
                provider: self.provider.clone(),
                seal: None,
                after_text: self.message.text.len(),
                after_calls: self.message.calls.len(),
            });
            self.is_thinking = true;
        }
        let last = self.message.reasoning.len() - 1;
        &mut self.message.reasoning[last]
    }

    /// Starts a tool call and returns its index. A missing or repeated id is replaced.
    pub(crate) fn start_call(&mut self, id: Option<&str>, name: &str) -> usize {
        self.is_thinking = false;
        let name = self.names.original(name).to_owned();
        let index = self.message.calls.len();
        let is_used = |id: &str| self.message.calls.iter().any(|call| call.id == id);
        let id = match id {
            Some(id) if !id.is_empty() && !is_used(id) => id.to_owned(),
            _ => format!("call_{}", self.first_call + index),
        };
        self.message.calls.push(ToolCall {
            id: id.clone(),
            name: name.clone(),
            arguments: String::new(),
            signature: None,
        });
        self.pending
            .push_back(StreamEvent::ToolCallStarted { index, id, name });
        index
    }

    /// Appends to the arguments of a call.
    pub(crate) fn arguments(&mut self, index: usize, fragment: &str) {
        if let Some(call) = self.message.calls.get_mut(index)
            && !fragment.is_empty()
        {
            call.arguments.push_str(fragment);
            self.pending.push_back(StreamEvent::ToolCallArguments {
                index,
                fragment: fragment.to_owned(),
            });
        }
    }

    /// Whether no text was received yet.
    pub(crate) const fn has_no_text(&self) -> bool {
        self.message.text.is_empty()
    }

    /// Whether no reasoning was received yet.
    pub(crate) const fn has_no_reasoning(&self) -> bool {
        self.message.reasoning.is_empty()
    }

    /// Number of calls received so far.
    pub(crate) const fn call_count(&self) -> usize {
        self.message.calls.len()
    }

    /// Index of the call with this id.
    pub(crate) fn place_of(&self, id: &str) -> Option<usize> {
        self.message.calls.iter().position(|call| call.id == id)
    }

    /// The call at an index, to inspect or sign it.
    pub(crate) fn call(&mut self, index: usize) -> Option<&mut ToolCall> {
        self.message.calls.get_mut(index)
    }

    /// Records that the provider ended the answer, and why.
    pub(crate) fn stop(&mut self, reason: StopReason) {
        self.stop = Some(reason);
    }

    /// Whether the provider ended the answer.
    pub(crate) const fn is_stopped(&self) -> bool {
        self.stop.is_some()
    }

    /// Takes the next event for the caller.
    pub(crate) fn next_event(&mut self) -> Option<StreamEvent> {
        self.pending.pop_front()
    }

    /// Returns the complete answer. Providers name the stop reason for tool calls differently, so
    /// the presence of calls decides.
    pub(crate) fn finish(mut self) -> (AssistantMessage, Usage, StopReason, Option<MicroUsd>) {
        // A call that was interrupted before its arguments would look like a call without arguments.
        let is_cut = matches!(
            self.stop,
            Some(StopReason::MaxTokens | StopReason::ContentFilter)
        );
        self.message
            .calls
            .pop_if(|call| is_cut && call.arguments.is_empty());
        let stop = match self.stop {
            None | Some(StopReason::EndTurn | StopReason::ToolCalls) => {
                if self.message.calls.is_empty() {
                    StopReason::EndTurn
                } else {
                    StopReason::ToolCalls
                }
            }
            Some(other) => other,
        };
        (self.message, self.usage, stop, self.cost)
    }
}

#[cfg(test)]
mod tests {
    use super::Assembler;
    use crate::event::{StopReason, StreamEvent};

    #[test]
    fn missing_and_repeated_ids_are_replaced() {
        let mut answer = Assembler::new("x", 3);
        for id in [None, Some(""), Some("a"), Some("a")] {
            answer.start_call(id, "tool");
        }
        let (message, _, stop, _) = answer.finish();
        let ids: Vec<&str> = message.calls.iter().map(|call| call.id.as_str()).collect();
        assert_eq!(ids, ["call_3", "call_4", "a", "call_6"]);
        assert_eq!(stop, StopReason::ToolCalls);
    }

    #[test]
    fn a_call_without_arguments_is_dropped_from_a_truncated_answer() {
        for (stop, expected_calls) in [
            (StopReason::MaxTokens, 1),
            (StopReason::ContentFilter, 1),
            (StopReason::ToolCalls, 2),
        ] {
            let mut answer = Assembler::new("x", 0);
            let first = answer.start_call(Some("a"), "tool");
            answer.arguments(first, "{}");
            answer.start_call(Some("b"), "tool");
            answer.stop(stop.clone());
            let (message, _, actual_stop, _) = answer.finish();
            assert_eq!((message.calls.len(), actual_stop), (expected_calls, stop));
        }
    }

    #[test]
    fn arguments_of_a_call_that_does_not_exist_are_ignored() {
        let mut answer = Assembler::new("x", 0);
        answer.arguments(usize::MAX, "{}");
        assert_eq!(answer.next_event(), None);
    }

    #[test]
    fn reasoning_blocks_store_their_position() {
        let mut answer = Assembler::new("x", 0);
        answer.reasoning("a");
        answer.reasoning("b");
        answer.text("four");
        answer.start_call(None, "t");
        answer.reasoning("c");
        assert_eq!(
            answer.next_event(),
            Some(StreamEvent::Reasoning("a".to_owned()))
        );
        let (message, ..) = answer.finish();
        let places: Vec<_> = message
            .reasoning
            .iter()
            .map(|block| (block.text.as_str(), block.after_text, block.after_calls))
            .collect();
        assert_eq!(places, [("ab", 0, 0), ("c", 4, 1)]);
    }
}
