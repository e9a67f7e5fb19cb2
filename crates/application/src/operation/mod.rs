//! Typed operations, called by every front end.
//!
//! The request of an operation is the type that implements [`Operation`]; its response is
//! [`Operation::Response`]. The CLI builds the request from arguments, the HTTP API and the A2A
//! extension methods parse it from JSON, a connected CLI sends it to a server. All of them go
//! through [`OperationContext::prepare`], which resolves the objects that the request names,
//! authorizes the caller for exactly those, and returns a call that can be run.

mod authorize;
mod context;
mod definition;
mod error;
mod process;
mod registry;
mod resolver;

pub(crate) use authorize::holds_model_files;
pub use authorize::{AccessTarget, authorize, forbidden, record_denial};
pub(crate) use context::require_confirmation;
pub use context::{
    Application, FrontEnd, OperationContext, OperationSettings, PlanSettings, PreparedRequest,
    ProgressStarter, WorkerStarter,
};
pub use definition::{PageSummary, RemovedDefinition};
pub(crate) use definition::{
    confirm_removal, default_page_size, name_filter, redacted, register_mode,
};
pub use error::OperationError;
pub use process::{CatalogueFactory, ProcessEnvironment, RuntimeFactory, RuntimeRequest};
pub use registry::{OperationEntry, PreparedCall, find_operation, operations};
pub use resolver::{NamedKind, Resolver, check_sendable, namespace_of};

use cleveragents_domain::identity::{Permission, Scope};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Permission that an operation requires, apart from the objects that the request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requirement {
    /// The area of the server that the operation belongs to.
    pub scope: Scope,
    /// The permission for all objects that the request names, unless the resolver requires another permission.
    pub permission: Permission,
    /// Whether the operation belongs to no namespace and needs the permission on all of them.
    pub is_global: bool,
}

impl Requirement {
    /// A requirement in the namespaces of the objects that the request names.
    pub const fn new(scope: Scope, permission: Permission) -> Self {
        Self {
            scope,
            permission,
            is_global: false,
        }
    }

    /// A requirement of an operation on definitions, projects or resources.
    pub const fn registry(permission: Permission) -> Self {
        Self::new(Scope::Registry, permission)
    }
}

/// One operation, implemented by its request.
pub trait Operation: Serialize + DeserializeOwned + JsonSchema + Send + 'static {
    /// The name in paths and methods, such as `session/create`.
    const NAME: &'static str;
    /// One sentence for the list of operations.
    const SUMMARY: &'static str;
    /// The permission that the caller needs.
    const REQUIREMENT: Requirement;
    /// Whether the operation runs agents. If so, it reports events to the observer of the front end; servers stream
    /// them.
    const RUNS_AGENTS: bool = false;

    /// The result of the operation; its JSON is the `data` of the command.
    type Response: Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static;

    /// Replaces references by ids and completes names, so that the authorized objects are those that
    /// the operation uses.
    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError>;

    /// Runs the resolved request.
    fn run(self, context: &OperationContext) -> Result<Self::Response, OperationError>;
}
