//! `resource` and `resource type`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Resource {
    /// Register a resource, with the flags that its type declares
    Add(ResourceAdd),
    /// List resources
    #[command(after_help = "Examples:
  agents resource list --type container-instance     its special cases too
  agents resource list --project local/shop")]
    List {
        /// Only resources of this type and of types that inherit from it
        #[arg(long = "type", value_name = "TYPE")]
        type_name: Option<String>,
        /// Only resources that this project links
        #[arg(long, value_name = "PROJECT")]
        project: Option<String>,
    },
    /// Show what is registered about a resource
    Show {
        #[command(flatten)]
        resource: ResourceReference,
    },
    /// Look at what is there now: files, branch, commit, uncommitted changes
    Inspect {
        #[command(flatten)]
        resource: ResourceReference,
    },
    /// Draw what lies below a resource, or below all
    Tree {
        /// The resource; all when not given
        #[arg(value_name = "RESOURCE")]
        reference: Option<String>,
        /// Only resources of this type and of types that inherit from it
        #[arg(long = "type", value_name = "TYPE")]
        type_name: Option<String>,
    },
    /// Remove a resource and what was discovered below it; the files stay
    Remove {
        #[command(flatten)]
        resource: ResourceReference,
        /// Do not ask for confirmation
        #[arg(long, short = 'y')]
        yes: bool,
    },
    /// Put a resource below another
    LinkChild {
        /// What contains
        parent: String,
        /// What is contained
        child: String,
    },
    /// Take a resource away from below another
    UnlinkChild {
        /// What contains
        parent: String,
        /// What is contained
        child: String,
    },
    /// Look after the types of resources
    #[command(subcommand)]
    Type(ResourceType),
}

#[derive(Debug, Args)]
pub(crate) struct ResourceReference {
    /// The resource: its name, its id, or the first 6 or more characters of the id
    #[arg(value_name = "RESOURCE")]
    pub(crate) reference: String,
}

#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    override_usage = "agents resource add TYPE NAME [FLAGS OF THE TYPE]
       agents resource add TYPE --help",
    after_help = "Every type takes --description TEXT, --read-only and --update besides its own flags;
`agents resource add TYPE --help` shows them all.

Examples:
  agents resource add git-checkout local/api --path ~/src/api
  agents resource add sqlite local/orders --path orders.db --read-only
  agents resource add git-checkout local/api --path ~/src/api --update   look again"
)]
pub(crate) struct ResourceAdd {
    /// Show the flags of the type
    #[arg(long, short = 'h')]
    pub(crate) help: bool,
    /// The type, such as git-checkout, fs-directory or sqlite
    #[arg(value_name = "TYPE")]
    pub(crate) type_name: Option<String>,
    /// The name, such as local/api, and the flags of the type
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
        /// The YAML file, `-` for standard input
        #[arg(long, short = 'c', value_name = "FILE")]
        config: PathBuf,
        /// Replace the definition of a type that is registered
        #[arg(long)]
        update: bool,
    },
    /// List the types there are
    List,
    /// Show a type with everything it inherits
    Show {
        /// The type
        #[arg(value_name = "TYPE")]
        name: String,
    },
    /// Remove a type that nothing uses
    Remove {
        /// The type
        #[arg(value_name = "TYPE")]
        name: String,
        /// Do not ask for confirmation
        #[arg(long, short = 'y')]
        yes: bool,
    },
}

/// What stands behind a type: the flags of the type, and options that every command has.
#[derive(Debug, Default)]
pub(super) struct Behind {
    pub(super) rest: Vec<String>,
    pub(super) format: Option<String>,
    pub(super) database_url: Option<String>,
    pub(super) log_file: Option<String>,
    pub(super) log_format: Option<String>,
    pub(super) verbosity: u8,
}

impl Behind {
    /// Separates the flags of a type from the options of every command.
    pub(super) fn of(given: Vec<String>) -> Result<Self, clap::Error> {
        let mut behind = Self::default();
        let mut given = given.into_iter();
        while let Some(argument) = given.next() {
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
                _ => match argument.strip_prefix("-f") {
                    Some(value) if !value.is_empty() => {
                        ("-f", Some(value.trim_start_matches('=').to_owned()))
                    }
                    _ => (argument.as_str(), None),
                },
            };
            let place = match name {
                "--" => {
                    behind.rest.push(argument);
                    behind.rest.extend(given.by_ref());
                    break;
                }
                "--format" | "-f" => &mut behind.format,
                "--database-url" => &mut behind.database_url,
                "--log-file" => &mut behind.log_file,
                "--log-format" => &mut behind.log_format,
                "-v" | "-vv" => {
                    behind.verbosity =
                        behind
                            .verbosity
                            .saturating_add(if name == "-v" { 1 } else { 2 });
                    continue;
                }
                _ => {
                    behind.rest.push(argument);
                    continue;
                }
            };
            let Some(value) = value.or_else(|| given.next()) else {
                return Err(clap::Error::raw(
                    clap::error::ErrorKind::InvalidValue,
                    format!("a value is required for '{argument}' but none was supplied"),
                ));
            };
            *place = Some(value);
        }
        // The one parser of formats judges it.
        if let Some(format) = &behind.format {
            let line = ["agents", "--format", format, "version"];
            <super::Arguments as clap::Parser>::try_parse_from(line)?;
        }
        Ok(behind)
    }
}
