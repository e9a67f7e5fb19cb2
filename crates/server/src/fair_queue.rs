//! [`FairQueue`]: so many things run at a time, and callers that wait are served in turn, whoever has how many
//! waiting.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Gives places to run, in turn between callers.
#[derive(Debug, Clone)]
pub(crate) struct FairQueue(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    free: usize,
    max_waiting: usize,
    /// Callers with something waiting, the next one first.
    turns: VecDeque<String>,
    waiting: HashMap<String, VecDeque<oneshot::Sender<Place>>>,
}

/// A place to run. Given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    queue: FairQueue,
    is_used: bool,
}

/// A caller has too many waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooMany;

impl FairQueue {
    /// A queue before `running` places, in which each caller may have `max_waiting` waiting.
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

    /// Waits for a place. Whoever stops waiting takes nobody's turn.
    pub(crate) async fn place(&self, caller: &str) -> Result<Place, TooMany> {
        let waits = {
            let mut state = self.state();
            if state.free > 0 {
                state.free -= 1;
                return Ok(self.fresh());
            }
            let maximum = state.max_waiting;
            let queue = state.waiting.entry(caller.to_owned()).or_default();
            // Those who gave up are still in it.
            queue.retain(|waiter| !waiter.is_closed());
            if queue.len() >= maximum {
                return Err(TooMany);
            }
            let is_first = queue.is_empty();
            let (waiter, waits) = oneshot::channel();
            queue.push_back(waiter);
            if is_first && !state.turns.iter().any(|known| known == caller) {
                state.turns.push_back(caller.to_owned());
            }
            waits
        };
        waits.await.map_err(|_| TooMany)
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.state().waiting.values().map(VecDeque::len).sum()
    }

    fn fresh(&self) -> Place {
        Place {
            queue: self.clone(),
            is_used: true,
        }
    }

    /// Hands a place that became free to the next caller in turn.
    fn give_back(&self) {
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
            match waiter.send(self.fresh()) {
                Ok(()) => return,
                // It gave up in this moment: the place is for the next one, and comes back only once.
                Err(mut place) => place.is_used = false,
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_used {
            self.queue.give_back();
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
            let first = queue.place("busy").await.expect("a place");
            let served = Arc::new(Mutex::new(Vec::new()));
            let mut tasks = Vec::new();
            for caller in ["busy", "busy", "busy", "quiet"] {
                let (queue, served) = (queue.clone(), Arc::clone(&served));
                tasks.push(tokio::spawn(async move {
                    let _place = queue.place(caller).await.expect("a place");
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
    fn a_caller_with_too_many_is_refused_and_others_are_not() {
        runtime().block_on(async {
            let queue = FairQueue::new(1, 1);
            let first = queue.place("busy").await.expect("a place");
            let waiting = queue.clone();
            let task = tokio::spawn(async move { waiting.place("busy").await.is_ok() });
            tokio::task::yield_now().await;
            assert_eq!(queue.place("busy").await.expect_err("refused"), TooMany);
            let other = queue.clone();
            let quiet = tokio::spawn(async move { other.place("quiet").await.is_ok() });
            tokio::task::yield_now().await;
            drop(first);
            assert!(task.await.expect("ends"));
            assert!(quiet.await.expect("ends"));
        });
    }

    #[test]
    fn who_gives_up_keeps_no_place() {
        runtime().block_on(async {
            let queue = FairQueue::new(1, 10);
            let first = queue.place("a").await.expect("a place");
            let gone = queue.clone();
            let task = tokio::spawn(async move { gone.place("a").await.is_ok() });
            tokio::task::yield_now().await;
            task.abort();
            assert!(task.await.is_err(), "it gave up");
            drop(first);
            let _again = queue.place("b").await.expect("the place came back");
        });
    }
}
