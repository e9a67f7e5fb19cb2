//! [`ProcessConfiguration`]: models and agent runtime from the configuration of this process.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleveragents_application::{AgentRuntime, OperationError, RuntimeOptions, RuntimeRequest};
use cleveragents_domain::Hint;
use cleveragents_models::{Catalogue, CatalogueOptions, environment_secrets};

use crate::commands::safety_in_force;
use crate::config::{Configuration, Environment, Home, Settings, keys};
use crate::output::{hint_text, visible_lines};

/// Configuration of a process, independent of commands. Operations keep it for the lifetime of the
/// process.
#[derive(Clone)]
pub(crate) struct ProcessConfiguration {
    pub(crate) environment: Environment,
    pub(crate) home: Home,
    pub(crate) configuration: Configuration,
    pub(crate) settings: Settings,
}

/// Caller for which models are called; determines whether requests to private addresses are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CalledFor {
    /// The local user.
    User,
    /// A remote caller of this server.
    RemoteCaller,
}

impl ProcessConfiguration {
    /// Base folder of relative paths.
    pub(crate) fn working_folder(&self) -> PathBuf {
        let folder = self.environment.working_folder();
        folder.unwrap_or_else(|| Path::new("/")).to_owned()
    }

    /// Looks up environment variables for files that refer to them.
    pub(crate) fn variables(&self) -> impl Fn(&str) -> Option<String> + Send + Sync + use<> {
        let environment = self.environment.clone();
        move |name| environment.text(name)
    }

    /// Available models. With `record`, every request and response is appended to that file.
    pub(crate) fn catalogue(
        &self,
        called_for: CalledFor,
        record: Option<&Path>,
    ) -> Result<Catalogue, OperationError> {
        let mut options = CatalogueOptions::new(Arc::new(self.variables()), self.working_folder());
        options.file = Some(self.home.models_file()).filter(|file| file.exists());
        #[cfg(feature = "keyring")]
        {
            options.keyring = Some(cleveragents_models::system_keyring());
        }
        options.fallback = self.settings.model_fallback().to_vec();
        options.limits = self.settings.model_limits();
        options.retry.retries = self.settings.model_retries();
        options.record = record.map(Path::to_owned);
        // The database URL may come from a file and contain a password.
        let database = self.settings.database_url().to_owned();
        let configured = [("DATABASE_URL".to_owned(), database)];
        options.secrets = environment_secrets(self.environment.texts().chain(configured));
        // For remote callers, the server's configuration decides whether private addresses are allowed.
        let private = match called_for {
            CalledFor::RemoteCaller => &keys::SERVE_ALLOW_PRIVATE,
            CalledFor::User => &keys::A2A_ALLOW_PRIVATE,
        };
        let private = self.configuration.resolve_key(private);
        let private = private.map_err(OperationError::from_service)?.value;
        options.private_agents = private.is_some_and(|value| value.as_flag() == Some(true));
        Ok(Catalogue::new(options)?)
    }

    /// Runtime of agents.
    pub(crate) fn runtime(
        &self,
        request: &RuntimeRequest<'_>,
    ) -> Result<AgentRuntime, OperationError> {
        let called_for = if request.caller.is_local() {
            CalledFor::User
        } else {
            CalledFor::RemoteCaller
        };
        let catalogue = self.catalogue(called_for, request.record)?;
        let configured = self.settings.model_default().cloned();
        let provider_default = || catalogue.model_of_key().map(|(model, _)| model);
        AgentRuntime::new(RuntimeOptions {
            engine: Arc::clone(&request.engine),
            default_model: configured.or_else(provider_default),
            catalogue,
            home: self.home.path().to_owned(),
            sandboxes: self.home.sandboxes(),
            working_folder: self.working_folder(),
            variables: Arc::new(self.variables()),
            max_message_bytes: self.settings.max_message_bytes(),
            budget_per_session: self.settings.budget_per_session(),
            budget_per_day: self.settings.budget_per_day(),
            safety: safety_in_force(self, request.safety)?,
            warn: Arc::new(print_warning),
        })
    }
}

/// Prints a warning to standard error, which may be closed.
pub(crate) fn print_warning(warning: &Hint) {
    let text = format!("warning: {}\n", hint_text(warning));
    let _printed = std::io::stderr().write_all(visible_lines(&text).as_bytes());
}
