//! Group commit: units of work that arrive at the same time share one commit.
//!
//! There is no writer thread. The first caller becomes the leader: on its own thread it runs its
//! own unit, then everything queued meanwhile, commits the batch and wakes the other callers. A
//! lone caller thus pays for no hand-over, many callers share one disk flush, and callers that were
//! just woken can queue again while the leader is still running units. When a leader is done, one
//! of the queued callers is promoted to lead the next batch.
//!
//! [`Writer::run`] does the work and stores each unit's outcome; this file only decides which
//! thread runs which unit, and is model-checked in `tests/model.rs`.

use std::collections::VecDeque;

use super::sync::{Arc, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, PoisonError};

/// Runs batches. Must not panic and must leave an outcome in each unit.
pub(crate) trait Writer {
    /// Work together with a slot for its outcome.
    type Unit;

    /// Runs and commits a batch. `more` appends units that arrived meanwhile and returns whether
    /// there were any; it is called when all units so far have run, and may wait a moment for new
    /// ones.
    fn run(
        &mut self,
        units: &mut Vec<Self::Unit>,
        more: &mut dyn FnMut(&mut Vec<Self::Unit>) -> bool,
    );
}

/// Strategy for how long a leader that ran all units waits for more before it commits.
pub(crate) trait LingerPolicy {
    /// State that the policy keeps while it waits for one batch.
    type WaitState: Default;

    /// Waits until a unit is queued, or until the policy gives up. Only called when the batch so far has fewer units
    /// than the batch before it.
    fn wait(&self, wait_state: &mut Self::WaitState, queued: &dyn Fn() -> usize);
}

/// The queue in front of a writer.
#[derive(Debug)]
pub(crate) struct GroupCommit<W: Writer, L> {
    queue: Mutex<Queue<W::Unit>>,
    length: AtomicUsize,
    writer: Mutex<W>,
    linger: L,
    /// Maximum number of units that share a commit.
    maximum: usize,
}

#[derive(Debug)]
struct Queue<U> {
    waiting: VecDeque<Arc<Ticket<U>>>,
    /// Whether there is a leader, or the lead was offered to a caller. Only a leader may take from `waiting`.
    has_leader: bool,
    last_batch: usize,
    /// Gate at which all queued callers wait, and those whose units are already in the current batch.
    gate: Arc<BatchGate>,
}

impl<W: Writer, L: LingerPolicy> GroupCommit<W, L> {
    pub(crate) fn new(writer: W, linger: L, maximum: usize) -> Self {
        Self {
            queue: Mutex::new(Queue {
                waiting: VecDeque::new(),
                has_leader: false,
                last_batch: 0,
                gate: Arc::default(),
            }),
            length: AtomicUsize::new(0),
            writer: Mutex::new(writer),
            linger,
            maximum,
        }
    }

    /// Runs a unit, together with others that arrive at the same time. Returns it with its outcome, once its batch is
    /// committed or has failed.
    pub(crate) fn submit(&self, unit: W::Unit) -> W::Unit {
        let (ticket, mut is_leader) = {
            let mut queue = self.lock_queue();
            let ticket = Arc::new(Ticket::new(unit, Arc::clone(&queue.gate)));
            queue.waiting.push_back(Arc::clone(&ticket));
            self.length.store(queue.waiting.len(), Ordering::Release);
            (ticket, !std::mem::replace(&mut queue.has_leader, true))
        };
        loop {
            if is_leader {
                self.lead();
            }
            match ticket.take() {
                Ok(unit) => return unit,
                Err(gate) => is_leader = gate.wait() == WakeReason::LeadOffered,
            }
        }
    }

    /// Runs `work` with exclusive use of the writer, between two batches.
    pub(crate) fn with_writer<T>(&self, work: impl FnOnce(&mut W) -> T) -> T {
        work(&mut self.writer.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn lock_queue(&self) -> MutexGuard<'_, Queue<W::Unit>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lead(&self) {
        // Lock the writer first: callers that arrive while it is still in use join this batch.
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let expected = self.lock_queue().last_batch;
        let mut batch = Batch::default();
        let mut units = Vec::new();
        self.take(&mut batch, &mut units);
        let mut wait_state = L::WaitState::default();
        writer.run(&mut units, &mut |units| {
            let queued = || self.length.load(Ordering::Acquire);
            if queued() == 0 && units.len() < expected {
                self.linger.wait(&mut wait_state, &queued);
            }
            self.take(&mut batch, units)
        });
        drop(writer);
        let gate = self.hand_over(batch.tickets.len(), batch.gate);
        for (ticket, unit) in batch.tickets.iter().zip(units) {
            ticket.finish(unit);
        }
        gate.open();
    }

    /// Moves queued units to the batch and returns whether there were any. If there were none, or
    /// the batch is full, the batch is closed to new units.
    fn take(&self, batch: &mut Batch<W::Unit>, units: &mut Vec<W::Unit>) -> bool {
        if batch.gate.is_some() {
            return false;
        }
        let size_before = batch.tickets.len();
        {
            let mut queue = self.lock_queue();
            let room = self.maximum.saturating_sub(size_before);
            let size = queue.waiting.len().min(room);
            if size == 0 {
                batch.gate = Some(queue.next_gate());
                return false;
            }
            batch.tickets.extend(queue.waiting.drain(..size));
            self.length.store(queue.waiting.len(), Ordering::Release);
        }
        let added = batch.tickets.iter().skip(size_before);
        units.extend(added.filter_map(|ticket| ticket.begin()));
        true
    }

    /// Offers the lead to one of the queued callers. Returns the gate of the finished batch.
    fn hand_over(&self, last_batch: usize, gate: Option<Arc<BatchGate>>) -> Arc<BatchGate> {
        let (gate, next) = {
            let mut queue = self.lock_queue();
            let gate = gate.unwrap_or_else(|| queue.next_gate());
            queue.last_batch = last_batch;
            queue.has_leader = !queue.waiting.is_empty();
            (gate, queue.has_leader.then(|| Arc::clone(&queue.gate)))
        };
        if let Some(next) = next {
            next.offer_lead();
        }
        gate
    }
}

impl<U> Queue<U> {
    /// Installs a new gate for all queued and future callers. Returns the old one.
    fn next_gate(&mut self) -> Arc<BatchGate> {
        let old = std::mem::take(&mut self.gate);
        for ticket in &self.waiting {
            ticket.lock().gate = Arc::clone(&self.gate);
        }
        old
    }
}

/// Callers whose units share a commit.
struct Batch<U> {
    tickets: Vec<Arc<Ticket<U>>>,
    /// Gate of the batch, set once the batch is closed to new units.
    gate: Option<Arc<BatchGate>>,
}

impl<U> Default for Batch<U> {
    fn default() -> Self {
        Self {
            tickets: Vec::new(),
            gate: None,
        }
    }
}

/// Condition on which the callers of one batch wait, so that a single notification wakes them all.
#[derive(Debug, Default)]
struct BatchGate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    /// Whether the batch is finished.
    open: bool,
    /// Whether one of the waiting callers should become the leader.
    lead_offered: bool,
}

#[derive(PartialEq)]
enum WakeReason {
    LeadOffered,
    BatchFinished,
}

impl BatchGate {
    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self) -> WakeReason {
        let mut state = self.lock();
        loop {
            if std::mem::take(&mut state.lead_offered) {
                return WakeReason::LeadOffered;
            }
            if state.open {
                return WakeReason::BatchFinished;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn offer_lead(&self) {
        self.lock().lead_offered = true;
        self.changed.notify_one();
    }

    fn open(&self) {
        self.lock().open = true;
        self.changed.notify_all();
    }
}

/// A caller's unit while it is queued, run and returned.
#[derive(Debug)]
struct Ticket<U>(Mutex<TicketState<U>>);

#[derive(Debug)]
struct TicketState<U> {
    phase: Phase<U>,
    gate: Arc<BatchGate>,
}

#[derive(Debug)]
enum Phase<U> {
    Queued(U),
    /// Held by the leader, or already returned to its caller.
    Away,
    Done(U),
}

impl<U> Ticket<U> {
    fn new(unit: U, gate: Arc<BatchGate>) -> Self {
        Self(Mutex::new(TicketState {
            phase: Phase::Queued(unit),
            gate,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, TicketState<U>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called by the leader: takes the unit to run.
    fn begin(&self) -> Option<U> {
        match std::mem::replace(&mut self.lock().phase, Phase::Away) {
            Phase::Queued(unit) => Some(unit),
            _ => None,
        }
    }

    fn finish(&self, unit: U) {
        self.lock().phase = Phase::Done(unit);
    }

    /// Called by the caller: returns the finished unit, or the gate to wait at.
    fn take(&self) -> Result<U, Arc<BatchGate>> {
        let mut state = self.lock();
        match std::mem::replace(&mut state.phase, Phase::Away) {
            Phase::Done(unit) => Ok(unit),
            other => {
                state.phase = other;
                Err(Arc::clone(&state.gate))
            }
        }
    }
}
