//! A stream written as an `async` block that yields items one by one.
//!
//! No task is spawned: the block runs when the stream is polled, and dropping the stream drops the
//! block with all its resources, connections included.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_core::Stream;
use futures_core::stream::BoxStream;

/// Slot through which the block yields its items.
pub(crate) struct Outlet<T>(Arc<Mutex<Option<T>>>);

impl<T> Outlet<T> {
    /// Yields an item and returns when the reader of the stream has taken it.
    pub(crate) async fn give(&self, item: T) {
        *self.lock() = Some(item);
        // No waker is needed: the stream polls the block again each time it is polled.
        poll_fn(|_| match *self.lock() {
            Some(_) => Poll::Pending,
            None => Poll::Ready(()),
        })
        .await;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Creates the stream of the items that the block yields.
pub(crate) fn generate<T, F, B>(make: F) -> BoxStream<'static, T>
where
    T: Send + 'static,
    F: FnOnce(Outlet<T>) -> B,
    B: Future<Output = ()> + Send + 'static,
{
    let slot = Arc::new(Mutex::new(None));
    let block = make(Outlet(Arc::clone(&slot)));
    Box::pin(GeneratedStream {
        slot: Outlet(slot),
        block: Some(Box::pin(block)),
    })
}

struct GeneratedStream<T> {
    slot: Outlet<T>,
    /// `None` after the block has ended.
    block: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<T> Stream for GeneratedStream<T> {
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        if let Some(block) = self.block.as_mut()
            && block.as_mut().poll(context).is_ready()
        {
            self.block = None;
        }
        let item = self.slot.lock().take();
        match item {
            Some(item) => Poll::Ready(Some(item)),
            None if self.block.is_none() => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::generate;
    use futures_util::{FutureExt, StreamExt};

    #[test]
    fn a_stream_yields_its_items_in_order_and_ends() {
        let stream = generate(|outlet| async move {
            for number in 0..5 {
                outlet.give(number).await;
            }
        });
        let items = stream
            .collect::<Vec<_>>()
            .now_or_never()
            .expect("nothing waits");
        assert_eq!(items, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn the_block_does_not_run_ahead() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let mut stream = generate(|outlet| async move {
            for number in 0..3 {
                sender.send(number).expect("the receiver exists");
                outlet.give(number).await;
            }
        });
        assert_eq!(stream.next().now_or_never(), Some(Some(0)));
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [0]);
        drop(stream);
        assert!(
            receiver.recv().is_err(),
            "the block is dropped with its stream"
        );
    }
}
