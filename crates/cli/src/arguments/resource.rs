//! `resource` and `resource type`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Deletion;

#[derive(Debug, Subcommand)]
pub(crate) enum Resource {
    /// Register a resource, with the flags of its type
    Add(ResourceAdd),
    /// List resources
    #[command(after_help = "Examples:
  agents resource list --type container-instance     also lists subtypes
  agents resource list --project local/shop")]
    List {
        /// Only resources of this type and its subtypes
        #[arg(long = "type", value_name = "TYPE")]
        type_name: Option<String>,
        /// Only resources of this project
        #[arg(long, value_name = "PROJECT")]
        project: Option<String>,
    },
    /// Show the registration of a resource
    #[command(after_help = "Example:
  agents resource show local/shop")]
    Show {
        #[command(flatten)]
        resource: ResourceReference,
    },
    /// Show the current state: files, branch, commit, uncommitted changes
    #[command(after_help = "Example:
  agents resource inspect local/shop")]
    Inspect {
        #[command(flatten)]
        resource: ResourceReference,
    },
    /// Draw the tree of one resource or all resources
    #[command(after_help = "Examples:
  agents resource tree
  agents resource tree local/shop")]
    Tree {
        /// Resource; all when not given
        #[arg(value_name = "RESOURCE")]
        reference: Option<String>,
        /// Only resources of this type and its subtypes
        #[arg(long = "type", value_name = "TYPE")]
        type_name: Option<String>,
    },
    /// Remove a resource and the resources discovered below it; files stay
    #[command(after_help = "Examples:
  agents resource remove local/shop --dry-run
  agents resource remove local/shop --yes")]
    Remove {
        #[command(flatten)]
        resource: ResourceReference,
        #[command(flatten)]
        deletion: Deletion,
    },
    /// Add a resource as a child of another
    #[command(after_help = "Example:
  agents resource link-child local/shop local/orders")]
    LinkChild {
        /// Parent resource
        parent: String,
        /// Child resource
        child: String,
    },
    /// Remove a resource from its parent
    #[command(after_help = "Example:
  agents resource unlink-child local/shop local/orders")]
    UnlinkChild {
        /// Parent resource
        parent: String,
        /// Child resource
        child: String,
    },
    /// Manage resource types
    #[command(subcommand)]
    Type(ResourceType),
}

#[derive(Debug, Args)]
pub(crate) struct ResourceReference {
    /// Resource: name, id, or prefix of the id of at least 6 characters
    #[arg(value_name = "RESOURCE")]
    pub(crate) reference: String,
}

#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    override_usage = "agents resource add TYPE NAME [FLAGS OF THE TYPE]
       agents resource add TYPE --help",
    after_help = "Every type has --description TEXT, --read-only and --update in addition to its own flags;
`agents resource add TYPE --help` shows them all.

Examples:
  agents resource add git-checkout local/api --path ~/src/api
  agents resource add sqlite local/orders --path orders.db --read-only
  agents resource add git-checkout local/api --path ~/src/api --update"
)]
pub(crate) struct ResourceAdd {
    /// Show the flags of the type
    #[arg(long, short = 'h')]
    pub(crate) help: bool,
    /// Type, such as git-checkout, fs-directory or sqlite
    #[arg(value_name = "TYPE")]
    pub(crate) type_name: Option<String>,
    /// Name, such as local/api, and the flags of the type
    #[arg(
        value_name = "NAME AND FLAGS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) rest: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ResourceType {
    /// Register a type from a YAML file
    #[command(after_help = "Example:
  agents resource type add --config database.yaml")]
    Add {
        /// YAML file, `-` for standard input
        #[arg(long, short = 'c', value_name = "FILE")]
        config: PathBuf,
        /// Replace the definition of a registered type
        #[arg(long)]
        update: bool,
    },
    /// List types
    List,
    /// Show a type with all inherited properties
    #[command(after_help = "Example:
  agents resource type show git-checkout")]
    Show {
        /// Resource type, such as local/database
        #[arg(value_name = "TYPE")]
        name: String,
    },
    /// Remove a type that is not in use
    #[command(after_help = "Example:
  agents resource type remove local/database --yes")]
    Remove {
        /// Resource type, such as local/database
        #[arg(value_name = "TYPE")]
        name: String,
        #[command(flatten)]
        deletion: Deletion,
    },
}

/// Arguments after the type: flags of the type, and global options.
#[derive(Debug, Default)]
pub(super) struct TrailingArguments {
    pub(super) rest: Vec<String>,
    pub(super) format: Option<String>,
    pub(super) database_url: Option<String>,
    pub(super) log_file: Option<String>,
    pub(super) log_format: Option<String>,
    pub(super) verbosity: u8,
}

impl TrailingArguments {
    /// Separates the flags of the type from global options.
    pub(super) fn parse(arguments: Vec<String>) -> Result<Self, clap::Error> {
        let mut trailing = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
                _ => match argument.strip_prefix("-f") {
                    Some(value) if !value.is_empty() => {
                        ("-f", Some(value.trim_start_matches('=').to_owned()))
                    }
                    _ => (argument.as_str(), None),
                },
            };
            let option = match name {
                "--" => {
                    trailing.rest.push(argument);
                    trailing.rest.extend(arguments.by_ref());
                    break;
                }
                "--format" | "-f" => &mut trailing.format,
                "--database-url" => &mut trailing.database_url,
                "--log-file" => &mut trailing.log_file,
                "--log-format" => &mut trailing.log_format,
                "-v" | "-vv" => {
                    trailing.verbosity =
                        trailing
                            .verbosity
                            .saturating_add(if name == "-v" { 1 } else { 2 });
                    continue;
                }
                _ => {
                    trailing.rest.push(argument);
                    continue;
                }
            };
            let Some(value) = value.or_else(|| arguments.next()) else {
                return Err(clap::Error::raw(
                    clap::error::ErrorKind::InvalidValue,
                    format!("a value is required for '{argument}' but none was supplied"),
                ));
            };
            *option = Some(value);
        }
        // Parsing a command line with the format reports an unknown format like every other command.
        if let Some(format) = &trailing.format {
            let line = ["agents", "--format", format, "version"];
            <super::Arguments as clap::Parser>::try_parse_from(line)?;
        }
        Ok(trailing)
    }
}
