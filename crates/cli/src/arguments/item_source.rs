//! `item source`: the trackers that work items come from.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::Rehearsal;

#[derive(Debug, Subcommand)]
pub(crate) enum ItemSource {
    /// Add a source of work items
    Add(ItemSourceAdd),
    /// List sources of work items
    List,
    /// Remove a source; its work items stay
    #[command(after_help = "Examples:
  agents item source remove notes --dry-run
  agents item source remove notes --yes")]
    Remove {
        /// Source
        #[arg(value_name = "NAME")]
        name: String,
        /// Do not ask for confirmation, and discard pending writes
        #[arg(long, short = 'y')]
        yes: bool,
        #[command(flatten)]
        rehearsal: Rehearsal,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agents item source add forge --project local/shop --kind forgejo \\
      https://code.example/ada/shop --mirror
  agents item source add notes --project local/shop --kind markdown ./issues")]
pub(crate) struct ItemSourceAdd {
    /// Name: lowercase letters, digits, `-` and `_`
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Address of a repository, or a folder of Markdown files
    #[arg(value_name = "ADDRESS")]
    pub(crate) address: PathBuf,
    /// Project that receives the work items
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: String,
    /// Kind of the tracker
    #[arg(long, value_enum, value_name = "KIND")]
    pub(crate) kind: SourceKind,
    /// Variable or keyring entry that holds the token
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) credential: Option<String>,
    /// Variable or keyring entry that holds the token of the reviewing account
    #[arg(long, value_name = "VARIABLE")]
    pub(crate) reviewer_credential: Option<String>,
    /// Tracker label for a field value, such as kind.bug=defect; may be repeated
    #[arg(long = "label", value_name = "VALUE=LABEL")]
    pub(crate) labels: Vec<String>,
    /// Write changes of work items to the tracker
    #[arg(long)]
    pub(crate) mirror: bool,
}

/// The kind of a tracker.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum SourceKind {
    /// Forgejo or Gitea
    Forgejo,
    /// GitHub
    #[value(name = "github")]
    GitHub,
    /// Folder of Markdown files
    Markdown,
}
