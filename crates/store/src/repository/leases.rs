//! Leases: exclusive rights to work on a subject, granted by one conditional statement.
//!
//! The row of a subject is never deleted, so that its token only increases. An expired lease is not taken over by
//! itself: the caller names the holder that may be displaced, because only the caller can check whether that process is
//! alive. On PostgreSQL, the clock of the server decides expiry, because clients run on many machines.

use cleveragents_domain::{
    EventKind, Lease, LeaseSubject, LeaseToken, NewEvent, Owner, Timestamp, Ttl,
};
use serde_json::json;

use crate::dialect::Dialect;
use crate::error::Error;
use crate::transaction::{Reader, UnitOfWork};
use crate::value::{Row, params};

macro_rules! columns {
    () => {
        "kind, subject_id, token, owner_process, owner_host, owner_pid, owner_started, acquired_at, expires_at"
    };
}

/// Statement that clears the owner of a lease.
macro_rules! free {
    () => {
        "UPDATE leases SET owner_process = NULL, owner_host = NULL, owner_pid = NULL, owner_started = NULL \
         WHERE kind = ?1 AND subject_id = ?2 AND token = ?3"
    };
}

fn read(mut row: Row) -> Result<Lease, Error> {
    Ok(Lease {
        subject: LeaseSubject {
            kind: row.take()?,
            id: row.take()?,
        },
        token: LeaseToken(row.take()?),
        owner: Owner {
            process: row.take()?,
            host: row.take()?,
            pid: row.take()?,
            pid_started: row.take()?,
        },
        acquired_at: row.take()?,
        expires_at: row.take()?,
    })
}

/// Current time of the clock that decides expiry: the clock of this machine, or of the PostgreSQL server.
pub fn clock(reader: &mut dyn Reader) -> Result<Timestamp, Error> {
    match reader.dialect() {
        Dialect::Sqlite => Ok(Timestamp::now()),
        Dialect::Postgres => reader
            .query_first(
                "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)",
                &[],
            )?
            .ok_or_else(|| Error::stored("the server's clock", "is missing"))?
            .take(),
    }
}

/// The holder that an acquisition may displace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DisplaceableHolder {
    /// None: the lease has to be free.
    Nobody,
    /// The holder with this token, whose process the caller knows to be dead.
    Dead(LeaseToken),
    /// The holder with this token, once its lease has expired. For callers that cannot check whether the process is
    /// alive.
    Expired(LeaseToken),
}

/// Acquires the lease of a subject if it is free or held by the displaceable holder. `None` when another owner holds
/// it.
pub fn acquire(
    unit: &mut UnitOfWork<'_>,
    subject: &LeaseSubject,
    owner: &Owner,
    ttl: Ttl,
    displaceable: DisplaceableHolder,
) -> Result<Option<Lease>, Error> {
    let (dead_token, lapsed_token) = match displaceable {
        DisplaceableHolder::Nobody => (0, 0),
        DisplaceableHolder::Dead(token) => (token.0, 0),
        DisplaceableHolder::Expired(token) => (0, token.0),
    };
    let previous = holder(unit, subject)?;
    let now = clock(unit)?;
    let expires = now.plus_seconds(i64::from(ttl.as_seconds()));
    let row = unit.execute_returning(
        concat!(
            "INSERT INTO leases (",
            columns!(),
            ") VALUES (?1, ?2, 1, ?3, ?4, ?5, ?6, ?7, ?8) \
             ON CONFLICT (kind, subject_id) DO UPDATE SET token = leases.token + 1, \
             owner_process = excluded.owner_process, owner_host = excluded.owner_host, \
             owner_pid = excluded.owner_pid, owner_started = excluded.owner_started, \
             acquired_at = excluded.acquired_at, expires_at = excluded.expires_at \
             WHERE leases.owner_process IS NULL OR leases.token = ?9 \
             OR (leases.token = ?10 AND leases.expires_at <= ?7) \
             RETURNING ",
            columns!()
        ),
        params![
            &subject.kind,
            &subject.id,
            owner.process,
            &owner.host,
            owner.pid,
            owner.pid_started,
            now,
            expires,
            dead_token,
            lapsed_token,
        ],
    )?;
    let Some(row) = row else {
        return Ok(None);
    };
    let lease = read(row)?;
    let (kind, from) = match previous {
        Some(previous) => (EventKind::LeaseTakenOver, Some(previous.owner)),
        None => (EventKind::LeaseAcquired, None),
    };
    unit.emit(NewEvent {
        kind,
        subject: subject.id.clone(),
        payload: json!({"kind": subject.kind, "token": lease.token, "owner": owner, "from": from}),
    });
    Ok(Some(lease))
}

/// Current lease of a subject, expired or not.
pub fn holder(reader: &mut dyn Reader, subject: &LeaseSubject) -> Result<Option<Lease>, Error> {
    reader
        .query_first(
            concat!(
                "SELECT ",
                columns!(),
                " FROM leases WHERE kind = ?1 AND subject_id = ?2 AND owner_process IS NOT NULL"
            ),
            params![&subject.kind, &subject.id],
        )?
        .map(read)
        .transpose()
}

/// All leases that have an owner.
pub fn held(reader: &mut dyn Reader) -> Result<Vec<Lease>, Error> {
    reader
        .query(
            concat!(
                "SELECT ",
                columns!(),
                " FROM leases WHERE owner_process IS NOT NULL ORDER BY kind, subject_id"
            ),
            &[],
        )?
        .into_iter()
        .map(read)
        .collect()
}

/// Fails unless the caller still holds the lease. This binds all writes of the unit to the token: no other owner can
/// take the lease over before the unit ends.
pub fn require(
    unit: &mut UnitOfWork<'_>,
    subject: &LeaseSubject,
    token: LeaseToken,
) -> Result<(), Error> {
    match locked_holder(unit, subject)? {
        Some(lease) if lease.token == token => Ok(()),
        other => Err(lease_lost(subject, token, other.as_ref())),
    }
}

/// Like [`require`], for callers that know the owner but not the token.
pub fn require_owner(
    unit: &mut UnitOfWork<'_>,
    subject: &LeaseSubject,
    owner: &Owner,
) -> Result<(), Error> {
    match locked_holder(unit, subject)? {
        Some(lease) if lease.owner.process == owner.process => Ok(()),
        other => {
            let token = other.as_ref().map_or(LeaseToken(0), |lease| lease.token);
            Err(lease_lost(subject, token, other.as_ref()))
        }
    }
}

fn locked_holder(
    unit: &mut UnitOfWork<'_>,
    subject: &LeaseSubject,
) -> Result<Option<Lease>, Error> {
    let for_update = unit.dialect().for_update();
    let sql = format!(
        concat!(
            "SELECT ",
            columns!(),
            " FROM leases WHERE kind = ?1 AND subject_id = ?2 AND owner_process IS NOT NULL{}"
        ),
        for_update
    );
    unit.query_first(&sql, params![&subject.kind, &subject.id])?
        .map(read)
        .transpose()
}

fn lease_lost(subject: &LeaseSubject, token: LeaseToken, holder: Option<&Lease>) -> Error {
    Error::LeaseLost {
        subject: subject.to_string(),
        token: token.0,
        holder: holder.map(|lease| lease.owner.to_string()),
    }
}

/// Extends a lease that the caller still holds and returns the new expiry.
pub fn renew(
    unit: &mut UnitOfWork<'_>,
    subject: &LeaseSubject,
    token: LeaseToken,
    ttl: Ttl,
) -> Result<Timestamp, Error> {
    let expires = clock(unit)?.plus_seconds(i64::from(ttl.as_seconds()));
    let touched = unit.execute(
        "UPDATE leases SET expires_at = ?4 \
         WHERE kind = ?1 AND subject_id = ?2 AND token = ?3 AND owner_process IS NOT NULL",
        params![&subject.kind, &subject.id, token.0, expires],
    )?;
    if touched == 0 {
        let current = holder(unit, subject)?;
        return Err(lease_lost(subject, token, current.as_ref()));
    }
    Ok(expires)
}

/// Releases a lease. Returns `false` when the caller no longer held it.
pub fn release(
    unit: &mut UnitOfWork<'_>,
    subject: &LeaseSubject,
    token: LeaseToken,
) -> Result<bool, Error> {
    let touched = unit.execute(
        concat!(free!(), " AND owner_process IS NOT NULL"),
        params![&subject.kind, &subject.id, token.0],
    )?;
    Ok(emit_if_released(unit, subject, token, touched))
}

/// Releases a stale lease of another owner. Returns `false` when it was renewed or taken over since it was read.
pub fn release_unrenewed(unit: &mut UnitOfWork<'_>, stale: &Lease) -> Result<bool, Error> {
    let touched = unit.execute(
        concat!(
            free!(),
            " AND owner_process IS NOT NULL AND expires_at = ?4"
        ),
        params![
            &stale.subject.kind,
            &stale.subject.id,
            stale.token.0,
            stale.expires_at
        ],
    )?;
    Ok(emit_if_released(unit, &stale.subject, stale.token, touched))
}

fn emit_if_released(
    unit: &mut UnitOfWork<'_>,
    subject: &LeaseSubject,
    token: LeaseToken,
    touched: u64,
) -> bool {
    if touched > 0 {
        unit.emit(NewEvent {
            kind: EventKind::LeaseReleased,
            subject: subject.id.clone(),
            payload: json!({"kind": subject.kind, "token": token}),
        });
    }
    touched > 0
}
