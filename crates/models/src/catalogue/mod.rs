//! [`Catalogue`]: the available models. All models are opened through it.

mod provider;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use cleveragents_domain::{RemoteAgent, is_agent_token_variable};
use serde::{Deserialize, Serialize};

use crate::agent::{AgentModel, Caller, PROVIDER};
use crate::error::{ErrorKind, ModelError};
use crate::fallback::Fallback;
use crate::file::{ModelFile, WrittenProvider};
use crate::http::Http;
use crate::limits::{Limits, RetryPolicy};
use crate::model::{Capabilities, Model};
use crate::name::{ModelName, ModelNameError};
use crate::price::{Description, Price, Table};
use crate::provider::{BUILT_IN, DEFAULT_PROVIDERS, built_in};
use crate::redact::{Redactor, looks_secret, shown_address};
use crate::remote::Remote;
use crate::replay::{Recorder, Replay};
use crate::retry::RetryingModel;
use crate::scripted::ScriptedModel;
use crate::secret::{KEY_VARIABLES, Secret};
use crate::wire::Protocol;

/// Looks up an environment variable. Only the front end reads the real environment.
pub type Variables = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Settings of a catalogue.
#[derive(Clone)]
pub struct CatalogueOptions {
    /// Access to environment variables.
    pub variables: Variables,
    /// Fallback lookup, by the name of the variable, for keys that are not in the environment.
    pub keyring: Option<Variables>,
    /// The user's file of providers and models, if any.
    pub file: Option<PathBuf>,
    /// Base directory for paths of scripts and recordings.
    pub folder: PathBuf,
    /// Time and size limits of a call.
    pub limits: Limits,
    /// Retry policy of a call.
    pub retry: RetryPolicy,
    /// Models to try when one fails, in order.
    pub fallback: Vec<ModelName>,
    /// File to which every exchange is appended.
    pub record: Option<PathBuf>,
    /// Additional values to redact, such as secrets of the environment.
    pub secrets: Vec<Secret>,
    /// Whether remote agents may be on this machine or in a private network.
    pub private_agents: bool,
}

impl CatalogueOptions {
    /// Default limits, no file, no fallback and no recording.
    pub fn new(variables: Variables, folder: impl Into<PathBuf>) -> Self {
        Self {
            variables,
            keyring: None,
            file: None,
            folder: folder.into(),
            limits: Limits::default(),
            retry: RetryPolicy::default(),
            fallback: Vec::new(),
            record: None,
            secrets: Vec::new(),
            private_agents: false,
        }
    }
}

/// All available models.
pub struct Catalogue {
    options: CatalogueOptions,
    table: Table,
    providers: BTreeMap<String, WrittenProvider>,
    http: Arc<Http>,
    /// Cached results of keyring lookups: a lookup takes time and may prompt the user.
    from_keyring: Mutex<HashMap<String, Option<Secret>>>,
}

/// A model as shown in lists.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelEntry {
    /// Full name of the model.
    pub name: ModelName,
    /// Supported features and limits.
    pub capabilities: Capabilities,
    /// Price; `None` when unknown.
    pub price: Option<Price>,
    /// Protocol of its provider; `None` for scripts and recordings.
    pub protocol: Option<Protocol>,
    /// Base URL of its provider.
    pub base_url: Option<String>,
    /// Source of the API key.
    pub key: KeyState,
}

impl ModelEntry {
    /// Whether an address and the required key are configured. Does not contact the provider.
    pub fn is_available(&self) -> bool {
        !matches!(self.key, KeyState::Missing { .. })
            && (self.base_url.is_some() || self.protocol.is_none())
    }
}

/// Source of an API key. Never contains the key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum KeyState {
    /// An environment variable.
    Variable {
        /// Name of the variable.
        name: String,
    },
    /// An entry of the keyring.
    Keyring {
        /// Name of the entry.
        name: String,
    },
    /// The key is in none of these variables.
    Missing {
        /// Names of the variables.
        names: Vec<String>,
    },
    /// No key is needed.
    NotNeeded,
}

impl Catalogue {
    /// Returns the default model of the first provider whose key is set, and the name of the variable with the key. For
    /// users who have configured nothing else.
    pub fn model_of_key(&self) -> Option<(ModelName, String)> {
        DEFAULT_PROVIDERS.iter().find_map(|name| {
            let model = built_in(name)?.default_model?;
            let name: ModelName = format!("{name}/{model}").parse().ok()?;
            let provider = self.provider(&name).ok()?;
            match self.key(&provider, false).0 {
                KeyState::Variable { name: variable } | KeyState::Keyring { name: variable } => {
                    Some((name, variable))
                }
                KeyState::Missing { .. } | KeyState::NotNeeded => None,
            }
        })
    }

    /// Returns the default model of each provider, and the variable for its key.
    pub fn models_of_keys(&self) -> Vec<(ModelName, String)> {
        let models = DEFAULT_PROVIDERS.iter().filter_map(|name| {
            let model = built_in(name)?.default_model?;
            let name: ModelName = format!("{name}/{model}").parse().ok()?;
            let provider = self.provider(&name).ok()?;
            Some((name, provider.key_variables.first()?.clone()))
        });
        models.collect()
    }

    /// Reads the built-in table of models and the user's file.
    pub fn new(options: CatalogueOptions) -> Result<Self, ModelError> {
        let mut table = Table::default();
        for file in ModelFile::built_in()? {
            table.extend(file.models);
        }
        let mut providers = BTreeMap::new();
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
            from_keyring: Mutex::default(),
        })
    }

    /// Opens a model with the configured fallback models behind it.
    pub fn open(&self, name: &ModelName) -> Result<Arc<dyn Model>, ModelError> {
        let first = self.open_only(name);
        let fallbacks = self.options.fallback.iter().filter(|other| *other != name);
        let fallbacks: Vec<_> = fallbacks
            .map(|other| (other.clone(), self.open_only(other)))
            .collect();
        if fallbacks.is_empty() {
            return first;
        }
        Ok(Arc::new(Fallback::new((name.clone(), first), fallbacks)?))
    }

    /// Opens a model without fallback.
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
                let script =
                    ScriptedModel::read(name, &path.display().to_string(), &read_file(&path)?)?;
                Ok(Arc::new(RetryingModel::new(
                    Arc::new(script),
                    limits,
                    retry,
                )))
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
                // The redactor replaces all keys, because a server that receives the key of another provider by mistake
                // may echo it.
                let remote = Remote::new(target, price, limits, http, self.redactor());
                Ok(Arc::new(RetryingModel::new(
                    Arc::new(remote),
                    limits,
                    retry,
                )))
            }
        }
    }

    /// Opens a remote agent, which answers like a model. `name` is the name of its actor.
    pub fn open_agent(
        &self,
        name: &str,
        agent: &RemoteAgent,
    ) -> Result<Arc<dyn Model>, ModelError> {
        let full_name = format!("{PROVIDER}/{name}");
        let name: ModelName = full_name.parse().map_err(|error: ModelNameError| {
            ModelError::about(
                ErrorKind::InvalidName,
                full_name.as_str(),
                error.to_string(),
            )
        })?;
        let redactor = self.redactor();
        // An actor file written by others could embed secrets of the environment in its address.
        if redactor.text(&agent.url) != agent.url || looks_secret(&agent.url) {
            let why = "the address of the agent contains a secret";
            return Err(
                ModelError::new(ErrorKind::AddressRefused, &name, why).with_hint(
                    "set `token_env` to the name of the variable that holds the token instead",
                ),
            );
        }
        let token = match &agent.token_variable {
            None => None,
            Some(variable) if !is_agent_token_variable(variable) => {
                let why = format!("`{variable}` is not a valid variable for the token of an agent");
                return Err(ModelError::new(ErrorKind::NoKey, &name, why));
            }
            Some(variable) => {
                let Some(token) = self.variable(variable) else {
                    let why = format!("there is no token: {variable} is not set");
                    return Err(ModelError::new(ErrorKind::NoKey, &name, why)
                        .with_hint(format!("set {variable} to the token of the agent")));
                };
                Some(Secret::new(token))
            }
        };
        Ok(Arc::new(AgentModel::new(Caller {
            redactor: redactor.and(token.clone()),
            name,
            agent: agent.clone(),
            token,
            allows_private: self.options.private_agents,
            limits: self.options.limits,
            retry: self.options.retry,
        })))
    }

    /// All models that the table describes, sorted by name.
    pub fn list(&self) -> Vec<ModelEntry> {
        let described = self.table.names();
        described
            .filter_map(|name| self.entry(&name).ok())
            .collect()
    }

    /// Returns capabilities, price and connection of a model; defaults if the catalogue does not describe it.
    pub fn entry(&self, name: &ModelName) -> Result<ModelEntry, ModelError> {
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
        let (capabilities, _) = self.described(name, provider.protocol);
        let base_url = self.base_url(&provider);
        Ok(ModelEntry {
            name: name.clone(),
            capabilities,
            price: self.price(name),
            protocol: Some(provider.protocol),
            base_url: base_url
                .as_ref()
                .map(|(url, _)| shown_address(url).into_owned()),
            key: self
                .key(&provider, base_url.is_some_and(|(_, is_own)| is_own))
                .0,
        })
    }

    /// Names of all providers, sorted.
    pub fn providers(&self) -> Vec<String> {
        let mut names: Vec<String> = BUILT_IN
            .iter()
            .map(|provider| provider.name.to_owned())
            .collect();
        names.extend(self.providers.keys().cloned());
        names.extend(["replay".to_owned(), "scripted".to_owned()]);
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Variables that may hold the key of a provider, in order of precedence; `None` when the provider does not exist.
    pub fn key_variables_of(&self, provider: &str) -> Option<Vec<String>> {
        let name: ModelName = format!("{provider}/any").parse().ok()?;
        self.provider(&name)
            .ok()
            .map(|settings| settings.key_variables)
    }

    /// All variables that may hold a key. Child processes must not inherit them.
    pub fn key_variables(&self) -> Vec<String> {
        let custom = self
            .providers
            .values()
            .filter_map(|settings| settings.key_variable.clone());
        KEY_VARIABLES
            .iter()
            .map(|name| (*name).to_owned())
            .chain(custom)
            .collect()
    }

    /// Creates a redactor for all configured keys, the keys that the keyring returned so far, and the secrets of the
    /// options.
    pub fn redactor(&self) -> Redactor {
        let names = self.key_variables();
        let set = names.iter().filter_map(|name| self.variable(name));
        let from_keyring: Vec<Secret> = self
            .given_by_keyring()
            .values()
            .flatten()
            .cloned()
            .collect();
        let additional = self.options.secrets.iter().cloned();
        Redactor::new(set.map(Secret::new).chain(from_keyring).chain(additional))
    }

    fn described(&self, name: &ModelName, protocol: Protocol) -> (Capabilities, Description) {
        let description = self.table.find(name);
        let mut capabilities = description.capabilities.resolve();
        capabilities.max_tools = capabilities.max_tools.or_else(|| protocol.max_tools());
        (capabilities, description)
    }

    fn price(&self, name: &ModelName) -> Option<Price> {
        self.table.find(name).price.as_ref().and_then(Price::read)
    }

    fn path(&self, path: &Path) -> PathBuf {
        self.options.folder.join(path)
    }
}

fn read_file(path: &Path) -> Result<String, ModelError> {
    std::fs::read_to_string(path).map_err(|error| {
        let message = format!("the file cannot be read: {error}");
        ModelError::about(ErrorKind::FileAccess, path.display().to_string(), message)
    })
}
