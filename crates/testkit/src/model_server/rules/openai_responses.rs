//! Rules of OpenAI Responses.

use serde_json::Value;

use super::openai_shared::{
    Family, check_choice, check_format, check_functions, check_image, check_image_count,
    check_input, check_lengths, check_limit,
};
use super::{CheckResult, ensure, is_plain_name, known_fields, list, text};

/// "Create a model response" (platform.openai.com/docs/api-reference/responses/create).
const FIELDS: [&str; 27] = [
    "model",
    "input",
    "instructions",
    "stream",
    "stream_options",
    "store",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_tool_calls",
    "text",
    "max_output_tokens",
    "temperature",
    "top_p",
    "top_logprobs",
    "reasoning",
    "include",
    "metadata",
    "previous_response_id",
    "conversation",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "service_tier",
    "truncation",
    "background",
];

pub(super) fn check(body: &Value) -> CheckResult {
    let model = text(body, "model");
    let family = Family::of_model(model);
    known_fields(body, &FIELDS, |name| {
        format!("Unknown parameter: '{name}'.")
    })?;
    let effort = body["reasoning"]["effort"].as_str();
    family.check_reasoning(effort, body, "reasoning.effort")?;
    // "Reasoning models" (platform.openai.com/docs/guides/reasoning): other models support neither summaries nor
    // encrypted content.
    let is_plain = family == Family::Plain;
    ensure(!is_plain || body["reasoning"]["summary"].is_null(), || {
        "Unsupported parameter: 'reasoning.summary' is not supported with this model.".to_owned()
    })?;
    let wants_encrypted = list(body, "include")
        .iter()
        .any(|field| field == "reasoning.encrypted_content");
    ensure(!is_plain || !wants_encrypted, || {
        "Encrypted content is not supported with this model.".to_owned()
    })?;
    check_limit(model, body.get("max_output_tokens"))?;
    // "Create a model response", `max_output_tokens`: at least 16.
    let is_enough = body
        .get("max_output_tokens")
        .and_then(Value::as_u64)
        .is_none_or(|limit| limit >= 16);
    ensure(is_enough, || {
        "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16."
            .to_owned()
    })?;
    check_choice(body)?;
    check_image_count(body)?;
    check_lengths(body)?;
    check_input(body, body.get("max_output_tokens"))?;
    let tools = list(body, "tools");
    ensure(tools.iter().all(|tool| tool["type"] == "function"), || {
        "Invalid 'tools.type'".to_owned()
    })?;
    check_functions(&tools.iter().collect::<Vec<_>>())?;
    if let Some(format) = body["text"].get("format")
        && format["type"] == "json_schema"
    {
        check_format(format)?;
    }
    input(body)
}

fn input(body: &Value) -> CheckResult {
    if body["input"]
        .as_str()
        .is_some_and(|input| !input.is_empty())
    {
        return Ok(());
    }
    let items = list(body, "input");
    ensure(!items.is_empty(), || {
        "Missing required parameter: 'input'.".to_owned()
    })?;
    let is_stored = body["store"] != false;
    let (mut called, mut answered) = (Vec::new(), Vec::new());
    for (index, item) in items.iter().enumerate() {
        match text(item, "type") {
            "function_call" => {
                let id = text(item, "call_id");
                ensure((1..=64).contains(&id.len()), || {
                    format!(
                        "Invalid 'input[{index}].call_id': string too long. Expected a string with maximum length 64."
                    )
                })?;
                ensure(is_plain_name(text(item, "name"), 128), || {
                    format!(
                        "Invalid 'input[{index}].name': string does not match pattern '^[a-zA-Z0-9_-]+$'."
                    )
                })?;
                ensure(item["arguments"].is_string(), || {
                    format!("Missing required parameter: 'input[{index}].arguments'.")
                })?;
                called.push(id);
            }
            "function_call_output" => {
                let id = text(item, "call_id");
                ensure(called.contains(&id), || {
                    format!("No tool call found for function call output with call_id {id}.")
                })?;
                ensure(
                    item["output"].is_string() || item["output"].is_array(),
                    || format!("Missing required parameter: 'input[{index}].output'."),
                )?;
                answered.push(id);
            }
            "reasoning" => {
                // "Reasoning models", section "Keeping reasoning items in context": reasoning items are encrypted if
                // not stored, and the item that the model produced after them must still follow.
                ensure(is_stored || item["encrypted_content"].is_string(), || {
                    format!(
                        "Item '{}' not found. Items are not persisted when `store` is set to false.",
                        text(item, "id")
                    )
                })?;
                ensure(item["summary"].is_array(), || {
                    format!("Missing required parameter: 'input[{index}].summary'.")
                })?;
                let following_item = items[index + 1..]
                    .iter()
                    .find(|next| text(next, "type") != "reasoning");
                let is_followed = following_item.is_some_and(|next| {
                    text(next, "type") == "function_call" || text(next, "role") == "assistant"
                });
                ensure(is_followed, || {
                    format!(
                        "Item '{}' of type 'reasoning' was provided without its required following item.",
                        text(item, "id")
                    )
                })?;
            }
            "message" | "" => message(item, index)?,
            other => {
                return Err(format!(
                    "Invalid value: '{other}' for 'input[{index}].type'."
                ));
            }
        }
    }
    // "Function calling" (platform.openai.com/docs/guides/function-calling): every call has an output.
    for id in &called {
        ensure(answered.contains(id), || {
            format!("No tool output found for function call {id}.")
        })?;
    }
    super::ensure_distinct(called, |id| format!("Duplicate function call id {id}."))?;
    super::ensure_distinct(answered, |id| {
        format!("Duplicate output for function call {id}.")
    })
}

fn message(item: &Value, index: usize) -> CheckResult {
    let role = text(item, "role");
    ensure(
        matches!(role, "user" | "assistant" | "system" | "developer"),
        || format!("Invalid value: '{role}' for 'input[{index}].role'."),
    )?;
    let parts = list(item, "content");
    ensure(
        !parts.is_empty()
            || item["content"]
                .as_str()
                .is_some_and(|text| !text.is_empty()),
        || format!("Invalid 'input[{index}].content': empty."),
    )?;
    for part in parts {
        let kind = text(part, "type");
        let is_allowed = match role {
            "assistant" => matches!(kind, "output_text" | "refusal"),
            _ => matches!(kind, "input_text" | "input_image" | "input_file"),
        };
        ensure(is_allowed, || {
            format!("Invalid value: '{kind}' in input[{index}].content of role '{role}'.")
        })?;
        if kind == "input_image" {
            check_image(text(part, "image_url"))?;
        } else if kind.ends_with("_text") {
            ensure(!text(part, "text").is_empty(), || {
                format!("Invalid 'input[{index}].content.text': empty string.")
            })?;
        }
    }
    Ok(())
}
