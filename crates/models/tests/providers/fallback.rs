//! Tests of fallback chains, and of the contents of a catalogue.

use std::sync::Arc;

use cleveragents_domain::Diagnose;
use cleveragents_models::{
    Catalogue, CatalogueOptions, ChatMessage, ChatRequest, ErrorKind, KeyState, ModelError,
    StreamEvent, UserPart,
};
use cleveragents_testkit::model_server::{ModelServer, Response, anthropic, openai};

use super::{KEY, PIXEL, ask, catalogue_with, events};

fn chain(server: &ModelServer, fallback: &[&str]) -> Catalogue {
    catalogue_with(server, |options| {
        options.fallback = fallback
            .iter()
            .map(|name| name.parse().expect("a name"))
            .collect();
        options.retry.retries = 0;
    })
}

/// Answers in the format of the called provider; OpenAI always fails.
fn only_anthropic() -> ModelServer {
    ModelServer::answering(|request| match request.path.as_str() {
        "/v1/messages" => anthropic::text(&["from anthropic"]),
        _ => openai::error(503, "overloaded", "busy"),
    })
}

#[test]
fn the_fallback_model_answers_and_is_reported() {
    let server = only_anthropic();
    let catalogue = chain(&server, &["groq/x", "anthropic/claude-sonnet-4-5"]);
    let model = catalogue
        .open(&"openai/gpt-5.1".parse().expect("a name"))
        .expect("a model");
    let answer = ask(&*model, ChatRequest::prompt("a")).expect("an answer");
    assert_eq!(answer.message.text, "from anthropic");
    assert_eq!(answer.model.to_string(), "anthropic/claude-sonnet-4-5");
    assert_eq!(answer.attempts, 3);
    assert!(
        answer.cost_micro_usd.is_some(),
        "the price of the answering model"
    );
    assert_eq!(model.name().to_string(), "openai/gpt-5.1");
}

#[test]
fn a_fallback_model_without_the_capability_is_skipped() {
    let server = only_anthropic();
    // DeepSeek's models do not accept images.
    let catalogue = chain(
        &server,
        &["deepseek/deepseek-chat", "anthropic/claude-sonnet-4-5"],
    );
    let model = catalogue
        .open(&"openai/gpt-5.1".parse().expect("a name"))
        .expect("a model");
    let mut request = ChatRequest::prompt("look");
    request.messages.push(
        ChatMessage::User {
            parts: vec![UserPart::Image {
                media_type: "image/png".to_owned(),
                data: PIXEL.to_vec(),
            }],
        }
        .into(),
    );
    let answer = ask(&*model, request).expect("an answer");
    assert_eq!(answer.model.provider(), "anthropic");
    assert_eq!(server.received().len(), 2, "deepseek was not called");
}

/// The catalogue may be wrong, and the user did not agree to send the conversation to another provider.
#[test]
fn an_explicitly_requested_model_is_called_despite_missing_capabilities() {
    let server = ModelServer::answering(|_| openai::text(&["I see"]));
    let catalogue = chain(&server, &["anthropic/claude-sonnet-4-5"]);
    let name = "deepseek/deepseek-chat".parse().expect("a name");
    let mut request = ChatRequest::prompt("look");
    request.messages.push(
        ChatMessage::User {
            parts: vec![UserPart::Image {
                media_type: "image/png".to_owned(),
                data: PIXEL.to_vec(),
            }],
        }
        .into(),
    );
    let answer = ask(&*catalogue.open(&name).expect("a model"), request).expect("an answer");
    assert_eq!(answer.model, name);
}

#[test]
fn a_rejected_request_is_not_sent_to_the_fallback_model() {
    let server = ModelServer::answering(|_| openai::error(400, "invalid_request_error", "bad"));
    let catalogue = chain(&server, &["groq/x"]);
    let model = catalogue
        .open(&"openai/gpt-5.1".parse().expect("a name"))
        .expect("a model");
    let error = ask(&*model, ChatRequest::prompt("a")).expect_err("refused");
    assert_eq!(error.kind(), &ErrorKind::BadRequest);
    assert_eq!(server.received().len(), 1);
}

#[test]
fn an_interrupted_answer_restarts_with_the_next_model() {
    let server = ModelServer::start(vec![
        openai::text(&["half", "way"]).cut_after(1),
        anthropic::text(&["other"]),
    ]);
    let catalogue = chain(&server, &["anthropic/claude-sonnet-4-5"]);
    let model = catalogue
        .open(&"openai/gpt-5.1".parse().expect("a name"))
        .expect("a model");
    let events = events(&*model, ChatRequest::prompt("a"));
    let retry = events.iter().find_map(|event| match event {
        Ok(StreamEvent::Retrying(retry)) => Some(retry),
        _ => None,
    });
    let retry = retry.expect("the fallback is announced");
    assert!(retry.is_fallback());
    assert_eq!(retry.next.to_string(), "anthropic/claude-sonnet-4-5");
    let Some(Ok(StreamEvent::Finished(answer))) = events.last() else {
        panic!("no answer: {events:?}");
    };
    assert_eq!(answer.message.text, "other");
    assert_eq!(answer.attempts, 2);
}

#[test]
fn the_error_is_the_first_failure_and_lists_all_failures() {
    let server = ModelServer::answering(|_| Response::json(503, ""));
    let catalogue = chain(&server, &["groq/x", "together/y"]);
    let model = catalogue
        .open(&"openai/gpt-5.1".parse().expect("a name"))
        .expect("a model");
    let error = ask(&*model, ChatRequest::prompt("a")).expect_err("all fail");
    let shown = error.to_string();
    assert_eq!(error.kind(), &ErrorKind::Overloaded);
    assert!(shown.starts_with("openai/gpt-5.1: "), "{shown}");
    // Together has no key here: its failure is listed, but does not end the chain.
    assert!(
        shown.contains("groq/x") && shown.contains("TOGETHER_API_KEY"),
        "{shown}"
    );
}

fn open(options: CatalogueOptions, name: &str) -> Result<(), ModelError> {
    let catalogue = Catalogue::new(options)?;
    catalogue.open(&name.parse().expect("a name")).map(|_| ())
}

#[test]
fn models_that_cannot_be_opened_report_reason_and_fix() {
    let lookup = |name: &str| match name {
        "GROQ_BASE_URL" => Some("ftp://user:hunter22@host".to_owned()),
        "GROQ_API_KEY" => Some(KEY.to_owned()),
        "OPENAI_API_KEY" => Some("   ".to_owned()),
        "MISTRAL_API_KEY" => Some("two\nlines".to_owned()),
        _ => None,
    };
    for (name, kind, hint) in [
        ("openai/gpt-5.1", ErrorKind::NoKey, "OPENAI_API_KEY"),
        (
            "gemini/x",
            ErrorKind::NoKey,
            "GEMINI_API_KEY or GOOGLE_API_KEY",
        ),
        (
            "opneai/gpt-5.1",
            ErrorKind::UnknownProvider,
            "openai/gpt-5.1",
        ),
        ("zzz/y", ErrorKind::UnknownProvider, "models.yaml"),
        (
            "azure/x",
            ErrorKind::InvalidBaseUrl,
            "AZURE_OPENAI_ENDPOINT",
        ),
        ("groq/x", ErrorKind::InvalidBaseUrl, "https://"),
        ("scripted/none.yaml", ErrorKind::FileAccess, "path"),
        ("replay/none.jsonl", ErrorKind::FileAccess, "path"),
    ] {
        let options = CatalogueOptions::new(Arc::new(lookup), ".");
        let error = open(options, name).expect_err(name);
        assert_eq!(error.kind(), &kind, "{name}: {error}");
        let actual_hint = error.hint().expect("a hint").neutral();
        assert!(actual_hint.contains(hint), "{name}: {actual_hint}");
        assert!(!error.to_string().contains("hunter22"), "{error}");
    }
    let options = CatalogueOptions::new(Arc::new(lookup), ".");
    let catalogue = Catalogue::new(options).expect("a catalogue");
    let model = catalogue
        .open(&"mistral/x".parse().expect("a name"))
        .expect("a model");
    let error = ask(&*model, ChatRequest::prompt("a")).expect_err("no such key");
    assert_eq!(error.kind(), &ErrorKind::Auth);
    assert!(!error.to_string().contains("two"), "{error}");
}

#[test]
fn a_provider_and_its_prices_can_be_described() {
    let server = ModelServer::start(vec![openai::text(&["mine"])]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("models.yaml");
    let text = format!(
        "providers:
  mine: {{base_url: '{}/deep/v1', key_variable: MINE_KEY, headers: {{x-team: blue}}}}
models:
  mine/fast: {{price: {{input: 1, output: 100}}, capabilities: {{context_window: 1000}}}}
  openai/gpt-5.1: {{price: {{input: 9, output: 9}}}}
",
        server.url()
    );
    std::fs::write(&file, text).expect("a file");
    let lookup = |name: &str| (name == "MINE_KEY").then(|| KEY.to_owned());
    let mut options = CatalogueOptions::new(Arc::new(lookup), ".");
    options.file = Some(file);
    let catalogue = Catalogue::new(options).expect("a catalogue");
    let name = "mine/fast".parse().expect("a name");
    let answer = ask(
        &*catalogue.open(&name).expect("a model"),
        ChatRequest::prompt("a"),
    );
    // 20 tokens at 1 and 10 at 100 dollars per million.
    assert_eq!(
        answer.expect("an answer").cost_micro_usd.map(|cost| cost.0),
        Some(1020)
    );
    let request = &server.received()[0];
    assert_eq!(request.path, "/deep/v1/chat/completions");
    assert_eq!(request.header("x-team"), Some("blue"));
    assert_eq!(
        request.header("authorization"),
        Some(&*format!("Bearer {KEY}"))
    );

    let entry = catalogue.entry(&name).expect("an entry");
    assert_eq!(entry.capabilities.context_window, Some(1000));
    assert_eq!(
        entry.key,
        KeyState::Variable {
            name: "MINE_KEY".to_owned()
        }
    );
    let changed = catalogue
        .entry(&"openai/gpt-5.1".parse().expect("a name"))
        .expect("an entry");
    assert_eq!(
        changed.price.map(|price| price.usual.input.0),
        Some(9_000_000)
    );
    assert!(!changed.is_available(), "there is no key");
    assert!(
        catalogue
            .list()
            .iter()
            .any(|entry| entry.name == name && entry.is_available())
    );
    assert!(catalogue.key_variables().contains(&"MINE_KEY".to_owned()));
    assert_eq!(catalogue.redactor().text(KEY), "[REDACTED]");
}

#[test]
fn a_key_in_the_keyring_is_looked_up_once() {
    let server = ModelServer::start(vec![openai::error(401, "x", &format!("bad {KEY}"))]);
    let url = server.url();
    let lookups = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = Arc::clone(&lookups);
    let lookup = move |name: &str| (name == "OPENAI_BASE_URL").then(|| url.clone());
    let mut options = CatalogueOptions::new(Arc::new(lookup), ".");
    options.keyring = Some(Arc::new(move |name: &str| {
        counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        (name == "OPENAI_API_KEY").then(|| KEY.to_owned())
    }));
    let catalogue = Catalogue::new(options).expect("a catalogue");
    let name = "openai/x".parse().expect("a name");
    let entry = catalogue.entry(&name).expect("an entry");
    assert_eq!(
        entry.key,
        KeyState::Keyring {
            name: "OPENAI_API_KEY".to_owned()
        }
    );
    let model = catalogue.open(&name).expect("a model");
    let error = ask(&*model, ChatRequest::prompt("a")).expect_err("refused");
    assert!(!error.to_string().contains(KEY), "{error}");
    let sent = format!("Bearer {KEY}");
    assert_eq!(
        server.received()[0].header("authorization"),
        Some(sent.as_str())
    );
    assert_eq!(lookups.load(std::sync::atomic::Ordering::SeqCst), 1);
}
