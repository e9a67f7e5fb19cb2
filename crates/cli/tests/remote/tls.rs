//! A server with TLS and a self-signed certificate.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use cleveragents_testkit::Agents;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};

use crate::http::Caller;
use crate::{Server, agents, token};

/// A DER element: tag, length and content.
fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = u16::try_from(content.len()).expect("short").to_be_bytes();
    let mut element = vec![tag];
    match length {
        [0, short @ 0..0x80] => element.push(short),
        [0, long] => element.extend([0x81, long]),
        [high, low] => element.extend([0x82, high, low]),
    }
    element.extend(content);
    element
}

fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    der(0x30, parts)
}

const EC_PUBLIC_KEY: &[u8] = &[6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
const P256: &[u8] = &[6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const ECDSA_WITH_SHA256: &[u8] = &[6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
const COMMON_NAME: &[u8] = &[6, 3, 0x55, 4, 3];
const BASIC_CONSTRAINTS: &[u8] = &[6, 3, 0x55, 0x1d, 0x13];
const OTHER_NAMES: &[u8] = &[6, 3, 0x55, 0x1d, 0x11];
const TRUE: &[u8] = &[1, 1, 0xff];

/// A self-signed certificate for this machine (RFC 5280) and its key, as PEM files.
fn certificate(folder: &Path, name: &str) -> [PathBuf; 2] {
    let (random, kind) = (SystemRandom::new(), &ECDSA_P256_SHA256_ASN1_SIGNING);
    let key = EcdsaKeyPair::generate_pkcs8(kind, &random).expect("a key");
    let pair = EcdsaKeyPair::from_pkcs8(kind, key.as_ref(), &random).expect("a key");
    let public = pair.public_key().as_ref();
    let algorithm = sequence(&[ECDSA_WITH_SHA256]);
    let common_name = sequence(&[COMMON_NAME, &der(0x0c, &[b"localhost"])]);
    let subject = sequence(&[&der(0x31, &[&common_name])]);
    let from = der(0x17, &[b"240101000000Z"]);
    let until = der(0x17, &[b"491231235959Z"]);
    // The certificate is not a certificate authority.
    let constraints = sequence(&[BASIC_CONSTRAINTS, TRUE, &der(4, &[&sequence(&[])])]);
    let names = sequence(&[&der(0x82, &[b"localhost"]), &der(0x87, &[&[127, 0, 0, 1]])]);
    let names = sequence(&[OTHER_NAMES, &der(4, &[&names])]);
    let message = sequence(&[
        &der(0xa0, &[&[2, 1, 2]]),
        &[2, 1, 1],
        &algorithm,
        &subject,
        &sequence(&[&from, &until]),
        &subject,
        &sequence(&[&sequence(&[EC_PUBLIC_KEY, P256]), &der(3, &[&[0], public])]),
        &der(0xa3, &[&sequence(&[&constraints, &names])]),
    ]);
    let signature = pair.sign(&random, &message).expect("a signature");
    let signed = sequence(&[&message, &algorithm, &der(3, &[&[0], signature.as_ref()])]);
    [
        ("pem", "CERTIFICATE", &signed[..]),
        ("key", "PRIVATE KEY", key.as_ref()),
    ]
    .map(|(end, title, bytes)| {
        let file = folder.join(format!("{name}.{end}"));
        let text = base64::engine::general_purpose::STANDARD.encode(bytes);
        let pem = format!("-----BEGIN {title}-----\n{text}\n-----END {title}-----\n");
        std::fs::write(&file, pem).expect("a file");
        file
    })
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path")
}

/// Error code of a command.
fn code(agents: &Agents, arguments: &[&str]) -> (Option<i32>, String) {
    let answer = agents.run(&[&["--format", "json"], arguments].concat());
    let code = answer.json()["data"]["error"]["code"].clone();
    (answer.code, code.as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_self_signed_certificate_is_refused_unless_allowed() {
    let (host, client) = (agents(), agents());
    let [certificate, key] = certificate(&host.cwd(), "server");
    let secret = token(&host, "ada", &["acme=editor"]);
    let (certificate, key) = (text(&certificate), text(&key));
    let server = Server::start(&host, &["--tls-cert", certificate, "--tls-key", key]);
    assert!(server.url.starts_with("https://"), "{}", server.url);

    let connect = ["server", "connect", &server.url, "--token", &secret];
    assert_eq!(code(&client, &connect), (Some(1), "CA-1207".to_owned()));
    let key = client.data(&["config", "get", "server.url"])["value"].clone();
    assert!(key.is_null() && !client.home().join("server-token").exists());

    client.data(&[&connect[..], &["--no-tls-verify", "--namespace", "acme"]].concat());
    let created = client.data(&["session", "create", "--name", "weekly"]);
    assert_eq!(created["session"]["namespace"], "acme");
    let listed = host.data(&["session", "list"]);
    assert_eq!(listed["sessions"][0]["name"], "weekly", "{listed}");
    // `--no-tls-verify` applies only to the connection of this client.
    let other = agents();
    assert_eq!(code(&other, &connect).1, "CA-1207");

    // A client that trusts the certificate can verify it.
    let trusting = agents().with("SSL_CERT_FILE", certificate);
    trusting.data(&[&connect[..], &["--namespace", "acme"]].concat());
    assert_eq!(trusting.data(&["session", "list"])["summary"]["total"], 1);

    // Without TLS there is no response, and the token is not sent.
    let address = server.url.trim_start_matches("https://");
    let mut plain = Caller::connect(address).expect("the server listens");
    let answer = plain.ask("GET /healthz", &[], "");
    assert!(answer.is_err(), "{answer:?}");
    assert_eq!(server.end(), Some(0));
}

#[test]
fn an_invalid_certificate_is_reported_at_start() {
    let host = agents();
    let [certificate_file, key_file] = certificate(&host.cwd(), "one");
    let [_, other_key] = certificate(&host.cwd(), "other");
    token(&host, "ada", &["acme=editor"]);
    let empty = host.cwd().join("empty.pem");
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
    let missing = host.cwd().join("missing.pem");
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
    let without_key = code(
        &host,
        &[
            "serve",
            "--port",
            "0",
            "--tls-cert",
            text(&certificate_file),
        ],
    );
    assert_eq!(without_key.0, Some(2), "{without_key:?}");
}
