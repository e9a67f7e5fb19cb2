//! [`Watch`]: polls for a stop request while work is running.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use cleveragents_process::Cancel;

/// Poll interval.
const EVERY: Duration = Duration::from_millis(300);

/// Polls until it is dropped.
pub(crate) struct Watch {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Cancels when the check returns true.
    pub(crate) fn over(asked: impl Fn() -> bool + Send + 'static, cancel: Cancel) -> Self {
        let stop: Arc<(Mutex<bool>, Condvar)> = Arc::default();
        let shared = Arc::clone(&stop);
        let look = move || {
            let (lock, changed) = &*shared;
            let mut stopped = lock.lock().unwrap_or_else(PoisonError::into_inner);
            while !*stopped {
                stopped = changed
                    .wait_timeout(stopped, EVERY)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
                if *stopped {
                    break;
                }
                if asked() {
                    cancel.cancel();
                    break;
                }
            }
        };
        // Without a thread the work continues to its normal end.
        let thread = std::thread::Builder::new()
            .name("watch".to_owned())
            .spawn(look)
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
            let _it_only_looked = thread.join();
        }
    }
}
