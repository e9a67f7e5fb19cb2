//! [`ProcessEnvironment`]: what operations use of the process they run in.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleveragents_domain::identity::Scope;
use cleveragents_models::{Catalogue, CatalogueOptions, Redactor, Variables};

use super::{OperationContext, OperationError, namespace_of};
use crate::actor::ActorService;
use crate::runtime::{Toolset, ToolsetOptions, WarningHandler};
use crate::skill::SkillService;
use crate::tool::ToolService;
use crate::validation::ValidationService;

/// Reads the models that are configured. Called once per operation that needs them.
pub type CatalogueFactory = Arc<dyn Fn() -> Result<Catalogue, OperationError> + Send + Sync>;

/// The variables, models and folders of a process. Front ends fill it; operations read nothing else.
#[derive(Clone)]
pub struct ProcessEnvironment {
    /// Values of `${VARIABLE}` in definitions.
    pub variables: Variables,
    /// The models that can be called.
    pub catalogue: CatalogueFactory,
    /// The program's own folder, with its skills, prompts and sign-in tokens.
    pub home: PathBuf,
    /// The folder in which MCP servers start.
    pub working_folder: PathBuf,
    /// Shows what is left out of a toolset.
    pub warn: WarningHandler,
    /// The actor that runs when none is named.
    pub default_actor: Option<String>,
    /// The keys of the configuration that name an actor, each with that actor.
    pub configured_actors: Vec<(String, String)>,
}

/// No variables, no configured models and no folders.
impl Default for ProcessEnvironment {
    fn default() -> Self {
        let variables: Variables = Arc::new(|_| None);
        let options = CatalogueOptions::new(Arc::clone(&variables), "/");
        Self {
            variables,
            catalogue: Arc::new(move || Ok(Catalogue::new(options.clone())?)),
            home: PathBuf::from("/nonexistent"),
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

    /// Removes the secrets of the process from texts.
    pub(crate) fn redactor(&self) -> Result<Redactor, OperationError> {
        Ok(self.catalogue()?.redactor())
    }

    /// Whether the caller may read something of this name.
    pub(crate) fn may_read(&self, scope: Scope, name: &str) -> bool {
        self.visible(scope).contains(namespace_of(name))
    }

    /// Where the text of a definition comes from, as it is stored. Only local callers may name a file:
    /// programs next to it are found by its path.
    pub(crate) fn source_of(&self, file: Option<&str>) -> PathBuf {
        match file.filter(|_| self.caller().is_local()) {
            Some(file) => PathBuf::from(file),
            None => PathBuf::from(format!("sent by {}", self.caller().identity())),
        }
    }

    /// The registered tools, skills and MCP servers; starts nothing.
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

    /// The actor that runs when none is named.
    pub(crate) fn default_actor(&self) -> Option<&str> {
        self.process().default_actor.as_deref()
    }

    /// The key of the configuration that names an actor.
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
