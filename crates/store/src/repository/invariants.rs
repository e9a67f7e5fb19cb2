//! Invariants set by users. A removed invariant stays stored, marked with the time of removal.

use cleveragents_domain::{EventKind, Invariant, InvariantId, InvariantScope, NewEvent};
use serde_json::json;

use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Param, Row, params};

macro_rules! columns {
    () => {
        "invariant_id, text, scope, source_name, non_overridable, created_at, removed_at"
    };
}

/// An invariant to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewInvariant {
    pub id: InvariantId,
    /// The sentence that must hold.
    pub text: String,
    /// Scope in which it holds.
    pub scope: InvariantScope,
    /// Full name of the project or action, or id of the plan; `None` for the global scope.
    pub source_name: Option<String>,
    /// Whether more specific invariants cannot override this one.
    pub non_overridable: bool,
}

/// Filter for listing invariants: those that hold in any of these scopes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InvariantFilter {
    /// A scope, optionally limited to one project, action or plan. Empty means all invariants.
    pub places: Vec<(InvariantScope, Option<String>)>,
}

fn read(mut row: Row) -> Result<Invariant, Error> {
    let id = row.take()?;
    let text = row.take()?;
    let scope: String = row.take()?;
    Ok(Invariant {
        id,
        text,
        scope: scope
            .parse()
            .map_err(|error| Error::stored("scope of an invariant", format!("{error}")))?,
        source_name: row.take()?,
        non_overridable: row.take()?,
        created_at: row.take()?,
        removed_at: row.take()?,
    })
}

/// Stores an invariant. Returns `false` when the same sentence already holds in the same scope, which a unique index
/// enforces, also under concurrency.
pub fn insert(unit: &mut UnitOfWork<'_>, new: &NewInvariant) -> Result<bool, Error> {
    let now = unit.now();
    let touched = unit.execute(
        "INSERT INTO invariants (invariant_id, text, scope, source_name, non_overridable, created_at) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
        params![
            new.id,
            &new.text,
            new.scope.as_str(),
            new.source_name.as_deref(),
            new.non_overridable,
            now
        ],
    )?;
    if touched > 0 {
        announce(
            unit,
            EventKind::InvariantAdded,
            new.id,
            new.scope,
            new.source_name.as_deref(),
        );
    }
    Ok(touched > 0)
}

/// Marks an invariant as removed. Returns `false` when it was already removed; of two concurrent calls, one succeeds.
pub fn remove(unit: &mut UnitOfWork<'_>, invariant: &Invariant) -> Result<bool, Error> {
    let now = unit.now();
    let touched = unit.execute(
        "UPDATE invariants SET removed_at = ?2 WHERE invariant_id = ?1 AND removed_at IS NULL",
        params![invariant.id, now],
    )?;
    if touched > 0 {
        announce(
            unit,
            EventKind::InvariantRemoved,
            invariant.id,
            invariant.scope,
            invariant.source_name.as_deref(),
        );
    }
    Ok(touched > 0)
}

fn announce(
    unit: &mut UnitOfWork<'_>,
    kind: EventKind,
    id: InvariantId,
    scope: InvariantScope,
    source_name: Option<&str>,
) {
    unit.emit(NewEvent {
        kind,
        subject: id.to_string(),
        payload: json!({"scope": scope, "source_name": source_name}),
    });
}

/// Invariants that hold, in the order in which they were set.
pub fn list(reader: &mut dyn Reader, filter: &InvariantFilter) -> Result<Vec<Invariant>, Error> {
    let mut values: Vec<Param<'_>> = Vec::new();
    let mut conditions: Vec<String> = Vec::new();
    for (scope, source_name) in &filter.places {
        values.push(scope.as_str().into());
        let number = values.len();
        conditions.push(match source_name {
            None => format!("scope = ?{number}"),
            Some(source_name) => {
                values.push(source_name.into());
                format!("(scope = ?{number} AND source_name = ?{})", number + 1)
            }
        });
    }
    let conditions = match conditions.len() {
        0 => String::new(),
        _ => format!(" AND ({})", conditions.join(" OR ")),
    };
    let statement = format!(
        concat!(
            "SELECT ",
            columns!(),
            " FROM invariants WHERE removed_at IS NULL{} ORDER BY invariant_id"
        ),
        conditions
    );
    let rows = reader.query(&statement, &values)?;
    rows.into_iter().map(read).collect()
}

/// Returns the invariant with this id, removed or not.
pub fn get(reader: &mut dyn Reader, id: InvariantId) -> Result<Option<Invariant>, Error> {
    reader
        .query_first(
            concat!(
                "SELECT ",
                columns!(),
                " FROM invariants WHERE invariant_id = ?1"
            ),
            params![id],
        )?
        .map(read)
        .transpose()
}

/// Invariants that hold and whose ids start with `prefix`.
pub fn with_prefix(
    reader: &mut dyn Reader,
    prefix: &str,
    limit: u64,
) -> Result<Vec<Invariant>, Error> {
    let last = format!("{prefix:Z<26}");
    let rows = reader.query(
        concat!(
            "SELECT ",
            columns!(),
            " FROM invariants WHERE invariant_id >= ?1 AND invariant_id <= ?2 \
             AND removed_at IS NULL ORDER BY invariant_id LIMIT ?3"
        ),
        params![prefix, last, limit],
    )?;
    rows.into_iter().map(read).collect()
}
