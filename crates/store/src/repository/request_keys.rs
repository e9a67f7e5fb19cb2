//! Keys of requests: a request that is repeated with its key gets the answer of the first one.

use cleveragents_domain::Timestamp;

use crate::error::Error;
use crate::transaction::{Reader as _, UnitOfWork};
use crate::value::params;

/// A request that its caller gave a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestKey {
    /// Who asks. Callers do not see each other's keys.
    pub identity: String,
    /// The key.
    pub key: String,
    /// SHA-256 of what is asked for, in hexadecimal.
    pub hash: String,
    /// The server that is asked, as its lease is called.
    pub server: String,
}

/// What a request finds about its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyClaim {
    /// This is the first request with the key; the key is claimed.
    First,
    /// The request was answered with this.
    Answered {
        /// The status.
        status: u16,
        /// What else the answer was.
        body: String,
    },
    /// The request was begun and has no answer.
    Pending {
        /// The server that began it.
        server: String,
    },
    /// A different request has the key.
    Conflict,
}

/// Claims the key of a request, unless a request with the key was begun before. Concurrent requests wait for the unit
/// that came first.
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
    let known = unit.query_first(
        "SELECT request_hash, server, status, body FROM request_keys WHERE identity = ?1 AND request_key = ?2",
        params![&request.identity, &request.key],
    )?;
    let Some(mut row) = known else {
        // Forgotten in this moment by who had begun it.
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

/// Keeps the answer of a request that was begun.
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

/// Forgets a request that was begun and had no effect, so that it can be made again.
pub fn forget(unit: &mut UnitOfWork<'_>, request: &RequestKey) -> Result<(), Error> {
    unit.execute_unsettled(
        "DELETE FROM request_keys WHERE identity = ?1 AND request_key = ?2 AND status IS NULL",
        params![&request.identity, &request.key],
    )?;
    Ok(())
}

/// Forgets requests that were begun before a moment.
pub fn prune(unit: &mut UnitOfWork<'_>, moment: Timestamp) -> Result<u64, Error> {
    unit.execute_unsettled(
        "DELETE FROM request_keys WHERE created_at < ?1",
        params![moment],
    )
}
