//! The state of pools, the bases of projects, and alerts.

use cleveragents_domain::identity::Namespaces;
use cleveragents_domain::{EventKind, NewEvent, PoolState, Timestamp};
use serde_json::json;

use super::work_items::{json_text, named, namespace};
use super::{stored_json, visible};
use crate::dialect::Dialect;
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Row, params};

/// Serializes this unit with all other units that start or end attempts, until it ends. Limits over all pools, such as
/// the number of workers, are checked under this lock.
pub fn lock_claims(unit: &mut UnitOfWork<'_>) -> Result<(), Error> {
    if unit.dialect() == Dialect::Postgres {
        unit.query_first(
            "SELECT 1 FROM (SELECT pg_advisory_xact_lock(7120732675660003)) AS locked",
            &[],
        )?;
    }
    Ok(())
}

/// Whether a pool starts attempts, and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolStatus {
    pub name: String,
    pub state: PoolState,
    pub reason: Option<String>,
    pub version: u64,
    pub updated_at: Timestamp,
}

fn read(mut row: Row) -> Result<PoolStatus, Error> {
    Ok(PoolStatus {
        name: row.take()?,
        state: named(&mut row, "the state of a pool", PoolState::from_stored)?,
        reason: row.take()?,
        version: row.take()?,
        updated_at: row.take()?,
    })
}

/// Stores the state of a pool that has none.
pub fn insert(unit: &mut UnitOfWork<'_>, name: &str, state: PoolState) -> Result<bool, Error> {
    let now = unit.now();
    let touched = unit.execute(
        "INSERT INTO pools (name, state, created_at, updated_at) VALUES (?1, ?2, ?3, ?3) \
         ON CONFLICT (name) DO NOTHING",
        params![name, state.as_str(), now],
    )?;
    Ok(touched > 0)
}

/// The state of a pool.
pub fn get(reader: &mut dyn Reader, name: &str) -> Result<Option<PoolStatus>, Error> {
    let row = reader.query_first(
        "SELECT name, state, reason, version, updated_at FROM pools WHERE name = ?1",
        params![name],
    )?;
    row.map(read).transpose()
}

/// The states of all pools, by name.
pub fn list(reader: &mut dyn Reader) -> Result<Vec<PoolStatus>, Error> {
    let rows = reader.query(
        "SELECT name, state, reason, version, updated_at FROM pools ORDER BY name",
        &[],
    )?;
    rows.into_iter().map(read).collect()
}

/// Changes the state of a pool. Returns `false` when it is in none of the states `from`.
pub fn set_state(
    unit: &mut UnitOfWork<'_>,
    name: &str,
    from: &[PoolState],
    to: PoolState,
    reason: Option<&str>,
) -> Result<bool, Error> {
    // A claim that runs meanwhile starts before this commits or sees the new state.
    lock_claims(unit)?;
    let now = unit.now();
    for state in from {
        let touched = unit.execute(
            "UPDATE pools SET state = ?3, reason = ?4, version = version + 1, updated_at = ?5 \
             WHERE name = ?1 AND state = ?2",
            params![name, state.as_str(), to.as_str(), reason, now],
        )?;
        if touched > 0 {
            unit.emit(NewEvent {
                kind: EventKind::PoolStateChanged,
                subject: name.to_owned(),
                payload: json!({
                    "from": state, "to": to, "reason": reason, "namespace": namespace(name),
                }),
            });
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes the state of a pool.
pub fn remove(unit: &mut UnitOfWork<'_>, name: &str) -> Result<bool, Error> {
    let touched = unit.execute("DELETE FROM pools WHERE name = ?1", params![name])?;
    Ok(touched > 0)
}

/// Whether the base of a project passes its gates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectBase {
    pub project: String,
    pub commit: Option<String>,
    pub is_red: bool,
    /// Names of the gates that fail.
    pub failing_gates: Vec<String>,
    /// Time of the change between passing and failing.
    pub since: Timestamp,
    pub checked_at: Timestamp,
}

/// The base of a project; `None` when it was never checked.
pub fn base(reader: &mut dyn Reader, project: &str) -> Result<Option<ProjectBase>, Error> {
    let row = reader.query_first(
        "SELECT project, commit_id, is_red, failing_gates, since, checked_at FROM project_bases WHERE project = ?1",
        params![project],
    )?;
    row.map(|mut row| {
        Ok(ProjectBase {
            project: row.take()?,
            commit: row.take()?,
            is_red: row.take()?,
            failing_gates: stored_json("the failing gates of a base", &row.take::<String>()?)?,
            since: row.take()?,
            checked_at: row.take()?,
        })
    })
    .transpose()
}

/// Records the gates of a base. No failing gate means that the base passes. Returns whether that changed.
pub fn set_base(
    unit: &mut UnitOfWork<'_>,
    project: &str,
    commit: Option<&str>,
    failing_gates: &[String],
) -> Result<bool, Error> {
    let (now, is_red) = (unit.now(), !failing_gates.is_empty());
    unit.execute(
        "INSERT INTO project_bases (project, commit_id, is_red, failing_gates, since, checked_at) \
         VALUES (?1, NULL, 0, '[]', ?2, ?2) ON CONFLICT (project) DO NOTHING",
        params![project, now],
    )?;
    let changed = unit.execute(
        "UPDATE project_bases SET is_red = ?2, since = ?3 WHERE project = ?1 AND is_red <> ?2",
        params![project, is_red, now],
    )?;
    unit.execute(
        "UPDATE project_bases SET commit_id = ?2, failing_gates = ?3, checked_at = ?4 WHERE project = ?1",
        params![project, commit, json_text(&failing_gates)?, now],
    )?;
    if changed > 0 {
        unit.emit(NewEvent {
            kind: EventKind::ProjectBaseChanged,
            subject: project.to_owned(),
            payload: json!({
                "is_red": is_red, "commit": commit, "failing_gates": failing_gates,
                "namespace": namespace(project),
            }),
        });
    }
    Ok(changed > 0)
}

/// An anomaly that a pool found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolAlert {
    pub id: u64,
    pub kind: String,
    /// The item, pool or project that it is about.
    pub subject: String,
    pub message: String,
    /// Number of cycles that found it.
    pub occurrences: u64,
    pub raised_at: Timestamp,
    pub seen_at: Timestamp,
    /// `None` while it persists.
    pub resolved_at: Option<Timestamp>,
}

/// Raises an alert, or counts one more occurrence of the open alert of the same kind and subject. Returns whether it
/// is new.
pub fn raise_alert(
    unit: &mut UnitOfWork<'_>,
    kind: &str,
    subject: &str,
    in_namespace: &str,
    message: &str,
) -> Result<bool, Error> {
    let now = unit.now();
    let inserted = unit.execute(
        "INSERT INTO pool_alerts (kind, subject, namespace, message, raised_at, seen_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?5) ON CONFLICT (kind, subject) WHERE resolved_at IS NULL DO NOTHING",
        params![kind, subject, in_namespace, message, now],
    )?;
    if inserted > 0 {
        unit.emit(NewEvent {
            kind: EventKind::PoolAlertRaised,
            subject: subject.to_owned(),
            payload: json!({"kind": kind, "message": message, "namespace": in_namespace}),
        });
        return Ok(true);
    }
    unit.execute(
        "UPDATE pool_alerts SET occurrences = occurrences + 1, seen_at = ?4, message = ?3 \
         WHERE kind = ?1 AND subject = ?2 AND resolved_at IS NULL",
        params![kind, subject, message, now],
    )?;
    Ok(false)
}

/// Resolves an open alert. Returns `false` when there is none.
pub fn resolve_alert(unit: &mut UnitOfWork<'_>, alert: &PoolAlert) -> Result<bool, Error> {
    let now = unit.now();
    let touched = unit.execute(
        "UPDATE pool_alerts SET resolved_at = ?2 WHERE alert_id = ?1 AND resolved_at IS NULL",
        params![alert.id, now],
    )?;
    if touched > 0 {
        unit.emit(NewEvent {
            kind: EventKind::PoolAlertResolved,
            subject: alert.subject.clone(),
            payload: json!({"kind": alert.kind}),
        });
    }
    Ok(touched > 0)
}

/// Open alerts in some namespaces, oldest first.
pub fn open_alerts(
    reader: &mut dyn Reader,
    namespaces: &Namespaces,
) -> Result<Vec<PoolAlert>, Error> {
    let rows = reader.query(
        "SELECT alert_id, kind, subject, message, occurrences, raised_at, seen_at, resolved_at FROM pool_alerts \
         WHERE resolved_at IS NULL AND (?1 = '*' OR (?1 = '-' AND namespace <> 'local') \
         OR REPLACE(?1, ',' || namespace || ',', '') <> ?1) ORDER BY alert_id",
        params![visible(namespaces)],
    )?;
    let read = |mut row: Row| {
        Ok(PoolAlert {
            id: row.take()?,
            kind: row.take()?,
            subject: row.take()?,
            message: row.take()?,
            occurrences: row.take()?,
            raised_at: row.take()?,
            seen_at: row.take()?,
            resolved_at: row.take()?,
        })
    };
    rows.into_iter().map(read).collect()
}
