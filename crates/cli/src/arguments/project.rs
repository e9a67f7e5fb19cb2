//! `project`.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Project {
    /// Make a project
    Create(ProjectCreate),
    /// List projects
    List,
    /// Show a project and the resources it links
    Show {
        #[command(flatten)]
        project: ProjectReference,
    },
    /// Remove a project; the resources it links stay
    Delete {
        #[command(flatten)]
        project: ProjectReference,
        /// Do not ask for confirmation
        #[arg(long, short = 'y')]
        yes: bool,
    },
    /// Link a resource to a project
    #[command(after_help = "Example:
  agents project link-resource local/shop local/orders --alias db --read-only")]
    LinkResource {
        #[command(flatten)]
        project: ProjectReference,
        /// The resource: its name, its id, or the first 6 or more characters of the id
        #[arg(value_name = "RESOURCE")]
        resource: String,
        /// What to call it in the project; the last part of its name when not given
        #[arg(long, value_name = "NAME")]
        alias: Option<String>,
        /// Plans of the project may only read it
        #[arg(long)]
        read_only: bool,
    },
    /// Take a resource out of a project; the resource stays
    UnlinkResource {
        #[command(flatten)]
        project: ProjectReference,
        /// The resource: its name, its alias in the project, or its id
        #[arg(value_name = "RESOURCE")]
        resource: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ProjectReference {
    /// The project: its name, its id, or the first 6 or more characters of the id
    #[arg(value_name = "PROJECT")]
    pub(crate) reference: String,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agents project create local/shop --resource local/api --resource local/orders:db
  agents project create local/shop --invariant 'The public API stays compatible'")]
pub(crate) struct ProjectCreate {
    /// Its name, such as local/shop
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// What it is
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// A resource to link, with an alias behind a colon; may be given several times
    #[arg(long = "resource", value_name = "RESOURCE[:ALIAS]")]
    pub(crate) resources: Vec<String>,
    /// A word to find it by; may be given several times
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,
    /// What every plan of it must keep true; may be given several times
    #[arg(long = "invariant", value_name = "TEXT")]
    pub(crate) invariants: Vec<String>,
    /// The actor that reconciles invariants
    #[arg(long, value_name = "ACTOR")]
    pub(crate) invariant_actor: Option<String>,
    /// The automation profile its plans start with
    #[arg(long, value_name = "PROFILE")]
    pub(crate) automation_profile: Option<String>,
}
