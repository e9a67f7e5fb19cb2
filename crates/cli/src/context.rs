//! [`Context`]: paths, configuration and database of one command.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleveragents_application::{
    AgentRuntime, Application, Conversation, FrontEnd, Operation, OperationSettings, PlanSettings,
    ProcessEnvironment, ProjectService, ResourceService, RuntimeRequest, SafetySelection,
    SandboxService, SessionService, Toolset, ToolsetOptions, WarningHandler, check_sendable,
    mcp_server_options,
};
use cleveragents_domain::identity::Caller;
use cleveragents_mcp::{Options as McpOptions, Variables};
use cleveragents_models::Catalogue;
use cleveragents_process::Cancel;
use cleveragents_store::{DatabaseUrl, Engine, EngineCache, Options, ProgressCallback, Retention};

use crate::arguments::TurnOptions;
use crate::commands::worker_starter;
use crate::config::{ConfigLevel, Configuration, Environment, Home, Settings, keys};
use crate::output::{CommandError, Printer, Progress, notify};
use crate::process_configuration::{CalledFor, ProcessConfiguration, print_warning};
use crate::remote::Connection;

/// One invocation of the program.
pub(crate) struct Context {
    pub(crate) environment: Environment,
    pub(crate) home: Home,
    pub(crate) configuration: Configuration,
    pub(crate) settings: Settings,
    pub(crate) printer: Printer,
    /// Open databases of the process.
    pub(crate) engines: Arc<EngineCache>,
    /// Server that runs operations; if `None`, this process runs them.
    pub(crate) connection: Option<Connection>,
}

impl Context {
    /// The configured database.
    pub(crate) fn database_url(&self) -> Result<DatabaseUrl, CommandError> {
        let base = self
            .environment
            .working_folder()
            .unwrap_or_else(|| Path::new("/"));
        if self.uses_own_database()? {
            // Not parsed as a URL, because the path of the home folder may contain any character.
            return Ok(DatabaseUrl::file(&self.home.database_file(), base));
        }
        Ok(DatabaseUrl::parse(self.settings.database_url(), base)?)
    }

    /// True if no database is configured, so that the default file in the home folder is used.
    fn uses_own_database(&self) -> Result<bool, CommandError> {
        Ok(self.configuration.resolve_key(&keys::DATABASE_URL)?.level == ConfigLevel::Default)
    }

    /// Options for opening databases.
    pub(crate) fn store_options(settings: &Settings, printer: Printer) -> Options {
        Options {
            busy_timeout: settings.busy_timeout(),
            connections: settings.connections(),
            progress: Some(progress(printer, "Migrating the database")),
        }
    }

    /// Opens the database. Creates the home folder first if the database is in it.
    pub(crate) fn engine(&self) -> Result<Arc<Engine>, CommandError> {
        if self.uses_own_database()? {
            self.home.create()?;
        }
        let engine = self.engines.open(&self.database_url()?)?;
        Ok(engine.acting_as(&self.user_name()))
    }

    /// True if the default database in the home folder is used and its file exists.
    pub(crate) fn has_database(&self) -> bool {
        self.uses_own_database().unwrap_or(false) && self.home.database_file().exists()
    }

    /// True if the default database in the home folder is used and its file does not exist yet.
    pub(crate) fn lacks_database(&self) -> bool {
        self.uses_own_database().unwrap_or(false) && !self.home.database_file().exists()
    }

    /// The local user.
    pub(crate) fn caller(&self) -> Caller {
        Caller::local(self.user_name())
    }

    /// Name of the user, for records.
    pub(crate) fn user_name(&self) -> String {
        let name = self
            .environment
            .text("USER")
            .or_else(|| self.environment.text("LOGNAME"));
        name.filter(|name| !name.trim().is_empty())
            .unwrap_or_else(|| "local user".to_owned())
    }

    /// Opens the database for reading, without migrating it or creating a file.
    pub(crate) fn read_only_engine(&self) -> Result<Arc<Engine>, CommandError> {
        Ok(Arc::new(self.engines.read_only(&self.database_url()?)?))
    }

    /// Opens the database without migrating it.
    pub(crate) fn inspect(&self) -> Result<Engine, CommandError> {
        Ok(self.engines.inspect(&self.database_url()?)?)
    }

    /// Runs an operation in this process or on the configured server.
    pub(crate) fn call<O: Operation>(&self, request: O) -> Result<O::Response, CommandError> {
        self.call_observed(request, &FrontEnd::default(), &Cancel::new())
    }

    /// Runs an operation that runs agents, in this process or on the configured server. The front end receives
    /// questions and events; `cancel` stops the operation.
    pub(crate) fn call_observed<O: Operation>(
        &self,
        mut request: O,
        front_end: &FrontEnd,
        cancel: &Cancel,
    ) -> Result<O::Response, CommandError> {
        if let Some(connection) = &self.connection {
            check_sendable(&mut request)?;
            let namespace = self.server_namespace()?;
            let namespace = namespace.as_deref();
            let observer = &*front_end.observer;
            return if O::RUNS_AGENTS && observer.is_watching() {
                connection.call_observed(&request, namespace, observer, cancel)
            } else {
                connection.call(&request, namespace, cancel)
            };
        }
        self.call_on(self.engine()?, request, front_end, cancel)
    }

    /// Runs an operation in this process, without migrating the database.
    pub(crate) fn call_inspecting<O: Operation>(
        &self,
        request: O,
    ) -> Result<O::Response, CommandError> {
        let engine = Arc::new(self.inspect()?);
        self.call_on(engine, request, &FrontEnd::default(), &Cancel::new())
    }

    /// Runs an operation that only reads, on the configured server or on a database opened for reading.
    pub(crate) fn call_read_only<O: Operation>(
        &self,
        request: O,
    ) -> Result<O::Response, CommandError> {
        if self.connection.is_some() {
            return self.call(request);
        }
        let engine = self.read_only_engine()?;
        self.call_on(engine, request, &FrontEnd::default(), &Cancel::new())
    }

    fn call_on<O: Operation>(
        &self,
        engine: Arc<Engine>,
        request: O,
        front_end: &FrontEnd,
        cancel: &Cancel,
    ) -> Result<O::Response, CommandError> {
        let printer = self.printer;
        let operations = Application::new(engine, self.operation_settings())
            .starting_workers(worker_starter(self)?)
            .for_caller(self.caller())
            .showing_progress(Arc::new(move |label| progress(printer, label)))
            .with_front_end(front_end.clone())
            .cancelled_by(cancel);
        Ok(operations.call(request)?)
    }

    /// Configured values that operations use.
    pub(crate) fn operation_settings(&self) -> OperationSettings {
        OperationSettings {
            max_message_bytes: self.settings.max_message_bytes(),
            automation_profile: self.settings.automation_profile().to_owned(),
            sandboxes: self.home.sandboxes(),
            process: self.process_environment(),
            sandbox_policy: self.settings.sandbox_policy().clone(),
            plans: PlanSettings {
                concurrency: self.settings.plan_concurrency(),
                max_child_depth: self.settings.max_child_depth(),
                actors: self.settings.plan_actors(),
            },
        }
    }

    /// Namespace on the server for names that are given without a namespace.
    pub(crate) fn server_namespace(&self) -> Result<Option<String>, CommandError> {
        let configured = self.configuration.resolve_key(&keys::SERVER_NAMESPACE)?;
        let value = configured.value;
        Ok(value.and_then(|value| value.as_text().map(str::to_owned)))
    }

    pub(crate) fn sessions(&self) -> Result<SessionService, CommandError> {
        Ok(SessionService::new(
            self.engine()?,
            self.settings.max_message_bytes(),
        ))
    }

    pub(crate) fn resources(&self) -> Result<ResourceService, CommandError> {
        Ok(ResourceService::new(self.engine()?))
    }

    pub(crate) fn projects(&self) -> Result<ProjectService, CommandError> {
        Ok(ProjectService::new(self.engine()?))
    }

    pub(crate) fn sandboxes(&self) -> Result<SandboxService, CommandError> {
        Ok(SandboxService::new(self.engine()?, self.home.sandboxes()))
    }

    /// Absolute path of a given file.
    pub(crate) fn absolute(&self, file: &Path) -> PathBuf {
        let base = self.environment.working_folder();
        base.unwrap_or_else(|| Path::new("/")).join(file)
    }

    /// Path of a definition file, for an operation. Paths of this machine are not sent to a server.
    pub(crate) fn definition_source(&self, file: &Path) -> Option<String> {
        if self.connection.is_some() {
            return None;
        }
        Some(self.absolute(file).display().to_string())
    }

    /// Looks up environment variables for files that refer to them.
    pub(crate) fn variables(&self) -> impl Fn(&str) -> Option<String> + Send + Sync + use<> {
        let environment = self.environment.clone();
        move |name| environment.text(name)
    }

    /// Available models. With `record`, every request and response is appended to that file.
    pub(crate) fn models(&self, record: Option<&Path>) -> Result<Catalogue, CommandError> {
        Ok(self.process().catalogue(CalledFor::User, record)?)
    }

    pub(crate) fn process(&self) -> ProcessConfiguration {
        ProcessConfiguration {
            environment: self.environment.clone(),
            home: self.home.clone(),
            configuration: self.configuration.clone(),
            settings: self.settings.clone(),
        }
    }

    /// Environment that operations run in.
    fn process_environment(&self) -> ProcessEnvironment {
        let (models, process) = (self.process(), self.process());
        let actors = self.settings.configured_actors();
        ProcessEnvironment {
            variables: Arc::new(self.variables()),
            credentials: credentials(self.variables()),
            working_folder: process.working_folder(),
            catalogue: Arc::new(move || models.catalogue(CalledFor::User, None)),
            runtime: Arc::new(move |request| process.runtime(request)),
            home: self.home.path().to_owned(),
            configuration_file: self.home.config_file(),
            retention: Retention {
                events_days: self.settings.events_days(),
            },
            warn: Arc::new(print_warning),
            default_actor: self.settings.actor_default().map(str::to_owned),
            configured_actors: actors
                .map(|(key, actor)| (key.name.to_owned(), actor.to_owned()))
                .collect(),
        }
    }

    /// Registered tools, skills and MCP servers.
    pub(crate) fn toolset(&self) -> Result<Toolset, CommandError> {
        let folder = self.environment.working_folder();
        let variables: Variables = Arc::new(self.variables());
        let warn: WarningHandler = Arc::new(print_warning);
        Ok(Toolset::new(&ToolsetOptions {
            engine: &self.engine()?,
            catalogue: &self.models(None)?,
            home: self.home.path(),
            working_folder: folder.unwrap_or_else(|| Path::new("/")),
            variables: &variables,
            warn: &warn,
        })?)
    }

    /// Settings of MCP servers started on this machine.
    pub(crate) fn mcp_server_options(&self) -> McpOptions {
        let folder = self.environment.working_folder();
        mcp_server_options(
            folder.unwrap_or_else(|| Path::new("/")),
            self.home.path(),
            Arc::new(self.variables()),
        )
    }

    /// Runtime of agents. With `record`, every model request and response is appended to that file.
    pub(crate) fn runtime(
        &self,
        safety: &SafetySelection,
        record: Option<&Path>,
    ) -> Result<AgentRuntime, CommandError> {
        Ok(self.process().runtime(&RuntimeRequest {
            engine: self.engine()?,
            caller: &self.caller(),
            safety,
            record,
        })?)
    }

    /// Conversation with a model.
    pub(crate) fn conversation(&self, options: &TurnOptions) -> Result<Conversation, CommandError> {
        let request = options.request();
        let runtime = self.runtime(&request.safety(), options.record.as_deref())?;
        Ok(Conversation::new(runtime, request.conversation()?)?)
    }

    /// Notifies the user at the terminal when the result is dropped, if that was a long time.
    pub(crate) fn notify_when_done(&self) -> notify::Watch {
        let environment = &self.environment;
        let term = environment.text("TERM").unwrap_or_default();
        let is_vte = environment.text("VTE_VERSION").is_some();
        let setting = if self.printer.format().is_human() {
            self.settings.notify()
        } else {
            "off"
        };
        notify::watch(
            notify::Channel::new(setting, &term, is_vte),
            self.settings.notify_after(),
        )
    }

    /// Callback that shows a progress bar from the first call to the last.
    pub(crate) fn progress(&self, label: &'static str) -> ProgressCallback {
        progress(self.printer, label)
    }
}

fn progress(printer: Printer, label: &'static str) -> ProgressCallback {
    let bar = std::sync::OnceLock::new();
    Arc::new(move |done, total| {
        let bar = bar.get_or_init(|| Progress::bar(&printer, label, total));
        bar.set(done);
        if done >= total {
            bar.finish();
        }
    })
}

/// Looks up tokens of trackers: in the environment, then in the keyring.
#[cfg(feature = "keyring")]
fn credentials(variables: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Variables {
    let keyring = cleveragents_models::system_keyring();
    Arc::new(move |name: &str| variables(name).or_else(|| keyring(name)))
}

/// Looks up tokens of trackers in the environment.
#[cfg(not(feature = "keyring"))]
fn credentials(variables: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Variables {
    Arc::new(variables)
}
