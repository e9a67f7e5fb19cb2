//! [`Driver`]: runs the tasks of the servers. A caller that waits for a server runs the Tokio runtime on its own
//! thread, so that a call needs no thread switch. While no caller waits, the driver thread runs the runtime.

use std::future::Future;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Notify;

/// Time after a call during which the driver thread does not run the runtime. The next call often follows at once, and
/// would first have to wait for the driver thread to release the runtime.
const LINGER: Duration = Duration::from_millis(20);

/// The runtime of the servers, and the driver thread.
pub(crate) struct Driver {
    engine: Arc<Engine>,
    thread: Option<JoinHandle<()>>,
}

/// The runtime with its state. Callers hold it while they wait.
pub(crate) struct Engine {
    runtime: Runtime,
    state: Mutex<EngineState>,
    changed: Condvar,
    release_request: Notify,
}

#[derive(Default)]
struct EngineState {
    waiting: usize,
    last: Option<Instant>,
    is_shut_down: bool,
}

impl Driver {
    pub(crate) fn new() -> io::Result<Self> {
        let engine = Arc::new(Engine {
            runtime: Builder::new_current_thread().enable_all().build()?,
            state: Mutex::default(),
            changed: Condvar::new(),
            release_request: Notify::new(),
        });
        let thread_engine = Arc::clone(&engine);
        let thread = std::thread::Builder::new()
            .name("mcp".to_owned())
            .spawn(move || thread_engine.drive())?;
        Ok(Self {
            engine,
            thread: Some(thread),
        })
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.engine.state().is_shut_down = true;
        self.engine.changed.notify_all();
        self.engine.release_request.notify_one();
        if let Some(thread) = self.thread.take() {
            let _no_result = thread.join();
        }
    }
}

impl Engine {
    /// Handle for spawning tasks.
    pub(crate) fn handle(&self) -> &Handle {
        self.runtime.handle()
    }

    /// Waits for a future and runs all tasks meanwhile.
    pub(crate) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.state().waiting += 1;
        self.release_request.notify_one();
        let output = self.runtime.block_on(future);
        let mut state = self.state();
        state.waiting -= 1;
        state.last = Some(Instant::now());
        output
    }

    /// The driver thread: runs the tasks while no caller waits, until shutdown.
    fn drive(&self) {
        loop {
            let mut state = self.state();
            loop {
                if state.is_shut_down {
                    return;
                }
                let is_quiet = state.last.is_none_or(|last| last.elapsed() >= LINGER);
                if state.waiting == 0 && is_quiet {
                    break;
                }
                state = self
                    .changed
                    .wait_timeout(state, LINGER)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
            drop(state);
            self.runtime.block_on(self.release_request.notified());
        }
    }

    fn state(&self) -> MutexGuard<'_, EngineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    use super::Driver;

    #[test]
    fn tasks_run_while_no_caller_waits_and_while_several_do() {
        let driver = Driver::new().expect("a runtime");
        let engine = Arc::clone(driver.engine());
        let (sender, receiver) = mpsc::channel();
        engine.handle().spawn(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            sender.send(()).expect("the test receives");
        });
        receiver.recv().expect("the driver thread ran the task");

        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let task = engine.handle().spawn(async {
                            tokio::task::yield_now().await;
                            7
                        });
                        assert_eq!(engine.wait(task).expect("the task finishes"), 7);
                    }
                });
            }
        });
    }

    struct StopFlag(Arc<AtomicBool>);

    impl Drop for StopFlag {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[test]
    fn dropping_the_driver_ends_its_thread() {
        let is_dropped = Arc::new(AtomicBool::new(false));
        let driver = Driver::new().expect("a runtime");
        let guard = StopFlag(Arc::clone(&is_dropped));
        driver.engine().handle().spawn(async move {
            let _held = guard;
            std::future::pending::<()>().await;
        });
        drop(driver);
        assert!(is_dropped.load(Ordering::SeqCst));
    }
}
