//! [`McpService`]: the servers there are. Keys are not among what is kept: a value that is one has to be
//! the name of a variable.

use std::sync::Arc;

use cleveragents_domain::{Code, Diagnose, PlanId, nearest};
use cleveragents_mcp::{Hidden, McpError, ServerDefinition};
use cleveragents_models::{Redactor, looks_secret};
use cleveragents_store::definitions::{self, DefinitionKind, StoredDefinition};
use cleveragents_store::{Engine, Error, resources};
use cleveragents_tools::ports::is_secret_name;
use serde_json::{Value, json};

use crate::plan::{Used, active_plans_using};
use crate::resource::{Outcome, Register};
use crate::sandbox::hide_database;

/// Why a server cannot be registered, found or removed.
#[derive(Debug, thiserror::Error)]
pub enum McpServiceError {
    /// The server itself, or its definition.
    #[error(transparent)]
    Server(#[from] McpError),
    /// There is none of this name.
    #[error("there is no MCP server named `{name}`")]
    NotFound {
        /// The name as it was given.
        name: String,
        /// One that is much like it.
        nearest: Option<String>,
    },
    /// Plans that are not over use it.
    #[error("plans that are not over use the MCP server `{name}`: {}", crate::project::shown(.plans))]
    UsedByPlans {
        /// The server.
        name: String,
        /// The plans.
        plans: Vec<PlanId>,
    },
    /// A key would be stored.
    #[error("the value of `{field}` of the server `{server}` is a key, and keys are not stored")]
    Secret {
        /// The server.
        server: String,
        /// The variable or the header.
        field: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] Error),
}

impl Diagnose for McpServiceError {
    fn code(&self) -> Code {
        match self {
            Self::Server(error) => error.code(),
            Self::NotFound { .. } => Code::McpServerNotFound,
            Self::Secret { .. } => Code::InvalidMcp,
            Self::UsedByPlans { .. } => Code::McpServerInUse,
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Server(McpError::Exists(_)) => {
                Some("choose another name, or repeat the command with --update".to_owned())
            }
            Self::Server(error) => error.hint(),
            Self::NotFound {
                nearest: Some(name),
                ..
            } => Some(format!(
                "did you mean `{name}`? `agents mcp list` shows all"
            )),
            Self::NotFound { .. } => Some("run `agents mcp list` to see what there is".to_owned()),
            Self::Secret { field, .. } => Some(format!(
                "put it into a variable of the environment and write `${{{}}}`",
                variable_of(field)
            )),
            Self::UsedByPlans { plans, .. } => crate::plan::hint_to_end(plans),
            Self::Store(error) => error.hint(),
        }
    }

    fn details(&self) -> Value {
        match self {
            Self::Server(error) => error.details(),
            Self::Secret { server, field } => json!({"server": server, "field": field}),
            Self::UsedByPlans { name, plans } => json!({"name": name, "plans": plans}),
            Self::Store(error) => error.details(),
            Self::NotFound { .. } => Value::Null,
        }
    }
}

/// A server as it is registered.
#[derive(Debug)]
pub struct RegisteredServer {
    /// Its text and its dates.
    pub stored: StoredDefinition,
    /// What the text says; what is wrong with it when this program cannot read it.
    pub definition: Result<ServerDefinition, String>,
}

/// A server that was just registered.
#[derive(Debug)]
pub struct AddedServer {
    /// What it is.
    pub definition: ServerDefinition,
    /// Its text and its dates.
    pub stored: StoredDefinition,
    /// Whether it is new or took the place of another.
    pub outcome: Outcome,
}

/// Keeps servers.
#[derive(Clone)]
pub struct McpService {
    engine: Arc<Engine>,
}

impl McpService {
    /// A service over a store.
    pub fn new(engine: Arc<Engine>) -> Self {
        hide_database(&engine);
        Self { engine }
    }

    /// Registers servers, all of them or none.
    pub fn add(
        &self,
        servers: &[ServerDefinition],
        source: &str,
        register: Register,
        redactor: &Redactor,
    ) -> Result<Vec<AddedServer>, McpServiceError> {
        let mut texts = Vec::new();
        for server in servers {
            if let Some(field) = secrets(server, redactor).into_iter().next() {
                return Err(McpServiceError::Secret {
                    server: server.name.clone(),
                    field,
                });
            }
            let text = serde_json::to_string_pretty(server)
                .map_err(|error| Error::Internal(error.to_string()))?;
            texts.push((server.name.clone(), text));
        }
        let source = source.to_owned();
        let written = self.engine.write(move |unit| {
            let mut written = Vec::new();
            for (name, text) in &texts {
                let kind = DefinitionKind::McpServer;
                let outcome = if definitions::insert(unit, kind, name, text, &source)? {
                    Outcome::Created
                } else if register == Register::Update {
                    definitions::update(unit, kind, name, text, &source)?;
                    Outcome::Updated
                } else {
                    return Err(McpServiceError::Server(McpError::Exists(name.clone())));
                };
                if let Some(stored) = definitions::get(unit, kind, name)? {
                    written.push((stored, outcome));
                }
            }
            Ok(written)
        })?;
        Ok(servers
            .iter()
            .zip(written)
            .map(|(definition, (stored, outcome))| AddedServer {
                definition: definition.clone(),
                stored,
                outcome,
            })
            .collect())
    }

    /// The registered servers, by name.
    pub fn list(&self) -> Result<Vec<RegisteredServer>, McpServiceError> {
        let stored = self
            .engine
            .read(|reader| definitions::list(reader, DefinitionKind::McpServer))?;
        Ok(stored
            .into_iter()
            .map(|stored| RegisteredServer {
                definition: serde_json::from_str(&stored.definition)
                    .map_err(|error| error.to_string()),
                stored,
            })
            .collect())
    }

    /// One server.
    pub fn get(&self, name: &str) -> Result<RegisteredServer, McpServiceError> {
        let mut all = self.list()?;
        match all.iter().position(|server| server.stored.name == name) {
            Some(place) => Ok(all.swap_remove(place)),
            None => Err(McpServiceError::NotFound {
                name: name.to_owned(),
                nearest: nearest::best(name, all.iter().map(|server| server.stored.name.as_str())),
            }),
        }
    }

    /// Removes a server that no unfinished plan uses.
    pub fn remove(&self, name: &str) -> Result<StoredDefinition, McpServiceError> {
        let found = self.get(name)?.stored;
        let key = name.to_owned();
        let is_removed = self.engine.write(move |unit| {
            resources::lock(unit)?;
            let plans = active_plans_using(unit, Used::Server(&key))?;
            if !plans.is_empty() {
                return Err(McpServiceError::UsedByPlans {
                    name: key.clone(),
                    plans,
                });
            }
            Ok(definitions::remove(unit, DefinitionKind::McpServer, &key)?)
        })?;
        if is_removed {
            Ok(found)
        } else {
            // Somebody else removed it meanwhile.
            Err(McpServiceError::NotFound {
                name: name.to_owned(),
                nearest: None,
            })
        }
    }
}

/// Whether a value is a key itself and not the name of one.
fn is_secret(name: &str, value: &Hidden, redactor: &Redactor) -> bool {
    let text = value.expose();
    let is_named = is_secret_name(name) && !text.is_empty() && !text.contains("${");
    is_named || holds_secret(text, redactor)
}

/// Whether a text holds a known secret, or something that looks like one.
fn holds_secret(text: &str, redactor: &Redactor) -> bool {
    looks_secret(text) || redactor.text(text) != text
}

/// The variables and headers of a server whose values are keys.
fn secrets(server: &ServerDefinition, redactor: &Redactor) -> Vec<String> {
    let named = server.env.iter().chain(&server.headers);
    let mut found: Vec<String> = named
        .filter(|(name, value)| is_secret(name, value, redactor))
        .map(|(name, _)| name.clone())
        .collect();
    let oauth = server.auth.as_ref().and_then(|auth| auth.oauth.as_ref());
    if let Some(secret) = oauth.and_then(|oauth| oauth.client_secret.as_ref())
        && is_secret("client_secret", secret, redactor)
    {
        found.push("client_secret".to_owned());
    }
    let open = server.args.iter().chain(&server.url);
    if open.into_iter().any(|text| holds_secret(text, redactor)) {
        found.push("args".to_owned());
    }
    found
}

/// Puts names of variables in the place of keys, and says which. What is left of keys elsewhere is
/// refused when the server is added.
pub fn hide_secrets(server: &mut ServerDefinition, redactor: &Redactor) -> Vec<String> {
    let mut hidden = Vec::new();
    for (name, value) in &mut server.env {
        if is_secret(name, value, redactor) {
            *value = Hidden::new(format!("${{{name}}}"));
            hidden.push(name.clone());
        }
    }
    for (name, value) in &mut server.headers {
        if is_secret(name, value, redactor) {
            let variable = variable_of(name);
            let bearer = value.expose().starts_with("Bearer ");
            let scheme = if bearer { "Bearer " } else { "" };
            *value = Hidden::new(format!("{scheme}${{{variable}}}"));
            hidden.push(variable);
        }
    }
    hidden
}

/// The name of a variable for a header or a field.
fn variable_of(name: &str) -> String {
    name.chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() {
                letter.to_ascii_uppercase()
            } else {
                '_'
            }
        })
        .collect()
}
