//! The two supported databases, and the SQL in which they differ, with both variants side by side.

/// The database behind an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Embedded SQLite.
    Sqlite,
    /// PostgreSQL.
    Postgres,
}

impl Dialect {
    /// Display name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }

    /// Statement that acquires the lock under which event numbers are assigned; the transaction holds it until
    /// it ends.
    ///
    /// SQLite has one writer at a time, so numbers are in the order of commits. Without the lock, PostgreSQL
    /// could commit a lower number after a higher one, and a reader that resumes after the higher number
    /// would miss the lower one.
    pub(crate) const fn lock_event_numbers(self) -> Option<&'static str> {
        match self {
            Self::Sqlite => None,
            Self::Postgres => {
                Some("SELECT 1 FROM (SELECT pg_advisory_xact_lock(7120732675660001)) AS locked")
            }
        }
    }

    /// Statement that acquires the lock for changes of resource types, resources and projects; the transaction
    /// holds it until it ends. SQLite has one writer at a time and needs none.
    pub(crate) const fn lock_registry(self) -> Option<&'static str> {
        match self {
            Self::Sqlite => None,
            Self::Postgres => {
                Some("SELECT 1 FROM (SELECT pg_advisory_xact_lock(7120732675660002)) AS locked")
            }
        }
    }

    /// Suffix for a `SELECT` whose row must not change until the transaction ends.
    pub(crate) const fn for_update(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::Postgres => " FOR UPDATE",
        }
    }
}

/// Rewrites `?1` to `$1` for PostgreSQL. Statements contain no other question mark.
pub(crate) fn numbered_for_postgres(sql: &str) -> String {
    sql.replace('?', "$")
}
