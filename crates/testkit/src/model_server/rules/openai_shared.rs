//! Rules that OpenAI Chat Completions and Responses share.

use serde_json::Value;

use super::{CheckResult, ensure, image, is_plain_name, list, schema, size, text};

/// A family of OpenAI models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// `o1`, `o3`, `o4-mini`.
    OSeries,
    /// `gpt-5`, `gpt-5-mini` and `gpt-5-nano`.
    Gpt5,
    /// `gpt-5.1` and later.
    Gpt5Point,
    /// `gpt-4` and earlier, which do not reason.
    Plain,
    /// A model of another provider.
    Other,
}

impl Family {
    pub(super) fn of_model(model: &str) -> Self {
        let mut letters = model.chars();
        let is_o = letters.next() == Some('o')
            && letters.next().is_some_and(|second| second.is_ascii_digit());
        if is_o {
            Self::OSeries
        } else if model.starts_with("gpt-5.") {
            Self::Gpt5Point
        } else if model.starts_with("gpt-5") {
            Self::Gpt5
        } else if ["gpt-3", "gpt-4", "chatgpt-4"]
            .iter()
            .any(|prefix| model.starts_with(prefix))
        {
            Self::Plain
        } else {
            Self::Other
        }
    }

    pub(super) fn is_openai(self) -> bool {
        self != Self::Other
    }

    pub(super) fn reasons(self) -> bool {
        matches!(self, Self::OSeries | Self::Gpt5 | Self::Gpt5Point)
    }

    /// "Reasoning models" (platform.openai.com/docs/guides/reasoning) and "Using GPT-5.2" (platform.openai.com/docs/
    /// guides/latest-model): the supported efforts of each family, and no sampling parameters unless the effort is
    /// `none`.
    pub(super) fn check_reasoning(
        self,
        effort: Option<&str>,
        body: &Value,
        field: &str,
    ) -> CheckResult {
        if let Some(effort) = effort {
            let is_known = match self {
                Self::OSeries => matches!(effort, "low" | "medium" | "high"),
                Self::Gpt5 => matches!(effort, "minimal" | "low" | "medium" | "high"),
                Self::Gpt5Point => matches!(effort, "none" | "low" | "medium" | "high" | "xhigh"),
                Self::Plain => {
                    return Err(format!(
                        "Unsupported parameter: '{field}' is not supported with this model."
                    ));
                }
                Self::Other => true,
            };
            ensure(is_known, || {
                format!("Unsupported value: '{field}' does not support '{effort}' with this model.")
            })?;
        }
        if self.reasons() {
            // "Reasoning models", section "Limitations"; langgenius/dify issue 18971 shows the refusal of `stop`.
            for name in [
                "stop",
                "presence_penalty",
                "frequency_penalty",
                "logprobs",
                "top_logprobs",
                "logit_bias",
            ] {
                ensure(body.get(name).is_none(), || {
                    format!("Unsupported parameter: '{name}' is not supported with this model.")
                })?;
            }
            // "Create chat completion", `reasoning_effort`: `gpt-5-pro` supports only `high`.
            let is_pro = text(body, "model").starts_with("gpt-5-pro");
            ensure(
                !is_pro || effort.is_none_or(|effort| effort == "high"),
                || {
                    format!(
                        "Unsupported value: '{field}' does not support this value with this model. Supported values are: 'high'."
                    )
                },
            )?;
        }
        let can_sample = match self {
            Self::OSeries | Self::Gpt5 => false,
            Self::Gpt5Point => effort.is_none_or(|effort| effort == "none"),
            Self::Plain | Self::Other => true,
        };
        for name in ["temperature", "top_p"] {
            let is_usual = body
                .get(name)
                .and_then(Value::as_f64)
                .is_none_or(|value| (value - 1.0).abs() < 1e-9);
            ensure(can_sample || is_usual, || {
                format!(
                    "Unsupported value: '{name}' does not support {} with this model. Only the default (1) value is supported.",
                    body[name]
                )
            })?;
        }
        let is_in_range = body
            .get("temperature")
            .and_then(Value::as_f64)
            .is_none_or(|value| (0.0..=2.0).contains(&value));
        ensure(is_in_range, || {
            "Invalid 'temperature': expected a value between 0 and 2.".to_owned()
        })
    }
}

/// "Models" (platform.openai.com/docs/models), "context window" of each model. Reasoning models share it between the
/// input and their maximum output, so their input limit is smaller. Refusals: "maximum context length" in many issues,
/// such as AutoGPT issue 3892, and "Input tokens exceed the configured limit of 272000 tokens" of `gpt-5`.
pub(super) fn check_input(body: &Value, limit: Option<&Value>) -> CheckResult {
    let model = text(body, "model");
    let tokens = size::tokens(body);
    let limit = limit.and_then(Value::as_u64).unwrap_or(0);
    let max_input = match Family::of_model(model) {
        Family::OSeries => 200_000,
        Family::Gpt5Point if is_at_least(model, 4) => 922_000,
        Family::Gpt5 | Family::Gpt5Point => 272_000,
        Family::Plain | Family::Other => u64::MAX,
    };
    ensure(tokens <= max_input, || {
        format!(
            "Input tokens exceed the configured limit of {max_input} tokens. Your messages resulted in {tokens} tokens. Please reduce the length of the messages."
        )
    })?;
    let window = match Family::of_model(model) {
        Family::Plain if model.starts_with("gpt-4.1") => 1_047_576,
        Family::Plain if model.starts_with("gpt-4o") || model.starts_with("gpt-4-turbo") => 128_000,
        Family::Plain if model.starts_with("gpt-4") => 8192,
        Family::Plain if model.starts_with("gpt-3.5") => 16_385,
        _ => u64::MAX,
    };
    ensure(tokens.saturating_add(limit) <= window, || {
        format!(
            "This model's maximum context length is {window} tokens. However, you requested {} tokens ({tokens} in the messages, {limit} in the completion). Please reduce the length of the messages or completion.",
            tokens + limit
        )
    })
}

/// Whether a model is `gpt-5.N` with at least this N.
pub(super) fn is_at_least(model: &str, minor: u32) -> bool {
    let rest = model.strip_prefix("gpt-5.").unwrap_or_default();
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse::<u32>().is_ok_and(|found| found >= minor)
}

/// "Images and vision" (platform.openai.com/docs/guides/images-vision): at most 500 images. Other providers with this
/// API: Mistral "Vision" (docs.mistral.ai/capabilities/vision): 8; Groq "Vision" (console.groq.com/docs/vision): 5.
pub(super) fn check_image_count(body: &Value) -> CheckResult {
    let model = text(body, "model");
    let maximum = if size::is_groq_vision(model) {
        5
    } else if super::openai_chat::is_mistral(model) {
        8
    } else {
        500
    };
    size::ensure_images(body, maximum, |found| {
        format!("Too many images in request. Max is {maximum}, got {found}.")
    })
}

/// Maximum length of a text: 10 MiB. Refusal: "string too long. Expected a string with maximum length 10485760", as in
/// openai/openai-python issues.
pub(super) fn check_lengths(body: &Value) -> CheckResult {
    match body {
        Value::String(text) => ensure(
            text.len() <= 10_485_760 || text.starts_with("data:"),
            || {
                format!(
                    "string too long. Expected a string with maximum length 10485760, but got a string with length {} instead.",
                    text.len()
                )
            },
        ),
        Value::Array(items) => items.iter().try_for_each(check_lengths),
        Value::Object(fields) => fields.values().try_for_each(check_lengths),
        _ => Ok(()),
    }
}

/// "Create chat completion" and "Create a model response": `tool_choice` and `parallel_tool_calls` only with `tools`.
pub(super) fn check_choice(body: &Value) -> CheckResult {
    for name in ["tool_choice", "parallel_tool_calls"] {
        ensure(
            body.get(name).is_none() || !list(body, "tools").is_empty(),
            || {
                format!(
                    "Invalid value for '{name}': '{name}' is only allowed when 'tools' are specified."
                )
            },
        )?;
    }
    let is_known = match body.get("tool_choice") {
        None => true,
        Some(Value::String(word)) => matches!(word.as_str(), "none" | "auto" | "required"),
        Some(other) => matches!(text(other, "type"), "function" | "allowed_tools"),
    };
    ensure(is_known, || "Invalid value for 'tool_choice'.".to_owned())
}

/// "Models" (platform.openai.com/docs/models), "max output tokens" of each.
pub(super) fn check_limit(model: &str, limit: Option<&Value>) -> CheckResult {
    let Some(limit) = limit else { return Ok(()) };
    let maximum = match Family::of_model(model) {
        Family::OSeries => 100_000,
        Family::Gpt5 | Family::Gpt5Point => 128_000,
        Family::Plain if model.starts_with("gpt-4.1") => 32_768,
        Family::Plain if model.starts_with("gpt-4o-2024-05-13") => 4096,
        Family::Plain if model.starts_with("gpt-4o") => 16_384,
        Family::Plain if model == "gpt-4" || model.starts_with("gpt-4-0613") => 8192,
        Family::Plain => 4096,
        Family::Other => u64::MAX,
    };
    ensure(
        limit
            .as_u64()
            .is_some_and(|limit| (1..=maximum).contains(&limit)),
        || {
            format!(
                "max_tokens is too large: {limit}. This model supports at most {maximum} completion tokens, whereas you provided {limit}."
            )
        },
    )
}

/// "Function calling" (platform.openai.com/docs/guides/function-calling) and the reference of `tools`
/// (platform.openai.com/docs/api-reference/chat/create): at most 128 functions, names of at most 64 characters, and an
/// object as parameters.
pub(super) fn check_functions(functions: &[&Value]) -> CheckResult {
    ensure(functions.len() <= 128, || {
        format!(
            "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length {} instead.",
            functions.len()
        )
    })?;
    for function in functions {
        let name = text(function, "name");
        ensure(is_plain_name(name, 64), || {
            format!(
                "Invalid 'tools.function.name': '{name}' does not match pattern '^[a-zA-Z0-9_-]+$' or is longer than 64"
            )
        })?;
        let parameters = &function["parameters"];
        ensure(parameters["type"] == "object", || {
            format!(
                "Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"', got 'type: {}'.",
                parameters["type"]
            )
        })?;
        for refused in ["oneOf", "anyOf", "allOf", "enum", "not"] {
            ensure(parameters.get(refused).is_none(), || {
                format!(
                    "Invalid schema for function '{name}': schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level."
                )
            })?;
        }
        schema::is_valid(parameters)
            .map_err(|reason| format!("Invalid schema for function '{name}': {reason}"))?;
        schema::each(parameters, &mut |node| {
            ensure(
                !schema::is_of(node, "array") || node.get("items").is_some(),
                || format!("Invalid schema for function '{name}': array schema missing items."),
            )?;
            ensure(
                !schema::is_of(node, "object") || node.get("properties").is_some(),
                || {
                    format!(
                        "Invalid schema for function '{name}': object schema missing properties."
                    )
                },
            )
        })?;
        if function["strict"] == true {
            check_strict(parameters)
                .map_err(|reason| format!("Invalid schema for function '{name}': {reason}"))?;
        }
    }
    super::ensure_distinct(
        functions.iter().map(|function| text(function, "name")),
        |name| format!("Invalid 'tools': duplicate function name '{name}'."),
    )
}

/// "Structured model outputs", section "Supported schemas" (platform.openai.com/docs/guides/structured-outputs).
const STRICT_KEYWORDS: [&str; 13] = [
    "type",
    "description",
    "title",
    "enum",
    "const",
    "anyOf",
    "$ref",
    "$defs",
    "definitions",
    "properties",
    "required",
    "additionalProperties",
    "items",
];

/// Checks a strict schema. Keywords for bounds are not permitted, because Azure and fine-tuned models reject them.
fn check_strict(found: &Value) -> CheckResult {
    ensure(found["type"] == "object", || {
        "schema must be of type 'object' at the root".to_owned()
    })?;
    schema::has_only(found, &STRICT_KEYWORDS)?;
    check_complexity(found)?;
    schema::each(found, &mut |node| {
        ensure(
            ["type", "anyOf", "$ref", "enum", "const"]
                .iter()
                .any(|name| node.get(*name).is_some()),
            || "schema must have a 'type' key".to_owned(),
        )?;
        if !schema::is_of(node, "object") {
            return Ok(());
        }
        ensure(node["additionalProperties"] == false, || {
            "'additionalProperties' is required to be supplied and to be false.".to_owned()
        })?;
        let required = list(node, "required");
        for name in node["properties"]
            .as_object()
            .into_iter()
            .flat_map(|all| all.keys())
        {
            ensure(required.contains(&Value::from(name.as_str())), || {
                format!(
                    "'required' is required to be supplied and to be an array including every key in properties. Missing '{name}'."
                )
            })?;
        }
        Ok(())
    })
}

/// "Supported schemas", sections "Limitations on nesting depth and size", "Limitations on total string size" and
/// "Limitations on enum size".
fn check_complexity(found: &Value) -> CheckResult {
    let (mut properties, mut letters, mut values) = (0, 0, 0);
    schema::each(found, &mut |node| {
        let names = node["properties"].as_object();
        for name in names.into_iter().flat_map(|all| all.keys()) {
            properties += 1;
            letters += name.len();
        }
        let choices = list(node, "enum");
        values += choices.len();
        let text: usize = choices
            .iter()
            .map(|value| value.as_str().map_or(0, str::len))
            .sum();
        letters += text;
        ensure(choices.len() <= 250 || text <= 15_000, || {
            "enum values of more than 250 may have 15000 characters together".to_owned()
        })
    })?;
    ensure(properties <= 5000, || {
        format!("schema may have up to 5000 object properties total, found {properties}")
    })?;
    ensure(letters <= 120_000, || {
        "the total string length of all names and enum values cannot exceed 120000".to_owned()
    })?;
    ensure(values <= 1000, || {
        format!("schema may have up to 1000 enum values, found {values}")
    })?;
    let depth = schema::depth(found);
    ensure(depth <= 10, || {
        format!("{depth} levels of nesting exceeds limit of 10")
    })
}

/// The format of an answer: `{name, schema, strict}`.
pub(super) fn check_format(format: &Value) -> CheckResult {
    let name = text(format, "name");
    ensure(is_plain_name(name, 64), || {
        "Invalid 'response_format.json_schema.name'".to_owned()
    })?;
    let refused = |reason: String| format!("Invalid schema for response_format '{name}': {reason}");
    let found = &format["schema"];
    schema::is_valid(found).map_err(refused)?;
    ensure(found["type"] == "object", || {
        refused(format!(
            "schema must be a JSON Schema of 'type: \"object\"', got 'type: {}'.",
            found["type"]
        ))
    })?;
    if format["strict"] == true {
        check_strict(found).map_err(refused)?;
    }
    Ok(())
}

/// "Images and vision" (platform.openai.com/docs/guides/images-vision): supported types, and at most 50 MB per request.
pub(super) fn check_image(url: &str) -> CheckResult {
    let Some((media_type, data)) = url
        .strip_prefix("data:")
        .and_then(|rest| rest.split_once(";base64,"))
    else {
        return ensure(url.starts_with("https://"), || {
            format!("Invalid image URL: {}", url.get(..40).unwrap_or(url))
        });
    };
    image::check(
        media_type,
        data,
        &["image/png", "image/jpeg", "image/gif", "image/webp"],
    )?;
    ensure(data.len() <= 50 * 1024 * 1024, || {
        "Total image data is too large. Maximum is 50 MB.".to_owned()
    })
}
