//! Permission rules: calls that a user allowed with the answer "always".

use cleveragents_domain::{EventKind, NewEvent};
use serde_json::json;

use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::params;

fn emit(unit: &mut UnitOfWork<'_>, kind: EventKind, subject: &str, payload: serde_json::Value) {
    unit.emit(NewEvent {
        kind,
        subject: subject.to_owned(),
        payload,
    });
}

/// Stores a rule. Returns `false` when it already exists.
pub fn allow_always(unit: &mut UnitOfWork<'_>, rule: &str) -> Result<bool, Error> {
    let now = unit.now();
    let touched = unit.execute(
        "INSERT INTO permission_rules (rule, created_at) VALUES (?1, ?2) \
         ON CONFLICT (rule) DO NOTHING",
        params![rule, now],
    )?;
    if touched > 0 {
        emit(unit, EventKind::PermissionGranted, rule, json!({}));
    }
    Ok(touched > 0)
}

/// Removes a rule. Returns `false` when it does not exist.
pub fn forget_rule(unit: &mut UnitOfWork<'_>, rule: &str) -> Result<bool, Error> {
    let touched = unit.execute(
        "DELETE FROM permission_rules WHERE rule = ?1",
        params![rule],
    )?;
    if touched > 0 {
        emit(unit, EventKind::PermissionRevoked, rule, json!({}));
    }
    Ok(touched > 0)
}

/// All stored rules, oldest first.
pub fn rules(reader: &mut dyn Reader) -> Result<Vec<String>, Error> {
    reader
        .query(
            "SELECT rule FROM permission_rules ORDER BY created_at, rule",
            &[],
        )?
        .into_iter()
        .map(|mut row| row.take())
        .collect()
}
