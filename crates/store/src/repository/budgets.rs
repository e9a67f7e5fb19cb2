//! Budgets: the amount spent in a scope, and the amounts reserved by running calls.
//!
//! Reserving is one conditional statement, so calls of any number of threads, processes and machines together never
//! exceed a limit.

use cleveragents_domain::{MicroUsd, Owner, ToolInvocationId};
use serde_json::json;

use super::{json_text, stored_json};
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::params;

/// Amounts used in a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScopeUsage {
    /// Amount already spent.
    pub spent: MicroUsd,
    /// Amount held for running calls.
    pub reserved: MicroUsd,
}

/// One reservation in one scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredReservation {
    /// Call that made the reservation.
    pub id: ToolInvocationId,
    /// Reserved amount.
    pub amount: MicroUsd,
    /// Owner that holds the reservation.
    pub owner: Owner,
}

/// Reserves an amount. Returns `false` when that would exceed the limit.
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
    let maximum = limit.map_or(i64::MAX.unsigned_abs(), |limit| limit.0);
    let updated = unit.execute(
        "UPDATE budgets SET reserved = reserved + ?2 \
         WHERE scope = ?1 AND spent <= ?3 AND reserved <= ?3 - spent AND ?2 <= ?3 - spent - reserved",
        params![scope, amount.0, maximum],
    )?;
    if updated == 0 {
        return Ok(false);
    }
    unit.execute(
        "INSERT INTO reservations (reservation_id, scope, amount, owner, created_at) \
         VALUES (?1, ?2, ?3, ?4, ?5)",
        params![id, scope, amount.0, json_text(&json!(owner)), now],
    )?;
    Ok(true)
}

/// Turns a reservation into spending. Returns `false` when the reservation no longer exists.
pub fn spend_reserved(
    unit: &mut UnitOfWork<'_>,
    id: ToolInvocationId,
    scope: &str,
    spent: MicroUsd,
) -> Result<bool, Error> {
    let row = unit.query_first(
        "SELECT amount FROM reservations WHERE reservation_id = ?1 AND scope = ?2",
        params![id, scope],
    )?;
    let Some(mut row) = row else {
        return Ok(false);
    };
    let amount: u64 = row.take()?;
    let deleted = unit.execute(
        "DELETE FROM reservations WHERE reservation_id = ?1 AND scope = ?2",
        params![id, scope],
    )?;
    if deleted == 0 {
        return Ok(false);
    }
    unit.execute(
        "UPDATE budgets SET reserved = reserved - ?2, spent = spent + ?3 WHERE scope = ?1",
        params![scope, amount, spent.0],
    )?;
    Ok(true)
}

/// Amounts used in a scope.
pub fn used(reader: &mut dyn Reader, scope: &str) -> Result<ScopeUsage, Error> {
    let row = reader.query_first(
        "SELECT spent, reserved FROM budgets WHERE scope = ?1",
        params![scope],
    )?;
    let Some(mut row) = row else {
        return Ok(ScopeUsage::default());
    };
    Ok(ScopeUsage {
        spent: MicroUsd(row.take()?),
        reserved: MicroUsd(row.take()?),
    })
}

pub fn reservations(reader: &mut dyn Reader, scope: &str) -> Result<Vec<StoredReservation>, Error> {
    reader
        .query(
            "SELECT reservation_id, amount, owner FROM reservations WHERE scope = ?1",
            params![scope],
        )?
        .into_iter()
        .map(|mut row| {
            Ok(StoredReservation {
                id: row.take()?,
                amount: MicroUsd(row.take()?),
                owner: stored_json("the owner of a reservation", &row.take::<String>()?)?,
            })
        })
        .collect()
}
