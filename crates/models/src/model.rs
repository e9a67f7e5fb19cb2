//! [`Model`], the port of this crate: the interface of the models of all providers.

use futures_core::stream::BoxStream;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::error::{ErrorKind, ModelError};
use crate::event::{Completion, StreamEvent};
use crate::name::ModelName;
use crate::price::Price;
use crate::request::ChatRequest;

/// The events of one answer.
pub type EventStream = BoxStream<'static, Result<StreamEvent, ModelError>>;

/// A language model, or another source of answers with the same interface.
pub trait Model: Send + Sync {
    /// Full name of the model.
    fn name(&self) -> &ModelName;

    /// Supported features and limits.
    fn capabilities(&self) -> Capabilities;

    /// Price, `None` if unknown. For a chain of fallback models: the highest price of the chain.
    fn price(&self) -> Option<Price>;

    /// Sends a request. The stream ends after [`StreamEvent::Finished`] or after an error, whichever comes first.
    /// Dropping the stream, or cancelling, closes the connection immediately.
    fn stream(&self, request: ChatRequest, cancel: CancellationToken) -> EventStream;
}

/// Sends a request and waits for the complete answer.
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
        "the answer ended before it was complete",
    ))
}

/// Supported features and limits of a model, as far as they are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an independent feature"
)]
pub struct Capabilities {
    /// Supports tool calls.
    pub tools: bool,
    /// Supports streamed answers.
    pub streaming: bool,
    /// Accepts images.
    pub vision: bool,
    /// Supports answers constrained to a JSON schema.
    pub json_schema: bool,
    /// Reasons before it answers.
    pub reasoning: bool,
    /// Trained on the patch format: file changes are offered as `apply_patch`, otherwise as
    /// `edit_file`.
    pub apply_patch: bool,
    /// Maximum number of input and output tokens together.
    pub context_window: Option<u64>,
    /// Maximum number of input tokens, where that is less than the context window allows.
    pub max_input: Option<u64>,
    /// Maximum number of output tokens.
    pub max_output: Option<u64>,
    /// Maximum number of tools per request.
    pub max_tools: Option<u64>,
}

/// Assumptions about a model without a description.
impl Default for Capabilities {
    fn default() -> Self {
        Self {
            tools: true,
            streaming: true,
            vision: false,
            json_schema: true,
            reasoning: false,
            apply_patch: false,
            context_window: None,
            max_input: None,
            max_output: None,
            max_tools: None,
        }
    }
}

/// Default output token limit when none is configured.
const DEFAULT_OUTPUT: u64 = 32_000;

/// Default output token limit for a model whose limit is unknown.
const DEFAULT_OUTPUT_OF_UNKNOWN: u64 = 8_192;

impl Capabilities {
    /// The output token limit to send: the configured limit, or a default that leaves at least half of the context
    /// window for input; at most the limit of the model.
    pub fn output_tokens(&self, configured: Option<u32>) -> u32 {
        let limit = self.max_output.unwrap_or(u64::MAX);
        let requested = configured.map_or_else(
            || {
                let default_limit = match self.max_output {
                    Some(_) => DEFAULT_OUTPUT,
                    None => DEFAULT_OUTPUT_OF_UNKNOWN,
                };
                let half = self.context_window.map_or(u64::MAX, |window| window / 2);
                default_limit.min(half)
            },
            u64::from,
        );
        u32::try_from(requested.min(limit).max(1)).unwrap_or(u32::MAX)
    }

    /// Maximum number of input tokens when `output` tokens are reserved for the answer.
    pub fn input_tokens(&self, output: u32) -> Option<u64> {
        let remaining = self
            .context_window
            .map(|window| window.saturating_sub(output.into()));
        match (remaining, self.max_input) {
            (Some(remaining), Some(maximum)) => Some(remaining.min(maximum)),
            (remaining, maximum) => remaining.or(maximum),
        }
    }

    /// Names of the features that a request needs and this model lacks, for messages to users.
    pub fn lacking(&self, request: &ChatRequest) -> Vec<&'static str> {
        let mut lacking = Vec::new();
        if !request.tools.is_empty() && !self.tools {
            lacking.push("tools");
        }
        if request.has_images() && !self.vision {
            lacking.push("images");
        }
        if request.response_schema.is_some() && !self.json_schema {
            lacking.push("answers constrained to a JSON schema");
        }
        if self
            .input_tokens(0)
            .is_some_and(|maximum| estimated_tokens(request, Estimate::Low) > maximum)
        {
            lacking.push("a context window that is large enough");
        }
        if self
            .max_tools
            .is_some_and(|maximum| request.tools.len() as u64 > maximum)
        {
            lacking.push("support for this number of tools");
        }
        lacking
    }
}

/// Direction in which an estimate may be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Estimate {
    /// Lower bound: no text of any language uses fewer than one token per eight bytes, so a request that exceeds a
    /// window by this count certainly does not fit.
    Low,
    /// Upper bound: few texts use more than one token per three bytes. Images and tools are counted.
    High,
}

pub(crate) fn estimated_tokens(request: &ChatRequest, estimate: Estimate) -> u64 {
    const TOKENS_PER_IMAGE: usize = 1_500;
    use crate::message::{ChatMessage, UserPart};
    let text_bytes: usize = request
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
        Estimate::Low => (text_bytes + system) / 8,
        Estimate::High => {
            let tools: usize = request
                .tools
                .iter()
                .map(|tool| tool.description.len() + tool.input_schema.to_string().len())
                .sum();
            (text_bytes + system + tools) / 3 + request.images() * TOKENS_PER_IMAGE
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
    fn missing_capabilities_are_listed() {
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
