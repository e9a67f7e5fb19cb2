//! Sizes of whole requests: bytes, images and tokens.

use serde_json::{Value, json};

use super::super::Response;
use super::{CheckResult, Format, ensure, text};

/// Refuses a request with too many bytes, with the status and format of the provider.
///
/// Sources: Anthropic "Errors", section "Request size limits" (docs.claude.com/en/api/errors): 32 MB, status 413.
/// Google "Image understanding" (ai.google.dev/gemini-api/docs/image-understanding): 20 MB with inline data. `OpenAI`
/// "Images and vision" (platform.openai.com/docs/guides/images-vision): 50 MB. Groq "Vision"
/// (console.groq.com/docs/vision): 4 MB with images in base64, status 413.
pub(super) fn refusal(format: Format, body: &Value, bytes: usize) -> Option<Response> {
    const MIB: usize = 1024 * 1024;
    let is_groq = is_groq_vision(text(body, "model")) && images(body) > 0;
    let max_bytes = match format {
        Format::Anthropic => 32 * MIB,
        Format::Gemini => 20 * MIB,
        Format::OpenaiChat if is_groq => 4 * MIB,
        Format::OpenaiChat | Format::OpenaiResponses => 50 * MIB,
        Format::Ollama => return None,
    };
    if bytes <= max_bytes {
        return None;
    }
    Some(match format {
        Format::Anthropic => {
            let message = "Request exceeds the maximum allowed number of bytes.";
            let body = json!({"type": "error", "error": {
                "type": "request_too_large", "message": message}});
            Response::json(413, &body.to_string())
        }
        Format::OpenaiChat if is_groq => {
            let body = json!({"error": {"message": "Request Entity Too Large",
                "type": "invalid_request_error", "code": "request_too_large"}});
            Response::json(413, &body.to_string())
        }
        _ => format.refuse(&format!(
            "Request payload size exceeds the limit: {max_bytes} bytes."
        )),
    })
}

/// Whether the model is one of Groq's vision models, recognised by the lowercase name that only Groq uses.
pub(super) fn is_groq_vision(model: &str) -> bool {
    model.starts_with("meta-llama/llama-4-")
}

/// Number of images in a request of any format.
pub(super) fn images(body: &Value) -> usize {
    match body {
        Value::Array(items) => items.iter().map(images).sum(),
        Value::Object(fields) => {
            let is_image = matches!(text(body, "type"), "image" | "image_url" | "input_image")
                || fields.contains_key("inlineData");
            let listed = fields.get("images").and_then(Value::as_array);
            usize::from(is_image)
                + listed.map_or(0, Vec::len)
                + fields.values().map(images).sum::<usize>()
        }
        _ => 0,
    }
}

/// Checks the maximum number of images.
pub(super) fn ensure_images(
    body: &Value,
    maximum: usize,
    refuse: impl FnOnce(usize) -> String,
) -> CheckResult {
    let found = images(body);
    ensure(found <= maximum, || refuse(found))
}

/// Estimated tokens of a request: one per four bytes of text, the providers' rule of thumb for English; none for images
/// and signatures.
pub(super) fn tokens(body: &Value) -> u64 {
    (text_bytes(body) / 4) as u64
}

fn text_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(text_bytes).sum(),
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| {
                let opaque = [
                    "data",
                    "image_url",
                    "images",
                    "signature",
                    "thoughtSignature",
                    "encrypted_content",
                ];
                !opaque.contains(&name.as_str())
            })
            .map(|(_, inner)| text_bytes(inner))
            .sum(),
        _ => 0,
    }
}
