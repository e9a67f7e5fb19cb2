//! Tool invocations: a row before the effect, completed with what came back.

use cleveragents_domain::{
    InvocationOutcome, PlanId, SessionId, ToolInvocation, ToolInvocationId, TurnId,
};

use super::{json_text, stored_json};
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Row, params};

macro_rules! columns {
    () => {
        "invocation_id, plan_id, session_id, turn_id, call_id, tool, arguments, outcome, output_hash, error, reason, \
         repeatable, started_at, finished_at"
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
    })
}

/// Stores a call as it is.
pub fn insert(unit: &mut UnitOfWork<'_>, invocation: &ToolInvocation) -> Result<(), Error> {
    unit.execute(
        concat!(
            "INSERT INTO tool_invocations (",
            columns!(),
            ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)"
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
        ],
    )?;
    Ok(())
}

/// Stores how a running call ended. `false` when it is not running.
pub fn finish(unit: &mut UnitOfWork<'_>, ended: &ToolInvocation) -> Result<bool, Error> {
    let now = unit.now();
    let touched = unit.execute(
        "UPDATE tool_invocations SET outcome = ?2, output_hash = ?3, error = ?4, finished_at = ?5 \
         WHERE invocation_id = ?1 AND outcome = 'running'",
        params![
            ended.id,
            ended.outcome.as_str(),
            ended.output,
            ended.error.as_ref(),
            ended.finished_at.unwrap_or(now)
        ],
    )?;
    Ok(touched > 0)
}

/// The call with an id.
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

/// The calls of a turn, oldest first.
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

/// The calls of a session, oldest first.
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

/// The calls of a plan, oldest first.
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
