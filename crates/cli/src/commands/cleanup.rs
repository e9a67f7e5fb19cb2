//! `cleanup`: removing what the retention no longer keeps.

use cleveragents_store::{Cleanup as Removed, Retention};
use serde_json::json;

use crate::arguments::Cleanup;
use crate::context::Context;
use crate::output::{CommandError, Panel, Report};

pub(crate) fn run(context: &Context, command: &Cleanup) -> Result<Report, CommandError> {
    let retention = Retention {
        events_days: context.settings.events_days(),
    };
    let engine = context.engine()?;
    let (name, removed, did) = match command {
        Cleanup::Status => ("cleanup status", engine.cleanup_preview(retention)?, false),
        Cleanup::Run { dry_run: true } => {
            ("cleanup run", engine.cleanup_preview(retention)?, false)
        }
        Cleanup::Run { dry_run: false } => ("cleanup run", engine.cleanup(retention)?, true),
    };
    let report = Report::new(name)
        .data(json!({
            "removed": did,
            "events": removed.events,
            "blobs": removed.blobs,
            "retention": {"events_days": retention.events_days},
        }))
        .panel(
            Panel::new(if did { "Removed" } else { "Would be removed" })
                .row("Events", removed.events)
                .row("Unreferenced content", removed.blobs)
                .row(
                    "Events are kept for",
                    format!("{} days", retention.events_days),
                ),
        );
    Ok(match (did, removed == Removed::default()) {
        (_, true) => report.ok("Nothing to remove"),
        (true, false) => report.ok("Removed; run `agents db vacuum` to give the space back"),
        (false, false) => report.info("Run `agents cleanup run` to remove it"),
    })
}
