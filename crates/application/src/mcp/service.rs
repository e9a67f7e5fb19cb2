//! [`McpService`]: the registered MCP servers. Secrets are never stored: a secret value must be replaced by the
//! name of a variable.

use std::path::Path;
use std::sync::Arc;

use cleveragents_domain::yaml::Fault;
use cleveragents_domain::{
    Code, DefinitionFault, DefinitionFileError, DefinitionKind, Diagnose, Hint, hint,
};
use cleveragents_mcp::{HiddenText, McpError, ServerDefinition};
use cleveragents_models::{Redactor, looks_secret};
use cleveragents_store::definitions::StoredDefinition;
use cleveragents_store::{Engine, Error, Reader};
use cleveragents_tools::ports::is_secret_name;
use serde_json::{Value, json};

use crate::definition::{
    AddedDefinition, DefinitionError, DefinitionService, DefinitionText, DefinitionType,
    NewDefinition, RegisteredDefinition,
};
use crate::plan::{PlanDependency, active_plans_using};
use crate::resource::Register;
use crate::sandbox::hide_database;

/// Failure of the MCP service.
#[derive(Debug, thiserror::Error)]
pub enum McpServiceError {
    /// The server cannot be found, read, registered or removed.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// A request to the server failed.
    #[error(transparent)]
    Server(#[from] McpError),
    /// A secret would be stored.
    #[error("the value of `{field}` of the server `{server}` is a key, and keys are not stored")]
    Secret {
        /// Name of the server.
        server: String,
        /// The variable or header that contains the secret.
        field: String,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] Error),
}

impl From<Box<DefinitionFileError>> for McpServiceError {
    fn from(error: Box<DefinitionFileError>) -> Self {
        Self::Definition(error.into())
    }
}

impl Diagnose for McpServiceError {
    fn code(&self) -> Code {
        match self {
            Self::Definition(error) => error.code(),
            Self::Server(error) => error.code(),
            Self::Secret { .. } => Code::InvalidMcp,
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Definition(error) => error.hint(),
            Self::Server(error) => error.hint(),
            Self::Secret { field, .. } => Some(hint!(
                "put it into a variable of the environment and write `{}`",
                format!("${{{}}}", variable_of(field))
            )),
            Self::Store(error) => error.hint(),
        }
    }

    fn details(&self) -> Value {
        match self {
            Self::Definition(error) => error.details(),
            Self::Server(error) => error.details(),
            Self::Secret { server, field } => json!({"server": server, "field": field}),
            Self::Store(error) => error.details(),
        }
    }
}

/// Servers are stored as JSON, with references to variables in place of secrets.
impl DefinitionType for ServerDefinition {
    const KIND: DefinitionKind = DefinitionKind::McpServer;
    type Reading<'a> = ();
    type Error = McpServiceError;

    fn read(
        text: DefinitionText<'_>,
        _: &[StoredDefinition],
        (): (),
    ) -> Result<Self, Box<DefinitionFileError>> {
        serde_json::from_str(text.text).map_err(|error| {
            let fault = DefinitionFault::from(Fault::new(error.to_string()));
            Box::new(fault.in_file(Path::new(text.source), Self::KIND, ""))
        })
    }

    fn schema() -> Value {
        cleveragents_mcp::schema()
    }

    fn name(&self) -> String {
        self.name.clone()
    }

    /// Servers have no namespace.
    fn complete_name(name: &str) -> String {
        name.to_owned()
    }

    fn check_unused(
        reader: &mut dyn Reader,
        found: &StoredDefinition,
        _: &[StoredDefinition],
    ) -> Result<(), McpServiceError> {
        let plans = active_plans_using(reader, PlanDependency::Server(&found.name))?;
        Ok(DefinitionError::require_no_plans(
            Self::KIND,
            &found.name,
            plans,
        )?)
    }
}

/// The registered MCP servers.
#[derive(Clone)]
pub struct McpService {
    definitions: DefinitionService<ServerDefinition>,
}

impl McpService {
    /// A service for a store.
    pub fn new(engine: Arc<Engine>) -> Self {
        hide_database(&engine);
        Self {
            definitions: DefinitionService::new(engine),
        }
    }

    /// Registers servers atomically.
    pub fn add(
        &self,
        servers: &[ServerDefinition],
        source: &str,
        register: Register,
        redactor: &Redactor,
    ) -> Result<Vec<AddedDefinition<ServerDefinition>>, McpServiceError> {
        let mut all = Vec::new();
        for server in servers {
            if let Some(field) = secret_fields(server, redactor).into_iter().next() {
                return Err(McpServiceError::Secret {
                    server: server.name.clone(),
                    field,
                });
            }
            let text = serde_json::to_string_pretty(server)
                .map_err(|error| Error::Internal(error.to_string()))?;
            all.push(NewDefinition {
                name: server.name.clone(),
                definition: server.clone(),
                text,
                source: source.to_owned(),
            });
        }
        self.definitions.add_all(all, register)
    }

    /// The registered servers, by name.
    pub fn list(&self) -> Result<Vec<RegisteredDefinition<ServerDefinition>>, McpServiceError> {
        self.definitions.list_registered(())
    }

    /// Returns the server with this name.
    pub fn get(
        &self,
        name: &str,
    ) -> Result<RegisteredDefinition<ServerDefinition>, McpServiceError> {
        self.definitions.get_registered(name, ())
    }

    /// Removes a server that no unfinished plan uses.
    pub fn remove(&self, name: &str) -> Result<StoredDefinition, McpServiceError> {
        self.definitions.remove(name, ())
    }
}

/// Whether a value is a literal secret rather than a reference to a variable.
fn is_secret(name: &str, value: &HiddenText, redactor: &Redactor) -> bool {
    let text = value.expose();
    let is_named = is_secret_name(name) && !text.is_empty() && !text.contains("${");
    is_named || holds_secret(text, redactor)
}

/// Whether a text contains a known secret or has the format of a secret.
fn holds_secret(text: &str, redactor: &Redactor) -> bool {
    looks_secret(text) || redactor.text(text) != text
}

/// Names of the fields of a server that contain secrets.
fn secret_fields(server: &ServerDefinition, redactor: &Redactor) -> Vec<String> {
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
    let plain_texts = server.args.iter().chain(&server.url);
    if plain_texts
        .into_iter()
        .any(|text| holds_secret(text, redactor))
    {
        found.push("args".to_owned());
    }
    found
}

/// Replaces the secrets of environment variables and headers by references to variables, and returns the names of these
/// variables. Adding a server with secrets in other fields fails.
pub fn hide_secrets(server: &mut ServerDefinition, redactor: &Redactor) -> Vec<String> {
    let mut hidden = Vec::new();
    for (name, value) in &mut server.env {
        if is_secret(name, value, redactor) {
            *value = HiddenText::new(format!("${{{name}}}"));
            hidden.push(name.clone());
        }
    }
    for (name, value) in &mut server.headers {
        if is_secret(name, value, redactor) {
            let variable = variable_of(name);
            let bearer = value.expose().starts_with("Bearer ");
            let scheme = if bearer { "Bearer " } else { "" };
            *value = HiddenText::new(format!("{scheme}${{{variable}}}"));
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
