//! [`Provider`]: a model endpoint that the last message of a request controls, and the runtime of agents.
//!
//! `ask TEXT` asks the user, `fail TEXT` fails, `hold TEXT` waits for [`Provider::release`], `stream TEXT` sends one
//! chunk per word after a false start. Any other message is returned as the answer.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cleveragents_application::{
    AgentRuntime, EffectiveSafety, OperationError, RuntimeOptions, RuntimeRequest,
};
use cleveragents_models::{Catalogue, CatalogueOptions};
use cleveragents_testkit::model_server::{ModelServer, ReceivedRequest, Response, Step, openai};
use serde_json::{Value, json};

/// A model of the provider.
pub(crate) const MODEL: &str = "openai/gpt-5.1";

/// Bytes of a chunk of a streamed answer: more than a server collects before it stores a chunk.
const PIECE_BYTES: usize = 2_000;

/// A model endpoint.
pub(crate) struct Provider {
    endpoint: ModelServer,
    shared: Arc<ProviderState>,
    /// Faults that occur instead of building a runtime; each is used once, the last one first.
    pub(crate) faults: Mutex<Vec<Fault>>,
}

/// A fault of the process that runs agents.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    Internal,
    Panic,
}

#[derive(Default)]
struct ProviderState {
    requests: Mutex<Vec<(String, String)>>,
    is_released: Arc<AtomicBool>,
}

impl ProviderState {
    fn answer(&self, request: &ReceivedRequest) -> Response {
        let body = request.json();
        let messages = body["messages"].as_array().expect("messages");
        let last = messages.last().expect("a message");
        let text = text_of(&last["content"]);
        let model = body["model"].as_str().unwrap_or_default().to_owned();
        self.requests
            .lock()
            .expect("not poisoned")
            .push((model, text.clone()));
        if last["role"] == "tool" {
            let prompt = messages
                .iter()
                .rev()
                .find(|message| message["role"] == "user");
            let prompt = text_of(&prompt.expect("a prompt")["content"]);
            return match prompt.strip_prefix("stream ") {
                Some(words) => stream(words),
                None => openai::text(&[&text]),
            };
        }
        let (word, argument) = text.split_once(' ').unwrap_or((&text, ""));
        match word {
            "ask" => {
                let question = if argument.is_empty() {
                    "what now?"
                } else {
                    argument
                };
                let question = json!({ "question": question }).to_string();
                openai::calls(&[("call-1", "builtin_S_ask-user", &question)])
            }
            "fail" => openai::error(503, "overloaded", argument),
            "hold" => {
                let argument = if argument.is_empty() {
                    "held"
                } else {
                    argument
                };
                let mut answer = openai::text(&[argument]);
                let released = Step::Until(Arc::clone(&self.is_released));
                answer.steps.insert(0, released);
                answer
            }
            "stream" => openai::streamed(
                vec![
                    json!({"content": "false start"}),
                    json!({"tool_calls": [{"index": 0, "id": "call-1", "type": "function",
                        "function": {"name": "builtin_S_no-such-tool", "arguments": "{}"}}]}),
                ],
                "tool_calls",
            ),
            _ => {
                let pieces: Vec<&str> = text.split_inclusive(' ').collect();
                openai::text(&pieces)
            }
        }
    }
}

/// An answer with a long chunk for each word.
fn stream(words: &str) -> Response {
    let pieces = words.split_inclusive(' ');
    let pieces: Vec<String> = pieces
        .map(|word| format!("{word:.<PIECE_BYTES$}"))
        .collect();
    let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
    openai::text(&pieces)
}

fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            texts.collect()
        }
        _ => String::new(),
    }
}

impl Default for Provider {
    fn default() -> Self {
        let shared = Arc::new(ProviderState::default());
        let state = Arc::clone(&shared);
        Self {
            endpoint: ModelServer::answering(move |request| state.answer(request)),
            shared,
            faults: Mutex::default(),
        }
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.release();
    }
}

impl Provider {
    /// Answers held requests, and holds no more requests.
    pub(crate) fn release(&self) {
        self.shared.is_released.store(true, Ordering::SeqCst);
    }

    /// The last message of each request.
    pub(crate) fn prompts(&self) -> Vec<String> {
        let requests = self.shared.requests.lock().expect("not poisoned");
        requests.iter().map(|(_, prompt)| prompt.clone()).collect()
    }

    /// The requested models.
    pub(crate) fn models(&self) -> Vec<String> {
        let requests = self.shared.requests.lock().expect("not poisoned");
        requests.iter().map(|(model, _)| model.clone()).collect()
    }

    /// Waits until a server has closed the connection of a held request.
    pub(crate) fn wait_for_stop(&self) -> bool {
        self.endpoint.wait_for_closed(1)
    }

    /// Builds a runtime of agents that uses this provider.
    pub(crate) fn runtime(
        &self,
        request: &RuntimeRequest<'_>,
        home: &Path,
    ) -> Result<AgentRuntime, OperationError> {
        // A separate statement, so that the lock is released before a panic.
        let fault = self.faults.lock().expect("not poisoned").pop();
        match fault {
            Some(Fault::Internal) => return Err(OperationError::internal("secret detail")),
            Some(Fault::Panic) => panic!("as asked"),
            None => {}
        }
        let url = self.endpoint.url();
        let variables = Arc::new(move |name: &str| match name {
            "OPENAI_BASE_URL" => Some(url.clone()),
            "OPENAI_API_KEY" => Some("sk-test-0123456789abcdefghij".to_owned()),
            _ => None,
        });
        let mut options = CatalogueOptions::new(Arc::clone(&variables) as _, home);
        options.retry.retries = 0;
        AgentRuntime::new(RuntimeOptions {
            engine: Arc::clone(&request.engine),
            catalogue: Catalogue::new(options)?,
            default_model: Some(MODEL.parse().expect("a name")),
            home: home.to_owned(),
            sandboxes: home.join("sandboxes"),
            working_folder: home.to_owned(),
            variables,
            max_message_bytes: 1 << 20,
            budget_per_session: None,
            budget_per_day: None,
            safety: EffectiveSafety::combine(Vec::new(), Vec::new()),
            warn: Arc::new(|_| {}),
        })
    }
}

/// Waits for a condition that becomes true soon.
pub(crate) fn wait_for(condition: &str, mut holds: impl FnMut() -> bool) {
    let started = std::time::Instant::now();
    while !holds() {
        assert!(
            started.elapsed() < Duration::from_mins(1),
            "{condition}: never"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}
