//! Group commit: units of work that arrive at the same time share one commit.
//!
//! There is no writer thread. The first caller leads: it takes everything queued so far, its own
//! unit first, runs and commits it on its own thread, and wakes the others. A caller alone thus
//! pays no hand-over, and many callers share one disk flush. Whoever is queued when a leader is done
//! is promoted to lead the next batch.
//!
//! [`Writer::run`] does the work and gives each unit its own outcome; this file only decides who
//! runs what, and is model-checked in `tests/model.rs`.

use std::collections::VecDeque;

use super::sync::{Arc, AtomicUsize, Condvar, Mutex, Ordering, PoisonError};

/// The most units that share a commit.
const BATCH_MAXIMUM: usize = 1024;

/// Runs batches. Must not panic and must leave its outcome in each unit.
pub(crate) trait Writer {
    /// A piece of work with a place for its outcome.
    type Unit;

    /// Runs and commits a batch.
    fn run(&mut self, units: &mut [Self::Unit]);
}

/// How a leader waits for company before it takes its batch.
pub(crate) trait Linger {
    /// Waits for `queued()` to reach `expected`, as long as that seems worth it.
    fn wait(&self, expected: usize, queued: &dyn Fn() -> usize);
}

/// The queue in front of a writer.
#[derive(Debug)]
pub(crate) struct GroupCommit<W: Writer, L> {
    queue: Mutex<Queue<W::Unit>>,
    length: AtomicUsize,
    writer: Mutex<W>,
    linger: L,
}

#[derive(Debug)]
struct Queue<U> {
    waiting: VecDeque<Arc<Ticket<U>>>,
    /// Whether somebody leads; only the leader may take from `waiting`.
    led: bool,
    last_batch: usize,
}

#[derive(Debug)]
struct Ticket<U> {
    phase: Mutex<Phase<U>>,
    changed: Condvar,
}

#[derive(Debug)]
enum Phase<U> {
    Queued(U),
    Promoted(U),
    Running,
    Done(U),
    Taken,
}

impl<W: Writer, L: Linger> GroupCommit<W, L> {
    pub(crate) fn new(writer: W, linger: L) -> Self {
        Self {
            queue: Mutex::new(Queue {
                waiting: VecDeque::new(),
                led: false,
                last_batch: 0,
            }),
            length: AtomicUsize::new(0),
            writer: Mutex::new(writer),
            linger,
        }
    }

    /// Runs a unit, together with others that come at the same time, and gives it back with its
    /// outcome once that is durable.
    pub(crate) fn submit(&self, unit: W::Unit) -> Option<W::Unit> {
        let ticket = Arc::new(Ticket {
            phase: Mutex::new(Phase::Queued(unit)),
            changed: Condvar::new(),
        });
        let leads = {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.waiting.push_back(Arc::clone(&ticket));
            self.length.store(queue.waiting.len(), Ordering::Release);
            !std::mem::replace(&mut queue.led, true)
        };
        if leads || ticket.wait() == Woken::ToLead {
            self.lead();
        }
        ticket.take()
    }

    /// Uses the writer alone, between two batches.
    pub(crate) fn with_writer<T>(&self, work: impl FnOnce(&mut W) -> T) -> T {
        work(&mut self.writer.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn lead(&self) {
        let expected = self
            .queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .last_batch;
        if expected > 1 {
            self.linger
                .wait(expected, &|| self.length.load(Ordering::Acquire));
        }
        // The writer first: whoever arrives while it is busy elsewhere still joins this batch.
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let batch: Vec<Arc<Ticket<W::Unit>>> = {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            let size = queue.waiting.len().min(BATCH_MAXIMUM);
            queue.last_batch = size;
            let batch = queue.waiting.drain(..size).collect();
            self.length.store(queue.waiting.len(), Ordering::Release);
            batch
        };
        let mut units: Vec<W::Unit> = batch.iter().filter_map(|ticket| ticket.begin()).collect();
        writer.run(&mut units);
        drop(writer);
        self.hand_over();
        for (ticket, unit) in batch.iter().zip(units) {
            ticket.finish(unit);
        }
    }

    fn hand_over(&self) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        match queue.waiting.front() {
            Some(next) => next.promote(),
            None => queue.led = false,
        }
    }
}

#[derive(PartialEq)]
enum Woken {
    ToLead,
    Finished,
}

impl<U> Ticket<U> {
    fn wait(&self) -> Woken {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match *phase {
                Phase::Promoted(_) => return Woken::ToLead,
                Phase::Done(_) | Phase::Taken => return Woken::Finished,
                Phase::Queued(_) | Phase::Running => {
                    phase = self
                        .changed
                        .wait(phase)
                        .unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    fn begin(&self) -> Option<U> {
        match self.replace(Phase::Running) {
            Phase::Queued(unit) | Phase::Promoted(unit) => Some(unit),
            _ => None,
        }
    }

    fn promote(&self) {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        *phase = match std::mem::replace(&mut *phase, Phase::Taken) {
            Phase::Queued(unit) => Phase::Promoted(unit),
            other => other,
        };
        self.changed.notify_one();
    }

    fn finish(&self, unit: U) {
        self.replace(Phase::Done(unit));
        self.changed.notify_one();
    }

    fn take(&self) -> Option<U> {
        match self.replace(Phase::Taken) {
            Phase::Done(unit) => Some(unit),
            _ => None,
        }
    }

    fn replace(&self, next: Phase<U>) -> Phase<U> {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *phase, next)
    }
}
