//! Attempts of pools on work items, and the reviews of their results.
//!
//! The schema allows one running attempt per item. An attempt ends through one statement that names its fencing token,
//! so a worker that lost its lease cannot end an attempt of its successor.

use cleveragents_domain::{
    Attempt, AttemptId, AttemptOutcome, EventKind, GateResult, LeaseToken, MicroUsd, PastAttempt,
    PlanId, PoolRole, RegressionProof, StoredReview, Timestamp, WorkItemId,
};
use serde_json::json;

use super::stored_json;
use super::work_items::{emit, json_text, named, named_or_null};
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Row, params};

macro_rules! columns {
    () => {
        "attempt_id, item_id, pool, role, number, round, tier, actor, base, head, plan_id, token, outcome, reason, \
         gates, regression, summary, reserved, cost, started_at, finished_at"
    };
}

fn read(mut row: Row) -> Result<Attempt, Error> {
    Ok(Attempt {
        id: row.take()?,
        item: row.take()?,
        pool: row.take()?,
        role: named(&mut row, "the role of an attempt", PoolRole::from_stored)?,
        number: row.take()?,
        round: row.take()?,
        tier: row.take()?,
        actor: row.take()?,
        base: row.take()?,
        head: row.take()?,
        plan: row.take()?,
        token: LeaseToken(row.take()?),
        outcome: named_or_null(
            &mut row,
            "the outcome of an attempt",
            AttemptOutcome::from_stored,
        )?,
        reason: row.take()?,
        gates: {
            let text: String = row.take()?;
            if text == "[]" {
                Vec::new()
            } else {
                stored_json("the gates of an attempt", &text)?
            }
        },
        regression: row
            .take::<Option<String>>()?
            .map(|text| stored_json("the regression proof of an attempt", &text))
            .transpose()?,
        summary: row.take()?,
        reserved: MicroUsd(row.take()?),
        cost: MicroUsd(row.take()?),
        started_at: row.take()?,
        finished_at: row.take()?,
    })
}

/// An attempt that starts.
#[derive(Debug, Clone)]
pub struct NewAttempt {
    pub id: AttemptId,
    pub item: WorkItemId,
    /// Full name of the item's project.
    pub project: String,
    pub pool: String,
    pub role: PoolRole,
    pub round: u64,
    pub tier: String,
    pub actor: String,
    pub token: LeaseToken,
    pub reserved: MicroUsd,
}

/// Stores a running attempt and returns its number. `None` when another attempt on the item runs.
pub fn insert(unit: &mut UnitOfWork<'_>, new: &NewAttempt) -> Result<Option<u64>, Error> {
    let now = unit.now();
    let touched = unit.execute(
        "INSERT INTO attempts (attempt_id, item_id, pool, role, number, round, tier, actor, token, reserved, started_at) \
         SELECT ?1, ?2, ?3, ?4, coalesce(max(number), 0) + 1, ?5, ?6, ?7, ?8, ?9, ?10 \
         FROM attempts WHERE item_id = ?2 AND role = ?4 ON CONFLICT DO NOTHING",
        params![
            new.id,
            new.item,
            new.pool.as_str(),
            new.role.as_str(),
            new.round,
            new.tier.as_str(),
            new.actor.as_str(),
            new.token.0,
            new.reserved.0,
            now
        ],
    )?;
    if touched == 0 {
        return Ok(None);
    }
    let number = unit
        .query_first(
            "SELECT number FROM attempts WHERE attempt_id = ?1",
            params![new.id],
        )?
        .ok_or_else(|| Error::stored("an attempt", "is missing after its insertion"))?
        .take()?;
    let payload = json!({
        "attempt": new.id, "pool": new.pool, "role": new.role, "tier": new.tier, "actor": new.actor, "number": number,
    });
    emit(
        unit,
        EventKind::AttemptStarted,
        new.item,
        &new.project,
        payload,
    );
    Ok(Some(number))
}

#[derive(Debug, Clone)]
pub struct AttemptResult {
    pub outcome: AttemptOutcome,
    /// Given unless the attempt succeeded.
    pub reason: Option<String>,
    pub base: Option<String>,
    pub head: Option<String>,
    pub plan: Option<PlanId>,
    pub gates: Vec<GateResult>,
    pub regression: Option<RegressionProof>,
    pub summary: String,
    pub cost: MicroUsd,
}

impl AttemptResult {
    /// A result without gates or a change.
    pub const fn bare(outcome: AttemptOutcome, reason: Option<String>, cost: MicroUsd) -> Self {
        Self {
            outcome,
            reason,
            base: None,
            head: None,
            plan: None,
            gates: Vec::new(),
            regression: None,
            summary: String::new(),
            cost,
        }
    }
}

/// Ends a running attempt. Returns `false` when it has ended already or runs under another token.
pub fn finish(
    unit: &mut UnitOfWork<'_>,
    attempt: &Attempt,
    project: &str,
    result: &AttemptResult,
) -> Result<bool, Error> {
    let now = unit.now();
    let touched = unit.execute(
        "UPDATE attempts SET outcome = ?3, reason = ?4, base = ?5, head = ?6, plan_id = coalesce(?7, plan_id), \
         gates = ?8, regression = ?9, summary = ?10, cost = ?11, finished_at = ?12 \
         WHERE attempt_id = ?1 AND token = ?2 AND outcome IS NULL",
        params![
            attempt.id,
            attempt.token.0,
            result.outcome.as_str(),
            result.reason.as_deref(),
            result.base.as_deref(),
            result.head.as_deref(),
            result.plan,
            json_text(&result.gates)?,
            result.regression.as_ref().map(json_text).transpose()?,
            result.summary.as_str(),
            result.cost.0,
            now
        ],
    )?;
    if touched > 0 {
        let payload = json!({
            "attempt": attempt.id, "pool": attempt.pool, "role": attempt.role, "tier": attempt.tier,
            "outcome": result.outcome, "reason": result.reason, "cost_micro_usd": result.cost.0,
        });
        emit(
            unit,
            EventKind::AttemptFinished,
            attempt.item,
            project,
            payload,
        );
    }
    Ok(touched > 0)
}

/// Records the plan of a running attempt, so that its cost is known even if the process ends. Returns `false` when the
/// attempt has ended or runs under another token.
pub fn set_plan(
    unit: &mut UnitOfWork<'_>,
    attempt: AttemptId,
    token: LeaseToken,
    plan: PlanId,
) -> Result<bool, Error> {
    let touched = unit.execute(
        "UPDATE attempts SET plan_id = ?3 WHERE attempt_id = ?1 AND token = ?2 AND outcome IS NULL",
        params![attempt, token.0, plan],
    )?;
    Ok(touched > 0)
}

/// One attempt.
pub fn get(reader: &mut dyn Reader, id: AttemptId) -> Result<Option<Attempt>, Error> {
    let row = reader.query_first(
        concat!(
            "SELECT ",
            columns!(),
            " FROM attempts WHERE attempt_id = ?1"
        ),
        params![id],
    )?;
    row.map(read).transpose()
}

/// The attempts on an item, oldest first.
pub fn of_item(reader: &mut dyn Reader, item: WorkItemId) -> Result<Vec<Attempt>, Error> {
    let rows = reader.query(
        concat!(
            "SELECT ",
            columns!(),
            " FROM attempts WHERE item_id = ?1 ORDER BY started_at, attempt_id"
        ),
        params![item],
    )?;
    rows.into_iter().map(read).collect()
}

/// All running attempts, oldest first.
pub fn running(reader: &mut dyn Reader) -> Result<Vec<Attempt>, Error> {
    let rows = reader.query(
        concat!(
            "SELECT ",
            columns!(),
            " FROM attempts WHERE outcome IS NULL ORDER BY started_at, attempt_id"
        ),
        &[],
    )?;
    rows.into_iter().map(read).collect()
}

/// Number of running attempts: of all pools, and of one pool.
pub fn count_running(reader: &mut dyn Reader, pool: &str) -> Result<(u64, u64), Error> {
    let row = reader.query_first(
        "SELECT count(*), count(CASE WHEN pool = ?1 THEN 1 END) FROM attempts WHERE outcome IS NULL",
        params![pool],
    )?;
    row.map_or(Ok((0, 0)), |mut row| Ok((row.take()?, row.take()?)))
}

/// Number of items with an open change of a pool.
pub fn count_open_changes(reader: &mut dyn Reader, pool: &str) -> Result<u64, Error> {
    let row = reader.query_first(
        "SELECT count(*) FROM work_items \
         WHERE change_pool = ?1 AND state IN ('in_progress', 'in_review', 'approved')",
        params![pool],
    )?;
    row.map_or(Ok(0), |mut row| row.take())
}

/// The attempts of the current round on all open items of a project, oldest first.
pub fn past_of_project(
    reader: &mut dyn Reader,
    project: &str,
) -> Result<Vec<(WorkItemId, PastAttempt)>, Error> {
    let mut past = Vec::new();
    reader.query_each(
        "SELECT attempts.item_id, role, attempts.round, tier, outcome, attempts.reason \
         FROM attempts JOIN work_items ON work_items.item_id = attempts.item_id \
         AND work_items.round = attempts.round \
         WHERE project = ?1 AND work_items.state NOT IN ('completed', 'duplicate', 'wont_do') \
         ORDER BY started_at, attempt_id",
        params![project],
        &mut |mut row| {
            past.push((
                row.take()?,
                PastAttempt {
                    role: named(&mut row, "the role of an attempt", PoolRole::from_stored)?,
                    round: row.take()?,
                    tier: row.take()?,
                    outcome: named_or_null(
                        &mut row,
                        "the outcome of an attempt",
                        AttemptOutcome::from_stored,
                    )?,
                    reason: row.take()?,
                },
            ));
            Ok(())
        },
    )?;
    Ok(past)
}

/// Number and cost of the attempts of a pool with one tier and outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptCount {
    pub pool: String,
    pub tier: String,
    pub outcome: AttemptOutcome,
    pub count: u64,
    pub cost: MicroUsd,
}

/// Finished attempts per pool, tier and outcome, from a time on.
pub fn counts_since(reader: &mut dyn Reader, since: Timestamp) -> Result<Vec<AttemptCount>, Error> {
    let rows = reader.query(
        "SELECT pool, tier, outcome, count(*), CAST(coalesce(sum(cost), 0) AS BIGINT) FROM attempts \
         WHERE outcome IS NOT NULL AND finished_at >= ?1 GROUP BY pool, tier, outcome ORDER BY pool, tier, outcome",
        params![since],
    )?;
    let read = |mut row: Row| {
        Ok(AttemptCount {
            pool: row.take()?,
            tier: row.take()?,
            outcome: named(
                &mut row,
                "the outcome of an attempt",
                AttemptOutcome::from_stored,
            )?,
            count: row.take()?,
            cost: MicroUsd(row.take()?),
        })
    };
    rows.into_iter().map(read).collect()
}

/// Average cost of the finished attempts of a pool per tier.
pub fn average_costs(
    reader: &mut dyn Reader,
    pool: &str,
) -> Result<Vec<(String, MicroUsd)>, Error> {
    let rows = reader.query(
        "SELECT tier, CAST(avg(cost) AS BIGINT) FROM attempts \
         WHERE pool = ?1 AND outcome IS NOT NULL GROUP BY tier ORDER BY tier",
        params![pool],
    )?;
    let read = |mut row: Row| Ok((row.take()?, MicroUsd(row.take()?)));
    rows.into_iter().map(read).collect()
}

/// Stores a review. Returns `false` when the profile has reviewed this state of the item already.
pub fn insert_review(
    unit: &mut UnitOfWork<'_>,
    review: &StoredReview,
    project: &str,
) -> Result<bool, Error> {
    let now = unit.now();
    let touched = unit.execute(
        "INSERT INTO work_item_reviews (item_id, head, profile, attempt_id, actor, verdict, approves, reviewed_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (item_id, head, profile) DO NOTHING",
        params![
            review.item,
            review.head.as_str(),
            review.profile.as_str(),
            review.attempt,
            review.actor.as_str(),
            json_text(&review.verdict)?,
            review.approves,
            now
        ],
    )?;
    if touched > 0 {
        let payload =
            json!({"head": review.head, "profile": review.profile, "approves": review.approves});
        emit(
            unit,
            EventKind::WorkItemReviewed,
            review.item,
            project,
            payload,
        );
    }
    Ok(touched > 0)
}

/// The reviews of an item, oldest first.
pub fn reviews(reader: &mut dyn Reader, item: WorkItemId) -> Result<Vec<StoredReview>, Error> {
    let rows = reader.query(
        "SELECT item_id, head, profile, attempt_id, actor, verdict, approves, reviewed_at FROM work_item_reviews \
         WHERE item_id = ?1 ORDER BY reviewed_at, head, profile",
        params![item],
    )?;
    let read = |mut row: Row| {
        Ok(StoredReview {
            item: row.take()?,
            head: row.take()?,
            profile: row.take()?,
            attempt: row.take()?,
            actor: row.take()?,
            verdict: stored_json("the verdict of a review", &row.take::<String>()?)?,
            approves: row.take()?,
            reviewed_at: row.take()?,
        })
    };
    rows.into_iter().map(read).collect()
}
