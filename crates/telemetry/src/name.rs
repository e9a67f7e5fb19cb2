//! The names of attributes, as the semantic conventions of OpenTelemetry have them.

/// What is done: [`CHAT`], [`INVOKE_AGENT`] or [`EXECUTE_TOOL`].
pub const OPERATION: &str = "gen_ai.operation.name";
/// Who offers the model.
pub const PROVIDER: &str = "gen_ai.provider.name";
/// The model that was asked.
pub const REQUEST_MODEL: &str = "gen_ai.request.model";
/// The model that answered.
pub const RESPONSE_MODEL: &str = "gen_ai.response.model";
/// The longest answer that was allowed, in tokens.
pub const MAX_TOKENS: &str = "gen_ai.request.max_tokens";
/// How freely the model chose words.
pub const TEMPERATURE: &str = "gen_ai.request.temperature";
/// Why the answer ended.
pub const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
/// What the model read, in tokens.
pub const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
/// What it wrote, in tokens.
pub const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
/// The session.
pub const CONVERSATION: &str = "gen_ai.conversation.id";
/// The actor.
pub const AGENT: &str = "gen_ai.agent.name";
/// The tool.
pub const TOOL: &str = "gen_ai.tool.name";
/// The id that the model gave the call.
pub const TOOL_CALL: &str = "gen_ai.tool.call.id";
/// What kind of tool it is.
pub const TOOL_TYPE: &str = "gen_ai.tool.type";
/// What went wrong: a stable code.
pub const ERROR: &str = "error.type";
/// The method of a request.
pub const METHOD: &str = "http.request.method";
/// The route of a request, with its places.
pub const ROUTE: &str = "http.route";
/// The status of an answer.
pub const STATUS: &str = "http.response.status_code";

/// A question to a model.
pub const CHAT: &str = "chat";
/// A turn of an actor, or a question to an agent on another machine.
pub const INVOKE_AGENT: &str = "invoke_agent";
/// A call of a tool.
pub const EXECUTE_TOOL: &str = "execute_tool";

/// A provider as the conventions call it.
pub fn provider(name: &str) -> &str {
    match name {
        "openai-responses" => "openai",
        "gemini" | "google" => "gcp.gemini",
        "azure" => "azure.ai.openai",
        "mistral" => "mistral_ai",
        other => other,
    }
}
