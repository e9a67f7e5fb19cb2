//! `project`.

use clap::{Args, Subcommand};

use super::Deletion;

#[derive(Debug, Subcommand)]
pub(crate) enum Project {
    /// Create a project
    Create(ProjectCreate),
    /// List projects
    List,
    /// Show a project and its resources
    #[command(after_help = "Example:
  agents project show local/shop")]
    Show {
        #[command(flatten)]
        project: ProjectReference,
    },
    /// Remove a project; its resources stay
    #[command(after_help = "Examples:
  agents project delete local/shop --dry-run
  agents project delete local/shop --yes")]
    Delete {
        #[command(flatten)]
        project: ProjectReference,
        #[command(flatten)]
        deletion: Deletion,
    },
    /// Link a resource to a project
    #[command(after_help = "Example:
  agents project link-resource local/shop local/orders --alias db --read-only")]
    LinkResource {
        #[command(flatten)]
        project: ProjectReference,
        /// Resource: name, id, or prefix of the id of at least 6 characters
        #[arg(value_name = "RESOURCE")]
        resource: String,
        /// Alias in the project; the last part of its name when not given
        #[arg(long, value_name = "NAME")]
        alias: Option<String>,
        /// Plans of the project may only read it
        #[arg(long)]
        read_only: bool,
    },
    /// Unlink a resource from a project; the resource stays
    #[command(after_help = "Example:
  agents project unlink-resource local/shop local/orders")]
    UnlinkResource {
        #[command(flatten)]
        project: ProjectReference,
        /// Resource: name, alias in the project, or id
        #[arg(value_name = "RESOURCE")]
        resource: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ProjectReference {
    /// Project: name, id, or prefix of the id of at least 6 characters
    #[arg(value_name = "PROJECT")]
    pub(crate) reference: String,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agents project create local/shop --resource local/api --resource local/db:db
  agents project create local/shop --invariant 'The public API stays compatible'")]
pub(crate) struct ProjectCreate {
    /// Name, such as local/shop
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Description
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Resource to link, optionally followed by a colon and an alias; may be repeated
    #[arg(long = "resource", value_name = "RESOURCE[:ALIAS]")]
    pub(crate) resources: Vec<String>,
    /// Tag; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,
    /// Invariant of every plan of the project; may be repeated
    #[arg(long = "invariant", value_name = "TEXT")]
    pub(crate) invariants: Vec<String>,
    /// Actor that reconciles invariants
    #[arg(long, value_name = "ACTOR")]
    pub(crate) invariant_actor: Option<String>,
    /// Default automation profile of its plans
    #[arg(long, value_name = "PROFILE")]
    pub(crate) automation_profile: Option<String>,
}
