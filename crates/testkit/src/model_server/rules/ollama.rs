//! Rules of Ollama's native API.

use serde_json::Value;

use super::{CheckResult, ensure, image, list, size, text};

/// "Thinking" (docs.ollama.com/capabilities/thinking) and the library's tag "thinking" (ollama.com/search?c=thinking).
const THINKING: [&str; 10] = [
    "qwen3",
    "deepseek-r1",
    "deepseek-v3.1",
    "gpt-oss",
    "magistral",
    "cogito",
    "glm-4",
    "minimax",
    "nemotron",
    "kimi-k2-thinking",
];

/// Families of the library without the tag "tools" (ollama.com/search?c=tools).
const WITHOUT_TOOLS: [&str; 9] = [
    "gemma:",
    "gemma2",
    "gemma3",
    "llama2",
    "codellama",
    "llava",
    "phi3",
    "phi4:",
    "deepseek-coder",
];

/// "Context length" (docs.ollama.com/context-length): 4,096 tokens unless the request or the server sets a larger
/// window.
const DEFAULT_CONTEXT: u64 = 4096;

pub(super) fn check(body: &Value) -> CheckResult {
    // "Generate a chat message" (docs.ollama.com/api/chat).
    let model = text(body, "model");
    ensure(!model.is_empty(), || "model is required".to_owned())?;
    // The server parses fields into typed structures (ollama/ollama: api/types.go) and rejects values of other types.
    let cannot = |what: &str| format!("json: cannot unmarshal {what}");
    for field in ["stream", "think"] {
        let is_fine = match body.get(field) {
            Some(Value::Bool(_)) | None => true,
            Some(Value::String(level)) => {
                field == "think" && matches!(level.as_str(), "low" | "medium" | "high")
            }
            _ => false,
        };
        ensure(is_fine, || cannot(field))?;
    }
    let wants_thinking = body["think"] == true || body["think"].is_string();
    ensure(
        !wants_thinking || THINKING.iter().any(|family| model.starts_with(family)),
        || format!("\"{model}\" does not support thinking"),
    )?;
    if let Some(format) = body.get("format") {
        ensure(format.is_object() || format == "json", || {
            format!("invalid format: {format}; expected \"json\" or a JSON schema object")
        })?;
    }
    if let Some(options) = body.get("options") {
        ensure(options.is_object(), || cannot("options"))?;
        ensure(options.get("num_predict").is_none_or(Value::is_i64), || {
            "option \"num_predict\" must be of type integer".to_owned()
        })?;
        ensure(
            options.get("temperature").is_none_or(Value::is_number),
            || "option \"temperature\" must be of type float32".to_owned(),
        )?;
    }
    let options = &body["options"];
    // By default the server drops the beginning of a prompt that is too long (ollama/ollama issue 4967); with
    // `truncate: false` it rejects the request. Both are errors of the client.
    let window = options["num_ctx"].as_u64().unwrap_or(DEFAULT_CONTEXT);
    let tokens = size::tokens(body);
    ensure(tokens <= window, || {
        format!("the input length ({tokens} tokens) exceeds the context length ({window} tokens)")
    })?;
    let has_tools = !list(body, "tools").is_empty();
    let supports_tools = !WITHOUT_TOOLS
        .iter()
        .any(|family| format!("{model}:").starts_with(family));
    ensure(!has_tools || supports_tools, || {
        format!("registry.ollama.ai/library/{model} does not support tools")
    })?;
    for tool in list(body, "tools") {
        self::tool(tool).map_err(|what| cannot(&what))?;
    }
    messages(body)
}

/// The structures `Tool`, `ToolFunctionParameters` and `ToolProperty` of ollama/ollama: api/types.go.
fn tool(tool: &Value) -> CheckResult {
    let function = &tool["function"];
    ensure(tool["type"] == "function", || "tool.type".to_owned())?;
    ensure(!text(function, "name").is_empty(), || {
        "tool.function.name".to_owned()
    })?;
    let parameters = &function["parameters"];
    ensure(parameters["type"].is_string(), || {
        "tool.function.parameters.type into string".to_owned()
    })?;
    ensure(parameters["properties"].is_object(), || {
        "tool.function.parameters.properties".to_owned()
    })?;
    let is_texts = |value: Option<&Value>| {
        value.is_none_or(|value| {
            value
                .as_array()
                .is_some_and(|all| all.iter().all(Value::is_string))
        })
    };
    ensure(is_texts(parameters.get("required")), || {
        "tool.function.parameters.required".to_owned()
    })?;
    for property in parameters["properties"]
        .as_object()
        .into_iter()
        .flat_map(|all| all.values())
    {
        ensure(property.is_object(), || {
            "a property into api.ToolProperty".to_owned()
        })?;
        let kind = property.get("type");
        ensure(kind.is_none_or(Value::is_string) || is_texts(kind), || {
            "a property's type".to_owned()
        })?;
        ensure(
            property.get("description").is_none_or(Value::is_string),
            || "a description".to_owned(),
        )?;
        ensure(property.get("enum").is_none_or(Value::is_array), || {
            "an enum".to_owned()
        })?;
    }
    Ok(())
}

/// The structure `Message` of ollama/ollama: api/types.go, and the roles that the server accepts.
fn messages(body: &Value) -> CheckResult {
    for message in list(body, "messages") {
        let role = text(message, "role");
        ensure(
            matches!(role, "system" | "user" | "assistant" | "tool"),
            || format!("invalid role: {role}, must be one of [system, user, assistant, tool]"),
        )?;
        ensure(message["content"].is_string(), || {
            "json: cannot unmarshal content into Go struct field of type string".to_owned()
        })?;
        for picture in list(message, "images") {
            ensure(picture.as_str().is_some_and(image::is_base64), || {
                "illegal base64 data in images".to_owned()
            })?;
        }
        for call in list(message, "tool_calls") {
            ensure(call["function"]["arguments"].is_object(), || {
                "json: cannot unmarshal string into Go struct field arguments".to_owned()
            })?;
        }
    }
    Ok(())
}
