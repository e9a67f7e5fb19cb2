//! Servers over HTTP: a test server on this machine, which behaves well or badly, or requires a sign-in.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::{GateFixture, ServerFixture};
use crate::tests;
use cleveragents_mcp::{FileTokens, HiddenText, McpError, Options, ServerDefinition, Servers};
use reqwest::Url;
use serde_json::{Value, json};

tests![
    a_server_over_http_is_called,
    headers_are_sent_and_never_shown,
    a_long_answer_over_http_ends_the_call,
    an_endless_event_over_http_ends_the_call,
    other_machines_need_encryption,
    sign_in_stores_a_token_and_refreshes_it,
    an_unreachable_server_is_reported,
];

/// A request as the server received it.
#[derive(Debug, Clone)]
struct ReceivedRequest {
    method: String,
    path: String,
    authorization: String,
    body: String,
}

/// Behaviour of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SiteBehaviour {
    Plain,
    Long,
    Endless,
    Guarded,
}

/// A test server on this machine.
struct TestSite {
    url: String,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl TestSite {
    fn new(behaviour: SiteBehaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let url = format!("http://127.0.0.1:{port}");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (base, log) = (url.clone(), Arc::clone(&requests));
        let tokens = Arc::new(AtomicUsize::new(0));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (base, log, tokens) = (base.clone(), Arc::clone(&log), Arc::clone(&tokens));
                std::thread::spawn(move || {
                    let request = read_request(&stream);
                    log.lock().expect("not poisoned").push(request.clone());
                    // The client may have closed the connection.
                    let _unless_gone = answer(&stream, behaviour, &base, &request, &tokens);
                });
            }
        });
        Self { url, requests }
    }

    fn definition(&self) -> ServerDefinition {
        ServerDefinition::http("site", format!("{}/mcp", self.url))
    }

    fn requests(&self) -> Vec<ReceivedRequest> {
        self.requests.lock().expect("not poisoned").clone()
    }
}

fn read_request(stream: &TcpStream) -> ReceivedRequest {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    let _unless_gone = reader.read_line(&mut line);
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let (mut length, mut authorization) = (0, String::new());
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header).unwrap_or(0) <= 2 {
            break;
        }
        let (name, value) = header.split_once(':').unwrap_or_default();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap_or(0),
            "authorization" => value.trim().clone_into(&mut authorization),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    let _unless_gone = reader.read_exact(&mut body);
    ReceivedRequest {
        method,
        path,
        authorization,
        body: String::from_utf8_lossy(&body).into_owned(),
    }
}

fn send(mut stream: &TcpStream, status: &str, headers: &str, body: &str) -> std::io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n{body}",
        body.len()
    )
}

fn json_answer(stream: &TcpStream, value: &Value) -> std::io::Result<()> {
    send(
        stream,
        "200 OK",
        "content-type: application/json\r\n",
        &value.to_string(),
    )
}

fn answer(
    stream: &TcpStream,
    behaviour: SiteBehaviour,
    base: &str,
    request: &ReceivedRequest,
    tokens: &AtomicUsize,
) -> std::io::Result<()> {
    let path = request.path.split('?').next().unwrap_or_default();
    match path {
        "/mcp" => {}
        "/.well-known/oauth-protected-resource" => {
            let metadata =
                json!({"resource": format!("{base}/mcp"), "authorization_servers": [base]});
            return json_answer(stream, &metadata);
        }
        "/.well-known/oauth-authorization-server" => {
            return json_answer(
                stream,
                &json!({
                    "issuer": base,
                    "authorization_endpoint": format!("{base}/authorize"),
                    "token_endpoint": format!("{base}/token"),
                    "registration_endpoint": format!("{base}/register"),
                    "response_types_supported": ["code"],
                    "code_challenge_methods_supported": ["S256"],
                }),
            );
        }
        "/register" => {
            let registration: Value = serde_json::from_str(&request.body).unwrap_or_default();
            let registered =
                json!({"client_id": "us", "redirect_uris": registration["redirect_uris"]});
            return send(
                stream,
                "201 Created",
                "content-type: application/json\r\n",
                &registered.to_string(),
            );
        }
        "/authorize" => {
            let url = Url::parse(&format!("{base}{}", request.path)).expect("an address");
            let get = |name: &str| {
                let pair = url.query_pairs().find(|(key, _)| key == name);
                pair.map(|(_, value)| value.into_owned())
                    .unwrap_or_default()
            };
            let mut redirect = Url::parse(&get("redirect_uri")).expect("an address");
            redirect
                .query_pairs_mut()
                .append_pair("code", "c0de")
                .append_pair("state", &get("state"));
            return send(
                stream,
                "302 Found",
                &format!("location: {redirect}\r\n"),
                "",
            );
        }
        "/token" => {
            let number = tokens.fetch_add(1, Ordering::SeqCst);
            return json_answer(
                stream,
                &json!({
                    "access_token": format!("token-{number}"),
                    "refresh_token": "again",
                    "token_type": "Bearer",
                    // The first token expires at once.
                    "expires_in": if number == 0 { 1 } else { 3600 },
                }),
            );
        }
        _ => return send(stream, "404 Not Found", "", ""),
    }
    if request.method != "POST" {
        return send(stream, "405 Method Not Allowed", "", "");
    }
    if behaviour == SiteBehaviour::Guarded && !request.authorization.starts_with("Bearer token-") {
        let metadata = format!("{base}/.well-known/oauth-protected-resource");
        let header = format!("www-authenticate: Bearer resource_metadata=\"{metadata}\"\r\n");
        return send(stream, "401 Unauthorized", &header, "");
    }
    respond(stream, behaviour, &request.body)
}

fn respond(mut stream: &TcpStream, behaviour: SiteBehaviour, body: &str) -> std::io::Result<()> {
    let message: Value = serde_json::from_str(body).unwrap_or_default();
    let id = &message["id"];
    let send_result = |result: Value| {
        json_answer(
            stream,
            &json!({"jsonrpc": "2.0", "id": id, "result": result}),
        )
    };
    match message["method"].as_str().unwrap_or_default() {
        "initialize" => send_result(json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "site", "version": "1"},
        })),
        "tools/list" => send_result(json!({"tools": [{
            "name": "say",
            "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true},
        }]})),
        "tools/call" if behaviour == SiteBehaviour::Long => {
            let head = format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\""
            );
            write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n{head}"
            )?;
            let piece = vec![b'x'; 1 << 20];
            (0..200).try_for_each(|_| stream.write_all(&piece))
        }
        "tools/call" if behaviour == SiteBehaviour::Endless => {
            write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
            )?;
            let line = format!("data: {}\n", "x".repeat(1 << 16));
            loop {
                stream.write_all(line.as_bytes())?;
            }
        }
        "tools/call" => send_result(json!({"content": [{"type": "text", "text": "said"}]})),
        method if method.starts_with("notifications/") => send(stream, "202 Accepted", "", ""),
        _ => {
            let error = json!({"code": -32601, "message": "unknown"});
            json_answer(stream, &json!({"jsonrpc": "2.0", "id": id, "error": error}))
        }
    }
}

fn gate(site: &TestSite) -> (ServerFixture, GateFixture) {
    let fixture = ServerFixture::new();
    fixture.servers.add(site.definition(), None).expect("added");
    let gate = fixture.gate();
    (fixture, gate)
}

fn a_server_over_http_is_called() {
    let site = TestSite::new(SiteBehaviour::Plain);
    let (_bench, gate) = gate(&site);
    assert_eq!(gate.ok("site/say", &json!({})), "said");
}

fn headers_are_sent_and_never_shown() {
    let site = TestSite::new(SiteBehaviour::Plain);
    let fixture = ServerFixture::new();
    let mut definition = site.definition();
    let headers = &mut definition.headers;
    headers.insert("Authorization".to_owned(), HiddenText::new("Bearer s3cret"));
    assert!(!format!("{definition:?}").contains("s3cret"));
    fixture.servers.add(definition, None).expect("added");
    fixture.servers.connect("site").expect("connected");
    let requests = site.requests();
    assert!(
        requests
            .iter()
            .all(|request| request.authorization == "Bearer s3cret"),
        "{requests:?}"
    );
}

fn a_long_answer_over_http_ends_the_call() {
    let site = TestSite::new(SiteBehaviour::Long);
    let (_bench, gate) = gate(&site);
    let why = gate.fails("site/say", &json!({}));
    assert!(why.contains("larger than 16 MiB"), "{why}");
}

fn an_endless_event_over_http_ends_the_call() {
    let site = TestSite::new(SiteBehaviour::Endless);
    let fixture = ServerFixture::new();
    let mut definition = site.definition();
    definition.timeout_seconds = 20.0;
    fixture.servers.add(definition, None).expect("added");
    let why = fixture.gate().fails("site/say", &json!({}));
    assert!(!why.contains("in time"), "{why}");
}

fn other_machines_need_encryption() {
    let fixture = ServerFixture::new();
    for (name, url) in [
        ("far", "http://example.com/mcp"),
        ("odd", "ftp://localhost/x"),
    ] {
        let definition = ServerDefinition::http(name, url);
        fixture.servers.add(definition, None).expect("added");
        let error = fixture.servers.connect(name).expect_err("it is refused");
        assert!(matches!(error, McpError::Invalid { .. }), "{error}");
    }
}

fn sign_in_stores_a_token_and_refreshes_it() {
    let site = TestSite::new(SiteBehaviour::Guarded);
    let fixture = ServerFixture::new();
    let mut options = Options::new(fixture.folder.path());
    let token_folder = fixture.path("tokens");
    options.tokens = Some(Arc::new(FileTokens::new(&token_folder)));
    let servers = Servers::new(options.clone()).expect("a runtime");
    servers.add(site.definition(), None).expect("added");
    let error = servers.connect("site").expect_err("it requires a sign-in");
    assert!(matches!(error, McpError::Authorization { .. }), "{error}");
    servers.login("site", browse).expect("signed in");
    // The first token expired at once and was refreshed automatically.
    servers.connect("site").expect("connected");
    let requests = site.requests();
    let token = requests
        .iter()
        .rev()
        .find(|request| request.path == "/mcp" && request.method == "POST");
    assert_eq!(token.expect("a call").authorization, "Bearer token-1");
    let file = token_folder.join("site.token.json");
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&file.metadata().expect("stored").permissions());
    assert_eq!(mode & 0o777, 0o600);
    // Another process uses the stored token.
    let other_servers = Servers::new(options).expect("a runtime");
    other_servers.add(site.definition(), None).expect("added");
    other_servers.connect("site").expect("the token is stored");
    let exchange = requests
        .iter()
        .find(|request| request.path == "/token")
        .expect("an exchange");
    assert!(exchange.body.contains("code_verifier="), "{exchange:?}");
}

/// Opens a URL and follows redirects, like a browser.
fn browse(url: &Url) {
    let mut url = url.clone();
    std::thread::spawn(move || {
        for _ in 0..2 {
            let port = url.port().expect("a port");
            let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connected");
            let target = format!("{}?{}", url.path(), url.query().unwrap_or_default());
            write!(stream, "GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("sent");
            let mut page = String::new();
            stream.read_to_string(&mut page).expect("read");
            let Some((_, rest)) = page.split_once("location: ") else {
                return;
            };
            let next = rest.lines().next().unwrap_or_default();
            url = Url::parse(next).expect("an address");
        }
    });
}

fn an_unreachable_server_is_reported() {
    let fixture = ServerFixture::new();
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = closed.local_addr().expect("an address").port();
    drop(closed);
    let definition = ServerDefinition::http("gone", format!("http://127.0.0.1:{port}/mcp"));
    fixture.servers.add(definition, None).expect("added");
    let error = fixture
        .servers
        .connect("gone")
        .expect_err("no server listens");
    assert!(matches!(error, McpError::Unreachable { .. }), "{error}");
}
