//! Models over HTTP, against a loopback server that answers in the format of each provider.

mod accepted;
mod agents;
mod anthropic;
mod behaviour;
mod chat;
mod fallback;
mod others;
mod parameters;
mod request_limits;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_models::{
    CancellationToken, Catalogue, CatalogueOptions, ChatRequest, Completion, Limits, Model,
    ModelError, RetryPolicy, StreamEvent, ToolDefinition, complete,
};
use cleveragents_testkit::model_server::ModelServer;
use futures_util::StreamExt;
use serde_json::json;

/// The smallest image: one pixel.
const PIXEL: &[u8] =
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";

/// A key that must never appear in any output.
const KEY: &str = "test-key-0123456789-secret";

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime")
}

/// A catalogue in which every provider has the address of the server.
fn catalogue_with(server: &ModelServer, change: impl FnOnce(&mut CatalogueOptions)) -> Catalogue {
    let url = server.url();
    let values: HashMap<String, String> = [
        ("OPENAI_BASE_URL", format!("{url}/v1")),
        ("OPENROUTER_BASE_URL", format!("{url}/v1")),
        ("MISTRAL_BASE_URL", format!("{url}/v1")),
        ("DEEPSEEK_BASE_URL", format!("{url}/v1")),
        ("GROQ_BASE_URL", format!("{url}/v1")),
        ("ANTHROPIC_BASE_URL", url.clone()),
        ("GEMINI_BASE_URL", url.clone()),
        ("OLLAMA_HOST", url.trim_start_matches("http://").to_owned()),
        ("AZURE_OPENAI_ENDPOINT", url),
        ("OPENAI_API_KEY", KEY.to_owned()),
        ("OPENROUTER_API_KEY", KEY.to_owned()),
        ("MISTRAL_API_KEY", KEY.to_owned()),
        ("DEEPSEEK_API_KEY", KEY.to_owned()),
        ("ANTHROPIC_API_KEY", KEY.to_owned()),
        ("GEMINI_API_KEY", KEY.to_owned()),
        ("AZURE_OPENAI_API_KEY", KEY.to_owned()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect();
    let lookup = move |name: &str| values.get(name).cloned();
    let mut options = CatalogueOptions::new(Arc::new(lookup), ".");
    options.retry = RetryPolicy {
        retries: 2,
        first_pause: Duration::from_millis(1),
        longest_pause: Duration::from_secs(2),
    };
    options.limits = Limits {
        first_byte: Duration::from_secs(5),
        idle: Duration::from_secs(5),
        total: Duration::from_secs(20),
        ..Limits::default()
    };
    change(&mut options);
    Catalogue::new(options).expect("a catalogue")
}

fn catalogue(server: &ModelServer) -> Catalogue {
    catalogue_with(server, |_| ())
}

fn open(server: &ModelServer, name: &str) -> Arc<dyn Model> {
    let name = name.parse().expect("a name");
    catalogue(server).open(&name).expect("a model")
}

fn ask(model: &dyn Model, request: ChatRequest) -> Result<Completion, ModelError> {
    runtime().block_on(complete(model, request, CancellationToken::new()))
}

fn events(model: &dyn Model, request: ChatRequest) -> Vec<Result<StreamEvent, ModelError>> {
    runtime().block_on(model.stream(request, CancellationToken::new()).collect())
}

/// The streamed text, concatenated.
fn streamed_text(events: &[Result<StreamEvent, ModelError>]) -> String {
    let texts = events.iter().filter_map(|event| match event {
        Ok(StreamEvent::Text(text)) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

fn with_tools(prompt: &str) -> ChatRequest {
    let mut request = ChatRequest::prompt(prompt);
    request.system = vec!["Be brief.".to_owned()];
    request.tools = [ToolDefinition {
        name: "read".to_owned(),
        description: "Reads a file".to_owned(),
        input_schema: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
    }]
    .into();
    request
}
