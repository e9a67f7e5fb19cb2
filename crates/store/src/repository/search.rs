//! Full-text search over messages.
//!
//! SQLite has an FTS5 index that each search updates first, so that appending a message does not update it;
//! PostgreSQL has a GIN index. On PostgreSQL, an excerpt shows the original message, or the message without punctuation
//! if the query matches only that form.

use cleveragents_domain::identity::Namespaces;
use cleveragents_domain::{
    MessageId, Role, SearchQuery, Sequence, SessionId, SessionName, Timestamp,
};

use super::visible;
use crate::dialect::Dialect;
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::params;

/// Number of messages indexed per unit of work, so that writers are not blocked for long.
const INDEX_STEP: u64 = 5_000;

/// Markers for the start and end of a match in an excerpt.
pub const MATCH_MARKS: (&str, &str) = ("\u{2}", "\u{3}");

/// A matching message.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// Session of the message.
    pub session: SessionId,
    pub session_name: Option<SessionName>,
    pub message: MessageId,
    /// Sequence number in the session.
    pub sequence: Sequence,
    /// Role of the author.
    pub role: Role,
    /// Text around the match, with [`MATCH_MARKS`] around each match.
    pub excerpt: String,
    /// Relevance; higher is better.
    pub score: f64,
    /// Time of the message.
    pub created_at: Timestamp,
}

/// Messages to search.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// Only messages of this session.
    pub session: Option<SessionId>,
    /// Only messages with this role.
    pub role: Option<Role>,
    /// Only messages in these namespaces.
    pub visible: Namespaces,
}

/// Position up to which messages are indexed, and position of the newest message. Both are 0 on PostgreSQL, whose index
/// is always up to date.
pub fn lag(reader: &mut dyn Reader) -> Result<(u64, u64), Error> {
    if reader.dialect() == Dialect::Postgres {
        return Ok((0, 0));
    }
    let mut row = reader
        .query_first(
            "SELECT (SELECT indexed_through FROM search_mark), (SELECT COALESCE(MAX(position), 0) FROM messages)",
            &[],
        )?
        .ok_or_else(|| Error::stored("the search index", "has no mark"))?;
    Ok((row.take()?, row.take()?))
}

/// Indexes the next batch of messages. Returns the number of positions that are not indexed yet.
pub fn index_more(unit: &mut UnitOfWork<'_>) -> Result<u64, Error> {
    let (indexed, newest) = lag(unit)?;
    if indexed >= newest {
        return Ok(0);
    }
    let through = newest.min(indexed + INDEX_STEP);
    unit.execute(
        "INSERT INTO message_search (rowid, content) \
         SELECT position, content FROM messages WHERE position > ?1 AND position <= ?2",
        params![indexed, through],
    )?;
    unit.execute(
        "UPDATE search_mark SET indexed_through = ?1",
        params![through],
    )?;
    Ok(newest - through)
}

/// Empties the index, so that the next search rebuilds it. Has no effect on PostgreSQL.
pub fn rebuild(unit: &mut UnitOfWork<'_>) -> Result<(), Error> {
    if unit.dialect() == Dialect::Sqlite {
        unit.execute(
            "INSERT INTO message_search (message_search) VALUES ('delete-all')",
            &[],
        )?;
        unit.execute("UPDATE search_mark SET indexed_through = 0", &[])?;
    }
    Ok(())
}

/// Lowers the index mark to the newest message. SQLite may reuse the positions after it, so they must not count as
/// indexed.
pub(super) fn forget_removed(unit: &mut UnitOfWork<'_>) -> Result<(), Error> {
    if unit.dialect() == Dialect::Sqlite {
        unit.execute(
            "UPDATE search_mark SET indexed_through = \
             MIN(indexed_through, (SELECT COALESCE(MAX(position), 0) FROM messages))",
            &[],
        )?;
    }
    Ok(())
}

/// Matching messages, best first. On SQLite the index must be up to date.
pub fn find(
    reader: &mut dyn Reader,
    query: &SearchQuery,
    scope: &Scope,
    limit: u64,
) -> Result<Vec<Hit>, Error> {
    let dialect = reader.dialect();
    let session = scope
        .session
        .map(|session| session.to_string())
        .unwrap_or_default();
    let role = scope.role.map_or("", Role::as_str);
    reader
        .query(
            statement(dialect),
            params![
                expression(dialect, query),
                session,
                role,
                limit,
                visible(&scope.visible)
            ],
        )?
        .into_iter()
        .map(|mut row| {
            Ok(Hit {
                session: row.take()?,
                session_name: row.take()?,
                message: row.take()?,
                sequence: Sequence(row.take()?),
                role: row.take()?,
                created_at: row.take()?,
                score: row.take()?,
                excerpt: row.take()?,
            })
        })
        .collect()
}

const fn statement(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Sqlite => {
            "SELECT message.session_id, session.name, message.message_id, message.sequence, message.role, \
             message.created_at, -bm25(message_search), \
             snippet(message_search, 0, char(2), char(3), '…', 24) \
             FROM message_search \
             JOIN messages message ON message.position = message_search.rowid \
             JOIN sessions session ON session.session_id = message.session_id \
             WHERE message_search MATCH ?1 AND (?2 = '' OR message.session_id = ?2) \
             AND (?3 = '' OR message.role = ?3) AND session.owner IS NULL \
             AND (?5 = '*' OR (?5 = '-' AND session.namespace <> 'local') \
             OR REPLACE(?5, ',' || session.namespace || ',', '') <> ?5) \
             ORDER BY bm25(message_search), message.position LIMIT ?4"
        }
        Dialect::Postgres => {
            "SELECT message.session_id, session.name, message.message_id, message.sequence, message.role, \
             message.created_at, \
             CAST(ts_rank(to_tsvector('simple', searchable(message.content)), query) AS DOUBLE PRECISION), \
             (SELECT CASE WHEN strpos(excerpt, chr(2)) > 0 THEN excerpt \
             ELSE ts_headline('simple', searchable(message.content), query, marks) END \
             FROM ts_headline('simple', left(message.content, 100000), query, marks) excerpt) \
             FROM to_tsquery('simple', ?1) query, \
             concat('StartSel=', chr(2), ',StopSel=', chr(3), ',MaxWords=24,MinWords=8') marks, \
             messages message \
             JOIN sessions session ON session.session_id = message.session_id \
             WHERE to_tsvector('simple', searchable(message.content)) @@ query \
             AND (?2 = '' OR message.session_id = ?2) AND (?3 = '' OR message.role = ?3) \
             AND session.owner IS NULL \
             AND (?5 = '*' OR (?5 = '-' AND session.namespace <> 'local') \
             OR REPLACE(?5, ',' || session.namespace || ',', '') <> ?5) ORDER BY 7 DESC, message.position LIMIT ?4"
        }
    }
}

/// The query in the database's own syntax. Words contain letters and digits only, so none of them can be an operator.
pub(super) fn expression(dialect: Dialect, query: &SearchQuery) -> String {
    let terms = query.terms().iter().map(|term| match dialect {
        Dialect::Sqlite => {
            let star = if term.prefix { " *" } else { "" };
            format!("\"{}\"{star}", term.words.join(" "))
        }
        Dialect::Postgres => {
            let mut words: Vec<String> =
                term.words.iter().map(|word| format!("'{word}'")).collect();
            if let (true, Some(last)) = (term.prefix, words.last_mut()) {
                last.push_str(":*");
            }
            words.join(" <-> ")
        }
    });
    let joiner = match dialect {
        Dialect::Sqlite => " AND ",
        Dialect::Postgres => " & ",
    };
    terms.collect::<Vec<_>>().join(joiner)
}
