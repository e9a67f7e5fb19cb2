//! [`Application`] and [`OperationContext`]: what operations run with.

use std::sync::Arc;

use cleveragents_domain::Code;
use cleveragents_domain::identity::{Caller, Namespaces, Permission, Scope};
use cleveragents_process::Cancel;
use cleveragents_store::{Engine, ProgressCallback};

use super::authorize::authorize;
use super::{Operation, OperationError, ProcessEnvironment, Requirement, Resolver};
use crate::plan::{PlanBook, PlanService, SandboxPolicy};
use crate::project::ProjectService;
use crate::resource::ResourceService;
use crate::run::RunService;
use crate::sandbox::SandboxService;
use crate::services::Services;
use crate::session::SessionService;

/// Configured values that operations use.
#[derive(Clone)]
pub struct OperationSettings {
    /// The largest message that a session accepts, in bytes.
    pub max_message_bytes: usize,
    /// The automation profile of new sessions.
    pub automation_profile: String,
    /// The folder that holds sandboxes.
    pub sandboxes: std::path::PathBuf,
    /// The process that operations run in.
    pub process: ProcessEnvironment,
    /// When checkpoints are made in sandboxes of plans, and when the sandboxes are removed.
    pub sandbox_policy: SandboxPolicy,
}

/// A database and the settings of the process, shared by all callers. Cheap to clone.
#[derive(Clone)]
pub struct Application {
    engine: Arc<Engine>,
    settings: Arc<OperationSettings>,
    start_worker: Option<WorkerStarter>,
}

impl Application {
    /// The operations of a database.
    pub fn new(engine: Arc<Engine>, settings: OperationSettings) -> Self {
        Self {
            engine,
            settings: Arc::new(settings),
            start_worker: None,
        }
    }

    /// Sets how a worker is started for queued plans. Without it, queued plans wait for one.
    #[must_use]
    pub fn starting_workers(mut self, start: WorkerStarter) -> Self {
        self.start_worker = Some(start);
        self
    }

    /// The services of the same database.
    pub fn services(&self) -> Services {
        Services::new(Arc::clone(&self.engine))
    }

    /// Operations for one caller.
    pub fn for_caller(&self, caller: Caller) -> OperationContext {
        OperationContext {
            engine: self.engine.acting_as(caller.identity()),
            settings: Arc::clone(&self.settings),
            caller,
            namespace: None,
            cancel: Cancel::new(),
            progress: None,
            start_worker: self.start_worker.clone(),
        }
    }
}

/// Starts a progress display with a label. Front ends implement it.
pub type ProgressStarter = Arc<dyn Fn(&'static str) -> ProgressCallback + Send + Sync>;

/// Starts a worker on this machine unless one runs. Front ends implement it.
pub type WorkerStarter = Arc<dyn Fn() -> Result<(), OperationError> + Send + Sync>;

/// What an operation runs with: the database as its caller sees it, and the front end's progress display.
#[derive(Clone)]
pub struct OperationContext {
    engine: Arc<Engine>,
    settings: Arc<OperationSettings>,
    caller: Caller,
    namespace: Option<String>,
    cancel: Cancel,
    progress: Option<ProgressStarter>,
    start_worker: Option<WorkerStarter>,
}

impl OperationContext {
    /// Sets the namespace of names without one. The default is the caller's only writable namespace.
    #[must_use]
    pub fn in_namespace(mut self, namespace: Option<String>) -> Self {
        self.namespace = namespace;
        self
    }

    /// Sets what cancels the operation.
    #[must_use]
    pub fn cancelled_by(mut self, cancel: &Cancel) -> Self {
        self.cancel = cancel.clone();
        self
    }

    /// Shows the progress of long operations.
    #[must_use]
    pub fn showing_progress(mut self, progress: ProgressStarter) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Resolves a request and authorizes the caller for everything it names.
    pub fn prepare<O: Operation>(self, mut request: O) -> Result<Prepared<O>, OperationError> {
        self.authorize(O::NAME, O::REQUIREMENT, |resolver| {
            request.resolve(resolver)
        })?;
        Ok(Prepared {
            request,
            context: self,
        })
    }

    /// Resolves what a request names and authorizes the caller for it, without a typed request.
    pub fn authorize(
        &self,
        operation: &'static str,
        requirement: Requirement,
        resolve: impl FnOnce(&mut Resolver<'_>) -> Result<(), OperationError>,
    ) -> Result<(), OperationError> {
        let mut resolver = Resolver::new(self, requirement);
        resolve(&mut resolver)?;
        let touched = resolver.finish()?;
        authorize(&self.caller, &self.engine, operation, requirement, touched)
    }

    /// Resolves, authorizes and runs a request.
    pub fn call<O: Operation>(self, request: O) -> Result<O::Response, OperationError> {
        self.prepare(request)?.run()
    }

    /// The caller.
    pub const fn caller(&self) -> &Caller {
        &self.caller
    }

    /// What cancels the operation.
    pub const fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// The database, with the caller's identity on everything that is recorded.
    pub(crate) fn engine(&self) -> Arc<Engine> {
        Arc::clone(&self.engine)
    }

    /// The settings of the process.
    pub(crate) fn settings(&self) -> &OperationSettings {
        &self.settings
    }

    /// The namespaces that the caller may read in a scope.
    pub(crate) fn visible(&self, scope: Scope) -> Namespaces {
        self.caller.reach(scope, Permission::Read)
    }

    /// The namespace of names without one, if it is clear which. Local callers use names as they are.
    pub(super) fn home(&self, scope: Scope) -> Option<String> {
        if self.caller.is_local() {
            return None;
        }
        self.namespace.clone().or_else(|| self.caller.home(scope))
    }

    /// A progress display with a label.
    pub(crate) fn progress(&self, label: &'static str) -> Option<ProgressCallback> {
        self.progress.as_ref().map(|start| start(label))
    }

    pub(crate) fn sessions(&self) -> SessionService {
        SessionService::new(self.engine(), self.settings.max_message_bytes)
    }

    pub(crate) fn sandboxes(&self) -> SandboxService {
        SandboxService::new(self.engine(), self.settings.sandboxes.clone())
    }

    pub(crate) fn plans(&self) -> PlanBook {
        PlanBook::new(self.engine(), self.sandboxes())
    }

    /// Changes plans without running agents: variables of definitions are not looked up.
    pub(crate) fn plan_control(&self) -> PlanService {
        let variables = Arc::new(|_: &str| None);
        PlanService::new(self.engine(), self.sessions(), self.sandboxes(), variables)
            .with_policy(self.settings.sandbox_policy.clone())
    }

    /// Starts a worker for queued plans unless one runs.
    pub(crate) fn start_worker(&self) -> Result<(), OperationError> {
        match &self.start_worker {
            Some(start) => start(),
            None => Ok(()),
        }
    }

    pub(crate) fn runs(&self) -> RunService {
        let runs = RunService::new(self.engine(), self.sessions());
        runs.visible_in(self.visible(Scope::Registry))
    }

    pub(crate) fn projects(&self) -> ProjectService {
        ProjectService::new(self.engine())
    }

    pub(crate) fn resources(&self) -> ResourceService {
        ResourceService::new(self.engine())
    }
}

/// A request that is resolved and authorized.
pub struct Prepared<O> {
    request: O,
    context: OperationContext,
}

impl<O: Operation> Prepared<O> {
    /// Runs the operation.
    pub fn run(self) -> Result<O::Response, OperationError> {
        self.request.run(&self.context)
    }

    /// Sets what cancels the operation.
    #[must_use]
    pub fn cancelled_by(mut self, cancel: &Cancel) -> Self {
        self.context.cancel = cancel.clone();
        self
    }
}

/// Confirms an operation that cannot be undone; `yes` is the caller's confirmation.
pub(crate) fn require_confirmation(yes: bool) -> Result<(), OperationError> {
    if yes {
        return Ok(());
    }
    let message = "this cannot be undone and was not confirmed";
    Err(OperationError::new(Code::ConfirmationNeeded, message).with_hint("confirm it with `yes`"))
}
