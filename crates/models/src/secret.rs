//! API keys: a type that prints as `[REDACTED]`, and the variables that may hold keys.

use std::fmt;

/// An API key. Displays as `[REDACTED]` and cannot be serialised; only [`Secret::expose`] returns
/// the key.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a key.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// Returns the key itself, for the request that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(crate::redact::MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(crate::redact::MASK)
    }
}

/// Environment variables that hold keys of providers. Child processes must not inherit them.
pub const KEY_VARIABLES: &[&str] = &[
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "GROQ_API_KEY",
    "TOGETHER_API_KEY",
    "MISTRAL_API_KEY",
    "DEEPSEEK_API_KEY",
    "OPENROUTER_API_KEY",
    "AZURE_OPENAI_API_KEY",
    "OLLAMA_API_KEY",
];

#[cfg(test)]
mod tests {
    use super::Secret;

    #[test]
    fn a_key_cannot_be_printed() {
        let secret = Secret::new("abcdefgh12345678");
        assert_eq!(
            format!("{secret} {secret:?} {:#?}", [&secret]),
            "[REDACTED] [REDACTED] [\n    [REDACTED],\n]"
        );
        assert_eq!(secret.expose(), "abcdefgh12345678");
    }
}
