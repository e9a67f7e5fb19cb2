//! `diagnostics`: what is wrong, and putting it right without deleting anything.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cleveragents_application::LeaseService;
use cleveragents_domain::Code;
use cleveragents_store::{Check, Engine, Severity, salvage, sqlite_version};
use serde_json::{Value, json};

use super::counted;
use super::db::findings;
use crate::arguments::Diagnostics;
use crate::config::{Error as ConfigError, Home};
use crate::context::Context;
use crate::output::{Align, CommandError, Panel, Progress, Report, Table, path_text};

/// Less than this and writing will soon fail.
const LOW_DISK_BYTES: u64 = 256 * 1024 * 1024;

fn check(name: &'static str, severity: Severity, detail: impl Into<String>) -> Check {
    Check {
        name,
        severity,
        detail: detail.into(),
    }
}

/// What was put right.
struct Repair {
    name: &'static str,
    detail: String,
    facts: Value,
}

pub(crate) fn run(context: &Context, arguments: &Diagnostics) -> Result<Report, CommandError> {
    let spinner = Progress::spinner(&context.printer, "Looking");
    let mut repairs = Vec::new();
    let mut checks = vec![
        check(
            "configuration",
            Severity::Ok,
            context.home.config_file().display().to_string(),
        ),
        home(&context.home),
        disk(context.home.path()),
        check("sqlite library", Severity::Ok, sqlite_version()),
        git(),
    ];
    checks.extend(database(context, arguments.repair, &mut repairs)?);
    spinner.finish();
    Ok(report(&checks, &repairs))
}

/// Everything that can be said when the configuration itself is wrong.
pub(crate) fn without_configuration(home_folder: &Home, error: ConfigError) -> Report {
    let failure = CommandError::from(error);
    let checks = [
        check("configuration", Severity::Error, failure.to_string()),
        home(home_folder),
        disk(home_folder.path()),
        git(),
    ];
    report(&checks, &[])
}

fn report(checks: &[Check], repairs: &[Repair]) -> Report {
    let count = |severity| {
        checks
            .iter()
            .filter(|check| check.severity == severity)
            .count()
    };
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let repaired: Vec<Value> = repairs
        .iter()
        .map(|repair| json!({"name": repair.name, "detail": repair.detail, "facts": repair.facts}))
        .collect();
    let mut report = Report::new("diagnostics")
        .data(json!({
            "checks": checks,
            "repairs": repaired,
            "summary": {"checks": checks.len(), "errors": errors, "warnings": warnings},
            "has_errors": errors > 0,
            "has_warnings": warnings > 0,
        }))
        .table(findings("Diagnostics", checks));
    if !repairs.is_empty() {
        let mut table = Table::new("Repairs")
            .column("What", Align::Left)
            .column("Done", Align::Left);
        for repair in repairs {
            table = table.row(vec![repair.name.into(), repair.detail.clone().into()]);
        }
        report = report.table(table);
    }
    report = report.panel(
        Panel::new("Summary")
            .row("Checks", checks.len())
            .row("Errors", errors)
            .row("Warnings", warnings),
    );
    if errors > 0 {
        report.failed(
            Code::ChecksFailed,
            format!("{} must be resolved", counted(errors, "error")),
            "each finding says what is wrong; what can be mended by itself is by `agents diagnostics --repair`",
        )
    } else if warnings > 0 {
        report.warn(counted(warnings, "warning"))
    } else {
        report.ok("Everything is sound")
    }
}

fn home(home: &Home) -> Check {
    let path = home.path();
    if !path.exists() {
        return missing_home(path);
    }
    match tempfile::NamedTempFile::new_in(path) {
        Ok(_) => check(
            "home",
            Severity::Ok,
            format!("{} can be written", path.display()),
        ),
        Err(error) => check(
            "home",
            Severity::Error,
            format!("{} cannot be written: {error}", path.display()),
        ),
    }
}

/// A home that is not there is no fault, unless it cannot be made.
fn missing_home(path: &Path) -> Check {
    use rustix::fs::Access;
    let above = existing(path);
    match rustix::fs::access(above, Access::WRITE_OK | Access::EXEC_OK) {
        _ if !above.is_dir() => check(
            "home",
            Severity::Error,
            format!(
                "{} cannot be made: {} is not a folder; set CLEVERAGENTS_HOME to a folder you can write to",
                path.display(),
                above.display()
            ),
        ),
        Err(error) => check(
            "home",
            Severity::Error,
            format!(
                "{} cannot be made in {}: {error}; set CLEVERAGENTS_HOME to a folder you can write to",
                path.display(),
                above.display()
            ),
        ),
        Ok(()) => check(
            "home",
            Severity::Ok,
            format!("{} will be made when it is needed", path.display()),
        ),
    }
}

/// The nearest thing on a path that is there.
fn existing(path: &Path) -> &Path {
    path.ancestors()
        .find(|folder| folder.exists())
        .unwrap_or(path)
}

fn disk(path: &Path) -> Check {
    let existing = existing(path);
    match rustix::fs::statvfs(existing) {
        Ok(disk) => {
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            let severity = if free < LOW_DISK_BYTES {
                Severity::Warning
            } else {
                Severity::Ok
            };
            check(
                "disk space",
                severity,
                format!("{} MiB free", free / (1024 * 1024)),
            )
        }
        Err(error) => check(
            "disk space",
            Severity::Warning,
            format!("not known: {error}"),
        ),
    }
}

fn git() -> Check {
    match std::process::Command::new("git").arg("--version").output() {
        Ok(output) if output.status.success() => check(
            "git",
            Severity::Ok,
            String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        ),
        _ => check("git", Severity::Warning, "the git program was not found"),
    }
}

fn database(
    context: &Context,
    repair: bool,
    repairs: &mut Vec<Repair>,
) -> Result<Vec<Check>, CommandError> {
    let url = match context.database_url() {
        Ok(url) => url,
        Err(error) => return Ok(vec![check("database", Severity::Error, error.to_string())]),
    };
    if let Some(path) = url.path()
        && !path.exists()
    {
        return Ok(vec![check(
            "database",
            Severity::Ok,
            format!("{} will be made when it is needed", path.display()),
        )]);
    }
    let outcome = look(context);
    match (outcome, url.path()) {
        (Err(error), Some(path)) if repair && error.code() == Code::DatabaseDamaged => {
            save_damaged(context, path, repairs)
        }
        (Err(error), _) => Ok(vec![unusable(&error)]),
        (Ok(checks), Some(path)) if repair && checks.iter().any(is_damage) => {
            save_damaged(context, path, repairs)
        }
        (Ok(mut checks), path) => {
            checks.extend(path.map(|path| permissions(path, repair, repairs)));
            if repair {
                repair_data(context, repairs)?;
                checks = look(context)?;
                checks.extend(path.map(|path| permissions(path, repair, repairs)));
            }
            Ok(checks)
        }
    }
}

fn is_damage(check: &Check) -> bool {
    check.name == "integrity" && check.severity == Severity::Error
}

fn unusable(error: &CommandError) -> Check {
    let hint = error
        .hint()
        .map(|hint| format!("; {hint}"))
        .unwrap_or_default();
    check(
        "database",
        Severity::Error,
        format!("[{}] {error}{hint}", error.code().as_str()),
    )
}

/// Opens the database and checks everything in it.
fn look(context: &Context) -> Result<Vec<Check>, CommandError> {
    let engine = context.engine()?;
    let status = engine.status()?;
    let mut checks = vec![check(
        "database",
        Severity::Ok,
        format!(
            "{} {}, schema {}, {}",
            status.engine, status.engine_version, status.schema_version, status.url
        ),
    )];
    checks.extend(engine.check()?);
    checks.push(leases(&engine)?);
    Ok(checks)
}

fn leases(engine: &std::sync::Arc<Engine>) -> Result<Check, CommandError> {
    let stale = LeaseService::new(std::sync::Arc::clone(engine)).stale()?;
    Ok(if stale.is_empty() {
        check("leases", Severity::Ok, "none is stale")
    } else {
        let subjects: Vec<String> = stale
            .iter()
            .map(|lease| lease.subject.to_string())
            .collect();
        check(
            "leases",
            Severity::Warning,
            format!("{} stale: {}", stale.len(), subjects.join(", ")),
        )
    })
}

fn permissions(path: &Path, repair: bool, repairs: &mut Vec<Repair>) -> Check {
    const PRIVATE: u32 = 0o600;
    let mode = path
        .metadata()
        .map_or(PRIVATE, |file| file.permissions().mode() & 0o777);
    let for_others = mode & 0o077;
    if for_others == 0 {
        return check("privacy", Severity::Ok, "only you can read the database");
    }
    if repair && std::fs::set_permissions(path, std::fs::Permissions::from_mode(PRIVATE)).is_ok() {
        repairs.push(Repair {
            name: "privacy",
            detail: format!("the mode of {} was {mode:o} and is now {PRIVATE:o}", path.display()),
            facts: json!({"path": path_text(path), "before": format!("{mode:o}"), "after": format!("{PRIVATE:o}")}),
        });
        return check("privacy", Severity::Ok, "only you can read the database");
    }
    check(
        "privacy",
        Severity::Warning,
        format!("others can read the database: its mode is {mode:o}"),
    )
}

/// Frees the leases of dead owners and rebuilds the search index.
fn repair_data(context: &Context, repairs: &mut Vec<Repair>) -> Result<(), CommandError> {
    let engine = context.engine()?;
    let released = LeaseService::new(std::sync::Arc::clone(&engine)).release_stale()?;
    if !released.is_empty() {
        let subjects: Vec<String> = released
            .iter()
            .map(|lease| lease.subject.to_string())
            .collect();
        repairs.push(Repair {
            name: "leases",
            detail: format!("freed {}", subjects.join(", ")),
            facts: json!({"freed": subjects}),
        });
    }
    engine.rebuild_search()?;
    repairs.push(Repair {
        name: "search index",
        detail: "will be rebuilt by the next search".to_owned(),
        facts: Value::Null,
    });
    Ok(())
}

/// Sets a damaged file aside, saves what can be read, and looks at the result.
fn save_damaged(
    context: &Context,
    path: &Path,
    repairs: &mut Vec<Repair>,
) -> Result<Vec<Check>, CommandError> {
    let saved = salvage(
        path,
        &Context::store_options(&context.settings, context.printer),
    )?;
    let rows: Vec<String> = saved
        .saved
        .iter()
        .filter(|(_, rows)| *rows > 0)
        .map(|(table, rows)| format!("{rows} {table}"))
        .collect();
    let rows = if rows.is_empty() {
        "nothing could be read".to_owned()
    } else {
        format!("saved {}", rows.join(", "))
    };
    repairs.push(Repair {
        name: "damaged database",
        detail: format!("set aside as {}; {rows}", saved.set_aside.display()),
        facts: json!(saved),
    });
    let mut checks = look(context).unwrap_or_else(|error| vec![unusable(&error)]);
    if !saved.incomplete.is_empty() {
        checks.push(check(
            "saved data",
            Severity::Warning,
            format!(
                "not everything could be read: {} cut short, {} replaced by a mark; the old file is {}",
                saved.incomplete.join(", "),
                counted(saved.lost_messages, "lost message"),
                saved.set_aside.display()
            ),
        ));
    }
    Ok(checks)
}

#[cfg(test)]
mod tests {
    use super::{Severity, check, report};

    #[test]
    fn errors_fail_the_command_and_warnings_do_not() {
        let failed = report(&[check("home", Severity::Error, "x")], &[]);
        assert_eq!(failed.exit_code(), 1);
        let warned = report(&[check("home", Severity::Warning, "x")], &[]);
        assert_eq!(
            (warned.exit_code(), warned.status()),
            (0, crate::output::Status::Warn)
        );
        let fine = report(&[check("home", Severity::Ok, "x")], &[]);
        assert_eq!(
            (fine.exit_code(), fine.status()),
            (0, crate::output::Status::Ok)
        );
    }
}
