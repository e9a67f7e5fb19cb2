//! Rules of Google Gemini.

use serde_json::Value;

use super::{CheckResult, ensure, ensure_distinct, image, known_fields, list, schema, size, text};

/// "Generating content" (ai.google.dev/api/generate-content), request body.
const FIELDS: [&str; 8] = [
    "contents",
    "tools",
    "toolConfig",
    "safetySettings",
    "systemInstruction",
    "generationConfig",
    "cachedContent",
    "labels",
];

/// "Generating content", `GenerationConfig`.
const OPTIONS: [&str; 22] = [
    "stopSequences",
    "responseMimeType",
    "responseSchema",
    "responseJsonSchema",
    "_responseJsonSchema",
    "responseModalities",
    "candidateCount",
    "maxOutputTokens",
    "temperature",
    "topP",
    "topK",
    "seed",
    "presencePenalty",
    "frequencyPenalty",
    "responseLogprobs",
    "logprobs",
    "enableEnhancedCivicAnswers",
    "speechConfig",
    "thinkingConfig",
    "imageConfig",
    "mediaResolution",
    "audioTimestamp",
];

/// "Generating content", field `responseJsonSchema`: the supported keywords, also for function declarations.
const KEYWORDS: [&str; 20] = [
    "$id",
    "$defs",
    "$ref",
    "$anchor",
    "type",
    "format",
    "title",
    "description",
    "enum",
    "items",
    "prefixItems",
    "minItems",
    "maxItems",
    "minimum",
    "maximum",
    "anyOf",
    "oneOf",
    "properties",
    "additionalProperties",
    "required",
];

/// "Image understanding" (ai.google.dev/gemini-api/docs/image-understanding).
const IMAGE_TYPES: [&str; 5] = [
    "image/png",
    "image/jpeg",
    "image/webp",
    "image/heic",
    "image/heif",
];
/// "Image understanding", section "Technical details about images".
const MAX_IMAGES: usize = 3600;
/// Refusal in google-gemini/gemini-cli issue 19083.
const MAX_FUNCTIONS: usize = 512;
/// "Gemini models" (ai.google.dev/gemini-api/docs/models), input token limit.
const MAX_INPUT_TOKENS: u64 = 1_048_576;

pub(super) fn check(model: &str, body: &Value) -> CheckResult {
    let unknown = |name: &str| {
        format!("Invalid JSON payload received. Unknown name \"{name}\": Cannot find field.")
    };
    known_fields(body, &FIELDS, unknown)?;
    size::ensure_images(body, MAX_IMAGES, |found| {
        format!("Please use fewer than {MAX_IMAGES} images in your request. Found {found}.")
    })?;
    let tokens = size::tokens(body);
    ensure(tokens <= MAX_INPUT_TOKENS, || {
        format!(
            "The input token count ({tokens}) exceeds the maximum number of tokens allowed ({MAX_INPUT_TOKENS})."
        )
    })?;
    let options = &body["generationConfig"];
    known_fields(options, &OPTIONS, unknown)?;
    let functions: Vec<&Value> = list(body, "tools")
        .iter()
        .flat_map(|tool| list(tool, "functionDeclarations"))
        .collect();
    ensure(functions.len() <= MAX_FUNCTIONS, || {
        format!(
            "tools[0].function_declarations: [FIELD_INVALID] At most {MAX_FUNCTIONS} function declarations can be specified."
        )
    })?;
    declarations(&functions)?;
    // "Generating content", `GenerationConfig`: at most five.
    ensure(list(options, "stopSequences").len() <= 5, || {
        "stopSequences: the maximum number of stop sequences is 5".to_owned()
    })?;
    answer(options, model, !functions.is_empty())?;
    limits(options, model)?;
    thinking(&options["thinkingConfig"], model)?;
    if let Some(system) = body.get("systemInstruction") {
        ensure(!list(system, "parts").is_empty(), || {
            "systemInstruction.parts: must not be empty".to_owned()
        })?;
    }
    contents(body, model)
}

/// "Function calling" (ai.google.dev/gemini-api/docs/function-calling) and `FunctionDeclaration` in "Caching"
/// (ai.google.dev/api/caching): a name starts with a letter or `_`, contains letters, digits, `_`, `:`, `.` and `-`,
/// and has at most 64 characters.
fn declarations(functions: &[&Value]) -> CheckResult {
    for function in functions {
        known_fields(
            function,
            &[
                "name",
                "description",
                "behavior",
                "parameters",
                "parametersJsonSchema",
                "response",
                "responseJsonSchema",
            ],
            |name| format!("Invalid JSON payload received. Unknown name \"{name}\""),
        )?;
        let name = text(function, "name");
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_.:-".contains(letter);
        ensure(
            name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
                && name.len() <= 64
                && name.chars().all(is_plain),
            || {
                format!(
                    "Invalid function name '{name}'. Must start with a letter or an underscore. Must be alphameric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64."
                )
            },
        )?;
        ensure(!text(function, "description").is_empty(), || {
            format!("function_declarations[{name}].description: required field is not set")
        })?;
        if let Some(parameters) = function.get("parametersJsonSchema") {
            ensure(function.get("parameters").is_none(), || {
                "parameters and parameters_json_schema are mutually exclusive".to_owned()
            })?;
            ensure(parameters["type"] == "object", || {
                format!(
                    "function_declarations[{name}].parameters_json_schema: should be of type object"
                )
            })?;
            check_schema(parameters).map_err(|reason| {
                format!("function_declarations[{name}].parameters_json_schema: {reason}")
            })?;
        }
    }
    ensure_distinct(
        functions.iter().map(|function| text(function, "name")),
        |name| format!("Duplicate function declaration found: {name}"),
    )
}

fn check_schema(found: &Value) -> CheckResult {
    schema::is_valid(found)?;
    schema::has_only(found, &KEYWORDS)?;
    schema::each(found, &mut |node| {
        let values = list(node, "enum");
        ensure(
            values
                .iter()
                .all(|value| value.is_string() || value.is_number()),
            || "enum: only strings and numbers are supported".to_owned(),
        )?;
        ensure(
            !schema::is_of(node, "array")
                || node.get("items").is_some()
                || node.get("prefixItems").is_some(),
            || "items: missing field".to_owned(),
        )?;
        let known = node["properties"].as_object();
        ensure(known.is_none_or(|known| !known.is_empty()), || {
            "properties: should be non-empty for OBJECT type".to_owned()
        })?;
        for name in list(node, "required") {
            let is_known = known
                .is_some_and(|known| name.as_str().is_some_and(|name| known.contains_key(name)));
            ensure(is_known, || {
                format!("required[{name}]: property is not defined")
            })?;
        }
        Ok(())
    })
}

/// "Structured output" (ai.google.dev/gemini-api/docs/structured-output): together with tools only from Gemini 3 on
/// (googleapis/python-genai issue 867 shows the refusal of earlier models).
fn answer(options: &Value, model: &str, has_functions: bool) -> CheckResult {
    let is_json = options["responseMimeType"] == "application/json";
    ensure(
        !(is_json && has_functions) || model.starts_with("gemini-3"),
        || {
            "Function calling with a response mime type: 'application/json' is unsupported"
                .to_owned()
        },
    )?;
    let schemas = ["responseSchema", "responseJsonSchema"];
    let schemas: Vec<&Value> = schemas
        .iter()
        .filter_map(|name| options.get(*name))
        .collect();
    ensure(schemas.len() <= 1, || {
        "responseSchema and responseJsonSchema are mutually exclusive".to_owned()
    })?;
    for found in schemas {
        ensure(is_json, || {
            "A response schema needs responseMimeType 'application/json'".to_owned()
        })?;
        check_schema(found)
            .map_err(|reason| format!("generation_config.response_json_schema: {reason}"))?;
    }
    Ok(())
}

/// "Gemini models" (ai.google.dev/gemini-api/docs/models), output token limits.
fn limits(options: &Value, model: &str) -> CheckResult {
    let maximum = if model.starts_with("gemini-1.5") || model.starts_with("gemini-2.0") {
        8192
    } else {
        65_536
    };
    if let Some(limit) = options.get("maxOutputTokens") {
        ensure(
            limit
                .as_u64()
                .is_some_and(|limit| (1..=maximum).contains(&limit)),
            || {
                format!(
                    "Unable to submit request because it has a maxOutputTokens value of {limit} but the supported range is from 1 (inclusive) to {} (exclusive).",
                    maximum + 1
                )
            },
        )?;
    }
    let is_in_range = options.get("temperature").is_none_or(|value| {
        value
            .as_f64()
            .is_some_and(|value| (0.0..=2.0).contains(&value))
    });
    ensure(is_in_range, || {
        "temperature must be in the range [0.0, 2.0]".to_owned()
    })
}

/// "Gemini thinking" (ai.google.dev/gemini-api/docs/thinking): budgets for 2.5, levels for 3, never both.
fn thinking(config: &Value, model: &str) -> CheckResult {
    if config.is_null() {
        return Ok(());
    }
    let budget = config
        .get("thinkingBudget")
        .map(|budget| budget.as_i64().unwrap_or(i64::MAX));
    let level = config.get("thinkingLevel").and_then(Value::as_str);
    ensure(budget.is_none() || level.is_none(), || {
        "You can only set only one of thinking budget and thinking level.".to_owned()
    })?;
    if let Some(level) = level {
        ensure(!model.starts_with("gemini-2"), || {
            "Thinking level is not supported for this model.".to_owned()
        })?;
        // "Gemini thinking", section "Thinking levels": `gemini-3-pro` supports only two levels.
        let is_known = match model {
            _ if model.starts_with("gemini-3-pro") => matches!(level, "low" | "high"),
            _ => matches!(level, "minimal" | "low" | "medium" | "high"),
        };
        ensure(is_known, || {
            format!("Invalid value at 'generation_config.thinking_config.thinking_level': {level}")
        })?;
    }
    let (minimum, maximum, can_be_off) = match model {
        _ if model.starts_with("gemini-2.5-pro") => (128, 32_768, false),
        _ if model.starts_with("gemini-2.5-flash-lite") => (512, 24_576, true),
        _ if model.starts_with("gemini-2.5-flash") => (1, 24_576, true),
        _ if model.starts_with("gemini-2.0") || model.starts_with("gemini-1.5") => {
            return Err("Thinking is not supported by this model.".to_owned());
        }
        _ => return Ok(()),
    };
    let fits = |budget: i64| {
        budget == -1 || budget == 0 && can_be_off || (minimum..=maximum).contains(&budget)
    };
    ensure(budget.is_none_or(fits), || {
        format!(
            "The thinking budget {budget:?} is invalid. Please choose a value between {minimum} and {maximum}."
        )
    })
}

/// "Generating content", `Content` and `Part`; "Function calling" for the order of turns; "Thought signatures"
/// (ai.google.dev/gemini-api/docs/thought-signatures) for Gemini 3.
fn contents(body: &Value, model: &str) -> CheckResult {
    let contents = list(body, "contents");
    ensure(!contents.is_empty(), || {
        "GenerateContentRequest.contents: contents is not specified".to_owned()
    })?;
    let mut called: Vec<&str> = Vec::new();
    for (index, content) in contents.iter().enumerate() {
        let role = text(content, "role");
        ensure(matches!(role, "user" | "model"), || {
            "Please use a valid role: user, model.".to_owned()
        })?;
        let parts = list(content, "parts");
        ensure(!parts.is_empty(), || {
            format!(
                "GenerateContentRequest.contents[{index}].parts: contents.parts must not be empty."
            )
        })?;
        for part in parts {
            self::part(part, role, index)?;
        }
        let names_of = |field: &str| -> Vec<&str> {
            parts
                .iter()
                .filter_map(|part| part.get(field))
                .map(|inner| text(inner, "name"))
                .collect()
        };
        let (calls, responses) = (names_of("functionCall"), names_of("functionResponse"));
        ensure(called.len() == responses.len(), || {
            "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.".to_owned()
        })?;
        ensure(called == responses, || {
            "Please ensure that function response names match the function calls.".to_owned()
        })?;
        if !calls.is_empty() {
            let before = index.checked_sub(1).map(|before| &contents[before]);
            ensure(
                before.is_some_and(|before| before["role"] == "user"),
                || {
                    "Please ensure that function call turn comes immediately after a user turn or after a function response turn.".to_owned()
                },
            )?;
        }
        called = calls;
    }
    ensure(called.is_empty(), || {
        "Please ensure that function call turns are followed by a function response turn."
            .to_owned()
    })?;
    ensure(
        contents.last().is_some_and(|last| last["role"] == "user"),
        || {
            "Please ensure that single turn requests end with a user role or the role field is empty.".to_owned()
        },
    )?;
    if !model.starts_with("gemini-3") {
        return Ok(());
    }
    let is_question = |content: &Value| {
        content["role"] == "user"
            && list(content, "parts")
                .iter()
                .all(|part| part.get("functionResponse").is_none())
    };
    let since = contents.iter().rposition(is_question).unwrap_or(0);
    for content in &contents[since..] {
        let first = list(content, "parts")
            .iter()
            .find(|part| part.get("functionCall").is_some());
        ensure(
            first.is_none_or(|first| !text(first, "thoughtSignature").is_empty()),
            || {
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly".to_owned()
            },
        )?;
    }
    Ok(())
}

fn part(part: &Value, role: &str, index: usize) -> CheckResult {
    let data = [
        "text",
        "inlineData",
        "functionCall",
        "functionResponse",
        "fileData",
    ];
    let found: Vec<&&str> = data
        .iter()
        .filter(|name| part.get(**name).is_some())
        .collect();
    ensure(found.len() == 1, || {
        format!(
            "contents[{index}].parts: required oneof field 'data' must have one initialized field"
        )
    })?;
    let is_signed = !text(part, "thoughtSignature").is_empty();
    match *found[0] {
        "text" => ensure(is_signed || !text(part, "text").trim().is_empty(), || {
            format!(
                "contents[{index}].parts: Unable to submit request because it must have a text parameter."
            )
        }),
        "inlineData" => {
            let inline = &part["inlineData"];
            image::check(text(inline, "mimeType"), text(inline, "data"), &IMAGE_TYPES)
        }
        "functionCall" => ensure(
            role == "model" && part["functionCall"]["args"].is_object(),
            || {
                format!(
                    "contents[{index}]: function calls must be in a model turn with args as an object"
                )
            },
        ),
        "functionResponse" => ensure(
            role == "user" && part["functionResponse"]["response"].is_object(),
            || {
                format!(
                    "contents[{index}]: function responses must be in a user turn with response as an object"
                )
            },
        ),
        _ => Ok(()),
    }
}
