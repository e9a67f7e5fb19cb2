//! Tests of the redactor: the texts that it replaces, and the texts that it leaves unchanged.

use proptest::prelude::*;
use serde_json::json;

use super::{MASK, Redactor, looks_secret, shown_address};
use crate::secret::Secret;

fn redactor_for(keys: &[&str]) -> Redactor {
    Redactor::new(keys.iter().map(|key| Secret::new(*key)))
}

const KEY_LIKE: &[&str] = &[
    "key sk-proj-abcdefghij0123456789 end",
    "sk-ant-api03-AAAAbbbbCCCC_dddd-eeee",
    "AIzaSyA1234567890abcdefghijklmnopqrstuvw",
    "gsk_abcdefghijklmnopqrstuvwx",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "AKIAIOSFODNN7EXAMPLE!",
    "Authorization: Bearer abc.def-123",
    "postgres://me:p4ss@db/x and https://u:p%40@h",
    "GET /v1?key=abc&x=1",
    "host=db password=hunter2 port=1",
    "export OPENAI_API_KEY='abcdef'",
    r#"{"db_password": "a\"b", "n": 1}"#,
    "authorization: Basic dXNlcjpwYXNz, x",
    "curl -H 'Authorization: token abc'",
    "a\n-----BEGIN RSA PRIVATE KEY-----\nMII\nxyz\n-----END RSA PRIVATE KEY-----\nb",
    "-----BEGIN PRIVATE KEY-----\nMII truncated",
];

#[test]
fn apparent_keys_are_detected_but_not_replaced() {
    for text in KEY_LIKE {
        assert!(looks_secret(text), "{text}");
        assert_eq!(Redactor::default().text(text), *text);
    }
    let code = [
        "password=\"changeme\"",
        "\"Bearer \" + token",
        "PWD=/srv",
        "let password = read_password()?;",
    ];
    for text in code {
        assert_eq!(
            redactor_for(&["changeme", "/srv", "password"]).text(text),
            text
        );
    }
}

#[test]
fn ordinary_text_is_unchanged() {
    let redactor = redactor_for(&["none", "ollama", ""]);
    for text in [
        "",
        "let password = read_password()?;",
        "the token: 12 tokens, secret santa, a basic understanding, the bearer certificates",
        "risk-averse ask-me-anything disk-based",
        "http://localhost:8080/path?code=",
        "fn key(&self) -> &str { self.key }",
        "none of ollama",
        "a public key: -----BEGIN PUBLIC KEY-----",
        "Authorization: Bearer ${TOKEN} password=${PASSWORD}",
    ] {
        assert_eq!(redactor.text(text), text);
        assert!(!looks_secret(text), "{text}");
    }
}

#[test]
fn an_address_is_shown_without_its_password() {
    for (address, shown) in [
        ("https://u:p%40@h/v1", "https://u:[REDACTED]@h/v1"),
        (
            "https://h/v1?key=abc&x=1",
            "https://h/v1?key=[REDACTED]&x=1",
        ),
        ("http://localhost:8080/v1", "http://localhost:8080/v1"),
    ] {
        assert_eq!(shown_address(address), shown);
    }
}

#[test]
fn a_known_key_is_redacted_in_every_spelling() {
    let redactor = redactor_for(&["p@ss \"wörd\"/1"]);
    for text in [
        "p@ss \"wörd\"/1",
        r#"p@ss \"wörd\"/1"#,
        "p%40ss%20%22w%C3%B6rd%22%2F1",
    ] {
        assert_eq!(redactor.text(&format!("<{text}>")), "<[REDACTED]>");
    }
    assert_eq!(format!("{redactor:?}"), "Redactor(12 known keys)");
}

#[test]
fn overlapping_keys_are_redacted_completely() {
    let redactor = redactor_for(&["abcd3fgh", "fghijklM", "aAaAaAaA"]);
    assert_eq!(redactor.text("1abcd3fghijklM2"), "1[REDACTED]2");
    assert_eq!(redactor.text("aAaAaAaAaA!"), "[REDACTED]!");
}

#[test]
fn json_is_redacted_in_texts_and_names_by_known_values_only() {
    let redactor = redactor_for(&["topsecret-1x"]);
    let given = json!({
        "headers": {"Authorization": "x", "password": "changeme"},
        "list": ["has topsecret-1x", {"api_key": "k"}],
        "topsecret-1x": true,
    });
    assert_eq!(
        redactor.value(&given),
        json!({
            "headers": {"Authorization": "x", "password": "changeme"},
            "list": ["has [REDACTED]", {"api_key": "k"}],
            MASK: true,
        })
    );
}

proptest! {
    #[test]
    fn no_known_key_remains_and_a_second_pass_changes_nothing(
        keys in prop::collection::vec("[a-zA-Z0-9_+/=-]{8,40}A1a", 1..4),
        pieces in prop::collection::vec((".{0,20}", 0_usize..4, 0_usize..12), 0..8),
    ) {
        let redactor = redactor_for(&keys.iter().map(String::as_str).collect::<Vec<_>>());
        let mut text = String::new();
        for (before, key, cut) in &pieces {
            text.push_str(before);
            let key = &keys[key % keys.len()];
            // A part of a key before the key, so that keys touch and overlap.
            text.push_str(&key[cut.min(&(key.len() / 2)).to_owned()..]);
            text.push_str(key);
        }
        let clean = redactor.text(&text).into_owned();
        for key in &keys {
            prop_assert!(!clean.contains(key.as_str()), "{key} in {clean}");
        }
        prop_assert_eq!(redactor.text(&clean).into_owned(), clean);
    }

    #[test]
    fn any_text_can_be_redacted(text in ".{0,200}") {
        let clean = redactor_for(&["abcd3Fgh"]).text(&text).into_owned();
        prop_assert!(clean.len() <= text.len() * 12 + 16);
    }
}
