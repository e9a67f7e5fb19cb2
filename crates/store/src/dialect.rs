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

    /// Statement that takes the lock ordering event numbers, held to the end of the transaction.
    ///
    /// SQLite has one writer at a time, so the order of numbers is the order of commits. PostgreSQL
    /// would let a later commit carry an earlier number, and a reader resuming after the later one
    /// would miss it.
    pub(crate) const fn lock_event_numbers(self) -> Option<&'static str> {
        match self {
            Self::Sqlite => None,
            Self::Postgres => {
                Some("SELECT 1 FROM (SELECT pg_advisory_xact_lock(7120732675660001)) AS locked")
            }
        }
    }

    /// Statement that takes the lock ordering changes of resource types, resources and projects,
    /// held to the end of the transaction. SQLite has one writer at a time and needs none.
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
