//! `validation`: checks of the results of plans.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Deletion;

#[derive(Debug, Subcommand)]
pub(crate) enum Validation {
    /// Register a validation from a YAML file
    #[command(
        after_help = "A validation runs a `command`, or calls a tool (`wraps`) and derives the verdict from its output
(`transform`). Its `mode` decides whether a failure blocks the apply: `required`, the default, or
`informational`. `agents schema validation` prints the JSON schema of such files.

Examples:
  agents validation add --config tests.yaml
  agents validation add --config tests.yaml --update"
    )]
    Add {
        /// YAML file, `-` for standard input
        #[arg(long, short = 'c', value_name = "FILE")]
        config: PathBuf,
        /// Replace the validation of the same name
        #[arg(long)]
        update: bool,
    },
    /// List validations
    #[command(after_help = "Examples:
  agents validation list
  agents validation list tests")]
    List {
        /// Only validations whose name matches this regular expression
        #[arg(value_name = "REGEX")]
        pattern: Option<String>,
    },
    /// Show a validation: command, pass condition and attachments
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
        #[command(flatten)]
        deletion: Deletion,
    },
    /// Attach a validation to a resource
    Attach(ValidationAttach),
    /// Detach a validation from a resource
    #[command(after_help = "Example:
  agents validation detach 01JX3Q")]
    Detach {
        /// Attachment: id, or prefix of at least 6 characters
        #[arg(value_name = "ATTACHMENT_ID")]
        attachment: String,
    },
    /// List attachments
    Attachments(ValidationAttachments),
    /// Run a validation in a sandbox and undo its changes
    Run(ValidationRun),
}

#[derive(Debug, Args)]
pub(crate) struct ValidationReference {
    /// Validation, such as local/tests
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Without --project and --plan, it checks every plan that works on the resource.

Examples:
  agents validation attach local/api local/tests
  agents validation attach --project local/shop local/api local/tests least=80"
)]
pub(crate) struct ValidationAttach {
    /// Only in plans of this project
    #[arg(long, short = 'p', value_name = "PROJECT")]
    pub(crate) project: Option<String>,
    /// Only in this plan
    #[arg(long, value_name = "PLAN_ID", conflicts_with = "project")]
    pub(crate) plan: Option<String>,
    /// Resource to check
    #[arg(value_name = "RESOURCE")]
    pub(crate) resource: String,
    /// Validation
    #[arg(value_name = "VALIDATION")]
    pub(crate) validation: String,
    /// Values for placeholders of its command
    #[arg(value_name = "NAME=VALUE")]
    pub(crate) arguments: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  agents validation attachments --resource local/api
  agents validation attachments --validation local/tests")]
pub(crate) struct ValidationAttachments {
    /// Only attachments of this validation
    #[arg(long, value_name = "NAME")]
    pub(crate) validation: Option<String>,
    /// Only attachments to this resource
    #[arg(long, value_name = "RESOURCE")]
    pub(crate) resource: Option<String>,
    /// Only attachments in this project
    #[arg(long, short = 'p', value_name = "PROJECT")]
    pub(crate) project: Option<String>,
    /// Only attachments in this plan
    #[arg(long, value_name = "PLAN_ID")]
    pub(crate) plan: Option<String>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The command runs confined to the sandbox. Its changes to the sandbox are undone afterwards.

Exit codes: 0 passed, 1 failed, 3 validation not found

Examples:
  agents validation run local/tests --sandbox fix
  agents validation run local/coverage --sandbox fix least=80"
)]
pub(crate) struct ValidationRun {
    #[command(flatten)]
    pub(crate) validation: ValidationReference,
    /// Sandbox to check
    #[arg(long, value_name = "NAME")]
    pub(crate) sandbox: String,
    /// Values for placeholders of its command
    #[arg(value_name = "NAME=VALUE")]
    pub(crate) arguments: Vec<String>,
}
