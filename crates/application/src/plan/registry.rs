//! The open changesets of a plan run, most recent last.
//!
//! The ledger (the store) is authoritative: it numbers entries, and its write statement refuses a closed changeset. The
//! registry only remembers the most recent changeset for callers without a handle. It never holds its lock during a
//! ledger call: if the chosen changeset turns out to be closed, it tries the next most recent one.

use super::super::sync::{Mutex, MutexGuard, PoisonError};

/// Stores changesets and entries.
pub(crate) trait Ledger {
    /// Identifies a changeset.
    type Id: Copy + PartialEq;
    /// A recorded change.
    type Change;
    /// The ledger's receipt for a recorded change.
    type Number;
    type Error;

    /// Stores a new, open changeset.
    fn open(&self) -> Result<Self::Id, Self::Error>;

    /// Records a change; `None` if the changeset is closed.
    fn record(
        &self,
        id: Self::Id,
        change: &Self::Change,
    ) -> Result<Option<Self::Number>, Self::Error>;
}

/// The changeset of a recorded change, and its receipt.
type RecordedChange<L> = (<L as Ledger>::Id, <L as Ledger>::Number);

/// The open changesets of one plan run.
#[derive(Debug)]
pub(crate) struct Registry<L: Ledger> {
    ledger: L,
    open: Mutex<Vec<L::Id>>,
}

impl<L: Ledger> Registry<L> {
    pub(crate) fn new(ledger: L) -> Self {
        Self {
            ledger,
            open: Mutex::new(Vec::new()),
        }
    }

    pub(crate) const fn ledger(&self) -> &L {
        &self.ledger
    }

    /// Stores a new changeset and lists it as the most recent.
    pub(crate) fn start(&self) -> Result<L::Id, L::Error> {
        let id = self.ledger.open()?;
        self.list().push(id);
        Ok(id)
    }

    /// Records a change in the most recent open changeset; `None` if no changeset is open.
    pub(crate) fn record_in_most_recent(
        &self,
        change: &L::Change,
    ) -> Result<Option<RecordedChange<L>>, L::Error> {
        loop {
            let Some(id) = self.list().last().copied() else {
                return Ok(None);
            };
            if let Some(number) = self.ledger.record(id, change)? {
                return Ok(Some((id, number)));
            }
            self.forget(id);
        }
    }

    /// Removes a closed changeset from the list.
    pub(crate) fn forget(&self, id: L::Id) {
        self.list().retain(|open| *open != id);
    }

    /// The open changesets, most recent last.
    pub(crate) fn active(&self) -> Vec<L::Id> {
        self.list().clone()
    }

    fn list(&self) -> MutexGuard<'_, Vec<L::Id>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
