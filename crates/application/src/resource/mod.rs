//! Resources: what plans work on, their types, and their hierarchy.
//!
//! [`ResourceService`] registers types and resources, discovers the resources below them, and
//! determines the sandbox boundary of a resource. Decisions based on stored rows are made inside the
//! unit of work that writes; files are inspected before it.

mod add;
mod arguments;
mod devcontainer;
mod discovery;
mod ensure;
mod error;
mod git;
mod inspect;
mod links;
pub mod operations;
mod registry;
mod service;
mod tree;
mod type_operations;
mod types;
mod yaml;

pub use add::{NewResource, Outcome, RegisteredResource};
pub use error::{ResourceError, ResourceUser};
pub use git::{GitProbe, GitProblem, GitState, git_probe};
pub use inspect::{Inspection, Presence};
pub use registry::TypeRegistry;
pub use service::{Register, ResourceDetails, ResourceFilter, ResourceService};
pub use tree::ResourceTreeNode;
pub use types::RegisteredType;
pub use yaml::resource_type_schema;

pub(crate) use service::find as find_resource;
