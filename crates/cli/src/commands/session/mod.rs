//! `session`: keeping conversations.

mod append;
mod browse;
mod document;
mod manage;
mod search;
mod tell;

pub(crate) use append::read_text;
pub(crate) use document::read_export;

use cleveragents_application::SessionError;
use cleveragents_domain::{Message, Session as StoredSession};
use serde_json::{Value, json};

use crate::arguments::Session;
use crate::context::Context;
use crate::output::{CommandError, Entry, Report};

/// Runs a session command. `None` means that it wrote a document of its own.
pub(super) fn run(
    context: &Context,
    command: Session,
    is_markdown: bool,
) -> Result<Option<Report>, CommandError> {
    let report = match command {
        Session::Create(arguments) => manage::create(context, &arguments)?,
        Session::List(arguments) => browse::list(context, &arguments)?,
        Session::Show { session, recent } => browse::show(context, &session.reference, recent)?,
        Session::Append(arguments) => return append::run(context, arguments),
        Session::Messages(arguments) => browse::messages(context, &arguments)?,
        Session::Rename {
            session,
            name,
            if_version,
        } => manage::rename(context, &session.reference, &name, if_version)?,
        Session::Delete { session, yes } => manage::delete(context, &session.reference, yes)?,
        Session::Export(arguments) => return document::export(context, &arguments, is_markdown),
        Session::Import(arguments) => document::import(context, &arguments)?,
        Session::Fork { session, at, name } => {
            manage::fork(context, &session.reference, at, name.as_deref())?
        }
        Session::Search(arguments) => search::run(context, &arguments)?,
        Session::Tell(arguments) => tell::run(context, &arguments)?,
    };
    Ok(Some(report))
}

/// A message as people read it.
fn message_entry(message: Message) -> Entry {
    let failed = match message.state {
        cleveragents_domain::MessageState::Complete => "",
        cleveragents_domain::MessageState::Failed => " (failed)",
    };
    Entry::new(
        format!("{} {}{failed}", message.sequence, message.role),
        message.content,
    )
    .fact(message.created_at)
}

/// The session's usage as programs read it: money as a number of US dollars.
fn usage_json(session: &StoredSession, is_cost_known: bool) -> Value {
    let mut usage = json!({
        "input_tokens": session.usage.input_tokens,
        "output_tokens": session.usage.output_tokens,
    });
    let cost = session.usage.cost_micro_usd;
    super::put_cost(&mut usage, "estimated_cost", cost, is_cost_known);
    usage
}

fn parse_role(text: &str) -> Result<cleveragents_domain::Role, SessionError> {
    Ok(text.parse::<cleveragents_domain::Role>()?)
}
