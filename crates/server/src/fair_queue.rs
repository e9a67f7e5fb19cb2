//! [`FairQueue`]: limits concurrent work, and grants slots to waiting callers in turn, regardless of the number of
//! waiting requests of each caller.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Grants slots in turn between callers.
#[derive(Debug, Clone)]
pub(crate) struct FairQueue(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    free: usize,
    max_waiting: usize,
    /// Callers with waiting requests, next one first.
    turns: VecDeque<String>,
    waiting: HashMap<String, VecDeque<oneshot::Sender<Slot>>>,
}

/// A slot. Released on drop.
#[derive(Debug)]
pub(crate) struct Slot {
    queue: FairQueue,
    is_used: bool,
}

/// A caller has too many waiting requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooMany;

impl FairQueue {
    /// A queue for `running` slots, in which each caller may have `max_waiting` waiting requests.
    pub(crate) fn new(running: usize, max_waiting: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            free: running.max(1),
            max_waiting,
            turns: VecDeque::new(),
            waiting: HashMap::new(),
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a slot. A cancelled wait does not use up a turn.
    pub(crate) async fn acquire(&self, caller: &str) -> Result<Slot, TooMany> {
        let granted = {
            let mut state = self.state();
            if state.free > 0 {
                state.free -= 1;
                return Ok(self.new_slot());
            }
            let maximum = state.max_waiting;
            let queue = state.waiting.entry(caller.to_owned()).or_default();
            // Removes cancelled waits from the queue.
            queue.retain(|waiter| !waiter.is_closed());
            if queue.len() >= maximum {
                return Err(TooMany);
            }
            let is_first = queue.is_empty();
            let (waiter, granted) = oneshot::channel();
            queue.push_back(waiter);
            if is_first && !state.turns.iter().any(|known| known == caller) {
                state.turns.push_back(caller.to_owned());
            }
            granted
        };
        granted.await.map_err(|_| TooMany)
    }

    /// Number of waiting requests.
    pub(crate) fn waiting(&self) -> usize {
        self.state().waiting.values().map(VecDeque::len).sum()
    }

    fn new_slot(&self) -> Slot {
        Slot {
            queue: self.clone(),
            is_used: true,
        }
    }

    /// Hands a released slot to the next caller in turn.
    fn release_slot(&self) {
        loop {
            let waiter = {
                let mut state = self.state();
                let Some(caller) = state.turns.pop_front() else {
                    state.free += 1;
                    return;
                };
                let Some(queue) = state.waiting.get_mut(&caller) else {
                    continue;
                };
                let waiter = queue.pop_front();
                if queue.is_empty() {
                    state.waiting.remove(&caller);
                } else {
                    state.turns.push_back(caller);
                }
                waiter
            };
            let Some(waiter) = waiter else { continue };
            match waiter.send(self.new_slot()) {
                Ok(()) => return,
                // The wait was cancelled just now: the slot goes to the next caller, and its drop must not release it.
                Err(mut slot) => slot.is_used = false,
            }
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.is_used {
            self.queue.release_slot();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FairQueue, TooMany};
    use std::sync::{Arc, Mutex};

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime")
    }

    #[test]
    fn callers_are_served_in_turn() {
        runtime().block_on(async {
            let queue = FairQueue::new(1, 10);
            let first = queue.acquire("busy").await.expect("a slot");
            let served = Arc::new(Mutex::new(Vec::new()));
            let mut tasks = Vec::new();
            for caller in ["busy", "busy", "busy", "quiet"] {
                let (queue, served) = (queue.clone(), Arc::clone(&served));
                tasks.push(tokio::spawn(async move {
                    let _slot = queue.acquire(caller).await.expect("a slot");
                    served.lock().expect("not poisoned").push(caller);
                }));
                tokio::task::yield_now().await;
            }
            assert_eq!(queue.waiting(), 4);
            drop(first);
            for task in tasks {
                task.await.expect("ends");
            }
            let served = served.lock().expect("not poisoned").clone();
            assert_eq!(served, ["busy", "quiet", "busy", "busy"]);
            assert_eq!(queue.waiting(), 0);
        });
    }

    #[test]
    fn the_limit_of_waiting_requests_applies_to_each_caller() {
        runtime().block_on(async {
            let queue = FairQueue::new(1, 1);
            let first = queue.acquire("busy").await.expect("a slot");
            let waiting = queue.clone();
            let task = tokio::spawn(async move { waiting.acquire("busy").await.is_ok() });
            tokio::task::yield_now().await;
            assert_eq!(queue.acquire("busy").await.expect_err("refused"), TooMany);
            let other = queue.clone();
            let quiet = tokio::spawn(async move { other.acquire("quiet").await.is_ok() });
            tokio::task::yield_now().await;
            drop(first);
            assert!(task.await.expect("ends"));
            assert!(quiet.await.expect("ends"));
        });
    }

    #[test]
    fn a_cancelled_wait_holds_no_slot() {
        runtime().block_on(async {
            let queue = FairQueue::new(1, 10);
            let first = queue.acquire("a").await.expect("a slot");
            let cancelled = queue.clone();
            let task = tokio::spawn(async move { cancelled.acquire("a").await.is_ok() });
            tokio::task::yield_now().await;
            task.abort();
            assert!(task.await.is_err(), "the wait was cancelled");
            drop(first);
            let _again = queue.acquire("b").await.expect("the slot was released");
        });
    }
}
