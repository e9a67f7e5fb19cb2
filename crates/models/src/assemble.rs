//! Putting an answer together from its pieces, while the pieces are handed on.
//!
//! Every wire format feeds the one [`Assembler`], so that events and the final message cannot
//! disagree, and what a provider may send (indices, repeated ids, missing ids) is made safe here.

use std::collections::VecDeque;

use cleveragents_domain::MicroUsd;
use serde_json::Value;

use crate::event::{StopReason, StreamEvent, Usage};
use crate::message::{AssistantMessage, Reasoning, ToolCall};
use crate::wire::ToolNames;

/// An answer on its way.
pub(crate) struct Assembler {
    provider: String,
    /// The names of the tools that were offered.
    names: ToolNames,
    /// The number of the first call of this answer among all of the conversation.
    first_call: usize,
    message: AssistantMessage,
    /// Whether the last stretch of reasoning still grows.
    is_thinking: bool,
    pending: VecDeque<StreamEvent>,
    stop: Option<StopReason>,
    /// What it took, as told so far.
    pub(crate) usage: Usage,
    /// What it cost, where the provider says so.
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

    /// Gives calls the names by which the caller knows its tools.
    pub(crate) fn with_names(mut self, names: ToolNames) -> Self {
        self.names = names;
        self
    }

    /// More of the text.
    pub(crate) fn text(&mut self, text: &str) {
        if !text.is_empty() {
            self.is_thinking = false;
            self.message.text.push_str(text);
            self.pending.push_back(StreamEvent::Text(text.to_owned()));
        }
    }

    /// More of what it thinks.
    pub(crate) fn reasoning(&mut self, text: &str) {
        if !text.is_empty() {
            self.thought().text.push_str(text);
            self.pending
                .push_back(StreamEvent::Reasoning(text.to_owned()));
        }
    }

    /// Changes the seal of the stretch of reasoning that grows, and begins one if none does.
    pub(crate) fn seal(&mut self, change: impl FnOnce(&mut Option<Value>)) {
        change(&mut self.thought().seal);
    }

    /// Ends the stretch of reasoning: what follows is a new one.
    pub(crate) fn end_reasoning(&mut self) {
        self.is_thinking = false;
    }

    fn thought(&mut self) -> &mut Reasoning {
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

    /// Begins a call and gives its place. An id that is missing or was used before is replaced.
    pub(crate) fn start_call(&mut self, id: Option<&str>, name: &str) -> usize {
        self.is_thinking = false;
        let name = self.names.own(name).to_owned();
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

    /// More of the arguments of a call.
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

    /// Whether no text came yet.
    pub(crate) const fn has_no_text(&self) -> bool {
        self.message.text.is_empty()
    }

    /// Whether no reasoning came yet.
    pub(crate) const fn has_no_reasoning(&self) -> bool {
        self.message.reasoning.is_empty()
    }

    /// How many calls came so far.
    pub(crate) const fn call_count(&self) -> usize {
        self.message.calls.len()
    }

    /// The place of the call with this id.
    pub(crate) fn place_of(&self, id: &str) -> Option<usize> {
        self.message.calls.iter().position(|call| call.id == id)
    }

    /// The call at a place, to look at it or to sign it.
    pub(crate) fn call(&mut self, index: usize) -> Option<&mut ToolCall> {
        self.message.calls.get_mut(index)
    }

    /// The provider said that the answer is whole, and why it ended.
    pub(crate) fn stop(&mut self, reason: StopReason) {
        self.stop = Some(reason);
    }

    /// Whether the provider said that the answer is whole.
    pub(crate) const fn is_stopped(&self) -> bool {
        self.stop.is_some()
    }

    /// The next event for the caller.
    pub(crate) fn next_event(&mut self) -> Option<StreamEvent> {
        self.pending.pop_front()
    }

    /// The whole answer. Providers disagree on the word for "calls tools"; the calls decide.
    pub(crate) fn finish(mut self) -> (AssistantMessage, Usage, StopReason, Option<MicroUsd>) {
        // A call that was cut before its arguments came would look like one without any.
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
    fn a_call_that_was_cut_before_its_arguments_is_none() {
        for (stop, left) in [
            (StopReason::MaxTokens, 1),
            (StopReason::ContentFilter, 1),
            (StopReason::ToolCalls, 2),
        ] {
            let mut answer = Assembler::new("x", 0);
            let first = answer.start_call(Some("a"), "tool");
            answer.arguments(first, "{}");
            answer.start_call(Some("b"), "tool");
            answer.stop(stop.clone());
            let (message, _, ended, _) = answer.finish();
            assert_eq!((message.calls.len(), ended), (left, stop));
        }
    }

    #[test]
    fn arguments_of_a_call_that_does_not_exist_are_ignored() {
        let mut answer = Assembler::new("x", 0);
        answer.arguments(usize::MAX, "{}");
        assert_eq!(answer.next_event(), None);
    }

    #[test]
    fn reasoning_remembers_where_it_stood() {
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
            .map(|found| (found.text.as_str(), found.after_text, found.after_calls))
            .collect();
        assert_eq!(places, [("ab", 0, 0), ("c", 4, 1)]);
    }
}
