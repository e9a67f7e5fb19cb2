//! Plans, as far as changesets and leases need them.

use std::collections::BTreeMap;

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

/// How many plans were made from each action, of all actions at once.
pub fn count_by_action(reader: &mut dyn Reader) -> Result<BTreeMap<String, u64>, Error> {
    reader
        .query(
            "SELECT action, COUNT(*) FROM plans WHERE action <> '' GROUP BY action",
            &[],
        )?
        .into_iter()
        .map(|mut row| Ok((row.take()?, row.take()?)))
        .collect()
}

/// What a plan was made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanSources {
    /// The plan.
    pub plan: PlanId,
    /// Its action by name; empty when it has none.
    pub action: String,
    /// Its projects by name, in the order in which they were given.
    pub projects: Vec<String>,
}

/// The ids of plans that begin with these letters, and what the plans were made from.
pub fn sources(
    reader: &mut dyn Reader,
    prefix: &str,
    limit: u64,
) -> Result<Vec<PlanSources>, Error> {
    let last = format!("{prefix:Z<26}");
    let rows = reader.query(
        "SELECT plan_id, action FROM plans WHERE plan_id >= ?1 AND plan_id <= ?2 \
         ORDER BY plan_id LIMIT ?3",
        params![prefix, last, limit],
    )?;
    let mut found = Vec::with_capacity(rows.len());
    for mut row in rows {
        let (plan, action): (PlanId, String) = (row.take()?, row.take()?);
        let projects = reader
            .query(
                "SELECT project FROM plan_projects WHERE plan_id = ?1 ORDER BY number",
                params![plan],
            )?
            .into_iter()
            .map(|mut row| row.take())
            .collect::<Result<_, Error>>()?;
        found.push(PlanSources {
            plan,
            action,
            projects,
        });
    }
    Ok(found)
}
