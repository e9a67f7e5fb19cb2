//! The port: what every model can be asked, whoever provides it.

use futures_core::stream::BoxStream;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::error::{ErrorKind, ModelError};
use crate::event::{Completion, StreamEvent};
use crate::name::ModelName;
use crate::price::Price;
use crate::request::ChatRequest;

/// The pieces of one answer.
pub type EventStream = BoxStream<'static, Result<StreamEvent, ModelError>>;

/// Something that answers.
pub trait Model: Send + Sync {
    /// Which model this is.
    fn name(&self) -> &ModelName;

    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// What it costs; nothing when that is not known. Where one of several may answer, no call costs
    /// more than this.
    fn price(&self) -> Option<Price>;

    /// Asks it. The stream ends after [`StreamEvent::Finished`] or after an error, whichever comes
    /// first. Dropping it, or cancelling, closes the connection at once.
    fn stream(&self, request: ChatRequest, cancel: CancellationToken) -> EventStream;
}

/// Asks a model and waits for the whole answer.
pub async fn complete(
    model: &dyn Model,
    request: ChatRequest,
    cancel: CancellationToken,
) -> Result<Completion, ModelError> {
    let mut events = model.stream(request, cancel);
    while let Some(event) = events.next().await {
        if let StreamEvent::Finished(completion) = event? {
            return Ok(*completion);
        }
    }
    Err(ModelError::new(
        ErrorKind::Interrupted,
        model.name(),
        "the answer ended before it was whole",
    ))
}

/// What a model can do, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Capabilities {
    /// It can ask for tools.
    pub tools: bool,
    /// Its answers come piece by piece.
    pub streaming: bool,
    /// It sees images.
    pub vision: bool,
    /// Its answers can be bound to a JSON schema.
    pub json_schema: bool,
    /// It thinks before it answers.
    pub reasoning: bool,
    /// The most tokens it reads and writes together.
    pub context_window: Option<u64>,
    /// The most tokens it reads, where that is less than the context window leaves.
    pub max_input: Option<u64>,
    /// The most tokens it writes.
    pub max_output: Option<u64>,
    /// The most tools that a request may declare.
    pub max_tools: Option<u64>,
}

/// What is assumed of a model nobody described.
impl Default for Capabilities {
    fn default() -> Self {
        Self {
            tools: true,
            streaming: true,
            vision: false,
            json_schema: true,
            reasoning: false,
            context_window: None,
            max_input: None,
            max_output: None,
            max_tools: None,
        }
    }
}

/// The largest answer that is asked for when nobody configured one.
const USUAL_OUTPUT: u64 = 32_000;

/// The same for a model of which no limit is known.
const UNKNOWN_OUTPUT: u64 = 8_192;

impl Capabilities {
    /// The limit of output tokens to send: what was configured, or a usual limit that leaves at least half of
    /// the context window for input; never above the model's own limit.
    pub fn output_tokens(&self, configured: Option<u32>) -> u32 {
        let limit = self.max_output.unwrap_or(u64::MAX);
        let wanted = configured.map_or_else(
            || {
                let usual = match self.max_output {
                    Some(_) => USUAL_OUTPUT,
                    None => UNKNOWN_OUTPUT,
                };
                let half = self.context_window.map_or(u64::MAX, |window| window / 2);
                usual.min(half)
            },
            u64::from,
        );
        u32::try_from(wanted.min(limit).max(1)).unwrap_or(u32::MAX)
    }

    /// The most tokens of input when the answer may have so many.
    pub fn input_tokens(&self, output: u32) -> Option<u64> {
        let left = self
            .context_window
            .map(|window| window.saturating_sub(output.into()));
        match (left, self.max_input) {
            (Some(left), Some(most)) => Some(left.min(most)),
            (left, most) => left.or(most),
        }
    }

    /// What a request needs that this model lacks, in words; empty when it suffices.
    pub fn lacking(&self, request: &ChatRequest) -> Vec<&'static str> {
        let mut lacking = Vec::new();
        if !request.tools.is_empty() && !self.tools {
            lacking.push("tools");
        }
        if request.has_images() && !self.vision {
            lacking.push("images");
        }
        if request.response_schema.is_some() && !self.json_schema {
            lacking.push("answers by a JSON schema");
        }
        if self
            .input_tokens(0)
            .is_some_and(|most| estimated_tokens(request, Estimate::Low) > most)
        {
            lacking.push("a context window of this size");
        }
        if self
            .max_tools
            .is_some_and(|most| request.tools.len() as u64 > most)
        {
            lacking.push("room for this number of tools");
        }
        lacking
    }
}

/// On which side of the truth an estimate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Estimate {
    /// No text of any language takes fewer than one token for eight bytes, so what exceeds a window by this count does not
    /// fit it.
    Low,
    /// Few texts take more than one token for three bytes. Images and tools are counted.
    High,
}

/// An estimate of the tokens of a request.
pub(crate) fn estimated_tokens(request: &ChatRequest, estimate: Estimate) -> u64 {
    const TOKENS_PER_IMAGE: usize = 1_500;
    use crate::message::{ChatMessage, UserPart};
    let said: usize = request
        .messages
        .iter()
        .map(|message| match message.as_ref() {
            ChatMessage::User { parts } => parts
                .iter()
                .map(|part| match part {
                    UserPart::Text(text) => text.len(),
                    UserPart::Image { .. } => 0,
                })
                .sum(),
            ChatMessage::Assistant(answer) => {
                let arguments = answer.calls.iter().map(|call| call.arguments.len());
                answer.text.len() + arguments.sum::<usize>()
            }
            ChatMessage::Tool { results } => {
                results.iter().map(|result| result.content.len()).sum()
            }
        })
        .sum();
    let system: usize = request.system.iter().map(String::len).sum();
    let tokens = match estimate {
        Estimate::Low => (said + system) / 8,
        Estimate::High => {
            let tools: usize = request
                .tools
                .iter()
                .map(|tool| tool.description.len() + tool.input_schema.to_string().len())
                .sum();
            (said + system + tools) / 3 + request.images() * TOKENS_PER_IMAGE
        }
    };
    tokens as u64
}

#[cfg(test)]
mod tests {
    use super::Capabilities;
    use crate::message::{ChatMessage, ToolDefinition, UserPart};
    use crate::request::{ChatRequest, ResponseSchema};
    use serde_json::json;

    #[test]
    fn what_a_request_needs_and_a_model_lacks_is_named() {
        let nothing = Capabilities {
            tools: false,
            json_schema: false,
            context_window: Some(100),
            ..Capabilities::default()
        };
        assert!(nothing.lacking(&ChatRequest::prompt("hi")).is_empty());
        let mut request = ChatRequest::prompt("x".repeat(900));
        request.messages.push(
            ChatMessage::User {
                parts: vec![UserPart::Image {
                    media_type: "image/png".to_owned(),
                    data: vec![1],
                }],
            }
            .into(),
        );
        request.tools = [ToolDefinition {
            name: "t".to_owned(),
            description: String::new(),
            input_schema: json!({}),
        }]
        .into();
        request.response_schema = Some(ResponseSchema {
            name: "s".to_owned(),
            schema: json!({}),
            strict: false,
        });
        assert_eq!(nothing.lacking(&request).len(), 4);
        let everything = Capabilities {
            vision: true,
            ..Capabilities::default()
        };
        assert!(everything.lacking(&request).is_empty());
    }
}
