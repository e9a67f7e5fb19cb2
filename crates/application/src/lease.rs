//! [`LeaseService`]: leases with one owner at a time, renewed by a heartbeat, fenced by a token.
//!
//! A held lease is renewed by its own thread until it is released, dropped or lost. An owner that is known to
//! be dead is displaced at once, one that is known to be alive never, whatever the clock shows; if this cannot
//! be known, as on another machine, the owner is displaced when its lease has expired. The displaced owner finds
//! out when it renews: its work under the lease is cancelled, and its writes are refused by the token.

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

/// Failure to take or use a lease.
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

/// Leases that their holders could not release, as on a full disk. The store shows them as held although they
/// are free and their owner is alive.
type LeftBehind = Arc<Mutex<HashSet<(LeaseSubject, LeaseToken)>>>;

/// Subject and token that a write under a lease presents to the store.
pub type Fence = (LeaseSubject, LeaseToken);

/// Takes leases for this process. All clones are one service.
#[derive(Clone)]
pub struct LeaseService {
    engine: Arc<Engine>,
    owner: Owner,
    left: LeftBehind,
    /// Lock files by which owners that share the database file show that they are alive.
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
            locks: engine.url().path().map(OwnerLocks::beside),
            engine,
            owner,
            left: LeftBehind::default(),
        }
    }

    /// Takes the lease of a subject, or returns its owner. The lease is renewed until released.
    pub fn acquire(&self, subject: LeaseSubject, ttl: Ttl) -> Result<HeldLease, LeaseError> {
        if let Some(locks) = &self.locks {
            locks.hold(&self.owner);
        }
        let mut displaceable = DisplaceableHolder::Nobody;
        loop {
            if let Some(lease) = self.try_acquire(&subject, ttl, displaceable)? {
                self.forget_left(&subject);
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
            // Released since the attempt: the next attempt finds it free.
            let Some(holder) = self.holder(&subject)? else {
                continue;
            };
            let tried = std::mem::replace(&mut displaceable, self.displaceable(&holder));
            if displaceable == DisplaceableHolder::Nobody || displaceable == tried {
                return Err(LeaseError::Held {
                    subject,
                    owner: holder.owner,
                    expires_at: holder.expires_at,
                });
            }
        }
    }

    /// Whether the holder of a lease may be displaced, and on which condition.
    fn displaceable(&self, holder: &Lease) -> DisplaceableHolder {
        if self.was_left(holder) {
            return DisplaceableHolder::Dead(holder.token);
        }
        match self.liveness(&holder.owner) {
            Liveness::Alive => DisplaceableHolder::Nobody,
            Liveness::Dead => DisplaceableHolder::Dead(holder.token),
            Liveness::Unknown => DisplaceableHolder::Expired(holder.token),
        }
    }

    /// Whether an owner is alive, by its process number or else by its lock file.
    fn liveness(&self, owner: &Owner) -> Liveness {
        match (liveness(owner), &self.locks) {
            (Liveness::Unknown, Some(locks)) => locks.liveness(owner),
            (known, _) => known,
        }
    }

    /// Whether a lease of this service is held in the store although no one uses it any more.
    fn was_left(&self, lease: &Lease) -> bool {
        let left = lock(&self.left);
        left.contains(&(lease.subject.clone(), lease.token))
    }

    /// Removes the leftover leases of a subject: once it is taken over, their tokens are never used again.
    fn forget_left(&self, subject: &LeaseSubject) {
        let mut left = lock(&self.left);
        left.retain(|(known, _)| known != subject);
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

    /// Releases the leases of dead owners and returns them. A lease that is renewed meanwhile stays.
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

    fn is_stale(&self, lease: &Lease, now: Timestamp) -> bool {
        match self.liveness(&lease.owner) {
            Liveness::Alive => false,
            Liveness::Dead => true,
            Liveness::Unknown => lease.expires_at <= now,
        }
    }
}

/// A held lease. Dropping it releases it.
pub struct HeldLease {
    engine: Arc<Engine>,
    lease: Lease,
    heartbeat: Arc<Heartbeat>,
    thread: Option<JoinHandle<()>>,
    is_given_back: bool,
    left: LeftBehind,
}

#[derive(Default)]
struct Heartbeat {
    stop: Mutex<bool>,
    changed: Condvar,
    lost: AtomicBool,
    /// Cancellations to trigger when the lease is lost, each with the number of its guard.
    work: Mutex<(u64, Vec<(u64, Cancel)>)>,
}

/// Work under a lease: cancelled when the lease is lost, until this value is dropped.
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
        let beat = {
            let (engine, lease, heartbeat) =
                (Arc::clone(&engine), lease.clone(), Arc::clone(&heartbeat));
            move || heartbeat.run(&engine, &lease, ttl)
        };
        // Without a thread the lease is still valid for its whole duration; it is only not renewed.
        let thread = std::thread::Builder::new()
            .name("lease-heartbeat".to_owned())
            .spawn(beat)
            .ok();
        Self {
            engine,
            lease,
            heartbeat,
            thread,
            is_given_back: false,
            left: Arc::clone(&service.left),
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
    pub fn fence(&self) -> Fence {
        (self.lease.subject.clone(), self.lease.token)
    }

    /// Whether another owner has taken over, or may have: the lease could not be renewed for its whole
    /// duration. The token makes the store refuse writes in any case.
    pub fn is_lost(&self) -> bool {
        self.heartbeat.lost.load(Ordering::Acquire)
    }

    /// Fails once the lease is known to be lost.
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
        // The heartbeat sets the flag before it looks for work to cancel, so one of the two sees the other.
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
        self.release_slot()
    }

    fn release_slot(&mut self) -> Result<bool, LeaseError> {
        if std::mem::replace(&mut self.is_given_back, true) {
            return Ok(false);
        }
        *self
            .heartbeat
            .stop
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = true;
        self.heartbeat.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A heartbeat that panicked has nothing left to do; the lease is released below.
            let _ended = thread.join();
        }
        let (subject, token) = (self.lease.subject.clone(), self.lease.token);
        let released = self
            .engine
            .write(move |unit| leases::release(unit, &subject, token));
        if let Err(error) = &released {
            tracing::warn!(lease = %self.lease.subject, %error, "lease not released");
            let mut left = lock(&self.left);
            left.insert((self.lease.subject.clone(), self.lease.token));
        }
        Ok(released?)
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        // If the store cannot be reached the lease expires by itself, and this service can take it at once.
        let _released = self.release_slot();
    }
}

/// Maximum time between two checks of the clock. A wait does not count the time in which the machine was
/// suspended or the process stopped, so a long wait would end too late by that time.
const LOOK: Duration = Duration::from_millis(500);

impl Heartbeat {
    /// Renews three times per duration until stopped or until the lease is lost.
    fn run(&self, engine: &Engine, lease: &Lease, ttl: Ttl) {
        let duration = Duration::from_secs(u64::from(ttl.as_seconds()));
        let pause = duration / 3;
        let (mut renewed, mut tried) = (time_since_boot(), time_since_boot());
        let mut stop = lock(&self.stop);
        while !*stop {
            let (guard, _) = self
                .changed
                .wait_timeout(stop, pause.min(LOOK))
                .unwrap_or_else(PoisonError::into_inner);
            stop = guard;
            let now = time_since_boot();
            if *stop || now.saturating_sub(tried) < pause {
                continue;
            }
            drop(stop);
            tried = now;
            let (subject, token) = (lease.subject.clone(), lease.token);
            let outcome = engine.write(move |unit| leases::renew(unit, &subject, token, ttl));
            match outcome {
                Ok(_) => renewed = now,
                Err(error @ cleveragents_store::Error::LeaseLost { .. }) => {
                    tracing::warn!(lease = %lease.subject, %error, "lease lost");
                    return self.lose();
                }
                // The store cannot be reached: another owner may have the lease by now.
                Err(error) if now.saturating_sub(renewed) >= duration => {
                    tracing::warn!(lease = %lease.subject, %error, "lease expired without renewal");
                    self.lose();
                }
                Err(error) => {
                    tracing::warn!(lease = %lease.subject, %error, "lease not renewed; trying again");
                }
            }
            stop = lock(&self.stop);
        }
    }

    /// Cancels the work under the lease.
    fn lose(&self) {
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
