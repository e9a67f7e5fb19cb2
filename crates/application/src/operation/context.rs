//! [`Application`] and [`OperationContext`]: the dependencies of operations.

use std::sync::Arc;

use cleveragents_domain::Code;
use cleveragents_domain::identity::{Caller, Namespaces, Permission, Scope};
use cleveragents_process::Cancel;
use cleveragents_store::{Engine, ProgressCallback};
use cleveragents_tools::ports::Approver;

use super::authorize::authorize;
use super::{Operation, OperationError, ProcessEnvironment, Requirement, Resolver};
use crate::observer::{NoApprover, NoObserver, Observer};
use crate::plan::{DEFAULT_CHILD_DEPTH, DefaultActors, PlanQueries, PlanService, SandboxPolicy};
use crate::project::ProjectService;
use crate::resource::ResourceService;
use crate::run::RunService;
use crate::sandbox::SandboxService;
use crate::services::Services;
use crate::session::SessionService;

/// Configured values that operations use.
#[derive(Clone)]
pub struct OperationSettings {
    /// Maximum size of a session's message, in bytes.
    pub max_message_bytes: usize,
    /// The automation profile of new sessions.
    pub automation_profile: String,
    /// The folder that contains sandboxes.
    pub sandboxes: std::path::PathBuf,
    /// The process that operations run in.
    pub process: ProcessEnvironment,
    /// Policies for checkpoints and for removal of the sandboxes of plans.
    pub sandbox_policy: SandboxPolicy,
    /// Settings for running plans.
    pub plans: PlanSettings,
}

/// Configured settings for running plans.
#[derive(Debug, Clone)]
pub struct PlanSettings {
    /// Maximum number of plans that run at the same time on the database.
    pub concurrency: u64,
    /// Maximum number of plans above a child plan.
    pub max_child_depth: u64,
    /// The actors of plans whose request and action name none.
    pub actors: DefaultActors,
}

/// One plan at a time, without actors.
impl Default for PlanSettings {
    fn default() -> Self {
        Self {
            concurrency: 1,
            max_child_depth: DEFAULT_CHILD_DEPTH,
            actors: DefaultActors::default(),
        }
    }
}

/// The front end of an operation that runs agents, as callbacks. Cheap to clone.
#[derive(Clone)]
pub struct FrontEnd {
    /// Receives requests for approvals and answers.
    pub approver: Arc<dyn Approver>,
    /// Receives progress events.
    pub observer: Arc<dyn Observer>,
}

/// No approver and no observer.
impl Default for FrontEnd {
    fn default() -> Self {
        Self {
            approver: Arc::new(NoApprover),
            observer: Arc::new(NoObserver),
        }
    }
}

/// A database and the settings of the process, shared by all callers. Cheap to clone.
#[derive(Clone)]
pub struct Application {
    engine: Arc<Engine>,
    settings: Arc<OperationSettings>,
    start_worker: Option<WorkerStarter>,
}

impl Application {
    /// The operations for a database.
    pub fn new(engine: Arc<Engine>, settings: OperationSettings) -> Self {
        Self {
            engine,
            settings: Arc::new(settings),
            start_worker: None,
        }
    }

    /// Sets the callback that starts a worker for queued plans. Without it, queued plans wait until a worker is started
    /// in another way.
    #[must_use]
    pub fn starting_workers(mut self, start: WorkerStarter) -> Self {
        self.start_worker = Some(start);
        self
    }

    /// The services of the database.
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
            front_end: FrontEnd::default(),
            start_worker: self.start_worker.clone(),
        }
    }
}

/// Starts a progress display with a label. Front ends implement it.
pub type ProgressStarter = Arc<dyn Fn(&'static str) -> ProgressCallback + Send + Sync>;

/// Starts a worker on this machine unless one is running; returns whether it started one. Front ends implement it.
pub type WorkerStarter = Arc<dyn Fn() -> Result<bool, OperationError> + Send + Sync>;

/// Dependencies of one operation of one caller.
#[derive(Clone)]
pub struct OperationContext {
    engine: Arc<Engine>,
    settings: Arc<OperationSettings>,
    caller: Caller,
    namespace: Option<String>,
    cancel: Cancel,
    progress: Option<ProgressStarter>,
    front_end: FrontEnd,
    start_worker: Option<WorkerStarter>,
}

impl OperationContext {
    /// Sets the namespace to assume for names without one. The default is the caller's only writable namespace.
    #[must_use]
    pub fn in_namespace(mut self, namespace: Option<String>) -> Self {
        self.namespace = namespace;
        self
    }

    /// Sets the cancellation of the operation.
    #[must_use]
    pub fn cancelled_by(mut self, cancel: &Cancel) -> Self {
        self.cancel = cancel.clone();
        self
    }

    /// Dependencies with which units of work are rolled back if `is_rehearsal`; see [`Engine::rehearsing`]. Only for
    /// operations whose only effect is one unit of work.
    #[must_use]
    pub(crate) fn rehearsing(&self, is_rehearsal: bool) -> Self {
        let mut context = self.clone();
        if is_rehearsal {
            context.engine = context.engine.rehearsing();
        }
        context
    }

    /// Shows the progress of long operations.
    #[must_use]
    pub fn showing_progress(mut self, progress: ProgressStarter) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Sets the approver and observer for running agents. By default there are none.
    #[must_use]
    pub fn with_front_end(mut self, front_end: FrontEnd) -> Self {
        self.front_end = front_end;
        self
    }

    /// Resolves a request and authorizes the caller for everything it names.
    pub fn prepare<O: Operation>(
        self,
        mut request: O,
    ) -> Result<PreparedRequest<O>, OperationError> {
        self.authorize(O::NAME, O::REQUIREMENT, |resolver| {
            request.resolve(resolver)
        })?;
        Ok(PreparedRequest {
            request,
            context: self,
        })
    }

    /// Resolves the objects that a request names, and authorizes the caller for them. Needs no typed request.
    pub fn authorize(
        &self,
        operation: &'static str,
        requirement: Requirement,
        resolve: impl FnOnce(&mut Resolver<'_>) -> Result<(), OperationError>,
    ) -> Result<(), OperationError> {
        let mut resolver = Resolver::new(self, requirement);
        resolve(&mut resolver)?;
        let targets = resolver.finish()?;
        authorize(&self.caller, &self.engine, operation, requirement, targets)
    }

    /// Resolves, authorizes and runs a request.
    pub fn call<O: Operation>(self, request: O) -> Result<O::Response, OperationError> {
        self.prepare(request)?.run()
    }

    pub const fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The cancellation of the operation.
    pub const fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// The approver and observer for running agents.
    pub(crate) const fn front_end(&self) -> &FrontEnd {
        &self.front_end
    }

    /// The database; everything recorded through it carries the caller's identity.
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

    /// The namespace that completes names without a namespace; `None` if it is ambiguous, and for local callers, whose
    /// names are not completed.
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

    pub(crate) fn plans(&self) -> PlanQueries {
        let plans = PlanQueries::new(self.engine(), self.sandboxes());
        if self.caller.is_local() {
            plans.in_folder(&self.settings.process.working_folder)
        } else {
            plans
        }
    }

    /// A plan service for changes that run no agents: variables of definitions are not resolved.
    pub(crate) fn plan_control(&self) -> PlanService {
        let variables = Arc::new(|_: &str| None);
        PlanService::new(self.engine(), self.sessions(), self.sandboxes(), variables)
            .with_policy(self.settings.sandbox_policy.clone())
            .with_max_child_depth(self.settings.plans.max_child_depth)
    }

    /// A plan service that creates and runs plans.
    pub(crate) fn plan_service(&self) -> PlanService {
        let variables = Arc::clone(&self.settings.process.variables);
        PlanService::new(self.engine(), self.sessions(), self.sandboxes(), variables)
            .with_policy(self.settings.sandbox_policy.clone())
            .with_max_child_depth(self.settings.plans.max_child_depth)
    }

    /// Starts a worker for queued plans unless one is running; returns whether it started one.
    pub(crate) fn start_worker(&self) -> Result<bool, OperationError> {
        match &self.start_worker {
            Some(start) => start(),
            None => Ok(false),
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
pub struct PreparedRequest<O> {
    request: O,
    context: OperationContext,
}

impl<O: Operation> PreparedRequest<O> {
    pub fn run(self) -> Result<O::Response, OperationError> {
        self.request.run(&self.context)
    }

    /// Sets the cancellation of the operation.
    #[must_use]
    pub fn cancelled_by(mut self, cancel: &Cancel) -> Self {
        self.context.cancel = cancel.clone();
        self
    }
}

/// Fails unless the caller confirmed an operation that cannot be undone.
pub(crate) fn require_confirmation(yes: bool) -> Result<(), OperationError> {
    if yes {
        return Ok(());
    }
    let message = "this cannot be undone and was not confirmed";
    Err(OperationError::new(Code::ConfirmationNeeded, message).with_hint("confirm it with `yes`"))
}
