//! Budgets: what was spent in a scope and what running calls have reserved.
//!
//! Reserving is one conditional statement, so calls of any number of threads, processes and machines
//! never go beyond a limit together.

use cleveragents_domain::{MicroUsd, Owner, ToolInvocationId};
use serde_json::json;

use super::{json_text, stored_json};
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::params;

/// What a scope has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Used {
    /// Paid.
    pub spent: MicroUsd,
    /// Held for calls that run.
    pub reserved: MicroUsd,
}

/// One reservation in one scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reserved {
    /// Its name.
    pub id: ToolInvocationId,
    /// How much.
    pub amount: MicroUsd,
    /// Who holds it.
    pub owner: Owner,
}

/// Reserves an amount. `false` when it would go beyond the limit.
pub fn reserve(
    unit: &mut UnitOfWork<'_>,
    id: ToolInvocationId,
    scope: &str,
    amount: MicroUsd,
    limit: Option<MicroUsd>,
    owner: &Owner,
) -> Result<bool, Error> {
    let now = unit.now();
    unit.execute(
        "INSERT INTO budgets (scope) VALUES (?1) ON CONFLICT (scope) DO NOTHING",
        params![scope],
    )?;
    let most = limit.map_or(i64::MAX.unsigned_abs(), |limit| limit.0);
    let touched = unit.execute(
        "UPDATE budgets SET reserved = reserved + ?2 \
         WHERE scope = ?1 AND spent <= ?3 AND reserved <= ?3 - spent AND ?2 <= ?3 - spent - reserved",
        params![scope, amount.0, most],
    )?;
    if touched == 0 {
        return Ok(false);
    }
    unit.execute(
        "INSERT INTO reservations (reservation_id, scope, amount, owner, created_at) \
         VALUES (?1, ?2, ?3, ?4, ?5)",
        params![id, scope, amount.0, json_text(&json!(owner)), now],
    )?;
    Ok(true)
}

/// Turns a reservation into what was spent. `false` when it is not there any more.
pub fn settle(
    unit: &mut UnitOfWork<'_>,
    id: ToolInvocationId,
    scope: &str,
    spent: MicroUsd,
) -> Result<bool, Error> {
    let found = unit.query_first(
        "SELECT amount FROM reservations WHERE reservation_id = ?1 AND scope = ?2",
        params![id, scope],
    )?;
    let Some(mut row) = found else {
        return Ok(false);
    };
    let amount: u64 = row.take()?;
    let gone = unit.execute(
        "DELETE FROM reservations WHERE reservation_id = ?1 AND scope = ?2",
        params![id, scope],
    )?;
    if gone == 0 {
        return Ok(false);
    }
    unit.execute(
        "UPDATE budgets SET reserved = reserved - ?2, spent = spent + ?3 WHERE scope = ?1",
        params![scope, amount, spent.0],
    )?;
    Ok(true)
}

/// What a scope has used.
pub fn used(reader: &mut dyn Reader, scope: &str) -> Result<Used, Error> {
    let found = reader.query_first(
        "SELECT spent, reserved FROM budgets WHERE scope = ?1",
        params![scope],
    )?;
    let Some(mut row) = found else {
        return Ok(Used::default());
    };
    Ok(Used {
        spent: MicroUsd(row.take()?),
        reserved: MicroUsd(row.take()?),
    })
}

/// The reservations of a scope.
pub fn reservations(reader: &mut dyn Reader, scope: &str) -> Result<Vec<Reserved>, Error> {
    reader
        .query(
            "SELECT reservation_id, amount, owner FROM reservations WHERE scope = ?1",
            params![scope],
        )?
        .into_iter()
        .map(|mut row| {
            Ok(Reserved {
                id: row.take()?,
                amount: MicroUsd(row.take()?),
                owner: stored_json("the owner of a reservation", &row.take::<String>()?)?,
            })
        })
        .collect()
}
