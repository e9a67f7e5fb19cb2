//! Server and client of the tests.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cleveragents_application::{
    Application, OperationSettings, PlanSettings, ProcessEnvironment, RuntimeRequest, SandboxPolicy,
};
use cleveragents_domain::identity::{Grant, Scope};
use cleveragents_domain::{Timestamp, TokenId};
use cleveragents_server::{Conformance, Options, serve};
use cleveragents_store::{Engine, tokens};
use cleveragents_testkit::TestDatabase;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::provider::{MODEL, Provider};

/// Timeout of every wait in a test.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// A running server.
pub(crate) struct Server {
    pub(crate) url: String,
    pub(crate) provider: Arc<Provider>,
    pub(crate) engine: Arc<Engine>,
    /// The home of the program, and other files of a test.
    pub(crate) folder: tempfile::TempDir,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Options of a conformance server on this machine.
pub(crate) fn local_options() -> Options {
    Options {
        address: SocketAddr::from(([127, 0, 0, 1], 0)),
        insecure_local: true,
        allow_private_addresses: true,
        conformance: Some(Conformance::Full),
        drain: Duration::from_secs(10),
        ..Options::default()
    }
}

/// Options of a server whose turns are answered by a [`Provider`].
pub(crate) fn provider_options() -> Options {
    Options {
        conformance: None,
        actor: Some(MODEL.to_owned()),
        // Short, so that a stopping server interrupts held work soon.
        drain: Duration::from_millis(300),
        ..local_options()
    }
}

impl Server {
    pub(crate) fn start(database: &TestDatabase, options: Options) -> Self {
        Self::with_provider(database, options, Arc::default())
    }

    pub(crate) fn with_provider(
        database: &TestDatabase,
        options: Options,
        provider: Arc<Provider>,
    ) -> Self {
        Self::on(database.open(), options, provider)
    }

    pub(crate) fn on(engine: Arc<Engine>, options: Options, provider: Arc<Provider>) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let (announce, address) = std::sync::mpsc::channel();
        let folder = tempfile::tempdir().expect("a folder");
        let application = application(Arc::clone(&engine), &provider, folder.path());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .expect("a runtime");
            runtime
                .block_on(serve(
                    application,
                    options,
                    |address| announce.send(address).expect("the test waits"),
                    async {
                        let _stopped = stopped.await;
                    },
                ))
                .expect("serves");
        });
        let address = address.recv_timeout(TIMEOUT).expect("it listens");
        Self {
            url: format!("http://{address}"),
            provider,
            engine,
            folder,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Stops the server and waits until it has stopped.
    pub(crate) fn end(mut self) {
        self.halt();
    }

    fn halt(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it ends well");
        }
    }

    pub(crate) fn client(&self) -> Client {
        Client::to(&self.url)
    }

    /// A client with a token that has these grants.
    pub(crate) fn with_grants(&self, name: &str, grants: &[&str], scopes: &[Scope]) -> Client {
        let secret = format!("ca_{name}");
        let token = tokens::Token {
            id: TokenId::generate(),
            name: name.to_owned(),
            secret_hash: cleveragents_domain::ContentHash::of_bytes(secret.as_bytes()).hex(),
            scopes: scopes.iter().copied().collect(),
            grants: grants
                .iter()
                .map(|grant| grant.parse::<Grant>().expect("a grant"))
                .collect(),
            created_by: "test".to_owned(),
            created_at: Timestamp::now(),
            expires_at: None,
            revoked_at: None,
            last_used_at: None,
        };
        let stored = self.engine.write(move |unit| tokens::insert(unit, &token));
        assert!(stored.expect("stored"));
        let mut client = self.client();
        client
            .headers
            .push(("authorization", format!("Bearer {secret}")));
        client
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.halt();
    }
}

/// An HTTP response.
#[derive(Debug)]
pub(crate) struct HttpAnswer {
    pub(crate) status: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) text: String,
}

impl HttpAnswer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("not JSON: {}", self.text))
    }

    pub(crate) fn kind(&self) -> &str {
        self.headers
            .get("content-type")
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    }
}

pub(crate) struct Client {
    url: String,
    runtime: tokio::runtime::Runtime,
    http: reqwest::Client,
    pub(crate) headers: Vec<(&'static str, String)>,
}

/// The binding by which a method is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum A2aBinding {
    Rpc,
    Rest,
}

pub(crate) const BINDINGS: [A2aBinding; 2] = [A2aBinding::Rpc, A2aBinding::Rest];

/// A stream of events.
pub(crate) struct Events<'a> {
    client: &'a Client,
    response: reqwest::Response,
    buffer: String,
    pub(crate) binding: A2aBinding,
}

impl Events<'_> {
    /// The next event as it was sent; `None` at the end of the stream.
    pub(crate) fn raw(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.find("\n\n") {
                let event: String = self.buffer.drain(..end + 2).collect();
                let data = event.lines().find_map(|line| line.strip_prefix("data: "));
                if let Some(data) = data {
                    return Some(serde_json::from_str(data).expect("one line of JSON"));
                }
                continue;
            }
            let chunk = self.client.runtime.block_on(async {
                tokio::time::timeout(TIMEOUT, self.response.chunk())
                    .await
                    .expect("in time")
                    .expect("no broken answer")
            })?;
            self.buffer
                .push_str(std::str::from_utf8(&chunk).expect("text"));
        }
    }

    /// The next update.
    pub(crate) fn next(&mut self) -> Option<Value> {
        let event = self.raw()?;
        match self.binding {
            A2aBinding::Rest => Some(event),
            A2aBinding::Rpc => {
                assert_eq!(event["jsonrpc"], "2.0");
                assert!(event.get("id").is_some());
                Some(event["result"].clone())
            }
        }
    }

    /// All remaining updates.
    pub(crate) fn rest(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.next()).collect()
    }
}

impl Client {
    pub(crate) fn to(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            runtime: tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .expect("a runtime"),
            http: reqwest::Client::builder()
                .tls_backend_preconfigured(no_tls())
                .no_proxy()
                .build()
                .expect("a client"),
            headers: vec![("a2a-version", "1.0".to_owned())],
        }
    }

    /// The same client with another value of a header; `None` removes it.
    pub(crate) fn header(mut self, name: &'static str, value: Option<&str>) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        if let Some(value) = value {
            self.headers.push((name, value.to_owned()));
        }
        self
    }

    fn send_request(&self, verb: &str, path: &str, body: Option<&str>) -> reqwest::Response {
        let verb = verb.parse::<http::Method>().expect("a verb");
        let mut request = self.http.request(verb, format!("{}{path}", self.url));
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        if let Some(body) = body {
            if !self.headers.iter().any(|(name, _)| *name == "content-type") {
                request = request.header("content-type", "application/json");
            }
            request = request.body(body.to_owned());
        }
        self.runtime
            .block_on(async { tokio::time::timeout(TIMEOUT, request.send()).await })
            .expect("in time")
            .expect("an answer")
    }

    pub(crate) fn http(&self, verb: &str, path: &str, body: Option<&str>) -> HttpAnswer {
        let response = self.send_request(verb, path, body);
        HttpAnswer {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            text: self
                .runtime
                .block_on(response.text())
                .expect("a whole answer"),
        }
    }

    /// Calls a method over JSON-RPC and returns the whole response.
    pub(crate) fn rpc(&self, method: &str, params: &Value) -> Value {
        let answer = self.rpc_answer(method, params);
        answer.json()
    }

    pub(crate) fn rpc_answer(&self, method: &str, params: &Value) -> HttpAnswer {
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        self.http("POST", "/a2a", Some(&body.to_string()))
    }

    /// Calls a method over either binding: the result, or code and reason of the error.
    pub(crate) fn call(
        &self,
        binding: A2aBinding,
        method: &str,
        params: &Value,
    ) -> Result<Value, RpcError> {
        match binding {
            A2aBinding::Rpc => {
                let answer = self.rpc(method, params);
                assert_eq!(answer["jsonrpc"], "2.0");
                assert_eq!(answer["id"], 7);
                match answer.get("error") {
                    Some(error) => Err(RpcError {
                        code: error["code"].as_i64().expect("a code"),
                        reason: reason(&error["data"]),
                    }),
                    None => Ok(answer["result"].clone()),
                }
            }
            A2aBinding::Rest => {
                let (verb, path, body) = rest_form(method, params);
                let answer = self.http(verb, &path, body.as_deref());
                let value = answer.json();
                if answer.status < 400 {
                    assert_eq!(answer.kind(), "application/a2a+json");
                    return Ok(value);
                }
                assert_eq!(answer.kind(), "application/json");
                assert_eq!(value["error"]["code"], answer.status);
                Err(RpcError {
                    code: i64::from(answer.status),
                    reason: reason(&value["error"]["details"]),
                })
            }
        }
    }

    /// Calls a method that streams.
    pub(crate) fn stream(&self, binding: A2aBinding, method: &str, params: &Value) -> Events<'_> {
        let response = match binding {
            A2aBinding::Rpc => {
                let body = json!({"jsonrpc": "2.0", "id": 8, "method": method, "params": params});
                self.send_request("POST", "/a2a/", Some(&body.to_string()))
            }
            A2aBinding::Rest => {
                let (verb, path, body) = rest_form(method, params);
                self.send_request(verb, &path, body.as_deref())
            }
        };
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Events {
            client: self,
            response,
            buffer: String::new(),
            binding,
        }
    }

    /// Sends a message with an id and returns the task.
    pub(crate) fn send(&self, binding: A2aBinding, message_id: &str) -> Value {
        let params = json!({"message": message(message_id, "Hello")});
        let result = self.call(binding, "SendMessage", &params).expect("a task");
        result["task"].clone()
    }

    /// Sends a text and returns the task.
    pub(crate) fn send_text(&self, binding: A2aBinding, text: &str) -> Value {
        let params = json!({"message": message("m", text)});
        let result = self.call(binding, "SendMessage", &params).expect("a task");
        result["task"].clone()
    }

    /// Sends a text without waiting, and returns the id of the task.
    pub(crate) fn begin(&self, text: &str) -> String {
        let params = json!({
            "message": message("m", text), "configuration": {"returnImmediately": true},
        });
        let result = self
            .call(A2aBinding::Rpc, "SendMessage", &params)
            .expect("a task");
        result["task"]["id"].as_str().expect("an id").to_owned()
    }

    /// Waits until a task is in a state.
    pub(crate) fn wait_for(&self, id: &str, state: &str) -> Value {
        let started_at = std::time::Instant::now();
        loop {
            let task = self
                .call(A2aBinding::Rpc, "GetTask", &json!({"id": id}))
                .expect("a task");
            if task["status"]["state"] == state {
                return task;
            }
            assert!(
                started_at.elapsed() < TIMEOUT,
                "the task is not {state}: {task}"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn reason(details: &Value) -> String {
    let info = &details[0];
    assert_eq!(info["@type"], "type.googleapis.com/google.rpc.ErrorInfo");
    info["reason"].as_str().expect("a reason").to_owned()
}

/// An error: the code of JSON-RPC or of HTTP, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) reason: String,
}

impl RpcError {
    pub(crate) fn assert(&self, binding: A2aBinding, rpc: i64, rest: i64, reason: &str) {
        let code = if binding == A2aBinding::Rpc {
            rpc
        } else {
            rest
        };
        assert_eq!(
            (self.code, self.reason.as_str()),
            (code, reason),
            "{binding:?}"
        );
    }
}

fn rest_form(method: &str, params: &Value) -> (&'static str, String, Option<String>) {
    let text = |name: &str| params[name].as_str().unwrap_or_default().to_owned();
    let body = Some(params.to_string());
    let configs = format!("/a2a/v1/tasks/{}/pushNotificationConfigs", text("taskId"));
    match method {
        "SendMessage" => ("POST", "/a2a/v1/message:send".to_owned(), body),
        "SendStreamingMessage" => ("POST", "/a2a/v1/message:stream".to_owned(), body),
        "GetTask" => {
            let history = params.get("historyLength");
            let query = history.map(|length| format!("?historyLength={length}"));
            let path = format!("/a2a/v1/tasks/{}{}", text("id"), query.unwrap_or_default());
            ("GET", path, None)
        }
        "ListTasks" => {
            let fields = params.as_object().expect("an object");
            let pairs: Vec<String> = fields
                .iter()
                .map(|(name, value)| match value {
                    Value::String(text) => format!("{name}={}", text.replace('+', "%2B")),
                    other => format!("{name}={other}"),
                })
                .collect();
            ("GET", format!("/a2a/v1/tasks?{}", pairs.join("&")), None)
        }
        // An empty body with a JSON content type, as the conformance kit sends it.
        "CancelTask" => (
            "POST",
            format!("/a2a/v1/tasks/{}:cancel", text("id")),
            Some(String::new()),
        ),
        "SubscribeToTask" => (
            "POST",
            format!("/a2a/v1/tasks/{}:subscribe", text("id")),
            Some(String::new()),
        ),
        "CreateTaskPushNotificationConfig" => ("POST", configs, body),
        "ListTaskPushNotificationConfigs" => ("GET", configs, None),
        "GetTaskPushNotificationConfig" => ("GET", format!("{configs}/{}", text("id")), None),
        "DeleteTaskPushNotificationConfig" => ("DELETE", format!("{configs}/{}", text("id")), None),
        "GetExtendedAgentCard" => ("GET", "/a2a/v1/extendedAgentCard".to_owned(), None),
        other => panic!("no path for {other}"),
    }
}

fn no_tls() -> rustls::ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth()
}

pub(crate) fn message(id: &str, text: &str) -> Value {
    json!({"messageId": id, "role": "ROLE_USER", "parts": [{"text": text}]})
}

pub(crate) fn state(task: &Value) -> &str {
    task["status"]["state"].as_str().expect("a state")
}

/// The application on the database of a test.
fn application(engine: Arc<Engine>, provider: &Arc<Provider>, folder: &Path) -> Application {
    let (provider, home) = (Arc::clone(provider), folder.join("home"));
    std::fs::create_dir_all(&home).expect("a folder");
    let sandboxes = home.join("sandboxes");
    let runtime = move |request: &RuntimeRequest<'_>| provider.runtime(request, &home);
    Application::new(
        engine,
        OperationSettings {
            max_message_bytes: 1 << 20,
            automation_profile: "manual".to_owned(),
            sandboxes,
            process: ProcessEnvironment {
                runtime: Arc::new(runtime),
                ..ProcessEnvironment::default()
            },
            sandbox_policy: SandboxPolicy::default(),
            plans: PlanSettings::default(),
        },
    )
}
