//! Typed operations: what every front end calls.
//!
//! The request of an operation is the type that implements [`Operation`]; its response is
//! [`Operation::Response`]. The CLI builds the request from arguments, the HTTP API and the A2A
//! extension methods read it from JSON, a connected CLI sends it to a server. All of them go through
//! [`OperationContext::prepare`], which resolves the things that the request names, authorizes the
//! caller for exactly those, and returns what can then be run.

mod authorize;
mod context;
mod definition;
mod error;
mod process;
mod registry;
mod resolver;

pub(crate) use authorize::holds_model_files;
pub use authorize::{Touched, authorize};
pub(crate) use context::require_confirmation;
pub use context::{Application, OperationContext, OperationSettings, Prepared, ProgressStarter};
pub use definition::{PageSummary, RemovedDefinition};
pub(crate) use definition::{confirm_removal, name_filter, redacted, register_mode};
pub use error::OperationError;
pub use process::{CatalogueFactory, ProcessEnvironment};
pub use registry::{OperationEntry, PreparedCall, find_operation, operations};
pub use resolver::{NamedKind, Resolver, check_sendable, namespace_of};

use cleveragents_domain::identity::{Permission, Scope};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What an operation needs from its caller, apart from what the request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requirement {
    /// The part of the server that the operation belongs to.
    pub scope: Scope,
    /// The permission for everything that the request names, unless the resolver is told otherwise.
    pub permission: Permission,
    /// Whether the operation belongs to no namespace and needs the permission on all of them.
    pub is_global: bool,
}

impl Requirement {
    /// A requirement that holds in the namespaces of what the request names.
    pub const fn new(scope: Scope, permission: Permission) -> Self {
        Self {
            scope,
            permission,
            is_global: false,
        }
    }
}

/// One operation, implemented by its request.
pub trait Operation: Serialize + DeserializeOwned + JsonSchema + Send + 'static {
    /// The name in paths and methods, such as `session/create`.
    const NAME: &'static str;
    /// One sentence for the list of operations.
    const SUMMARY: &'static str;
    /// What the caller must be allowed to do.
    const REQUIREMENT: Requirement;

    /// What the operation returns; its JSON is the `data` of the command.
    type Response: Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static;

    /// Replaces references by ids and completes names, so that what is authorized is what runs.
    fn resolve(&mut self, resolver: &mut Resolver<'_>) -> Result<(), OperationError>;

    /// Runs the resolved request.
    fn run(self, context: &OperationContext) -> Result<Self::Response, OperationError>;
}
