//! Remote agents over A2A, against a loopback server that behaves like an agent, or misbehaves.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use cleveragents_domain::{Code, Diagnose as _, RemoteAgent};
use cleveragents_models::{
    AssistantMessage, CancellationToken, Catalogue, CatalogueOptions, ChatMessage, ChatRequest,
    ErrorKind, Limits, Model, ModelError, RetryPolicy, StopReason, StreamEvent, ToolResult,
};
use cleveragents_testkit::model_server::{ModelServer, ReceivedRequest, Response, Step};
use futures_util::StreamExt as _;
use serde_json::{Value, json};

use super::{ask, events, runtime, streamed_text};

const TOKEN: &str = "agent-token-0123456789";

fn catalogue(change: impl FnOnce(&mut CatalogueOptions)) -> Catalogue {
    let values: HashMap<&str, &str> = [
        ("A2A_TOKEN", TOKEN),
        ("OPENAI_API_KEY", "openai-key-0123456789"),
    ]
    .into();
    let lookup = move |name: &str| values.get(name).map(|value| (*value).to_owned());
    let mut options = CatalogueOptions::new(Arc::new(lookup), ".");
    options.private_agents = true;
    options.retry = RetryPolicy {
        retries: 2,
        first_pause: Duration::from_millis(1),
        longest_pause: Duration::from_secs(2),
    };
    options.limits = Limits {
        total: Duration::from_secs(20),
        ..Limits::default()
    };
    change(&mut options);
    Catalogue::new(options).expect("a catalogue")
}

fn remote(url: &str) -> RemoteAgent {
    RemoteAgent {
        url: url.to_owned(),
        token_variable: None,
        timeout: None,
    }
}

fn open(server: &ModelServer) -> Arc<dyn Model> {
    open_as(&remote(&server.url()))
}

fn open_as(agent: &RemoteAgent) -> Arc<dyn Model> {
    catalogue(|_| ())
        .open_agent("acme/helper", agent)
        .expect("an agent")
}

fn error_of(server: &ModelServer) -> ModelError {
    ask(&*open(server), ChatRequest::prompt("hi")).expect_err("no answer")
}

/// Address of the server, taken from a request.
fn address(request: &ReceivedRequest) -> String {
    format!("http://{}", request.header("host").expect("a host"))
}

fn card(request: &ReceivedRequest, streams: bool) -> Response {
    let url = format!("{}/rpc", address(request));
    let card = json!({"name": "Helper", "capabilities": {"streaming": streams}, "supportedInterfaces": [
        {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
    ]});
    Response::json(200, &card.to_string())
}

/// Starts an agent, with or without streaming. `answer` receives the method and the parameters of each call.
fn agent(
    streams: bool,
    answer: impl Fn(&str, &Value) -> Response + Send + Sync + 'static,
) -> ModelServer {
    ModelServer::answering(move |request| {
        if request.path.starts_with("/.well-known/") {
            return card(request, streams);
        }
        let call = request.json();
        answer(call["method"].as_str().expect("a method"), &call["params"])
    })
}

fn result(value: &Value) -> Response {
    let body = json!({"jsonrpc": "2.0", "id": 1, "result": value});
    Response::json(200, &body.to_string())
}

fn refusal(code: i64, message: &str) -> Response {
    let body = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": message}});
    Response::json(200, &body.to_string())
}

fn stream(values: &[Value]) -> Response {
    let all = values.iter();
    Response::events(all.map(|value| json!({"jsonrpc": "2.0", "id": 1, "result": value})))
}

fn task(state: &str, text: &str) -> Value {
    json!({"task": {"id": "task-1", "contextId": "context-1",
        "status": {"state": state, "message": {"role": "ROLE_AGENT", "parts": [{"text": text}]}}}})
}

fn artifact_event(text: &str, is_appended: bool) -> Value {
    json!({"artifactUpdate": {"taskId": "task-1", "contextId": "context-1", "append": is_appended,
        "artifact": {"artifactId": "a", "parts": [{"text": text}]}}})
}

fn status(state: &str) -> Value {
    json!({"statusUpdate": {"taskId": "task-1", "contextId": "context-1", "status": {"state": state}}})
}

/// The received methods and parameters, without requests for the card.
fn received_calls(server: &ModelServer) -> Vec<(String, Value)> {
    let received = server.received();
    let calls = received
        .iter()
        .filter(|request| !request.path.starts_with("/.well-known/"));
    calls
        .map(|request| {
            let call = request.json();
            let method = call["method"].as_str().unwrap_or_default().to_owned();
            (method, call["params"].clone())
        })
        .collect()
}

#[test]
fn an_answer_is_streamed_after_the_task_is_reported() {
    let server = agent(true, |_, _| {
        stream(&[
            task("TASK_STATE_SUBMITTED", ""),
            json!({"statusUpdate": {"taskId": "task-1", "contextId": "context-1",
                "status": {"state": "TASK_STATE_WORKING", "message": {"parts": [{"text": "reading"}]}}}}),
            artifact_event("Hello", false),
            artifact_event(" there", true),
            status("TASK_STATE_COMPLETED"),
        ])
    });
    let mut request = ChatRequest::prompt("hi");
    request.key = Some("turn-1".to_owned());
    let received_events = events(&*open(&server), request);
    assert!(
        matches!(&received_events[0], Ok(StreamEvent::Noted(note)) if note["task"] == "task-1"),
        "{received_events:?}"
    );
    assert_eq!(
        received_events[1],
        Ok(StreamEvent::Reasoning("reading\n".to_owned()))
    );
    assert_eq!(streamed_text(&received_events), "Hello there");
    let Some(Ok(StreamEvent::Finished(answer))) = received_events.last() else {
        panic!("{received_events:?}");
    };
    assert_eq!(answer.message.text, "Hello there");
    assert_eq!(answer.model.to_string(), "a2a/acme/helper");
    let received_calls = received_calls(&server);
    assert_eq!(received_calls.len(), 1);
    let (method, params) = &received_calls[0];
    assert_eq!(method, "SendStreamingMessage");
    assert_eq!(
        params["message"],
        json!({"messageId": "turn-1", "role": "ROLE_USER", "parts": [{"text": "hi"}]})
    );
    let last = server.received().pop().expect("a request");
    assert_eq!(last.header("a2a-version"), Some("1.0"));
    assert_eq!(last.header("authorization"), None);
}

#[test]
fn an_agent_without_streaming_is_polled_until_it_is_done() {
    let polls = AtomicUsize::new(0);
    let server = agent(false, move |method, _| match method {
        "SendMessage" => result(&task("TASK_STATE_WORKING", "")),
        _ if polls.fetch_add(1, Ordering::SeqCst) < 2 => {
            result(&task("TASK_STATE_WORKING", "")["task"])
        }
        _ => result(
            &json!({"id": "task-1", "contextId": "context-1", "status": {"state": "TASK_STATE_COMPLETED"},
                "artifacts": [{"artifactId": "a", "parts": [{"text": "done"}]}]}),
        ),
    });
    let answer = ask(&*open(&server), ChatRequest::prompt("hi")).expect("an answer");
    assert_eq!(answer.message.text, "done");
    let received_calls = received_calls(&server);
    let methods: Vec<&str> = received_calls
        .iter()
        .map(|(method, _)| method.as_str())
        .collect();
    assert_eq!(methods, ["SendMessage", "GetTask", "GetTask", "GetTask"]);
    assert_eq!(
        received_calls[0].1["configuration"]["returnImmediately"],
        true
    );
    assert_eq!(received_calls[1].1["id"], "task-1");
}

#[test]
fn the_http_json_binding_and_direct_messages_are_supported() {
    let server = ModelServer::answering(|request| {
        if request.path.starts_with("/.well-known/") {
            let url = format!("{}/rest/", address(request));
            let card = json!({"supportedInterfaces": [
                {"url": url, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0", "tenant": "acme"},
            ]});
            return Response::json(200, &card.to_string());
        }
        assert_eq!(request.path, "/rest/acme/message:send");
        let prompt = request.json()["message"]["parts"][0]["text"].clone();
        let message = json!({"message": {"messageId": "m", "contextId": "c", "role": "ROLE_AGENT", "parts": [{"text": prompt}]}});
        Response::json(200, &message.to_string())
    });
    let answer = ask(&*open(&server), ChatRequest::prompt("echo")).expect("an answer");
    assert_eq!(answer.message.text, "echo");
}

#[test]
fn the_previous_protocol_version_is_used_with_older_agents() {
    let server = ModelServer::answering(|request| {
        if request.path == "/.well-known/agent-card.json" {
            return Response::json(404, "{}");
        }
        if request.path == "/.well-known/agent.json" {
            let card = json!({"url": format!("{}/", address(request)), "protocolVersion": "0.3.0", "preferredTransport": "JSONRPC",
                "capabilities": {"streaming": true}});
            return Response::json(200, &card.to_string());
        }
        let call = request.json();
        assert_eq!(call["method"], "message/stream");
        assert_eq!(call["params"]["message"]["kind"], "message");
        assert_eq!(call["params"]["message"]["role"], "user");
        stream(&[
            json!({"kind": "task", "id": "t", "contextId": "c", "status": {"state": "submitted"}}),
            json!({"kind": "artifact-update", "taskId": "t", "contextId": "c",
                "artifact": {"artifactId": "a", "parts": [{"kind": "text", "text": "old"}]}}),
            json!({"kind": "status-update", "taskId": "t", "contextId": "c", "status": {"state": "completed"}, "final": true}),
        ])
    });
    let answer = ask(&*open(&server), ChatRequest::prompt("hi")).expect("an answer");
    assert_eq!(answer.message.text, "old");
}

/// Builds the next request of a conversation from the first answer and the message after it.
fn next(first: AssistantMessage, then: ChatMessage) -> ChatRequest {
    ChatRequest {
        messages: vec![
            ChatMessage::user("first").into(),
            ChatMessage::Assistant(first).into(),
            then.into(),
        ],
        ..ChatRequest::default()
    }
}

#[test]
fn a_conversation_continues_in_its_context() {
    let server = agent(false, |_, params| {
        let context = params["message"]["contextId"].as_str().unwrap_or("made");
        result(&json!({"message": {"contextId": context, "parts": [{"text": "ok"}]}}))
    });
    let model = open(&server);
    let first = ask(&*model, ChatRequest::prompt("first")).expect("an answer");
    let request = next(first.message, ChatMessage::user("second"));
    ask(&*model, request).expect("an answer");
    let received_calls = received_calls(&server);
    assert_eq!(received_calls[0].1["message"].get("contextId"), None);
    assert_eq!(received_calls[1].1["message"]["contextId"], "made");
    assert_eq!(
        received_calls[1].1["message"]["parts"],
        json!([{"text": "second"}])
    );
}

#[test]
fn a_question_of_the_agent_is_answered_by_the_user_in_the_same_task() {
    let server = agent(true, |_, params| {
        if params["message"]["taskId"] == "task-1" {
            return stream(&[
                task("TASK_STATE_WORKING", ""),
                artifact_event("blue it is", false),
                status("TASK_STATE_COMPLETED"),
            ]);
        }
        stream(&[
            task("TASK_STATE_SUBMITTED", ""),
            json!({"statusUpdate": {"taskId": "task-1", "contextId": "context-1",
                "status": {"state": "TASK_STATE_INPUT_REQUIRED", "message": {"parts": [{"text": "which colour?"}]}}}}),
        ])
    });
    let model = open(&server);
    let first = ask(&*model, ChatRequest::prompt("first")).expect("an answer");
    assert_eq!(first.stop, StopReason::ToolCalls);
    let call = first.message.calls.first().expect("a call").clone();
    assert_eq!(call.name, "builtin_S_ask-user");
    let arguments: Value = serde_json::from_str(&call.arguments).expect("JSON");
    assert_eq!(arguments, json!({"question": "which colour?"}));
    let answered = ChatMessage::Tool {
        results: vec![ToolResult {
            call_id: call.id,
            content: "blue".to_owned(),
            is_error: false,
            pictures: Vec::new(),
        }],
    };
    let last = ask(&*model, next(first.message, answered)).expect("an answer");
    assert_eq!(last.message.text, "blue it is");
    let message = &received_calls(&server)[1].1["message"];
    assert_eq!(message["parts"], json!([{"text": "blue"}]));
    assert_eq!(message["contextId"], "context-1");
    // The task has ended, so the next request starts another one.
    let third = ask(&*model, next(last.message, ChatMessage::user("more"))).expect("an answer");
    assert_eq!(third.stop, StopReason::ToolCalls);
    assert_eq!(received_calls(&server)[2].1["message"].get("taskId"), None);
}

#[test]
fn a_request_that_was_sent_before_is_not_sent_twice() {
    let server = agent(true, |method, _| match method {
        "GetTask" => result(&task("TASK_STATE_WORKING", "")["task"]),
        "SubscribeToTask" => stream(&[
            task("TASK_STATE_WORKING", ""),
            artifact_event("found once more", false),
            status("TASK_STATE_COMPLETED"),
        ]),
        other => panic!("{other} is not needed"),
    });
    let mut request = ChatRequest::prompt("hi");
    let url = format!("{}/rpc", server.url());
    request.noted = Some(json!({"url": url, "task": "task-1", "context": "context-1"}));
    let answer = ask(&*open(&server), request).expect("an answer");
    assert_eq!(answer.message.text, "found once more");
}

#[test]
fn a_cancelled_or_forgotten_task_is_sent_again() {
    let cancelled = agent(false, |method, _| match method {
        "GetTask" => result(&task("TASK_STATE_CANCELED", "")["task"]),
        _ => result(&json!({"message": {"parts": [{"text": "anew"}]}})),
    });
    let forgotten = agent(false, |method, _| match method {
        "GetTask" => refusal(-32001, "Task not found"),
        _ => result(&json!({"message": {"parts": [{"text": "anew"}]}})),
    });
    for (server, id) in [(&cancelled, "turn-1-1"), (&forgotten, "turn-1")] {
        let mut request = ChatRequest::prompt("hi");
        let url = format!("{}/rpc", server.url());
        request.key = Some("turn-1".to_owned());
        request.noted = Some(json!({"url": url, "task": "task-1"}));
        let answer = ask(&*open(server), request).expect("an answer");
        assert_eq!(answer.message.text, "anew");
        assert_eq!(received_calls(server)[1].1["message"]["messageId"], id);
    }
}

#[test]
fn an_interrupted_stream_is_resumed() {
    let server = agent(true, |method, _| match method {
        "SendStreamingMessage" => stream(&[
            task("TASK_STATE_WORKING", ""),
            artifact_event("half", false),
        ])
        .then(Step::Cut),
        "SubscribeToTask" => refusal(-32004, "no"),
        _ => result(
            &json!({"id": "task-1", "contextId": "context-1", "status": {"state": "TASK_STATE_COMPLETED"},
                "artifacts": [{"artifactId": "a", "parts": [{"text": "half and whole"}]}]}),
        ),
    });
    let received_events = events(&*open(&server), ChatRequest::prompt("hi"));
    assert_eq!(streamed_text(&received_events), "half and whole");
}

#[test]
fn failed_tasks_are_errors() {
    for (state, word) in [
        ("TASK_STATE_FAILED", "the agent failed: oh no"),
        ("TASK_STATE_REJECTED", "the agent rejected the task: oh no"),
        ("TASK_STATE_CANCELED", "the agent cancelled the task: oh no"),
        ("TASK_STATE_AUTH_REQUIRED", "requires a login: oh no"),
    ] {
        let server = agent(false, move |_, _| result(&task(state, "oh no")));
        let error = error_of(&server);
        assert_eq!(error.code(), Code::RemoteAgent);
        assert!(error.to_string().contains(word), "{error}");
        assert!(!error.is_retryable());
    }
}

#[test]
fn unreadable_responses_are_errors() {
    let no_json = ModelServer::answering(|_| Response::json(200, "<html>"));
    let no_card = ModelServer::answering(|_| Response::json(404, ""));
    let no_use = ModelServer::answering(|_| Response::json(200, "{\"name\": \"x\"}"));
    let no_rpc = agent(false, |_, _| Response::json(200, "{}"));
    let no_state = agent(false, |_, _| result(&task("TASK_STATE_ODD", "")));
    let no_task = agent(false, |_, _| {
        result(&json!({"task": {"status": {"state": "TASK_STATE_WORKING"}}}))
    });
    for (server, word) in [
        (&no_json, "its card is not JSON"),
        (&no_card, "there is no card"),
        (&no_use, "no supported interface"),
        (&no_rpc, "not JSON-RPC"),
        (&no_state, "`TASK_STATE_ODD`"),
        (&no_task, "neither an answer nor a task"),
    ] {
        let error = error_of(server);
        assert_eq!(error.code(), Code::RemoteAgent, "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn statuses_and_refusals_map_to_errors() {
    for (status, code) in [
        (401, Code::ModelKeyRefused),
        (403, Code::ModelKeyRefused),
        (500, Code::ModelOverloaded),
        (429, Code::ModelRateLimited),
        (400, Code::RemoteAgent),
        (302, Code::RemoteAgent),
    ] {
        let server = agent(false, move |_, _| {
            Response::json(status, "{}").header("location", "http://127.0.0.1:1/")
        });
        let error = error_of(&server);
        assert_eq!(
            (error.code(), error.status()),
            (code, Some(status)),
            "{error}"
        );
        // A request that the agent may have accepted is not sent again.
        let sent = received_calls(&server).len();
        assert_eq!(sent, if status == 429 { 3 } else { 1 }, "{status}");
    }
    let server = agent(false, |_, _| refusal(-32005, "no pictures"));
    let error = error_of(&server).to_string();
    assert!(error.contains("no pictures (code -32005)"), "{error}");
}

#[test]
fn reading_stops_at_the_size_limit() {
    let large = agent(true, |_, _| {
        Response::events([""; 0]).then(Step::Endless(vec![b'x'; 1 << 16]))
    });
    let error = error_of(&large);
    assert!(error.to_string().contains("more than"), "{error}");
    assert!(large.wait_for_closed(1));
    let card = ModelServer::answering(|_| {
        Response::json(200, "").then(Step::Endless(vec![b' '; 1 << 16]))
    });
    let error = error_of(&card);
    assert!(error.to_string().contains("1048576 bytes"), "{error}");
}

#[test]
fn a_hanging_agent_times_out() {
    let server = agent(true, |method, _| match method {
        "CancelTask" => result(&task("TASK_STATE_CANCELED", "")["task"]),
        _ => stream(&[task("TASK_STATE_WORKING", "")]).then(Step::Hang),
    });
    let mut agent = remote(&server.url());
    agent.timeout = Some(Duration::from_millis(300));
    let error = ask(&*open_as(&agent), ChatRequest::prompt("hi")).expect_err("no answer");
    assert_eq!(error.kind(), &ErrorKind::Timeout);
    assert!(
        error
            .hint()
            .expect("a hint")
            .neutral()
            .contains("timeout_seconds")
    );
}

#[test]
fn cancelling_a_call_cancels_the_remote_task() {
    let (reached, waits) = mpsc::channel();
    let server = agent(true, move |method, _| match method {
        "CancelTask" => result(&task("TASK_STATE_CANCELED", "")["task"]),
        _ => stream(&[task("TASK_STATE_WORKING", "")])
            .then(Step::Note(reached.clone()))
            .then(Step::Hang),
    });
    let model = open(&server);
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let received_events: Vec<_> = runtime().block_on(async {
        let mut stream = model.stream(ChatRequest::prompt("hi"), cancel);
        let noted = stream.next().await;
        waits.recv().expect("the agent works");
        stop.cancel();
        let rest: Vec<_> = stream.collect().await;
        noted.into_iter().chain(rest).collect()
    });
    let error = received_events
        .last()
        .expect("an event")
        .as_ref()
        .expect_err("stopped");
    assert_eq!(error.kind(), &ErrorKind::Cancelled);
    let received_calls = received_calls(&server);
    let (method, params) = received_calls.last().expect("a call");
    assert_eq!(
        (method.as_str(), &params["id"]),
        ("CancelTask", &json!("task-1"))
    );
}

#[test]
fn private_addresses_are_called_only_when_allowed() {
    let server = agent(false, |_, _| result(&json!({"message": {"parts": []}})));
    let strict = catalogue(|options| options.private_agents = false);
    for url in [server.url(), "https://localhost:1".to_owned()] {
        let model = strict.open_agent("acme/helper", &remote(&url));
        let error =
            ask(&*model.expect("an agent"), ChatRequest::prompt("hi")).expect_err("refused");
        assert_eq!(error.code(), Code::AddressRefused);
        let hint = error.hint().expect("a hint").neutral();
        assert!(hint.contains("a2a.allow-private-addresses"), "{hint}");
    }
    assert_eq!(server.connections(), 0);
    // A card must not contain a private address either. A test server has no public address, so this checks only the
    // rule for addresses.
    assert!(cleveragents_outbound::check("https://127.0.0.1/rpc", false).is_err());
}

#[test]
fn the_token_is_sent_only_to_the_agent() {
    let server = agent(false, |_, params| {
        let prompt = params["message"]["parts"][0]["text"]
            .as_str()
            .unwrap_or_default();
        result(
            &json!({"message": {"contextId": "c", "parts": [{"text": format!("{prompt}: {TOKEN}")}]}}),
        )
    });
    let mut agent_file = remote(&server.url());
    agent_file.token_variable = Some("A2A_TOKEN".to_owned());
    let received_events = events(&*open_as(&agent_file), ChatRequest::prompt("your token"));
    assert!(
        !format!("{received_events:?}").contains(TOKEN),
        "{received_events:?}"
    );
    assert!(streamed_text(&received_events).contains("[REDACTED]"));
    let last = server.received().pop().expect("a request");
    let bearer = format!("Bearer {TOKEN}");
    assert_eq!(last.header("authorization"), Some(bearer.as_str()));

    // An agent that returns the token as an id is refused.
    let thief = agent(false, |_, _| {
        result(&json!({"message": {"contextId": TOKEN, "parts": [{"text": "x"}]}}))
    });
    agent_file.url = thief.url();
    let error = ask(&*open_as(&agent_file), ChatRequest::prompt("hi")).expect_err("refused");
    assert!(error.to_string().contains("contains a secret"), "{error}");

    // The token is not sent to the address in a card of another host.
    let elsewhere = server.url();
    let lure = ModelServer::answering(move |_| {
        let card = json!({"supportedInterfaces": [
            {"url": format!("{elsewhere}/rpc"), "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]});
        Response::json(200, &card.to_string())
    });
    let before = server.received().len();
    agent_file.url = lure.url();
    let error = ask(&*open_as(&agent_file), ChatRequest::prompt("hi")).expect_err("refused");
    assert_eq!(error.code(), Code::ModelKeyRefused, "{error}");
    assert_eq!(server.received().len(), before);
    assert!(!format!("{error} {error:?}").contains(TOKEN));
}

#[test]
fn actor_files_cannot_send_other_secrets() {
    let models = catalogue(|_| ());
    let mut agent = remote("https://agents.example/openai-key-0123456789");
    let error = models
        .open_agent("acme/helper", &agent)
        .err()
        .expect("refused");
    assert_eq!(error.code(), Code::AddressRefused);
    assert!(!error.to_string().contains("openai-key"), "{error}");
    agent.url = "https://agents.example".to_owned();
    for variable in ["OPENAI_API_KEY", "A2A_UNSET"] {
        agent.token_variable = Some(variable.to_owned());
        let error = models
            .open_agent("acme/helper", &agent)
            .err()
            .expect("refused");
        assert_eq!(error.code(), Code::ModelKeyMissing, "{error}");
    }
}
