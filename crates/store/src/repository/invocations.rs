//! Tool invocations: a row is stored before the effect and completed with the result.

use cleveragents_domain::identity::Namespaces;
use cleveragents_domain::{
    InvocationOutcome, PlanId, SessionId, ToolInvocation, ToolInvocationId, TurnId,
};

use super::{json_text, like_text, stored_json, visible};
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Param, Row, params};

macro_rules! columns {
    () => {
        "invocation_id, plan_id, session_id, turn_id, call_id, tool, arguments, outcome, output_hash, error, reason, \
         repeatable, started_at, finished_at, log_hash, media_type"
    };
}

fn read(mut row: Row) -> Result<ToolInvocation, Error> {
    Ok(ToolInvocation {
        id: row.take()?,
        plan: row.take()?,
        session: row.take()?,
        turn: row.take()?,
        call_id: row.take()?,
        tool: row.take()?,
        arguments: stored_json("the arguments of a tool", &row.take::<String>()?)?,
        outcome: {
            let outcome: String = row.take()?;
            InvocationOutcome::from_stored(&outcome)
                .ok_or_else(|| Error::stored("the outcome of a tool", format!("is `{outcome}`")))?
        },
        output: row.take()?,
        error: row.take()?,
        reason: row.take()?,
        is_repeatable: row.take::<u64>()? != 0,
        started_at: row.take()?,
        finished_at: row.take()?,
        log: row.take()?,
        media_type: row.take()?,
    })
}

/// Stores an invocation.
pub fn insert(unit: &mut UnitOfWork<'_>, invocation: &ToolInvocation) -> Result<(), Error> {
    unit.execute(
        concat!(
            "INSERT INTO tool_invocations (",
            columns!(),
            ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)"
        ),
        params![
            invocation.id,
            invocation.plan,
            invocation.session,
            invocation.turn,
            invocation.call_id.as_ref(),
            &invocation.tool,
            json_text(&invocation.arguments),
            invocation.outcome.as_str(),
            invocation.output,
            invocation.error.as_ref(),
            invocation.reason.as_ref(),
            invocation.is_repeatable,
            invocation.started_at,
            invocation.finished_at,
            invocation.log,
            invocation.media_type.as_ref(),
        ],
    )?;
    Ok(())
}

/// Stores the outcome of a running call. Returns `false` when it is not running.
pub fn finish(unit: &mut UnitOfWork<'_>, invocation: &ToolInvocation) -> Result<bool, Error> {
    let now = unit.now();
    let touched = unit.execute(
        "UPDATE tool_invocations SET outcome = ?2, output_hash = ?3, error = ?4, finished_at = ?5, log_hash = ?6, media_type = ?7 \
         WHERE invocation_id = ?1 AND outcome = 'running'",
        params![
            invocation.id,
            invocation.outcome.as_str(),
            invocation.output,
            invocation.error.as_ref(),
            invocation.finished_at.unwrap_or(now),
            invocation.log,
            invocation.media_type.as_ref(),
        ],
    )?;
    Ok(touched > 0)
}

/// Returns the invocation with this id.
pub fn get(reader: &mut dyn Reader, id: ToolInvocationId) -> Result<Option<ToolInvocation>, Error> {
    reader
        .query_first(
            concat!(
                "SELECT ",
                columns!(),
                " FROM tool_invocations WHERE invocation_id = ?1"
            ),
            params![id],
        )?
        .map(read)
        .transpose()
}

/// Invocations of a turn, oldest first.
pub fn of_turn(reader: &mut dyn Reader, turn: TurnId) -> Result<Vec<ToolInvocation>, Error> {
    reader
        .query(
            concat!(
                "SELECT ",
                columns!(),
                " FROM tool_invocations WHERE turn_id = ?1 ORDER BY invocation_id"
            ),
            params![turn],
        )?
        .into_iter()
        .map(read)
        .collect()
}

/// Invocations of a session, oldest first.
pub fn of_session(
    reader: &mut dyn Reader,
    session: SessionId,
) -> Result<Vec<ToolInvocation>, Error> {
    reader
        .query(
            concat!(
                "SELECT ",
                columns!(),
                " FROM tool_invocations WHERE session_id = ?1 ORDER BY invocation_id"
            ),
            params![session],
        )?
        .into_iter()
        .map(read)
        .collect()
}

/// Invocations of a plan, oldest first.
pub fn of_plan(reader: &mut dyn Reader, plan: PlanId) -> Result<Vec<ToolInvocation>, Error> {
    reader
        .query(
            concat!(
                "SELECT ",
                columns!(),
                " FROM tool_invocations WHERE plan_id = ?1 ORDER BY invocation_id"
            ),
            params![plan],
        )?
        .into_iter()
        .map(read)
        .collect()
}

/// Successful invocations of a tool in a plan that were not rolled back, oldest first.
pub fn in_effect(
    reader: &mut dyn Reader,
    plan: PlanId,
    tool: &str,
) -> Result<Vec<ToolInvocation>, Error> {
    reader
        .query(
            concat!(
                "SELECT ",
                columns!(),
                " FROM tool_invocations WHERE plan_id = ?1 AND tool = ?2 AND outcome = 'succeeded' \
                 AND undone_by IS NULL ORDER BY invocation_id"
            ),
            params![plan, tool],
        )?
        .into_iter()
        .map(read)
        .collect()
}

/// Filter for listing invocations.
#[derive(Debug, Clone, Default)]
pub struct InvocationFilter {
    /// Namespaces whose session calls are visible.
    pub visible: Namespaces,
    /// Namespaces whose plan calls are visible.
    pub visible_plans: Namespaces,
    /// Namespaces in which calls made by runs without a plan are visible.
    pub visible_runs: Namespaces,
    /// Only calls of this session.
    pub session: Option<SessionId>,
    /// Only calls of tools that match this pattern: `*` matches any text, `?` one character.
    pub tool: Option<String>,
    /// Only calls with this outcome.
    pub outcome: Option<InvocationOutcome>,
    /// Number of calls to skip.
    pub offset: u64,
    /// Maximum number of calls.
    pub limit: Option<u64>,
}

/// A page of invocations and the total number of matches.
#[derive(Debug, Clone)]
pub struct InvocationPage {
    /// Invocations on this page.
    pub invocations: Vec<ToolInvocation>,
    /// Number of matches on all pages.
    pub matching: u64,
}

/// The filter as SQL. An empty `?1`, `?2` or `?3` matches every call; an empty `?4`, `?5` or `?6` matches no namespace.
/// A call belongs to its plan, otherwise to the run that owns its session, otherwise to its session. A call without any
/// of them is visible only if `visible` is [`Namespaces::All`].
const MATCHES: &str = " FROM tool_invocations AS call \
     LEFT JOIN plans ON plans.plan_id = call.plan_id \
     LEFT JOIN sessions ON sessions.session_id = call.session_id \
     LEFT JOIN runs ON sessions.owner LIKE 'run %' AND runs.run_id = SUBSTR(sessions.owner, 5) \
     WHERE (?1 = '' OR call.session_id = ?1) \
     AND (?2 = '' OR call.tool LIKE ?2 ESCAPE '!') AND (?3 = '' OR call.outcome = ?3) \
     AND CASE WHEN call.plan_id IS NOT NULL \
         THEN ?5 = '*' OR (?5 = '-' AND plans.namespace <> 'local') \
              OR REPLACE(?5, ',' || plans.namespace || ',', '') <> ?5 \
         WHEN runs.run_id IS NOT NULL \
         THEN ?6 = '*' OR (?6 = '-' AND runs.namespace <> 'local') \
              OR REPLACE(?6, ',' || runs.namespace || ',', '') <> ?6 \
         ELSE ?4 = '*' OR (?4 = '-' AND sessions.namespace <> 'local') \
              OR REPLACE(?4, ',' || sessions.namespace || ',', '') <> ?4 END";

impl InvocationFilter {
    fn params(&self) -> Result<[Param<'static>; 6], Error> {
        let session = self.session.map(|session| session.to_string());
        let tool = self.tool.as_deref().map(like_text).transpose()?;
        let tool = tool.map(|tool| tool.replace('*', "%").replace('?', "_"));
        Ok([
            Param::from(session.unwrap_or_default()),
            Param::from(tool.unwrap_or_default()),
            Param::from(self.outcome.map_or("", InvocationOutcome::as_str)),
            Param::from(visible(&self.visible)),
            Param::from(visible(&self.visible_plans)),
            Param::from(visible(&self.visible_runs)),
        ])
    }
}

/// Lists invocations, newest first.
pub fn list(reader: &mut dyn Reader, filter: &InvocationFilter) -> Result<InvocationPage, Error> {
    let mut bound = filter.params()?.to_vec();
    bound.extend([
        Param::from(filter.limit.unwrap_or(i64::MAX as u64)),
        Param::from(filter.offset),
    ]);
    let columns: Vec<String> = columns!()
        .split(", ")
        .map(|column| format!("call.{column}"))
        .collect();
    let columns = columns.join(", ");
    let page =
        format!("SELECT {columns}{MATCHES} ORDER BY call.invocation_id DESC LIMIT ?7 OFFSET ?8");
    let rows = reader.query(&page, &bound)?;
    let matching = reader
        .query_first(&format!("SELECT COUNT(*){MATCHES}"), &filter.params()?)?
        .ok_or_else(|| Error::stored("a count", "is missing"))?
        .take()?;
    Ok(InvocationPage {
        invocations: rows.into_iter().map(read).collect::<Result<_, _>>()?,
        matching,
    })
}

/// Up to `limit` invocations whose ids start with `prefix`.
pub fn with_prefix(
    reader: &mut dyn Reader,
    prefix: &str,
    limit: u64,
) -> Result<Vec<ToolInvocation>, Error> {
    reader
        .query(
            concat!(
                "SELECT ",
                columns!(),
                " FROM tool_invocations WHERE invocation_id >= ?1 AND invocation_id < ?2 \
                 ORDER BY invocation_id LIMIT ?3"
            ),
            // Every character of an id sorts at or before `Z`, and so before `a`.
            params![prefix, format!("{prefix}a"), limit],
        )?
        .into_iter()
        .map(read)
        .collect()
}
