//! Database maintenance: status, integrity checks, cleanup, vacuum, and salvage of readable rows from a damaged file.

use std::path::{Path, PathBuf};

use cleveragents_domain::{EventKind, NewEvent, Timestamp};
use serde::Serialize;
use serde_json::json;

use crate::dialect::Dialect;
use crate::engine::{Backend, Engine, Options};
use crate::error::Error;
use crate::migrate::{AppliedMigration, Migration};
use crate::repository::{blobs, events, search};
use crate::sqlite::{self, Salvage, translate};
use crate::transaction::Reader;
use crate::value::params;

/// Kind, version and size of a database.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// `sqlite` or `postgres`.
    pub engine: &'static str,
    /// Version of the database software.
    pub engine_version: String,
    /// The database, without a password.
    pub url: String,
    /// Schema version of the database.
    pub schema_version: u64,
    /// Newest schema version this program knows.
    pub newest_version: u64,
    pub applied: Vec<AppliedMigration>,
    /// Numbers of the migrations that would still run.
    pub pending: Vec<u64>,
    /// Size of the database in bytes.
    pub size_bytes: u64,
    /// Size of the write-ahead log in bytes.
    pub log_bytes: u64,
    /// Unused bytes inside the database, which [`Engine::vacuum`] can release.
    pub free_bytes: u64,
}

/// Severity of a [`Check`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// No problem.
    Ok,
    /// Worth a look, but not an error.
    Warning,
    /// Damage or a broken rule.
    Error,
}

/// Result of one integrity check.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    pub name: &'static str,
    /// Severity of the result.
    pub severity: Severity,
    /// Description of the result.
    pub detail: String,
}

/// Measured size before and after [`Engine::vacuum`].
#[derive(Debug, Clone, Copy, Serialize)]
pub struct VacuumResult {
    /// Size before, in bytes.
    pub before_bytes: u64,
    /// Size after, in bytes.
    pub after_bytes: u64,
}

/// Retention periods of [`Engine::cleanup`].
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// Days that events are kept.
    pub events_days: u32,
}

impl Retention {
    fn oldest_event(self, now: Timestamp) -> Timestamp {
        now.plus_seconds(-i64::from(self.events_days) * 86_400)
    }
}

/// Number of items that a cleanup removes or would remove.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Cleanup {
    /// Events older than the retention period.
    pub events: u64,
    /// Stored content without references.
    pub blobs: u64,
}

fn missing(what: &'static str) -> Error {
    Error::stored(what, "is missing")
}

impl Engine {
    /// Returns kind, version and size of the database.
    pub fn status(&self) -> Result<Status, Error> {
        let dialect = self.dialect();
        let applied = self.read(|reader| applied_migrations(reader))?;
        let schema_version = applied.last().map_or(0, |migration| migration.version);
        let (engine_version, size_bytes, free_bytes) = match self.backend() {
            Backend::Sqlite(engine) => engine.maintain(|connection| {
                let database = connection.path().unwrap_or("in memory").to_owned();
                let number = |sql: &str| {
                    connection
                        .query_row(sql, [], |row| row.get::<_, i64>(0))
                        .map(|number| u64::try_from(number).unwrap_or(0))
                        .map_err(|error| translate(&database, error))
                };
                let page = number("PRAGMA page_size")?;
                Ok((
                    rusqlite::version().to_owned(),
                    number("PRAGMA page_count")? * page,
                    number("PRAGMA freelist_count")? * page,
                ))
            })?,
            Backend::Postgres(_) => self.read(|reader| {
                let mut row = reader
                    .query_first(
                        "SELECT current_setting('server_version'), pg_database_size(current_database())",
                        &[],
                    )?
                    .ok_or_else(|| missing("the status of the server"))?;
                Ok::<_, Error>((row.take()?, row.take()?, 0))
            })?,
        };
        Ok(Status {
            engine: dialect.as_str(),
            engine_version,
            url: self.url().to_string(),
            schema_version,
            newest_version: Migration::newest(),
            pending: (schema_version + 1..=Migration::newest()).collect(),
            applied,
            size_bytes,
            log_bytes: self.url().path().map_or(0, |path| {
                companion_path(path, "-wal")
                    .metadata()
                    .map_or(0, |file| file.len())
            }),
            free_bytes,
        })
    }

    /// Checks the file for damage and the data for broken rules.
    pub fn check(&self) -> Result<Vec<Check>, Error> {
        let mut checks = Vec::new();
        if let Backend::Sqlite(_) = self.backend() {
            checks
                .push(self.check_pragma("integrity", "PRAGMA integrity_check", |row| row == "ok")?);
            checks.push(self.check_pragma(
                "foreign keys",
                "SELECT \"table\" || ' row ' || COALESCE(rowid, 0) FROM pragma_foreign_key_check",
                |_| false,
            )?);
        }
        for (name, sql) in RULES {
            let violations: Vec<String> = self.read(|reader| {
                reader
                    .query(sql, &[])?
                    .into_iter()
                    .map(|mut row| row.take())
                    .collect::<Result<_, Error>>()
            })?;
            checks.push(finding(name, &violations));
        }
        Ok(checks)
    }

    fn check_pragma(
        &self,
        name: &'static str,
        sql: &str,
        is_ok: impl Fn(&str) -> bool,
    ) -> Result<Check, Error> {
        let rows: Vec<String> = self.read(|reader| {
            reader
                .query(sql, &[])?
                .into_iter()
                .map(|mut row| row.take())
                .collect::<Result<_, Error>>()
        })?;
        let violations: Vec<String> = rows.into_iter().filter(|row| !is_ok(row)).collect();
        Ok(finding(name, &violations))
    }

    /// Returns unused space to the file system and reports the measured sizes.
    pub fn vacuum(&self) -> Result<VacuumResult, Error> {
        let size = || {
            self.status()
                .map(|status| status.size_bytes + status.log_bytes)
        };
        let before_bytes = size()?;
        match self.backend() {
            Backend::Sqlite(engine) => engine.maintain(|connection| {
                let database = connection.path().unwrap_or("in memory").to_owned();
                connection
                    .execute_batch(
                        "PRAGMA wal_checkpoint(TRUNCATE); VACUUM; PRAGMA wal_checkpoint(TRUNCATE);",
                    )
                    .map_err(|error| translate(&database, error))
            })?,
            Backend::Postgres(engine) => {
                engine.maintain(|connection| connection.batch("VACUUM (FULL, ANALYZE)"))?;
            }
        }
        Ok(VacuumResult {
            before_bytes,
            after_bytes: size()?,
        })
    }

    /// Counts the items that a cleanup would remove now.
    pub fn cleanup_preview(&self, retention: Retention) -> Result<Cleanup, Error> {
        let now = Timestamp::now();
        self.read(|reader| {
            Ok(Cleanup {
                events: events::count_before(reader, retention.oldest_event(now))?,
                blobs: blobs::unreferenced(reader, now)?.0,
            })
        })
    }

    /// Removes all items past their retention period in one unit of work, and returns how many of each kind it removed.
    pub fn cleanup(&self, retention: Retention) -> Result<Cleanup, Error> {
        self.write(move |unit| {
            let oldest = retention.oldest_event(unit.now());
            let removed = Cleanup {
                events: events::prune(unit, oldest)?,
                blobs: blobs::collect(unit)?,
            };
            if removed != Cleanup::default() {
                unit.emit(NewEvent {
                    kind: EventKind::CleanupRan,
                    subject: "store".to_owned(),
                    payload: json!(removed),
                });
            }
            Ok(removed)
        })
    }

    /// Drops the search index; the next search rebuilds it from the messages.
    pub fn rebuild_search(&self) -> Result<(), Error> {
        self.write(search::rebuild)
    }
}

/// Rules of the data that no single constraint can enforce, each with a query for its violations.
const RULES: [(&str, &str); 4] = [
    (
        "message numbers",
        "SELECT 'session ' || session.session_id || ' counts ' || session.next_sequence || ' messages and holds ' \
         || COUNT(message.sequence) || ' up to number ' || COALESCE(MAX(message.sequence), -1) \
         FROM sessions session LEFT JOIN messages message ON message.session_id = session.session_id \
         GROUP BY session.session_id, session.next_sequence \
         HAVING COUNT(message.sequence) <> session.next_sequence \
         OR COALESCE(MAX(message.sequence), -1) <> session.next_sequence - 1",
    ),
    (
        "changeset entries",
        "SELECT 'changeset ' || changeset.changeset_id || ' counts ' || changeset.next_entry || ' entries and holds ' \
         || COUNT(entry.number) \
         FROM changesets changeset LEFT JOIN change_entries entry ON entry.changeset_id = changeset.changeset_id \
         GROUP BY changeset.changeset_id, changeset.next_entry \
         HAVING COUNT(entry.number) <> changeset.next_entry \
         OR COALESCE(MAX(entry.number), -1) <> changeset.next_entry - 1",
    ),
    (
        "tool outputs",
        "SELECT 'tool invocation ' || invocation_id || ' refers to content that is not stored' \
         FROM tool_invocations WHERE (output_hash IS NOT NULL \
         AND NOT EXISTS (SELECT 1 FROM blobs WHERE hash = output_hash)) \
         OR (log_hash IS NOT NULL AND NOT EXISTS (SELECT 1 FROM blobs WHERE hash = log_hash))",
    ),
    (
        "validation outputs",
        "SELECT 'result ' || number || ' of plan ' || plan_id || ' refers to content that is not stored' \
         FROM validation_results WHERE output_hash IS NOT NULL \
         AND NOT EXISTS (SELECT 1 FROM blobs WHERE hash = output_hash)",
    ),
];

fn finding(name: &'static str, violations: &[String]) -> Check {
    const SHOWN: usize = 5;
    if violations.is_empty() {
        return Check {
            name,
            severity: Severity::Ok,
            detail: "sound".to_owned(),
        };
    }
    let mut detail = violations
        .iter()
        .take(SHOWN)
        .cloned()
        .collect::<Vec<_>>()
        .join("; ");
    if violations.len() > SHOWN {
        detail = format!("{detail}; and {} more", violations.len() - SHOWN);
    }
    Check {
        name,
        severity: Severity::Error,
        detail,
    }
}

fn applied_migrations(reader: &mut dyn Reader) -> Result<Vec<AppliedMigration>, Error> {
    let exists = match reader.dialect() {
        Dialect::Sqlite => "SELECT name FROM sqlite_schema WHERE type = 'table' AND name = ?1",
        Dialect::Postgres => {
            "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() AND tablename = ?1"
        }
    };
    if reader
        .query_first(exists, params!["schema_migrations"])?
        .is_none()
    {
        return Ok(Vec::new());
    }
    reader
        .query(
            "SELECT version, name, applied_at FROM schema_migrations ORDER BY version",
            &[],
        )?
        .into_iter()
        .map(|mut row| {
            Ok(AppliedMigration {
                version: row.take()?,
                name: row.take()?,
                applied_at: row.take()?,
            })
        })
        .collect()
}

/// Path of a file that accompanies a database file, such as its log.
pub(crate) fn companion_path(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Serializes a path as text: a path may contain bytes that are not UTF-8, and JSON must not.
fn as_text<S: serde::Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// Result of salvaging a damaged database.
#[derive(Debug, Clone, Serialize)]
pub struct SalvageReport {
    /// New path of the damaged file. It is never deleted.
    #[serde(serialize_with = "as_text")]
    pub set_aside: PathBuf,
    /// Number of rows saved into the new database, by table.
    pub saved: Vec<(String, u64)>,
    /// Tables that could not be read to the end.
    pub incomplete: Vec<String>,
    /// Number of unreadable messages; a placeholder takes the sequence number of each.
    pub lost_messages: u64,
}

/// Renames a damaged SQLite file, creates a new database in its place and copies every row that can still be read into
/// it.
pub fn salvage(path: &Path, options: &Options) -> Result<SalvageReport, Error> {
    let Salvage {
        set_aside,
        saved,
        incomplete,
        lost_messages,
    } = sqlite::set_aside_and_salvage(path, options)?;
    Ok(SalvageReport {
        set_aside,
        saved,
        incomplete,
        lost_messages,
    })
}
