//! What the redactor takes out, and what it leaves alone.

use proptest::prelude::*;
use serde_json::json;

use super::{MASK, Redactor};
use crate::secret::Secret;

fn knowing(keys: &[&str]) -> Redactor {
    Redactor::new(keys.iter().map(|key| Secret::new(*key)))
}

#[test]
fn what_looks_like_a_key_is_taken_out() {
    let redactor = Redactor::default();
    for (text, clean) in [
        ("key sk-proj-abcdefghij0123456789 end", "key [REDACTED] end"),
        ("sk-ant-api03-AAAAbbbbCCCC_dddd-eeee", "[REDACTED]"),
        ("AIzaSyA1234567890abcdefghijklmnopqrstuvw", "[REDACTED]"),
        ("gsk_abcdefghijklmnopqrstuvwx", "[REDACTED]"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "[REDACTED]"),
        ("AKIAIOSFODNN7EXAMPLE!", "[REDACTED]!"),
        (
            "Authorization: Bearer abc.def-123",
            "Authorization: Bearer [REDACTED]",
        ),
        (
            "postgres://me:p4ss@db/x and https://u:p%40@h",
            "postgres://me:[REDACTED]@db/x and https://u:[REDACTED]@h",
        ),
        ("GET /v1?key=abc&x=1", "GET /v1?key=[REDACTED]&x=1"),
        (
            "host=db password=hunter2 port=1",
            "host=db password=[REDACTED] port=1",
        ),
        (
            "export OPENAI_API_KEY='abc def'",
            "export OPENAI_API_KEY=[REDACTED]",
        ),
        (
            r#"{"db_password": "a\"b", "n": 1}"#,
            r#"{"db_password": "[REDACTED]", "n": 1}"#,
        ),
        (
            "authorization: Basic dXNlcjpwYXNz, x",
            "authorization: Basic [REDACTED], x",
        ),
        (
            "curl -H 'Authorization: token abc'",
            "curl -H 'Authorization: token [REDACTED]'",
        ),
        (
            "a\n-----BEGIN RSA PRIVATE KEY-----\nMII\nxyz\n-----END RSA PRIVATE KEY-----\nb",
            "a\n[REDACTED]\nb",
        ),
        ("-----BEGIN PRIVATE KEY-----\nMII cut off", "[REDACTED]"),
    ] {
        assert_eq!(redactor.text(text), clean, "{text}");
    }
}

#[test]
fn ordinary_text_is_left_alone() {
    let redactor = knowing(&["none", "ollama", ""]);
    for text in [
        "",
        "let password = read_password()?;",
        "the token: 12 tokens, secret santa, a basic understanding, the bearer certificates",
        "connect(password=password, token=read_token(), secret=None, token=5)",
        "if password==other { } export TOKEN=$OTHER password=${PASSWORD}",
        "risk-averse ask-me-anything disk-based",
        "http://localhost:8080/path?code=",
        "fn key(&self) -> &str { self.key }",
        "none of ollama",
        "a public key: -----BEGIN PUBLIC KEY-----",
    ] {
        assert_eq!(redactor.text(text), text);
    }
}

#[test]
fn a_known_key_is_taken_out_in_every_writing() {
    let redactor = knowing(&["p@ss \"wörd\"/1"]);
    for text in [
        "p@ss \"wörd\"/1",
        r#"p@ss \"wörd\"/1"#,
        "p%40ss%20%22w%C3%B6rd%22%2F1",
    ] {
        assert_eq!(redactor.text(&format!("<{text}>")), "<[REDACTED]>");
    }
    assert_eq!(format!("{redactor:?}"), "Redactor(3 known keys)");
}

#[test]
fn overlapping_keys_leave_no_rest() {
    let redactor = knowing(&["abcdefgh", "fghijklm", "aaaaaaaa"]);
    assert_eq!(redactor.text("1abcdefghijklm2"), "1[REDACTED]2");
    assert_eq!(redactor.text("aaaaaaaaaaa!"), "[REDACTED]!");
}

#[test]
fn json_is_cleaned_by_value_and_by_field() {
    let redactor = knowing(&["topsecret-1"]);
    let given = json!({
        "headers": {"Authorization": "x", "accept": "json"},
        "list": ["has topsecret-1", {"api_key": "", "apiKey": "k", "access_token": ["t"]}],
        "topsecret-1": true,
        "max_tokens": 5, "tokens": "two", "password": null, "has_secret": true,
    });
    assert_eq!(
        redactor.json(&given),
        json!({
            "headers": {"Authorization": MASK, "accept": "json"},
            "list": ["has [REDACTED]", {"api_key": "", "apiKey": MASK, "access_token": MASK}],
            MASK: true,
            "max_tokens": 5, "tokens": "two", "password": null, "has_secret": true,
        })
    );
}

proptest! {
    #[test]
    fn no_known_key_survives_and_a_second_pass_changes_nothing(
        keys in prop::collection::vec("[a-zA-Z0-9_+/=-]{8,40}", 1..4),
        pieces in prop::collection::vec((".{0,20}", 0_usize..4, 0_usize..12), 0..8),
    ) {
        let redactor = knowing(&keys.iter().map(String::as_str).collect::<Vec<_>>());
        let mut text = String::new();
        for (before, key, cut) in &pieces {
            text.push_str(before);
            let key = &keys[key % keys.len()];
            // Sometimes only a part of a key, so that keys meet and overlap.
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
        let clean = knowing(&["abcdefgh"]).text(&text).into_owned();
        prop_assert!(clean.len() <= text.len() * 12 + 16);
    }
}
