//! `audit`: shows and verifies the audit log.

use cleveragents_application::AuditService;
use cleveragents_domain::{AuditEntry, Timestamp};
use cleveragents_store::audit::AuditFilter;
use serde_json::{Value, json};

use crate::arguments::{Audit, AuditList};
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Report, Table};

pub(super) fn run(context: &Context, command: Audit) -> Result<Report, CommandError> {
    let audit = AuditService::new(context.engine()?);
    match command {
        Audit::List(arguments) => list(&audit, arguments),
        Audit::Verify { expect_head } => {
            let check = audit.verify(expect_head.as_deref())?;
            Ok(Report::new("audit verify")
                .data(json!({"is_whole": true, "entries": check.count, "head": check.head}))
                .panel(
                    Panel::new("Audit")
                        .row("Entries", check.count)
                        .row("Hash of the last entry", Cell::Id(check.head.clone())),
                )
                .ok("No entry was changed"))
        }
    }
}

fn entry_json(entry: &AuditEntry) -> Value {
    let details = serde_json::from_str(&entry.details).unwrap_or_else(|_| json!(entry.details));
    json!({
        "number": entry.number,
        "id": entry.entry_id,
        "kind": entry.kind,
        "identity": entry.identity,
        "namespace": entry.namespace,
        "subject": entry.subject,
        "details": details,
        "occurred": entry.occurred_at,
        "hash": entry.hash,
    })
}

fn list(audit: &AuditService, arguments: AuditList) -> Result<Report, CommandError> {
    let since = arguments.since.as_deref().map(str::parse::<Timestamp>);
    let since = since.transpose().map_err(|error| {
        CommandError::usage(error.to_string()).with_hint("write the time like 2026-01-31T12:00:00Z")
    })?;
    let entries = audit.list(&AuditFilter {
        kind: arguments.kind,
        identity: arguments.identity,
        subject: arguments.subject,
        since,
        before: None,
        limit: arguments.limit,
    })?;
    let table = Table::new("Audit")
        .column("Number", Align::Right)
        .column("Time", Align::Left)
        .column("Identity", Align::Left)
        .column("Kind", Align::Left)
        .column("Namespace", Align::Left)
        .column("Subject", Align::Left)
        .empty("No entry matches")
        .rows(entries.iter().map(|entry| {
            vec![
                entry.number.into(),
                entry.occurred_at.into(),
                entry.identity.as_str().into(),
                entry.kind.as_str().into(),
                entry.namespace.clone().into(),
                entry.subject.clone().into(),
            ]
        }));
    let count = entries.len();
    let entries: Vec<Value> = entries.iter().map(entry_json).collect();
    Ok(Report::new("audit list")
        .data(json!({"entries": entries, "summary": {"total": count}}))
        .table(table)
        .ok(format!(
            "{} listed",
            if count == 1 {
                "1 entry".to_owned()
            } else {
                format!("{count} entries")
            }
        )))
}
