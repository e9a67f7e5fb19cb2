//! `agents serve`: what it refuses, and how it ends.

use std::net::{Ipv4Addr, TcpListener};

use cleveragents_testkit::TestDatabase;

use crate::{Server, agents, token};

#[test]
fn a_server_that_nobody_could_call_is_not_started() {
    let agents = agents();
    let answer = agents.run(&["--format", "json", "serve", "--port", "0"]);
    assert_eq!(answer.code, Some(1));
    assert_eq!(answer.json()["data"]["error"]["code"], "CA-1201");
    // Nor with a token that is revoked.
    token(&agents, "ci", &["acme=viewer"]);
    agents.data(&["token", "revoke", "ci"]);
    let answer = agents.run(&["--format", "json", "serve", "--port", "0"]);
    assert_eq!(answer.json()["data"]["error"]["code"], "CA-1201");
}

/// Nothing is left out in silence: a part that cannot be made is named, and nobody is listened to.
#[test]
fn defect_3085_a_server_that_lacks_a_part_does_not_start_and_says_which() {
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
    }
}

#[test]
fn without_tokens_only_this_machine_is_listened_to() {
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
fn a_signal_ends_it_and_the_configuration_sets_it_up() {
    let agents = agents();
    agents.data(&["config", "set", "serve.drain-seconds", "5"]);
    let server = Server::start(&agents, &["--insecure-local"]);
    let client = crate::agents();
    client.data(&["server", "connect", &server.url]);
    client.data(&["session", "create", "--name", "weekly"]);
    assert_eq!(server.end(), Some(0));
    assert_eq!(agents.data(&["session", "list"])["summary"]["total"], 1);
    // A server that is gone is told as such.
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
fn the_audit_tells_who_changed_the_configuration_and_that_it_was_changed_itself() {
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
        "DROP TRIGGER audit_entries_stay; UPDATE audit_entries SET identity = 'nobody' WHERE number = 2;",
    );
    let answer = agents.run(&["--format", "json", "audit", "verify"]);
    assert_eq!(answer.code, Some(1));
    let error = &answer.json()["data"]["error"];
    assert_eq!(
        (&error["code"], &error["details"]["number"]),
        (&"CA-1206".into(), &2.into())
    );
}
