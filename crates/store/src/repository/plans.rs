//! Plans, as far as changesets and leases need them.

use cleveragents_domain::{EventKind, NewEvent, Plan, PlanId};
use serde_json::json;

use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::params;

/// Stores a new plan.
pub fn insert(unit: &mut UnitOfWork<'_>, id: PlanId) -> Result<(), Error> {
    let now = unit.now();
    unit.execute(
        "INSERT INTO plans (plan_id, phase, state, created_at, updated_at) \
         VALUES (?1, 'strategize', 'queued', ?2, ?2)",
        params![id, now],
    )?;
    unit.emit(NewEvent {
        kind: EventKind::PlanCreated,
        subject: id.to_string(),
        payload: json!({}),
    });
    Ok(())
}

/// The plan with an id.
pub fn get(reader: &mut dyn Reader, id: PlanId) -> Result<Option<Plan>, Error> {
    reader
        .query_first(
            "SELECT plan_id, phase, state, created_at FROM plans WHERE plan_id = ?1",
            params![id],
        )?
        .map(|mut row| {
            Ok(Plan {
                id: row.take()?,
                phase: row.take()?,
                state: row.take()?,
                created_at: row.take()?,
            })
        })
        .transpose()
}
