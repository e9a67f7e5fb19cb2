//! `db`: checks and maintains the database.

use cleveragents_application::system_operations::{DatabaseStatus, ShowDatabaseStatus};
use cleveragents_application::{CheckSeverity, DiagnosticCheck};
use cleveragents_domain::Code;
use serde_json::json;

use super::counted;
use crate::arguments::Db;
use crate::context::Context;
use crate::output::{Align, Cell, CommandError, Panel, Progress, Report, Table};

pub(crate) fn run(context: &Context, command: &Db) -> Result<Report, CommandError> {
    match command {
        Db::Status => status(context),
        Db::Upgrade => upgrade(context),
        Db::Check => check(context),
        Db::Vacuum => vacuum(context),
    }
}

fn panel(status: &DatabaseStatus) -> Panel {
    Panel::new("Database")
        .row(
            "Engine",
            format!("{} {}", status.engine, status.engine_version),
        )
        .row("URL", status.url.clone())
        .row("Schema version", status.schema_version)
        .row("Newest version", status.newest_version)
        .row("Size", Cell::Bytes(status.size_bytes))
        .row("Log", Cell::Bytes(status.log_bytes))
        .row("Unused", Cell::Bytes(status.free_bytes))
}

fn status(context: &Context) -> Result<Report, CommandError> {
    let status = context.call_inspecting(ShowDatabaseStatus {})?;
    let mut table = Table::new("Migrations")
        .column("Version", Align::Right)
        .column("Name", Align::Left)
        .column("Applied", Align::Left)
        .empty("No migration has run");
    for migration in &status.applied {
        table = table.row(vec![
            migration.version.into(),
            migration.name.clone().into(),
            migration.applied_at.into(),
        ]);
    }
    let report = Report::new("db status")
        .data(&status)
        .panel(panel(&status))
        .table(table);
    Ok(if status.schema_version > status.newest_version {
        report.warn("The database has a newer schema than this program supports")
    } else if status.pending.is_empty() {
        report.ok("The schema is up to date")
    } else {
        report.warn(format!(
            "{} pending: run `agents db upgrade`",
            counted(status.pending.len(), "migration")
        ))
    })
}

fn upgrade(context: &Context) -> Result<Report, CommandError> {
    let before = match context.database_url()?.path() {
        Some(path) if !path.exists() => 0,
        _ => context.inspect()?.status()?.schema_version,
    };
    let after = context.engine()?.status()?;
    let migrations: Vec<_> = after
        .applied
        .iter()
        .filter(|migration| migration.version > before)
        .collect();
    Ok(Report::new("db upgrade")
        .data(json!({"from": before, "to": after.schema_version, "applied": migrations}))
        .panel(
            Panel::new("Upgrade")
                .row("From", before)
                .row("To", after.schema_version)
                .row("Migrations run", migrations.len()),
        )
        .ok("The schema is up to date"))
}

/// Table of check results.
pub(crate) fn findings(title: &'static str, checks: &[DiagnosticCheck]) -> Table {
    let mut table = Table::new(title)
        .column("Check", Align::Left)
        .column("Result", Align::Left)
        .column("Detail", Align::Left);
    for check in checks {
        let result = match check.severity {
            CheckSeverity::Ok => Cell::Good("ok".to_owned()),
            CheckSeverity::Warning => Cell::Warn("warning".to_owned()),
            CheckSeverity::Error => Cell::Bad("error".to_owned()),
        };
        table = table.row(vec![
            check.name.clone().into(),
            result,
            check.detail.clone().into(),
        ]);
    }
    table
}

fn check(context: &Context) -> Result<Report, CommandError> {
    let spinner = Progress::spinner(&context.printer, "Checking the database");
    let checks = context.engine()?.check()?.into_iter();
    let checks: Vec<DiagnosticCheck> = checks.map(DiagnosticCheck::from).collect();
    spinner.finish();
    let errors = checks
        .iter()
        .filter(|check| check.severity == CheckSeverity::Error)
        .count();
    let report = Report::new("db check")
        .data(json!({"checks": checks, "summary": {"checks": checks.len(), "errors": errors}}))
        .table(findings("Checks", &checks));
    Ok(if errors == 0 {
        report.ok("No problem found")
    } else {
        report.failed(
            Code::ChecksFailed,
            format!("{errors} of {} checks found an error", checks.len()),
            "run `agents diagnostics --repair`",
        )
    })
}

fn vacuum(context: &Context) -> Result<Report, CommandError> {
    let engine = context.engine()?;
    let spinner = Progress::spinner(&context.printer, "Reclaiming space");
    let sizes = engine.vacuum()?;
    spinner.finish();
    let freed_bytes = sizes.before_bytes.saturating_sub(sizes.after_bytes);
    Ok(Report::new("db vacuum")
        .data(json!({"before_bytes": sizes.before_bytes, "after_bytes": sizes.after_bytes, "freed_bytes": freed_bytes}))
        .panel(
            Panel::new("Vacuum")
                .row("Before", Cell::Bytes(sizes.before_bytes))
                .row("After", Cell::Bytes(sizes.after_bytes))
                .row("Reclaimed", Cell::Bytes(freed_bytes)),
        )
        .ok("Done"))
}
