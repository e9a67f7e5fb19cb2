//! `validation`: what judges the work of plans.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Validation {
    /// Register a validation from a YAML file
    #[command(
        after_help = "A validation runs a `command`, or calls a tool (`wraps`) and makes a verdict of its answer
(`transform`). Its `mode` says whether it stands in the way of applying: `required`, the default, or
`informational`. `agents schema validation` prints the JSON schema of such files.

Examples:
  agents validation add --config tests.yaml
  agents validation add --config tests.yaml --update"
    )]
    Add {
        /// The YAML file, `-` for standard input
        #[arg(long, short = 'c', value_name = "FILE")]
        config: PathBuf,
        /// Replace a validation of the same name
        #[arg(long)]
        update: bool,
    },
    /// List the validations there are
    #[command(after_help = "Examples:
  agents validation list
  agents validation list tests")]
    List {
        /// Only those whose names match this regular expression
        #[arg(value_name = "REGEX")]
        pattern: Option<String>,
    },
    /// Show a validation: what it runs, when it passes, and what it is attached to
    #[command(after_help = "Example:
  agents validation show local/tests")]
    Show {
        #[command(flatten)]
        validation: ValidationReference,
    },
    /// Remove a validation that is not attached
    #[command(after_help = "Example:
  agents validation remove local/tests --yes")]
    Remove {
        #[command(flatten)]
        validation: ValidationReference,
        /// Do not ask for confirmation
        #[arg(long, short = 'y')]
        yes: bool,
    },
    /// Attach a validation to a resource
    Attach(ValidationAttach),
    /// Detach a validation from a resource
    #[command(after_help = "Example:
  agents validation detach 01JX3Q")]
    Detach {
        /// The attachment: its id, or the first 6 or more characters of it
        #[arg(value_name = "ATTACHMENT_ID")]
        attachment: String,
    },
    /// List what is attached to what
    Attachments(ValidationAttachments),
    /// Try a validation in a sandbox, which is the same afterwards
    Run(ValidationRun),
}

#[derive(Debug, Args)]
pub(crate) struct ValidationReference {
    /// The validation, such as local/tests
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Without --project and --plan it judges every plan that works on the resource.

Examples:
  agents validation attach local/api local/tests
  agents validation attach --project local/shop local/api local/coverage least=80"
)]
pub(crate) struct ValidationAttach {
    /// Only in plans of this project
    #[arg(long, short = 'p', value_name = "PROJECT")]
    pub(crate) project: Option<String>,
    /// Only in this plan
    #[arg(long, value_name = "PLAN_ID", conflicts_with = "project")]
    pub(crate) plan: Option<String>,
    /// The resource to judge
    #[arg(value_name = "RESOURCE")]
    pub(crate) resource: String,
    /// The validation that judges
    #[arg(value_name = "VALIDATION")]
    pub(crate) validation: String,
    /// Values for the places of its command
    #[arg(value_name = "NAME=VALUE")]
    pub(crate) arguments: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agents validation attachments --resource local/api
  agents validation attachments --validation local/tests")]
pub(crate) struct ValidationAttachments {
    /// Only of this validation
    #[arg(long, value_name = "NAME")]
    pub(crate) validation: Option<String>,
    /// Only to this resource
    #[arg(long, value_name = "RESOURCE")]
    pub(crate) resource: Option<String>,
    /// Only in this project
    #[arg(long, short = 'p', value_name = "PROJECT")]
    pub(crate) project: Option<String>,
    /// Only in this plan
    #[arg(long, value_name = "PLAN_ID")]
    pub(crate) plan: Option<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The command runs confined to the sandbox. What it changes there is taken back afterwards.

Exit codes: 0 it passed, 1 it failed, 3 there is no such validation

Examples:
  agents validation run local/tests --sandbox fix
  agents validation run local/coverage --sandbox fix least=80"
)]
pub(crate) struct ValidationRun {
    #[command(flatten)]
    pub(crate) validation: ValidationReference,
    /// The sandbox to judge
    #[arg(long, value_name = "NAME")]
    pub(crate) sandbox: String,
    /// Values for the places of its command
    #[arg(value_name = "NAME=VALUE")]
    pub(crate) arguments: Vec<String>,
}
