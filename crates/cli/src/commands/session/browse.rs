//! Listing sessions and reading their messages.

use cleveragents_application::{SessionError, SessionView};
use cleveragents_domain::{
    ActorName, Message, MessageId, MessageState, Metadata, Role, Sequence, SessionId, SessionName,
    Timestamp,
};
use cleveragents_store::sessions::{Direction, ListedSession, SessionFilter, SortKey};
use serde::Serialize;
use serde_json::json;

use super::{message_entry, usage_json};
use crate::arguments::{SessionList, SessionMessages, SessionSort};
use crate::commands::{cost_cell, counted};
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table};

fn filter(context: &Context, arguments: &SessionList) -> Result<SessionFilter, CommandError> {
    let since = arguments
        .since
        .as_deref()
        .map(str::parse::<Timestamp>)
        .transpose()
        .map_err(|error| {
            CommandError::usage(error.to_string())
                .with_hint("write the time like 2026-01-31T12:00:00Z")
        })?;
    let actor = arguments
        .actor
        .as_deref()
        .map(str::parse)
        .transpose()
        .map_err(SessionError::Actor)?;
    Ok(SessionFilter {
        actor,
        namespace: arguments.namespace.clone(),
        visible: context.visible(),
        name_contains: arguments.name.clone(),
        updated_since: since,
        sort: match arguments.sort {
            SessionSort::Updated => SortKey::Updated,
            SessionSort::Created => SortKey::Created,
            SessionSort::Name => SortKey::Name,
            SessionSort::Messages => SortKey::Messages,
        },
        direction: if arguments.reverse {
            Direction::Reversed
        } else {
            Direction::Natural
        },
        offset: arguments.offset,
        limit: arguments.limit,
    })
}

/// `data` of `session list`.
#[derive(Serialize)]
struct SessionListing {
    sessions: Vec<SessionRecord>,
    summary: ListSummary,
}

#[derive(Serialize)]
struct SessionRecord {
    id: SessionId,
    name: Option<String>,
    actor: Option<ActorName>,
    messages: u64,
    created: Timestamp,
    updated: Timestamp,
}

impl From<ListedSession> for SessionRecord {
    fn from(session: ListedSession) -> Self {
        Self {
            id: session.id,
            name: session.name.map(SessionName::into_string),
            actor: session.actor,
            messages: session.message_count,
            created: session.created_at,
            updated: session.updated_at,
        }
    }
}

#[derive(Serialize)]
struct ListSummary {
    total: u64,
    matching: u64,
    most_recent: Option<String>,
    oldest: Option<String>,
    total_messages: u64,
    storage: u64,
}

/// `data` of `session messages`.
#[derive(Serialize)]
struct MessageListing {
    session_id: SessionId,
    messages: Vec<ListedMessage>,
    total: u64,
    next_after: Option<Sequence>,
}

#[derive(Serialize)]
struct ListedMessage {
    sequence: Sequence,
    message_id: MessageId,
    role: Role,
    content: String,
    timestamp: Timestamp,
    metadata: Metadata,
    state: MessageState,
}

impl From<Message> for ListedMessage {
    fn from(message: Message) -> Self {
        Self {
            sequence: message.sequence,
            message_id: message.id,
            role: message.role,
            content: message.content,
            timestamp: message.created_at,
            metadata: message.metadata,
            state: message.state,
        }
    }
}

pub(super) fn list(context: &Context, arguments: &SessionList) -> Result<Report, CommandError> {
    let filter = filter(context, arguments)?;
    let service = context.sessions()?;
    let (page, totals) = service.list(&filter)?;
    let sessions = page.sessions;
    let newest = sessions.iter().max_by_key(|session| session.updated_at);
    let oldest = sessions.iter().min_by_key(|session| session.created_at);
    let label = |session: &ListedSession| {
        session
            .name
            .as_ref()
            .map_or_else(|| session.id.to_string(), ToString::to_string)
    };
    let count = sessions.len();
    let report = if context.printer.format().is_human() {
        let mut table = Table::new("Sessions")
            .column("Id", Align::Left)
            .column("Name", Align::Left)
            .column("Actor", Align::Left)
            .column("Messages", Align::Right)
            .column("Updated", Align::Left)
            .empty(if totals.sessions == 0 {
                "No sessions. Start one with `agents session create`"
            } else {
                "No session matches"
            });
        let ids: Vec<_> = sessions.iter().map(|session| session.id).collect();
        for (session, id) in sessions.iter().zip(service.shown_ids(&ids)?) {
            table = table.row(vec![
                Cell::Id(id),
                session.name.as_ref().map(ToString::to_string).into(),
                session.actor.as_ref().map(ToString::to_string).into(),
                session.message_count.into(),
                session.updated_at.into(),
            ]);
        }
        Report::new("session list").table(table).panel(
            Panel::new("Summary")
                .row("Sessions", totals.sessions)
                .row("Matching", page.matching)
                .row("Messages", totals.messages)
                .row("Message text", Cell::Bytes(totals.content_bytes)),
        )
    } else {
        let summary = ListSummary {
            total: totals.sessions,
            matching: page.matching,
            most_recent: newest.map(label),
            oldest: oldest.map(label),
            total_messages: totals.messages,
            storage: totals.content_bytes,
        };
        let sessions = sessions.into_iter().map(SessionRecord::from).collect();
        Report::new("session list").records(SessionListing { sessions, summary })
    };
    Ok(report.ok(format!("{} listed", counted(count, "session"))))
}

pub(super) fn show(
    context: &Context,
    reference: &str,
    recent: u64,
) -> Result<Report, CommandError> {
    let sessions = context.sessions()?;
    let SessionView {
        session,
        recent,
        plans,
    } = sessions.view(sessions.resolve(reference)?, recent)?;
    let is_cost_known = sessions.is_cost_known(session.id)?;
    let last: Vec<_> = recent.iter().map(|message| json!({"sequence": message.sequence, "role": message.role, "text": message.content})).collect();
    let mut report = Report::new("session show")
        .data(json!({
            "session_summary": {
                "id": session.id,
                "name": session.name.as_ref().map(SessionName::as_str),
                "actor": session.actor,
                "namespace": session.namespace,
                "messages": session.message_count,
                "created": session.created_at,
                "updated": session.updated_at,
                "automation": session.automation,
                "version": session.version,
                "forked_from": session.forked_from.map(|(id, sequence)| json!({"session_id": id, "sequence": sequence})),
            },
            "recent_messages": last,
            "linked_plans": plans,
            "token_usage": usage_json(&session, is_cost_known),
        }))
        .panel(
            Panel::new("Session")
                .row("Id", Cell::Id(session.id.to_string()))
                .row("Name", session.name.as_ref().map(ToString::to_string))
                .row("Actor", session.actor.as_ref().map(ToString::to_string))
                .row("Messages", session.message_count)
                .row("Created", session.created_at)
                .row("Updated", session.updated_at)
                .row("Automation", session.automation.clone()),
        )
        .panel(
            Panel::new("Usage")
                .row("Input tokens", session.usage.input_tokens.0)
                .row("Output tokens", session.usage.output_tokens.0)
                .row(
                    "Estimated cost",
                    cost_cell(session.usage.cost_micro_usd, is_cost_known),
                ),
        );
    if !plans.is_empty() {
        let mut table = Table::new("Linked Plans")
            .column("Plan ID", Align::Left)
            .column("Phase", Align::Left)
            .column("State", Align::Left);
        for plan in plans {
            table = table.row(vec![
                Cell::Id(plan.plan_id.to_string()),
                plan.phase.into(),
                plan.state.into(),
            ]);
        }
        report = report.table(table);
    }
    if !recent.is_empty() {
        report = report.transcript(recent.into_iter().map(message_entry).collect());
    }
    Ok(report.ok("Session shown"))
}

pub(super) fn messages(
    context: &Context,
    arguments: &SessionMessages,
) -> Result<Report, CommandError> {
    let sessions = context.sessions()?;
    let id = sessions.resolve(&arguments.session.reference)?;
    let from = Sequence(arguments.after.map_or(0, |after| after.saturating_add(1)));
    let limit = arguments.limit.unwrap_or(i64::MAX.unsigned_abs());
    let total = sessions.get(id)?.message_count;
    let messages = sessions.messages(id, from, limit)?;
    let last = messages.last().map(|message| message.sequence);
    let has_more = last.map_or(from.0 < total && limit == 0, |last| last.0 + 1 < total);
    let count = messages.len();
    let report = if context.printer.format().is_human() {
        let report = Report::new("session messages");
        if messages.is_empty() {
            report
        } else {
            report.transcript(messages.into_iter().map(message_entry).collect())
        }
    } else {
        Report::new("session messages").records(MessageListing {
            session_id: id,
            messages: messages.into_iter().map(ListedMessage::from).collect(),
            total,
            next_after: has_more.then_some(last).flatten(),
        })
    };
    let report = report.ok(format!("{count} of {} shown", counted(total, "message")));
    Ok(match last {
        Some(last) if has_more => report.info(format!("Go on with --after {last}")),
        _ => report,
    })
}
