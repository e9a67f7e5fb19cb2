//! What chat completions and responses of `OpenAI` share.

use serde_json::Value;

use super::{Checked, ensure, image, is_plain_name, list, schema, text};

/// A family of `OpenAI`'s models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    /// `o1`, `o3`, `o4-mini`.
    OSeries,
    /// `gpt-5` itself with `-mini` and `-nano`.
    Gpt5,
    /// `gpt-5.1` and later.
    Gpt5Point,
    /// `gpt-4` and earlier, which do not reason.
    Plain,
    /// A model of somebody else.
    Other,
}

impl Family {
    pub(super) fn of(model: &str) -> Self {
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
            .any(|begin| model.starts_with(begin))
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
    /// guides/latest-model): the efforts each knows, and no other parameter of sampling unless the effort is none.
    pub(super) fn check_reasoning(
        self,
        effort: Option<&str>,
        body: &Value,
        field: &str,
    ) -> Checked {
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
        let is_warm = body
            .get("temperature")
            .and_then(Value::as_f64)
            .is_none_or(|value| (0.0..=2.0).contains(&value));
        ensure(is_warm, || {
            "Invalid 'temperature': expected a value between 0 and 2.".to_owned()
        })
    }
}

/// "Models" (platform.openai.com/docs/models), "max output tokens" of each.
pub(super) fn check_limit(model: &str, limit: Option<&Value>) -> Checked {
    let Some(limit) = limit else { return Ok(()) };
    let most = match Family::of(model) {
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
            .is_some_and(|limit| (1..=most).contains(&limit)),
        || {
            format!(
                "max_tokens is too large: {limit}. This model supports at most {most} completion tokens, whereas you provided {limit}."
            )
        },
    )
}

/// "Function calling" (platform.openai.com/docs/guides/function-calling) and the reference of `tools` (platform.openai.com/
/// docs/api-reference/chat/create): at most 128, names of 64 characters, parameters that are an object.
pub(super) fn check_functions(functions: &[&Value]) -> Checked {
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
            .map_err(|why| format!("Invalid schema for function '{name}': {why}"))?;
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
                .map_err(|why| format!("Invalid schema for function '{name}': {why}"))?;
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

/// Bounds are left out of the list above: Azure and fine-tuned models refuse them.
fn check_strict(found: &Value) -> Checked {
    ensure(found["type"] == "object", || {
        "schema must be of type 'object' at the root".to_owned()
    })?;
    schema::has_only(found, &STRICT_KEYWORDS)?;
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

/// The form of an answer: `{name, schema, strict}`.
pub(super) fn check_format(format: &Value) -> Checked {
    let name = text(format, "name");
    ensure(is_plain_name(name, 64), || {
        "Invalid 'response_format.json_schema.name'".to_owned()
    })?;
    let refused = |why: String| format!("Invalid schema for response_format '{name}': {why}");
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

/// "Images and vision" (platform.openai.com/docs/guides/images-vision): types, and 50 MB for a request.
pub(super) fn check_image(url: &str) -> Checked {
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
