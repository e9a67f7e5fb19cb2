//! `session create`, `rename`, `fork` and `delete`.

use cleveragents_application::session_operations::{
    CreateSession, DeleteSession, ForkSession, RenameSession, SessionInfo, ShowSession,
};

use crate::arguments::{Deletion, SessionCreate};
use crate::commands::counted;
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report};

fn session_panel(session: &SessionInfo) -> Panel {
    Panel::new("Session")
        .row("Id", Cell::Id(session.id.to_string()))
        .row("Name", session.name.clone())
        .row("Actor", session.actor.clone())
        .row("Namespace", session.namespace.clone())
        .row("Messages", session.messages)
        .row("Created", session.created)
}

pub(super) fn create(context: &Context, arguments: SessionCreate) -> Result<Report, CommandError> {
    let created = context.call(CreateSession {
        name: arguments.name,
        actor: arguments.actor,
        namespace: arguments.namespace,
    })?;
    let panel = session_panel(&created.session);
    Ok(Report::new("session create")
        .panel(panel.row("Automation", created.settings.automation.clone()))
        .data(created)
        .ok("Session created"))
}

pub(super) fn rename(
    context: &Context,
    reference: String,
    name: String,
    if_version: Option<u64>,
) -> Result<Report, CommandError> {
    let renamed = context.call(RenameSession {
        reference,
        name,
        if_version,
    })?;
    Ok(Report::new("session rename")
        .panel(session_panel(&renamed.session))
        .data(renamed)
        .ok("Session renamed"))
}

pub(super) fn fork(
    context: &Context,
    reference: String,
    at: Option<u64>,
    name: Option<String>,
) -> Result<Report, CommandError> {
    let forked = context.call(ForkSession {
        reference,
        at,
        name,
    })?;
    let origin = &forked.forked_from;
    Ok(Report::new("session fork")
        .panel(
            session_panel(&forked.session)
                .row("Forked from", Cell::Id(origin.session_id.to_string()))
                .row(
                    "Last message copied",
                    origin.sequence.map(|sequence| sequence.0),
                ),
        )
        .data(forked)
        .ok("Session forked"))
}

pub(super) fn delete(
    context: &Context,
    reference: String,
    deletion: Deletion,
) -> Result<Report, CommandError> {
    let shown = context.call(ShowSession {
        reference,
        recent: 0,
    })?;
    let session = shown.session_summary;
    let name = session.name.unwrap_or_else(|| session.id.to_string());
    let question = format!(
        "Delete session {name} with {}?",
        counted(session.messages, "message")
    );
    deletion.confirm(&question)?;
    let deleted = context.call(DeleteSession {
        reference: session.id.to_string(),
        yes: true,
        dry_run: deletion.dry_run(),
    })?;
    let summary = &deleted.deletion_summary;
    let report = Report::new("session delete")
        .panel(
            Panel::new("Deletion Summary")
                .row("Session", summary.session.clone())
                .row("Id", Cell::Id(summary.id.to_string()))
                .row("Messages removed", summary.messages_removed)
                .row("Message text removed", Cell::Bytes(summary.storage_freed)),
        )
        .data(deleted);
    Ok(deletion.conclude(report, "Session deleted"))
}
