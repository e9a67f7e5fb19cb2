//! The operations that describe the program and its database.

#![expect(
    missing_docs,
    reason = "fields without a comment are clear from their names"
)]

use cleveragents_domain::Timestamp;
use cleveragents_domain::identity::{Permission, Scope};
use cleveragents_sandbox::UNUSED_AFTER;
use cleveragents_store::{Cleanup, Migration, Status, sqlite_version};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    CheckSeverity, DiagnosticCheck, DiagnosticsReport, check_database, check_database_file,
    check_disk, check_git, check_home, check_sqlite,
};
use crate::operation::{
    Operation, OperationContext, OperationEntry, OperationError, Requirement, Resolver,
};
use crate::sandbox::{CacheTotal, DiskUsage, IDLE_SANDBOX_HOURS, IdleSandbox};
use crate::session::EXPORT_SCHEMA;

/// The operations that describe the program.
pub(crate) static ENTRIES: &[OperationEntry] = &[
    OperationEntry::new::<CheckHealth>(),
    OperationEntry::new::<RunDiagnostics>(),
    OperationEntry::new::<ShowDatabaseStatus>(),
    OperationEntry::new::<ShowCleanup>(),
];

/// The requirement for data of the whole server: the role on all namespaces.
const GLOBAL: Requirement = Requirement {
    scope: Scope::Server,
    permission: Permission::Read,
    is_global: true,
};

/// Reports the version of the program.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckHealth {}

/// The response of `health/check`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramVersion {
    pub version: String,
    /// Architecture and operating system.
    pub platform: String,
    /// The version of the SQLite library.
    pub sqlite: String,
    /// The newest database schema that the program supports.
    pub schema_version: u64,
    /// The schema of exported sessions.
    pub export_schema: String,
}

impl ProgramVersion {
    /// The version of this program.
    pub fn current() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            platform: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
            sqlite: sqlite_version().to_owned(),
            schema_version: Migration::newest(),
            export_schema: EXPORT_SCHEMA.to_owned(),
        }
    }
}

impl Operation for CheckHealth {
    const NAME: &'static str = "health/check";
    const SUMMARY: &'static str = "Show the version of the program";
    const REQUIREMENT: Requirement = Requirement::new(Scope::Server, Permission::Read);
    type Response = ProgramVersion;

    fn resolve(&mut self, _resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        Ok(())
    }

    fn run(self, _context: &OperationContext) -> Result<ProgramVersion, OperationError> {
        Ok(ProgramVersion::current())
    }
}

/// Checks configuration, home folder, disk, programs and database. Changes nothing.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunDiagnostics {}

impl Operation for RunDiagnostics {
    const NAME: &'static str = "diagnostics/run";
    const SUMMARY: &'static str = "Check configuration, folders, programs and database";
    const REQUIREMENT: Requirement = GLOBAL;
    type Response = DiagnosticsReport;

    fn resolve(&mut self, _resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        Ok(())
    }

    fn run(self, context: &OperationContext) -> Result<DiagnosticsReport, OperationError> {
        let process = &context.settings().process;
        let configuration = process.configuration_file.display().to_string();
        let engine = context.engine();
        let mut checks = vec![
            DiagnosticCheck::new("configuration", CheckSeverity::Ok, configuration),
            check_home(&process.home),
            check_disk(&process.home),
            check_sqlite(),
            check_git(),
        ];
        checks.extend(check_database(&engine)?);
        checks.extend(engine.url().path().map(check_database_file));
        Ok(DiagnosticsReport::new(checks, Vec::new()))
    }
}

/// Shows the schema version and the size of the database.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowDatabaseStatus {}

/// The response of `db/status`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct DatabaseStatus {
    /// `sqlite` or `postgres`.
    pub engine: String,
    pub engine_version: String,
    /// Without a password.
    pub url: String,
    pub schema_version: u64,
    /// The newest schema version that this program supports.
    pub newest_version: u64,
    pub applied: Vec<AppliedMigrationInfo>,
    /// The numbers of the migrations that would run.
    pub pending: Vec<u64>,
    pub size_bytes: u64,
    /// Bytes of the write-ahead log.
    pub log_bytes: u64,
    /// Unused bytes inside the database that can be reclaimed.
    pub free_bytes: u64,
}

/// A migration that ran.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AppliedMigrationInfo {
    pub version: u64,
    pub name: String,
    pub applied_at: Timestamp,
}

impl From<Status> for DatabaseStatus {
    fn from(status: Status) -> Self {
        let applied = status.applied.into_iter();
        Self {
            engine: status.engine.to_owned(),
            engine_version: status.engine_version,
            url: status.url,
            schema_version: status.schema_version,
            newest_version: status.newest_version,
            applied: applied
                .map(|migration| AppliedMigrationInfo {
                    version: migration.version,
                    name: migration.name,
                    applied_at: migration.applied_at,
                })
                .collect(),
            pending: status.pending,
            size_bytes: status.size_bytes,
            log_bytes: status.log_bytes,
            free_bytes: status.free_bytes,
        }
    }
}

impl Operation for ShowDatabaseStatus {
    const NAME: &'static str = "db/status";
    const SUMMARY: &'static str = "Show schema version and size of the database";
    const REQUIREMENT: Requirement = GLOBAL;
    type Response = DatabaseStatus;

    fn resolve(&mut self, _resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        Ok(())
    }

    fn run(self, context: &OperationContext) -> Result<DatabaseStatus, OperationError> {
        Ok(context.engine().status()?.into())
    }
}

/// Counts what a cleanup would remove. Changes nothing.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShowCleanup {}

/// The response of `cleanup/status`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CleanupReport {
    /// Whether the data was removed, not only counted.
    pub removed: bool,
    /// Events that are older than the retention.
    pub events: u64,
    /// Stored content that nothing refers to.
    pub blobs: u64,
    /// Package caches that no project used for a long time.
    pub caches: CacheUsage,
    /// Unchanged sandboxes of conversations that were not continued for a long time.
    pub sandboxes: IdleSandboxes,
    /// The data that the cleanup keeps.
    pub kept: KeptFiles,
    pub retention: RetentionInfo,
}

/// Package caches of projects on disk.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CacheUsage {
    pub projects: usize,
    pub bytes: u64,
}

/// Sandboxes that a cleanup removes.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct IdleSandboxes {
    pub count: usize,
    /// Size of their files, including the copies of resources.
    pub bytes: u64,
    pub names: Vec<String>,
}

impl From<Vec<IdleSandbox>> for IdleSandboxes {
    fn from(idle: Vec<IdleSandbox>) -> Self {
        Self {
            count: idle.len(),
            bytes: idle.iter().map(|sandbox| sandbox.bytes).sum(),
            names: idle.into_iter().map(|sandbox| sandbox.name).collect(),
        }
    }
}

/// Files that a cleanup keeps.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct KeptFiles {
    pub caches: CacheUsage,
    pub sandboxes: PrivateFolders,
}

/// Private folders of sandboxes: temporary files and homes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PrivateFolders {
    pub private_bytes: u64,
}

/// Retention periods.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct RetentionInfo {
    pub events_days: u32,
    /// Days after the last use.
    pub caches_days: u64,
    /// Hours after the last turn of the conversation.
    pub sandboxes_hours: u32,
}

impl CleanupReport {
    /// A report of the data that would be removed.
    pub fn new(rows: Cleanup, disk: DiskUsage, idle: Vec<IdleSandbox>, events_days: u32) -> Self {
        let usage = |total: CacheTotal| CacheUsage {
            projects: total.projects,
            bytes: total.bytes,
        };
        Self {
            removed: false,
            events: rows.events,
            blobs: rows.blobs,
            caches: usage(disk.unused),
            sandboxes: idle.into(),
            kept: KeptFiles {
                caches: usage(disk.used),
                sandboxes: PrivateFolders {
                    private_bytes: disk.private_bytes,
                },
            },
            retention: RetentionInfo {
                events_days,
                caches_days: UNUSED_AFTER.as_secs() / (24 * 60 * 60),
                sandboxes_hours: IDLE_SANDBOX_HOURS,
            },
        }
    }

    /// Whether there is nothing to remove.
    pub const fn is_empty(&self) -> bool {
        self.events == 0
            && self.blobs == 0
            && self.caches.projects == 0
            && self.caches.bytes == 0
            && self.sandboxes.count == 0
    }
}

impl Operation for ShowCleanup {
    const NAME: &'static str = "cleanup/status";
    const SUMMARY: &'static str = "Show what a cleanup would remove";
    const REQUIREMENT: Requirement = GLOBAL;
    type Response = CleanupReport;

    fn resolve(&mut self, _resolver: &mut Resolver<'_>) -> Result<(), OperationError> {
        Ok(())
    }

    fn run(self, context: &OperationContext) -> Result<CleanupReport, OperationError> {
        let retention = context.settings().process.retention;
        let preview = context.engine().cleanup_preview(retention)?;
        let sandboxes = context.sandboxes();
        let disk = sandboxes.disk_usage()?;
        let idle = sandboxes.idle(Timestamp::now())?;
        let days = retention.events_days;
        Ok(CleanupReport::new(preview, disk, idle, days))
    }
}
