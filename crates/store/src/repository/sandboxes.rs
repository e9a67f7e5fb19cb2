//! Sandboxes, their members and their checkpoints.
//!
//! A sandbox changes state only through a statement that names the states it may come from, so of two concurrent
//! commands that apply or discard it, the second fails. The database decides whether a name is free: a partial
//! unique index covers the sandboxes that have not ended.

use cleveragents_domain::{
    Checkpoint, CheckpointNumber, CheckpointReason, EventKind, NewEvent, PlanId, Sandbox,
    SandboxId, SandboxState, Version,
};
use serde_json::{Value, json};

use super::{changesets, json_text};
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Row, params};

macro_rules! columns {
    () => {
        "sandbox_id, name, state, changeset_id, machine, folder, origin, rolling_back_to, result, \
         version, created_at, updated_at"
    };
}

fn read(mut row: Row) -> Result<Sandbox, Error> {
    Ok(Sandbox {
        id: row.take()?,
        name: row.take()?,
        state: {
            let state: String = row.take()?;
            SandboxState::from_stored(&state)
                .ok_or_else(|| Error::stored("the state of a sandbox", format!("is `{state}`")))?
        },
        changeset: row.take()?,
        machine: row.take()?,
        folder: row.take()?,
        origin: row.take()?,
        rolling_back_to: row.take()?,
        result: row.take()?,
        version: Version(row.take()?),
        created_at: row.take()?,
        updated_at: row.take()?,
    })
}

/// A member of a sandbox: one resource and the origin of its copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMember {
    /// Name of the member inside the sandbox.
    pub alias: String,
    /// Resource it copies.
    pub resource: String,
    /// Isolation strategy.
    pub strategy: String,
    /// Location of the original, as text.
    pub location: String,
    /// Whether its changes must never be applied.
    pub is_read_only: bool,
    /// State that the copy started from, as JSON text.
    pub base: String,
}

/// Initial data of a sandbox.
#[derive(Debug, Clone)]
pub struct NewSandbox {
    pub id: SandboxId,
    /// Name chosen by the user.
    pub name: String,
    /// Machine that holds its files.
    pub machine: String,
    /// Directory of its files, as text.
    pub folder: String,
    /// Origin, such as a path or a project.
    pub origin: String,
    /// Plan that works in it; the history of the sandbox is the changeset of that plan.
    pub plan: Option<PlanId>,
    /// Members, in order.
    pub members: Vec<StoredMember>,
}

/// Stores a sandbox before its files are created, with an empty history. Returns `false` when a sandbox of this name
/// already exists.
pub fn insert(unit: &mut UnitOfWork<'_>, new: &NewSandbox) -> Result<bool, Error> {
    let now = unit.now();
    let changeset = cleveragents_domain::ChangesetId::generate();
    changesets::open(unit, changeset, new.plan)?;
    let inserted = unit.execute(
        "INSERT INTO sandboxes (sandbox_id, name, state, changeset_id, machine, folder, origin, created_at, updated_at) \
         VALUES (?1, ?2, 'creating', ?3, ?4, ?5, ?6, ?7, ?7) ON CONFLICT DO NOTHING",
        params![new.id, &new.name, changeset, &new.machine, &new.folder, &new.origin, now],
    )?;
    if inserted == 0 {
        return Ok(false);
    }
    for (number, member) in (0_u64..).zip(&new.members) {
        unit.execute(
            "INSERT INTO sandbox_members (sandbox_id, number, alias, resource, strategy, location, is_read_only, base) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                new.id,
                number,
                &member.alias,
                &member.resource,
                &member.strategy,
                &member.location,
                u64::from(member.is_read_only),
                &member.base,
            ],
        )?;
    }
    emit(
        unit,
        EventKind::SandboxCreating,
        new.id,
        json!({"name": new.name, "origin": new.origin}),
    );
    Ok(true)
}

fn emit(unit: &mut UnitOfWork<'_>, kind: EventKind, id: SandboxId, payload: Value) {
    unit.emit(NewEvent {
        kind,
        subject: id.to_string(),
        payload,
    });
}

/// Members of a sandbox, in order.
pub fn members(reader: &mut dyn Reader, id: SandboxId) -> Result<Vec<StoredMember>, Error> {
    reader
        .query(
            "SELECT alias, resource, strategy, location, is_read_only, base FROM sandbox_members \
             WHERE sandbox_id = ?1 ORDER BY number",
            params![id],
        )?
        .into_iter()
        .map(|mut row| {
            Ok(StoredMember {
                alias: row.take()?,
                resource: row.take()?,
                strategy: row.take()?,
                location: row.take()?,
                is_read_only: row.take::<u64>()? == 1,
                base: row.take()?,
            })
        })
        .collect()
}

/// Changes the location that a member is a copy of.
pub fn set_location(
    unit: &mut UnitOfWork<'_>,
    id: SandboxId,
    alias: &str,
    location: &str,
) -> Result<(), Error> {
    unit.execute(
        "UPDATE sandbox_members SET location = ?3 WHERE sandbox_id = ?1 AND alias = ?2",
        params![id, alias, location],
    )?;
    Ok(())
}

/// Stores the base of a member's copy, once the copy is made.
pub fn set_base(
    unit: &mut UnitOfWork<'_>,
    id: SandboxId,
    alias: &str,
    base: &str,
) -> Result<(), Error> {
    unit.execute(
        "UPDATE sandbox_members SET base = ?3 WHERE sandbox_id = ?1 AND alias = ?2",
        params![id, alias, base],
    )?;
    Ok(())
}

/// Returns the sandbox with this id.
pub fn get(reader: &mut dyn Reader, id: SandboxId) -> Result<Option<Sandbox>, Error> {
    reader
        .query_first(
            concat!(
                "SELECT ",
                columns!(),
                " FROM sandboxes WHERE sandbox_id = ?1"
            ),
            params![id],
        )?
        .map(read)
        .transpose()
}

/// Returns the sandbox with this name: the one that has not ended, otherwise the newest.
pub fn by_name(reader: &mut dyn Reader, name: &str) -> Result<Option<Sandbox>, Error> {
    reader
        .query_first(
            concat!(
                "SELECT ",
                columns!(),
                " FROM sandboxes WHERE name = ?1 \
                 ORDER BY CASE WHEN state IN ('applied', 'discarded') THEN 1 ELSE 0 END, sandbox_id DESC LIMIT 1"
            ),
            params![name],
        )?
        .map(read)
        .transpose()
}

/// Names of sandboxes, including ended ones, that have a member at this location and a name with this prefix, newest
/// first.
pub fn names_at(
    reader: &mut dyn Reader,
    location: &str,
    prefix: &str,
) -> Result<Vec<String>, Error> {
    let rows = reader.query(
        "SELECT sandboxes.name FROM sandboxes JOIN sandbox_members \
         ON sandbox_members.sandbox_id = sandboxes.sandbox_id \
         WHERE sandbox_members.location = ?1 AND substr(sandboxes.name, 1, length(?2)) = ?2 \
         ORDER BY sandboxes.sandbox_id DESC",
        params![location, prefix],
    )?;
    rows.into_iter().map(|mut row| row.take()).collect()
}

/// All sandboxes, newest first; ended ones only when requested.
pub fn list(reader: &mut dyn Reader, with_ended: bool) -> Result<Vec<Sandbox>, Error> {
    let sql = if with_ended {
        concat!(
            "SELECT ",
            columns!(),
            " FROM sandboxes ORDER BY sandbox_id DESC"
        )
    } else {
        concat!(
            "SELECT ",
            columns!(),
            " FROM sandboxes WHERE state NOT IN ('applied', 'discarded') ORDER BY sandbox_id DESC"
        )
    };
    reader.query(sql, &[])?.into_iter().map(read).collect()
}

/// Changes the state of a sandbox. Returns `false` when it is not in the state `from`.
pub fn transition(
    unit: &mut UnitOfWork<'_>,
    id: SandboxId,
    from: SandboxState,
    to: SandboxState,
    result: Option<&Value>,
) -> Result<bool, Error> {
    if !from.may_become(to) {
        return Err(Error::Internal(format!(
            "a sandbox cannot go from {} to {}",
            from.as_str(),
            to.as_str()
        )));
    }
    let now = unit.now();
    let text = result.map(json_text);
    let updated = unit.execute(
        "UPDATE sandboxes SET state = ?3, result = COALESCE(?4, result), version = version + 1, updated_at = ?5 \
         WHERE sandbox_id = ?1 AND state = ?2",
        params![id, from.as_str(), to.as_str(), text, now],
    )?;
    if updated == 0 {
        return Ok(false);
    }
    let kind = match (from, to) {
        (SandboxState::Creating, SandboxState::Active) => Some(EventKind::SandboxCreated),
        (SandboxState::Applying, SandboxState::Active) => Some(EventKind::ApplyUndone),
        (_, SandboxState::Applying) => Some(EventKind::SandboxApplying),
        (_, SandboxState::Applied) => Some(EventKind::SandboxApplied),
        (_, SandboxState::Discarded) => Some(EventKind::SandboxDiscarded),
        _ => None,
    };
    if let Some(kind) = kind {
        emit(unit, kind, id, result.cloned().unwrap_or(Value::Null));
    }
    Ok(true)
}

/// Stores the target position of a rollback in progress; `None` when the rollback is complete.
pub fn set_rolling_back(
    unit: &mut UnitOfWork<'_>,
    id: SandboxId,
    position: Option<u64>,
) -> Result<(), Error> {
    let now = unit.now();
    unit.execute(
        "UPDATE sandboxes SET rolling_back_to = ?2, version = version + 1, updated_at = ?3 WHERE sandbox_id = ?1",
        params![id, position, now],
    )?;
    Ok(())
}

/// Emits the event that a sandbox was rolled back.
pub fn announce_rollback(unit: &mut UnitOfWork<'_>, id: SandboxId, position: u64, paths: u64) {
    emit(
        unit,
        EventKind::SandboxRolledBack,
        id,
        json!({"position": position, "paths": paths}),
    );
}

/// Adds a checkpoint with the next number.
pub fn add_checkpoint(
    unit: &mut UnitOfWork<'_>,
    id: SandboxId,
    reason: CheckpointReason,
    label: Option<&str>,
    position: u64,
    target: Option<CheckpointNumber>,
) -> Result<Checkpoint, Error> {
    let now = unit.now();
    // Locks the row of the sandbox, so that two checkpoints cannot get the same number.
    unit.execute(
        "UPDATE sandboxes SET updated_at = ?2 WHERE sandbox_id = ?1",
        params![id, now],
    )?;
    let number: u64 = unit
        .query_first(
            "SELECT COALESCE(MAX(number), 0) + 1 FROM sandbox_checkpoints WHERE sandbox_id = ?1",
            params![id],
        )?
        .ok_or_else(|| Error::stored("a number", "is missing"))?
        .take()?;
    unit.execute(
        "INSERT INTO sandbox_checkpoints (sandbox_id, number, reason, label, position, target, created_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![id, number, reason.as_str(), label, position, target.map(|target| target.0), now],
    )?;
    emit(
        unit,
        EventKind::CheckpointCreated,
        id,
        json!({"number": number, "reason": reason, "label": label, "position": position}),
    );
    Ok(Checkpoint {
        number: CheckpointNumber(number),
        reason,
        label: label.map(str::to_owned),
        position,
        target,
        undone: false,
        created_at: now,
    })
}

/// Checkpoints of a sandbox, oldest first.
pub fn checkpoints(reader: &mut dyn Reader, id: SandboxId) -> Result<Vec<Checkpoint>, Error> {
    reader
        .query(
            "SELECT number, reason, label, position, target, undone, created_at FROM sandbox_checkpoints \
             WHERE sandbox_id = ?1 ORDER BY number",
            params![id],
        )?
        .into_iter()
        .map(|mut row| {
            Ok(Checkpoint {
                number: CheckpointNumber(row.take()?),
                reason: {
                    let reason: String = row.take()?;
                    CheckpointReason::from_stored(&reason).ok_or_else(|| {
                        Error::stored("the reason of a checkpoint", format!("is `{reason}`"))
                    })?
                },
                label: row.take()?,
                position: row.take()?,
                target: row.take::<Option<u64>>()?.map(CheckpointNumber),
                undone: row.take::<u64>()? == 1,
                created_at: row.take()?,
            })
        })
        .collect()
}

/// Marks a rollback as undone, on the checkpoint that was made before it.
pub fn mark_undone(
    unit: &mut UnitOfWork<'_>,
    id: SandboxId,
    number: CheckpointNumber,
) -> Result<(), Error> {
    unit.execute(
        "UPDATE sandbox_checkpoints SET undone = 1 WHERE sandbox_id = ?1 AND number = ?2",
        params![id, number.0],
    )?;
    Ok(())
}

/// Deletes a checkpoint. Returns `false` when the number does not exist or must stay: the initial checkpoint, and the
/// newest one, from whose number the next is counted.
pub fn delete_checkpoint(
    unit: &mut UnitOfWork<'_>,
    id: SandboxId,
    number: CheckpointNumber,
) -> Result<bool, Error> {
    let touched = unit.execute(
        "DELETE FROM sandbox_checkpoints WHERE sandbox_id = ?1 AND number = ?2 AND reason <> 'created' \
         AND number < (SELECT MAX(number) FROM sandbox_checkpoints WHERE sandbox_id = ?1)",
        params![id, number.0],
    )?;
    if touched > 0 {
        emit(
            unit,
            EventKind::CheckpointDeleted,
            id,
            json!({"number": number}),
        );
    }
    Ok(touched > 0)
}
