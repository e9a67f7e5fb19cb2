//! Requests that are too large, too slow or not HTTP.

use std::time::Duration;

use serde_json::json;

use crate::harness::{Server, wait_until};

#[test]
fn oversized_requests_are_refused() {
    let server = Server::with(|options| {
        options.max_body_bytes = 2_000;
        options.max_message_bytes = 100;
        options.max_header_bytes = 8 << 10;
    });
    let local = server.local();
    let path = format!("{}/messages", server.session("acme"));
    let long = json!({"role": "user", "content": "x".repeat(3_000)});
    local.post(&path, &long).problem(413, "CA-1212");
    local
        .with("idempotency-key", "k")
        .post(&path, &long)
        .problem(413, "CA-1212");
    // A chunked body does not announce its length.
    let mut stream = local.connect();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    stream.write(head.as_bytes()).expect("it is sent");
    for _ in 0..3 {
        let piece = format!("3e8\r\n{}\r\n", "x".repeat(1_000));
        stream.write(piece.as_bytes()).expect("it is sent");
    }
    stream.answer("POST").problem(413, "CA-1212");
    let message = json!({"role": "user", "content": "x".repeat(101)});
    local.post(&path, &message).problem(400, "CA-0305");
    assert_eq!(
        local
            .with("x-long", "y".repeat(20_000))
            .get("/healthz")
            .status,
        431
    );
    let many = (0..150).fold(local.clone(), |client, number| {
        client.with(&format!("x-{number}"), "y")
    });
    assert_eq!(many.get("/healthz").status, 431);
    local.get("/healthz").expect(200);
}

#[test]
fn unreadable_requests_are_refused() {
    let server = Server::start();
    let local = server.local();
    let path = format!("{}/messages", server.session("acme"));
    let json_kind = Some("application/json");
    let deep = "[".repeat(100_000);
    for body in [
        b"{".as_slice(),
        b"",
        b"null",
        b"\xff\xfe",
        b"{\"role\": \"user\", \"content\": \"\xff\"}",
        deep.as_bytes(),
        b"{\"role\":\"user\",\"content\":\"\\ud800\"}",
        b"{\"role\":\"user\",\"content\":\"x\",\"more\":1}",
        b"{\"role\":\"user\",\"role\":\"user\",\"content\":\"x\"}",
    ] {
        local
            .raw("POST", &path, json_kind, body)
            .problem(400, "CA-1213");
    }
    local
        .raw("POST", &path, Some("text/plain"), b"{}")
        .problem(415, "CA-1213");
    for path in ["/api/v1/sessions/%ff", "/api/v1/plans/%ff%fe"] {
        local.get(path).problem(400, "CA-1213");
    }
    local.get("/api/v1/sessions/short").problem(400, "CA-0103");
    local.get("/api/v1/nothing").problem(404, "CA-1224");
    let rejected = local.ask("DELETE", "/api/v1/sessions", None);
    let allowed = rejected
        .header("allow")
        .expect("the allowed methods")
        .to_owned();
    assert!(
        allowed.contains("GET") && allowed.contains("POST"),
        "{allowed}"
    );
    rejected.problem(405, "CA-1224");
    let head = local.ask("HEAD", "/api/v1/sessions", None).expect(200);
    assert!(head.body.is_empty());
    assert_eq!(server.database.count("SELECT COUNT(*) FROM messages"), 0);
}

#[test]
fn the_rate_limit_applies_per_caller() {
    let server = Server::with(|options| options.requests_per_second = 1);
    let busy = server.caller(&["acme=viewer"]);
    let refused = std::iter::repeat_with(|| busy.get("/api/v1/sessions"))
        .take(200)
        .find(|answer| answer.status == 429)
        .expect("a rejection");
    let seconds = refused.header("retry-after").expect("a delay");
    assert!(seconds.parse::<u64>().is_ok_and(|seconds| seconds >= 1));
    refused.problem(429, "CA-1211");
    server
        .caller(&["acme=viewer"])
        .get("/api/v1/sessions")
        .expect(200);
    // Requests with wrong tokens are limited too: guessing is slow, and the audit log does not fill up.
    let statuses: Vec<_> = (0..200)
        .map(|_| server.client_without_token().get("/api/v1/sessions").status)
        .collect();
    assert_eq!(statuses[0], 401);
    assert!(statuses.contains(&429));
    wait_until(
        "callers without a token are below the rate limit again",
        || server.client_without_token().get("/api/v1/sessions").status == 401,
    );
    let stranger = |number: u32| {
        let token = Some(format!("ca_guess{number}"));
        crate::harness::Client::new(server.address, token)
            .get("/api/v1/sessions")
            .status
    };
    let statuses: Vec<_> = (0..200).map(stranger).collect();
    assert!(statuses.contains(&429));
}

#[test]
fn slow_clients_are_disconnected() {
    let server = Server::with(|options| options.request_timeout = Duration::from_millis(100));
    let local = server.local();
    let path = format!("{}/messages", server.session("acme"));
    // Headers that never end; the read ends when the server closes the connection.
    let mut stream = local.connect();
    stream
        .write(b"GET /healthz HTTP/1.1\r\nhost: ")
        .expect("it is sent");
    let answer = stream.head().map(|(status, _)| status);
    assert!(matches!(answer, None | Some(408)), "{answer:?}");
    // A connection on which nothing is sent.
    assert!(matches!(
        local.connect().head().map(|(status, _)| status),
        None | Some(408)
    ));
    // A body that never ends.
    let mut stream = local.connect();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{{"
    );
    stream.write(head.as_bytes()).expect("it is sent");
    stream.answer("POST").problem(408, "CA-1213");
}

#[test]
fn connections_above_the_limit_are_refused() {
    let server = Server::with(|options| {
        options.max_connections = 2;
        options.max_connections_per_address = 2;
    });
    let local = server.local();
    let mut first = local.listen("/api/v1/events");
    first.block().expect("it listens");
    let mut other = local.listen("/api/v1/events");
    other.block().expect("it listens");
    let refused = local.get("/healthz").expect(503);
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.json()["status"], 503);
    drop(other);
    wait_until("a connection is free again", || {
        local.get("/healthz").status == 200
    });
}

/// Incomplete requests of one address leave connections for other addresses.
#[test]
fn one_address_cannot_hold_all_connections() {
    let server = Server::with(|options| options.max_connections = 8);
    let local = server.local();
    let held: Vec<_> = (0..8)
        .map(|_| {
            let mut stream = local.connect();
            // A rejected connection may be closed already.
            let _sent = stream.write(b"GET /healthz HTTP/1.1\r\nhost:");
            stream
        })
        .collect();
    wait_until("the limit of the address is reached", || {
        local.get("/healthz").status == 503
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let answer = runtime.block_on(async {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        let other = std::net::SocketAddr::from(([127, 0, 0, 2], 0));
        socket.bind(other).expect("another address");
        let mut stream = socket.connect(server.address).await.expect("it listens");
        let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(request).await.expect("it is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        answer
    });
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    drop(held);
    wait_until("a connection is free again", || {
        local.get("/healthz").status == 200
    });
}

#[test]
fn an_aborted_request_has_no_effect() {
    let server = Server::start();
    let local = server.local();
    let path = format!("{}/messages", server.session("acme"));
    let content = "x".repeat(200_000);
    for _ in 0..5 {
        local
            .post(&path, &json!({"role": "user", "content": content}))
            .expect(201);
    }
    for _ in 0..10 {
        // Disconnects in the middle of a body, and in the middle of a response.
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{{\"role\""
        );
        let mut sending = local.connect();
        sending.write(head.as_bytes()).expect("it is sent");
        let mut reading = local.send("GET", &path, None, b"");
        reading.head().expect("an answer begins");
        drop((sending, reading));
    }
    wait_until("nothing runs", || {
        server.gauge("running") == 0 && server.gauge("event_listeners") == 0
    });
    assert_eq!(server.database.count("SELECT COUNT(*) FROM messages"), 5);
    // All connections except this one are closed.
    wait_until("the other connections are closed", || {
        server.gauge("connections") == 1
    });
}
