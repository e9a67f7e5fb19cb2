//! Steps, guidance and answers of plans; rollbacks are in [`plan_rollbacks`](super::plan_rollbacks).

use cleveragents_domain::{
    AnswerVerdict, DecisionId, EventKind, NewEvent, PlanId, RunId, StepRecord, StepState, Timestamp,
};
use serde_json::{Value, json};

pub use super::plan_rollbacks::{
    CorrectionScope, Rollback, RollbackCounts, RollbackOrigin, RollbackReport, RollbackState,
    begin_rollback, calls_of_steps, correct, count_after, redo, rollbacks, set_rollback,
    undo_after, undo_correction,
};
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Row, params};

pub(super) fn emit(unit: &mut UnitOfWork<'_>, kind: EventKind, plan: PlanId, payload: Value) {
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

/// A step that is about to start.
#[derive(Debug, Clone)]
pub struct NewStep {
    /// Path of the step, see [`cleveragents_domain::StepKind`].
    pub path: String,
    /// Title shown to users.
    pub title: String,
    /// Sandbox checkpoint made before the step.
    pub checkpoint: Option<u64>,
    /// Number of entries in the sandbox history when the step starts.
    pub position: u64,
}

/// Stores a step before it runs and returns it. Its number and the plan determine the id of its run. An interrupted
/// step resumes; a failed step starts again.
pub fn begin(unit: &mut UnitOfWork<'_>, plan: PlanId, new: &NewStep) -> Result<StepRecord, Error> {
    if let Some(existing) = current(unit, plan, &new.path)? {
        if existing.state != StepState::Failed {
            return Ok(existing);
        }
        let now = unit.now();
        unit.execute(
            "UPDATE plan_steps SET state = 'running', finished_at = NULL, summary = NULL, started_at = ?3 \
             WHERE plan_id = ?1 AND number = ?2",
            params![plan, existing.number, now],
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

/// Stores the run of a step.
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

/// Stores the number of entries in the sandbox history before the changes of a step, for a step whose changes are
/// written when it ends.
pub fn set_start(
    unit: &mut UnitOfWork<'_>,
    plan: PlanId,
    number: u64,
    position: u64,
) -> Result<(), Error> {
    unit.execute(
        "UPDATE plan_steps SET position_before = ?3 WHERE plan_id = ?1 AND number = ?2",
        params![plan, number, position],
    )?;
    Ok(())
}

/// Outcome of a step.
#[derive(Debug, Clone)]
pub struct StepEnd {
    /// `Done` or `Failed`.
    pub state: StepState,
    /// Answer of the actor, or the error text.
    pub summary: String,
    /// Number of entries in the sandbox history when the step ends.
    pub position: u64,
    /// Decision recorded for the step.
    pub decision: Option<DecisionId>,
}

/// Stores the outcome of a step. Returns `false` when it had already ended.
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

/// The step with this path; `None` if there is none, or if it was rolled back.
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

/// All steps of a plan in the order in which they started, including rolled-back ones.
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

/// Guidance that a user gave to a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guidance {
    /// Number within the plan.
    pub number: u64,
    pub text: String,
    /// Decision that records the guidance.
    pub decision: DecisionId,
    /// Time at which it was given.
    pub created_at: Timestamp,
    /// Time at which an actor first read it.
    pub applied_at: Option<Timestamp>,
}

/// Stores guidance.
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

/// Guidance of a plan, oldest first.
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

/// Marks the guidance of a plan up to a number as applied.
pub fn mark_guidance_applied(
    unit: &mut UnitOfWork<'_>,
    plan: PlanId,
    through: u64,
) -> Result<(), Error> {
    let now = unit.now();
    unit.execute(
        "UPDATE plan_guidance SET applied_at = ?3 WHERE plan_id = ?1 AND number <= ?2 AND applied_at IS NULL",
        params![plan, through, now],
    )?;
    Ok(())
}

/// Answer of a user to a gate, a tool call or a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanAnswer {
    /// Number within the plan.
    pub number: u64,
    /// Key of the gate, tool call or question that the user answered.
    pub subject: String,
    /// Decision of the user.
    pub verdict: AnswerVerdict,
    /// Text of the answer, or the reason of a rejection.
    pub answer: Option<String>,
    /// User or token that answered.
    pub person: String,
    /// Time of the answer.
    pub created_at: Timestamp,
    /// Time at which the plan used the answer.
    pub used_at: Option<Timestamp>,
}

/// Stores an answer.
pub fn answer(
    unit: &mut UnitOfWork<'_>,
    plan: PlanId,
    subject: &str,
    verdict: AnswerVerdict,
    text: Option<&str>,
    person: &str,
) -> Result<(), Error> {
    let now = unit.now();
    unit.execute(
        "INSERT INTO plan_answers (plan_id, number, subject, verdict, answer, person, created_at) VALUES (?1, \
         (SELECT coalesce(max(number) + 1, 0) FROM plan_answers WHERE plan_id = ?1), ?2, ?3, ?4, ?5, ?6)",
        params![plan, subject, verdict.as_str(), text, person, now],
    )?;
    emit(
        unit,
        EventKind::PlanAnswered,
        plan,
        json!({"subject": subject, "verdict": verdict, "answer": text, "person": person}),
    );
    Ok(())
}

/// Answers to a plan, oldest first.
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
                verdict: {
                    let verdict: String = row.take()?;
                    AnswerVerdict::from_stored(&verdict).ok_or_else(|| {
                        Error::stored("the answer to a plan", format!("is `{verdict}`"))
                    })?
                },
                answer: row.take()?,
                person: row.take()?,
                created_at: row.take()?,
                used_at: row.take()?,
            })
        })
        .collect()
}

/// Takes the oldest unused answer to a subject and marks it as used. Each answer is used once.
pub fn take_answer(
    unit: &mut UnitOfWork<'_>,
    plan: PlanId,
    subject: &str,
) -> Result<Option<PlanAnswer>, Error> {
    let Some(unused) = answers(unit, plan)?
        .into_iter()
        .find(|answer| answer.subject == subject && answer.used_at.is_none())
    else {
        return Ok(None);
    };
    let now = unit.now();
    let touched = unit.execute(
        "UPDATE plan_answers SET used_at = ?3 WHERE plan_id = ?1 AND number = ?2 AND used_at IS NULL",
        params![plan, unused.number, now],
    )?;
    Ok((touched > 0).then_some(unused))
}
