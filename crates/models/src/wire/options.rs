//! Further parameters of a request (`options` of an actor): each provider receives the parameters that it supports, in
//! its own format.

use serde_json::{Map, Value, json};

use super::{Dialect, Protocol, Target};
use crate::request::ChatRequest;

impl Target {
    /// Further parameters to send unchanged. Parameters that are translated are excluded: see [`ToolChoice`].
    pub(super) fn options<'a>(
        &self,
        request: &'a ChatRequest,
    ) -> impl Iterator<Item = (&'a str, &'a Value)> {
        let accepts_sampling = self.accepts_sampling;
        let is_openai = matches!(self.dialect, Dialect::OpenAi | Dialect::Azure);
        let protocol = self.protocol;
        let options = request.options.iter();
        options
            .map(|(name, value)| (name.as_str(), value))
            .filter(|(name, _)| {
                let reserved = [
                    "model",
                    "stream",
                    "messages",
                    "tools",
                    "tool_choice",
                    "parallel_tool_calls",
                ];
                !reserved.contains(name)
            })
            .filter(move |(name, _)| {
                accepts_sampling || !(is_sampling(name) || is_openai && is_plain_only(name))
            })
            .filter(move |(name, _)| match protocol {
                Protocol::Anthropic => !is_chat_only(name) && !is_openai_only(name),
                Protocol::OpenaiResponses => {
                    !is_chat_only(name) && !matches!(*name, "stop" | "top_k")
                }
                _ => true,
            })
    }
}

fn is_sampling(name: &str) -> bool {
    matches!(name, "temperature" | "top_p" | "top_k")
}

/// Whether OpenAI's reasoning models reject a parameter that its other models accept.
fn is_plain_only(name: &str) -> bool {
    matches!(
        name,
        "stop"
            | "presence_penalty"
            | "frequency_penalty"
            | "logprobs"
            | "top_logprobs"
            | "logit_bias"
    )
}

/// Whether only OpenAI's chat format and compatible formats support a parameter. Anthropic Messages and OpenAI
/// Responses reject requests that contain it.
fn is_chat_only(name: &str) -> bool {
    matches!(
        name,
        "seed"
            | "frequency_penalty"
            | "presence_penalty"
            | "repetition_penalty"
            | "logit_bias"
            | "logprobs"
            | "min_p"
            | "n"
            | "user"
            | "verbosity"
    )
}

/// Whether both OpenAI formats support a parameter that Anthropic Messages rejects.
fn is_openai_only(name: &str) -> bool {
    matches!(name, "top_logprobs" | "prompt_cache_key" | "store")
}

/// Maximum length of a `prompt_cache_key`.
const MAX_CACHE_KEY_LENGTH: usize = 64;

/// The key that routes requests to the same cache, for `OpenAI` itself: compatible servers may reject it.
pub(super) fn cache_key<'r>(target: &Target, request: &'r ChatRequest) -> Option<&'r str> {
    let key = request.cache_key.as_deref();
    let is_sent = request.cache
        && target.dialect == Dialect::OpenAi
        && !request.options.contains_key("prompt_cache_key");
    key.filter(|key| is_sent && key.len() <= MAX_CACHE_KEY_LENGTH)
}

/// Adds parameters to an object without replacing existing ones.
pub(super) fn add_options<'a>(
    body: &mut Value,
    options: impl Iterator<Item = (&'a str, &'a Value)>,
) {
    for (name, value) in options {
        if body.get(name).is_none() {
            body[name] = value.clone();
        }
    }
}

/// Returns at most `max_count` stop sequences as a list. The value may be a single text. `None` if the list is empty.
pub(super) fn stop_list(value: &Value, max_count: usize) -> Option<Value> {
    let texts: Vec<&Value> = match value {
        Value::Array(texts) => texts.iter().collect(),
        other => vec![other],
    };
    // Anthropic rejects whitespace alone, and an empty stop sequence is meaningless.
    let has_text = |text: &&Value| text.as_str().is_some_and(|text| !text.trim().is_empty());
    let texts: Vec<Value> = texts
        .into_iter()
        .filter(has_text)
        .take(max_count)
        .cloned()
        .collect();
    (!texts.is_empty()).then(|| texts.into())
}

/// Whether the model has to call a tool: the parameter `tool_choice`, in the format of OpenAI or of Anthropic.
#[derive(Debug, PartialEq)]
pub(super) enum ToolChoice {
    Auto,
    None,
    Required,
    Tool(String),
    /// A value that only OpenAI supports.
    Other(Value),
}

impl ToolChoice {
    /// Returns the choice of a request with tools. Without tools, providers reject a choice.
    pub(super) fn from_request(request: &ChatRequest) -> Option<Self> {
        let given = request.options.get("tool_choice")?;
        (!request.tools.is_empty()).then(|| Self::read(given))
    }

    fn read(given: &Value) -> Self {
        let kind = given.as_str().or_else(|| given["type"].as_str());
        let name = given["name"]
            .as_str()
            .or_else(|| given["function"]["name"].as_str());
        match (kind, name) {
            (Some("auto"), _) => Self::Auto,
            (Some("none"), _) => Self::None,
            (Some("required" | "any"), _) => Self::Required,
            (Some("tool" | "function"), Some(name)) => Self::Tool(name.to_owned()),
            _ => Self::Other(given.clone()),
        }
    }

    /// Replaces the name of a tool by the name that is sent to the provider.
    pub(super) fn name_as_sent(
        options: &mut Map<String, Value>,
        sent: impl FnOnce(&str) -> String,
    ) {
        if let Some(given) = options.get_mut("tool_choice")
            && let Self::Tool(name) = Self::read(given)
        {
            *given = json!({"type": "tool", "name": sent(&name)});
        }
    }

    fn is_forced(&self) -> bool {
        matches!(self, Self::Required | Self::Tool(_))
    }

    pub(super) fn for_chat(self) -> Value {
        match self {
            Self::Auto => "auto".into(),
            Self::None => "none".into(),
            Self::Required => "required".into(),
            Self::Tool(name) => json!({"type": "function", "function": {"name": name}}),
            Self::Other(given) => given,
        }
    }

    pub(super) fn for_responses(self) -> Value {
        match self {
            Self::Tool(name) => json!({"type": "function", "name": name}),
            other => other.for_chat(),
        }
    }

    /// Converts to Anthropic's format. `None` for values that it does not support, and for a forced call together with
    /// reasoning.
    pub(super) fn for_anthropic(self, is_thinking: bool) -> Option<Value> {
        if is_thinking && self.is_forced() {
            return None;
        }
        Some(match self {
            Self::Auto => json!({"type": "auto"}),
            Self::None => json!({"type": "none"}),
            Self::Required => json!({"type": "any"}),
            Self::Tool(name) => json!({"type": "tool", "name": name}),
            Self::Other(_) => return None,
        })
    }

    pub(super) fn for_gemini(self) -> Option<Value> {
        let config = match self {
            Self::Auto => json!({"mode": "AUTO"}),
            Self::None => json!({"mode": "NONE"}),
            Self::Required => json!({"mode": "ANY"}),
            Self::Tool(name) => json!({"mode": "ANY", "allowedFunctionNames": [name]}),
            Self::Other(_) => return None,
        };
        Some(json!({"functionCallingConfig": config}))
    }
}

/// `parallel_tool_calls`, of a request with tools.
pub(super) fn parallel_calls(request: &ChatRequest) -> Option<bool> {
    let given = request.options.get("parallel_tool_calls")?.as_bool();
    given.filter(|_| !request.tools.is_empty())
}
