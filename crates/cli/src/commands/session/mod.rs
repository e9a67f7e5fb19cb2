//! `session`: conversations.

mod append;
mod browse;
mod compact;
mod document;
mod manage;
mod search;
mod tell;

pub(crate) use append::read_text;
pub(crate) use browse::{list_report, show_report};
pub(crate) use compact::compact_report;

use crate::arguments::Session;
use crate::context::Context;
use crate::output::{CommandError, Report};

/// Commands that run as operations of the application, on this machine or on a server.
pub(crate) const OPERATIONS: &[&str] = &[
    "session append",
    "session compact",
    "session create",
    "session delete",
    "session export",
    "session fork",
    "session import",
    "session list",
    "session messages",
    "session rename",
    "session search",
    "session show",
    "session tell",
];

/// Runs a session command. `None` means that the command wrote a document to standard output itself.
pub(super) fn run(
    context: &Context,
    command: Session,
    is_markdown: bool,
) -> Result<Option<Report>, CommandError> {
    let report = match command {
        Session::Create(arguments) => manage::create(context, arguments)?,
        Session::List(arguments) => browse::list(context, arguments)?,
        Session::Show { session, recent } => browse::show(context, session.reference, recent)?,
        Session::Append(arguments) => return append::run(context, arguments),
        Session::Messages(arguments) => browse::messages(context, arguments)?,
        Session::Rename {
            session,
            name,
            if_version,
        } => manage::rename(context, session.reference, name, if_version)?,
        Session::Delete { session, deletion } => {
            manage::delete(context, session.reference, deletion)?
        }
        Session::Export(arguments) => return document::export(context, arguments, is_markdown),
        Session::Import(arguments) => document::import(context, arguments)?,
        Session::Fork { session, at, name } => manage::fork(context, session.reference, at, name)?,
        Session::Search(arguments) => search::run(context, arguments)?,
        Session::Tell(arguments) => tell::run(context, *arguments)?,
        Session::Compact(arguments) => compact::run(context, arguments)?,
    };
    Ok(Some(report))
}
