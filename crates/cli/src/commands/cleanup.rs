//! `cleanup`: removes expired data, unused package caches of projects and idle sandboxes of conversations.

use cleveragents_application::system_operations::{CleanupReport, ShowCleanup};
use cleveragents_domain::Timestamp;
use cleveragents_store::Retention;

use super::counted;
use crate::arguments::Cleanup;
use crate::context::Context;
use crate::output::{Cell, CommandError, Panel, Report};

pub(crate) fn run(context: &Context, command: &Cleanup) -> Result<Report, CommandError> {
    let (name, cleanup) = match command {
        Cleanup::Status => ("cleanup status", context.call(ShowCleanup {})?),
        Cleanup::Run { dry_run: true } => ("cleanup run", context.call(ShowCleanup {})?),
        Cleanup::Run { dry_run: false } => ("cleanup run", remove(context)?),
    };
    let (is_removed, is_empty) = (cleanup.removed, cleanup.is_empty());
    let freed = Cell::Bytes(cleanup.caches.bytes + cleanup.sandboxes.bytes);
    let freed = freed.text();
    let report = Report::new(name)
        .panel(
            Panel::new(if is_removed {
                "Removed"
            } else {
                "Would be removed"
            })
            .row("Events", cleanup.events)
            .row("Unreferenced content", cleanup.blobs)
            .row("Package caches", Cell::Bytes(cleanup.caches.bytes))
            .row(
                "Unchanged sandboxes of conversations",
                cleanup.sandboxes.count,
            )
            .row("Their size", Cell::Bytes(cleanup.sandboxes.bytes))
            .row(
                "Events are kept for",
                counted(cleanup.retention.events_days, "day"),
            )
            .row(
                "Unused package caches are kept for",
                counted(cleanup.retention.caches_days, "day"),
            )
            .row(
                "Unchanged sandboxes are kept for",
                counted(cleanup.retention.sandboxes_hours, "hour"),
            ),
        )
        .panel(
            Panel::new("Kept")
                .row("Package caches", Cell::Bytes(cleanup.kept.caches.bytes))
                .row(
                    "Temporary files and homes of sandboxes",
                    Cell::Bytes(cleanup.kept.sandboxes.private_bytes),
                ),
        )
        .data(cleanup);
    Ok(match (is_removed, is_empty) {
        (_, true) => report.ok("Nothing to remove"),
        (true, false) => report.ok(format!(
            "Removed; freed {freed}, and the events and contents after `agents db vacuum`"
        )),
        (false, false) => report.info(format!("`agents cleanup run` would free {freed}")),
    })
}

/// Removes expired data and reports what was removed.
fn remove(context: &Context) -> Result<CleanupReport, CommandError> {
    let events_days = context.settings.events_days();
    let sandboxes = context.sandboxes()?;
    let idle = sandboxes.remove_idle(Timestamp::now())?;
    let disk = sandboxes.disk_usage()?;
    sandboxes.remove_unused_caches()?;
    let removed = context.engine()?.cleanup(Retention { events_days })?;
    Ok(CleanupReport {
        removed: true,
        ..CleanupReport::new(removed, disk, idle, events_days)
    })
}
