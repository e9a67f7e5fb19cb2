//! The built-in providers: their addresses, protocols and key variables.

use crate::wire::{Dialect, Protocol};

/// A built-in provider.
pub(crate) struct BuiltIn {
    pub(crate) name: &'static str,
    pub(crate) protocol: Protocol,
    pub(crate) dialect: Dialect,
    /// Default address; `None` if every customer has a different address.
    pub(crate) base_url: Option<&'static str>,
    /// Variables that override the address; the first that is set wins.
    pub(crate) base_url_variables: &'static [&'static str],
    /// Variables that hold the key; the first that is set wins.
    pub(crate) key_variables: &'static [&'static str],
    /// Whether the provider requires a key.
    pub(crate) needs_key: bool,
    /// Model to use when the user has configured only a key.
    pub(crate) default_model: Option<&'static str>,
}

/// Returns the built-in provider with this name.
pub(crate) fn built_in(name: &str) -> Option<&'static BuiltIn> {
    let name = if name == "google" { "gemini" } else { name };
    BUILT_IN.iter().find(|provider| provider.name == name)
}

/// Providers whose keys select a default model, in order of preference.
pub(crate) const DEFAULT_PROVIDERS: [&str; 7] = [
    "anthropic",
    "openai",
    "gemini",
    "mistral",
    "deepseek",
    "together",
    "groq",
];

/// All built-in providers, except `scripted` and `replay`.
pub(crate) static BUILT_IN: [BuiltIn; 11] = [
    BuiltIn {
        name: "openai",
        protocol: Protocol::OpenaiChat,
        dialect: Dialect::OpenAi,
        base_url: Some("https://api.openai.com/v1"),
        base_url_variables: &["OPENAI_BASE_URL", "OPENAI_API_BASE"],
        key_variables: &["OPENAI_API_KEY"],
        needs_key: true,
        default_model: Some("gpt-5.6"),
    },
    BuiltIn {
        name: "openai-responses",
        protocol: Protocol::OpenaiResponses,
        dialect: Dialect::OpenAi,
        base_url: Some("https://api.openai.com/v1"),
        base_url_variables: &["OPENAI_BASE_URL", "OPENAI_API_BASE"],
        key_variables: &["OPENAI_API_KEY"],
        needs_key: true,
        default_model: None,
    },
    BuiltIn {
        name: "anthropic",
        protocol: Protocol::Anthropic,
        dialect: Dialect::Plain,
        base_url: Some("https://api.anthropic.com"),
        base_url_variables: &["ANTHROPIC_BASE_URL"],
        key_variables: &["ANTHROPIC_API_KEY"],
        needs_key: true,
        default_model: Some("claude-sonnet-5"),
    },
    BuiltIn {
        name: "gemini",
        protocol: Protocol::Gemini,
        dialect: Dialect::Plain,
        base_url: Some("https://generativelanguage.googleapis.com"),
        base_url_variables: &["GEMINI_BASE_URL", "GOOGLE_GEMINI_BASE_URL"],
        key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        needs_key: true,
        default_model: Some("gemini-3.6-flash"),
    },
    BuiltIn {
        name: "ollama",
        protocol: Protocol::Ollama,
        dialect: Dialect::Plain,
        base_url: Some("http://localhost:11434"),
        base_url_variables: &["OLLAMA_BASE_URL", "OLLAMA_HOST"],
        key_variables: &["OLLAMA_API_KEY"],
        needs_key: false,
        default_model: None,
    },
    BuiltIn {
        name: "openrouter",
        protocol: Protocol::OpenaiChat,
        dialect: Dialect::OpenRouter,
        base_url: Some("https://openrouter.ai/api/v1"),
        base_url_variables: &["OPENROUTER_BASE_URL"],
        key_variables: &["OPENROUTER_API_KEY"],
        needs_key: true,
        default_model: None,
    },
    BuiltIn {
        name: "groq",
        protocol: Protocol::OpenaiChat,
        dialect: Dialect::Groq,
        base_url: Some("https://api.groq.com/openai/v1"),
        base_url_variables: &["GROQ_BASE_URL"],
        key_variables: &["GROQ_API_KEY"],
        needs_key: true,
        default_model: Some("openai/gpt-oss-120b"),
    },
    BuiltIn {
        name: "together",
        protocol: Protocol::OpenaiChat,
        dialect: Dialect::Plain,
        base_url: Some("https://api.together.xyz/v1"),
        base_url_variables: &["TOGETHER_BASE_URL"],
        key_variables: &["TOGETHER_API_KEY"],
        needs_key: true,
        default_model: Some("moonshotai/Kimi-K2.5"),
    },
    BuiltIn {
        name: "mistral",
        protocol: Protocol::OpenaiChat,
        dialect: Dialect::Mistral,
        base_url: Some("https://api.mistral.ai/v1"),
        base_url_variables: &["MISTRAL_BASE_URL"],
        key_variables: &["MISTRAL_API_KEY"],
        needs_key: true,
        default_model: Some("mistral-medium-latest"),
    },
    BuiltIn {
        name: "deepseek",
        protocol: Protocol::OpenaiChat,
        dialect: Dialect::DeepSeek,
        base_url: Some("https://api.deepseek.com/v1"),
        base_url_variables: &["DEEPSEEK_BASE_URL"],
        key_variables: &["DEEPSEEK_API_KEY"],
        needs_key: true,
        default_model: Some("deepseek-v4-pro"),
    },
    BuiltIn {
        name: "azure",
        protocol: Protocol::OpenaiChat,
        dialect: Dialect::Azure,
        base_url: None,
        base_url_variables: &["AZURE_OPENAI_ENDPOINT", "AZURE_BASE_URL"],
        key_variables: &["AZURE_OPENAI_API_KEY"],
        needs_key: true,
        default_model: None,
    },
];

#[cfg(test)]
mod tests {
    use super::{BUILT_IN, DEFAULT_PROVIDERS, built_in};
    use crate::secret::KEY_VARIABLES;

    #[test]
    fn every_default_model_is_in_the_table() {
        let with_default = BUILT_IN
            .iter()
            .filter(|provider| provider.default_model.is_some());
        assert_eq!(with_default.count(), DEFAULT_PROVIDERS.len());
        let files = crate::file::ModelFile::built_in().expect("valid files");
        for name in DEFAULT_PROVIDERS {
            let provider = built_in(name).expect("a provider");
            let model = provider.default_model.expect("a default");
            let full: crate::ModelName = format!("{name}/{model}").parse().expect("a name");
            let mut table = crate::price::Table::default();
            for file in &files {
                table.extend(file.models.clone());
            }
            let description = table.find(&full);
            assert!(description.price.is_some(), "{full} is not in models.yaml");
        }
    }

    #[test]
    fn every_key_variable_is_in_the_public_list() {
        for provider in &BUILT_IN {
            for variable in provider.key_variables {
                assert!(KEY_VARIABLES.contains(variable), "{variable}");
            }
        }
    }
}
