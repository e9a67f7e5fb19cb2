//! Model names: `provider/model`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A provider and one of its models: `openai/gpt-5.1`, `ollama/llama3:8b`,
/// `openrouter/meta-llama/llama-3.3-70b-instruct`, `scripted/answers.yaml`.
///
/// The provider is in lower case; the model is kept as written, because only the provider can
/// interpret it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ModelName {
    provider: String,
    model: String,
}

/// The text is not a valid model name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a name of a model; a name is PROVIDER/MODEL, such as openai/gpt-5.1")]
pub struct ModelNameError(String);

impl ModelName {
    /// The provider, such as `openai`.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// The provider's name of the model; a path for `scripted` and `replay`.
    pub fn model(&self) -> &str {
        &self.model
    }
}

impl FromStr for ModelName {
    type Err = ModelNameError;

    fn from_str(text: &str) -> Result<Self, ModelNameError> {
        let refused = || ModelNameError(text.to_owned());
        let (provider, model) = text.trim().split_once('/').ok_or_else(refused)?;
        let provider = provider.to_ascii_lowercase();
        if !is_provider(&provider) || model.is_empty() || model.chars().any(char::is_control) {
            return Err(refused());
        }
        Ok(Self {
            provider,
            model: model.to_owned(),
        })
    }
}

/// Whether a text is a valid provider name: lowercase letters, digits, `-` and `_`.
pub(crate) fn is_provider(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit())
        && text.bytes().all(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_')
        })
}

impl fmt::Display for ModelName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.provider, self.model)
    }
}

impl TryFrom<String> for ModelName {
    type Error = ModelNameError;

    fn try_from(text: String) -> Result<Self, ModelNameError> {
        text.parse()
    }
}

impl From<ModelName> for String {
    fn from(name: ModelName) -> Self {
        name.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::ModelName;

    #[test]
    fn the_provider_is_lower_case_and_the_model_is_kept_as_written() {
        let name: ModelName = "OpenRouter/Meta-Llama/Llama-3:free"
            .parse()
            .expect("a name");
        assert_eq!(name.provider(), "openrouter");
        assert_eq!(name.model(), "Meta-Llama/Llama-3:free");
        assert_eq!(name.to_string(), "openrouter/Meta-Llama/Llama-3:free");
        assert_eq!(name.to_string().parse::<ModelName>(), Ok(name));
    }

    #[test]
    fn invalid_names_are_refused() {
        for text in [
            "",
            "gpt",
            "/gpt",
            "openai/",
            "open ai/x",
            "öpen/x",
            "a/b\nc",
            "-a/b",
        ] {
            let error = text.parse::<ModelName>().expect_err(text).to_string();
            assert!(error.contains("PROVIDER/MODEL"), "{error}");
        }
    }
}
