//! [`RequestKeyService`]: idempotency keys. A repeated request with the same key gets the response to the first
//! request.

use std::sync::Arc;

use cleveragents_domain::{LeaseSubject, Timestamp};
use cleveragents_store::request_keys::{self, KeyClaim, RequestKey};
use cleveragents_store::{Engine, Error, UnitOfWork};

use crate::lease::{LeaseError, LeaseService};
use crate::plan::SERVER_LEASE;

/// Retention of responses, in seconds.
const RETENTION_SECONDS: i64 = 24 * 60 * 60;

/// Claims idempotency keys and stores responses.
#[derive(Clone)]
pub struct RequestKeyService {
    engine: Arc<Engine>,
}

impl RequestKeyService {
    /// A service for a database.
    pub const fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// Claims the key of a request, unless a request with the key was started before.
    pub fn claim(&self, key: &RequestKey) -> Result<KeyClaim, Error> {
        let key = key.clone();
        self.engine.write(move |unit| {
            prune(unit)?;
            request_keys::claim(unit, &key)
        })
    }

    /// Stores the response to the request that claimed the key.
    pub fn answer(&self, key: &RequestKey, status: u16, body: &str) -> Result<(), Error> {
        let (key, body) = (key.clone(), body.to_owned());
        self.engine
            .write(move |unit| request_keys::answer(unit, &key, status, &body))
    }

    /// Releases the key of a request that had no effect, so that the request can be repeated.
    pub fn forget(&self, key: &RequestKey) -> Result<(), Error> {
        let key = key.clone();
        self.engine
            .write(move |unit| request_keys::forget(unit, &key))
    }

    /// Whether the server that started a request is still alive and can answer it.
    pub fn is_server_alive(&self, server: &str) -> Result<bool, LeaseError> {
        let leases = LeaseService::new(Arc::clone(&self.engine));
        let subject = LeaseSubject::new(SERVER_LEASE, server);
        Ok(leases.worker(&subject)?.is_some())
    }
}

/// Removes keys whose retention has ended.
pub(crate) fn prune(unit: &mut UnitOfWork<'_>) -> Result<(), Error> {
    request_keys::prune(unit, Timestamp::now().plus_seconds(-RETENTION_SECONDS))?;
    Ok(())
}
