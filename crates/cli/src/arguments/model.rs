//! `model`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Rehearsal;

#[derive(Debug, Subcommand)]
pub(crate) enum Model {
    /// List well-known models and those in models.yaml
    #[command(
        after_help = "Other models of a provider can be used too; their price is unknown.

Examples:
  agents model list --available
  agents model list --provider anthropic"
    )]
    List {
        /// Only models of this provider
        #[arg(long, value_name = "PROVIDER")]
        provider: Option<String>,
        /// Only models whose provider has a key
        #[arg(long)]
        available: bool,
    },
    /// Show capabilities, price and connection of a model
    #[command(after_help = "Example:
  agents model show openai/gpt-5.1")]
    Show {
        /// Model, PROVIDER/MODEL
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Send a short prompt to a model and measure the response
    Test(ModelTest),
    /// Manage provider keys in the system keyring
    #[command(subcommand)]
    Key(ModelKey),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelKey {
    /// Store the key of a provider in the keyring
    #[command(
        after_help = "The key is read from the terminal without echo, or from standard input. It is never an
argument, which other users could read. An environment variable takes precedence over the keyring.

Examples:
  agents model key set anthropic
  pass show openai | agents model key set openai"
    )]
    Set {
        /// Provider
        #[arg(value_name = "PROVIDER")]
        provider: String,
    },
    /// Remove the key of a provider from the keyring
    #[command(after_help = "Example:
  agents model key remove anthropic")]
    Remove {
        /// Provider
        #[arg(value_name = "PROVIDER")]
        provider: String,
        #[command(flatten)]
        rehearsal: Rehearsal,
    },
}

#[derive(Debug, Args)]
#[command(
    after_help = "Only this model receives the request; `model.fallback` is not used.

Examples:
  agents model test ollama/llama3
  agents model test openai/gpt-5.1 --prompt 'Say hello in Czech'
  agents model test scripted/answers.yaml"
)]
pub(crate) struct ModelTest {
    /// Model, PROVIDER/MODEL; the configured default when not given
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Prompt
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "Answer with the single word: ready"
    )]
    pub(crate) prompt: String,
    /// Request the response as a whole instead of a stream
    #[arg(long)]
    pub(crate) no_stream: bool,
    /// Append the exchange to this file, for `replay/FILE`
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
}
