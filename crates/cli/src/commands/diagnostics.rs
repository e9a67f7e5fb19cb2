//! `diagnostics`: finds problems and repairs them without deleting data.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use cleveragents_application::{
    CheckSeverity, DiagnosticCheck, DiagnosticRepair, DiagnosticsReport, LeaseService,
    check_confinement, check_database, check_database_file, check_disk, check_git, check_home,
    check_sqlite,
};
use cleveragents_domain::Code;
use cleveragents_models::KeyState;
use cleveragents_store::salvage;
use serde_json::{Value, json};

use super::counted;
use super::db::findings;
use crate::arguments::Diagnostics;
use crate::config::{Error as ConfigError, Home};
use crate::context::Context;
use crate::output::{Align, CommandError, Panel, Progress, Report, Table, path_text};

pub(crate) fn run(context: &Context, arguments: &Diagnostics) -> Result<Report, CommandError> {
    let spinner = Progress::spinner(&context.printer, "Running checks");
    let mut repairs = Vec::new();
    let mut checks = vec![
        DiagnosticCheck::new(
            "configuration",
            CheckSeverity::Ok,
            configuration_file(context),
        ),
        check_home(context.home.path()),
        check_disk(context.home.path()),
        check_sqlite(),
        check_git(),
        check_confinement(),
        model(context)?,
    ];
    checks.extend(database(context, arguments.repair, &mut repairs)?);
    spinner.finish();
    Ok(report(checks, repairs))
}

/// The configuration file, or a note if it does not exist.
fn configuration_file(context: &Context) -> String {
    let file = context.home.config_file();
    if file.exists() {
        file.display().to_string()
    } else {
        format!("{} does not exist; the defaults are used", file.display())
    }
}

/// The default model, and whether it can be used.
fn model(context: &Context) -> Result<DiagnosticCheck, CommandError> {
    let catalogue = context.models(None)?;
    let Some(configured) = context.settings.model_default() else {
        return Ok(match catalogue.model_of_key() {
            Some((model, variable)) => DiagnosticCheck::new(
                "model",
                CheckSeverity::Ok,
                format!("{model}, from {variable}"),
            ),
            None => DiagnosticCheck::new(
                "model",
                CheckSeverity::Warning,
                "none; set ANTHROPIC_API_KEY or another key of `agents model list`, or `agents config set model.default MODEL`",
            ),
        });
    };
    Ok(match catalogue.entry(configured) {
        Ok(entry) if entry.is_available() => {
            DiagnosticCheck::new("model", CheckSeverity::Ok, configured.to_string())
        }
        Ok(entry) => {
            let detail = match entry.key {
                KeyState::Missing { names } => {
                    format!("{configured} has no key; set {}", names.join(" or "))
                }
                _ => format!("{configured} has no base_url in models.yaml"),
            };
            DiagnosticCheck::new("model", CheckSeverity::Warning, detail)
        }
        Err(error) => DiagnosticCheck::new("model", CheckSeverity::Warning, error.to_string()),
    })
}

/// Report when the configuration itself is invalid.
pub(crate) fn without_configuration(home_folder: &Home, error: ConfigError) -> Report {
    let failure = CommandError::from(error);
    let checks = vec![
        DiagnosticCheck::error("configuration", failure.to_string()),
        check_home(home_folder.path()),
        check_disk(home_folder.path()),
        check_git(),
    ];
    report(checks, Vec::new())
}

fn report(checks: Vec<DiagnosticCheck>, repairs: Vec<DiagnosticRepair>) -> Report {
    let found = DiagnosticsReport::new(checks, repairs);
    let (errors, warnings) = (found.summary.errors, found.summary.warnings);
    let mut report = Report::new("diagnostics").table(findings("Diagnostics", &found.checks));
    if !found.repairs.is_empty() {
        let table = Table::new("Repairs")
            .column("Repair", Align::Left)
            .column("Result", Align::Left);
        report = report.table(
            table.rows(
                found
                    .repairs
                    .iter()
                    .map(|repair| vec![repair.name.clone().into(), repair.detail.clone().into()]),
            ),
        );
    }
    report = report
        .panel(
            Panel::new("Summary")
                .row("Checks", found.summary.checks)
                .row("Errors", errors)
                .row("Warnings", warnings),
        )
        .data(found);
    if errors > 0 {
        report.failed(
            Code::ChecksFailed,
            format!("{} must be resolved", counted(errors, "error")),
            "run `agents diagnostics --repair` to repair what can be repaired automatically",
        )
    } else if warnings > 0 {
        report.warn(counted(warnings, "warning"))
    } else {
        report.ok("No problem found")
    }
}

fn database(
    context: &Context,
    repair: bool,
    repairs: &mut Vec<DiagnosticRepair>,
) -> Result<Vec<DiagnosticCheck>, CommandError> {
    let url = match context.database_url() {
        Ok(url) => url,
        Err(error) => {
            return Ok(vec![DiagnosticCheck::new(
                "database",
                CheckSeverity::Error,
                error.to_string(),
            )]);
        }
    };
    if let Some(path) = url.path()
        && !path.exists()
    {
        return Ok(vec![DiagnosticCheck::new(
            "database",
            CheckSeverity::Ok,
            format!("{} will be created when needed", path.display()),
        )]);
    }
    let outcome = open_and_check(context);
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
                checks = open_and_check(context)?;
                checks.extend(path.map(|path| permissions(path, repair, repairs)));
            }
            Ok(checks)
        }
    }
}

fn is_damage(check: &DiagnosticCheck) -> bool {
    check.name == "integrity" && check.severity == CheckSeverity::Error
}

fn unusable(error: &CommandError) -> DiagnosticCheck {
    let hint = error
        .hint_text()
        .map(|hint| format!("; {hint}"))
        .unwrap_or_default();
    DiagnosticCheck::new(
        "database",
        CheckSeverity::Error,
        format!("[{}] {error}{hint}", error.code().as_str()),
    )
}

/// Opens the database and runs all checks.
fn open_and_check(context: &Context) -> Result<Vec<DiagnosticCheck>, CommandError> {
    Ok(check_database(&context.engine()?)?)
}

fn permissions(path: &Path, repair: bool, repairs: &mut Vec<DiagnosticRepair>) -> DiagnosticCheck {
    const PRIVATE: u32 = 0o600;
    let found = check_database_file(path);
    let mode = path
        .metadata()
        .map_or(PRIVATE, |file| file.permissions().mode() & 0o777);
    let needs_repair = repair && found.severity != CheckSeverity::Ok;
    if needs_repair && std::fs::set_permissions(path, Permissions::from_mode(PRIVATE)).is_ok() {
        repairs.push(DiagnosticRepair {
            name: "privacy".to_owned(),
            detail: format!("the mode of {} was {mode:o} and is now {PRIVATE:o}", path.display()),
            facts: json!({"path": path_text(path), "before": format!("{mode:o}"), "after": format!("{PRIVATE:o}")}),
        });
        return check_database_file(path);
    }
    found
}

/// Releases the leases of dead owners and rebuilds the search index.
fn repair_data(context: &Context, repairs: &mut Vec<DiagnosticRepair>) -> Result<(), CommandError> {
    let engine = context.engine()?;
    let released = LeaseService::new(Arc::clone(&engine)).release_stale()?;
    if !released.is_empty() {
        let subjects: Vec<String> = released
            .iter()
            .map(|lease| lease.subject.to_string())
            .collect();
        repairs.push(DiagnosticRepair {
            name: "leases".to_owned(),
            detail: format!("released {}", subjects.join(", ")),
            facts: json!({"freed": subjects}),
        });
    }
    engine.rebuild_search()?;
    repairs.push(DiagnosticRepair {
        name: "search index".to_owned(),
        detail: "will be rebuilt by the next search".to_owned(),
        facts: Value::Null,
    });
    Ok(())
}

/// Moves a damaged file aside, recovers the readable data, and checks the result.
fn save_damaged(
    context: &Context,
    path: &Path,
    repairs: &mut Vec<DiagnosticRepair>,
) -> Result<Vec<DiagnosticCheck>, CommandError> {
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
        "no data could be read".to_owned()
    } else {
        format!("recovered {}", rows.join(", "))
    };
    repairs.push(DiagnosticRepair {
        name: "damaged database".to_owned(),
        detail: format!("moved to {}; {rows}", saved.set_aside.display()),
        facts: json!(saved),
    });
    let mut checks = open_and_check(context).unwrap_or_else(|error| vec![unusable(&error)]);
    if !saved.incomplete.is_empty() {
        checks.push(DiagnosticCheck::new(
            "recovered data",
            CheckSeverity::Warning,
            format!(
                "not all data could be read: {} truncated, {} replaced by a placeholder; the old file is {}",
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
    use cleveragents_application::{CheckSeverity, DiagnosticCheck};

    use super::report;

    #[test]
    fn errors_fail_the_command_and_warnings_do_not() {
        let failed = report(
            vec![DiagnosticCheck::new("home", CheckSeverity::Error, "x")],
            Vec::new(),
        );
        assert_eq!(failed.exit_code(), 1);
        let warned = report(
            vec![DiagnosticCheck::new("home", CheckSeverity::Warning, "x")],
            Vec::new(),
        );
        assert_eq!(
            (warned.exit_code(), warned.status()),
            (0, crate::output::Status::Warn)
        );
        let fine = report(
            vec![DiagnosticCheck::new("home", CheckSeverity::Ok, "x")],
            Vec::new(),
        );
        assert_eq!(
            (fine.exit_code(), fine.status()),
            (0, crate::output::Status::Ok)
        );
    }
}
