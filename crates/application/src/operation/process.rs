//! [`ProcessEnvironment`]: the process environment that operations use.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleveragents_domain::identity::{Caller, Scope};
use cleveragents_models::{Catalogue, CatalogueOptions, Redactor, Variables};
use cleveragents_store::{Engine, Retention};

use super::{OperationContext, OperationError, namespace_of};
use crate::actor::ActorService;
use crate::runtime::{AgentRuntime, SafetySelection, Toolset, ToolsetOptions, WarningHandler};
use crate::skill::SkillService;
use crate::tool::ToolService;
use crate::validation::ValidationService;

/// Builds the agent runtime from the configuration of the process. Called once per operation that runs agents.
pub type RuntimeFactory =
    Arc<dyn Fn(&RuntimeRequest<'_>) -> Result<AgentRuntime, OperationError> + Send + Sync>;

/// Parameters of an agent runtime.
pub struct RuntimeRequest<'a> {
    /// The database; everything recorded through it carries the caller's identity.
    pub engine: Arc<Engine>,
    /// The caller. Settings of the local user must not apply to remote callers.
    pub caller: &'a Caller,
    /// Safety settings of the caller, in addition to the configuration.
    pub safety: &'a SafetySelection,
    /// File to which every exchange with a model is appended.
    pub record: Option<&'a Path>,
}

/// Loads the configured models. Called once per operation that needs them.
pub type CatalogueFactory = Arc<dyn Fn() -> Result<Catalogue, OperationError> + Send + Sync>;

/// The variables, models and folders of a process. Front ends fill it; operations read nothing else of the
/// process.
#[derive(Clone)]
pub struct ProcessEnvironment {
    /// Values of `${VARIABLE}` in definitions.
    pub variables: Variables,
    /// Tokens of trackers by name, from the environment or the keyring.
    pub credentials: Variables,
    /// The models that can be called.
    pub catalogue: CatalogueFactory,
    /// Builds the agent runtime.
    pub runtime: RuntimeFactory,
    /// The data folder of the program, with its skills, prompts and sign-in tokens.
    pub home: PathBuf,
    /// The configuration file of the user, which may be missing.
    pub configuration_file: PathBuf,
    /// The retention of events.
    pub retention: Retention,
    /// The folder in which MCP servers start.
    pub working_folder: PathBuf,
    /// Receives warnings about tools that are omitted from a toolset.
    pub warn: WarningHandler,
    /// The actor that runs when a request names none.
    pub default_actor: Option<String>,
    /// The configuration keys that name an actor, each with the name of the actor.
    pub configured_actors: Vec<(String, String)>,
}

/// No variables, no configured models, no folders, and no agent runtime.
impl Default for ProcessEnvironment {
    fn default() -> Self {
        let variables: Variables = Arc::new(|_| None);
        let options = CatalogueOptions::new(Arc::clone(&variables), "/");
        Self {
            credentials: Arc::clone(&variables),
            variables,
            catalogue: Arc::new(move || Ok(Catalogue::new(options.clone())?)),
            runtime: Arc::new(|_| {
                let message = "no agents can run here";
                Err(OperationError::internal(message))
            }),
            home: PathBuf::from("/nonexistent"),
            configuration_file: PathBuf::from("/nonexistent/config.toml"),
            retention: Retention { events_days: 90 },
            working_folder: PathBuf::from("/"),
            warn: Arc::new(|_| {}),
            default_actor: None,
            configured_actors: Vec::new(),
        }
    }
}

impl OperationContext {
    fn process(&self) -> &ProcessEnvironment {
        &self.settings().process
    }

    /// Values of `${VARIABLE}` in definitions.
    pub(crate) fn variables(&self) -> &(dyn Fn(&str) -> Option<String> + Send + Sync) {
        &*self.process().variables
    }

    /// The models that can be called.
    pub(crate) fn catalogue(&self) -> Result<Catalogue, OperationError> {
        (self.process().catalogue)()
    }

    /// The agent runtime for the caller. `record` names a file to which every exchange with a model is appended.
    pub(crate) fn runtime(
        &self,
        safety: &SafetySelection,
        record: Option<&Path>,
    ) -> Result<AgentRuntime, OperationError> {
        (self.process().runtime)(&RuntimeRequest {
            engine: self.engine(),
            caller: self.caller(),
            safety,
            record,
        })
    }

    /// Removes the secrets of the process from texts.
    pub(crate) fn redactor(&self) -> Result<Redactor, OperationError> {
        Ok(self.catalogue()?.redactor())
    }

    /// Whether the caller may read an object of this name.
    pub(crate) fn may_read(&self, scope: Scope, name: &str) -> bool {
        self.visible(scope).contains(namespace_of(name))
    }

    /// The source to store with the text of a definition. Only local callers may name a file, because the program looks
    /// up other files relative to its path.
    pub(crate) fn source_of(&self, file: Option<&str>) -> String {
        match file.filter(|_| self.caller().is_local()) {
            Some(file) => file.to_owned(),
            None => format!("sent by {}", self.caller().identity()),
        }
    }

    /// The registered tools, skills and MCP servers. Starts no server.
    pub(crate) fn toolset(&self) -> Result<Toolset, OperationError> {
        let process = self.process();
        Toolset::new(&ToolsetOptions {
            engine: &self.engine(),
            catalogue: &self.catalogue()?,
            home: &process.home,
            working_folder: &process.working_folder,
            variables: &process.variables,
            warn: &process.warn,
        })
    }

    /// The actor that runs when a request names none.
    pub(crate) fn default_actor(&self) -> Option<&str> {
        self.process().default_actor.as_deref()
    }

    /// The configuration key that names an actor.
    pub(crate) fn key_of_actor(&self, name: &str) -> Option<&str> {
        let mut configured = self.process().configured_actors.iter();
        let (key, _) = configured.find(|(_, actor)| actor == name)?;
        Some(key)
    }

    pub(crate) fn actors(&self) -> ActorService {
        ActorService::new(self.engine())
    }

    pub(crate) fn tools(&self) -> ToolService {
        ToolService::new(self.engine())
    }

    pub(crate) fn skills(&self) -> SkillService {
        let folder: &Path = &self.process().home;
        SkillService::new(self.engine(), folder.join("skills"))
    }

    pub(crate) fn validations(&self) -> ValidationService {
        ValidationService::new(self.engine())
    }
}
