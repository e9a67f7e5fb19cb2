//! Changesets and their entries.
//!
//! An entry gets its number from the changeset's row, in the same statement that checks that the
//! changeset is open. A closed changeset thus cannot grow, and no number is assigned twice.

use cleveragents_domain::{
    ChangeEntry, Changeset, ChangesetId, ContentHash, EntryNumber, EventKind, FileMode, FileState,
    NewChange, NewEvent, Operation, PlanId,
};
use serde_json::json;

use crate::error::Error;
use crate::transaction::{ReadBack, Reader, UnitOfWork};
use crate::value::{Row, params};

macro_rules! columns {
    () => {
        "changeset_id, plan_id, next_entry, opened_at, closed_at"
    };
}

fn read(mut row: Row) -> Result<Changeset, Error> {
    Ok(Changeset {
        id: row.take()?,
        plan: row.take()?,
        entry_count: row.take()?,
        opened_at: row.take()?,
        closed_at: row.take()?,
    })
}

/// Stores a new, empty, open changeset of a plan, or of a manually created sandbox.
pub fn open(unit: &mut UnitOfWork<'_>, id: ChangesetId, plan: Option<PlanId>) -> Result<(), Error> {
    let now = unit.now();
    unit.execute(
        "INSERT INTO changesets (changeset_id, plan_id, opened_at) VALUES (?1, ?2, ?3)",
        params![id, plan, now],
    )?;
    unit.emit(NewEvent {
        kind: EventKind::ChangesetOpened,
        subject: subject(id, plan),
        payload: json!({"changeset_id": id}),
    });
    Ok(())
}

/// Event subject of a changeset: its plan, when it has one.
fn subject(id: ChangesetId, plan: Option<PlanId>) -> String {
    plan.map_or_else(|| id.to_string(), |plan| plan.to_string())
}

/// Returns the changeset with this id.
pub fn get(reader: &mut dyn Reader, id: ChangesetId) -> Result<Option<Changeset>, Error> {
    reader
        .query_first(
            concat!(
                "SELECT ",
                columns!(),
                " FROM changesets WHERE changeset_id = ?1"
            ),
            params![id],
        )?
        .map(read)
        .transpose()
}

/// Changesets of a plan, oldest first.
pub fn of_plan(reader: &mut dyn Reader, plan: PlanId) -> Result<Vec<Changeset>, Error> {
    reader
        .query(
            concat!(
                "SELECT ",
                columns!(),
                " FROM changesets WHERE plan_id = ?1 ORDER BY changeset_id"
            ),
            params![plan],
        )?
        .into_iter()
        .map(read)
        .collect()
}

/// Appends an entry to an open changeset. `None` when the changeset is closed or does not exist.
pub fn record(
    unit: &mut UnitOfWork<'_>,
    id: ChangesetId,
    change: &NewChange,
) -> Result<Option<EntryNumber>, Error> {
    let allocated = unit.update_and_read(
        "UPDATE changesets SET next_entry = next_entry + 1 WHERE changeset_id = ?1 AND closed_at IS NULL",
        params![id],
        &ReadBack {
            column: "next_entry",
            select: "SELECT next_entry FROM changesets WHERE changeset_id = ?1",
        },
    )?;
    let Some(mut row) = allocated else {
        return Ok(None);
    };
    let number = row.take::<u64>()? - 1;
    let now = unit.now();
    let operation = change.operation();
    let (before, after) = (operation.before(), operation.after());
    unit.execute(
        "INSERT INTO change_entries (changeset_id, number, operation, resource, path, new_path, \
         before_hash, before_size, after_hash, after_size, before_mode, after_mode, tool, \
         invocation_id, actor_node, recorded_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
        params![
            id,
            number,
            operation.as_str(),
            change.resource(),
            change.path(),
            operation.new_path(),
            before.map(|state| state.hash),
            before.map(|state| state.size),
            after.map(|state| state.hash),
            after.map(|state| state.size),
            before.map(|state| state.mode.raw()),
            after.map(|state| state.mode.raw()),
            change.tool(),
            change.invocation(),
            change.actor_node(),
            now,
        ],
    )?;
    Ok(Some(EntryNumber(number)))
}

/// Closes an open changeset. `None` when it is already closed or does not exist.
pub fn close(unit: &mut UnitOfWork<'_>, id: ChangesetId) -> Result<Option<Changeset>, Error> {
    let now = unit.now();
    let closed = unit.execute_returning(
        concat!(
            "UPDATE changesets SET closed_at = ?2 WHERE changeset_id = ?1 AND closed_at IS NULL RETURNING ",
            columns!()
        ),
        params![id, now],
    )?;
    let Some(row) = closed else {
        return Ok(None);
    };
    let changeset = read(row)?;
    unit.emit(NewEvent {
        kind: EventKind::ChangesetClosed,
        subject: subject(id, changeset.plan),
        payload: json!({"changeset_id": id, "entries": changeset.entry_count}),
    });
    Ok(Some(changeset))
}

/// Entries of a changeset from number `from` on, in order, at most `limit`.
pub fn entries(
    reader: &mut dyn Reader,
    id: ChangesetId,
    from: EntryNumber,
    limit: u64,
) -> Result<Vec<ChangeEntry>, Error> {
    reader
        .query(
            "SELECT number, operation, resource, path, new_path, before_hash, before_size, after_hash, \
             after_size, before_mode, after_mode, tool, invocation_id, actor_node, recorded_at \
             FROM change_entries WHERE changeset_id = ?1 AND number >= ?2 ORDER BY number LIMIT ?3",
            params![id, from.0, limit],
        )?
        .into_iter()
        .map(|row| read_entry(id, row))
        .collect()
}

fn read_content(row: &mut Row) -> Result<Option<(ContentHash, u64)>, Error> {
    let hash: Option<ContentHash> = row.take()?;
    Ok(hash.zip(row.take()?))
}

/// Reads a file state. Entries written before file modes were recorded have none; they were regular
/// files.
fn read_state(
    row: &mut Row,
    content: Option<(ContentHash, u64)>,
) -> Result<Option<FileState>, Error> {
    let mode: Option<u32> = row.take()?;
    Ok(content.map(|(hash, size)| FileState {
        hash,
        size,
        mode: mode
            .and_then(FileMode::from_raw)
            .unwrap_or(FileMode::REGULAR),
    }))
}

fn read_entry(changeset: ChangesetId, mut row: Row) -> Result<ChangeEntry, Error> {
    let number = EntryNumber(row.take()?);
    let invalid = |error| {
        Error::stored(
            format!("entry {number} of changeset {changeset}"),
            format!("{error}"),
        )
    };
    let name: String = row.take()?;
    let resource: String = row.take()?;
    let path: String = row.take()?;
    let new_path: Option<String> = row.take()?;
    let (before, after) = (read_content(&mut row)?, read_content(&mut row)?);
    let before = read_state(&mut row, before)?;
    let after = read_state(&mut row, after)?;
    let operation = Operation::from_stored(&name, before, after, new_path).map_err(invalid)?;
    let mut change = NewChange::new(resource, path, operation).map_err(invalid)?;
    let tool: Option<String> = row.take()?;
    let invocation = row.take()?;
    if let Some(tool) = tool {
        change = change.by_tool(tool, invocation);
    }
    if let Some(node) = row.take::<Option<String>>()? {
        change = change.by_node(node);
    }
    Ok(ChangeEntry {
        changeset,
        number,
        change,
        recorded_at: row.take()?,
    })
}
