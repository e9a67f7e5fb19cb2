//! [`LeaseService`]: one owner at a time, renewed by a heartbeat, fenced by a token.
//!
//! A lease that is held keeps itself alive from a thread of its own until it is released, dropped or
//! lost. An owner that died on this machine is succeeded at once; one elsewhere when its lease has
//! expired.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use cleveragents_domain::{Code, Diagnose, Lease, LeaseSubject, LeaseToken, Owner, Timestamp, Ttl};
use cleveragents_store::{Engine, leases};
use serde_json::{Value, json};

use crate::process::{Liveness, current_owner, liveness};

/// Why a lease cannot be had or used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    /// Somebody else has it.
    #[error("the lease on {subject} is held by {owner} until {expires_at}")]
    Held {
        /// What it is for.
        subject: LeaseSubject,
        /// Who has it.
        owner: Owner,
        /// Until when, unless renewed.
        expires_at: Timestamp,
    },
    /// The store failed, or said that the lease is lost.
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

    fn hint(&self) -> Option<String> {
        match self {
            Self::Held { .. } => {
                Some("wait until its owner is done, or end that process".to_owned())
            }
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

/// Leases that their holders could not give back, as on a full disk. In the store they are held; in fact nobody
/// has them, though their owner is alive.
type LeftBehind = Arc<Mutex<HashSet<(LeaseSubject, LeaseToken)>>>;

/// Gives leases to this process. All clones are one service.
#[derive(Clone)]
pub struct LeaseService {
    engine: Arc<Engine>,
    owner: Owner,
    left: LeftBehind,
}

impl LeaseService {
    /// A service that acts for this process.
    pub fn new(engine: Arc<Engine>) -> Self {
        Self::acting_for(engine, current_owner())
    }

    /// A service that acts for a given owner.
    pub fn acting_for(engine: Arc<Engine>, owner: Owner) -> Self {
        Self {
            engine,
            owner,
            left: LeftBehind::default(),
        }
    }

    /// Takes the lease of a subject, or says who has it. The lease is kept alive until released.
    pub fn acquire(&self, subject: LeaseSubject, ttl: Ttl) -> Result<HeldLease, LeaseError> {
        let mut dead = None;
        loop {
            if let Some(lease) = self.try_acquire(&subject, ttl, dead)? {
                self.forget_left(&subject);
                return Ok(HeldLease::keep_alive(self, lease, ttl));
            }
            let holder = self.holder(&subject)?;
            match holder {
                // Released since we looked: try again.
                None => {}
                Some(lease)
                    if dead != Some(lease.token)
                        && (self.was_left(&lease) || liveness(&lease.owner) == Liveness::Dead) =>
                {
                    dead = Some(lease.token);
                }
                Some(lease) => {
                    return Err(LeaseError::Held {
                        subject,
                        owner: lease.owner,
                        expires_at: lease.expires_at,
                    });
                }
            }
        }
    }

    /// Whether a lease is one of this service that nobody has any more.
    fn was_left(&self, lease: &Lease) -> bool {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.contains(&(lease.subject.clone(), lease.token))
    }

    /// Forgets what was left of a subject: once it is taken over, its tokens are never seen again.
    fn forget_left(&self, subject: &LeaseSubject) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        left.retain(|(known, _)| known != subject);
    }

    fn try_acquire(
        &self,
        subject: &LeaseSubject,
        ttl: Ttl,
        dead: Option<LeaseToken>,
    ) -> Result<Option<Lease>, LeaseError> {
        let (subject, owner) = (subject.clone(), self.owner.clone());
        Ok(self
            .engine
            .write(move |unit| leases::acquire(unit, &subject, &owner, ttl, dead))?)
    }

    /// Who holds the lease of a subject, expired or not.
    pub fn holder(&self, subject: &LeaseSubject) -> Result<Option<Lease>, LeaseError> {
        Ok(self.engine.read(|reader| leases::holder(reader, subject))?)
    }

    /// Who works under the lease of a subject: its holder, unless that is dead or its time is over.
    pub fn worker(&self, subject: &LeaseSubject) -> Result<Option<Lease>, LeaseError> {
        let (now, holder) = self.engine.read(|reader| {
            Ok::<_, cleveragents_store::Error>((
                leases::clock(reader)?,
                leases::holder(reader, subject)?,
            ))
        })?;
        Ok(holder.filter(|lease| !is_stale(lease, now)))
    }

    /// Leases whose owner is dead or whose time is over.
    pub fn stale(&self) -> Result<Vec<Lease>, LeaseError> {
        let (now, held) = self.engine.read(|reader| {
            Ok::<_, cleveragents_store::Error>((leases::clock(reader)?, leases::held(reader)?))
        })?;
        Ok(held
            .into_iter()
            .filter(|lease| is_stale(lease, now))
            .collect())
    }

    /// Frees the leases of dead owners and says which. One that is renewed meanwhile stays.
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
}

fn is_stale(lease: &Lease, now: Timestamp) -> bool {
    lease.expires_at <= now || liveness(&lease.owner) == Liveness::Dead
}

/// A lease in hand. Dropping it gives it back.
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
        // Without a thread the lease still holds for its whole duration, it is only not renewed.
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

    /// What it is for.
    pub const fn subject(&self) -> &LeaseSubject {
        &self.lease.subject
    }

    /// The fencing token that every write under this lease carries.
    pub const fn token(&self) -> LeaseToken {
        self.lease.token
    }

    /// Whether somebody else was seen to have taken over. Writes are refused in any case.
    pub fn is_lost(&self) -> bool {
        self.heartbeat.lost.load(Ordering::Acquire)
    }

    /// Gives the lease back and says whether it was still ours.
    pub fn release(mut self) -> Result<bool, LeaseError> {
        self.give_back()
    }

    fn give_back(&mut self) -> Result<bool, LeaseError> {
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
            // A heartbeat that panicked has nothing left to do; the lease is given back below.
            let _ended = thread.join();
        }
        let (subject, token) = (self.lease.subject.clone(), self.lease.token);
        let released = self
            .engine
            .write(move |unit| leases::release(unit, &subject, token));
        if released.is_err() {
            let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
            left.insert((self.lease.subject.clone(), self.lease.token));
        }
        Ok(released?)
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        // If the store cannot be reached the lease expires by itself, and is free for this service at once.
        let _released = self.give_back();
    }
}

impl Heartbeat {
    /// Renews three times per duration until told to stop or until the lease is lost.
    fn run(&self, engine: &Engine, lease: &Lease, ttl: Ttl) {
        let pause = Duration::from_secs(u64::from(ttl.as_seconds())) / 3;
        let mut stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        while !*stop {
            let (guard, waited) = self
                .changed
                .wait_timeout(stop, pause)
                .unwrap_or_else(PoisonError::into_inner);
            stop = guard;
            if *stop || !waited.timed_out() {
                continue;
            }
            drop(stop);
            let (subject, token) = (lease.subject.clone(), lease.token);
            let renewed = engine.write(move |unit| leases::renew(unit, &subject, token, ttl));
            if matches!(renewed, Err(cleveragents_store::Error::LeaseLost { .. })) {
                self.lost.store(true, Ordering::Release);
                return;
            }
            stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        }
    }
}
