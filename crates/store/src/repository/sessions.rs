//! Sessions: the row that carries the next message number.

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

/// The columns of a session in the order that [`read`] takes them.
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

/// What a new session starts with.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// What people call it.
    pub name: Option<SessionName>,
    /// The actor that answers in it.
    pub actor: Option<ActorName>,
    /// Where it lives.
    pub namespace: String,
    /// The automation profile its plans start with.
    pub automation: String,
    /// What its models used before, for an imported session.
    pub usage: TokenUsage,
    /// The session and message it is forked from.
    pub forked_from: Option<(SessionId, Sequence)>,
    /// When it was made, for an imported session.
    pub created_at: Option<Timestamp>,
    /// What it belongs to, such as `run 01J…`; nothing for a conversation of a person. Those that
    /// belong to something are found by their id only.
    pub owner: Option<String>,
}

/// Stores a new, empty session. `kind` says what brought it about.
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

/// The session with an id.
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

/// Sessions whose id begins with `prefix`, oldest first, at most `limit`.
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

/// From this many ids on, reading all of them once costs less than asking for the neighbours of each.
const MANY_IDS: usize = 64;

/// The shortest prefix of each id that names no other session, at least eight characters.
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

/// What a list is sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SortKey {
    /// Last change first.
    #[default]
    Updated,
    /// Newest first.
    Created,
    /// By name, nameless ones last.
    Name,
    /// Most messages first.
    Messages,
}

/// Which way a list runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// The natural way of its key.
    #[default]
    Natural,
    /// The other way.
    Reversed,
}

/// Which sessions to list.
#[derive(Debug, Clone, Default)]
pub struct SessionFilter {
    /// Only those with this actor.
    pub actor: Option<ActorName>,
    /// Only those in this namespace.
    pub namespace: Option<String>,
    /// Only those in namespaces that may be seen.
    pub visible: Namespaces,
    /// Only those whose name holds this text, in any case.
    pub name_contains: Option<String>,
    /// Only those changed at or after this moment.
    pub updated_since: Option<Timestamp>,
    /// The order.
    pub sort: SortKey,
    /// Which way.
    pub direction: Direction,
    /// How many to skip.
    pub offset: u64,
    /// How many to give.
    pub limit: Option<u64>,
}

/// What a list shows of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedSession {
    /// Which one.
    pub id: SessionId,
    /// What people call it.
    pub name: Option<SessionName>,
    /// The actor that answers in it.
    pub actor: Option<ActorName>,
    /// How many messages it holds.
    pub message_count: u64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// A page of sessions, and how many match in all.
#[derive(Debug, Clone)]
pub struct SessionPage {
    /// The sessions of this page.
    pub sessions: Vec<ListedSession>,
    /// How many match without paging.
    pub matching: u64,
}

/// The filter as SQL. A parameter that is NULL lets everything through, so the text is fixed.
const MATCHES: &str = " FROM sessions WHERE owner IS NULL AND (?1 = '' OR actor = ?1) AND (?2 = '' OR namespace = ?2) \
     AND (?3 = '' OR LOWER(name) LIKE LOWER(?3) ESCAPE '!') AND updated_at >= ?4 \
     AND (?5 = '*' OR (?5 = '-' AND namespace <> 'local') OR REPLACE(?5, ',' || namespace || ',', '') <> ?5)";

fn filter_params(filter: &SessionFilter) -> Result<[Param<'static>; 5], Error> {
    let actor = filter
        .actor
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default();
    // The database lowers both sides, by the same rules.
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

/// Lists sessions; filter, order and page are the statement's.
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

/// Sessions that match, the newest first, from before one on; order, offset and limit of the filter do not count. A
/// session that is made or changed meanwhile changes nothing about the pages that follow.
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

/// Every session that matches, ordered by a number: a third of the time is saved by ordering them
/// here instead of in SQLite. Names are left to the database, which has its own rules for letters.
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
    rest: &str,
    bound: &[Param<'_>],
) -> Result<Vec<ListedSession>, Error> {
    let mut sessions = Vec::new();
    let sql =
        format!("SELECT session_id, name, actor, next_sequence, created_at, updated_at{rest}");
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

/// Sums over all sessions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Totals {
    /// How many sessions.
    pub sessions: u64,
    /// How many messages.
    pub messages: u64,
    /// The bytes of all contents.
    pub content_bytes: u64,
}

/// Sums over all sessions.
pub fn totals(reader: &mut dyn Reader) -> Result<Totals, Error> {
    totals_in(reader, &Namespaces::All)
}

/// What there is in namespaces that may be seen.
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

/// The version a writer expects to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Whatever is there.
    Any,
    /// Exactly this one; anything else is a conflict.
    Exactly(Version),
}

/// Gives a session another name. `None` when it does not exist.
pub fn rename(
    unit: &mut UnitOfWork<'_>,
    id: SessionId,
    name: &SessionName,
    expect: Expect,
) -> Result<Option<Session>, Error> {
    let now = unit.now();
    let expected = match expect {
        Expect::Any => 0,
        Expect::Exactly(version) => version.0,
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
            (Some(session), Expect::Exactly(expected)) => Err(Error::Conflict {
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

/// Removes a session and its messages. Gives the session as it was, `None` when there is none.
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

/// Adds to what a session used. `false` when it does not exist.
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

/// Takes the next `count` message numbers of a session, which also counts them.
/// Gives the first, `None` when the session does not exist.
pub(super) fn allocate(
    unit: &mut UnitOfWork<'_>,
    id: SessionId,
    count: u64,
    content_bytes: u64,
) -> Result<Option<Sequence>, Error> {
    Ok(unit.take_numbers(id, count, content_bytes)?.map(Sequence))
}

/// Sets when a session last changed, for one that was restored from elsewhere.
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

/// Remembers that a session refers to a plan, with the phase and state known.
pub fn link_plan(unit: &mut UnitOfWork<'_>, id: SessionId, plan: &LinkedPlan) -> Result<(), Error> {
    unit.execute(
        "INSERT INTO session_plans (session_id, plan_id, phase, state) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT (session_id, plan_id) DO UPDATE SET phase = excluded.phase, state = excluded.state",
        params![id, plan.plan_id, &plan.phase, &plan.state],
    )?;
    Ok(())
}

/// The plans a session refers to, with their present phase and state where they are known here.
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
