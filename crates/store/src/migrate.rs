//! Migrations: embedded, numbered, and run exactly once per database by whichever process comes
//! first.
//!
//! Each migration and its row in `schema_migrations` form one transaction, run under a lock that
//! covers all processes. A database whose version is higher than the newest migration here was
//! created by a newer program and is refused without being changed.

use cleveragents_domain::Timestamp;

use crate::dialect::Dialect;
use crate::engine::ProgressCallback;
use crate::error::Error;
use crate::postgres::PostgresConnection;
use crate::sqlite::translate;

/// Treatment of a database that is not up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Run the pending migrations.
    Upgrade,
    /// Leave it unchanged.
    Inspect,
    /// Open the file for reading only, and leave it unchanged.
    Read,
}

/// One step of the schema.
#[derive(Debug, Clone, Copy)]
pub struct Migration {
    /// Number, from 1 without gaps.
    pub version: u64,
    /// Short description of what the migration adds.
    pub name: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
}

macro_rules! migrations {
    ($($version:literal $name:literal;)+) => {
        &[$(Migration {
            version: $version,
            name: $name,
            sqlite: include_str!(concat!("../migrations/sqlite/", $name, ".sql")),
            postgres: include_str!(concat!("../migrations/postgres/", $name, ".sql")),
        },)+]
    };
}

const MIGRATIONS: &[Migration] = migrations! {
    1 "0001_foundation";
    2 "0002_cheap_checks";
    3 "0003_resources";
    4 "0004_sandboxes";
    5 "0005_turns";
    6 "0006_calls";
    7 "0007_actors";
    8 "0008_plans";
    9 "0009_server";
    10 "0010_run_namespaces";
    11 "0011_context_summaries";
    12 "0012_child_plans";
    13 "0013_pools";
    14 "0014_trackers";
};

impl Migration {
    /// Every migration, oldest first.
    pub const ALL: &'static [Self] = MIGRATIONS;

    /// Number of the newest migration.
    pub const fn newest() -> u64 {
        MIGRATIONS[MIGRATIONS.len() - 1].version
    }

    const fn sql(&self, dialect: Dialect) -> &'static str {
        match dialect {
            Dialect::Sqlite => self.sqlite,
            Dialect::Postgres => self.postgres,
        }
    }
}

/// A migration as recorded in the database.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct AppliedMigration {
    /// Number of the migration.
    pub version: u64,
    pub name: String,
    /// Time at which it ran.
    pub applied_at: Timestamp,
}

const CREATE_TABLE: &str = "CREATE TABLE IF NOT EXISTS schema_migrations (
    version BIGINT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    applied_at BIGINT NOT NULL
)";

fn refuse_newer(found: u64) -> Result<u64, Error> {
    let known = Migration::newest();
    if found > known {
        return Err(Error::Newer { found, known });
    }
    Ok(found)
}

fn pending(version: u64) -> impl ExactSizeIterator<Item = &'static Migration> {
    // Versions have no gaps, so the applied ones are a prefix of the list.
    MIGRATIONS
        .iter()
        .skip(usize::try_from(version).unwrap_or(usize::MAX))
}

fn report(progress: Option<&ProgressCallback>, done: usize, total: usize) {
    if let Some(progress) = progress {
        progress(done as u64, total as u64);
    }
}

/// Schema version of a SQLite database, 0 when it is empty.
fn sqlite_version(connection: &rusqlite::Connection) -> rusqlite::Result<u64> {
    let exists: bool = connection.query_row(
        "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'schema_migrations')",
        [],
        |row| row.get(0),
    )?;
    if !exists {
        return Ok(0);
    }
    connection.query_row(
        "SELECT COALESCE(MAX(version), 0) FROM schema_migrations",
        [],
        |row| {
            row.get::<_, i64>(0)
                .map(|version| u64::try_from(version).unwrap_or(0))
        },
    )
}

/// Whether a SQLite database is up to date; refuses one that is newer than this program.
pub(crate) fn sqlite_is_current(connection: &rusqlite::Connection) -> Result<bool, Error> {
    let database = connection.path().unwrap_or("in memory");
    let version = sqlite_version(connection).map_err(|error| translate(database, error))?;
    Ok(refuse_newer(version)? == Migration::newest())
}

/// Brings a SQLite database up to date. The caller holds the lock file next to the database.
pub(crate) fn sqlite(
    connection: &mut rusqlite::Connection,
    policy: Policy,
    progress: Option<&ProgressCallback>,
) -> Result<(), Error> {
    let database = connection.path().unwrap_or("in memory").to_owned();
    let failure = |error| translate(&database, error);
    let version = refuse_newer(sqlite_version(connection).map_err(failure)?)?;
    if policy != Policy::Upgrade {
        return Ok(());
    }
    let steps = pending(version);
    let total = steps.len();
    for (done, migration) in steps.enumerate() {
        report(progress, done, total);
        apply_sqlite(connection, migration).map_err(|error| match failure(error) {
            Error::Statement(reason) | Error::Constraint(reason) => failed(migration, reason),
            other => other,
        })?;
        tracing::info!(
            version = migration.version,
            name = migration.name,
            "migration applied"
        );
        report(progress, done + 1, total);
    }
    Ok(())
}

fn apply_sqlite(
    connection: &mut rusqlite::Connection,
    migration: &Migration,
) -> rusqlite::Result<()> {
    let transaction =
        connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    transaction.execute_batch(CREATE_TABLE)?;
    transaction.execute_batch(migration.sql(Dialect::Sqlite))?;
    transaction.execute(
        "INSERT INTO schema_migrations (version, name, applied_at) VALUES (?1, ?2, ?3)",
        rusqlite::params![
            i64::try_from(migration.version).unwrap_or(i64::MAX),
            migration.name,
            Timestamp::now().as_micros()
        ],
    )?;
    transaction.commit()
}

fn failed(migration: &Migration, reason: String) -> Error {
    Error::Migration {
        version: migration.version,
        name: migration.name.to_owned(),
        reason,
    }
}

const POSTGRES_LOCK: &str = "SELECT pg_advisory_lock(7120732675660000)";
const POSTGRES_UNLOCK: &str = "SELECT pg_advisory_unlock(7120732675660000)";

fn postgres_version(connection: &mut PostgresConnection) -> Result<u64, Error> {
    let exists = connection.count("SELECT COUNT(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'schema_migrations'")?;
    if exists == 0 {
        return Ok(0);
    }
    connection.count("SELECT COALESCE(MAX(version), 0) FROM schema_migrations")
}

/// Brings a PostgreSQL database up to date, under a lock that all its clients respect.
pub(crate) fn postgres(
    connection: &mut PostgresConnection,
    policy: Policy,
    progress: Option<&ProgressCallback>,
) -> Result<(), Error> {
    let version = refuse_newer(postgres_version(connection)?)?;
    if version == Migration::newest() || policy != Policy::Upgrade {
        return Ok(());
    }
    connection.batch(POSTGRES_LOCK)?;
    let outcome = upgrade_postgres(connection, progress);
    connection.batch(POSTGRES_UNLOCK)?;
    outcome
}

fn upgrade_postgres(
    connection: &mut PostgresConnection,
    progress: Option<&ProgressCallback>,
) -> Result<(), Error> {
    // Another process may have migrated while this one waited for the lock.
    let version = refuse_newer(postgres_version(connection)?)?;
    let steps = pending(version);
    let total = steps.len();
    for (done, migration) in steps.enumerate() {
        report(progress, done, total);
        apply_postgres(connection, migration)?;
        tracing::info!(
            version = migration.version,
            name = migration.name,
            "migration applied"
        );
        report(progress, done + 1, total);
    }
    Ok(())
}

fn apply_postgres(connection: &mut PostgresConnection, migration: &Migration) -> Result<(), Error> {
    let sql = format!(
        "BEGIN; {CREATE_TABLE}; {} ; INSERT INTO schema_migrations (version, name, applied_at) VALUES ({}, '{}', {}); COMMIT",
        migration.sql(Dialect::Postgres),
        migration.version,
        migration.name,
        Timestamp::now().as_micros(),
    );
    if let Err(error) = connection.batch(&sql) {
        connection.batch("ROLLBACK")?;
        return Err(failed(migration, error.to_string()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{MIGRATIONS, Migration, Policy, apply_postgres, apply_sqlite, pending, sqlite};
    use crate::postgres::PostgresEngine;
    use crate::{Error, Options};

    /// Changes the schema, changes rows, and then fails.
    const FAILING: Migration = Migration {
        version: 1_000,
        name: "1000_failing",
        sqlite: FAILING_SQL,
        postgres: FAILING_SQL,
    };
    const FAILING_SQL: &str = "CREATE TABLE half (x BIGINT); \
         ALTER TABLE plans ADD COLUMN half BIGINT; \
         UPDATE plans SET action = 'half'; \
         INSERT INTO nowhere (x) VALUES (1)";
    const ROW: &str = "INSERT INTO plans (plan_id, phase, state, action, created_at, updated_at) \
         VALUES ('one', 'strategize', 'queued', 'whole', 1, 1)";
    const STATE: &str = "SELECT COUNT(*) FROM plans WHERE action = 'whole'";
    const NEWEST: &str = "SELECT MAX(version) FROM schema_migrations";

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a connection without an engine")]
    fn defect_2418_a_failing_migration_leaves_an_sqlite_database_as_it_was() {
        let mut connection = rusqlite::Connection::open_in_memory().expect("opens");
        sqlite(&mut connection, Policy::Upgrade, None).expect("migrated");
        connection.execute_batch(ROW).expect("stored");
        let schema = |connection: &rusqlite::Connection| -> String {
            connection
                .query_row("SELECT group_concat(sql) FROM sqlite_schema", [], |row| {
                    row.get(0)
                })
                .expect("read")
        };
        let before = schema(&connection);
        apply_sqlite(&mut connection, &FAILING).expect_err("it fails");
        assert!(connection.is_autocommit(), "no transaction is left open");
        assert_eq!(schema(&connection), before);
        let number = |sql| {
            connection
                .query_row(sql, [], |row| row.get::<_, u32>(0))
                .expect("read")
        };
        assert_eq!(
            (number(STATE), u64::from(number(NEWEST))),
            (1, Migration::newest())
        );
    }

    #[test]
    fn defect_2418_a_failing_migration_leaves_a_postgres_database_as_it_was() {
        let Some(database) = cleveragents_testkit::TestDatabase::postgres() else {
            return;
        };
        let engine =
            PostgresEngine::open(&database.url, "test", &Options::default(), Policy::Upgrade)
                .expect("migrated");
        let outcome = engine.maintain(|connection| {
            connection.batch(ROW)?;
            let failure = apply_postgres(connection, &FAILING).expect_err("it fails");
            assert!(matches!(&failure, Error::Migration { version: 1_000, reason, .. } if reason.contains("nowhere")), "{failure}");
            Ok((connection.count(STATE)?, connection.count(NEWEST)?))
        });
        assert_eq!(outcome, Ok((1, Migration::newest())));
        assert!(
            database.try_execute_sql("SELECT * FROM half").is_err(),
            "the new table is gone"
        );
        assert!(
            database.try_execute_sql("SELECT half FROM plans").is_err(),
            "the new column is gone"
        );
    }

    /// Messages of two sessions, with a gap in their positions. Half of the messages are indexed.
    const OLD_ROWS: &str = "
        INSERT INTO sessions (session_id, namespace, automation, next_sequence, content_bytes, created_at, updated_at)
            VALUES ('one', 'local', 'supervised', 2, 13, 1, 1), ('two', 'local', 'supervised', 2, 13, 1, 1);
        INSERT INTO messages (position, message_id, session_id, sequence, role, state, content, metadata, created_at) VALUES
            (1, 'a', 'one', 0, 'user', 'complete', 'first apple', '{}', 11),
            (2, 'b', 'two', 0, 'assistant', 'failed', 'second apple', '{\"k\":1}', 12),
            (7, 'c', 'two', 1, 'system', 'complete', 'third apple', '{}', 13),
            (9, 'd', 'one', 1, 'tool', 'complete', 'fourth apple', '{}', 14);
        INSERT INTO message_search (rowid, content) SELECT position, content FROM messages WHERE position <= 2;
        UPDATE search_mark SET indexed_through = 2;";

    fn texts(connection: &rusqlite::Connection, sql: &str) -> Vec<String> {
        let mut statement = connection.prepare(sql).expect("a query");
        let rows = statement.query_map([], |row| row.get(0)).expect("read");
        rows.collect::<rusqlite::Result<_>>().expect("read")
    }

    /// Opcodes of the program that SQLite compiles a statement to.
    fn opcodes(connection: &rusqlite::Connection, sql: &str) -> Vec<String> {
        let mut statement = connection
            .prepare(&format!("EXPLAIN {sql}"))
            .expect("a statement");
        let rows = statement.query_map([], |row| row.get(1)).expect("read");
        rows.collect::<rusqlite::Result<_>>().expect("read")
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a connection without an engine")]
    fn cheap_checks_keep_messages_positions_index_and_constraints() {
        const ALL: &str = "SELECT position || '|' || message_id || '|' || session_id || '|' || sequence || '|' \
             || role || '|' || state || '|' || content || '|' || metadata || '|' || created_at \
             FROM messages ORDER BY position";
        const INDEXED: &str = "SELECT CAST(rowid AS TEXT) FROM message_search \
             WHERE message_search MATCH 'apple' ORDER BY rowid";
        let mut connection = rusqlite::Connection::open_in_memory().expect("opens");
        connection
            .execute_batch("PRAGMA foreign_keys = ON")
            .expect("on");
        apply_sqlite(&mut connection, &MIGRATIONS[0]).expect("the first");
        connection.execute_batch(OLD_ROWS).expect("stored");
        let before = texts(&connection, ALL);
        assert_eq!(before.len(), 4);
        sqlite(&mut connection, Policy::Upgrade, None).expect("migrated");
        assert_eq!(texts(&connection, ALL), before);
        assert_eq!(
            texts(&connection, INDEXED),
            ["1", "2"],
            "the index and its mark stay"
        );
        for statement in [
            "UPDATE messages SET role = 'robot' WHERE position = 1",
            "UPDATE messages SET state = 'half' WHERE position = 1",
            "UPDATE messages SET content = '' WHERE position = 1",
            "UPDATE messages SET sequence = 1 WHERE position = 1",
            "UPDATE messages SET session_id = 'none' WHERE position = 1",
        ] {
            connection.execute_batch(statement).expect_err(statement);
        }
        // SQLite checks the constraint without building a temporary index for each row.
        assert_eq!(
            opcodes(
                &connection,
                "INSERT INTO messages VALUES (1, '', '', 0, '', '', '', '', 0)"
            )
            .iter()
            .filter(|opcode| *opcode == "OpenEphemeral")
            .count(),
            0
        );
        connection
            .execute_batch("DELETE FROM sessions WHERE session_id = 'one'")
            .expect("removed");
        assert_eq!(
            texts(&connection, INDEXED),
            ["2"],
            "its messages are gone, also from the index"
        );
        assert_eq!(texts(&connection, "PRAGMA integrity_check"), ["ok"]);
    }

    #[test]
    fn versions_count_from_one_without_gap() {
        for (index, migration) in MIGRATIONS.iter().enumerate() {
            assert_eq!(migration.version, index as u64 + 1);
        }
    }

    /// Report 5443: the pending list contains exactly the migrations that an upgrade runs.
    #[test]
    fn defect_5443_pending_migrations_are_those_after_the_present_version() {
        for version in 0..=MIGRATIONS.len() as u64 {
            let numbers: Vec<u64> = pending(version)
                .map(|migration| migration.version)
                .collect();
            let expected: Vec<u64> = (version + 1..=MIGRATIONS.len() as u64).collect();
            assert_eq!(numbers, expected);
        }
    }
}
