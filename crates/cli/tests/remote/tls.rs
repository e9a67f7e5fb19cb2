//! A server that speaks TLS, with a certificate that nobody vouches for.

use std::path::{Path, PathBuf};
use std::process::Command;

use cleveragents_testkit::{Agents, not_run};

use crate::http::Caller;
use crate::{Server, agents, token};

/// A certificate for this machine that it issued itself, and its key; nothing where there is no `openssl`.
fn certificate(folder: &Path, name: &str) -> Option<[PathBuf; 2]> {
    let files = ["pem", "key"].map(|end| folder.join(format!("{name}.{end}")));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt"])
        .args(["ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=localhost", "-addext"])
        .args(["subjectAltName=IP:127.0.0.1,DNS:localhost", "-addext"])
        .args(["basicConstraints=critical,CA:FALSE", "-out"])
        .arg(&files[0])
        .arg("-keyout")
        .arg(&files[1])
        .output();
    let Ok(made) = made else {
        not_run("TLS of a server", "there is no program `openssl`");
        return None;
    };
    assert!(made.status.success(), "{made:?}");
    Some(files)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path")
}

/// The code of the error of a command.
fn code(agents: &Agents, arguments: &[&str]) -> (Option<i32>, String) {
    let answer = agents.run(&[&["--format", "json"], arguments].concat());
    let code = answer.json()["data"]["error"]["code"].clone();
    (answer.code, code.as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_certificate_that_nobody_vouches_for_is_refused_unless_it_is_asked_for() {
    let (host, client) = (agents(), agents());
    let Some([certificate, key]) = certificate(&host.work(), "server") else {
        return;
    };
    let secret = token(&host, "ada", &["acme=editor"]);
    let (certificate, key) = (text(&certificate), text(&key));
    let server = Server::start(&host, &["--tls-cert", certificate, "--tls-key", key]);
    assert!(server.url.starts_with("https://"), "{}", server.url);

    let connect = ["server", "connect", &server.url, "--token", &secret];
    assert_eq!(code(&client, &connect), (Some(1), "CA-1207".to_owned()));
    let key = client.data(&["config", "get", "server.url"])["value"].clone();
    assert!(key.is_null() && !client.home().join("server-token").exists());

    client.data(&[&connect[..], &["--no-tls-verify", "--namespace", "acme"]].concat());
    let made = client.data(&["session", "create", "--name", "weekly"]);
    assert_eq!(made["session"]["namespace"], "acme");
    let listed = host.data(&["session", "list"]);
    assert_eq!(listed["sessions"][0]["name"], "weekly", "{listed}");
    // It stays so for what is connected, and for nothing else.
    let other = agents();
    assert_eq!(code(&other, &connect).1, "CA-1207");

    // Who has the certificate among those that are trusted need not leave anything unchecked.
    let trusting = agents().with("SSL_CERT_FILE", certificate);
    trusting.data(&[&connect[..], &["--namespace", "acme"]].concat());
    assert_eq!(trusting.data(&["session", "list"])["summary"]["total"], 1);

    // Who speaks without TLS gets no answer, and the token is not sent that way.
    let address = server.url.trim_start_matches("https://");
    let mut plain = Caller::connect(address).expect("it listens");
    let answer = plain.ask("GET /healthz", &[], "");
    assert!(answer.is_err(), "{answer:?}");
    assert_eq!(server.end(), Some(0));
}

#[test]
fn a_certificate_that_cannot_be_used_is_told_before_anybody_calls() {
    let host = agents();
    let Some([certificate_file, key_file]) = certificate(&host.work(), "one") else {
        return;
    };
    let Some([_, other_key]) = certificate(&host.work(), "other") else {
        return;
    };
    token(&host, "ada", &["acme=editor"]);
    let empty = host.work().join("empty.pem");
    std::fs::write(&empty, "").expect("a file");
    let serve = |certificate: &Path, key: &Path| {
        let (certificate, key) = (text(certificate), text(key));
        let arguments = [
            "serve",
            "--port",
            "0",
            "--tls-cert",
            certificate,
            "--tls-key",
            key,
        ];
        code(&host, &arguments)
    };
    let missing = host.work().join("missing.pem");
    for (certificate, key) in [
        (&certificate_file, &missing),
        (&missing, &key_file),
        (&empty, &key_file),
        (&certificate_file, &empty),
        (&certificate_file, &other_key),
        (&certificate_file, &certificate_file),
    ] {
        let (exit, code) = serve(certificate, key);
        assert_eq!(exit, Some(1), "{certificate:?} with {key:?}: {code}");
        assert_eq!(code, "CA-0105", "{certificate:?} with {key:?}");
    }
    let half = code(
        &host,
        &[
            "serve",
            "--port",
            "0",
            "--tls-cert",
            text(&certificate_file),
        ],
    );
    assert_eq!(half.0, Some(2), "{half:?}");
}
