//! The open changesets of a plan run, most recent last.
//!
//! The ledger (the store) is authoritative: it numbers entries and refuses a closed changeset in
//! the statement that writes. This list only remembers the most recent changeset for callers
//! without a handle. Its lock is never held during a ledger call: when the chosen changeset turns
//! out to be closed, the next most recent is tried.

use super::super::sync::{Mutex, MutexGuard, PoisonError};

/// Stores changesets and entries.
pub(crate) trait Ledger {
    /// Identifies a changeset.
    type Id: Copy + PartialEq;
    /// A recorded change.
    type Change;
    /// The ledger's receipt for a recorded change.
    type Number;
    /// The error of the ledger.
    type Error;

    /// Stores a new, open changeset.
    fn open(&self) -> Result<Self::Id, Self::Error>;

    /// Records a change, `None` when the changeset is closed.
    fn record(
        &self,
        id: Self::Id,
        change: &Self::Change,
    ) -> Result<Option<Self::Number>, Self::Error>;
}

/// The changeset and the receipt of a recorded change.
type Place<L> = (<L as Ledger>::Id, <L as Ledger>::Number);

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

    /// Records into the most recent open changeset, `None` when none is open.
    pub(crate) fn record_in_most_recent(
        &self,
        change: &L::Change,
    ) -> Result<Option<Place<L>>, L::Error> {
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
