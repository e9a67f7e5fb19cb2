//! Rules of OpenAI Chat Completions, and additional ones of Mistral and DeepSeek.

use serde_json::Value;

use super::openai_shared::{
    Family, check_choice, check_format, check_functions, check_image, check_image_count,
    check_input, check_lengths, check_limit, is_at_least,
};
use super::{CheckResult, ensure, is_plain_name, known_fields, list, text};

/// "Create chat completion" (platform.openai.com/docs/api-reference/chat/create).
const FIELDS: [&str; 32] = [
    "model",
    "messages",
    "stream",
    "stream_options",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "reasoning_effort",
    "verbosity",
    "n",
    "stop",
    "seed",
    "user",
    "metadata",
    "store",
    "service_tier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "logprobs",
    "top_logprobs",
    "logit_bias",
    "presence_penalty",
    "frequency_penalty",
    "modalities",
    "prediction",
    "audio",
];

pub(super) fn is_mistral(model: &str) -> bool {
    [
        "mistral",
        "ministral",
        "codestral",
        "magistral",
        "devstral",
        "pixtral",
    ]
    .iter()
    .any(|begin| model.starts_with(begin))
}

pub(super) fn check(body: &Value) -> CheckResult {
    let model = text(body, "model");
    let family = Family::of_model(model);
    if family.is_openai() {
        known_fields(body, &FIELDS, |name| {
            format!("Unrecognized request argument supplied: {name}")
        })?;
        // "Reasoning models": `max_tokens` is not accepted.
        ensure(
            !family.reasons() || body.get("max_tokens").is_none(),
            || {
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.".to_owned()
            },
        )?;
    }
    family.check_reasoning(
        body.get("reasoning_effort").and_then(Value::as_str),
        body,
        "reasoning_effort",
    )?;
    let limits = ["max_tokens", "max_completion_tokens"].map(|limit| body.get(limit));
    for limit in limits {
        check_limit(model, limit)?;
    }
    check_choice(body)?;
    check_image_count(body)?;
    check_lengths(body)?;
    check_input(body, limits.into_iter().flatten().next())?;
    tools_with_reasoning(body, model)?;
    // "Create chat completion", `stop`: at most four.
    ensure(list(body, "stop").len() <= 4, || {
        "Invalid 'stop': array too long. Expected an array with maximum length 4.".to_owned()
    })?;
    // "Create chat completion", `stream_options`: only with `stream`.
    ensure(
        body.get("stream_options").is_none() || body["stream"] == true,
        || "The 'stream_options' parameter is only allowed when 'stream' is enabled.".to_owned(),
    )?;
    let tools = list(body, "tools");
    ensure(body.get("tools").is_none() || !tools.is_empty(), || {
        "Invalid 'tools': empty array. Expected an array with minimum length 1.".to_owned()
    })?;
    ensure(tools.iter().all(|tool| tool["type"] == "function"), || {
        "Invalid 'tools.type'".to_owned()
    })?;
    let functions: Vec<&Value> = tools.iter().map(|tool| &tool["function"]).collect();
    check_functions(&functions)?;
    for function in functions.iter().filter(|_| family.is_openai()) {
        // Refusal in getsentry/sentry-mcp issue 106.
        let length = text(function, "description").chars().count();
        ensure(length <= 1024, || {
            format!(
                "Invalid 'tools.function.description': string too long. Expected a string with maximum length 1024, but got a string with length {length} instead."
            )
        })?;
    }
    if let Some(format) = body.get("response_format") {
        // "JSON Output" (api-docs.deepseek.com/guides/json_mode): only `text` and `json_object`.
        ensure(
            !model.starts_with("deepseek") || format["type"] != "json_schema",
            || "This response_format type is unavailable now".to_owned(),
        )?;
        if format["type"] == "json_schema" {
            check_format(&format["json_schema"])?;
        }
    }
    messages(body, model)?;
    if is_mistral(model) {
        mistral(body)?;
    }
    Ok(())
}

/// Refusals in openai/openai-openapi issue 541 and livekit/agents pull requests 5088 and 7169: from `gpt-5.2` on,
/// function tools are refused with an effort other than `none`; from `gpt-5.6` on, also without an effort.
fn tools_with_reasoning(body: &Value, model: &str) -> CheckResult {
    let effort = body.get("reasoning_effort").and_then(Value::as_str);
    let is_refused = match effort {
        Some("none") => false,
        Some(_) => is_at_least(model, 2),
        None => is_at_least(model, 6),
    };
    ensure(!is_refused || list(body, "tools").is_empty(), || {
        format!(
            "Function tools with reasoning_effort are not supported for {model} in /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'."
        )
    })
}

fn messages(body: &Value, model: &str) -> CheckResult {
    let messages = list(body, "messages");
    ensure(!messages.is_empty(), || {
        "Invalid 'messages': empty array.".to_owned()
    })?;
    let mut open: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let role = text(message, "role");
        if role == "tool" {
            let id = text(message, "tool_call_id");
            // "Create chat completion", tool messages: each answers a call of an earlier message.
            ensure(open.contains(&id), || {
                format!(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'. ({id})"
                )
            })?;
            open.retain(|known| *known != id);
            ensure(
                message["content"].is_string() || message["content"].is_array(),
                || {
                    format!(
                        "Invalid value for 'content' of messages[{index}]: expected a string, got null."
                    )
                },
            )?;
            continue;
        }
        ensure(open.is_empty(), || {
            format!(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: {}",
                open.join(", ")
            )
        })?;
        match role {
            "system" | "developer" | "user" => content(message, index)?,
            "assistant" => {
                let calls = list(message, "tool_calls");
                ensure(
                    message.get("tool_calls").is_none() || !calls.is_empty(),
                    || {
                        format!(
                            "Invalid 'messages[{index}].tool_calls': empty array. Expected an array with minimum length 1."
                        )
                    },
                )?;
                ensure(message["content"].is_string() || !calls.is_empty(), || {
                    format!(
                        "Invalid value for 'content' of messages[{index}]: expected a string, got null."
                    )
                })?;
                // Refusal in openai/openai-dotnet issue 317.
                ensure(calls.len() <= 128, || {
                    format!(
                        "Invalid 'messages[{index}].tool_calls': array too long. Expected an array with maximum length 128, but got an array with length {} instead.",
                        calls.len()
                    )
                })?;
                for call in calls {
                    self::call(call, index)?;
                }
                open = calls.iter().map(|call| text(call, "id")).collect();
                super::ensure_distinct(open.iter().copied(), |id| {
                    format!("Duplicate tool call id {id}")
                })?;
                // "Thinking mode" (api-docs.deepseek.com/guides/thinking_mode): a message with calls must include its
                // reasoning.
                ensure(
                    model != "deepseek-reasoner"
                        || calls.is_empty()
                        || message["reasoning_content"].is_string(),
                    || {
                        format!(
                            "Missing `reasoning_content` field in the assistant message at message index {index}"
                        )
                    },
                )?;
            }
            other => {
                return Err(format!(
                    "Invalid value: '{other}'. Supported values are: 'system', 'assistant', 'user', 'tool' and 'developer'."
                ));
            }
        }
    }
    ensure(open.is_empty(), || {
        format!(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: {}",
            open.join(", ")
        )
    })
}

fn content(message: &Value, index: usize) -> CheckResult {
    let parts = list(message, "content");
    ensure(message["content"].is_string() || !parts.is_empty(), || {
        format!(
            "Invalid value for 'content' of messages[{index}]: expected a string or a non-empty array"
        )
    })?;
    for part in parts {
        match text(part, "type") {
            "text" => ensure(!text(part, "text").is_empty(), || {
                format!("Invalid 'messages[{index}].content.text': empty string.")
            })?,
            "image_url" => check_image(text(&part["image_url"], "url"))?,
            other => {
                return Err(format!(
                    "Invalid value: '{other}' in messages[{index}].content"
                ));
            }
        }
    }
    Ok(())
}

/// "Create chat completion", `tool_calls` of assistant messages; ids of at most 40 characters (langchain-ai/langchain
/// issue 29408 shows the refusal).
fn call(call: &Value, index: usize) -> CheckResult {
    let id = text(call, "id");
    ensure((1..=40).contains(&id.len()), || {
        format!(
            "Invalid 'messages[{index}].tool_calls.id': string too long. Expected a string with maximum length 40, but got a string with length {} instead.",
            id.len()
        )
    })?;
    let function = &call["function"];
    ensure(is_plain_name(text(function, "name"), 64), || {
        format!(
            "Invalid 'messages[{index}].tool_calls.function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
        )
    })?;
    ensure(function["arguments"].is_string(), || {
        format!(
            "Invalid type for 'messages[{index}].tool_calls.function.arguments': expected a string"
        )
    })
}

/// "Function calling" and "Chat completion" (docs.mistral.ai/api/endpoint/chat): ids of nine letters or digits, a fixed
/// order of roles, and no unknown fields.
fn mistral(body: &Value) -> CheckResult {
    ensure(body.get("stream_options").is_none(), || {
        "stream_options: Extra inputs are not permitted".to_owned()
    })?;
    let messages = list(body, "messages");
    for message in messages {
        let called = list(message, "tool_calls")
            .iter()
            .map(|call| text(call, "id"));
        let answered = message.get("tool_call_id").and_then(Value::as_str);
        for id in called.chain(answered) {
            ensure(
                id.len() == 9 && id.chars().all(|letter| letter.is_ascii_alphanumeric()),
                || format!("Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9."),
            )?;
        }
    }
    for pair in messages.windows(2) {
        ensure(
            !(pair[0]["role"] == "tool" && pair[1]["role"] == "user"),
            || "Unexpected role 'user' after role 'tool'".to_owned(),
        )?;
    }
    let last = messages.last().map_or("", |last| text(last, "role"));
    ensure(matches!(last, "user" | "tool"), || {
        format!(
            "Expected last role User or Tool (or Assistant with prefix True) for serving but got {last}"
        )
    })
}
