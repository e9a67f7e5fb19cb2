//! `model`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Model {
    /// List well-known models and those of models.yaml
    #[command(
        after_help = "Any other model of a provider can be used too; it has no known price.

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
    /// Show what a model can do, what it costs, and how it is reached
    #[command(after_help = "Example:
  agents model show openai/gpt-5.1")]
    Show {
        /// The model, PROVIDER/MODEL
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Ask a model something small and measure the answer
    Test(ModelTest),
    /// Keep keys of providers in the keyring of the system
    #[command(subcommand)]
    Key(ModelKey),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelKey {
    /// Put the key of a provider into the keyring
    #[command(
        after_help = "The key is asked for at the terminal and not shown, or read from standard input. It is never an
argument, which others could read. A variable of the environment comes before the keyring.

Examples:
  agents model key set anthropic
  pass show openai | agents model key set openai"
    )]
    Set {
        /// The provider
        #[arg(value_name = "PROVIDER")]
        provider: String,
    },
    /// Take the key of a provider out of the keyring
    #[command(after_help = "Example:
  agents model key remove anthropic")]
    Remove {
        /// The provider
        #[arg(value_name = "PROVIDER")]
        provider: String,
    },
}

#[derive(Debug, Args)]
#[command(after_help = "The model alone is asked; `model.fallback` is not used.

Examples:
  agents model test ollama/llama3
  agents model test openai/gpt-5.1 --prompt 'Say hello in Czech'
  agents model test scripted/answers.yaml")]
pub(crate) struct ModelTest {
    /// The model, PROVIDER/MODEL; the configured one when not given
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// What to ask
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "Answer with the single word: ready"
    )]
    pub(crate) prompt: String,
    /// Have the answer sent whole instead of piece by piece
    #[arg(long)]
    pub(crate) no_stream: bool,
    /// Add the exchange to this file, for `replay/FILE`
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
}
