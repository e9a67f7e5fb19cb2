//! Decisions of plans, each with the earlier decisions that influenced it.

use std::collections::HashMap;

use cleveragents_domain::{
    Decision, DecisionId, DecisionType, EventKind, NewDecision, NewEvent, PlanId, PlanPhase,
};
use serde_json::json;

use super::stored_json;
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Row, params};

macro_rules! columns {
    () => {
        "decision_id, plan_id, parent_decision_id, sequence, decision_type, phase, question, chosen, \
         alternatives, confidence, rationale, reasoning, snapshot, artifacts, corrects, correction_reason, \
         superseded_by, undone_by, created_at"
    };
}

#[expect(
    clippy::cast_precision_loss,
    reason = "confidence is stored in thousandths"
)]
fn read(mut row: Row) -> Result<Decision, Error> {
    let id = row.take()?;
    let plan = row.take()?;
    let parent = row.take()?;
    let sequence = row.take()?;
    let kind: String = row.take()?;
    let phase: String = row.take()?;
    Ok(Decision {
        plan,
        sequence,
        content: NewDecision {
            id,
            parent,
            kind: DecisionType::from_stored(&kind)
                .ok_or_else(|| Error::stored("the type of a decision", format!("is `{kind}`")))?,
            phase: PlanPhase::ALL
                .into_iter()
                .find(|known| known.as_str() == phase)
                .ok_or_else(|| Error::stored("the phase of a decision", format!("is `{phase}`")))?,
            question: row.take()?,
            chosen: row.take()?,
            alternatives: stored_json("the alternatives of a decision", &row.take::<String>()?)?,
            confidence: row
                .take::<Option<u64>>()?
                .map(|thousandths| thousandths as f64 / 1_000.0),
            rationale: row.take()?,
            reasoning: row.take()?,
            snapshot: stored_json("the snapshot of a decision", &row.take::<String>()?)?,
            artifacts: stored_json("the artifacts of a decision", &row.take::<String>()?)?,
            influenced_by: Vec::new(),
        },
        corrects: row.take()?,
        correction_reason: row.take()?,
        superseded_by: row.take()?,
        undone_by: row.take()?,
        created_at: row.take()?,
    })
}

/// Stores a decision as the next one of its plan and returns its number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value is from 0 to 1000"
)]
pub fn insert(unit: &mut UnitOfWork<'_>, plan: PlanId, new: &NewDecision) -> Result<u64, Error> {
    let now = unit.now();
    let to_text = |value: serde_json::Value| value.to_string();
    let row = unit.execute_returning(
        "INSERT INTO plan_decisions (decision_id, plan_id, parent_decision_id, sequence, decision_type, phase, \
         question, chosen, alternatives, confidence, rationale, reasoning, snapshot, artifacts, created_at) \
         VALUES (?1, ?2, ?3, \
         (SELECT coalesce(max(sequence), 0) + 1 FROM plan_decisions WHERE plan_id = ?2), \
         ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14) RETURNING sequence",
        params![
            new.id,
            plan,
            new.parent,
            new.kind.as_str(),
            new.phase.as_str(),
            &new.question,
            &new.chosen,
            to_text(json!(new.alternatives)),
            new.confidence
                .map(|confidence| (confidence.clamp(0.0, 1.0) * 1_000.0).round() as u64),
            &new.rationale,
            new.reasoning.as_deref(),
            to_text(json!(new.snapshot)),
            to_text(json!(new.artifacts)),
            now
        ],
    )?;
    let sequence = match row {
        Some(mut row) => row.take()?,
        None => return Err(Error::stored("a decision", "was not stored")),
    };
    for influence in &new.influenced_by {
        unit.execute(
            "INSERT INTO decision_influences (decision_id, influenced_by) VALUES (?1, ?2) \
             ON CONFLICT (decision_id, influenced_by) DO NOTHING",
            params![new.id, *influence],
        )?;
    }
    unit.emit(NewEvent {
        kind: EventKind::DecisionCreated,
        subject: plan.to_string(),
        payload: json!({
            "decision_id": new.id, "type": new.kind.as_str(), "chosen": new.chosen,
            "sequence": sequence,
        }),
    });
    Ok(sequence)
}

/// All decisions of a plan in the order in which they were made, each with its influences.
pub fn of_plan(reader: &mut dyn Reader, plan: PlanId) -> Result<Vec<Decision>, Error> {
    let mut decisions = reader
        .query(
            concat!(
                "SELECT ",
                columns!(),
                " FROM plan_decisions WHERE plan_id = ?1 ORDER BY sequence"
            ),
            params![plan],
        )?
        .into_iter()
        .map(read)
        .collect::<Result<Vec<_>, _>>()?;
    let edges = reader.query(
        "SELECT decision_influences.decision_id, influenced_by FROM decision_influences \
         JOIN plan_decisions ON plan_decisions.decision_id = decision_influences.decision_id \
         WHERE plan_id = ?1 ORDER BY influenced_by",
        params![plan],
    )?;
    let indices: HashMap<DecisionId, usize> = decisions
        .iter()
        .enumerate()
        .map(|(index, decision)| (decision.content.id, index))
        .collect();
    for mut edge in edges {
        let (influenced, influence): (DecisionId, DecisionId) = (edge.take()?, edge.take()?);
        if let Some(index) = indices.get(&influenced) {
            decisions[*index].content.influenced_by.push(influence);
        }
    }
    Ok(decisions)
}

/// Decisions whose id starts with `prefix`.
pub fn with_prefix(
    reader: &mut dyn Reader,
    prefix: &str,
    limit: u64,
) -> Result<Vec<Decision>, Error> {
    let end = format!("{prefix}~");
    reader
        .query(
            concat!(
                "SELECT ",
                columns!(),
                " FROM plan_decisions WHERE decision_id >= ?1 AND decision_id < ?2 \
                 ORDER BY decision_id LIMIT ?3"
            ),
            params![prefix, end, limit],
        )?
        .into_iter()
        .map(read)
        .collect()
}

/// Stores that a decision corrects another one, and why.
pub fn set_corrected(
    unit: &mut UnitOfWork<'_>,
    decision: DecisionId,
    corrects: DecisionId,
    reason: &str,
) -> Result<(), Error> {
    unit.execute(
        "UPDATE plan_decisions SET corrects = ?2, correction_reason = ?3 WHERE decision_id = ?1",
        params![decision, corrects, reason],
    )?;
    Ok(())
}

/// Marks decisions of a plan as superseded by another one.
pub fn supersede(
    unit: &mut UnitOfWork<'_>,
    plan: PlanId,
    old: &[DecisionId],
    by: DecisionId,
) -> Result<(), Error> {
    for id in old {
        unit.execute(
            "UPDATE plan_decisions SET superseded_by = ?2 WHERE decision_id = ?1 AND superseded_by IS NULL",
            params![*id, by],
        )?;
        unit.emit(NewEvent {
            kind: EventKind::DecisionSuperseded,
            subject: plan.to_string(),
            payload: json!({"decision_id": id, "by": by}),
        });
    }
    Ok(())
}
