//! [`Watch`]: looks whether somebody asked for the end of a run, or took it over, while it is at work.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use cleveragents_domain::RunId;
use cleveragents_process::Cancel;
use cleveragents_store::{Engine, runs};

/// So often is looked.
const EVERY: Duration = Duration::from_millis(300);

/// Looks until it is dropped.
pub(super) struct Watch {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Cancels when the run is to end.
    pub(super) fn over(engine: Arc<Engine>, run: RunId, cancel: Cancel) -> Self {
        let stop: Arc<(Mutex<bool>, Condvar)> = Arc::default();
        let heard = Arc::clone(&stop);
        let look = move || {
            let (lock, changed) = &*heard;
            let mut stopped = lock.lock().unwrap_or_else(PoisonError::into_inner);
            while !*stopped {
                stopped = changed
                    .wait_timeout(stopped, EVERY)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
                if *stopped {
                    break;
                }
                // A database that cannot be read now is read again a moment later.
                let asked = engine.read(|reader| runs::get(reader, run));
                if let Ok(Some(run)) = asked
                    && run.is_cancelled
                {
                    cancel.cancel();
                    break;
                }
            }
        };
        // Without a thread the run goes on, and ends where it would have.
        let thread = std::thread::Builder::new()
            .name("run-watch".to_owned())
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
