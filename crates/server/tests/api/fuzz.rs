//! Arbitrary requests: none of them causes an internal error.

use cleveragents_testkit::{TestDatabase, proof_size};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value};

use crate::harness::{Client, Server, wait_until};

/// A generated request.
#[derive(Debug, Clone)]
struct ApiRequest {
    method: String,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

/// Every path of the OpenAPI document, with its method.
fn paths(server: &Server) -> Vec<(String, String)> {
    let document = server.local().get("/api/v1/openapi.json").json();
    let paths = document["paths"].as_object().expect("paths");
    paths
        .iter()
        .flat_map(|(path, operations)| {
            let methods = operations.as_object().expect("operations").keys();
            methods.map(|method| (method.to_uppercase(), path.clone()))
        })
        .collect()
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just("local".to_owned()),
        Just("acme/x".to_owned()),
        Just("\u{0}".to_owned()),
        Just("-1".to_owned()),
        Just("18446744073709551616".to_owned()),
        Just("9223372036854775808".to_owned()),
        Just("\"*\" AND NEAR( ' %_\\".to_owned()),
        "\\PC{0,40}",
        ".{0,20}",
    ]
}

fn field() -> impl Strategy<Value = String> {
    let known = [
        "role",
        "content",
        "metadata",
        "name",
        "actor",
        "namespace",
        "prompt",
        "at",
        "reference",
    ];
    prop_oneof![4 => prop::sample::select(known.to_vec()).prop_map(str::to_owned), 1 => text()]
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
        Just(Value::from("user")),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((field(), inner), 0..6)
                .prop_map(|fields| Value::from(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// A text with every byte percent-encoded, for a URL.
fn percent_encoded(text: &str) -> String {
    let bytes = text.bytes().map(|byte| format!("%{byte:02x}"));
    bytes.collect::<String>()
}

fn query() -> impl Strategy<Value = String> {
    let names = [
        "limit",
        "cursor",
        "kind",
        "subject",
        "namespace",
        "after",
        "q",
        "role",
        "session",
        "name",
        "actor",
    ];
    let pair = (prop::sample::select(names.to_vec()), text())
        .prop_map(|(name, value)| format!("{name}={}", percent_encoded(&value)));
    prop_oneof![
        Just(String::new()),
        prop::collection::vec(pair, 1..4).prop_map(|pairs| format!("?{}", pairs.join("&"))),
        "[!-~]{0,30}".prop_map(|text| format!("?{}", text.replace(['#', ' '], ""))),
        Just("?q=%ff&cursor=%00".to_owned()),
    ]
}

fn headers() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    let names = [
        "if-match",
        "last-event-id",
        "idempotency-key",
        "accept",
        "authorization",
        "origin",
        "x-other",
        "expect",
        "range",
        "if-none-match",
    ];
    let value = prop_oneof![
        "[ -~]{0,40}",
        Just("text/event-stream".to_owned()),
        Just("\"1\"".to_owned()),
        Just("*".to_owned()),
    ];
    prop::collection::vec((prop::sample::select(names.to_vec()), value), 0..4)
}

fn any_request(
    paths: Vec<(String, String)>,
    known: Vec<String>,
) -> impl Strategy<Value = ApiRequest> {
    let part = prop_oneof![
        3 => prop::sample::select(known),
        1 => text().prop_map(|text| percent_encoded(&text)),
        1 => Just("%ff%fe".to_owned()),
    ];
    let method = prop_oneof![
        6 => Just(None),
        1 => prop::sample::select(vec!["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "QUERY"]).prop_map(Some),
    ];
    let body = prop_oneof![
        4 => json().prop_map(|value| value.to_string().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..300),
        1 => Just(b"[".repeat(3_000)),
    ];
    let target = (prop::sample::select(paths), part, query());
    (target, method, headers(), body).prop_map(
        |(((documented, path), part, query), method, headers, body)| {
            let path = path.replace("{name}", "plan/use");
            let parts = path.split('/').map(|known| match known.strip_prefix('{') {
                Some(_) => part.as_str(),
                None => known,
            });
            let path = parts.collect::<Vec<_>>().join("/");
            ApiRequest {
                method: method.map_or(documented, str::to_owned),
                path: format!("{path}{query}"),
                headers,
                body,
            }
        },
    )
}

/// Sends a request and checks that the server stays usable.
fn check(client: &Client, request: &ApiRequest) -> Result<(), TestCaseError> {
    let client = request
        .headers
        .iter()
        .fold(client.clone(), |client, (name, value)| {
            client.with(name, value.clone())
        });
    let body: &[u8] = if request.method == "GET" || request.method == "HEAD" {
        b""
    } else {
        &request.body
    };
    let mut stream = client.send(
        &request.method,
        &request.path,
        Some("application/json"),
        body,
    );
    let Some((status, headers)) = stream.head() else {
        return Err(TestCaseError::fail("no answer"));
    };
    let kind = headers.iter().find(|(name, _)| name == "content-type");
    if kind.is_some_and(|(_, kind)| kind.starts_with("text/event-stream")) {
        // The stream lasts as long as the client listens.
        return Ok(());
    }
    prop_assert!(status < 500, "{status}");
    if status >= 400 && kind.is_some_and(|(_, kind)| kind == "application/problem+json") {
        let body = stream.rest(&headers, &request.method);
        if request.method != "HEAD" {
            let problem: Value = serde_json::from_str(&body).expect("JSON");
            prop_assert_eq!(&problem["status"], &Value::from(status));
        }
    }
    Ok(())
}

fn send_arbitrary_requests(server: &Server, cases: usize) {
    let session = server.session("acme");
    let session = session.rsplit('/').next().expect("an id").to_owned();
    let plan = server.plan("acme/shop").to_string();
    let strategy = any_request(paths(server), vec![session, plan]);
    let clients = [server.local(), server.caller(&["acme=editor"])];
    let mut runner = TestRunner::new(Config {
        cases: u32::try_from(cases).expect("fits"),
        failure_persistence: None,
        max_shrink_iters: 200,
        ..Config::default()
    });
    server.double.release();
    runner
        .run(&(0..clients.len(), strategy), |(client, request)| {
            check(&clients[client], &request)
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
    server.local().get("/readyz").expect(200);
    wait_until("no work is left", || {
        server.gauge("running") == 0
            && server.gauge("waiting") == 0
            && server.gauge("event_listeners") == 0
    });
}

#[test]
fn no_request_causes_an_internal_error() {
    for database in TestDatabase::each() {
        let server = Server::on(database, |_| {});
        send_arbitrary_requests(&server, proof_size(400, 20_000));
    }
}

#[test]
fn the_server_survives_malformed_requests() {
    let server = Server::with(|options| {
        options.request_timeout = std::time::Duration::from_millis(50);
    });
    let mut runner = TestRunner::new(Config {
        cases: u32::try_from(proof_size(40, 2_000)).expect("fits"),
        failure_persistence: None,
        ..Config::default()
    });
    let bytes = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..600),
        "[A-Z]{1,8} [!-~]{0,40} HTTP/1.[01]\r\n([a-z-]{1,10}: [ -~]{0,20}\r\n){0,5}\r\n?"
            .prop_map(String::into_bytes),
    ];
    runner
        .run(&bytes, |bytes| {
            let mut stream = server.local().connect();
            // The server may close the connection at any byte.
            let _sent = stream.write(&bytes);
            let status = stream.head().map(|(status, _)| status);
            prop_assert!(status.is_none_or(|status| status < 500), "{status:?}");
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
    server.local().get("/readyz").expect(200);
}
