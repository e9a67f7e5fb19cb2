//! [`LeaseService`]: leases with one owner at a time, renewed by a heartbeat, fenced by a token.
//!
//! Each held lease has a thread that renews it until it is released, dropped or lost. Displacement of an owner depends
//! on its liveness: a dead owner is displaced immediately, a live owner never, even if its lease has expired. If the
//! liveness is unknown, as on another machine, the owner is displaced once its lease has expired. A displaced owner
//! notices the loss at its next renewal: its work under the lease is cancelled. Its token makes the store refuse its
//! writes.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use cleveragents_domain::{
    Code, Diagnose, Hint, Lease, LeaseSubject, LeaseToken, Owner, Timestamp, Ttl,
};
use cleveragents_process::Cancel;
use cleveragents_store::leases::DisplaceableHolder;
use cleveragents_store::{Engine, leases};
use serde_json::{Value, json};

use crate::process::{Liveness, OwnerLocks, current_owner, liveness, time_since_boot};

/// Failure to acquire or use a lease.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    /// Another owner has the lease.
    #[error("the lease on {subject} is held by {owner} until {expires_at}")]
    Held {
        /// Subject that the lease protects.
        subject: LeaseSubject,
        /// The current owner.
        owner: Owner,
        /// Expiry time, unless renewed.
        expires_at: Timestamp,
    },
    /// The store failed, or reported that the lease is lost.
    #[error(transparent)]
    Store(#[from] cleveragents_store::Error),
}

impl Diagnose for LeaseError {
    fn code(&self) -> Code {
        match self {
            Self::Held { .. } => Code::LeaseHeld,
            Self::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<Hint> {
        match self {
            Self::Held { .. } => Some("wait until its owner finishes, or stop that process".into()),
            Self::Store(error) => error.hint(),
        }
    }

    fn details(&self) -> Value {
        match self {
            Self::Held {
                subject,
                owner,
                expires_at,
            } => {
                json!({"subject": subject, "owner": owner, "expires_at": expires_at})
            }
            Self::Store(error) => error.details(),
        }
    }
}

/// Leases that this service failed to release, for example because the disk was full. The store still lists them as
/// held by a live owner, although they are free.
type UnreleasedLeases = Arc<Mutex<HashSet<(LeaseSubject, LeaseToken)>>>;

/// Subject and token that a write under a lease presents to the store.
pub type FencingToken = (LeaseSubject, LeaseToken);

/// Acquires leases for this process. Clones share their state.
#[derive(Clone)]
pub struct LeaseService {
    engine: Arc<Engine>,
    owner: Owner,
    unreleased: UnreleasedLeases,
    /// Lock files that prove the liveness of owners that share the database file.
    locks: Option<OwnerLocks>,
}

impl LeaseService {
    /// A service that acts for this process.
    pub fn new(engine: Arc<Engine>) -> Self {
        Self::acting_for(engine, current_owner())
    }

    /// A service that acts for a given owner.
    pub fn acting_for(engine: Arc<Engine>, owner: Owner) -> Self {
        Self {
            locks: engine.url().path().map(OwnerLocks::for_database),
            engine,
            owner,
            unreleased: UnreleasedLeases::default(),
        }
    }

    /// Acquires the lease of a subject and renews it until it is released. If another owner holds it, the error
    /// contains that owner.
    pub fn acquire(&self, subject: LeaseSubject, ttl: Ttl) -> Result<HeldLease, LeaseError> {
        if let Some(locks) = &self.locks {
            locks.hold(&self.owner);
        }
        let mut displaceable = DisplaceableHolder::Nobody;
        loop {
            if let Some(lease) = self.try_acquire(&subject, ttl, displaceable)? {
                self.forget_unreleased(&subject);
                match displaceable {
                    DisplaceableHolder::Nobody => {
                        tracing::debug!(lease = %lease.subject, token = lease.token.0, "lease acquired");
                    }
                    _ => {
                        tracing::info!(lease = %lease.subject, token = lease.token.0, "lease taken over");
                    }
                }
                return Ok(HeldLease::keep_alive(self, lease, ttl));
            }
            // The lease was released since the attempt, so the next attempt finds it free.
            let Some(holder) = self.holder(&subject)? else {
                continue;
            };
            let previous = std::mem::replace(&mut displaceable, self.displaceable(&holder));
            if displaceable == DisplaceableHolder::Nobody || displaceable == previous {
                return Err(LeaseError::Held {
                    subject,
                    owner: holder.owner,
                    expires_at: holder.expires_at,
                });
            }
        }
    }

    /// Prepares acquisitions that the caller makes in its own units of work: from now on, other processes can check
    /// that this one is alive.
    pub(crate) fn announce(&self) {
        if let Some(locks) = &self.locks {
            locks.hold(&self.owner);
        }
    }

    /// The owner that this service acts for.
    pub(crate) const fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Renews a lease that the caller acquired in its own unit of work.
    pub(crate) fn keep(&self, lease: Lease, ttl: Ttl) -> HeldLease {
        HeldLease::keep_alive(self, lease, ttl)
    }

    /// The condition on which the holder of a lease may be displaced.
    pub(crate) fn displaceable(&self, holder: &Lease) -> DisplaceableHolder {
        if self.is_unreleased(holder) {
            return DisplaceableHolder::Dead(holder.token);
        }
        match self.liveness(&holder.owner) {
            Liveness::Alive => DisplaceableHolder::Nobody,
            Liveness::Dead => DisplaceableHolder::Dead(holder.token),
            Liveness::Unknown => DisplaceableHolder::Expired(holder.token),
        }
    }

    /// Determines the liveness of an owner from its process id or else from its lock file.
    fn liveness(&self, owner: &Owner) -> Liveness {
        match (liveness(owner), &self.locks) {
            (Liveness::Unknown, Some(locks)) => locks.liveness(owner),
            (known, _) => known,
        }
    }

    /// Whether this service failed to release the lease.
    fn is_unreleased(&self, lease: &Lease) -> bool {
        let unreleased = lock(&self.unreleased);
        unreleased.contains(&(lease.subject.clone(), lease.token))
    }

    /// Forgets the unreleased leases of a subject. After a takeover, their tokens are never used again.
    fn forget_unreleased(&self, subject: &LeaseSubject) {
        let mut unreleased = lock(&self.unreleased);
        unreleased.retain(|(known, _)| known != subject);
    }

    fn try_acquire(
        &self,
        subject: &LeaseSubject,
        ttl: Ttl,
        displaceable: DisplaceableHolder,
    ) -> Result<Option<Lease>, LeaseError> {
        let (subject, owner) = (subject.clone(), self.owner.clone());
        Ok(self
            .engine
            .write(move |unit| leases::acquire(unit, &subject, &owner, ttl, displaceable))?)
    }

    /// The holder of a subject's lease, expired or not.
    pub fn holder(&self, subject: &LeaseSubject) -> Result<Option<Lease>, LeaseError> {
        Ok(self.engine.read(|reader| leases::holder(reader, subject))?)
    }

    /// The holder of a subject's lease, unless others may displace it.
    pub fn worker(&self, subject: &LeaseSubject) -> Result<Option<Lease>, LeaseError> {
        let (now, holder) = self.engine.read(|reader| {
            Ok::<_, cleveragents_store::Error>((
                leases::clock(reader)?,
                leases::holder(reader, subject)?,
            ))
        })?;
        Ok(holder.filter(|lease| !self.is_stale(lease, now)))
    }

    /// Leases whose owner is dead, and expired leases of owners of unknown liveness, as on another machine.
    pub fn stale(&self) -> Result<Vec<Lease>, LeaseError> {
        let (now, held) = self.engine.read(|reader| {
            Ok::<_, cleveragents_store::Error>((leases::clock(reader)?, leases::held(reader)?))
        })?;
        Ok(held
            .into_iter()
            .filter(|lease| self.is_stale(lease, now))
            .collect())
    }

    /// Releases the stale leases and returns them. A lease that its owner renews meanwhile is not released.
    pub fn release_stale(&self) -> Result<Vec<Lease>, LeaseError> {
        let mut released = Vec::new();
        for lease in self.stale()? {
            let seen = lease.clone();
            if self
                .engine
                .write(move |unit| leases::release_unrenewed(unit, &seen))?
            {
                released.push(lease);
            }
        }
        Ok(released)
    }

    /// Whether the owner of a lease is dead, or unreachable and the lease has expired.
    pub(crate) fn is_stale(&self, lease: &Lease, now: Timestamp) -> bool {
        match self.liveness(&lease.owner) {
            Liveness::Alive => false,
            Liveness::Dead => true,
            Liveness::Unknown => lease.expires_at <= now,
        }
    }
}

/// A held lease. Dropping this value releases the lease.
pub struct HeldLease {
    engine: Arc<Engine>,
    lease: Lease,
    heartbeat: Arc<Heartbeat>,
    thread: Option<JoinHandle<()>>,
    is_released: bool,
    unreleased: UnreleasedLeases,
}

#[derive(Default)]
struct Heartbeat {
    stop: Mutex<bool>,
    changed: Condvar,
    lost: AtomicBool,
    /// Cancellations to trigger when the lease is lost, each with the number of its guard.
    work: Mutex<(u64, Vec<(u64, Cancel)>)>,
}

/// Registration of work under a lease: while this value exists, losing the lease cancels the work.
#[must_use]
pub struct WorkGuard {
    heartbeat: Arc<Heartbeat>,
    number: u64,
}

impl Drop for WorkGuard {
    fn drop(&mut self) {
        let mut work = lock(&self.heartbeat.work);
        work.1.retain(|(number, _)| *number != self.number);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HeldLease {
    fn keep_alive(service: &LeaseService, lease: Lease, ttl: Ttl) -> Self {
        let engine = Arc::clone(&service.engine);
        let heartbeat = Arc::new(Heartbeat::default());
        let renewals = {
            let (engine, lease, heartbeat) =
                (Arc::clone(&engine), lease.clone(), Arc::clone(&heartbeat));
            move || heartbeat.run(&engine, &lease, ttl)
        };
        // Without the thread, the lease is still valid for its whole duration, but it is not renewed.
        let thread = std::thread::Builder::new()
            .name("lease-heartbeat".to_owned())
            .spawn(renewals)
            .ok();
        Self {
            engine,
            lease,
            heartbeat,
            thread,
            is_released: false,
            unreleased: Arc::clone(&service.unreleased),
        }
    }

    /// Subject that the lease protects.
    pub const fn subject(&self) -> &LeaseSubject {
        &self.lease.subject
    }

    /// The fencing token that every write under this lease carries.
    pub const fn token(&self) -> LeaseToken {
        self.lease.token
    }

    /// Subject and token, as every write under this lease presents them.
    pub fn fencing_token(&self) -> FencingToken {
        (self.lease.subject.clone(), self.lease.token)
    }

    /// Whether another owner has taken over the lease, or may have because no renewal succeeded for the duration of the
    /// lease. In both cases the store refuses writes with the old token.
    pub fn is_lost(&self) -> bool {
        self.heartbeat.lost.load(Ordering::Acquire)
    }

    /// Returns an error if the lease is known to be lost.
    pub fn check(&self) -> Result<(), LeaseError> {
        if !self.is_lost() {
            return Ok(());
        }
        Err(cleveragents_store::Error::LeaseLost {
            subject: self.lease.subject.to_string(),
            token: self.lease.token.0,
            holder: None,
        }
        .into())
    }

    /// Cancels work when the lease is lost, immediately if it is already lost.
    pub fn guard(&self, cancel: &Cancel) -> WorkGuard {
        let mut work = lock(&self.heartbeat.work);
        work.0 += 1;
        let number = work.0;
        work.1.push((number, cancel.clone()));
        drop(work);
        // The heartbeat sets the flag before it reads the list. So either it cancels this work, or the flag is set
        // here.
        if self.is_lost() {
            cancel.cancel();
        }
        WorkGuard {
            heartbeat: Arc::clone(&self.heartbeat),
            number,
        }
    }

    /// Releases the lease and returns whether it was still held.
    pub fn release(mut self) -> Result<bool, LeaseError> {
        self.release_once()
    }

    /// Stops the renewal of a lease that the caller released in its own unit of work.
    pub(crate) fn forget(mut self) {
        self.stop_heartbeat();
        self.is_released = true;
    }

    fn stop_heartbeat(&mut self) {
        *lock(&self.heartbeat.stop) = true;
        self.heartbeat.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // The result does not matter: even if the heartbeat panicked, the lease is released.
            let _ended = thread.join();
        }
    }

    fn release_once(&mut self) -> Result<bool, LeaseError> {
        if std::mem::replace(&mut self.is_released, true) {
            return Ok(false);
        }
        self.stop_heartbeat();
        let (subject, token) = (self.lease.subject.clone(), self.lease.token);
        let released = self
            .engine
            .write(move |unit| leases::release(unit, &subject, token));
        if let Err(error) = &released {
            tracing::warn!(lease = %self.lease.subject, %error, "lease not released");
            let mut unreleased = lock(&self.unreleased);
            unreleased.insert((self.lease.subject.clone(), self.lease.token));
        }
        Ok(released?)
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        // If the store cannot be reached, the lease expires later. This service can acquire it again immediately.
        let _released = self.release_once();
    }
}

/// Maximum time between two checks of the clock. A timed wait does not count the time in which the machine is suspended
/// or the process is stopped, so a single long wait would end too late.
const MAX_CLOCK_CHECK_INTERVAL: Duration = Duration::from_millis(500);

impl Heartbeat {
    /// Renews three times per duration until stopped or until the lease is lost.
    fn run(&self, engine: &Engine, lease: &Lease, ttl: Ttl) {
        let duration = Duration::from_secs(u64::from(ttl.as_seconds()));
        let pause = duration / 3;
        let (mut last_renewal, mut last_attempt) = (time_since_boot(), time_since_boot());
        let mut stop = lock(&self.stop);
        while !*stop {
            let (guard, _) = self
                .changed
                .wait_timeout(stop, pause.min(MAX_CLOCK_CHECK_INTERVAL))
                .unwrap_or_else(PoisonError::into_inner);
            stop = guard;
            let now = time_since_boot();
            if *stop || now.saturating_sub(last_attempt) < pause {
                continue;
            }
            drop(stop);
            last_attempt = now;
            let (subject, token) = (lease.subject.clone(), lease.token);
            let outcome = engine.write(move |unit| leases::renew(unit, &subject, token, ttl));
            match outcome {
                Ok(_) => last_renewal = now,
                Err(error @ cleveragents_store::Error::LeaseLost { .. }) => {
                    tracing::warn!(lease = %lease.subject, %error, "lease lost");
                    return self.mark_lost();
                }
                // The store cannot be reached: another owner may have the lease by now.
                Err(error) if now.saturating_sub(last_renewal) >= duration => {
                    tracing::warn!(lease = %lease.subject, %error, "lease expired without renewal");
                    self.mark_lost();
                }
                Err(error) => {
                    tracing::warn!(lease = %lease.subject, %error, "lease not renewed; trying again");
                }
            }
            stop = lock(&self.stop);
        }
    }

    /// Marks the lease as lost and cancels the work under it.
    fn mark_lost(&self) {
        self.lost.store(true, Ordering::Release);
        let work: Vec<Cancel> = {
            let work = lock(&self.work);
            work.1.iter().map(|(_, cancel)| cancel.clone()).collect()
        };
        for cancel in work {
            cancel.cancel();
        }
    }
}
