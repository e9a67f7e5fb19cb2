//! Group commit: units of work that arrive at the same time share one commit.
//!
//! There is no writer thread. The first caller leads: it runs everything queued so far on its own
//! thread, its own unit first, then whatever was queued meanwhile, commits it all and wakes the
//! others. A caller alone thus pays no hand-over, many callers share one disk flush, and those who
//! were just woken come back while the first of them are already being run. Whoever is queued when
//! a leader is done is promoted to lead the next batch.
//!
//! [`Writer::run`] does the work and gives each unit its own outcome; this file only decides who
//! runs what, and is model-checked in `tests/model.rs`.

use std::collections::VecDeque;

use super::sync::{Arc, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, PoisonError};

/// Runs batches. Must not panic and must leave its outcome in each unit.
pub(crate) trait Writer {
    /// A piece of work with a place for its outcome.
    type Unit;

    /// Runs and commits a batch. `more` adds units that came in the meantime and says whether there
    /// were any; asked when all units so far ran, it may wait a moment for some.
    fn run(
        &mut self,
        units: &mut Vec<Self::Unit>,
        more: &mut dyn FnMut(&mut Vec<Self::Unit>) -> bool,
    );
}

/// How a leader that ran everything there is waits for company before it commits.
pub(crate) trait Linger {
    /// What is left of the patience of one batch.
    type Patience: Default;

    /// Waits until somebody is queued, as long as that seems worth it. Only asked when fewer have
    /// come to this batch than to the last one.
    fn wait(&self, patience: &mut Self::Patience, queued: &dyn Fn() -> usize);
}

/// The queue in front of a writer.
#[derive(Debug)]
pub(crate) struct GroupCommit<W: Writer, L> {
    queue: Mutex<Queue<W::Unit>>,
    length: AtomicUsize,
    writer: Mutex<W>,
    linger: L,
    /// The most units that share a commit.
    maximum: usize,
}

#[derive(Debug)]
struct Queue<U> {
    waiting: VecDeque<Arc<Ticket<U>>>,
    /// Whether somebody leads or was offered to; only a leader may take from `waiting`.
    led: bool,
    last_batch: usize,
    /// The gate of all who are waiting and of those whom the leader took from here.
    gate: Arc<Gate>,
}

impl<W: Writer, L: Linger> GroupCommit<W, L> {
    pub(crate) fn new(writer: W, linger: L, maximum: usize) -> Self {
        Self {
            queue: Mutex::new(Queue {
                waiting: VecDeque::new(),
                led: false,
                last_batch: 0,
                gate: Arc::default(),
            }),
            length: AtomicUsize::new(0),
            writer: Mutex::new(writer),
            linger,
            maximum,
        }
    }

    /// Runs a unit, together with others that come at the same time, and gives it back with its
    /// outcome once that is durable.
    pub(crate) fn submit(&self, unit: W::Unit) -> W::Unit {
        let (ticket, mut leads) = {
            let mut queue = self.lock_queue();
            let ticket = Arc::new(Ticket::new(unit, Arc::clone(&queue.gate)));
            queue.waiting.push_back(Arc::clone(&ticket));
            self.length.store(queue.waiting.len(), Ordering::Release);
            (ticket, !std::mem::replace(&mut queue.led, true))
        };
        loop {
            if leads {
                self.lead();
            }
            match ticket.take() {
                Ok(unit) => return unit,
                Err(gate) => leads = gate.wait() == Woken::ToLead,
            }
        }
    }

    /// Uses the writer alone, between two batches.
    pub(crate) fn with_writer<T>(&self, work: impl FnOnce(&mut W) -> T) -> T {
        work(&mut self.writer.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn lock_queue(&self) -> MutexGuard<'_, Queue<W::Unit>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lead(&self) {
        // The writer first: whoever arrives while it is busy elsewhere still joins this batch.
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let expected = self.lock_queue().last_batch;
        let mut batch = Batch::default();
        let mut units = Vec::new();
        self.take(&mut batch, &mut units);
        let mut patience = L::Patience::default();
        writer.run(&mut units, &mut |units| {
            let queued = || self.length.load(Ordering::Acquire);
            if queued() == 0 && units.len() < expected {
                self.linger.wait(&mut patience, &queued);
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

    /// Moves what is queued to the batch and says whether there was anything. If not, or if the
    /// batch is full, nobody else can join it.
    fn take(&self, batch: &mut Batch<W::Unit>, units: &mut Vec<W::Unit>) -> bool {
        if batch.gate.is_some() {
            return false;
        }
        let already = batch.tickets.len();
        {
            let mut queue = self.lock_queue();
            let room = self.maximum.saturating_sub(already);
            let size = queue.waiting.len().min(room);
            if size == 0 {
                batch.gate = Some(queue.next_gate());
                return false;
            }
            batch.tickets.extend(queue.waiting.drain(..size));
            self.length.store(queue.waiting.len(), Ordering::Release);
        }
        let new = batch.tickets.iter().skip(already);
        units.extend(new.filter_map(|ticket| ticket.begin()));
        true
    }

    /// Offers the lead to one of those who are queued. Gives the gate of the batch that is done.
    fn hand_over(&self, last_batch: usize, gate: Option<Arc<Gate>>) -> Arc<Gate> {
        let (gate, next) = {
            let mut queue = self.lock_queue();
            let gate = gate.unwrap_or_else(|| queue.next_gate());
            queue.last_batch = last_batch;
            queue.led = !queue.waiting.is_empty();
            (gate, queue.led.then(|| Arc::clone(&queue.gate)))
        };
        if let Some(next) = next {
            next.offer_lead();
        }
        gate
    }
}

impl<U> Queue<U> {
    /// Lets all who are queued, and all who come, wait at a new gate. Gives the old one.
    fn next_gate(&mut self) -> Arc<Gate> {
        let old = std::mem::take(&mut self.gate);
        for ticket in &self.waiting {
            ticket.lock().gate = Arc::clone(&self.gate);
        }
        old
    }
}

/// Those who share a commit.
struct Batch<U> {
    tickets: Vec<Arc<Ticket<U>>>,
    /// Where they wait, once nobody else can join.
    gate: Option<Arc<Gate>>,
}

impl<U> Default for Batch<U> {
    fn default() -> Self {
        Self {
            tickets: Vec::new(),
            gate: None,
        }
    }
}

/// Where the callers of one batch wait, so that a single call wakes them all.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    /// The batch is done.
    open: bool,
    /// One of those who wait shall lead the batch.
    lead_offered: bool,
}

#[derive(PartialEq)]
enum Woken {
    ToLead,
    ToLook,
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self) -> Woken {
        let mut state = self.lock();
        loop {
            if std::mem::take(&mut state.lead_offered) {
                return Woken::ToLead;
            }
            if state.open {
                return Woken::ToLook;
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

/// A caller's unit on its way to a leader and back.
#[derive(Debug)]
struct Ticket<U>(Mutex<TicketState<U>>);

#[derive(Debug)]
struct TicketState<U> {
    phase: Phase<U>,
    /// Where its caller waits.
    gate: Arc<Gate>,
}

#[derive(Debug)]
enum Phase<U> {
    Queued(U),
    /// With the leader, or back with its caller.
    Away,
    Done(U),
}

impl<U> Ticket<U> {
    fn new(unit: U, gate: Arc<Gate>) -> Self {
        Self(Mutex::new(TicketState {
            phase: Phase::Queued(unit),
            gate,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, TicketState<U>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For the leader: the unit that is to be run.
    fn begin(&self) -> Option<U> {
        match std::mem::replace(&mut self.lock().phase, Phase::Away) {
            Phase::Queued(unit) => Some(unit),
            _ => None,
        }
    }

    fn finish(&self, unit: U) {
        self.lock().phase = Phase::Done(unit);
    }

    /// For the caller: the unit when it is done, else the gate to wait at.
    fn take(&self) -> Result<U, Arc<Gate>> {
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
