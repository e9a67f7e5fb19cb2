//! Rows that belong to a work item: dependencies, sightings, transitions.

use cleveragents_domain::{
    EventKind, Finding, PlanId, Sighting, StateTransition, Timestamp, TransitionCause, WorkItem,
    WorkItemId, WorkItemState,
};
use serde_json::json;

use super::super::stored_json;
use super::{ChangeOrigin, emit, json_text, named, named_or_null};
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Row, params};

pub(super) fn insert_transition(
    unit: &mut UnitOfWork<'_>,
    item: WorkItemId,
    from: Option<WorkItemState>,
    to: WorkItemState,
    origin: &ChangeOrigin,
) -> Result<(), Error> {
    let now = unit.now();
    unit.execute(
        "INSERT INTO work_item_transitions (item_id, number, from_state, to_state, cause, caused_by, reason, at) \
         SELECT ?1, coalesce(max(number), 0) + 1, ?2, ?3, ?4, ?5, ?6, ?7 \
         FROM work_item_transitions WHERE item_id = ?1",
        params![
            item,
            from.map(WorkItemState::as_str),
            to.as_str(),
            origin.cause.as_str(),
            origin.by.as_str(),
            origin.reason.as_deref(),
            now
        ],
    )?;
    Ok(())
}

fn read_transition(mut row: Row) -> Result<StateTransition, Error> {
    let state = WorkItemState::from_stored;
    Ok(StateTransition {
        item: row.take()?,
        number: row.take()?,
        from: named_or_null(&mut row, "the state before a transition", state)?,
        to: named(&mut row, "the state after a transition", state)?,
        cause: named(
            &mut row,
            "the cause of a transition",
            TransitionCause::from_stored,
        )?,
        by: row.take()?,
        reason: row.take()?,
        at: row.take()?,
    })
}

/// The transitions of an item, oldest first.
pub fn transitions(
    reader: &mut dyn Reader,
    item: WorkItemId,
) -> Result<Vec<StateTransition>, Error> {
    let rows = reader.query(
        "SELECT item_id, number, from_state, to_state, cause, caused_by, reason, at FROM work_item_transitions \
         WHERE item_id = ?1 ORDER BY number",
        params![item],
    )?;
    rows.into_iter().map(read_transition).collect()
}

/// The transitions of all items of a project from a time on, oldest first.
pub fn transitions_since(
    reader: &mut dyn Reader,
    project: &str,
    since: Timestamp,
) -> Result<Vec<StateTransition>, Error> {
    let rows = reader.query(
        "SELECT step.item_id, number, from_state, to_state, cause, caused_by, step.reason, at \
         FROM work_item_transitions step JOIN work_items item ON item.item_id = step.item_id \
         WHERE at >= ?2 AND item.project = ?1 ORDER BY at, step.item_id, number",
        params![project, since],
    )?;
    rows.into_iter().map(read_transition).collect()
}

pub(super) fn insert_sighting(
    unit: &mut UnitOfWork<'_>,
    item: WorkItemId,
    project: &str,
    finding: &Finding,
    plan: Option<PlanId>,
) -> Result<(), Error> {
    let now = unit.now();
    // Locks the item, so that two reports do not take the same number.
    unit.execute(
        "UPDATE work_items SET updated_at = ?2 WHERE item_id = ?1",
        params![item, now],
    )?;
    unit.execute(
        "INSERT INTO work_item_sightings (item_id, number, finding, plan_id, reported_at) \
         SELECT ?1, coalesce(max(number), 0) + 1, ?2, ?3, ?4 FROM work_item_sightings WHERE item_id = ?1",
        params![item, json_text(finding)?, plan, now],
    )?;
    emit(
        unit,
        EventKind::WorkItemSighted,
        item,
        project,
        json!({"plan": plan}),
    );
    Ok(())
}

/// The reports of an item, oldest first.
pub fn sightings(reader: &mut dyn Reader, item: WorkItemId) -> Result<Vec<Sighting>, Error> {
    let rows = reader.query(
        "SELECT item_id, number, finding, plan_id, reported_at FROM work_item_sightings \
         WHERE item_id = ?1 ORDER BY number",
        params![item],
    )?;
    let read = |mut row: Row| {
        Ok(Sighting {
            item: row.take()?,
            number: row.take()?,
            finding: stored_json("a finding", &row.take::<String>()?)?,
            plan: row.take()?,
            reported_at: row.take()?,
        })
    };
    rows.into_iter().map(read).collect()
}

/// Result of adding a dependency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DependencyInsert {
    Inserted,
    /// It exists already.
    Known,
    /// The other item depends on this one, directly or through others; nothing was stored.
    Cycle,
}

/// Makes an item depend on another one.
pub fn insert_dependency(
    unit: &mut UnitOfWork<'_>,
    item: &WorkItem,
    on: WorkItemId,
    by: &str,
) -> Result<DependencyInsert, Error> {
    // Two transactions could each add one half of a cycle.
    crate::repository::resources::lock(unit)?;
    let cycle = unit.query_first(
        "WITH RECURSIVE needed (item_id) AS ( \
         SELECT ?2 UNION \
         SELECT work_item_dependencies.depends_on FROM work_item_dependencies \
         JOIN needed ON needed.item_id = work_item_dependencies.item_id) \
         SELECT item_id FROM needed WHERE item_id = ?1",
        params![item.id, on],
    )?;
    if cycle.is_some() {
        return Ok(DependencyInsert::Cycle);
    }
    let now = unit.now();
    let touched = unit.execute(
        "INSERT INTO work_item_dependencies (item_id, depends_on, created_at) VALUES (?1, ?2, ?3) \
         ON CONFLICT (item_id, depends_on) DO NOTHING",
        params![item.id, on, now],
    )?;
    if touched == 0 {
        return Ok(DependencyInsert::Known);
    }
    let payload = json!({"by": by, "depends_on": on});
    emit(
        unit,
        EventKind::WorkItemChanged,
        item.id,
        &item.project,
        payload,
    );
    Ok(DependencyInsert::Inserted)
}

/// Removes a dependency. Returns `false` when it does not exist.
pub fn remove_dependency(
    unit: &mut UnitOfWork<'_>,
    item: &WorkItem,
    on: WorkItemId,
    by: &str,
) -> Result<bool, Error> {
    let touched = unit.execute(
        "DELETE FROM work_item_dependencies WHERE item_id = ?1 AND depends_on = ?2",
        params![item.id, on],
    )?;
    if touched > 0 {
        let payload = json!({"by": by, "no_longer_depends_on": on});
        emit(
            unit,
            EventKind::WorkItemChanged,
            item.id,
            &item.project,
            payload,
        );
    }
    Ok(touched > 0)
}

/// The items that an item depends on, with their states.
pub fn dependencies(
    reader: &mut dyn Reader,
    item: WorkItemId,
) -> Result<Vec<(WorkItemId, WorkItemState)>, Error> {
    let rows = reader.query(
        "SELECT other.item_id, other.state FROM work_item_dependencies \
         JOIN work_items other ON other.item_id = depends_on \
         WHERE work_item_dependencies.item_id = ?1 ORDER BY other.item_id",
        params![item],
    )?;
    rows.into_iter().map(read_link).collect()
}

/// The items that depend on an item, with their states.
pub fn dependents(
    reader: &mut dyn Reader,
    item: WorkItemId,
) -> Result<Vec<(WorkItemId, WorkItemState)>, Error> {
    let rows = reader.query(
        "SELECT other.item_id, other.state FROM work_item_dependencies \
         JOIN work_items other ON other.item_id = work_item_dependencies.item_id \
         WHERE depends_on = ?1 ORDER BY other.item_id",
        params![item],
    )?;
    rows.into_iter().map(read_link).collect()
}

fn read_link(mut row: Row) -> Result<(WorkItemId, WorkItemState), Error> {
    Ok((
        row.take()?,
        named(
            &mut row,
            "the state of a work item",
            WorkItemState::from_stored,
        )?,
    ))
}
