//! Commands whose operations run on a server, with the same arguments, output and exit codes.

mod follow;
mod http;

use cleveragents_domain::Code;

use crate::commands;
use crate::commands::session;
use crate::context::Context;
use crate::output::CommandError;

pub(crate) use follow::{FAILURES, follow_events, is_temporary};
pub(crate) use http::{Connection, token_file};

/// Groups of commands that always run on this machine.
const LOCAL_GROUPS: &[&str] = &[
    "completion",
    "config",
    "demo",
    "diagnostics",
    "info",
    "init",
    "man",
    "schema",
    "serve",
    "server",
    "setup",
    "version",
];

/// Groups of commands that use the local database instead of the server's. They run here, with a
/// note in the report.
const NOTED_LOCAL_GROUPS: &[&str] = &[
    "audit",
    "cleanup",
    "db",
    "mcp",
    "permission",
    "safety",
    "sandbox",
    "token",
    "worker",
];

/// Commands that run as operations of the application, and so on a connected server, by group.
const OPERATIONS: &[&[&str]] = &[
    &["chat"],
    session::OPERATIONS,
    commands::plan::OPERATIONS,
    commands::project::OPERATIONS,
    commands::resource::OPERATIONS,
    commands::action::OPERATIONS,
    commands::invariant::OPERATIONS,
    commands::automation::OPERATIONS,
    commands::tool::OPERATIONS,
    commands::skill::OPERATIONS,
    commands::validation::OPERATIONS,
    commands::actor::OPERATIONS,
    commands::run::OPERATIONS,
    commands::model::OPERATIONS,
    commands::item::OPERATIONS,
    commands::pool::OPERATIONS,
];

/// Machine that runs a command.
pub(crate) enum CommandMachine {
    /// The server runs the operations; this process prints the output.
    Server,
    /// This machine. The note, if any, informs the user that the server was not used.
    Here(Option<String>),
}

/// Selects the machine that runs a command.
pub(crate) fn place_of(context: &Context, command: &str) -> Result<CommandMachine, CommandError> {
    let Some(connection) = &context.connection else {
        return Ok(CommandMachine::Here(None));
    };
    let group = command.split(' ').next().unwrap_or_default();
    if LOCAL_GROUPS.contains(&group) {
        return Ok(CommandMachine::Here(None));
    }
    if NOTED_LOCAL_GROUPS.contains(&group) {
        return Ok(CommandMachine::Here(Some(format!(
            "this command ran on this machine, not on the server {}",
            connection.url
        ))));
    }
    if OPERATIONS.concat().contains(&command) {
        return Ok(CommandMachine::Server);
    }
    let message = format!("`agents {command}` cannot be sent to a server");
    Err(CommandError::new(Code::LocalOnly, message)
        .with_hint("run it on this machine with --local"))
}
