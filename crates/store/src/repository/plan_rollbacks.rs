//! Rollbacks and corrections of plans: which steps, decisions and calls they undo, and their redo.

use cleveragents_domain::{DecisionId, EventKind, PlanId, PlanStage, Timestamp, ToolInvocationId};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::plan_steps::emit;
use super::stored_json;
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::params;

/// The state of a rollback of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RollbackState {
    /// Files are being rolled back.
    Begun,
    /// The rollback is complete.
    Done,
    /// The files before the rollback are being restored.
    Redoing,
    /// The rollback was redone.
    Redone,
}

impl RollbackState {
    /// The stored name of the state.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Done => "done",
            Self::Redoing => "redoing",
            Self::Redone => "redone",
        }
    }

    fn from_stored(text: &str) -> Option<Self> {
        [Self::Begun, Self::Done, Self::Redoing, Self::Redone]
            .into_iter()
            .find(|state| state.as_str() == text)
    }
}

/// State before a rollback: the stage of the plan, and the checkpoint after which the rollback undoes everything.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RollbackOrigin {
    /// The stage that a redo restores.
    pub stage: PlanStage,
    /// Number of entries in the sandbox history at the checkpoint.
    pub position: u64,
    /// Time of the checkpoint, in microseconds since 1970.
    #[serde(rename = "moment")]
    pub moment_micros: i64,
    /// Label of the checkpoint.
    pub label: Option<String>,
    /// The correction of which the rollback is a part; a correction undoes only the records that it names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correction: Option<CorrectionScope>,
}

/// The records that a correction undoes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CorrectionScope {
    /// The corrected decision.
    pub target: DecisionId,
    /// The decision that records the correction.
    pub correction: DecisionId,
    pub guidance: String,
    /// Superseded decisions.
    pub decisions: Vec<DecisionId>,
    /// Numbers of the undone steps.
    pub steps: Vec<u64>,
}

impl RollbackOrigin {
    /// Time of the checkpoint.
    pub const fn moment(&self) -> Timestamp {
        Timestamp::from_micros(self.moment_micros)
    }
}

/// Effects of a rollback.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RollbackReport {
    /// Changed paths, prefixed with the alias of their resource.
    pub paths: Vec<String>,
    /// Numbers of undone records; changed files are listed in `paths`.
    pub undone: RollbackCounts,
    /// Label of the checkpoint.
    pub label: Option<String>,
}

/// A rollback of a plan.
#[derive(Debug, Clone)]
pub struct Rollback {
    /// Number within the plan, from 1.
    pub number: u64,
    /// Sandbox checkpoint that was restored.
    pub checkpoint: u64,
    /// Progress of the rollback.
    pub state: RollbackState,
    /// Stage of the plan before the rollback, and the checkpoint after which the rollback undoes everything.
    pub origin: RollbackOrigin,
    /// Effects, once the rollback is complete.
    pub report: Option<RollbackReport>,
    /// Time of the rollback.
    pub created_at: Timestamp,
}

/// Rollbacks of a plan, oldest first.
pub fn rollbacks(reader: &mut dyn Reader, plan: PlanId) -> Result<Vec<Rollback>, Error> {
    reader
        .query(
            "SELECT number, checkpoint, state, before, report, created_at FROM plan_rollbacks \
             WHERE plan_id = ?1 ORDER BY number",
            params![plan],
        )?
        .into_iter()
        .map(|mut row| {
            Ok(Rollback {
                number: row.take()?,
                checkpoint: row.take()?,
                state: {
                    let state: String = row.take()?;
                    RollbackState::from_stored(&state).ok_or_else(|| {
                        Error::stored("the state of a rollback", format!("is `{state}`"))
                    })?
                },
                origin: stored_json("a rollback", &row.take::<String>()?)?,
                report: row
                    .take::<Option<String>>()?
                    .map(|text| stored_json("the report of a rollback", &text))
                    .transpose()?,
                created_at: row.take()?,
            })
        })
        .collect()
}

/// Stores a rollback before it starts and returns its number.
pub fn begin_rollback(
    unit: &mut UnitOfWork<'_>,
    plan: PlanId,
    checkpoint: u64,
    origin: &RollbackOrigin,
) -> Result<u64, Error> {
    let now = unit.now();
    let row = unit.execute_returning(
        "INSERT INTO plan_rollbacks (plan_id, number, checkpoint, state, before, created_at) VALUES (?1, \
         (SELECT coalesce(max(number), 0) + 1 FROM plan_rollbacks WHERE plan_id = ?1), ?2, 'begun', ?3, ?4) \
         RETURNING number",
        params![plan, checkpoint, json!(origin).to_string(), now],
    )?;
    match row {
        Some(mut row) => row.take(),
        None => Err(Error::stored("a rollback", "was not stored")),
    }
}

/// Number of records of each kind that a rollback undid.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RollbackCounts {
    /// Undone decisions.
    pub decisions: u64,
    /// Undone tool calls.
    pub calls: u64,
    /// Undone steps.
    pub steps: u64,
}

/// SQL conditions that select the steps, decisions and tool calls of a plan after a point in time. The strategize phase
/// is excluded.
const AFTER: [(&str, &str); 3] = [
    (
        "plan_steps",
        "path NOT LIKE 'strategize/%' AND path NOT LIKE 'estimate/%' AND path NOT LIKE 'invariants/%' \
         AND (state = 'running' OR coalesce(position_after, position_before) > ?2 OR started_at > ?3)",
    ),
    (
        "plan_decisions",
        "phase <> 'strategize' AND created_at > ?3 AND ?2 >= 0",
    ),
    ("tool_invocations", "started_at > ?3 AND ?2 >= 0"),
];

/// Marks the steps, decisions and tool calls of a plan after a point in time as undone. The point is given by the
/// number of entries in the sandbox history (`position`) and by a time (`moment`).
pub fn undo_after(
    unit: &mut UnitOfWork<'_>,
    plan: PlanId,
    rollback: u64,
    position: u64,
    moment: Timestamp,
) -> Result<RollbackCounts, Error> {
    let mut counts = [0; 3];
    for ((table, after), count) in AFTER.iter().zip(&mut counts) {
        *count = unit.execute(
            &format!(
                "UPDATE {table} SET undone_by = ?4 WHERE plan_id = ?1 AND undone_by IS NULL AND {after}"
            ),
            params![plan, position, moment, rollback],
        )?;
    }
    Ok(rollback_counts(counts))
}

/// Counts the records that [`undo_after`] would mark.
pub fn count_after(
    reader: &mut dyn Reader,
    plan: PlanId,
    position: u64,
    moment: Timestamp,
) -> Result<RollbackCounts, Error> {
    let mut counts = [0; 3];
    for ((table, after), count) in AFTER.iter().zip(&mut counts) {
        let row = reader.query_first(
            &format!(
                "SELECT count(*) FROM {table} WHERE plan_id = ?1 AND undone_by IS NULL AND {after}"
            ),
            params![plan, position, moment],
        )?;
        if let Some(mut row) = row {
            *count = row.take()?;
        }
    }
    Ok(rollback_counts(counts))
}

const fn rollback_counts([steps, decisions, calls]: [u64; 3]) -> RollbackCounts {
    RollbackCounts {
        decisions,
        calls,
        steps,
    }
}

/// Stores the state of a rollback.
pub fn set_rollback(
    unit: &mut UnitOfWork<'_>,
    plan: PlanId,
    number: u64,
    state: RollbackState,
    report: Option<&RollbackReport>,
) -> Result<(), Error> {
    unit.execute(
        "UPDATE plan_rollbacks SET state = ?3, report = coalesce(?4, report) WHERE plan_id = ?1 AND number = ?2",
        params![plan, number, state.as_str(), report.map(|report| json!(report).to_string())],
    )?;
    let kind = match state {
        RollbackState::Done => EventKind::PlanRolledBack,
        RollbackState::Redone => EventKind::PlanRedone,
        RollbackState::Begun | RollbackState::Redoing => return Ok(()),
    };
    emit(
        unit,
        kind,
        plan,
        json!({"number": number, "report": report}),
    );
    Ok(())
}

/// The tool calls in effect that a plan made while some of its steps ran, oldest first: their ids and tools.
pub fn calls_of_steps(
    reader: &mut dyn Reader,
    plan: PlanId,
    steps: &[u64],
) -> Result<Vec<(ToolInvocationId, String)>, Error> {
    let mut calls = Vec::new();
    for step in steps {
        let rows = reader.query(
            "SELECT invocation_id, tool FROM tool_invocations WHERE plan_id = ?1 AND undone_by IS NULL \
             AND started_at >= (SELECT started_at FROM plan_steps WHERE plan_id = ?1 AND number = ?2) \
             AND started_at <= coalesce((SELECT finished_at FROM plan_steps WHERE plan_id = ?1 AND number = ?2), started_at) \
             ORDER BY invocation_id",
            params![plan, *step],
        )?;
        for mut row in rows {
            calls.push((row.take()?, row.take()?));
        }
    }
    calls.sort_unstable();
    calls.dedup();
    Ok(calls)
}

/// Stores a correction that is complete, marks the steps and tool calls that it undoes, and supersedes the decisions
/// that it affects. Returns the number of the correction among the rollbacks of the plan.
pub fn correct(
    unit: &mut UnitOfWork<'_>,
    plan: PlanId,
    origin: &RollbackOrigin,
    scope: &CorrectionScope,
    report: &RollbackReport,
) -> Result<(u64, RollbackCounts), Error> {
    let number = begin_rollback(unit, plan, 0, origin)?;
    let now = unit.now();
    let mut counts = RollbackCounts::default();
    for step in &scope.steps {
        counts.calls += unit.execute(
            "UPDATE tool_invocations SET undone_by = ?3 WHERE plan_id = ?1 AND undone_by IS NULL \
             AND started_at >= (SELECT started_at FROM plan_steps WHERE plan_id = ?1 AND number = ?2) \
             AND started_at <= coalesce((SELECT finished_at FROM plan_steps WHERE plan_id = ?1 AND number = ?2), ?4)",
            params![plan, *step, number, now],
        )?;
        counts.steps += unit.execute(
            "UPDATE plan_steps SET undone_by = ?3, finished_at = coalesce(finished_at, ?4), \
             state = CASE WHEN state = 'running' THEN 'failed' ELSE state END \
             WHERE plan_id = ?1 AND number = ?2 AND undone_by IS NULL",
            params![plan, *step, number, now],
        )?;
    }
    super::decisions::supersede(unit, plan, &scope.decisions, scope.correction)?;
    counts.decisions = scope.decisions.len() as u64;
    let report = RollbackReport {
        undone: counts,
        ..report.clone()
    };
    set_rollback(unit, plan, number, RollbackState::Done, Some(&report))?;
    Ok((number, counts))
}

/// Undoes a correction: its decision is undone, and the decisions that it superseded are in effect again.
pub fn undo_correction(
    unit: &mut UnitOfWork<'_>,
    plan: PlanId,
    number: u64,
    scope: &CorrectionScope,
) -> Result<RollbackCounts, Error> {
    let counts = redo(unit, plan, number)?;
    let decisions = unit.execute(
        "UPDATE plan_decisions SET superseded_by = NULL WHERE plan_id = ?1 AND superseded_by = ?2",
        params![plan, scope.correction],
    )?;
    unit.execute(
        "UPDATE plan_decisions SET undone_by = ?3 WHERE plan_id = ?1 AND decision_id = ?2",
        params![plan, scope.correction, number],
    )?;
    unit.execute(
        "DELETE FROM plan_guidance WHERE plan_id = ?1 AND decision_id = ?2",
        params![plan, scope.correction],
    )?;
    set_rollback(unit, plan, number, RollbackState::Redone, None)?;
    Ok(RollbackCounts {
        decisions,
        ..counts
    })
}

/// Redoes a rollback: clears the mark of every record that it undid.
pub fn redo(
    unit: &mut UnitOfWork<'_>,
    plan: PlanId,
    rollback: u64,
) -> Result<RollbackCounts, Error> {
    let mut restore = |table: &str| {
        unit.execute(
            &format!("UPDATE {table} SET undone_by = NULL WHERE plan_id = ?1 AND undone_by = ?2"),
            params![plan, rollback],
        )
    };
    Ok(RollbackCounts {
        steps: restore("plan_steps")?,
        decisions: restore("plan_decisions")?,
        calls: restore("tool_invocations")?,
    })
}
