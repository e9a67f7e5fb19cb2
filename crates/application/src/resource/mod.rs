//! Resources: what plans work on, of which types, and how they lie below one another.
//!
//! [`ResourceService`] registers types and resources, finds what lies below them, and says where the
//! sandbox of a resource begins. Everything that is decided from stored rows is decided inside the
//! unit of work that writes; files are looked at before it.

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
mod types;
mod yaml;

pub use add::{NewResource, Outcome, Registered};
pub use error::{Holder, ResourceError};
pub use git::{GitProbe, GitProblem, GitState, git_probe};
pub use inspect::{Inspection, Presence};
pub use registry::TypeRegistry;
pub use service::{Register, ResourceDetails, ResourceFilter, ResourceService};
pub use tree::TreeNode;
pub use types::RegisteredType;
pub use yaml::resource_type_schema;

pub(crate) use service::find as find_resource;
