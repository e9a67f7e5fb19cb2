//! [`TurnQueue`]: one turn at a time in each conversation, in the order in which the turns were requested.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cleveragents_domain::SessionId;
use tokio::sync::Notify;

/// The turns that run or wait on this server.
#[derive(Default)]
pub(super) struct TurnQueue {
    numbers: Mutex<Numbers>,
    /// Wakes the waiting turns when a turn ends.
    ended: Notify,
}

/// Numbers of the turns, in the order in which they were requested.
#[derive(Default)]
struct Numbers {
    last: u64,
    by_session: HashMap<SessionId, BTreeSet<u64>>,
}

impl TurnQueue {
    /// Takes the next place in the queue of a conversation.
    pub(super) fn enter(self: &Arc<Self>, session: SessionId) -> TurnPlace {
        let mut numbers = self.lock();
        numbers.last += 1;
        let number = numbers.last;
        numbers
            .by_session
            .entry(session)
            .or_default()
            .insert(number);
        TurnPlace {
            queue: Arc::clone(self),
            session,
            number,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the queue of a conversation. Dropping it leaves the queue.
pub(super) struct TurnPlace {
    queue: Arc<TurnQueue>,
    session: SessionId,
    number: u64,
}

impl TurnPlace {
    /// Waits until all earlier turns of the conversation have ended.
    pub(super) async fn wait_until_first(&self) {
        loop {
            let ended = self.queue.ended.notified();
            tokio::pin!(ended);
            // Registered before the check, so that no end is missed.
            ended.as_mut().enable();
            if self.is_first() {
                return;
            }
            ended.await;
        }
    }

    fn is_first(&self) -> bool {
        let numbers = self.queue.lock();
        let first = numbers.by_session.get(&self.session);
        first.and_then(BTreeSet::first) == Some(&self.number)
    }
}

impl Drop for TurnPlace {
    fn drop(&mut self) {
        let mut numbers = self.queue.lock();
        if let Some(places) = numbers.by_session.get_mut(&self.session) {
            places.remove(&self.number);
            if places.is_empty() {
                numbers.by_session.remove(&self.session);
            }
        }
        drop(numbers);
        self.queue.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use cleveragents_domain::SessionId;
    use futures_util::FutureExt as _;

    use super::TurnQueue;

    #[test]
    fn turns_of_a_conversation_run_in_the_order_of_their_places() {
        let queue = Arc::<TurnQueue>::default();
        let session = SessionId::generate();
        let (first, second, third) = (
            queue.enter(session),
            queue.enter(session),
            queue.enter(session),
        );
        let other = queue.enter(SessionId::generate());
        // A later turn waits even if it is polled first.
        let mut waiting = Box::pin(third.wait_until_first());
        assert_eq!(waiting.as_mut().now_or_never(), None);
        assert_eq!(second.wait_until_first().now_or_never(), None);
        assert_eq!(first.wait_until_first().now_or_never(), Some(()));
        assert_eq!(other.wait_until_first().now_or_never(), Some(()));
        // A turn that leaves the queue while it waits does not let later ones pass the running one.
        drop(second);
        assert_eq!(waiting.as_mut().now_or_never(), None);
        drop(first);
        assert_eq!(waiting.as_mut().now_or_never(), Some(()));
    }
}
