//! [`Redact`]: takes secrets out of what is stored or shown.

use std::borrow::Cow;

use cleveragents_domain::ContentHash;
use serde_json::Value;

/// Stands in the place of a secret in everything that a model reads.
pub const MASK: &str = "[REDACTED]";

/// Parts of names whose values are secrets, whatever they look like.
const SECRET_NAMES: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "api_key",
    "apikey",
    "access_key",
    "private_key",
    "auth_token",
    "access_token",
    "refresh_token",
    "bearer",
    "credential",
    "authorization",
];

/// Texts in stored arguments are kept up to this length.
const KEPT_TEXT: usize = 8 << 10;

/// Takes secrets out of texts.
pub trait Redact: Send + Sync {
    /// The text with every secret replaced.
    fn redact<'t>(&self, text: &'t str) -> Cow<'t, str>;

    /// How many bytes at the end of a text may be the beginning of a secret.
    fn unfinished(&self, _text: &str) -> usize {
        0
    }
}

/// A JSON value without secrets: those the redactor finds, and everything under a name such as
/// `password` or `api_key`. For rows and questions to the user only: a model must read back what it
/// wrote.
pub fn redact_value(redactor: &dyn Redact, value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(redactor.redact(text).into_owned()),
        Value::Array(items) => items
            .iter()
            .map(|item| redact_value(redactor, item))
            .collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| {
                let kept = if is_secret_name(name) && !value.is_null() && !value.is_boolean() {
                    Value::String(MASK.to_owned())
                } else {
                    redact_value(redactor, value)
                };
                (redactor.redact(name).into_owned(), kept)
            })
            .collect(),
        other => other.clone(),
    }
}

/// Whether a field of this name holds a secret, by its name.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    name == "token" || SECRET_NAMES.iter().any(|secret| name.contains(secret))
}

/// The same value with long texts cut, each with its length and hash, so that a row stays small.
pub fn shortened(value: Value) -> Value {
    match value {
        Value::String(text) if text.len() > KEPT_TEXT => {
            let end = text.floor_char_boundary(KEPT_TEXT);
            Value::String(format!(
                "{}… ({} bytes, {})",
                &text[..end],
                text.len(),
                ContentHash::of(text.as_bytes())
            ))
        }
        Value::Array(items) => items.into_iter().map(shortened).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (name, shortened(value)))
            .collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::{Redact, redact_value, shortened};
    use serde_json::json;
    use std::borrow::Cow;

    struct Known;
    impl Redact for Known {
        fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
            text.replace("sk-123", "[REDACTED]").into()
        }
    }

    #[test]
    fn secrets_vanish_by_value_and_by_name_at_any_depth() {
        let given = json!({
            "path": "a", "Api-Key": "zzz", "note": "use sk-123", "sk-123": 1,
            "list": [{"db_password": 7, "token": "t", "tokens": 5}], "use_password": true,
        });
        let redacted = redact_value(&Known, &given);
        assert_eq!(
            redacted,
            json!({
                "path": "a", "Api-Key": "[REDACTED]", "note": "use [REDACTED]", "[REDACTED]": 1,
                "list": [{"db_password": "[REDACTED]", "token": "[REDACTED]", "tokens": 5}],
                "use_password": true,
            })
        );
    }

    #[test]
    fn a_long_text_leaves_its_length_and_hash() {
        let cut = shortened(json!({"content": "é".repeat(10_000)}));
        let text = cut["content"].as_str().expect("text");
        assert!(
            text.len() < 9_000 && text.contains("(20000 bytes, sha256:"),
            "{text}"
        );
    }
}
