//! What every command works with: where it runs, how it is configured, and the database.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cleveragents_application::{
    AgentRuntime, Application, Conversation, Operation, OperationError, OperationSettings,
    PlanBook, ProcessEnvironment, ProjectService, ResourceService, RunService, RuntimeOptions,
    SafetySelection, SandboxService, SessionService, Toolset, ToolsetOptions, WarningHandler,
    check_sendable, mcp_server_options,
};
use cleveragents_domain::identity::{Caller, Namespaces};
use cleveragents_mcp::{Options as McpOptions, Variables};
use cleveragents_models::{Catalogue, CatalogueOptions, environment_secrets};
use cleveragents_process::Cancel;
use cleveragents_store::{DatabaseUrl, Engine, EngineCache, Options, ProgressCallback};

use crate::arguments::TurnOptions;
use crate::commands::{safety_in_force, worker_starter};
use crate::config::{Configuration, Environment, Home, Level, Settings, keys};
use crate::output::{CommandError, Live, Printer, Progress, visible_lines};
use crate::remote::Connection;

/// One invocation of the program.
pub(crate) struct Context {
    pub(crate) environment: Environment,
    pub(crate) home: Home,
    pub(crate) configuration: Configuration,
    pub(crate) settings: Settings,
    pub(crate) printer: Printer,
    /// The open databases of the process. Whoever keeps one open shares it with all that come later.
    pub(crate) engines: Arc<EngineCache>,
    /// Who a server runs the command for; `None` for the person who started the program.
    pub(crate) served: Option<Served>,
    /// Where is told what happens while it happens.
    pub(crate) live: Live,
    /// The server that operations are sent to; `None` runs them here.
    pub(crate) connection: Option<Connection>,
}

/// For whom a server runs a command.
#[derive(Debug, Clone)]
pub(crate) struct Served {
    /// Who called.
    pub(crate) caller: Caller,
    /// What they may see.
    pub(crate) visible: Namespaces,
    /// What stops the command, instead of the signals of the process.
    pub(crate) cancel: Cancel,
}

impl Context {
    /// The database that is configured.
    pub(crate) fn database_url(&self) -> Result<DatabaseUrl, CommandError> {
        let base = self
            .environment
            .working_folder()
            .unwrap_or_else(|| Path::new("/"));
        if self.uses_own_database()? {
            // Not by way of a URL: the path of a home may hold any character.
            return Ok(DatabaseUrl::file(&self.home.database_file(), base));
        }
        Ok(DatabaseUrl::parse(self.settings.database_url(), base)?)
    }

    /// Whether nothing is configured and the database is the one in the home folder.
    fn uses_own_database(&self) -> Result<bool, CommandError> {
        Ok(self.configuration.resolve_key(&keys::DATABASE_URL)?.level == Level::Default)
    }

    /// How the databases of the process are opened.
    pub(crate) fn store_options(settings: &Settings, printer: Printer) -> Options {
        Options {
            busy_timeout: settings.busy_timeout(),
            connections: settings.connections(),
            progress: Some(progress(printer, "Migrating the database")),
        }
    }

    /// Opens the database, making the home folder first when the database is the one in it.
    pub(crate) fn engine(&self) -> Result<Arc<Engine>, CommandError> {
        if self.uses_own_database()? {
            self.home.create()?;
        }
        let engine = self.engines.open(&self.database_url()?)?;
        Ok(engine.acting_as(&self.person()))
    }

    /// Whether the database in the home folder is there. Others are not waited for.
    pub(crate) fn has_database(&self) -> bool {
        self.uses_own_database().unwrap_or(false) && self.home.database_file().exists()
    }

    /// Whether the database is the one in the home folder, and not made yet.
    pub(crate) fn lacks_database(&self) -> bool {
        self.uses_own_database().unwrap_or(false) && !self.home.database_file().exists()
    }

    /// What may be shown.
    pub(crate) fn visible(&self) -> Namespaces {
        let served = self.served.as_ref();
        served.map_or(Namespaces::All, |served| served.visible.clone())
    }

    /// The caller of the server, or the user at this machine.
    pub(crate) fn caller(&self) -> Caller {
        match &self.served {
            Some(served) => served.caller.clone(),
            None => Caller::local(self.person()),
        }
    }

    /// The runs that the caller sees.
    pub(crate) fn runs(&self) -> Result<RunService, CommandError> {
        let runs = RunService::new(self.engine()?, self.sessions()?);
        Ok(runs.visible_in(self.visible()))
    }

    /// Who is at the terminal or called the server, for what is written down.
    pub(crate) fn person(&self) -> String {
        if let Some(served) = &self.served {
            return served.caller.identity().to_owned();
        }
        let name = self
            .environment
            .text("USER")
            .or_else(|| self.environment.text("LOGNAME"));
        name.filter(|name| !name.trim().is_empty())
            .unwrap_or_else(|| "local user".to_owned())
    }

    /// Opens the database as it is, to look at it.
    pub(crate) fn inspect(&self) -> Result<Engine, CommandError> {
        Ok(self.engines.inspect(&self.database_url()?)?)
    }

    /// Runs an operation, here or on the server that is configured.
    pub(crate) fn call<O: Operation>(&self, mut request: O) -> Result<O::Response, CommandError> {
        if let Some(connection) = &self.connection {
            check_sendable(&mut request)?;
            return connection.call(&request, self.server_namespace()?.as_deref());
        }
        let printer = self.printer;
        let operations = Application::new(self.engine()?, self.operation_settings())
            .starting_workers(worker_starter(self)?)
            .for_caller(self.caller())
            .showing_progress(Arc::new(move |label| progress(printer, label)));
        Ok(operations.call(request)?)
    }

    /// The configured values that operations use.
    pub(crate) fn operation_settings(&self) -> OperationSettings {
        OperationSettings {
            max_message_bytes: self.settings.max_message_bytes(),
            automation_profile: self.settings.automation_profile().to_owned(),
            sandboxes: self.home.sandboxes(),
            process: self.process_environment(),
            sandbox_policy: self.settings.sandbox_policy().clone(),
        }
    }

    /// The namespace on the server of names without one.
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

    /// What can be looked up about plans.
    pub(crate) fn plans(&self) -> Result<PlanBook, CommandError> {
        Ok(PlanBook::new(self.engine()?, self.sandboxes()?))
    }

    /// Where a definition comes from, for what is stored of it.
    pub(crate) fn source_of(&self, file: &Path) -> PathBuf {
        if let Some(served) = &self.served {
            return PathBuf::from(format!("sent by {}", served.caller.identity()));
        }
        let base = self.environment.working_folder();
        base.unwrap_or_else(|| Path::new("/")).join(file)
    }

    /// The file of a definition, for an operation. A server is not told of files of this machine.
    pub(crate) fn definition_source(&self, file: &Path) -> Option<String> {
        if self.connection.is_some() {
            return None;
        }
        let base = self.environment.working_folder();
        let file = base.unwrap_or_else(|| Path::new("/")).join(file);
        Some(file.display().to_string())
    }

    /// Looks up variables for files that name them.
    pub(crate) fn variables(&self) -> impl Fn(&str) -> Option<String> + Send + Sync + use<> {
        let environment = self.environment.clone();
        move |name| environment.text(name)
    }

    /// Whether it is a caller from elsewhere for whom a server runs the command.
    pub(crate) fn is_for_others(&self) -> bool {
        let served = self.served.as_ref();
        served.is_some_and(|served| !served.caller.is_local())
    }

    /// The models that can be called. With `record` every exchange is added to that file.
    pub(crate) fn models(&self, record: Option<&Path>) -> Result<Catalogue, CommandError> {
        Ok(self.model_configuration().read(record)?)
    }

    fn model_configuration(&self) -> ModelConfiguration {
        ModelConfiguration {
            environment: self.environment.clone(),
            home: self.home.clone(),
            configuration: self.configuration.clone(),
            settings: self.settings.clone(),
            is_for_others: self.is_for_others(),
        }
    }

    /// The process that operations run in.
    fn process_environment(&self) -> ProcessEnvironment {
        let folder = self.environment.working_folder();
        let models = self.model_configuration();
        let actors = self.settings.configured_actors();
        ProcessEnvironment {
            variables: Arc::new(self.variables()),
            catalogue: Arc::new(move || models.read(None)),
            home: self.home.path().to_owned(),
            working_folder: folder.unwrap_or_else(|| Path::new("/")).to_owned(),
            warn: Arc::new(print_warning),
            default_actor: self.settings.actor_default().map(str::to_owned),
            configured_actors: actors
                .map(|(key, actor)| (key.name.to_owned(), actor.to_owned()))
                .collect(),
        }
    }

    /// The registered tools, skills and servers.
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

    /// How MCP servers are started here.
    pub(crate) fn mcp_server_options(&self) -> McpOptions {
        let folder = self.environment.working_folder();
        mcp_server_options(
            folder.unwrap_or_else(|| Path::new("/")),
            self.home.path(),
            Arc::new(self.variables()),
        )
    }

    /// What agents run with here. With `record` every exchange with a model is added to that file.
    pub(crate) fn runtime(
        &self,
        safety: &SafetySelection,
        record: Option<&Path>,
    ) -> Result<AgentRuntime, CommandError> {
        let folder = self.environment.working_folder();
        Ok(AgentRuntime::new(RuntimeOptions {
            engine: self.engine()?,
            catalogue: self.models(record)?,
            default_model: self.settings.model_default().cloned(),
            home: self.home.path().to_owned(),
            sandboxes: self.home.sandboxes(),
            working_folder: folder.unwrap_or_else(|| Path::new("/")).to_owned(),
            variables: Arc::new(self.variables()),
            max_message_bytes: self.settings.max_message_bytes(),
            budget_per_session: self.settings.budget_per_session(),
            budget_per_day: self.settings.budget_per_day(),
            safety: safety_in_force(self, safety)?,
            warn: Arc::new(print_warning),
        })?)
    }

    /// A conversation with a model.
    pub(crate) fn conversation(&self, options: &TurnOptions) -> Result<Conversation, CommandError> {
        let runtime = self.runtime(&(&options.safety).into(), options.record.as_deref())?;
        Ok(Conversation::new(runtime, options.conversation()?)?)
    }

    /// A callback that shows a bar from the first call to the last.
    pub(crate) fn progress(&self, label: &'static str) -> ProgressCallback {
        progress(self.printer, label)
    }
}

/// What the models of a process are read from.
struct ModelConfiguration {
    environment: Environment,
    home: Home,
    configuration: Configuration,
    settings: Settings,
    is_for_others: bool,
}

impl ModelConfiguration {
    fn read(&self, record: Option<&Path>) -> Result<Catalogue, OperationError> {
        let environment = self.environment.clone();
        let folder = environment
            .working_folder()
            .unwrap_or_else(|| Path::new("/"))
            .to_owned();
        let variables = move |name: &str| environment.text(name);
        let mut options = CatalogueOptions::new(Arc::new(variables), folder);
        options.file = Some(self.home.models_file()).filter(|file| file.exists());
        #[cfg(feature = "keyring")]
        {
            options.keyring = Some(cleveragents_models::system_keyring());
        }
        options.fallback = self.settings.model_fallback().to_vec();
        options.limits = self.settings.model_limits();
        options.retry.retries = self.settings.model_retries();
        options.record = record.map(Path::to_owned);
        // The address of the database may come from a file and hold a password.
        let database = self.settings.database_url().to_owned();
        let configured = [("DATABASE_URL".to_owned(), database)];
        options.secrets = environment_secrets(self.environment.texts().chain(configured));
        // What a server may call for its callers is configured with the server.
        let private = if self.is_for_others {
            &keys::SERVE_ALLOW_PRIVATE
        } else {
            &keys::A2A_ALLOW_PRIVATE
        };
        let private = self.configuration.resolve_key(private);
        let private = private.map_err(OperationError::of)?.value;
        options.private_agents = private.is_some_and(|value| value.as_flag() == Some(true));
        Ok(Catalogue::new(options)?)
    }
}

/// Prints a warning on standard error; nobody may be there to read it.
fn print_warning(text: &str) {
    let text = format!("warning: {text}\n");
    let _printed = std::io::stderr().write_all(visible_lines(&text).as_bytes());
}

fn progress(printer: Printer, label: &'static str) -> ProgressCallback {
    let bar = std::sync::OnceLock::new();
    Arc::new(move |done, whole| {
        let bar = bar.get_or_init(|| Progress::bar(&printer, label, whole));
        bar.set(done);
        if done >= whole {
            bar.finish();
        }
    })
}
