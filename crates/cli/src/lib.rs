//! The command line of CleverAgents: arguments in, reports out.
//!
//! [`run`] is the whole program. A command is a function from a [`context::Context`] and its
//! arguments to a [`output::Report`] or an [`output::CommandError`]; it never prints by itself. This
//! is the only crate that reads arguments, the environment and the working folder, and the only
//! one that writes to standard output.

pub mod config;
pub mod output;

mod app;
mod arguments;
mod commands;
mod completion;
mod context;
mod logging;
mod process_configuration;
#[cfg(test)]
mod reference;
mod remote;
mod serve;

pub use app::run;
