//! Attributes of exported spans: the mapping from span fields to attributes of the OpenTelemetry semantic conventions.
//! A field that is not listed here is not exported.

/// Field that selects a span for export and sets its kind: `server`, `client` or `internal`.
pub const KIND_FIELD: &str = "otel.kind";

/// Field with the `traceparent` header of the request that a span answers.
pub const PARENT_FIELD: &str = "otel.parent";

/// Recording this field ends the exported span although its work continues, for example after the headers of a streamed
/// response.
pub const END_FIELD: &str = "otel.end";

/// Attribute that marks a span as failed. Its value is a stable code such as `CA-0801`.
pub(crate) const ERROR: &str = "error.type";

pub(crate) const OPERATION: &str = "gen_ai.operation.name";
pub(crate) const TOOL_TYPE: &str = "gen_ai.tool.type";
const PROVIDER: &str = "gen_ai.provider.name";
const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";

/// Value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Attribute {
    Text(String),
    /// An integer.
    Number(u64),
    /// A floating-point number.
    Float(f64),
    /// Several texts.
    Texts(Vec<String>),
}

/// Maps a span field to the name of its attribute; `None` for a field that is not exported.
pub(crate) fn name_of(field: &str) -> Option<&'static str> {
    Some(match field {
        "provider" => PROVIDER,
        "model" => "gen_ai.request.model",
        "response_model" => "gen_ai.response.model",
        "max_tokens" => "gen_ai.request.max_tokens",
        "temperature" => "gen_ai.request.temperature",
        "finish_reason" => FINISH_REASONS,
        "input_tokens" => "gen_ai.usage.input_tokens",
        "output_tokens" => "gen_ai.usage.output_tokens",
        "session" => "gen_ai.conversation.id",
        "actor" => "gen_ai.agent.name",
        "tool" => "gen_ai.tool.name",
        "call" => "gen_ai.tool.call.id",
        "code" => ERROR,
        "method" => "http.request.method",
        "route" => "http.route",
        "status" => "http.response.status_code",
        _ => return None,
    })
}

/// Converts a text to an attribute value, in the terms of the conventions.
pub(crate) fn text(attribute: &'static str, text: &str) -> Attribute {
    match attribute {
        PROVIDER => Attribute::Text(provider(text).to_owned()),
        FINISH_REASONS => Attribute::Texts(vec![text.to_owned()]),
        _ => Attribute::Text(text.to_owned()),
    }
}

/// Maps a provider to its name in the conventions.
fn provider(name: &str) -> &str {
    match name {
        "openai-responses" => "openai",
        "gemini" | "google" => "gcp.gemini",
        "azure" => "azure.ai.openai",
        "mistral" => "mistral_ai",
        other => other,
    }
}

/// Returns the fields whose values become part of the name of an exported span, such as the model in `chat gpt-5.1`,
/// and whether the span is an operation of the conventions for generative AI.
pub(crate) fn naming(span: &str) -> (&'static [&'static str], bool) {
    match span {
        "chat" => (&["model"], true),
        "invoke_agent" => (&["actor"], true),
        "execute_tool" => (&["tool"], true),
        // The exported name is `POST /api/v1/…`, without the word `request`.
        "request" => (&["method", "route"], false),
        _ => (&[], false),
    }
}
