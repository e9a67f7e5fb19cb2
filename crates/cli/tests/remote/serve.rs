//! `agents serve`: refusals and shutdown.

use std::net::{Ipv4Addr, TcpListener};

use cleveragents_testkit::TestDatabase;

use crate::http::Caller;
use crate::{Server, agents, token};

#[test]
fn a_server_without_tokens_does_not_start() {
    let agents = agents();
    let answer = agents.run(&["--format", "json", "serve", "--port", "0"]);
    assert_eq!(answer.code, Some(1));
    assert_eq!(answer.json()["data"]["error"]["code"], "CA-1201");
    // A revoked token does not allow a start either.
    token(&agents, "ci", &["acme=viewer"]);
    agents.data(&["token", "revoke", "ci"]);
    let answer = agents.run(&["--format", "json", "serve", "--port", "0"]);
    assert_eq!(answer.json()["data"]["error"]["code"], "CA-1201");
}

/// A missing part is not skipped silently: it is reported, and the server does not listen.
#[test]
fn defect_3085_a_server_that_lacks_a_part_does_not_start_and_names_it() {
    let agents = agents();
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let nowhere = format!(
        "postgres://{}/nothing",
        closed.local_addr().expect("an address")
    );
    drop(closed);
    let certificate = ["--tls-cert", "missing.pem", "--tls-key", "missing.key"];
    let cases: [(&[&str], &str); 5] = [
        (&["--port", "0", "--actor", "acme/nobody"], "acme/nobody"),
        (
            &[&["--port", "0"], certificate.as_slice()].concat(),
            "missing.pem",
        ),
        (
            &["--port", "0", "--otlp-endpoint", "collector"],
            "collector",
        ),
        (&["--port", "0", "--database-url", &nowhere], "127.0.0.1"),
        (&["--port", &port], &port),
    ];
    for (options, part) in cases {
        let arguments = [&["--format", "json", "serve", "--insecure-local"], options].concat();
        let answer = agents.run(&arguments);
        assert!(matches!(answer.code, Some(1..)), "{options:?}: {answer:?}");
        let error = &answer.json()["data"]["error"];
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains(part), "{options:?}: {message}");
        if part == "acme/nobody" {
            assert_eq!(error["code"], "CA-1001", "the error is about an actor");
            assert!(!message.contains("provider"), "{message}");
        }
    }
    // A misspelt provider is still reported as a provider.
    let arguments = [
        "--format",
        "json",
        "serve",
        "--insecure-local",
        "--port",
        "0",
    ];
    let answer = agents.run(&[&arguments, ["--actor", "opneai/gpt-5.1"].as_slice()].concat());
    assert_eq!(answer.json()["data"]["error"]["code"], "CA-0815");
}

#[test]
fn without_tokens_the_server_listens_on_loopback_only() {
    let answer = agents().run(&[
        "serve",
        "--insecure-local",
        "--host",
        "0.0.0.0",
        "--port",
        "0",
    ]);
    assert_eq!(answer.code, Some(2), "{}", answer.err);
    assert!(answer.err.contains("0.0.0.0"));
}

#[test]
fn a_signal_stops_the_server_and_the_configuration_applies() {
    let agents = agents();
    agents.data(&["config", "set", "serve.drain-seconds", "5"]);
    let server = Server::start(&agents, &["--insecure-local"]);
    let client = crate::agents();
    client.data(&["server", "connect", &server.url]);
    client.data(&["session", "create", "--name", "weekly"]);
    assert_eq!(server.end(), Some(0));
    assert_eq!(agents.data(&["session", "list"])["summary"]["total"], 1);
    // The client reports that the server does not run.
    let answer = client.run(&["--format", "json", "session", "list"]);
    assert_eq!(answer.code, Some(1));
    assert_eq!(answer.json()["data"]["error"]["code"], "CA-1207");
}

#[test]
fn a_secret_is_stored_nowhere() {
    let agents = agents();
    let secret = token(&agents, "ci", &["acme=editor"]);
    assert!(secret.starts_with("ca_") && secret.len() == 55);
    let listed = agents.run(&["--format", "json", "token", "list"]);
    assert!(!listed.out.contains(&secret));
    drop(TestDatabase::read_file(&agents.database(), "SELECT 1"));
    for entry in std::fs::read_dir(agents.home()).expect("a home") {
        let bytes = std::fs::read(entry.expect("an entry").path()).unwrap_or_default();
        assert!(
            !bytes
                .windows(secret.len())
                .any(|part| part == secret.as_bytes())
        );
    }
}

#[test]
fn the_audit_log_has_configuration_changes_and_detects_tampering() {
    let agents = agents();
    token(&agents, "ci", &["acme=editor"]);
    agents.data(&["config", "set", "core.format", "plain"]);
    agents.data(&["config", "set", "core.format", "json"]);
    let entries = agents.data(&["audit", "list", "--kind", "config_changed"]);
    assert_eq!(entries["entries"][0]["details"]["before"], "plain");
    assert_eq!(entries["entries"][0]["details"]["after"], "json");
    let head = agents.data(&["audit", "verify"])["head"]
        .as_str()
        .expect("a hash")
        .to_owned();
    agents.data(&["audit", "verify", "--expect-head", &head]);

    TestDatabase::write_file(
        &agents.database(),
        "DROP TRIGGER audit_entries_stay; UPDATE audit_entries SET identity = 'intruder' WHERE number = 2;",
    );
    let answer = agents.run(&["--format", "json", "audit", "verify"]);
    assert_eq!(answer.code, Some(1));
    let error = &answer.json()["data"]["error"];
    assert_eq!(
        (&error["code"], &error["details"]["number"]),
        (&"CA-1206".into(), &2.into())
    );
}

fn send_signal(server: &Server, signal: rustix::process::Signal) {
    let id = i32::try_from(server.process.id()).ok();
    let id = id.and_then(rustix::process::Pid::from_raw).expect("an id");
    rustix::process::kill_process(id, signal).expect("the server runs");
}

/// A closed terminal stops a server like SIGTERM: it drains, and the exit code reports it.
#[test]
fn sighup_drains() {
    let agents = agents();
    let mut server = Server::start(&agents, &["--insecure-local"]);
    send_signal(&server, rustix::process::Signal::HUP);
    let status = server.process.wait().expect("the server ends");
    assert_eq!(status.code(), Some(0), "{status:?}");
}

/// Each failed request has a log line, and the cause of a 500 is logged with the id in its
/// response.
#[test]
fn the_log_has_the_cause_of_internal_errors() {
    let agents = agents();
    let log = agents.home().join("server.log");
    let path = log.to_str().expect("a path");
    let server = Server::start(&agents, &["--insecure-local", "--log-file", path]);
    TestDatabase::write_file(&agents.database(), "DROP TABLE tool_invocations");
    let ask = |line: &str| {
        let mut caller = Caller::connect(server.address()).expect("a server listens");
        caller.ask(line, &[], "{}").expect("a complete response")
    };
    let failed = ask("POST /api/v1/operations/tool/calls");
    assert_eq!(failed.status, 500, "{failed:?}");
    let problem = failed.json();
    let id = problem["details"]["request_id"].as_str().expect("an id");
    let detail = problem["detail"].as_str().expect("a text");
    assert!(detail.contains(id), "{detail}");
    assert!(!detail.contains("tool_invocations"), "{detail}");
    assert!(failed.head.contains(&id.to_lowercase()), "{}", failed.head);
    let missing = ask("GET /api/v1/sessions/01J00000000000000000000000");
    assert_eq!(missing.status, 404);
    assert_eq!(ask("GET /healthz").status, 200);

    let text = std::fs::read_to_string(&log).expect("a log");
    let count_lines = |part: &str| text.lines().filter(|line| line.contains(part)).count();
    let cause = format!("internal error request={id} ");
    let cause = text.lines().find(|line| line.contains(&cause));
    assert!(
        cause.is_some_and(|line| line.contains("no such table: tool_invocations")),
        "{text}"
    );
    let access = "method=POST path=/api/v1/operations/tool/calls route=/api/v1/operations/{*name} status=500 ";
    assert_eq!(
        count_lines(&format!("request failed request={id} {access}")),
        1,
        "{text}"
    );
    let missing = "path=/api/v1/sessions/01J00000000000000000000000 route=/api/v1/sessions/{session} status=404 ";
    assert_eq!(count_lines(missing), 1, "{text}");
    assert_eq!(count_lines("/healthz"), 0, "{text}");
}

/// JSON lines have the same fields. With `-v`, successful requests are also logged. Secrets from
/// the environment are masked.
#[test]
fn a_server_logs_json_lines_without_secrets() {
    let secret = "zq81-not-for-anybody-55";
    let agents = agents().with("MY_SERVICE_TOKEN", secret);
    let log = agents.home().join("server.log");
    let path = log.to_str().expect("a path");
    let arguments = [
        "--insecure-local",
        "--log-file",
        path,
        "--log-format",
        "json",
        "-v",
    ];
    let server = Server::start(&agents, &arguments);
    TestDatabase::write_file(&agents.database(), "DROP TABLE tool_invocations");
    let ask = |line: &str| {
        let mut caller = Caller::connect(server.address()).expect("a server listens");
        caller.ask(line, &[], "{}").expect("a complete response")
    };
    let failed = ask("POST /api/v1/operations/tool/calls");
    let problem = failed.json();
    let id = problem["details"]["request_id"].as_str().expect("an id");
    assert_eq!(ask("GET /healthz").status, 200);
    assert_eq!(ask(&format!("GET /api/v1/sessions/{secret}")).status, 400);
    assert_eq!(server.end(), Some(0));

    let text = std::fs::read_to_string(&log).expect("a log");
    assert!(!text.contains(secret), "{text}");
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let find = |message: &str, path: Option<&str>| {
        let mut entries = lines.iter();
        entries
            .find(|line| line["message"] == message && path.is_none_or(|path| line["path"] == path))
            .unwrap_or_else(|| panic!("{message}: {text}"))
    };
    let cause = find("internal error", None);
    assert_eq!(
        (&cause["request"], &cause["level"]),
        (&id.into(), &"ERROR".into())
    );
    let received = cause["cause"].as_str().expect("a text");
    assert!(
        received.contains("no such table: tool_invocations"),
        "{received}"
    );
    let access = find("request failed", Some("/api/v1/operations/tool/calls"));
    assert_eq!(access["request"], id);
    assert_eq!(
        (&access["status"], &access["caller"]),
        (&500.into(), &cause["caller"])
    );
    assert!(
        access["duration_ms"].is_u64() && access["peer"].is_string(),
        "{access}"
    );
    assert_eq!(find("request answered", Some("/healthz"))["status"], 200);
    assert_eq!(
        find("request failed", Some("/api/v1/sessions/[REDACTED]"))["status"],
        400
    );
    find("listening", None);
    find("stopped", None);
}

/// Clients cannot connect to `0.0.0.0`, and tokens sent without TLS can be read.
#[test]
fn a_server_without_tls_prints_a_reachable_address_and_a_warning() {
    use std::io::{BufRead as _, BufReader, Read as _};
    let agents = agents();
    token(&agents, "ci", &["acme=viewer"]);
    let arguments = [
        "--format", "json", "serve", "--host", "0.0.0.0", "--port", "0",
    ];
    let mut process = agents
        .command(arguments)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut line = String::new();
    BufReader::new(process.stdout.take().expect("a pipe"))
        .read_line(&mut line)
        .expect("a line with the address");
    let printed: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    let url = printed["url"].as_str().expect("an address").to_owned();
    let port = url.rsplit(':').next().expect("a port").to_owned();
    let server = Server {
        process,
        url: format!("http://127.0.0.1:{port}"),
    };
    let mut caller = Caller::connect(server.address()).expect("a server listens");
    let card = caller.ask("GET /.well-known/agent-card.json", &[], "");
    let card = card.expect("a complete response").json().to_string();
    assert!(!url.contains("0.0.0.0"), "{url}");
    assert!(!card.contains("0.0.0.0") && card.contains(&url), "{card}");
    let mut server = server;
    let mut errors = server.process.stderr.take().expect("a pipe");
    drop(server);
    let mut text = String::new();
    errors.read_to_string(&mut text).expect("text");
    assert!(text.contains("without TLS"), "{text}");
}

/// A server whose database was deleted accepts nothing, and is not ready.
#[test]
fn a_server_without_its_database_acknowledges_nothing() {
    let agents = agents();
    let server = Server::start(&agents, &["--insecure-local"]);
    let ask = |line: &str, body: &str| {
        let mut caller = Caller::connect(server.address()).expect("a server listens");
        let answer = caller.ask(line, &[], body).expect("a complete response");
        answer.status
    };
    let create = ("POST /api/v1/sessions", r#"{"namespace": "local"}"#);
    assert_eq!(ask("GET /readyz", ""), 200);
    assert_eq!(ask(create.0, create.1), 201);
    let aside = agents.database().with_extension("aside");
    std::fs::rename(agents.database(), &aside).expect("renamed");
    assert_eq!(ask("GET /readyz", ""), 503);
    assert_eq!(ask(create.0, create.1), 503);
    // A copy of the database at the same path is not accepted either.
    std::fs::copy(&aside, agents.database()).expect("copied");
    assert_eq!(ask("GET /readyz", ""), 503);
    assert_eq!(ask(create.0, create.1), 503);
    assert_eq!(ask("GET /healthz", ""), 200);
    // Neither is the database itself after another program emptied it.
    std::fs::rename(&aside, agents.database()).expect("renamed back");
    assert_eq!(ask("GET /readyz", ""), 200);
    let emptied = std::fs::File::options().write(true).open(agents.database());
    emptied.and_then(|file| file.set_len(0)).expect("emptied");
    assert_eq!(ask("GET /readyz", ""), 503);
    assert_eq!(ask(create.0, create.1), 503);
}
