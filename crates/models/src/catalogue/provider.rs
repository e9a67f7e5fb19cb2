//! Connection settings of a provider: its address, its key, its headers.

use std::collections::HashMap;
use std::sync::{MutexGuard, PoisonError};

use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};

use super::{Catalogue, KeyState};
use crate::error::{ErrorKind, ModelError};
use crate::name::ModelName;
use crate::provider::built_in;
use crate::redact::shown_address;
use crate::secret::Secret;
use crate::wire::{Dialect, Protocol, Target, needs_responses};
use crate::yaml;

/// A provider with all settings that affect how it is called.
pub(super) struct Provider {
    pub(super) protocol: Protocol,
    dialect: Dialect,
    base_url: Option<String>,
    base_url_variables: Vec<String>,
    pub(super) key_variables: Vec<String>,
    needs_key: bool,
    headers: Vec<(String, String)>,
}

impl Catalogue {
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        let value = (self.options.variables)(name)?;
        let value = value.trim();
        (!value.is_empty()).then(|| value.to_owned())
    }

    pub(super) fn provider(&self, name: &ModelName) -> Result<Provider, ModelError> {
        let known = built_in(name.provider());
        let written = self.providers.get(name.provider());
        if known.is_none() && written.is_none() {
            return Err(self.unknown_provider(name));
        }
        let mut provider = known.map_or_else(
            || Provider {
                protocol: Protocol::OpenaiChat,
                dialect: Dialect::Plain,
                base_url: None,
                base_url_variables: vec![base_url_variable(name.provider())],
                key_variables: Vec::new(),
                needs_key: false,
                headers: Vec::new(),
            },
            |known| Provider {
                protocol: known.protocol,
                dialect: known.dialect,
                base_url: known.base_url.map(str::to_owned),
                base_url_variables: owned(known.base_url_variables),
                key_variables: owned(known.key_variables),
                needs_key: known.needs_key,
                headers: Vec::new(),
            },
        );
        if let Some(written) = written {
            provider.protocol = written.protocol.unwrap_or(provider.protocol);
            if let Some(url) = &written.base_url {
                provider.base_url = Some(url.clone());
                // With an address from a file, a key is needed only if the file names its variable.
                provider.needs_key = false;
            }
            if let Some(variable) = &written.key_variable {
                provider.key_variables = vec![variable.clone()];
                provider.needs_key = true;
            }
            let headers = written.headers.iter();
            provider.headers = headers
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
        }
        let has_default_protocol = written.is_none_or(|written| written.protocol.is_none());
        if let Some(protocol) = self.table.find(name).protocol {
            provider.protocol = protocol;
        } else if has_default_protocol
            && provider.dialect == Dialect::OpenAi
            && needs_responses(name.model())
        {
            provider.protocol = Protocol::OpenaiResponses;
        }
        Ok(provider)
    }

    fn unknown_provider(&self, name: &ModelName) -> ModelError {
        let known = self.providers();
        let similarity =
            |word: &String| strsim::normalized_damerau_levenshtein(name.provider(), word);
        let nearest = known
            .iter()
            .max_by(|left, right| similarity(left).total_cmp(&similarity(right)))
            .filter(|word| similarity(word) >= 0.6);
        let message = format!("there is no provider `{}`", name.provider());
        let hint = match nearest {
            Some(word) => format!("write `{word}/{}`", name.model()),
            None => format!(
                "use one of {}, or describe it in models.yaml",
                known.join(", ")
            ),
        };
        ModelError::new(ErrorKind::UnknownProvider, name, message).with_hint(hint)
    }

    /// Base URL of a provider, and whether it comes from the environment.
    pub(super) fn base_url(&self, provider: &Provider) -> Option<(String, bool)> {
        let from_environment = provider
            .base_url_variables
            .iter()
            .find_map(|name| self.variable(name));
        match from_environment {
            // `OLLAMA_HOST` is often written without a scheme.
            Some(url) if !url.contains("://") => Some((format!("http://{url}"), true)),
            Some(url) => Some((url, true)),
            None => provider.base_url.clone().map(|url| (url, false)),
        }
    }

    /// API key of a provider, and its source. The key is optional at a custom address.
    pub(super) fn key(
        &self,
        provider: &Provider,
        is_own_address: bool,
    ) -> (KeyState, Option<Secret>) {
        for name in &provider.key_variables {
            if let Some(value) = self.variable(name) {
                return (
                    KeyState::Variable { name: name.clone() },
                    Some(Secret::new(value)),
                );
            }
        }
        for name in &provider.key_variables {
            if let Some(key) = self.ask_keyring(name) {
                return (KeyState::Keyring { name: name.clone() }, Some(key));
            }
        }
        if provider.needs_key && !is_own_address {
            let names = provider.key_variables.clone();
            (KeyState::Missing { names }, None)
        } else {
            (KeyState::NotNeeded, None)
        }
    }

    fn ask_keyring(&self, name: &str) -> Option<Secret> {
        let keyring = self.options.keyring.as_ref()?;
        if let Some(known) = self.given_by_keyring().get(name) {
            return known.clone();
        }
        let answer = keyring(name).filter(|key| !key.is_empty()).map(Secret::new);
        if let Some(key) = &answer {
            crate::redact::remember(key);
        }
        let mut cache = self.given_by_keyring();
        cache.insert(name.to_owned(), answer.clone());
        answer
    }

    pub(super) fn given_by_keyring(&self) -> MutexGuard<'_, HashMap<String, Option<Secret>>> {
        let given = self.from_keyring.lock();
        given.unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn target(&self, name: &ModelName) -> Result<Target, ModelError> {
        let provider = self.provider(name)?;
        let Some((url, is_own)) = self.base_url(&provider) else {
            let variables = provider.base_url_variables.join(" or ");
            let message = "the provider has no default address";
            return Err(ModelError::new(ErrorKind::InvalidBaseUrl, name, message)
                .with_hint(format!("set {variables}, or `base_url` in models.yaml")));
        };
        let base_url = parse_url(name, &url)?;
        let (state, key) = self.key(&provider, is_own);
        if let KeyState::Missing { names } = state {
            let names = names.join(" or ");
            let message = format!("there is no key: {names} is not set");
            return Err(ModelError::new(ErrorKind::NoKey, name, message)
                .with_hint(format!("set {names} to the key of your account")));
        }
        let mut headers = Vec::new();
        for (header, value) in &provider.headers {
            let pair = (HeaderName::try_from(header), HeaderValue::try_from(value));
            let (Ok(header), Ok(value)) = pair else {
                let message = format!("`{header}` or its value cannot be sent as a header");
                return Err(yaml::broken("models.yaml", message));
            };
            headers.push((header, value));
        }
        let (capabilities, description) = self.described(name, provider.protocol);
        Ok(Target {
            name: name.clone(),
            protocol: provider.protocol,
            dialect: provider.dialect,
            base_url,
            key,
            headers,
            capabilities,
            thinking: description.thinking.unwrap_or_default(),
            accepts_sampling: description.sampling.unwrap_or(true),
            api_version: self
                .variable("AZURE_OPENAI_API_VERSION")
                .unwrap_or_else(|| "2024-10-21".to_owned()),
        })
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Variable for the base URL: `MINE_BASE_URL` for provider `mine`.
fn base_url_variable(provider: &str) -> String {
    format!(
        "{}_BASE_URL",
        provider.to_ascii_uppercase().replace('-', "_")
    )
}

fn parse_url(name: &ModelName, url: &str) -> Result<Url, ModelError> {
    let refused = |reason: &str| {
        let shown = shown_address(url);
        let message = format!("the base URL `{shown}` cannot be used: {reason}");
        ModelError::new(ErrorKind::InvalidBaseUrl, name, message)
    };
    let parsed = Url::parse(url).map_err(|error| refused(&error.to_string()))?;
    if !matches!(parsed.scheme(), "http" | "https") || !parsed.has_host() {
        return Err(refused("it is not an http or https URL"));
    }
    Ok(parsed)
}
