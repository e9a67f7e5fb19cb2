//! Child plans and the conflicts of their merges.

use cleveragents_domain::{
    ChildPlan, ChildSettings, ChildState, ConflictResolution, DecisionId, FileState, MergeReason,
    PlanId, StoredConflict,
};
use serde::Serialize;

use super::stored_json;
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Row, params};

const COLUMNS: &str = "plan_id, parent_plan_id, number, step_number, decision_id, title, settings, state, tries, reason, \
                       created_at, finished_at";

/// A child plan to store. Its plan must be stored first.
#[derive(Debug, Clone)]
pub struct NewChild {
    pub plan: PlanId,
    pub parent: PlanId,
    /// Number of the parent's step that it executes.
    pub step: u64,
    pub spawned_by: Option<DecisionId>,
    pub title: String,
    pub settings: ChildSettings,
}

fn read(mut row: Row) -> Result<ChildPlan, Error> {
    Ok(ChildPlan {
        plan: row.take()?,
        parent: row.take()?,
        number: row.take()?,
        step: row.take()?,
        spawned_by: row.take()?,
        title: row.take()?,
        settings: stored_json("the settings of a child plan", &row.take::<String>()?)?,
        state: {
            let state: String = row.take()?;
            ChildState::from_stored(&state).ok_or_else(|| {
                Error::stored("the state of a child plan", format!("is `{state}`"))
            })?
        },
        tries: row.take()?,
        reason: row.take()?,
        created_at: row.take()?,
        finished_at: row.take()?,
    })
}

fn text<T: Serialize>(value: &T) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| Error::stored("a child plan", error.to_string()))
}

/// Stores a child plan as the last one of its parent. Fails if the step already has a child plan that is not cancelled.
pub fn insert(unit: &mut UnitOfWork<'_>, new: &NewChild) -> Result<(), Error> {
    let now = unit.now();
    unit.execute(
        "INSERT INTO child_plans (plan_id, parent_plan_id, number, step_number, decision_id, title, settings, state, \
         created_at) SELECT ?1, ?2, coalesce(max(number), 0) + 1, ?3, ?4, ?5, ?6, 'open', ?7 \
         FROM child_plans WHERE parent_plan_id = ?2",
        params![
            new.plan,
            new.parent,
            new.step,
            new.spawned_by,
            new.title.as_str(),
            text(&new.settings)?,
            now
        ],
    )?;
    Ok(())
}

/// The child plans of a plan, in the order of their numbers.
pub fn of_plan(reader: &mut dyn Reader, parent: PlanId) -> Result<Vec<ChildPlan>, Error> {
    let statement =
        format!("SELECT {COLUMNS} FROM child_plans WHERE parent_plan_id = ?1 ORDER BY number");
    let rows = reader.query(&statement, params![parent])?;
    rows.into_iter().map(read).collect()
}

/// The place of a plan in its parent; `None` if it is not a child plan.
pub fn get(reader: &mut dyn Reader, plan: PlanId) -> Result<Option<ChildPlan>, Error> {
    let statement = format!("SELECT {COLUMNS} FROM child_plans WHERE plan_id = ?1");
    let row = reader.query_first(&statement, params![plan])?;
    row.map(read).transpose()
}

/// Changes the state of a child plan. Returns `false` if it is in none of the states `from`.
pub fn set_state(
    unit: &mut UnitOfWork<'_>,
    plan: PlanId,
    from: &[ChildState],
    to: ChildState,
    reason: Option<&str>,
) -> Result<bool, Error> {
    let now = unit.now();
    for state in from {
        let touched = unit.execute(
            "UPDATE child_plans SET state = ?3, reason = ?4, finished_at = ?5 WHERE plan_id = ?1 AND state = ?2",
            params![
                plan,
                state.as_str(),
                to.as_str(),
                reason,
                to.is_over().then_some(now)
            ],
        )?;
        if touched > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Counts a failed try of a child plan. Returns the number of failed tries.
pub fn count_try(unit: &mut UnitOfWork<'_>, plan: PlanId) -> Result<u64, Error> {
    unit.execute(
        "UPDATE child_plans SET tries = tries + 1 WHERE plan_id = ?1",
        params![plan],
    )?;
    let row = unit.query_first(
        "SELECT tries FROM child_plans WHERE plan_id = ?1",
        params![plan],
    )?;
    row.map_or(Ok(0), |mut row| row.take())
}

/// Replaces the conflicts of a plan. The resolution of a conflict that stays the same is kept.
pub fn set_conflicts(
    unit: &mut UnitOfWork<'_>,
    parent: PlanId,
    found: &[StoredConflict],
) -> Result<(), Error> {
    let before = conflicts(unit, parent)?;
    unit.execute(
        "DELETE FROM merge_conflicts WHERE parent_plan_id = ?1",
        params![parent],
    )?;
    let now = unit.now();
    for conflict in found {
        let resolution = before
            .iter()
            .find(|known| {
                let unresolved = StoredConflict {
                    resolution: conflict.resolution.clone(),
                    ..(*known).clone()
                };
                unresolved == *conflict
            })
            .and_then(|known| known.resolution.clone());
        let state = |state: &Option<FileState>| state.as_ref().map(text).transpose();
        unit.execute(
            "INSERT INTO merge_conflicts (child_plan_id, alias, path, parent_plan_id, reason, base, ours, theirs, \
             resolution, created_at, resolved_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            params![
                conflict.child,
                conflict.alias.as_str(),
                conflict.path.to_string(),
                parent,
                conflict.reason.as_str(),
                state(&conflict.base)?,
                state(&conflict.ours)?,
                state(&conflict.theirs)?,
                resolution.as_ref().map(text).transpose()?,
                now,
                resolution.is_some().then_some(now)
            ],
        )?;
    }
    Ok(())
}

/// The conflicts of a plan, by child plan and path.
pub fn conflicts(reader: &mut dyn Reader, parent: PlanId) -> Result<Vec<StoredConflict>, Error> {
    let rows = reader.query(
        "SELECT merge_conflicts.parent_plan_id, child_plan_id, alias, path, merge_conflicts.reason, base, ours, theirs, \
         resolution FROM merge_conflicts JOIN child_plans ON child_plans.plan_id = child_plan_id \
         WHERE merge_conflicts.parent_plan_id = ?1 ORDER BY child_plans.number, alias, path",
        params![parent],
    )?;
    rows.into_iter().map(read_conflict).collect()
}

fn read_conflict(mut row: Row) -> Result<StoredConflict, Error> {
    let wrong =
        |what: &'static str| move |text: String| Error::stored(what, format!("is `{text}`"));
    Ok(StoredConflict {
        parent: row.take()?,
        child: row.take()?,
        alias: row.take()?,
        path: {
            let path: String = row.take()?;
            path.parse()
                .map_err(|_| wrong("the path of a conflict")(path))?
        },
        reason: {
            let reason: String = row.take()?;
            MergeReason::from_stored(&reason)
                .ok_or_else(|| wrong("the reason of a conflict")(reason))?
        },
        base: read_state(&mut row)?,
        ours: read_state(&mut row)?,
        theirs: read_state(&mut row)?,
        resolution: row
            .take::<Option<String>>()?
            .map(|text| stored_json("the resolution of a conflict", &text))
            .transpose()?,
    })
}

fn read_state(row: &mut Row) -> Result<Option<FileState>, Error> {
    row.take::<Option<String>>()?
        .map(|text| stored_json("a state of a conflict", &text))
        .transpose()
}

/// Stores the resolution of a conflict. Returns `false` if the conflict does not exist any more.
pub fn resolve(
    unit: &mut UnitOfWork<'_>,
    child: PlanId,
    alias: &str,
    path: &str,
    resolution: &ConflictResolution,
) -> Result<bool, Error> {
    let now = unit.now();
    let touched = unit.execute(
        "UPDATE merge_conflicts SET resolution = ?4, resolved_at = ?5 \
         WHERE child_plan_id = ?1 AND alias = ?2 AND path = ?3",
        params![child, alias, path, text(resolution)?, now],
    )?;
    Ok(touched > 0)
}

/// Replaces the state of the parent in a conflict, after the resolution of a conflict of an earlier child plan.
pub fn set_ours(
    unit: &mut UnitOfWork<'_>,
    child: PlanId,
    alias: &str,
    path: &str,
    ours: Option<&FileState>,
) -> Result<(), Error> {
    unit.execute(
        "UPDATE merge_conflicts SET ours = ?4 WHERE child_plan_id = ?1 AND alias = ?2 AND path = ?3",
        params![child, alias, path, ours.map(text).transpose()?],
    )?;
    Ok(())
}

/// The position of every child plan among the child plans of its parent, from 1.
pub fn numbers(reader: &mut dyn Reader) -> Result<Vec<(PlanId, u64)>, Error> {
    let rows = reader.query("SELECT plan_id, number FROM child_plans", &[])?;
    let read = |mut row: Row| Ok((row.take()?, row.take()?));
    rows.into_iter().map(read).collect()
}

/// Removes the conflicts of a plan, after the merge.
pub fn clear_conflicts(unit: &mut UnitOfWork<'_>, parent: PlanId) -> Result<(), Error> {
    unit.execute(
        "DELETE FROM merge_conflicts WHERE parent_plan_id = ?1",
        params![parent],
    )?;
    Ok(())
}

/// Number of plans above a plan, up to the root.
pub fn depth(reader: &mut dyn Reader, plan: PlanId) -> Result<u64, Error> {
    let row = reader.query_first(
        "WITH RECURSIVE above (plan_id, depth) AS ( \
         SELECT parent_plan_id, 1 FROM plans WHERE plan_id = ?1 AND parent_plan_id IS NOT NULL \
         UNION ALL \
         SELECT plans.parent_plan_id, above.depth + 1 FROM plans JOIN above ON plans.plan_id = above.plan_id \
         WHERE plans.parent_plan_id IS NOT NULL) \
         SELECT CAST(coalesce(max(depth), 0) AS BIGINT) FROM above",
        params![plan],
    )?;
    row.map_or(Ok(0), |mut row| row.take())
}
