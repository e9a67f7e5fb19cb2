//! The catalogue: which models there are, and the only way to open one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};
use serde::Serialize;

use crate::error::{ErrorKind, ModelError};
use crate::fallback::Fallback;
use crate::file::{ModelFile, WrittenProvider};
use crate::http::Http;
use crate::limits::{Limits, RetryPolicy};
use crate::model::{Capabilities, Model};
use crate::name::ModelName;
use crate::persist::Persistent;
use crate::price::{Description, Price, Table};
use crate::provider::{BUILT_IN, built_in};
use crate::redact::Redactor;
use crate::remote::Remote;
use crate::replay::{Recorder, Replay};
use crate::scripted::Scripted;
use crate::secret::{KEY_VARIABLES, Secret};
use crate::wire::{Dialect, Protocol, Target};
use crate::yaml;

/// How a catalogue looks up a variable of the environment. Only the front end reads the real one.
pub type Variables = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// What a catalogue is made from.
#[derive(Clone)]
pub struct CatalogueOptions {
    /// The environment.
    pub variables: Variables,
    /// The user's file of providers and models, if there is one.
    pub file: Option<PathBuf>,
    /// The folder from which paths of scripts and recordings start.
    pub folder: PathBuf,
    /// The limits of a call.
    pub limits: Limits,
    /// How often a call is tried.
    pub retry: RetryPolicy,
    /// The models to try when one fails, in order.
    pub fallback: Vec<ModelName>,
    /// The file to which every exchange is added.
    pub record: Option<PathBuf>,
}

impl CatalogueOptions {
    /// The usual limits, no file, no fallback and no recording.
    pub fn new(variables: Variables, folder: impl Into<PathBuf>) -> Self {
        Self {
            variables,
            file: None,
            folder: folder.into(),
            limits: Limits::default(),
            retry: RetryPolicy::default(),
            fallback: Vec::new(),
            record: None,
        }
    }
}

/// All models that can be asked.
pub struct Catalogue {
    options: CatalogueOptions,
    table: Table,
    providers: std::collections::BTreeMap<String, WrittenProvider>,
    http: Arc<Http>,
}

/// A model as a list shows it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelEntry {
    /// Its name.
    pub name: ModelName,
    /// What it can do.
    pub capabilities: Capabilities,
    /// What it costs; nothing when that is not known.
    pub price: Option<Price>,
    /// How its provider is spoken to; nothing for scripts and recordings.
    pub protocol: Option<Protocol>,
    /// Where its provider is.
    pub base_url: Option<String>,
    /// Where the key comes from.
    pub key: KeyState,
}

impl ModelEntry {
    /// Whether it could be asked now, as far as that is known without asking.
    pub fn is_available(&self) -> bool {
        !matches!(self.key, KeyState::Missing { .. })
            && (self.base_url.is_some() || self.protocol.is_none())
    }
}

/// Where a key comes from. Never the key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum KeyState {
    /// From this variable.
    Variable {
        /// Its name.
        name: String,
    },
    /// It is in none of these variables.
    Missing {
        /// Their names.
        names: Vec<String>,
    },
    /// None is needed.
    NotNeeded,
}

/// A provider with everything that decides how it is reached.
struct Provider {
    protocol: Protocol,
    dialect: Dialect,
    base_url: Option<String>,
    base_url_variables: Vec<String>,
    key_variables: Vec<String>,
    needs_key: bool,
    headers: Vec<(String, String)>,
}

impl Catalogue {
    /// Reads the table of models and the user's file.
    pub fn new(options: CatalogueOptions) -> Result<Self, ModelError> {
        let mut table = Table::default();
        table.extend(ModelFile::built_in()?.models);
        let mut providers = std::collections::BTreeMap::new();
        if let Some(path) = &options.file {
            let shown = path.display().to_string();
            let file = ModelFile::read(&shown, &read_file(path)?)?;
            table.extend(file.models);
            providers = file.providers;
        }
        Ok(Self {
            options,
            table,
            providers,
            http: Arc::default(),
        })
    }

    /// Opens a model, with the configured fallback behind it.
    pub fn open(&self, name: &ModelName) -> Result<Arc<dyn Model>, ModelError> {
        let first = self.open_only(name);
        let rest = self.options.fallback.iter().filter(|other| *other != name);
        let rest: Vec<_> = rest
            .map(|other| (other.clone(), self.open_only(other)))
            .collect();
        if rest.is_empty() {
            return first;
        }
        Ok(Arc::new(Fallback::new((name.clone(), first), rest)?))
    }

    /// Opens a model alone.
    pub fn open_only(&self, name: &ModelName) -> Result<Arc<dyn Model>, ModelError> {
        let model = self.open_bare(name)?;
        Ok(match &self.options.record {
            Some(path) => Arc::new(Recorder::new(model, self.path(path), self.redactor())),
            None => model,
        })
    }

    fn open_bare(&self, name: &ModelName) -> Result<Arc<dyn Model>, ModelError> {
        let CatalogueOptions { limits, retry, .. } = self.options;
        match name.provider() {
            "scripted" => {
                let path = self.path(Path::new(name.model()));
                let script = Scripted::read(name, &path.display().to_string(), &read_file(&path)?)?;
                Ok(Arc::new(Persistent::new(Arc::new(script), limits, retry)))
            }
            "replay" => {
                let path = self.path(Path::new(name.model()));
                let text = read_file(&path)?;
                Ok(Arc::new(Replay::read(
                    name,
                    &path.display().to_string(),
                    &text,
                    self.redactor(),
                )?))
            }
            _ => {
                let target = self.target(name)?;
                let price = self.price(name);
                let http = Arc::clone(&self.http);
                // A server may repeat the key of another provider, if it was given the wrong one.
                let remote = Remote::new(target, price, limits, http, self.redactor());
                Ok(Arc::new(Persistent::new(Arc::new(remote), limits, retry)))
            }
        }
    }

    /// Every described model of every provider, in order of names.
    pub fn list(&self) -> Vec<ModelEntry> {
        let described = self.table.names();
        described
            .filter_map(|name| self.entry(&name).ok())
            .collect()
    }

    /// What is known of a model, described or not.
    pub fn entry(&self, name: &ModelName) -> Result<ModelEntry, ModelError> {
        let (capabilities, _) = self.described(name);
        if matches!(name.provider(), "scripted" | "replay") {
            let model = self.open_bare(name)?;
            return Ok(ModelEntry {
                name: name.clone(),
                capabilities: model.capabilities(),
                price: None,
                protocol: None,
                base_url: None,
                key: KeyState::NotNeeded,
            });
        }
        let provider = self.provider(name)?;
        let base_url = self.base_url(&provider);
        Ok(ModelEntry {
            name: name.clone(),
            capabilities,
            price: self.price(name),
            protocol: Some(provider.protocol),
            base_url: base_url
                .as_ref()
                .map(|(url, _)| Redactor::default().text(url).into_owned()),
            key: self
                .key(&provider, base_url.is_some_and(|(_, is_own)| is_own))
                .0,
        })
    }

    /// The names of all providers, in order.
    pub fn providers(&self) -> Vec<String> {
        let mut names: Vec<String> = BUILT_IN.iter().map(|found| found.name.to_owned()).collect();
        names.extend(self.providers.keys().cloned());
        names.extend(["replay".to_owned(), "scripted".to_owned()]);
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Every variable that may hold a key: child processes must not inherit them.
    pub fn key_variables(&self) -> Vec<String> {
        let own = self
            .providers
            .values()
            .filter_map(|found| found.key_variable.clone());
        KEY_VARIABLES
            .iter()
            .map(|name| (*name).to_owned())
            .chain(own)
            .collect()
    }

    /// A redactor that knows every key that is set.
    pub fn redactor(&self) -> Redactor {
        let keys = self.key_variables();
        Redactor::new(
            keys.iter()
                .filter_map(|name| self.variable(name))
                .map(Secret::new),
        )
    }

    fn described(&self, name: &ModelName) -> (Capabilities, Description) {
        let found = self.table.find(name).cloned().unwrap_or_default();
        (found.capabilities, found)
    }

    fn price(&self, name: &ModelName) -> Option<Price> {
        self.table.find(name)?.price.as_ref().and_then(Price::read)
    }

    fn variable(&self, name: &str) -> Option<String> {
        let value = (self.options.variables)(name)?;
        let value = value.trim();
        (!value.is_empty()).then(|| value.to_owned())
    }

    fn path(&self, path: &Path) -> PathBuf {
        self.options.folder.join(path)
    }

    fn provider(&self, name: &ModelName) -> Result<Provider, ModelError> {
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
                // Whoever wrote the address into a file also decides about the key.
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
        Ok(provider)
    }

    fn unknown_provider(&self, name: &ModelName) -> ModelError {
        let known = self.providers();
        let likeness =
            |word: &String| strsim::normalized_damerau_levenshtein(name.provider(), word);
        let nearest = known
            .iter()
            .max_by(|left, right| likeness(left).total_cmp(&likeness(right)))
            .filter(|word| likeness(word) >= 0.6);
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

    /// The address of a provider, and whether the environment names it.
    fn base_url(&self, provider: &Provider) -> Option<(String, bool)> {
        let own = provider
            .base_url_variables
            .iter()
            .find_map(|name| self.variable(name));
        match own {
            // `OLLAMA_HOST` is often written without a scheme.
            Some(url) if !url.contains("://") => Some((format!("http://{url}"), true)),
            Some(url) => Some((url, true)),
            None => provider.base_url.clone().map(|url| (url, false)),
        }
    }

    /// The key of a provider. At an address of one's own it may be left out.
    fn key(&self, provider: &Provider, is_own_address: bool) -> (KeyState, Option<Secret>) {
        for name in &provider.key_variables {
            if let Some(value) = self.variable(name) {
                return (
                    KeyState::Variable { name: name.clone() },
                    Some(Secret::new(value)),
                );
            }
        }
        if provider.needs_key && !is_own_address {
            let names = provider.key_variables.clone();
            (KeyState::Missing { names }, None)
        } else {
            (KeyState::NotNeeded, None)
        }
    }

    fn target(&self, name: &ModelName) -> Result<Target, ModelError> {
        let provider = self.provider(name)?;
        let Some((url, is_own)) = self.base_url(&provider) else {
            let variables = provider.base_url_variables.join(" or ");
            let message = "the provider has no address of its own";
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
        let (capabilities, description) = self.described(name);
        Ok(Target {
            name: name.clone(),
            protocol: provider.protocol,
            dialect: provider.dialect,
            base_url,
            key,
            headers,
            capabilities,
            thinking: description.thinking,
            api_version: self
                .variable("AZURE_OPENAI_API_VERSION")
                .unwrap_or_else(|| "2024-10-21".to_owned()),
        })
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// `mine` is reached by `MINE_BASE_URL`.
fn base_url_variable(provider: &str) -> String {
    format!(
        "{}_BASE_URL",
        provider.to_ascii_uppercase().replace('-', "_")
    )
}

fn parse_url(name: &ModelName, url: &str) -> Result<Url, ModelError> {
    let refused = |reason: &str| {
        let shown = Redactor::default().text(url).into_owned();
        let message = format!("the base URL `{shown}` cannot be used: {reason}");
        ModelError::new(ErrorKind::InvalidBaseUrl, name, message)
    };
    let parsed = Url::parse(url).map_err(|error| refused(&error.to_string()))?;
    if !matches!(parsed.scheme(), "http" | "https") || !parsed.has_host() {
        return Err(refused("it is no http or https URL"));
    }
    Ok(parsed)
}

fn read_file(path: &Path) -> Result<String, ModelError> {
    std::fs::read_to_string(path).map_err(|error| {
        let message = format!("the file cannot be read: {error}");
        ModelError::about(ErrorKind::FileAccess, path.display().to_string(), message)
    })
}
