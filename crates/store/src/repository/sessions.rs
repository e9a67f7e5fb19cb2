//! Sessions. The row of a session holds the next message number.

use cleveragents_domain::identity::Namespaces;
use cleveragents_domain::{
    ActorName, EventKind, LinkedPlan, MicroUsd, NewEvent, Sequence, Session, SessionId,
    SessionName, Timestamp, TokenUsage, Tokens, Version, shortest_prefix,
};
use serde_json::json;

use super::{like_text, visible};
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Param, Row, params};

/// Columns of a session in the order in which [`read`] takes them.
macro_rules! columns {
    () => {
        "session_id, name, actor, namespace, automation, next_sequence, content_bytes, \
         input_tokens, output_tokens, cost_micro_usd, forked_from, forked_at, version, \
         created_at, updated_at"
    };
}

fn read(mut row: Row) -> Result<Session, Error> {
    Ok(Session {
        id: row.take()?,
        name: row.take()?,
        actor: row.take()?,
        namespace: row.take()?,
        automation: row.take()?,
        message_count: row.take()?,
        content_bytes: row.take()?,
        usage: TokenUsage {
            input_tokens: Tokens(row.take()?),
            output_tokens: Tokens(row.take()?),
            cost_micro_usd: MicroUsd(row.take()?),
        },
        forked_from: {
            let session: Option<SessionId> = row.take()?;
            let at: Option<u64> = row.take()?;
            session.zip(at.map(Sequence))
        },
        version: Version(row.take()?),
        created_at: row.take()?,
        updated_at: row.take()?,
    })
}

/// Initial data of a session.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// Name chosen by the user.
    pub name: Option<SessionName>,
    /// Actor that answers in it.
    pub actor: Option<ActorName>,
    pub namespace: String,
    /// Automation profile for its plans.
    pub automation: String,
    /// Earlier model usage, for an imported session.
    pub usage: TokenUsage,
    /// Session and message it is forked from.
    pub forked_from: Option<(SessionId, Sequence)>,
    /// Original creation time, for an imported session.
    pub created_at: Option<Timestamp>,
    /// Owner, such as `run 01J…`; `None` for a conversation of a user. Only a lookup by id returns owned sessions.
    pub owner: Option<String>,
}

/// Stores a new, empty session. `kind` is the event that records how it was created.
pub fn insert(
    unit: &mut UnitOfWork<'_>,
    id: SessionId,
    new: &NewSession,
    kind: EventKind,
) -> Result<(), Error> {
    let now = unit.now();
    let actor = new.actor.as_ref().map(ToString::to_string);
    unit.execute(
        "INSERT INTO sessions (session_id, name, actor, namespace, automation, input_tokens, \
         output_tokens, cost_micro_usd, forked_from, forked_at, created_at, updated_at, owner) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
        params![
            id,
            new.name.as_ref().map(SessionName::as_str),
            actor,
            &new.namespace,
            &new.automation,
            new.usage.input_tokens.0,
            new.usage.output_tokens.0,
            new.usage.cost_micro_usd.0,
            new.forked_from.map(|(session, _)| session),
            new.forked_from.map(|(_, sequence)| sequence.0),
            new.created_at.unwrap_or(now),
            now,
            new.owner.as_deref(),
        ],
    )?;
    unit.emit(NewEvent {
        kind,
        subject: id.to_string(),
        payload: json!({
            "name": new.name.as_ref().map(SessionName::as_str),
            "namespace": &new.namespace,
            "forked_from": new.forked_from.map(|(session, _)| session),
        }),
    });
    Ok(())
}

/// Returns the session with this id.
pub fn get(reader: &mut dyn Reader, id: SessionId) -> Result<Option<Session>, Error> {
    reader
        .query_first(
            concat!(
                "SELECT ",
                columns!(),
                " FROM sessions WHERE session_id = ?1"
            ),
            params![id],
        )?
        .map(read)
        .transpose()
}

/// Sessions whose id starts with `prefix`, oldest first, at most `limit`.
pub fn with_prefix(
    reader: &mut dyn Reader,
    prefix: &str,
    limit: u64,
) -> Result<Vec<Session>, Error> {
    let last = format!("{prefix:Z<26}");
    reader
        .query(
            concat!(
                "SELECT ", columns!(),
                " FROM sessions WHERE session_id >= ?1 AND session_id <= ?2 ORDER BY session_id LIMIT ?3"
            ),
            params![prefix, last, limit],
        )?
        .into_iter()
        .map(read)
        .collect()
}

/// Sessions with exactly this name, oldest first, at most `limit`.
pub fn with_name(reader: &mut dyn Reader, name: &str, limit: u64) -> Result<Vec<Session>, Error> {
    reader
        .query(
            concat!(
                "SELECT ",
                columns!(),
                " FROM sessions WHERE name = ?1 AND owner IS NULL ORDER BY session_id LIMIT ?2"
            ),
            params![name, limit],
        )?
        .into_iter()
        .map(read)
        .collect()
}

/// Number of ids from which one query for all ids is cheaper than one query for the neighbours of each id.
const MANY_IDS: usize = 64;

/// Shortest unique prefix of each id, at least eight characters.
pub fn shown_ids(reader: &mut dyn Reader, ids: &[SessionId]) -> Result<Vec<String>, Error> {
    if ids.len() < MANY_IDS {
        return ids.iter().map(|id| shown_id(reader, *id)).collect();
    }
    let mut all: Vec<String> = Vec::new();
    reader.query_each(
        "SELECT session_id FROM sessions ORDER BY session_id",
        &[],
        &mut |mut row| {
            all.push(row.take()?);
            Ok(())
        },
    )?;
    Ok(ids
        .iter()
        .map(|id| {
            let id = id.to_string();
            let rank = all.partition_point(|other| *other < id);
            let before = rank.checked_sub(1).and_then(|rank| all.get(rank));
            let after = all
                .get(rank..)
                .and_then(|rest| rest.iter().find(|other| **other != id));
            shortest_prefix(&id, before.map(String::as_str), after.map(String::as_str)).to_owned()
        })
        .collect())
}

fn shown_id(reader: &mut dyn Reader, id: SessionId) -> Result<String, Error> {
    let id = id.to_string();
    let mut row = reader
        .query_first(
            "SELECT (SELECT MAX(session_id) FROM sessions WHERE session_id < ?1), \
             (SELECT MIN(session_id) FROM sessions WHERE session_id > ?1)",
            params![&id],
        )?
        .ok_or_else(|| Error::stored("the neighbours of a session", "are missing"))?;
    let (before, after): (Option<String>, Option<String>) = (row.take()?, row.take()?);
    Ok(shortest_prefix(&id, before.as_deref(), after.as_deref()).to_owned())
}

/// Sort key of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SortKey {
    /// Most recent change first.
    #[default]
    Updated,
    /// Newest first.
    Created,
    /// By name, unnamed sessions last.
    Name,
    /// Most messages first.
    Messages,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// Default direction of the key.
    #[default]
    Natural,
    /// Opposite direction.
    Reversed,
}

/// Filter for listing sessions.
#[derive(Debug, Clone, Default)]
pub struct SessionFilter {
    /// Only sessions with this actor.
    pub actor: Option<ActorName>,
    /// Only sessions in this namespace.
    pub namespace: Option<String>,
    /// Only sessions in visible namespaces.
    pub visible: Namespaces,
    /// Only sessions whose name contains this text, ignoring case.
    pub name_contains: Option<String>,
    /// Only sessions changed at or after this time.
    pub updated_since: Option<Timestamp>,
    pub sort: SortKey,
    /// Sort direction.
    pub direction: Direction,
    /// Number of sessions to skip.
    pub offset: u64,
    /// Maximum number of sessions.
    pub limit: Option<u64>,
}

/// Summary of a session for lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedSession {
    pub id: SessionId,
    /// Name chosen by the user.
    pub name: Option<SessionName>,
    /// Actor that answers in it.
    pub actor: Option<ActorName>,
    /// Number of messages.
    pub message_count: u64,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

/// A page of sessions and the total number of matches.
#[derive(Debug, Clone)]
pub struct SessionPage {
    /// Sessions on this page.
    pub sessions: Vec<ListedSession>,
    /// Number of matches on all pages.
    pub matching: u64,
}

/// The filter as SQL. An empty or NULL parameter matches everything, so the text is constant.
const MATCHES: &str = " FROM sessions WHERE owner IS NULL AND (?1 = '' OR actor = ?1) AND (?2 = '' OR namespace = ?2) \
     AND (?3 = '' OR LOWER(name) LIKE LOWER(?3) ESCAPE '!') AND updated_at >= ?4 \
     AND (?5 = '*' OR (?5 = '-' AND namespace <> 'local') OR REPLACE(?5, ',' || namespace || ',', '') <> ?5)";

fn filter_params(filter: &SessionFilter) -> Result<[Param<'static>; 5], Error> {
    let actor = filter
        .actor
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default();
    // The database lowercases both sides by the same rules.
    let pattern = filter.name_contains.as_deref().map(like_text).transpose()?;
    let pattern = pattern.map(|escaped| format!("%{escaped}%"));
    Ok([
        Param::from(actor),
        Param::from(filter.namespace.clone().unwrap_or_default()),
        Param::from(pattern.unwrap_or_default()),
        Param::from(filter.updated_since.map_or(i64::MIN, Timestamp::as_micros)),
        Param::from(visible(&filter.visible)),
    ])
}

/// Lists sessions; the database filters, sorts and pages them.
pub fn list(reader: &mut dyn Reader, filter: &SessionFilter) -> Result<SessionPage, Error> {
    use Direction::{Natural, Reversed};
    let order = match (filter.sort, filter.direction) {
        (SortKey::Updated, Natural) => " ORDER BY updated_at DESC, session_id DESC",
        (SortKey::Updated, Reversed) => " ORDER BY updated_at, session_id",
        (SortKey::Created, Natural) => " ORDER BY created_at DESC, session_id DESC",
        (SortKey::Created, Reversed) => " ORDER BY created_at, session_id",
        (SortKey::Name, Natural) => " ORDER BY name IS NULL, LOWER(name), session_id",
        (SortKey::Name, Reversed) => {
            " ORDER BY name IS NOT NULL, LOWER(name) DESC, session_id DESC"
        }
        (SortKey::Messages, Natural) => " ORDER BY next_sequence DESC, session_id DESC",
        (SortKey::Messages, Reversed) => " ORDER BY next_sequence, session_id",
    };
    if filter.limit.is_none() && filter.offset == 0 && filter.sort != SortKey::Name {
        return list_all(reader, filter);
    }
    let mut bound = filter_params(filter)?.to_vec();
    bound.extend([
        Param::from(filter.limit.unwrap_or(i64::MAX as u64)),
        Param::from(filter.offset),
    ]);
    let page = format!("{MATCHES}{order} LIMIT ?6 OFFSET ?7");
    let sessions = select(reader, &page, &bound)?;
    let matching = reader
        .query_first(
            &format!("SELECT COUNT(*){MATCHES}"),
            &filter_params(filter)?,
        )?
        .ok_or_else(|| Error::stored("a count", "is missing"))?
        .take()?;
    Ok(SessionPage { sessions, matching })
}

/// Matching sessions, newest first, older than `before`; sort, offset and limit of the filter are ignored. Sessions
/// created or changed meanwhile do not shift the following pages.
pub fn page(
    reader: &mut dyn Reader,
    filter: &SessionFilter,
    before: Option<SessionId>,
    limit: u64,
) -> Result<Vec<Session>, Error> {
    let mut bound = filter_params(filter)?.to_vec();
    bound.extend([
        Param::from(before.map(|id| id.to_string()).unwrap_or_default()),
        Param::from(limit),
    ]);
    let columns = columns!();
    let sql = format!(
        "SELECT {columns}{MATCHES} AND (?6 = '' OR session_id < ?6) ORDER BY session_id DESC LIMIT ?7"
    );
    reader.query(&sql, &bound)?.into_iter().map(read).collect()
}

/// All matching sessions, sorted by a number in this function, which takes a third less time than sorting in SQLite.
/// Sorting by name is left to the database, because it has its own collation.
fn list_all(reader: &mut dyn Reader, filter: &SessionFilter) -> Result<SessionPage, Error> {
    let mut sessions = select(reader, MATCHES, &filter_params(filter)?)?;
    let number = |session: &ListedSession| match filter.sort {
        SortKey::Created => session.created_at.as_micros(),
        SortKey::Messages => session.message_count.cast_signed(),
        SortKey::Updated | SortKey::Name => session.updated_at.as_micros(),
    };
    sessions.sort_unstable_by_key(|session| (number(session), session.id));
    if filter.direction == Direction::Natural {
        sessions.reverse();
    }
    Ok(SessionPage {
        matching: sessions.len() as u64,
        sessions,
    })
}

fn select(
    reader: &mut dyn Reader,
    clauses: &str,
    bound: &[Param<'_>],
) -> Result<Vec<ListedSession>, Error> {
    let mut sessions = Vec::new();
    let sql =
        format!("SELECT session_id, name, actor, next_sequence, created_at, updated_at{clauses}");
    reader.query_each(&sql, bound, &mut |mut row| {
        sessions.push(ListedSession {
            id: row.take()?,
            name: row.take()?,
            actor: row.take()?,
            message_count: row.take()?,
            created_at: row.take()?,
            updated_at: row.take()?,
        });
        Ok(())
    })?;
    Ok(sessions)
}

/// Sums over sessions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Totals {
    /// Number of sessions.
    pub sessions: u64,
    /// Number of messages.
    pub messages: u64,
    /// Total size of message contents in bytes.
    pub content_bytes: u64,
}

/// Sums over all sessions.
pub fn totals(reader: &mut dyn Reader) -> Result<Totals, Error> {
    totals_in(reader, &Namespaces::All)
}

/// Sums over the sessions in visible namespaces.
pub fn totals_in(reader: &mut dyn Reader, namespaces: &Namespaces) -> Result<Totals, Error> {
    let mut row = reader
        .query_first(
            "SELECT COUNT(*), CAST(COALESCE(SUM(next_sequence), 0) AS BIGINT), \
             CAST(COALESCE(SUM(content_bytes), 0) AS BIGINT) FROM sessions WHERE owner IS NULL \
             AND (?1 = '*' OR (?1 = '-' AND namespace <> 'local') \
             OR REPLACE(?1, ',' || namespace || ',', '') <> ?1)",
            params![visible(namespaces)],
        )?
        .ok_or_else(|| Error::stored("the totals", "are missing"))?;
    Ok(Totals {
        sessions: row.take()?,
        messages: row.take()?,
        content_bytes: row.take()?,
    })
}

/// Version that a writer expects to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedVersion {
    /// Any version.
    Any,
    /// Exactly this version; any other is a conflict.
    Exactly(Version),
}

/// Renames a session. `None` when it does not exist.
pub fn rename(
    unit: &mut UnitOfWork<'_>,
    id: SessionId,
    name: &SessionName,
    expect: ExpectedVersion,
) -> Result<Option<Session>, Error> {
    let now = unit.now();
    let expected = match expect {
        ExpectedVersion::Any => 0,
        ExpectedVersion::Exactly(version) => version.0,
    };
    let renamed = unit.execute_returning(
        concat!(
            "UPDATE sessions SET name = ?2, version = version + 1, updated_at = ?3 \
             WHERE session_id = ?1 AND (?4 = 0 OR version = ?4) RETURNING ",
            columns!()
        ),
        params![id, name.as_str(), now, expected],
    )?;
    let Some(row) = renamed else {
        return match (get(unit, id)?, expect) {
            (Some(session), ExpectedVersion::Exactly(expected)) => Err(Error::Conflict {
                what: format!("session {id}"),
                expected,
                actual: session.version,
            }),
            _ => Ok(None),
        };
    };
    unit.emit(NewEvent {
        kind: EventKind::SessionRenamed,
        subject: id.to_string(),
        payload: json!({"name": name.as_str()}),
    });
    read(row).map(Some)
}

/// Deletes a session and its messages. Returns the deleted session; `None` when it does not exist.
pub fn delete(unit: &mut UnitOfWork<'_>, id: SessionId) -> Result<Option<Session>, Error> {
    let for_update = unit.dialect().for_update();
    let sql = format!(
        concat!(
            "SELECT ",
            columns!(),
            " FROM sessions WHERE session_id = ?1{}"
        ),
        for_update
    );
    let Some(row) = unit.query_first(&sql, params![id])? else {
        return Ok(None);
    };
    let session = read(row)?;
    unit.execute("DELETE FROM messages WHERE session_id = ?1", params![id])?;
    super::search::forget_removed(unit)?;
    unit.execute("DELETE FROM sessions WHERE session_id = ?1", params![id])?;
    unit.emit(NewEvent {
        kind: EventKind::SessionDeleted,
        subject: id.to_string(),
        payload: json!({"messages": session.message_count, "namespace": &session.namespace}),
    });
    Ok(Some(session))
}

/// Adds to the usage of a session. Returns `false` when it does not exist.
pub fn add_usage(
    unit: &mut UnitOfWork<'_>,
    id: SessionId,
    usage: TokenUsage,
) -> Result<bool, Error> {
    let now = unit.now();
    let touched = unit.execute(
        "UPDATE sessions SET input_tokens = input_tokens + ?2, output_tokens = output_tokens + ?3, \
         cost_micro_usd = cost_micro_usd + ?4, updated_at = ?5 WHERE session_id = ?1",
        params![
            id,
            usage.input_tokens.0,
            usage.output_tokens.0,
            usage.cost_micro_usd.0,
            now
        ],
    )?;
    if touched > 0 {
        unit.emit(NewEvent {
            kind: EventKind::UsageRecorded,
            subject: id.to_string(),
            payload: json!({
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "cost_micro_usd": usage.cost_micro_usd,
            }),
        });
    }
    Ok(touched > 0)
}

/// Allocates the next `count` message numbers of a session and adds them to its counters. Returns the first; `None`
/// when the session does not exist.
pub(super) fn allocate(
    unit: &mut UnitOfWork<'_>,
    id: SessionId,
    count: u64,
    content_bytes: u64,
) -> Result<Option<Sequence>, Error> {
    Ok(unit.take_numbers(id, count, content_bytes)?.map(Sequence))
}

/// Sets the time of the last change, for an imported session.
pub fn restore_updated_at(
    unit: &mut UnitOfWork<'_>,
    id: SessionId,
    moment: Timestamp,
) -> Result<(), Error> {
    unit.execute(
        "UPDATE sessions SET updated_at = ?2 WHERE session_id = ?1",
        params![id, moment],
    )?;
    Ok(())
}

/// Links a plan to a session, with its last known phase and state.
pub fn link_plan(unit: &mut UnitOfWork<'_>, id: SessionId, plan: &LinkedPlan) -> Result<(), Error> {
    unit.execute(
        "INSERT INTO session_plans (session_id, plan_id, phase, state) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT (session_id, plan_id) DO UPDATE SET phase = excluded.phase, state = excluded.state",
        params![id, plan.plan_id, &plan.phase, &plan.state],
    )?;
    Ok(())
}

/// Plans linked to a session, with their current phase and state where this database has them.
pub fn linked_plans(reader: &mut dyn Reader, id: SessionId) -> Result<Vec<LinkedPlan>, Error> {
    reader
        .query(
            "SELECT link.plan_id, COALESCE(plan.phase, link.phase), COALESCE(plan.state, link.state) \
             FROM session_plans link LEFT JOIN plans plan ON plan.plan_id = link.plan_id \
             WHERE link.session_id = ?1 ORDER BY link.plan_id",
            params![id],
        )?
        .into_iter()
        .map(|mut row| Ok(LinkedPlan { plan_id: row.take()?, phase: row.take()?, state: row.take()? }))
        .collect()
}
