//! Replaces known secret values in texts and JSON.
//!
//! [`Redactor`] replaces values that the program knows to be secret: keys of providers, variables of the environment,
//! the keyring, passwords of configured addresses. It never guesses by the form of a text, since models read and
//! rewrite code: a masked `password="changeme"` would corrupt the file. [`looks_secret`] guesses; its result only
//! decides whether a text is kept.

mod keyring;
mod secrets;
mod stream;

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

pub(crate) use self::keyring::remember;
pub use self::keyring::secrets_given_out;
pub use self::secrets::environment_secrets;
pub use self::stream::StreamRedactor;
use crate::secret::Secret;

/// Replacement for a secret.
pub const MASK: &str = "[REDACTED]";

/// Patterns of well-known key formats.
static KEY_FORMS: LazyLock<Regex> = LazyLock::new(|| {
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
        | -----BEGIN\ [A-Z0-9\ ]*PRIVATE\ KEY-----
        ",
    )
});

/// Words that precede a secret.
static KEY_ANNOUNCED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"(?xi)
        \bauthorization["']?\s*[:=]\s*["']?(?:bearer|basic|token)\s+[^\s"',;$]
        | \bbearer\s+[A-Za-z0-9._~+/=-]{20,}
        | [a-z][a-z0-9+.-]*://[^\s/:@"'<>]*:[^\s/"'<>$]+@
        | [?&](?:key|api[_-]?key|token|sig|signature|code)=[^&\s\#"'<>$]
        | (?:password|passwd|secret|api[_-]?key|access[_-]?key|token)=["']?[^\s,;&"'<>()\[\]{}=$]{6,}
        | ["'](?:[a-z0-9_-]*(?:password|passwd|secret|api[_-]?key|access[_-]?key|token)|x-api-key)["']\s*:\s*"[^"$]
        "#,
    )
});

/// Passwords and keys inside a URL; the groups are the secrets.
static IN_ADDRESS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"(?xi)
        (?<before>[a-z][a-z0-9+.-]*://[^\s/:@"'<>]*:)[^\s/"'<>]+(?<after>@)
        | (?<name>[?&](?:key|api[_-]?key|token|sig|signature|code)=)[^&\s\#"'<>]+
        "#,
    )
});

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the patterns of this file are tested")
}

/// Whether a text probably contains a secret. A heuristic: callers use it to drop a line of a history or to refuse a
/// definition, never to change a text.
pub fn looks_secret(text: &str) -> bool {
    KEY_FORMS.is_match(text) || KEY_ANNOUNCED.is_match(text)
}

/// A URL for display: without its password and without keys in its query.
pub(crate) fn shown_address(address: &str) -> Cow<'_, str> {
    IN_ADDRESS.replace_all(address, format!("${{before}}${{name}}{MASK}${{after}}"))
}

/// Replaces known secrets in texts and JSON.
#[derive(Clone, Default)]
pub struct Redactor {
    known: Vec<Secret>,
}

/// Formats only the number of known secrets.
impl std::fmt::Debug for Redactor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Redactor({} known keys)", self.known.len())
    }
}

impl Redactor {
    /// Creates a redactor for these secrets. Short values and plain words are ignored: replacing them would corrupt
    /// ordinary text and code.
    pub fn new(known: impl IntoIterator<Item = Secret>) -> Self {
        let mut variants: Vec<Secret> = Vec::new();
        for secret in known {
            for variant in secrets::variants(secret.expose()) {
                if !variants.iter().any(|known| known.expose() == variant) {
                    variants.push(Secret::new(variant));
                }
            }
        }
        Self { known: variants }
    }

    /// Adds one more key.
    #[must_use]
    pub fn and(self, key: Option<Secret>) -> Self {
        let Some(key) = key else {
            return self;
        };
        let mut known = self.known;
        known.extend(Self::new([key]).known);
        Self { known }
    }

    /// Replaces secrets in a text.
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

    /// Replaces secrets in a JSON value, in its strings and in its keys.
    #[must_use]
    pub fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text).into_owned()),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => fields
                .iter()
                .map(|(name, value)| (self.text(name).into_owned(), self.value(value)))
                .collect(),
            other => other.clone(),
        }
    }

    /// Number of bytes at the end of a text that may be the beginning of a secret. Callers that show a text piece by
    /// piece hold these bytes back.
    pub fn unfinished(&self, text: &str) -> usize {
        let Some(&last) = text.as_bytes().last() else {
            return 0;
        };
        let partial = self.known.iter().filter_map(|secret| {
            let secret = secret.expose();
            let ends = 1..secret.len().min(text.len() + 1);
            ends.rev()
                .filter(|end| secret.as_bytes()[end - 1] == last)
                .filter(|end| secret.is_char_boundary(*end))
                .find(|end| text.ends_with(&secret[..*end]))
        });
        let Some(partial) = partial.max() else {
            return 0;
        };
        let safe = text.len() - partial;
        // The end of a complete secret may look like the beginning of another one.
        let spans = self.spans(text).into_iter();
        let enclosing = spans.filter(|(start, end)| *start < safe && safe < *end);
        text.len() - enclosing.map(|(start, _)| start).min().unwrap_or(safe)
    }

    /// Byte ranges of secrets, in order and without overlap.
    fn spans(&self, text: &str) -> Vec<(usize, usize)> {
        let mut spans: Vec<(usize, usize)> = Vec::new();
        for secret in &self.known {
            let secret = secret.expose();
            let mut from = 0;
            while let Some(found) = text[from..].find(secret) {
                let start = from + found;
                spans.push((start, start + secret.len()));
                // The next secret may begin inside this one.
                from = start + text[start..].chars().next().map_or(1, char::len_utf8);
            }
        }
        spans.sort_unstable();
        let mut merged: Vec<(usize, usize)> = Vec::with_capacity(spans.len());
        for (start, end) in spans {
            match merged.last_mut() {
                Some(last) if start < last.1 => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        merged
    }
}

#[cfg(test)]
mod tests;
