//! What plans did piece by piece, what was taken back of it, and what people said to them.

use cleveragents_domain::{
    DecisionId, EventKind, NewEvent, PlanId, RunId, StepRecord, StepState, Timestamp,
};
use serde_json::{Value, json};

use super::stored_json;
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Row, params};

fn emit(unit: &mut UnitOfWork<'_>, kind: EventKind, plan: PlanId, payload: Value) {
    unit.emit(NewEvent {
        kind,
        subject: plan.to_string(),
        payload,
    });
}

macro_rules! columns {
    () => {
        "number, path, title, state, run_id, checkpoint, position_before, position_after, summary, decision_id, \
         started_at, finished_at, undone_by"
    };
}

fn read(mut row: Row) -> Result<StepRecord, Error> {
    Ok(StepRecord {
        number: row.take()?,
        path: row.take()?,
        title: row.take()?,
        state: {
            let state: String = row.take()?;
            StepState::from_stored(&state)
                .ok_or_else(|| Error::stored("the state of a step", format!("is `{state}`")))?
        },
        run: row.take()?,
        checkpoint: row.take()?,
        position_before: row.take()?,
        position_after: row.take()?,
        summary: row.take()?,
        decision: row.take()?,
        started_at: row.take()?,
        finished_at: row.take()?,
        undone_by: row.take()?,
    })
}

/// A step that is about to be done.
#[derive(Debug, Clone)]
pub struct NewStep {
    /// What it is.
    pub path: String,
    /// What it is called.
    pub title: String,
    /// The checkpoint before it.
    pub checkpoint: Option<u64>,
    /// How long the history of the sandbox is.
    pub position: u64,
}

/// Stores a step before it is done and gives its number, which with the plan decides the id of its run.
/// One that was begun before and did not end is gone on with; one that failed is begun anew.
pub fn begin(unit: &mut UnitOfWork<'_>, plan: PlanId, new: &NewStep) -> Result<StepRecord, Error> {
    if let Some(there) = current(unit, plan, &new.path)? {
        if there.state != StepState::Failed {
            return Ok(there);
        }
        let now = unit.now();
        unit.execute(
            "UPDATE plan_steps SET state = 'running', finished_at = NULL, summary = NULL, started_at = ?3 \
             WHERE plan_id = ?1 AND number = ?2",
            params![plan, there.number, now],
        )?;
    } else {
        let now = unit.now();
        unit.execute(
            "INSERT INTO plan_steps (plan_id, number, path, title, state, checkpoint, position_before, started_at) \
             VALUES (?1, (SELECT coalesce(max(number) + 1, 0) FROM plan_steps WHERE plan_id = ?1), \
             ?2, ?3, 'running', ?4, ?5, ?6)",
            params![plan, &new.path, &new.title, new.checkpoint, new.position, now],
        )?;
    }
    emit(
        unit,
        EventKind::PlanStepStarted,
        plan,
        json!({"path": new.path, "title": new.title}),
    );
    current(unit, plan, &new.path)?.ok_or_else(|| Error::stored("a step of a plan", "is missing"))
}

/// Says by which run a step is done.
pub fn set_run(
    unit: &mut UnitOfWork<'_>,
    plan: PlanId,
    number: u64,
    run: RunId,
) -> Result<(), Error> {
    unit.execute(
        "UPDATE plan_steps SET run_id = ?3 WHERE plan_id = ?1 AND number = ?2",
        params![plan, number, run],
    )?;
    Ok(())
}

/// How a step ended.
#[derive(Debug, Clone)]
pub struct StepEnd {
    /// Done or failed.
    pub state: StepState,
    /// In words.
    pub summary: String,
    /// How long the history of the sandbox is.
    pub position: u64,
    /// The decision that tells of it.
    pub decision: Option<DecisionId>,
}

/// Stores how a step ended. `false` when it had ended before.
pub fn finish(
    unit: &mut UnitOfWork<'_>,
    plan: PlanId,
    number: u64,
    end: &StepEnd,
) -> Result<bool, Error> {
    let now = unit.now();
    let touched = unit.execute(
        "UPDATE plan_steps SET state = ?3, summary = ?4, position_after = ?5, decision_id = ?6, finished_at = ?7 \
         WHERE plan_id = ?1 AND number = ?2 AND state = 'running'",
        params![
            plan,
            number,
            end.state.as_str(),
            &end.summary,
            end.position,
            end.decision,
            now
        ],
    )?;
    if touched > 0 {
        emit(
            unit,
            EventKind::PlanStepFinished,
            plan,
            json!({"number": number, "state": end.state, "summary": end.summary}),
        );
    }
    Ok(touched > 0)
}

/// The step at a path that was not taken back.
pub fn current(
    reader: &mut dyn Reader,
    plan: PlanId,
    path: &str,
) -> Result<Option<StepRecord>, Error> {
    reader
        .query_first(
            concat!(
                "SELECT ",
                columns!(),
                " FROM plan_steps WHERE plan_id = ?1 AND path = ?2 AND undone_by IS NULL"
            ),
            params![plan, path],
        )?
        .map(read)
        .transpose()
}

/// Every step of a plan in the order in which they were begun, those included that were taken back.
pub fn of_plan(reader: &mut dyn Reader, plan: PlanId) -> Result<Vec<StepRecord>, Error> {
    reader
        .query(
            concat!(
                "SELECT ",
                columns!(),
                " FROM plan_steps WHERE plan_id = ?1 ORDER BY number"
            ),
            params![plan],
        )?
        .into_iter()
        .map(read)
        .collect()
}

/// How far a rollback of a plan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RollbackState {
    /// The files are on their way back.
    Begun,
    /// It is done.
    Done,
    /// The files are on their way forward again.
    Redoing,
    /// It was taken back.
    Redone,
}

impl RollbackState {
    /// The state as stored.
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

/// A rollback of a plan.
#[derive(Debug, Clone)]
pub struct Rollback {
    /// Its number, from 1.
    pub number: u64,
    /// The checkpoint of the sandbox it led to.
    pub checkpoint: u64,
    /// How far it is.
    pub state: RollbackState,
    /// Where the plan was before.
    pub before: Value,
    /// What it did.
    pub report: Option<Value>,
    /// When.
    pub created_at: Timestamp,
}

/// The rollbacks of a plan, oldest first.
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
                before: stored_json("a rollback", &row.take::<String>()?)?,
                report: row
                    .take::<Option<String>>()?
                    .map(|text| stored_json("the report of a rollback", &text))
                    .transpose()?,
                created_at: row.take()?,
            })
        })
        .collect()
}

/// Writes down that a plan is to be taken back, before anything is. Gives the number of the rollback.
pub fn begin_rollback(
    unit: &mut UnitOfWork<'_>,
    plan: PlanId,
    checkpoint: u64,
    before: &Value,
) -> Result<u64, Error> {
    let now = unit.now();
    let row = unit.execute_returning(
        "INSERT INTO plan_rollbacks (plan_id, number, checkpoint, state, before, created_at) VALUES (?1, \
         (SELECT coalesce(max(number), 0) + 1 FROM plan_rollbacks WHERE plan_id = ?1), ?2, 'begun', ?3, ?4) \
         RETURNING number",
        params![plan, checkpoint, before.to_string(), now],
    )?;
    match row {
        Some(mut row) => row.take(),
        None => Err(Error::stored("a rollback", "was not stored")),
    }
}

/// What a rollback took back, beside files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Undone {
    /// Decisions.
    pub decisions: u64,
    /// Calls of tools.
    pub calls: u64,
    /// Steps.
    pub steps: u64,
}

/// What a plan did after a moment: steps that were begun, decisions and calls that were made. What
/// was decided while it was thought out stays.
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

/// Takes back what a plan did after a moment.
pub fn undo_after(
    unit: &mut UnitOfWork<'_>,
    plan: PlanId,
    rollback: u64,
    position: u64,
    moment: Timestamp,
) -> Result<Undone, Error> {
    let mut counts = [0; 3];
    for ((table, after), count) in AFTER.iter().zip(&mut counts) {
        *count = unit.execute(
            &format!(
                "UPDATE {table} SET undone_by = ?4 WHERE plan_id = ?1 AND undone_by IS NULL AND {after}"
            ),
            params![plan, position, moment, rollback],
        )?;
    }
    Ok(undone(counts))
}

/// What [`undo_after`] would take back.
pub fn count_after(
    reader: &mut dyn Reader,
    plan: PlanId,
    position: u64,
    moment: Timestamp,
) -> Result<Undone, Error> {
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
    Ok(undone(counts))
}

const fn undone([steps, decisions, calls]: [u64; 3]) -> Undone {
    Undone {
        decisions,
        calls,
        steps,
    }
}

/// Says how far a rollback is.
pub fn set_rollback(
    unit: &mut UnitOfWork<'_>,
    plan: PlanId,
    number: u64,
    state: RollbackState,
    report: Option<&Value>,
) -> Result<(), Error> {
    unit.execute(
        "UPDATE plan_rollbacks SET state = ?3, report = coalesce(?4, report) WHERE plan_id = ?1 AND number = ?2",
        params![plan, number, state.as_str(), report.map(Value::to_string)],
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

/// Takes back a rollback: what it took back holds again, what was begun since does not.
pub fn redo(unit: &mut UnitOfWork<'_>, plan: PlanId, rollback: u64) -> Result<Undone, Error> {
    let mut back = |table: &str| {
        unit.execute(
            &format!("UPDATE {table} SET undone_by = NULL WHERE plan_id = ?1 AND undone_by = ?2"),
            params![plan, rollback],
        )
    };
    Ok(Undone {
        steps: back("plan_steps")?,
        decisions: back("plan_decisions")?,
        calls: back("tool_invocations")?,
    })
}

/// Something a person said to a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guidance {
    /// Its number.
    pub number: u64,
    /// What was said.
    pub text: String,
    /// The decision that tells of it.
    pub decision: DecisionId,
    /// When.
    pub created_at: Timestamp,
    /// When it was heeded.
    pub applied_at: Option<Timestamp>,
}

/// Stores what a person said.
pub fn guide(
    unit: &mut UnitOfWork<'_>,
    plan: PlanId,
    text: &str,
    decision: DecisionId,
) -> Result<(), Error> {
    let now = unit.now();
    unit.execute(
        "INSERT INTO plan_guidance (plan_id, number, guidance, decision_id, created_at) VALUES (?1, \
         (SELECT coalesce(max(number) + 1, 0) FROM plan_guidance WHERE plan_id = ?1), ?2, ?3, ?4)",
        params![plan, text, decision, now],
    )?;
    emit(unit, EventKind::PlanGuided, plan, json!({"guidance": text}));
    Ok(())
}

/// Everything that was said to a plan, oldest first.
pub fn guidance(reader: &mut dyn Reader, plan: PlanId) -> Result<Vec<Guidance>, Error> {
    reader
        .query(
            "SELECT number, guidance, decision_id, created_at, applied_at FROM plan_guidance \
             WHERE plan_id = ?1 ORDER BY number",
            params![plan],
        )?
        .into_iter()
        .map(|mut row| {
            Ok(Guidance {
                number: row.take()?,
                text: row.take()?,
                decision: row.take()?,
                created_at: row.take()?,
                applied_at: row.take()?,
            })
        })
        .collect()
}

/// Says that a plan has heeded what was said up to a number.
pub fn heed(unit: &mut UnitOfWork<'_>, plan: PlanId, through: u64) -> Result<(), Error> {
    let now = unit.now();
    unit.execute(
        "UPDATE plan_guidance SET applied_at = ?3 WHERE plan_id = ?1 AND number <= ?2 AND applied_at IS NULL",
        params![plan, through, now],
    )?;
    Ok(())
}

/// What a person answered to a gate, a call or a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanAnswer {
    /// Its number.
    pub number: u64,
    /// What it answers.
    pub subject: String,
    /// `approved`, `rejected` or `answered`.
    pub verdict: String,
    /// In words.
    pub answer: Option<String>,
    /// Who.
    pub person: String,
    /// When.
    pub created_at: Timestamp,
    /// When it was made use of.
    pub used_at: Option<Timestamp>,
}

/// Stores an answer.
pub fn answer(
    unit: &mut UnitOfWork<'_>,
    plan: PlanId,
    subject: &str,
    verdict: &str,
    text: Option<&str>,
    person: &str,
) -> Result<(), Error> {
    let now = unit.now();
    unit.execute(
        "INSERT INTO plan_answers (plan_id, number, subject, verdict, answer, person, created_at) VALUES (?1, \
         (SELECT coalesce(max(number) + 1, 0) FROM plan_answers WHERE plan_id = ?1), ?2, ?3, ?4, ?5, ?6)",
        params![plan, subject, verdict, text, person, now],
    )?;
    emit(
        unit,
        EventKind::PlanAnswered,
        plan,
        json!({"subject": subject, "verdict": verdict, "answer": text, "person": person}),
    );
    Ok(())
}

/// The answers that a plan got, oldest first.
pub fn answers(reader: &mut dyn Reader, plan: PlanId) -> Result<Vec<PlanAnswer>, Error> {
    reader
        .query(
            "SELECT number, subject, verdict, answer, person, created_at, used_at FROM plan_answers \
             WHERE plan_id = ?1 ORDER BY number",
            params![plan],
        )?
        .into_iter()
        .map(|mut row| {
            Ok(PlanAnswer {
                number: row.take()?,
                subject: row.take()?,
                verdict: row.take()?,
                answer: row.take()?,
                person: row.take()?,
                created_at: row.take()?,
                used_at: row.take()?,
            })
        })
        .collect()
}

/// Takes the oldest answer to a subject that was not made use of yet: each serves once.
pub fn take_answer(
    unit: &mut UnitOfWork<'_>,
    plan: PlanId,
    subject: &str,
) -> Result<Option<PlanAnswer>, Error> {
    let Some(found) = answers(unit, plan)?
        .into_iter()
        .find(|answer| answer.subject == subject && answer.used_at.is_none())
    else {
        return Ok(None);
    };
    let now = unit.now();
    let touched = unit.execute(
        "UPDATE plan_answers SET used_at = ?3 WHERE plan_id = ?1 AND number = ?2 AND used_at IS NULL",
        params![plan, found.number, now],
    )?;
    Ok((touched > 0).then_some(found))
}
