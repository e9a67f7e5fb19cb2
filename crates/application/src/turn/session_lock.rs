//! [`TurnService::session_lock`]: locks a session for one turn; other turns wait until it ends.

use std::time::{Duration, Instant};

use cleveragents_domain::{LeaseSubject, SessionId, Ttl, Turn};
use cleveragents_process::Cancel;
use cleveragents_store::turns;

use super::error::TurnError;
use super::service::TurnService;
use crate::lease::{HeldLease, LeaseError};
use crate::observer::{AgentEvent, Observer};

/// The first pause between attempts to lock a session; each pause doubles up to `MAX_PAUSE`.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const MAX_PAUSE: Duration = Duration::from_millis(200);

/// Parameters of the wait for another turn of the same session.
pub struct Waiting<'a> {
    /// Maximum waiting time.
    pub patience: Duration,
    /// Receives an event when the turn has to wait.
    pub observer: &'a dyn Observer,
    /// Stops the wait.
    pub cancel: &'a Cancel,
}

/// A session in which no other turn can run until this value is dropped.
///
/// A turn acquires its other locks, such as the lock of its sandbox, after the session lock and
/// releases them before it. A waiting turn therefore holds no lock that the running turn needs, and
/// all locks are free when its wait ends.
pub struct LockedSession {
    pub(super) session: SessionId,
    pub(super) lease: HeldLease,
    pub(super) interrupted: Option<Turn>,
}

impl LockedSession {
    /// The interrupted turn of the session, whose process died.
    pub const fn interrupted(&self) -> Option<&Turn> {
        self.interrupted.as_ref()
    }
}

impl TurnService {
    /// Locks a session for one turn; waits for a running turn.
    pub fn take(
        &self,
        session: SessionId,
        waiting: &Waiting<'_>,
    ) -> Result<LockedSession, TurnError> {
        let session = self.sessions.get(session)?.id;
        let lease = self.wait(session, waiting)?;
        let interrupted = self.engine.read(|reader| turns::running(reader, session))?;
        Ok(LockedSession {
            session,
            lease,
            interrupted,
        })
    }

    fn wait(&self, session: SessionId, waiting: &Waiting<'_>) -> Result<HeldLease, TurnError> {
        let subject = LeaseSubject::new("session", session);
        let deadline = Instant::now() + waiting.patience;
        let mut pause = FIRST_PAUSE;
        let mut is_reported = false;
        loop {
            match self.leases.acquire(subject.clone(), Ttl::default()) {
                Err(LeaseError::Held { .. }) => {}
                other => return Ok(other?),
            }
            if !is_reported {
                waiting.observer.event(&AgentEvent::WaitingForSession);
                is_reported = true;
            }
            if waiting.cancel.is_cancelled() {
                return Err(TurnError::Cancelled);
            }
            if Instant::now() > deadline {
                return Err(TurnError::Busy(session));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }
}
