//! Creating, renaming, forking and deleting sessions.

use cleveragents_application::SessionError;
use cleveragents_domain::{ActorName, Code, Name, Sequence, Session, SessionName, Version};
use cleveragents_store::sessions::Expect;
use serde_json::{Value, json};

use crate::arguments::SessionCreate;
use crate::commands::confirm;
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report};

fn parse_name(text: &str) -> Result<SessionName, SessionError> {
    Ok(text.parse::<SessionName>()?)
}

fn parse_actor(text: &str) -> Result<ActorName, SessionError> {
    Ok(text.parse::<ActorName>()?)
}

fn session_json(session: &Session) -> Value {
    json!({
        "id": session.id,
        "name": session.name.as_ref().map(SessionName::as_str),
        "actor": session.actor,
        "namespace": session.namespace,
        "messages": session.message_count,
        "version": session.version,
        "created": session.created_at,
        "updated": session.updated_at,
    })
}

fn session_panel(title: &'static str, session: &Session) -> Panel {
    Panel::new(title)
        .row("Id", Cell::Id(session.id.to_string()))
        .row("Name", session.name.as_ref().map(ToString::to_string))
        .row("Actor", session.actor.as_ref().map(ToString::to_string))
        .row("Namespace", session.namespace.clone())
        .row("Messages", session.message_count)
        .row("Created", session.created_at)
}

/// A namespace as a person wrote it.
pub(super) fn parse_namespace(text: &str) -> Result<String, CommandError> {
    let whole = format!("{text}/session").parse::<Name>();
    let whole = whole.map_err(|error| CommandError::new(Code::InvalidName, error.to_string()))?;
    Ok(whole.namespace().to_owned())
}

pub(super) fn create(context: &Context, arguments: &SessionCreate) -> Result<Report, CommandError> {
    let name = arguments.name.as_deref().map(parse_name).transpose()?;
    let actor = arguments.actor.as_deref().map(parse_actor).transpose()?;
    let sessions = context.sessions()?;
    let automation = context.settings.automation_profile();
    let session = match arguments.namespace.as_deref() {
        None => sessions.create(name, actor, automation)?,
        Some(namespace) => {
            let namespace = parse_namespace(namespace)?;
            sessions.create_in(&namespace, name, actor, automation)?
        }
    };
    Ok(Report::new("session create")
        .data(json!({
            "session": session_json(&session),
            "settings": {
                "automation": session.automation,
                "max_message_bytes": context.settings.max_message_bytes(),
            },
        }))
        .panel(session_panel("Session", &session).row("Automation", session.automation.clone()))
        .ok("Session created"))
}

pub(super) fn rename(
    context: &Context,
    reference: &str,
    name: &str,
    if_version: Option<u64>,
) -> Result<Report, CommandError> {
    let name = parse_name(name)?;
    let sessions = context.sessions()?;
    let id = sessions.resolve(reference)?;
    let expect = if_version.map_or(Expect::Any, |version| Expect::Exactly(Version(version)));
    let session = sessions.rename(id, name, expect)?;
    Ok(Report::new("session rename")
        .data(json!({"session": session_json(&session)}))
        .panel(session_panel("Session", &session))
        .ok("Session renamed"))
}

pub(super) fn fork(
    context: &Context,
    reference: &str,
    at: Option<u64>,
    name: Option<&str>,
) -> Result<Report, CommandError> {
    let name = name.map(parse_name).transpose()?;
    let sessions = context.sessions()?;
    let source = sessions.resolve(reference)?;
    let session = sessions.fork(
        source,
        at.map(Sequence),
        name,
        Some(context.progress("Copying messages")),
    )?;
    let last = session.forked_from.map(|(_, sequence)| sequence);
    Ok(Report::new("session fork")
        .data(json!({
            "session": session_json(&session),
            "forked_from": {"session_id": source, "sequence": last},
        }))
        .panel(
            session_panel("Session", &session)
                .row("Forked from", Cell::Id(source.to_string()))
                .row("Last message taken", last.map(|sequence| sequence.0)),
        )
        .ok("Session forked"))
}

pub(super) fn delete(
    context: &Context,
    reference: &str,
    yes: bool,
) -> Result<Report, CommandError> {
    let sessions = context.sessions()?;
    let id = sessions.resolve(reference)?;
    let present = sessions.view(id, 0)?;
    let called = present
        .session
        .name
        .as_ref()
        .map_or_else(|| id.to_string(), ToString::to_string);
    confirm(
        context,
        &format!(
            "Delete session {called} with {} messages?",
            present.session.message_count
        ),
        yes,
    )?;
    let session = sessions.delete(id)?;
    Ok(Report::new("session delete")
        .data(json!({
            "deletion_summary": {
                "session": session.name.as_ref().map(SessionName::as_str),
                "id": session.id,
                "messages_removed": session.message_count,
                "storage_freed": session.content_bytes,
                "plans_orphaned": present.plans.len(),
            },
        }))
        .panel(
            Panel::new("Deletion Summary")
                .row("Session", session.name.as_ref().map(ToString::to_string))
                .row("Id", Cell::Id(session.id.to_string()))
                .row("Messages removed", session.message_count)
                .row("Message text removed", Cell::Bytes(session.content_bytes)),
        )
        .ok("Session deleted"))
}
