//! [`TurnService::take`]: a session is taken for one turn; others wait until it is over.

use std::time::{Duration, Instant};

use cleveragents_domain::{LeaseSubject, SessionId, Ttl, Turn};
use cleveragents_process::Cancel;
use cleveragents_store::turns;

use super::error::TurnError;
use super::request::TurnObserver;
use super::service::TurnService;
use crate::lease::{HeldLease, LeaseError};

/// The first pause before a session is tried again, and the longest one.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// How to wait for another turn of a session.
pub struct Waiting<'a> {
    /// How long.
    pub patience: Duration,
    /// Who is told of it.
    pub observer: &'a dyn TurnObserver,
    /// What ends it.
    pub cancel: &'a Cancel,
}

/// A session in which no other turn can run until this value is dropped.
///
/// Whatever else a turn needs alone, such as its sandbox, is taken after it and given back before it:
/// then whoever waits here holds nothing that the running turn needs, and finds it free afterwards.
pub struct TakenSession {
    pub(super) session: SessionId,
    pub(super) lease: HeldLease,
    pub(super) interrupted: Option<Turn>,
}

impl TakenSession {
    /// The turn whose process died, with the model and the sandbox it worked with.
    pub const fn interrupted(&self) -> Option<&Turn> {
        self.interrupted.as_ref()
    }
}

impl TurnService {
    /// Takes a session for one turn; waits for one that is running.
    pub fn take(
        &self,
        session: SessionId,
        waiting: &Waiting<'_>,
    ) -> Result<TakenSession, TurnError> {
        let session = self.sessions.get(session)?.id;
        let lease = self.wait(session, waiting)?;
        let interrupted = self.engine.read(|reader| turns::running(reader, session))?;
        Ok(TakenSession {
            session,
            lease,
            interrupted,
        })
    }

    fn wait(&self, session: SessionId, waiting: &Waiting<'_>) -> Result<HeldLease, TurnError> {
        let subject = LeaseSubject::new("session", session);
        let deadline = Instant::now() + waiting.patience;
        let mut pause = FIRST_PAUSE;
        let mut is_told = false;
        loop {
            match self.leases.acquire(subject.clone(), Ttl::default()) {
                Err(LeaseError::Held { .. }) => {}
                other => return Ok(other?),
            }
            if !is_told {
                waiting.observer.waiting();
                is_told = true;
            }
            if waiting.cancel.is_cancelled() {
                return Err(TurnError::Cancelled);
            }
            if Instant::now() > deadline {
                return Err(TurnError::Busy(session));
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}
