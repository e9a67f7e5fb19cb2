//! Rules of Anthropic Messages.

use serde_json::Value;

use super::super::ReceivedRequest;
use super::{
    CheckResult, ensure, ensure_distinct, image, is_plain_name, known_fields, list, schema, size,
    text,
};

/// "Create a Message" (docs.claude.com/en/api/messages): all other fields are rejected as extra inputs.
const FIELDS: [&str; 21] = [
    "model",
    "messages",
    "max_tokens",
    "system",
    "tools",
    "tool_choice",
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "stop_sequences",
    "metadata",
    "thinking",
    "output_config",
    "service_tier",
    "container",
    "context_management",
    "mcp_servers",
    "cache_control",
    "inference_geo",
    "speed",
];

/// "Vision" (docs.claude.com/en/docs/build-with-claude/vision).
const IMAGE_TYPES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];
const MAX_IMAGE_BYTES: usize = 5 * 1024 * 1024;
const MAX_SIDE: u32 = 8000;
/// "Vision": the maximum number of images for which `MAX_SIDE` applies; with more images, `MAX_SIDE_OF_MANY` applies.
const MANY_IMAGES: usize = 20;
const MAX_SIDE_OF_MANY: u32 = 2000;

/// "Structured outputs", section "JSON Schema limitations" (docs.claude.com/en/docs/build-with-claude/structured-outputs).
const ANSWER_KEYWORDS: [&str; 14] = [
    "type",
    "description",
    "title",
    "enum",
    "const",
    "anyOf",
    "allOf",
    "$ref",
    "$defs",
    "definitions",
    "default",
    "required",
    "properties",
    "items",
];

/// Major and minor version of a model such as `claude-sonnet-4-5`. A date after the first number is not a minor
/// version.
fn generation(model: &str) -> Option<(u64, u64)> {
    let numbers: Vec<u64> = model
        .strip_prefix("claude-")?
        .split('-')
        .filter_map(|part| part.parse().ok())
        .filter(|number| *number < 1000)
        .collect();
    Some((*numbers.first()?, numbers.get(1).copied().unwrap_or(0)))
}

/// "Models overview" (docs.claude.com/en/docs/about-claude/models/overview), row "Max output".
fn max_output(model: &str) -> Option<u64> {
    let opus = model.contains("opus");
    Some(match generation(model)? {
        (3, 0) => 4096,
        (3, 5) => 8192,
        (4, 0 | 1) if opus => 32_000,
        (4, 0..=5) => 64_000,
        _ => 128_000,
    })
}

/// "Context windows" (docs.claude.com/en/docs/build-with-claude/context-windows).
fn context_window(model: &str) -> u64 {
    match generation(model) {
        Some(found) if found >= (4, 6) => 1_000_000,
        _ => 200_000,
    }
}

/// "Context windows", section "Context window management with newer Claude models": input above the window is refused.
/// Before 4.5, input that leaves less than `max_tokens` is refused too (continuedev/continue issue 6080 shows this
/// refusal); later models stop with `model_context_window_exceeded` instead.
fn input(body: &Value, model: &str, limit: u64) -> CheckResult {
    let (tokens, window) = (size::tokens(body), context_window(model));
    ensure(tokens <= window, || {
        format!("prompt is too long: {tokens} tokens > {window} maximum")
    })?;
    let is_checked = generation(model).is_some_and(|found| ((3, 7)..(4, 5)).contains(&found));
    ensure(!is_checked || tokens + limit <= window, || {
        format!(
            "input length and `max_tokens` exceed context limit: {tokens} + {limit} > {window}, decrease input length or `max_tokens` and try again"
        )
    })
}

/// "Vision": at most 600 images per request, 100 for models with a window of 200,000 tokens; a smaller maximum side
/// length in requests with more than 20. anthropics/claude-code issue 49537 shows the refusal of large images among
/// many.
fn images(body: &Value, model: &str) -> CheckResult {
    let maximum = if context_window(model) > 200_000 {
        600
    } else {
        100
    };
    size::ensure_images(body, maximum, |found| {
        format!("Too much media: 0 document pages + {found} images > {maximum}")
    })?;
    if size::images(body) <= MANY_IMAGES {
        return Ok(());
    }
    let mut all = Vec::new();
    find_images(&body["messages"], &mut all);
    for block in all {
        let (width, height) = image::png_size(text(&block["source"], "data")).unwrap_or_default();
        ensure(width.max(height) <= MAX_SIDE_OF_MANY, || {
            "image.source.base64.data: At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels".to_owned()
        })?;
    }
    Ok(())
}

fn find_images<'a>(value: &'a Value, found: &mut Vec<&'a Value>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| find_images(item, found)),
        Value::Object(_) if text(value, "type") == "image" => found.push(value),
        Value::Object(fields) => fields.values().for_each(|inner| find_images(inner, found)),
        _ => {}
    }
}

/// "Define tools", section "Controlling Claude's output"
/// (docs.claude.com/en/docs/agents-and-tools/tool-use/define-tools): one of four types, only with tools. "Extended
/// thinking", section "Extended thinking with tool use": only `auto` and `none` with thinking (can1357/oh-my-pi issue
/// 341 shows the refusal).
fn tool_choice(body: &Value) -> CheckResult {
    let Some(choice) = body.get("tool_choice") else {
        return Ok(());
    };
    let kind = text(choice, "type");
    ensure(matches!(kind, "auto" | "any" | "tool" | "none"), || {
        "tool_choice: Input should be a valid dictionary with the type auto, any, tool or none"
            .to_owned()
    })?;
    let tools = list(body, "tools");
    ensure(!tools.is_empty(), || {
        format!("tool_choice.{kind}: may only be specified while providing tools")
    })?;
    let is_forced = matches!(kind, "any" | "tool");
    ensure(!is_forced || !is_thinking(body), || {
        "Thinking may not be enabled when tool_choice forces tool use.".to_owned()
    })?;
    let name = text(choice, "name");
    let is_known = tools.iter().any(|tool| text(tool, "name") == name);
    ensure(kind != "tool" || is_known, || {
        format!("Tool '{name}' not found in provided tools")
    })
}

/// "Create a Message", `stop_sequences`; BerriAI/litellm issue 3286 shows the refusal.
fn stop_sequences(body: &Value) -> CheckResult {
    let Some(stop) = body.get("stop_sequences") else {
        return Ok(());
    };
    ensure(stop.is_array(), || {
        "stop_sequences: Input should be a valid list".to_owned()
    })?;
    for sequence in list(body, "stop_sequences") {
        let has_text = sequence
            .as_str()
            .is_some_and(|text| !text.trim().is_empty());
        ensure(has_text, || {
            "stop_sequences: each stop sequence must contain non-whitespace".to_owned()
        })?;
    }
    Ok(())
}

pub(super) fn check(request: &ReceivedRequest, body: &Value) -> CheckResult {
    // "Versions" (docs.claude.com/en/api/versioning).
    ensure(request.header("anthropic-version").is_some(), || {
        "anthropic-version: header is required".to_owned()
    })?;
    known_fields(body, &FIELDS, |name| {
        format!("{name}: Extra inputs are not permitted")
    })?;
    let model = text(body, "model");
    ensure(!model.is_empty(), || "model: Field required".to_owned())?;
    // "Create a Message": `max_tokens` is mandatory and at least 1.
    let limit = body["max_tokens"].as_u64().filter(|limit| *limit > 0);
    let limit = limit.ok_or("max_tokens: Field required")?;
    if let Some(maximum) = max_output(model) {
        ensure(limit <= maximum, || {
            format!(
                "max_tokens: {limit} > {maximum}, which is the maximum allowed number of output tokens for {model}"
            )
        })?;
    }
    sampling(body, model)?;
    thinking(body, model, limit)?;
    output_config(body, model)?;
    tools(body)?;
    tool_choice(body)?;
    stop_sequences(body)?;
    cache_breakpoints(body)?;
    system(body)?;
    conversation(body, model)?;
    images(body, model)?;
    input(body, model, limit)
}

/// "Create a Message": `temperature` is between 0 and 1. "Extended thinking", section "Feature compatibility"
/// (docs.claude.com/en/docs/build-with-claude/extended-thinking): not together with thinking. "Migrating to Claude 4.5"
/// (docs.claude.com/en/docs/about-claude/models/migrating-to-claude-4): not both `temperature` and `top_p`. "What's new
/// in Claude Opus 4.7": no sampling parameters.
fn sampling(body: &Value, model: &str) -> CheckResult {
    let has = |name: &str| body.get(name).is_some_and(|value| !value.is_null());
    if has("temperature") {
        let temperature = body["temperature"].as_f64().unwrap_or(-1.0);
        ensure((0.0..=1.0).contains(&temperature), || {
            "temperature: range: 0..1".to_owned()
        })?;
        ensure(!is_thinking(body) || temperature >= 1.0, || {
            "`temperature` may only be set to 1 when thinking is enabled".to_owned()
        })?;
        ensure(
            !has("top_p") || generation(model).is_none_or(|found| found < (4, 5)),
            || "`temperature` and `top_p` cannot both be specified for this model".to_owned(),
        )?;
    }
    ensure(!has("top_k") || !is_thinking(body), || {
        "`top_k` must be unset when thinking is enabled".to_owned()
    })?;
    let top_p = body.get("top_p").and_then(Value::as_f64);
    ensure(
        !is_thinking(body) || top_p.is_none_or(|top_p| (0.95..=1.0).contains(&top_p)),
        || "`top_p` must be greater than or equal to 0.95 when thinking is enabled".to_owned(),
    )?;
    let forbids_sampling = generation(model)
        .is_some_and(|found| found >= (5, 0) || found >= (4, 7) && model.contains("opus"));
    ensure(
        !forbids_sampling || !(has("temperature") || has("top_p") || has("top_k")),
        || "sampling parameters are not supported by this model".to_owned(),
    )
}

fn is_thinking(body: &Value) -> bool {
    matches!(text(&body["thinking"], "type"), "enabled" | "adaptive")
}

/// "Extended thinking": the budget is at least 1024 and less than `max_tokens`. "Adaptive thinking"
/// (docs.claude.com/en/docs/build-with-claude/adaptive-thinking): from 4.6 on.
fn thinking(body: &Value, model: &str, limit: u64) -> CheckResult {
    let Some(thinking) = body.get("thinking") else {
        return Ok(());
    };
    let found = generation(model);
    match text(thinking, "type") {
        "disabled" => Ok(()),
        "adaptive" => ensure(found.is_none_or(|found| found >= (4, 6)), || {
            "adaptive thinking is not supported on this model".to_owned()
        }),
        "enabled" => {
            let budget = thinking["budget_tokens"].as_u64().unwrap_or(0);
            ensure(budget >= 1024, || {
                "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
                    .to_owned()
            })?;
            ensure(budget < limit, || {
                "`max_tokens` must be greater than `thinking.budget_tokens`".to_owned()
            })?;
            ensure(found.is_none_or(|found| found >= (3, 7)), || {
                format!("'{model}' does not support thinking")
            })?;
            // "Adaptive thinking": the only type from 4.7 on (earendil-works/pi issue 3297 shows the refusal).
            ensure(found.is_none_or(|found| found < (4, 7)), || {
                "\"thinking.type.enabled\" is not supported for this model. Use \"thinking.type.adaptive\" and \"output_config.effort\" to control thinking behavior.".to_owned()
            })
        }
        other => Err(format!(
            "thinking.type: '{other}' is not one of enabled, disabled, adaptive"
        )),
    }
}

/// "Structured outputs" and "Effort" (docs.claude.com/en/docs/build-with-claude/effort).
fn output_config(body: &Value, model: &str) -> CheckResult {
    let Some(config) = body.get("output_config") else {
        return Ok(());
    };
    known_fields(config, &["format", "effort", "task_budget"], |name| {
        format!("output_config.{name}: Extra inputs are not permitted")
    })?;
    let found = generation(model);
    if config.get("effort").is_some() {
        ensure(
            matches!(
                text(config, "effort"),
                "low" | "medium" | "high" | "xhigh" | "max"
            ),
            || "output_config.effort: Input should be 'low', 'medium', 'high' or 'max'".to_owned(),
        )?;
        ensure(
            found.is_none_or(|found| found >= (4, 6) || found == (4, 5) && model.contains("opus")),
            || "This model does not support the effort parameter.".to_owned(),
        )?;
    }
    let Some(format) = config.get("format") else {
        return Ok(());
    };
    ensure(found.is_none_or(|found| found >= (4, 5)), || {
        format!("'{model}' does not support output format")
    })?;
    ensure(text(format, "type") == "json_schema", || {
        "output_config.format.type: Input should be 'json_schema'".to_owned()
    })?;
    let answer = &format["schema"];
    schema::is_valid(answer).map_err(|reason| format!("output_config.format.schema: {reason}"))?;
    let (mut optional, mut unions) = (0, 0);
    schema::each(answer, &mut |node| {
        let kind = text(node, "type");
        for name in node
            .as_object()
            .into_iter()
            .flat_map(|fields| fields.keys())
        {
            let is_known = ANSWER_KEYWORDS.contains(&name.as_str())
                || name == "additionalProperties"
                || name == "minItems" && node["minItems"].as_u64().is_some_and(|least| least <= 1)
                || name == "format";
            ensure(is_known, || {
                format!(
                    "output_config.format.schema: For '{kind}' type, property '{name}' is not supported"
                )
            })?;
        }
        if schema::is_of(node, "object") {
            ensure(node["additionalProperties"] == false, || {
                "output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set to false"
                    .to_owned()
            })?;
            let required = list(node, "required");
            let names = node["properties"]
                .as_object()
                .into_iter()
                .flat_map(|all| all.keys());
            optional += names
                .filter(|name| !required.contains(&Value::from(name.as_str())))
                .count();
        }
        unions += usize::from(node.get("anyOf").is_some() || node["type"].is_array());
        Ok(())
    })?;
    // Section "Schema complexity limits".
    ensure(optional <= 24 && unions <= 16, || {
        "Schema is too complex: too many optional parameters or union types".to_owned()
    })
}

/// "Implement tool use" (docs.claude.com/en/docs/agents-and-tools/tool-use/implement-tool-use): names, schemas.
fn tools(body: &Value) -> CheckResult {
    let tools = list(body, "tools");
    for (index, tool) in tools.iter().enumerate() {
        known_fields(
            tool,
            &[
                "name",
                "description",
                "input_schema",
                "cache_control",
                "type",
                "strict",
                "input_examples",
            ],
            |name| format!("tools.{index}.custom.{name}: Extra inputs are not permitted"),
        )?;
        ensure(is_plain_name(text(tool, "name"), 128), || {
            format!(
                "tools.{index}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
            )
        })?;
        let input = &tool["input_schema"];
        ensure(input["type"] == "object", || {
            format!("tools.{index}.custom.input_schema.type: Input should be 'object'")
        })?;
        for union in ["oneOf", "allOf", "anyOf"] {
            ensure(input.get(union).is_none(), || {
                format!(
                    "tools.{index}.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"
                )
            })?;
        }
        schema::is_valid(input).map_err(|reason| {
            format!("tools.{index}.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12: {reason}")
        })?;
        for name in input["properties"]
            .as_object()
            .into_iter()
            .flat_map(|all| all.keys())
        {
            let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_.-".contains(letter);
            ensure(
                (1..=64).contains(&name.len()) && name.chars().all(is_plain),
                || {
                    format!(
                        "tools.{index}.custom.input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{{1,64}}$'"
                    )
                },
            )?;
        }
    }
    ensure_distinct(tools.iter().map(|tool| text(tool, "name")), |_| {
        "tools: Tool names must be unique.".to_owned()
    })
}

/// "Prompt caching" (docs.claude.com/en/docs/build-with-claude/prompt-caching): at most four breakpoints of type
/// `ephemeral`, not on thinking blocks or empty texts; breakpoints with a TTL of an hour come before those of five
/// minutes.
fn cache_breakpoints(body: &Value) -> CheckResult {
    let mut marked: Vec<&Value> = Vec::new();
    let blocks = list(body, "messages")
        .iter()
        .flat_map(|message| list(message, "content"))
        .flat_map(|block| std::iter::once(block).chain(list(block, "content")));
    for block in list(body, "tools")
        .iter()
        .chain(list(body, "system"))
        .chain(blocks)
    {
        if block.get("cache_control").is_some() {
            marked.push(block);
        }
    }
    ensure(marked.len() <= 4, || {
        format!(
            "A maximum of 4 blocks with cache_control may be provided. Found {}.",
            marked.len()
        )
    })?;
    let mut is_short_before = false;
    for block in marked {
        let time = block["cache_control"]["ttl"].as_str().unwrap_or("5m");
        ensure(matches!(time, "5m" | "1h"), || {
            "cache_control.ttl: Input should be '5m' or '1h'".to_owned()
        })?;
        ensure(time == "5m" || !is_short_before, || {
            "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"
                .to_owned()
        })?;
        is_short_before |= time == "5m";
        ensure(block["cache_control"]["type"] == "ephemeral", || {
            "cache_control.type: Input should be 'ephemeral'".to_owned()
        })?;
        ensure(!text(block, "type").ends_with("thinking"), || {
            "cache_control cannot be set for thinking blocks".to_owned()
        })?;
    }
    Ok(())
}

fn system(body: &Value) -> CheckResult {
    for block in list(body, "system") {
        ensure(!text(block, "text").trim().is_empty(), || {
            "system: text content blocks must be non-empty".to_owned()
        })?;
    }
    Ok(())
}

/// "Create a Message", field `messages`; "Handle tool use" (docs.claude.com/en/docs/agents-and-tools/tool-use/
/// handle-tool-calls) for pairs of calls and results.
fn conversation(body: &Value, model: &str) -> CheckResult {
    let messages = list(body, "messages");
    ensure(!messages.is_empty(), || {
        "messages: at least one message is required".to_owned()
    })?;
    ensure(messages[0]["role"] == "user", || {
        "messages: first message must use the \"user\" role".to_owned()
    })?;
    let mut open: Vec<&str> = Vec::new();
    let mut ids = Vec::new();
    let mut has_tool_blocks = false;
    for (index, message) in messages.iter().enumerate() {
        let role = text(message, "role");
        ensure(matches!(role, "user" | "assistant"), || {
            format!("messages.{index}.role: Input should be 'user' or 'assistant'")
        })?;
        if let Some(reported) = message["content"].as_str() {
            ensure(!reported.trim().is_empty(), || {
                format!("messages.{index}: all messages must have non-empty content")
            })?;
        }
        let blocks = list(message, "content");
        ensure(!blocks.is_empty() || message["content"].is_string(), || {
            format!("messages.{index}: all messages must have non-empty content")
        })?;
        let mut answered = Vec::new();
        for (place, block) in blocks.iter().enumerate() {
            let location = format!("messages.{index}.content.{place}");
            self::block(block, role, &location)?;
            match text(block, "type") {
                "tool_result" => {
                    has_tool_blocks = true;
                    ensure(place == answered.len(), || {
                        format!("{location}: `tool_result` blocks must come first in the content")
                    })?;
                    answered.push(text(block, "tool_use_id"));
                }
                "tool_use" => {
                    has_tool_blocks = true;
                    ids.push(text(block, "id"));
                }
                _ => {}
            }
        }
        for id in &answered {
            ensure(open.contains(id), || {
                format!(
                    "messages.{index}: unexpected `tool_use_id` found in `tool_result` blocks: {id}"
                )
            })?;
        }
        ensure_distinct(answered.iter().copied(), |id| {
            format!(
                "messages.{index}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}"
            )
        })?;
        for id in &open {
            ensure(answered.contains(id), || {
                format!(
                    "messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: {id}"
                )
            })?;
        }
        open.clear();
        if role == "assistant" {
            assistant_order(blocks, index)?;
            open.extend(
                blocks
                    .iter()
                    .filter(|block| block["type"] == "tool_use")
                    .map(|block| text(block, "id")),
            );
        }
    }
    ensure(open.is_empty(), || {
        format!(
            "messages: `tool_use` ids were found without `tool_result` blocks immediately after: {open:?}"
        )
    })?;
    ensure_distinct(ids, |id| {
        format!("messages: `tool_use` ids must be unique: {id}")
    })?;
    // "Tool use": requests with tool blocks in their messages must define tools.
    ensure(!has_tool_blocks || !list(body, "tools").is_empty(), || {
        "Requests which have `tool_use` or `tool_result` blocks in messages must define tools"
            .to_owned()
    })?;
    last_answer(body, messages, model)
}

/// "Extended thinking", section "Preserving thinking blocks": thinking comes first, and no text follows tool calls.
fn assistant_order(blocks: &[Value], index: usize) -> CheckResult {
    let is_thought = |block: &Value| text(block, "type").ends_with("thinking");
    if blocks.iter().any(is_thought) {
        ensure(blocks.first().is_some_and(is_thought), || {
            format!(
                "messages.{index}.content.0: If an assistant message contains any thinking blocks, the first block must be `thinking` or `redacted_thinking`"
            )
        })?;
    }
    ensure(!blocks.last().is_some_and(is_thought), || {
        format!("messages.{index}: The final block in an assistant message cannot be `thinking`.")
    })?;
    let first_call = blocks.iter().position(|block| block["type"] == "tool_use");
    let has_text_after_call =
        first_call.is_some_and(|first| blocks[first..].iter().any(|block| block["type"] == "text"));
    ensure(!has_text_after_call, || {
        format!(
            "messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after (text behind `tool_use`)"
        )
    })
}

/// "Extended thinking", section "Toggling thinking modes in conversations"; "Prefill Claude's response"
/// (docs.claude.com/en/docs/build-with-claude/prompt-engineering/prefill-claudes-response): not with thinking, and not
/// from 4.6 on.
fn last_answer(body: &Value, messages: &[Value], model: &str) -> CheckResult {
    let ends_with_answer = messages
        .last()
        .is_some_and(|last| last["role"] == "assistant");
    let refuses_prefill =
        is_thinking(body) || generation(model).is_some_and(|found| found >= (4, 6));
    ensure(!ends_with_answer || !refuses_prefill, || {
        "This model does not support assistant message prefill. The conversation must end with a user message.".to_owned()
    })?;
    // "Prefill Claude's response": no whitespace at the end.
    let last = messages.last().filter(|_| ends_with_answer);
    let reported = last.and_then(|last| {
        let block = list(last, "content").last();
        last["content"]
            .as_str()
            .or_else(|| block?.get("text")?.as_str())
    });
    ensure(
        reported.is_none_or(|reported| reported.trim_end() == reported),
        || "messages: final assistant content cannot end with trailing whitespace".to_owned(),
    )?;
    if text(&body["thinking"], "type") != "enabled" {
        return Ok(());
    }
    for (index, message) in messages.iter().enumerate().rev() {
        let blocks = list(message, "content");
        if message["role"] == "user" {
            let is_question = message["content"].is_string()
                || blocks.iter().all(|block| block["type"] != "tool_result");
            if is_question {
                break;
            }
            continue;
        }
        ensure(
            blocks
                .first()
                .is_some_and(|first| text(first, "type").ends_with("thinking")),
            || {
                format!(
                    "messages.{index}.content.0.type: Expected `thinking` or `redacted_thinking`. When `thinking` is enabled, a final `assistant` message must start with a thinking block"
                )
            },
        )?;
    }
    Ok(())
}

fn block(block: &Value, role: &str, location: &str) -> CheckResult {
    let only = |expected_role: &str| {
        ensure(role == expected_role, || {
            format!(
                "{location}: `{}` blocks can only be in `{expected_role}` messages",
                text(block, "type")
            )
        })
    };
    match text(block, "type") {
        "text" => ensure(!text(block, "text").trim().is_empty(), || {
            format!("{location}: text content blocks must contain non-whitespace text")
        }),
        "image" => {
            only("user")?;
            picture(block, location)
        }
        "tool_use" => {
            only("assistant")?;
            ensure(is_plain_name(text(block, "id"), usize::MAX), || {
                format!("{location}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
            })?;
            ensure(is_plain_name(text(block, "name"), 200), || {
                format!(
                    "{location}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,200}}$'"
                )
            })?;
            ensure(block["input"].is_object(), || {
                format!("{location}.tool_use.input: Input should be a valid dictionary")
            })
        }
        "tool_result" => {
            only("user")?;
            // vellum-ai/vellum-assistant pull request 18387 and UKGovernmentBEIS/inspect_ai pull request 169 show the
            // refusals of errors.
            let is_error = block["is_error"] == true;
            let is_empty = list(block, "content").is_empty() && text(block, "content").is_empty();
            ensure(!is_error || !is_empty, || {
                format!("{location}.tool_result: content cannot be empty if `is_error` is true")
            })?;
            for inner in list(block, "content") {
                ensure(!is_error || text(inner, "type") == "text", || {
                    format!(
                        "{location}.tool_result: all content must be type \"text\" if `is_error` is true"
                    )
                })?;
                match text(inner, "type") {
                    "image" => picture(inner, location)?,
                    _ => ensure(!text(inner, "text").is_empty(), || {
                        format!("{location}: text content blocks must be non-empty")
                    })?,
                }
            }
            Ok(())
        }
        "thinking" => {
            only("assistant")?;
            ensure(!text(block, "signature").is_empty(), || {
                format!("{location}: Invalid `signature` in `thinking` block")
            })
        }
        "redacted_thinking" => {
            only("assistant")?;
            ensure(!text(block, "data").is_empty(), || {
                format!("{location}: Invalid `data` in `redacted_thinking` block")
            })
        }
        other => Err(format!(
            "{location}: Input tag '{other}' does not match any of the expected tags"
        )),
    }
}

fn picture(block: &Value, location: &str) -> CheckResult {
    let source = &block["source"];
    let data = text(source, "data");
    image::check(text(source, "media_type"), data, &IMAGE_TYPES)
        .map_err(|reason| format!("{location}: {reason}"))?;
    ensure(data.len() <= MAX_IMAGE_BYTES, || {
        format!(
            "{location}.image.source.base64: image exceeds 5 MB maximum: {} bytes > 5242880 bytes",
            data.len()
        )
    })?;
    let (width, height) = image::png_size(data).unwrap_or_default();
    ensure(width.max(height) <= MAX_SIDE, || {
        format!(
            "{location}.image.source.base64.data: At least one of the image dimensions exceed max allowed size: 8000 pixels"
        )
    })
}
