//! The checks of `diagnostics`: home folder, disk, programs, and the database.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use cleveragents_store::{Check, Engine, Severity, sqlite_version};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::lease::LeaseService;
use crate::operation::OperationError;

/// Below this free space, in bytes, writes will soon fail.
const LOW_DISK_BYTES: u64 = 256 * 1024 * 1024;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CheckSeverity {
    Ok,
    Warning,
    /// An error that must be resolved.
    Error,
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiagnosticCheck {
    pub name: String,
    pub severity: CheckSeverity,
    pub detail: String,
}

impl DiagnosticCheck {
    /// A check and its result.
    pub fn new(name: &str, severity: CheckSeverity, detail: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            severity,
            detail: detail.into(),
        }
    }

    fn ok(name: &str, detail: impl Into<String>) -> Self {
        Self::new(name, CheckSeverity::Ok, detail)
    }

    fn warning(name: &str, detail: impl Into<String>) -> Self {
        Self::new(name, CheckSeverity::Warning, detail)
    }

    /// The result of a check that found an error.
    pub fn error(name: &str, detail: impl Into<String>) -> Self {
        Self::new(name, CheckSeverity::Error, detail)
    }
}

impl From<Check> for DiagnosticCheck {
    fn from(check: Check) -> Self {
        let severity = match check.severity {
            Severity::Ok => CheckSeverity::Ok,
            Severity::Warning => CheckSeverity::Warning,
            Severity::Error => CheckSeverity::Error,
        };
        Self::new(check.name, severity, check.detail)
    }
}

/// A problem that was repaired.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DiagnosticRepair {
    pub name: String,
    pub detail: String,
    pub facts: Value,
}

/// The response of `diagnostics/run`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DiagnosticsReport {
    pub checks: Vec<DiagnosticCheck>,
    /// Empty unless a repair was requested, which is possible only on the machine itself.
    pub repairs: Vec<DiagnosticRepair>,
    pub summary: DiagnosticSummary,
    pub has_errors: bool,
    pub has_warnings: bool,
}

/// The number of checks by result.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DiagnosticSummary {
    pub checks: u64,
    pub errors: u64,
    pub warnings: u64,
}

impl DiagnosticsReport {
    pub fn new(checks: Vec<DiagnosticCheck>, repairs: Vec<DiagnosticRepair>) -> Self {
        let count = |severity| {
            let found = checks.iter().filter(|check| check.severity == severity);
            found.count() as u64
        };
        let (errors, warnings) = (count(CheckSeverity::Error), count(CheckSeverity::Warning));
        Self {
            summary: DiagnosticSummary {
                checks: checks.len() as u64,
                errors,
                warnings,
            },
            checks,
            repairs,
            has_errors: errors > 0,
            has_warnings: warnings > 0,
        }
    }
}

/// Checks that the home folder can be written or created.
pub fn check_home(path: &Path) -> DiagnosticCheck {
    let shown = path.display();
    if !path.exists() {
        return check_missing_home(path);
    }
    match tempfile::NamedTempFile::new_in(path) {
        Ok(_) => DiagnosticCheck::ok("home", format!("{shown} can be written")),
        Err(error) => DiagnosticCheck::error("home", format!("{shown} cannot be written: {error}")),
    }
}

/// A missing home folder is an error only if it cannot be created.
fn check_missing_home(path: &Path) -> DiagnosticCheck {
    use rustix::fs::Access;
    let ancestor = existing_ancestor(path);
    let (shown, folder) = (path.display(), ancestor.display());
    let advice = "set CLEVERAGENTS_HOME to a folder you can write to";
    match rustix::fs::access(ancestor, Access::WRITE_OK | Access::EXEC_OK) {
        _ if !ancestor.is_dir() => DiagnosticCheck::error(
            "home",
            format!("{shown} cannot be created: {folder} is not a folder; {advice}"),
        ),
        Err(error) => DiagnosticCheck::error(
            "home",
            format!("{shown} cannot be created in {folder}: {error}; {advice}"),
        ),
        Ok(()) => DiagnosticCheck::ok("home", format!("{shown} will be created when it is needed")),
    }
}

/// The nearest existing ancestor of a path.
fn existing_ancestor(path: &Path) -> &Path {
    let mut ancestors = path.ancestors();
    ancestors.find(|folder| folder.exists()).unwrap_or(path)
}

/// Checks the free space on the disk of a path.
pub fn check_disk(path: &Path) -> DiagnosticCheck {
    let name = "disk space";
    match rustix::fs::statvfs(existing_ancestor(path)) {
        Ok(disk) => {
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            let severity = if free < LOW_DISK_BYTES {
                CheckSeverity::Warning
            } else {
                CheckSeverity::Ok
            };
            let detail = format!("{} MiB free", free / (1024 * 1024));
            DiagnosticCheck::new(name, severity, detail)
        }
        Err(error) => DiagnosticCheck::warning(name, format!("unknown: {error}")),
    }
}

/// The version of the SQLite library.
pub fn check_sqlite() -> DiagnosticCheck {
    DiagnosticCheck::ok("sqlite library", sqlite_version())
}

/// Checks that git can be run.
pub fn check_git() -> DiagnosticCheck {
    match std::process::Command::new("git").arg("--version").output() {
        Ok(output) if output.status.success() => {
            let version = String::from_utf8_lossy(&output.stdout);
            DiagnosticCheck::ok("git", version.trim())
        }
        _ => DiagnosticCheck::warning("git", "the git program was not found"),
    }
}

/// Whether this machine can confine the commands of agents.
pub fn check_confinement() -> DiagnosticCheck {
    let found = cleveragents_process::capabilities();
    if found.can_confine() {
        return DiagnosticCheck::ok(
            "confinement",
            "commands cannot leave their sandbox or use the network",
        );
    }
    let detail = format!(
        "commands cannot be confined completely on this machine: {}",
        found.missing.join("; ")
    );
    DiagnosticCheck::warning("confinement", detail)
}

/// Checks an open database and its leases.
pub fn check_database(engine: &Arc<Engine>) -> Result<Vec<DiagnosticCheck>, OperationError> {
    let status = engine.status()?;
    let detail = format!(
        "{} {}, schema {}, {}",
        status.engine, status.engine_version, status.schema_version, status.url
    );
    let mut checks = vec![DiagnosticCheck::ok("database", detail)];
    checks.extend(engine.check()?.into_iter().map(DiagnosticCheck::from));
    let stale = LeaseService::new(Arc::clone(engine)).stale()?;
    checks.push(if stale.is_empty() {
        DiagnosticCheck::ok("leases", "none is stale")
    } else {
        let subjects = stale.iter().map(|lease| lease.subject.to_string());
        let subjects: Vec<String> = subjects.collect();
        let detail = format!("{} stale: {}", stale.len(), subjects.join(", "));
        DiagnosticCheck::warning("leases", detail)
    });
    Ok(checks)
}

/// Checks that only the owner can read the file of a database.
pub fn check_database_file(path: &Path) -> DiagnosticCheck {
    let mode = path
        .metadata()
        .map_or(0o600, |file| file.permissions().mode() & 0o777);
    let (group_or_others, none) = (0o077, 0);
    if mode & group_or_others == none {
        return DiagnosticCheck::ok("privacy", "only you can read the database");
    }
    let detail = format!("others can read the database: its mode is {mode:o}");
    DiagnosticCheck::warning("privacy", detail)
}
