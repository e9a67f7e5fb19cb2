//! [`Redact`]: removes secrets from stored and shown texts.

use std::borrow::Cow;

use cleveragents_domain::ContentHash;
use serde_json::Value;

/// The text that replaces each secret in texts for models.
pub const MASK: &str = "[REDACTED]";

/// The value of a field is secret if the name of the field contains one of these texts.
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

/// Maximum length of a text in stored arguments, in bytes. Longer texts are truncated.
const MAX_STORED_TEXT: usize = 8 << 10;

/// Removes secrets from texts.
pub trait Redact: Send + Sync {
    /// Replaces every secret in a text.
    fn redact<'t>(&self, text: &'t str) -> Cow<'t, str>;

    /// Returns how many bytes at the end of the text may be the start of a secret that continues in the next text.
    fn unfinished(&self, _text: &str) -> usize {
        0
    }
}

/// Redacts a JSON value: secrets that the redactor finds, and every value under a name such as
/// `password` or `api_key`. Only for stored rows and questions to the user: a model must receive its own
/// arguments unchanged.
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
                let redacted = if is_secret_name(name) && !value.is_null() && !value.is_boolean() {
                    Value::String(MASK.to_owned())
                } else {
                    redact_value(redactor, value)
                };
                (redactor.redact(name).into_owned(), redacted)
            })
            .collect(),
        other => other.clone(),
    }
}

/// Returns whether the name of a field indicates a secret.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    name == "token" || SECRET_NAMES.iter().any(|secret| name.contains(secret))
}

/// Truncates long texts in a value and appends their length and hash, so that rows stay small.
pub fn shortened(value: Value) -> Value {
    match value {
        Value::String(text) if text.len() > MAX_STORED_TEXT => {
            let end = text.floor_char_boundary(MAX_STORED_TEXT);
            Value::String(format!(
                "{}… ({} bytes, {})",
                &text[..end],
                text.len(),
                ContentHash::of_bytes(text.as_bytes())
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

    struct SecretRedactor;
    impl Redact for SecretRedactor {
        fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
            text.replace("sk-123", "[REDACTED]").into()
        }
    }

    #[test]
    fn secrets_are_redacted_by_value_and_by_name_at_any_depth() {
        let given = json!({
            "path": "a", "Api-Key": "zzz", "note": "use sk-123", "sk-123": 1,
            "list": [{"db_password": 7, "token": "t", "tokens": 5}], "use_password": true,
        });
        let redacted = redact_value(&SecretRedactor, &given);
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
    fn truncated_texts_include_length_and_hash() {
        let truncated = shortened(json!({"content": "é".repeat(10_000)}));
        let text = truncated["content"].as_str().expect("text");
        assert!(
            text.len() < 9_000 && text.contains("(20000 bytes, sha256:"),
            "{text}"
        );
    }
}
