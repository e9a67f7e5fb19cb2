//! A cache that builds one value per key exactly once, even when many threads request it at the
//! same time.
//!
//! [`crate::EngineCache`] relies on this: the outer map is locked only to find the slot of a key,
//! and the slot is locked while its value is looked up or built. Callers of one key therefore share
//! the same value, callers of different keys never wait for each other, a failed build leaves the
//! slot empty for the next caller, and the cache itself keeps nothing alive.

use std::collections::HashMap;
use std::hash::Hash;

use super::sync::{Arc, Mutex, PoisonError, Weak};

type Slot<V> = Arc<Mutex<Weak<V>>>;

/// Shared values by key. A value is freed when its last user drops it.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    slots: Mutex<HashMap<K, Slot<V>>>,
}

impl<K: Eq + Hash + Clone, V> Cache<K, V> {
    pub(crate) fn new() -> Self {
        Self {
            slots: Mutex::new(HashMap::new()),
        }
    }

    /// Returns the live value of a key, or builds it.
    pub(crate) fn get_or_build<E>(
        &self,
        key: &K,
        build: impl FnOnce() -> Result<V, E>,
    ) -> Result<Arc<V>, E> {
        let slot = self.slot(key);
        let mut value = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(live) = value.upgrade() {
            return Ok(live);
        }
        let fresh = Arc::new(build()?);
        *value = Arc::downgrade(&fresh);
        Ok(fresh)
    }

    fn slot(&self, key: &K) -> Slot<V> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get(key) {
            return Arc::clone(slot);
        }
        // New keys are rare, so unused slots are dropped here. A slot with a second owner is in use by another caller
        // and stays, even when it is empty.
        slots.retain(|_, slot| {
            Arc::strong_count(slot) > 1
                || slot
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .strong_count()
                    > 0
        });
        let slot = Slot::default();
        slots.insert(key.clone(), Arc::clone(&slot));
        slot
    }

    #[cfg(test)]
    pub(crate) fn slot_count(&self) -> usize {
        self.slots
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }
}
