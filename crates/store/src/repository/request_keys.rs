//! Idempotency keys: a repeated request with the same key gets the response of the first request.

use cleveragents_domain::Timestamp;

use crate::error::Error;
use crate::transaction::{Reader as _, UnitOfWork};
use crate::value::params;

/// A request with an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestKey {
    /// Caller. Callers do not see each other's keys.
    pub identity: String,
    /// Key chosen by the caller.
    pub key: String,
    /// SHA-256 of the request, in hexadecimal.
    pub hash: String,
    /// Lease name of the server that handles the request.
    pub server: String,
}

/// Result of claiming a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyClaim {
    /// This is the first request with the key; the key is now claimed.
    First,
    /// The request already has a response.
    Answered {
        /// HTTP status of the response.
        status: u16,
        /// Rest of the response.
        body: String,
    },
    /// The request was started and has no response yet.
    Pending {
        /// Server that started it.
        server: String,
    },
    /// The key belongs to a different request.
    Conflict,
}

/// Claims the key of a request, unless it is already claimed. Concurrent claims of the same key wait until the unit of
/// work of the first one has ended.
pub fn claim(unit: &mut UnitOfWork<'_>, request: &RequestKey) -> Result<KeyClaim, Error> {
    let now = unit.now();
    let inserted = unit.execute_unsettled(
        "INSERT INTO request_keys (identity, request_key, request_hash, server, created_at) \
         VALUES (?1, ?2, ?3, ?4, ?5) \
         ON CONFLICT (identity, request_key) DO NOTHING",
        params![
            &request.identity,
            &request.key,
            &request.hash,
            &request.server,
            now
        ],
    )?;
    if inserted == 1 {
        return Ok(KeyClaim::First);
    }
    let row = unit.query_first(
        "SELECT request_hash, server, status, body FROM request_keys WHERE identity = ?1 AND request_key = ?2",
        params![&request.identity, &request.key],
    )?;
    let Some(mut row) = row else {
        // The key was removed between the two statements.
        return Ok(KeyClaim::Pending {
            server: request.server.clone(),
        });
    };
    if row.take::<String>()? != request.hash {
        return Ok(KeyClaim::Conflict);
    }
    let server: String = row.take()?;
    let (status, body): (Option<u64>, Option<String>) = (row.take()?, row.take()?);
    Ok(match (status, body) {
        (Some(status), Some(body)) => KeyClaim::Answered {
            status: u16::try_from(status)
                .map_err(|_| Error::stored("the status of an answer", "is too large"))?,
            body,
        },
        _ => KeyClaim::Pending { server },
    })
}

/// Stores the response of a started request.
pub fn answer(
    unit: &mut UnitOfWork<'_>,
    request: &RequestKey,
    status: u16,
    body: &str,
) -> Result<(), Error> {
    unit.execute_unsettled(
        "UPDATE request_keys SET status = ?3, body = ?4 \
         WHERE identity = ?1 AND request_key = ?2 AND status IS NULL",
        params![&request.identity, &request.key, u64::from(status), body],
    )?;
    Ok(())
}

/// Removes the key of a started request that had no effect, so that the request can be repeated.
pub fn forget(unit: &mut UnitOfWork<'_>, request: &RequestKey) -> Result<(), Error> {
    unit.execute_unsettled(
        "DELETE FROM request_keys WHERE identity = ?1 AND request_key = ?2 AND status IS NULL",
        params![&request.identity, &request.key],
    )?;
    Ok(())
}

/// Removes keys of requests that were started before a point in time.
pub fn prune(unit: &mut UnitOfWork<'_>, moment: Timestamp) -> Result<u64, Error> {
    unit.execute_unsettled(
        "DELETE FROM request_keys WHERE created_at < ?1",
        params![moment],
    )
}
