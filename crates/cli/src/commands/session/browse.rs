//! `session list`, `show` and `messages`.

use cleveragents_application::session_operations::{
    ListMessages, ListSessions, ListedMessage, RecentMessage, SessionDetails, SessionList,
    SessionOrder, ShowSession,
};
use cleveragents_domain::{MessageState, Role, Sequence, Timestamp};

use crate::arguments::{SessionList as SessionListArguments, SessionMessages, SessionSort};
use crate::commands::{cost_cell, counted};
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Entry, Panel, Report, Table};

impl From<SessionSort> for SessionOrder {
    fn from(sort: SessionSort) -> Self {
        match sort {
            SessionSort::Updated => Self::Updated,
            SessionSort::Created => Self::Created,
            SessionSort::Name => Self::Name,
            SessionSort::Messages => Self::Messages,
        }
    }
}

pub(super) fn list(
    context: &Context,
    arguments: SessionListArguments,
) -> Result<Report, CommandError> {
    list_report(
        context,
        ListSessions {
            name: arguments.name,
            actor: arguments.actor,
            namespace: arguments.namespace,
            since: arguments.since,
            sort: arguments.sort.into(),
            reverse: arguments.reverse,
            limit: arguments.limit,
            offset: arguments.offset,
            short_ids: false,
        },
    )
}

/// Lists sessions. Requests short ids only if the output format shows them.
pub(crate) fn list_report(
    context: &Context,
    mut request: ListSessions,
) -> Result<Report, CommandError> {
    let is_human = context.printer.format().is_human();
    request.short_ids = is_human;
    let response = context.call(request)?;
    let count = response.sessions.len();
    let report = Report::new("session list");
    let report = if is_human {
        list_view(report, response)
    } else {
        report.records(response)
    };
    Ok(report.ok(format!("{} listed", counted(count, "session"))))
}

fn list_view(report: Report, response: SessionList) -> Report {
    let SessionList { sessions, summary } = response;
    let mut table = Table::new("Sessions")
        .column("Id", Align::Left)
        .column("Name", Align::Left)
        .column("Actor", Align::Left)
        .column("Messages", Align::Right)
        .column("Updated", Align::Left)
        .empty(if summary.total == 0 {
            "No sessions. Create one with `agents session create`"
        } else {
            "No session matches"
        });
    for session in sessions {
        let id = session.short_id.unwrap_or_else(|| session.id.to_string());
        table = table.row(vec![
            Cell::Id(id),
            session.name.into(),
            session.actor.into(),
            session.messages.into(),
            session.updated.into(),
        ]);
    }
    report.table(table).panel(
        Panel::new("Summary")
            .row("Sessions", summary.total)
            .row("Matching", summary.matching)
            .row("Messages", summary.total_messages)
            .row("Message text", Cell::Bytes(summary.storage)),
    )
}

pub(super) fn show(
    context: &Context,
    reference: String,
    recent: u64,
) -> Result<Report, CommandError> {
    let details = context.call(ShowSession { reference, recent })?;
    Ok(show_report(details))
}

pub(crate) fn show_report(details: SessionDetails) -> Report {
    let session = &details.session_summary;
    let usage = &details.token_usage;
    let (cost, is_cost_known) = usage.cost.known();
    let mut report = Report::new("session show")
        .panel(
            Panel::new("Session")
                .row("Id", Cell::Id(session.id.to_string()))
                .row("Name", session.name.clone())
                .row("Actor", session.actor.clone())
                .row("Messages", session.messages)
                .row("Created", session.created)
                .row("Updated", session.updated)
                .row("Automation", session.automation.clone()),
        )
        .panel(
            Panel::new("Usage")
                .row("Input tokens", usage.input_tokens)
                .row("Output tokens", usage.output_tokens)
                .row("Estimated cost", cost_cell(cost, is_cost_known)),
        );
    if !details.linked_plans.is_empty() {
        let mut table = Table::new("Linked Plans")
            .column("Plan ID", Align::Left)
            .column("Phase", Align::Left)
            .column("State", Align::Left);
        for plan in &details.linked_plans {
            table = table.row(vec![
                Cell::Id(plan.plan_id.to_string()),
                plan.phase.clone().into(),
                plan.state.clone().into(),
            ]);
        }
        report = report.table(table);
    }
    if !details.recent_messages.is_empty() {
        let entries = details.recent_messages.iter().map(recent_entry);
        report = report.transcript(entries.collect());
    }
    report.data(details).ok("Session shown")
}

fn recent_entry(message: &RecentMessage) -> Entry {
    entry(
        message.sequence,
        message.role,
        message.state,
        message.text.clone(),
        message.timestamp,
    )
}

fn listed_entry(message: ListedMessage) -> Entry {
    entry(
        message.sequence,
        message.role,
        message.state,
        message.content,
        message.timestamp,
    )
}

fn entry(
    sequence: Sequence,
    role: Role,
    state: MessageState,
    text: String,
    time: Timestamp,
) -> Entry {
    let suffix = match state {
        MessageState::Complete => "",
        MessageState::Failed => " (failed)",
    };
    Entry::new(format!("{sequence} {role}{suffix}"), text).fact(time)
}

pub(super) fn messages(
    context: &Context,
    arguments: SessionMessages,
) -> Result<Report, CommandError> {
    let response = context.call(ListMessages {
        reference: arguments.session.reference,
        after: arguments.after,
        limit: arguments.limit,
    })?;
    let (count, total) = (response.messages.len(), response.total);
    let next_after = response.next_after;
    let report = Report::new("session messages");
    let report = if !context.printer.format().is_human() {
        report.records(response)
    } else if response.messages.is_empty() {
        report
    } else {
        report.transcript(response.messages.into_iter().map(listed_entry).collect())
    };
    let report = report.ok(format!("{count} of {} shown", counted(total, "message")));
    Ok(match next_after {
        Some(last) => report.info(format!("Continue with --after {last}")),
        None => report,
    })
}
