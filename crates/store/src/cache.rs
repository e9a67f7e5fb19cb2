//! One value per key, built once, however many threads ask for it at the same instant.
//!
//! This is the rule behind [`crate::EngineCache`]: the outer map is locked only to find the slot of
//! a key, and the slot of a key is locked while its value is looked up or built. So two callers of
//! one key get the same value, callers of different keys never wait for each other, a failed build
//! leaves the slot empty for the next caller, and the cache itself keeps nothing alive.

use std::collections::HashMap;
use std::hash::Hash;

use super::sync::{Arc, Mutex, PoisonError, Weak};

type Slot<V> = Arc<Mutex<Weak<V>>>;

/// Shared values by key, freed when the last user lets go.
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

    /// Gives the living value of a key, or builds it.
    pub(crate) fn get_or_build<E>(
        &self,
        key: &K,
        build: impl FnOnce() -> Result<V, E>,
    ) -> Result<Arc<V>, E> {
        let slot = self.slot(key);
        let mut value = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(living) = value.upgrade() {
            return Ok(living);
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
        // A new key is rare: the moment to forget slots that nobody uses any more. A slot with a
        // second owner is being looked at, so it stays whatever it holds.
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
