//! [`Watch`]: polls for a stop request while work is running.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use cleveragents_process::Cancel;

const POLL_INTERVAL: Duration = Duration::from_millis(300);

/// Polls until it is dropped.
pub(crate) struct Watch {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Cancels the work when `should_stop` returns true.
    pub(crate) fn over(should_stop: impl Fn() -> bool + Send + 'static, cancel: Cancel) -> Self {
        let stop: Arc<(Mutex<bool>, Condvar)> = Arc::default();
        let shared = Arc::clone(&stop);
        let poll = move || {
            let (lock, changed) = &*shared;
            let mut stopped = lock.lock().unwrap_or_else(PoisonError::into_inner);
            while !*stopped {
                stopped = changed
                    .wait_timeout(stopped, POLL_INTERVAL)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
                if *stopped {
                    break;
                }
                if should_stop() {
                    cancel.cancel();
                    break;
                }
            }
        };
        // Without the thread, the work runs to completion.
        let thread = std::thread::Builder::new()
            .name("watch".to_owned())
            .spawn(poll)
            .ok();
        Self { stop, thread }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let (lock, changed) = &*self.stop;
        *lock.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _joined = thread.join();
        }
    }
}
