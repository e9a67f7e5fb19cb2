//! Taking secrets out of texts: known keys wherever they stand, and whatever looks like one.
//!
//! [`Redactor`] finds every stretch that must go, joins those that overlap, and puts
//! `[REDACTED]` in their place. Redacting twice changes nothing more.

mod veil;

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

pub use self::veil::Veil;
use crate::secret::Secret;

/// What stands where a secret was.
pub const MASK: &str = "[REDACTED]";

/// A key shorter than this is no secret (`none`, `ollama`), and hiding it would hide words.
const SHORTEST_KEY: usize = 8;

/// Secrets that are recognised by their form.
static TOKENS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?x)
        \b(?:
            sk-[A-Za-z0-9_-]{16,}
          | AIza[A-Za-z0-9_-]{30,}
          | gsk_[A-Za-z0-9]{20,}
          | gh[pousr]_[A-Za-z0-9]{20,}
          | github_pat_[A-Za-z0-9_]{20,}
          | glpat-[A-Za-z0-9_-]{20,}
          | hf_[A-Za-z0-9]{20,}
          | xox[abeprs]-[A-Za-z0-9-]{10,}
          | (?:AKIA|ASIA)[A-Z0-9]{16}
          | eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+
        )
        | -----BEGIN\ [A-Z0-9\ ]*PRIVATE\ KEY-----[\s\S]*?(?:-----END\ [A-Z0-9\ ]*PRIVATE\ KEY-----|\z)
        ",
    )
});

/// Secrets that are recognised by what stands before them; the group is the secret.
static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"(?xi)
        \bauthorization["']?\s*[:=]\s*["']?(?:bearer\s+|basic\s+|token\s+)?(?<header>[^\s"',;]+)
        | \bbearer\s+(?<bearer>[A-Za-z0-9._~+/=-]{8,})
        | [a-z][a-z0-9+.-]*://[^\s/:@"'<>]*:(?<url>[^\s/"'<>]+)@
        | [?&](?:key|api[_-]?key|token|sig|signature|code)=(?<query>[^&\s\#"'<>]+)
        | (?:password|passwd|pwd|secret|api[_-]?key|access[_-]?key|token)=(?<field>"[^"\n]+"|'[^'\n]+'|[^\s,;&"'<>()\[\]{}=][^\s,;&"'<>()\[\]{}]*)
        | ["'](?:[a-z0-9_-]*(?:password|passwd|secret|api[_-]?key|access[_-]?key|token)|x-api-key)["']\s*:\s*"(?<quoted>(?:[^"\\\n]|\\.)+)"
        "#,
    )
});

/// The groups of [`NAMED`].
const GROUPS: [&str; 6] = ["header", "bearer", "url", "query", "field", "quoted"];

/// Whether what follows a telling word is a secret, and not a word of a sentence or of a program.
fn is_secret(group: &str, value: &str, rest: &str) -> bool {
    let bare = value.trim_matches(['"', '\'']);
    // Redacted already, or only the name of something that holds it.
    if bare.starts_with(MASK) || bare.starts_with('$') {
        return false;
    }
    match group {
        // "the bearer certificates"
        "bearer" => bare.len() >= 20 || bare.contains(|letter: char| letter.is_ascii_digit()),
        // `token=5`, `password=password`, `token=read_token()`
        "field" => {
            let is_count = bare.len() < 6 && bare.bytes().all(|byte| byte.is_ascii_digit());
            let is_word = [
                "password", "passwd", "pwd", "secret", "token", "none", "null", "true", "false",
            ]
            .iter()
            .any(|word| bare.eq_ignore_ascii_case(word));
            !is_count && !is_word && !rest.starts_with('(')
        }
        _ => true,
    }
}

/// Fields whose values are secrets whatever they look like.
static SECRET_FIELDS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?xi)^(?:
            .*(?:password|passwd|secret|api[_-]?key|access[_-]?key|private[_-]?key|credential)s?
          | (?:.*[_-])?(?:access|auth|refresh|bearer|session|id|bot|api)[_-]?token
          | token | authorization | proxy-authorization | x-api-key | x-goog-api-key | cookie | set-cookie
        )$",
    )
});

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the patterns of this file are tested")
}

/// Replaces secrets in texts and JSON.
#[derive(Clone, Default)]
pub struct Redactor {
    known: Vec<Secret>,
}

/// Tells how many keys it knows, and nothing of them.
impl std::fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Redactor({} known keys)", self.known.len())
    }
}

impl Redactor {
    /// A redactor that hides these keys besides whatever looks like a key.
    pub fn new(known: impl IntoIterator<Item = Secret>) -> Self {
        let mut found: Vec<Secret> = Vec::new();
        for secret in known {
            let value = secret.expose();
            if value.len() < SHORTEST_KEY || MASK.contains(value) {
                continue;
            }
            // A key may also stand in a URL or inside a JSON text.
            let quoted = Value::from(value).to_string();
            let escaped = quoted.trim_matches('"').to_owned();
            let variants = [value.to_owned(), percent_encoded(value), escaped];
            for variant in variants {
                if !found.iter().any(|known| known.expose() == variant) {
                    found.push(Secret::new(variant));
                }
            }
        }
        Self { known: found }
    }

    /// The same redactor, which knows one more key.
    #[must_use]
    pub(crate) fn and(self, key: Option<Secret>) -> Self {
        let Some(key) = key else {
            return self;
        };
        let mut known = self.known;
        known.extend(Self::new([key]).known);
        Self { known }
    }

    /// The text without secrets.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let spans = self.spans(text);
        if spans.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut clean = String::with_capacity(text.len());
        let mut from = 0;
        for (start, end) in spans {
            clean.push_str(&text[from..start]);
            clean.push_str(MASK);
            from = end;
        }
        clean.push_str(&text[from..]);
        Cow::Owned(clean)
    }

    /// A value with the secrets in its texts replaced. Names are left as they are, since there are fields
    /// named `password` that hold none.
    #[must_use]
    pub fn value(&self, value: &serde_json::Value) -> serde_json::Value {
        use serde_json::Value;
        match value {
            Value::String(text) => Value::String(self.text(text).into_owned()),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => fields
                .iter()
                .map(|(name, value)| (name.clone(), self.value(value)))
                .collect(),
            other => other.clone(),
        }
    }

    /// The value without secrets: in its texts, in its names, and in fields that hold secrets by
    /// their name.
    pub fn json(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.text(text).into_owned().into(),
            Value::Array(items) => items.iter().map(|item| self.json(item)).collect(),
            Value::Object(fields) => {
                let clean = fields.iter().map(|(name, value)| {
                    let hidden = SECRET_FIELDS.is_match(name) && holds_something(value);
                    let value = if hidden {
                        MASK.into()
                    } else {
                        self.json(value)
                    };
                    (self.text(name).into_owned(), value)
                });
                Value::Object(clean.collect())
            }
            other => other.clone(),
        }
    }

    /// What must go, in order and without overlap.
    fn spans(&self, text: &str) -> Vec<(usize, usize)> {
        let mut spans: Vec<(usize, usize)> = Vec::new();
        for secret in &self.known {
            let secret = secret.expose();
            let mut from = 0;
            while let Some(found) = text[from..].find(secret) {
                let start = from + found;
                spans.push((start, start + secret.len()));
                // The next one may begin inside this one.
                from = start + text[start..].chars().next().map_or(1, char::len_utf8);
            }
        }
        spans.extend(
            TOKENS
                .find_iter(text)
                .map(|found| (found.start(), found.end())),
        );
        for found in NAMED.captures_iter(text) {
            let group = GROUPS
                .into_iter()
                .find_map(|name| Some((name, found.name(name)?)));
            if let Some((name, group)) = group
                && is_secret(name, group.as_str(), &text[group.end()..])
            {
                spans.push((group.start(), group.end()));
            }
        }
        spans.sort_unstable();
        let mut joined: Vec<(usize, usize)> = Vec::with_capacity(spans.len());
        for (start, end) in spans {
            match joined.last_mut() {
                Some(last) if start < last.1 => last.1 = last.1.max(end),
                _ => joined.push((start, end)),
            }
        }
        joined
    }
}

/// Null and empty values hide nothing, and numbers and booleans are no secrets.
fn holds_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded.push_str(&hex::encode_upper([byte]));
        }
        encoded
    })
}

#[cfg(test)]
#[path = "redact/tests.rs"]
mod tests;
