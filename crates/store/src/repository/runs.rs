//! Runs of actors, one row each, and the steps they completed.
//!
//! A step is stored once: a unique key on its path refuses a duplicate.

use cleveragents_domain::identity::Namespaces;
use cleveragents_domain::{
    EventKind, MicroUsd, NewEvent, Run, RunId, RunState, SessionId, Timestamp, TokenUsage, Tokens,
};
use serde_json::{Value, json};

use super::{json_text, stored_json, turns, visible};
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Row, params};

macro_rules! columns {
    () => {
        "run_id, namespace, actor, actor_hash, input, options, state, is_cancelled, result, error, error_code, \
         input_tokens, output_tokens, cost_micro_usd, model_calls, tool_calls, attempts, started_at, \
         updated_at, ended_at"
    };
}

/// SQL condition for runs in the namespaces of parameter `?1`, which [`visible`] writes.
macro_rules! in_namespaces {
    () => {
        "(?1 = '*' OR (?1 = '-' AND namespace <> 'local') OR REPLACE(?1, ',' || namespace || ',', '') <> ?1)"
    };
}

fn read(mut row: Row) -> Result<Run, Error> {
    Ok(Run {
        id: row.take()?,
        namespace: row.take()?,
        actor: row.take()?,
        actor_hash: row.take()?,
        input: stored_json("the input of a run", &row.take::<String>()?)?,
        options: stored_json("the options of a run", &row.take::<String>()?)?,
        state: {
            let state: String = row.take()?;
            RunState::from_stored(&state)
                .ok_or_else(|| Error::stored("the state of a run", format!("is `{state}`")))?
        },
        is_cancelled: row.take::<u64>()? != 0,
        result: row
            .take::<Option<String>>()?
            .map(|text| stored_json("the result of a run", &text))
            .transpose()?,
        error: row.take()?,
        error_code: row.take()?,
        usage: TokenUsage {
            input_tokens: Tokens(row.take()?),
            output_tokens: Tokens(row.take()?),
            cost_micro_usd: MicroUsd(row.take()?),
        },
        model_calls: row.take()?,
        tool_calls: row.take()?,
        attempts: row.take()?,
        started_at: row.take()?,
        updated_at: row.take()?,
        ended_at: row.take()?,
    })
}

/// Initial data of a run.
#[derive(Debug, Clone)]
pub struct NewRun {
    pub id: RunId,
    /// Namespace of the plan, project or caller that starts it.
    pub namespace: String,
    /// Name of the actor.
    pub actor: String,
    /// Hash of the actor's file.
    pub actor_hash: String,
    /// Files of the actor and of everything it refers to.
    pub definitions: Value,
    /// Input of the graph.
    pub input: Value,
    /// Options the run was requested with.
    pub options: Value,
}

/// Stores a new run in the running state.
pub fn insert(unit: &mut UnitOfWork<'_>, new: &NewRun) -> Result<(), Error> {
    let now = unit.now();
    unit.execute(
        "INSERT INTO runs (run_id, namespace, actor, actor_hash, definitions, input, options, state, \
         started_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'running', ?8, ?8)",
        params![
            new.id,
            &new.namespace,
            &new.actor,
            &new.actor_hash,
            json_text(&new.definitions),
            json_text(&new.input),
            json_text(&new.options),
            now
        ],
    )?;
    announce(
        unit,
        EventKind::RunStarted,
        new.id,
        json!({"actor": new.actor, "namespace": new.namespace}),
    );
    Ok(())
}

/// Marks an incomplete run as running again. Returns `false` when it is complete or does not exist.
pub fn resume(unit: &mut UnitOfWork<'_>, id: RunId) -> Result<bool, Error> {
    let now = unit.now();
    let touched = unit.execute(
        "UPDATE runs SET state = 'running', is_cancelled = 0, error = NULL, error_code = NULL, \
         ended_at = NULL, attempts = attempts + 1, updated_at = ?2 \
         WHERE run_id = ?1 AND state <> 'complete'",
        params![id, now],
    )?;
    if touched > 0 {
        announce(unit, EventKind::RunResumed, id, json!({}));
    }
    Ok(touched > 0)
}

/// Stores a completed step. The key refuses a step that is already stored.
pub fn add_step(unit: &mut UnitOfWork<'_>, id: RunId, path: &str, step: &str) -> Result<(), Error> {
    let now = unit.now();
    unit.execute(
        "INSERT INTO run_steps (run_id, number, path, step, stored_at) VALUES (?1, \
         (SELECT COALESCE(MAX(number) + 1, 0) FROM run_steps WHERE run_id = ?1), ?2, ?3, ?4)",
        params![id, path, step, now],
    )?;
    announce(unit, EventKind::RunStepFinished, id, json!({"path": path}));
    Ok(())
}

/// Result, error and usage of a run that stopped.
#[derive(Debug, Clone, Default)]
pub struct RunResult {
    /// Final state, when the run completed.
    pub result: Option<Value>,
    /// Error message and error code, when the run failed.
    pub error: Option<(String, String)>,
    /// Tokens and cost.
    pub usage: TokenUsage,
    /// Number of model calls.
    pub model_calls: u64,
    /// Number of tool calls.
    pub tool_calls: u64,
}

impl RunResult {
    /// Message and code of the error.
    fn error(&self) -> (Option<&str>, Option<&str>) {
        match &self.error {
            Some((message, code)) => (Some(message), Some(code)),
            None => (None, None),
        }
    }
}

/// Ends or suspends a running run. Returns `false` when it is not running.
pub fn end(
    unit: &mut UnitOfWork<'_>,
    id: RunId,
    state: RunState,
    outcome: &RunResult,
) -> Result<bool, Error> {
    let now = unit.now();
    let ended_at = (state != RunState::Waiting).then_some(now);
    let (error, code) = outcome.error();
    let touched = unit.execute(
        "UPDATE runs SET state = ?2, result = ?3, error = ?4, error_code = ?5, input_tokens = ?6, \
         output_tokens = ?7, cost_micro_usd = ?8, model_calls = ?9, tool_calls = ?10, \
         updated_at = ?11, ended_at = ?12 WHERE run_id = ?1 AND state = 'running'",
        params![
            id,
            state.as_str(),
            outcome.result.as_ref().map(json_text),
            error,
            code,
            outcome.usage.input_tokens.0,
            outcome.usage.output_tokens.0,
            outcome.usage.cost_micro_usd.0,
            outcome.model_calls,
            outcome.tool_calls,
            now,
            ended_at
        ],
    )?;
    if touched > 0 {
        announce(
            unit,
            EventKind::RunEnded,
            id,
            json!({"state": state, "error": error}),
        );
    }
    Ok(touched > 0)
}

/// Requests that the process executing a run stops. Returns `false` when the run has ended.
pub fn request_cancel(unit: &mut UnitOfWork<'_>, id: RunId) -> Result<bool, Error> {
    let now = unit.now();
    let touched = unit.execute(
        "UPDATE runs SET is_cancelled = 1, updated_at = ?2 \
         WHERE run_id = ?1 AND state IN ('running', 'waiting')",
        params![id, now],
    )?;
    if touched > 0 {
        announce(unit, EventKind::RunCancelRequested, id, json!({}));
    }
    Ok(touched > 0)
}

/// Marks a run that no process executes as cancelled, with its reason and usage. Returns `false` when the run has
/// ended.
pub fn cancel(unit: &mut UnitOfWork<'_>, id: RunId, outcome: &RunResult) -> Result<bool, Error> {
    let now = unit.now();
    let (error, code) = outcome.error();
    let touched = unit.execute(
        "UPDATE runs SET state = 'cancelled', is_cancelled = 1, error = ?3, error_code = ?4, \
         input_tokens = ?5, output_tokens = ?6, cost_micro_usd = ?7, model_calls = ?8, tool_calls = ?9, \
         updated_at = ?2, ended_at = ?2 WHERE run_id = ?1 AND state IN ('running', 'waiting')",
        params![
            id,
            now,
            error,
            code,
            outcome.usage.input_tokens.0,
            outcome.usage.output_tokens.0,
            outcome.usage.cost_micro_usd.0,
            outcome.model_calls,
            outcome.tool_calls
        ],
    )?;
    if touched > 0 {
        announce(
            unit,
            EventKind::RunEnded,
            id,
            json!({"state": RunState::Cancelled}),
        );
    }
    Ok(touched > 0)
}

fn announce(unit: &mut UnitOfWork<'_>, kind: EventKind, id: RunId, payload: Value) {
    unit.emit(NewEvent {
        kind,
        subject: id.to_string(),
        payload,
    });
}

/// Returns a run if it is in one of the namespaces.
pub fn get(
    reader: &mut dyn Reader,
    namespaces: &Namespaces,
    id: RunId,
) -> Result<Option<Run>, Error> {
    reader
        .query_first(
            concat!(
                "SELECT ",
                columns!(),
                " FROM runs WHERE ",
                in_namespaces!(),
                " AND run_id = ?2"
            ),
            params![visible(namespaces), id],
        )?
        .map(read)
        .transpose()
}

pub fn namespace(reader: &mut dyn Reader, id: RunId) -> Result<Option<String>, Error> {
    let row = reader.query_first("SELECT namespace FROM runs WHERE run_id = ?1", params![id])?;
    row.map(|mut row| row.take()).transpose()
}

/// Definition files that a run started with.
pub fn definitions(reader: &mut dyn Reader, id: RunId) -> Result<Option<Value>, Error> {
    reader
        .query_first(
            "SELECT definitions FROM runs WHERE run_id = ?1",
            params![id],
        )?
        .map(|mut row| stored_json("the files of a run", &row.take::<String>()?))
        .transpose()
}

/// Runs in the namespaces whose id starts with `prefix`, at most `limit`.
pub fn with_prefix(
    reader: &mut dyn Reader,
    namespaces: &Namespaces,
    prefix: &str,
    limit: u64,
) -> Result<Vec<Run>, Error> {
    let last = format!("{prefix:Z<26}");
    reader
        .query(
            concat!(
                "SELECT ",
                columns!(),
                " FROM runs WHERE ",
                in_namespaces!(),
                " AND run_id >= ?2 AND run_id <= ?3 ORDER BY run_id LIMIT ?4"
            ),
            params![visible(namespaces), prefix, last, limit],
        )?
        .into_iter()
        .map(read)
        .collect()
}

/// Filter for listing runs.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    /// Only runs in these namespaces.
    pub visible: Namespaces,
    /// Only runs of this actor.
    pub actor: Option<String>,
    /// Only runs in this state.
    pub state: Option<RunState>,
    /// Number of runs to skip.
    pub offset: u64,
    /// Maximum number of runs.
    pub limit: u64,
}

/// A page of runs, newest first, and the total number of matches.
#[derive(Debug, Clone)]
pub struct RunPage {
    /// Runs on this page, each with its number of steps.
    pub runs: Vec<(Run, u64)>,
    /// Number of matches on all pages.
    pub matching: u64,
}

/// Lists runs, newest first.
pub fn list(reader: &mut dyn Reader, filter: &RunFilter) -> Result<RunPage, Error> {
    let namespaces = visible(&filter.visible);
    let actor = filter.actor.clone().unwrap_or_default();
    let state = filter.state.map_or("", RunState::as_str);
    let runs = reader
        .query(
            concat!(
                "SELECT (SELECT COUNT(*) FROM run_steps step WHERE step.run_id = runs.run_id), ",
                columns!(),
                " FROM runs WHERE ",
                in_namespaces!(),
                " AND (?2 = '' OR actor = ?2) AND (?3 = '' OR state = ?3) \
                 ORDER BY run_id DESC LIMIT ?4 OFFSET ?5"
            ),
            params![&namespaces, &actor, state, filter.limit, filter.offset],
        )?
        .into_iter()
        .map(|mut row| {
            let steps = row.take()?;
            Ok((read(row)?, steps))
        })
        .collect::<Result<_, Error>>()?;
    let matching = reader
        .query_first(
            concat!(
                "SELECT COUNT(*) FROM runs WHERE ",
                in_namespaces!(),
                " AND (?2 = '' OR actor = ?2) AND (?3 = '' OR state = ?3)"
            ),
            params![&namespaces, &actor, state],
        )?
        .ok_or_else(|| Error::stored("a count", "is missing"))?
        .take()?;
    Ok(RunPage { runs, matching })
}

#[derive(Debug, Clone, PartialEq)]
pub struct StoredStep {
    /// Position in the order in which the steps completed.
    pub number: u64,
    /// Content of the step.
    pub step: Value,
    /// Time at which it was stored.
    pub stored_at: Timestamp,
}

/// Steps of a run, in the order in which they completed.
pub fn steps(reader: &mut dyn Reader, id: RunId) -> Result<Vec<StoredStep>, Error> {
    reader
        .query(
            "SELECT number, step, stored_at FROM run_steps WHERE run_id = ?1 ORDER BY number",
            params![id],
        )?
        .into_iter()
        .map(|mut row| {
            Ok(StoredStep {
                number: row.take()?,
                step: stored_json("a step of a run", &row.take::<String>()?)?,
                stored_at: row.take()?,
            })
        })
        .collect()
}

/// Number of runs of an actor in the namespaces, and their total cost.
pub fn totals(
    reader: &mut dyn Reader,
    namespaces: &Namespaces,
    actor: &str,
) -> Result<(u64, MicroUsd), Error> {
    let mut row = reader
        .query_first(
            concat!(
                "SELECT COUNT(*), CAST(COALESCE(SUM(cost_micro_usd), 0) AS BIGINT) FROM runs WHERE ",
                in_namespaces!(),
                " AND actor = ?2"
            ),
            params![visible(namespaces), actor],
        )?
        .ok_or_else(|| Error::stored("a sum", "is missing"))?;
    Ok((row.take()?, MicroUsd(row.take()?)))
}

/// Sessions of a run: the sessions in which its steps call models, and the session of the tool calls that its nodes
/// make.
pub fn sessions(reader: &mut dyn Reader, id: RunId) -> Result<Vec<SessionId>, Error> {
    // Session ids start with the ten timestamp characters of the run's id. The range limits the scan, since the owner
    // column has no index.
    let run_id = id.to_string();
    let timestamp = run_id.get(..10).unwrap_or_default();
    let last = format!("{timestamp:Z<26}");
    reader
        .query(
            "SELECT session_id FROM sessions \
             WHERE session_id >= ?1 AND session_id <= ?2 AND owner = ?3 ORDER BY session_id",
            params![timestamp, last, owner(id)],
        )?
        .into_iter()
        .map(|mut row| row.take())
        .collect()
}

/// Whether a run called a model whose price is unknown.
pub fn has_unpriced(reader: &mut dyn Reader, id: RunId) -> Result<bool, Error> {
    for session in sessions(reader, id)? {
        if turns::has_unpriced(reader, session)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Owner recorded on the sessions of a run.
pub fn owner(id: RunId) -> String {
    format!("run {id}")
}
