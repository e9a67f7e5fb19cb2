//! [`CancelScope`]: cancellation and deadline of a part of a run. [`DeadlineTimer`] cancels a scope at its deadline.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cleveragents_process::Cancel;

use super::halt::Halt;

/// Cancellation and deadline of a part of a run. Its handle is cancelled together with the handles of outer scopes, and
/// at the deadline.
pub(super) struct CancelScope<'a> {
    pub(super) cancel: Cancel,
    pub(super) deadline: Option<Instant>,
    timer: &'a DeadlineTimer,
    /// Removes the deadline from the timer on drop.
    _deadline_guard: Option<DeadlineGuard<'a>>,
}

impl<'a> CancelScope<'a> {
    /// The scope of a whole run.
    pub(super) fn of_run(
        cancel: &Cancel,
        timer: &'a DeadlineTimer,
        started: Instant,
        timeout: Option<Duration>,
    ) -> Self {
        Self::new(
            cancel.child(),
            timer,
            timeout.and_then(|timeout| started.checked_add(timeout)),
        )
    }

    fn new(cancel: Cancel, timer: &'a DeadlineTimer, deadline: Option<Instant>) -> Self {
        Self {
            _deadline_guard: deadline.map(|deadline| timer.set(deadline, &cancel)),
            cancel,
            deadline,
            timer,
        }
    }

    /// A nested scope that can be cancelled on its own.
    pub(super) fn part(&self) -> Self {
        Self {
            cancel: self.cancel.child(),
            deadline: self.deadline,
            timer: self.timer,
            _deadline_guard: None,
        }
    }

    /// A nested scope that ends after a timeout.
    pub(super) fn within(&self, timeout: Duration) -> Self {
        let deadline = Instant::now().checked_add(timeout);
        match (deadline, self.deadline) {
            (Some(deadline), outer) if outer.is_none_or(|outer| deadline < outer) => {
                Self::new(self.cancel.child(), self.timer, Some(deadline))
            }
            _ => self.part(),
        }
    }

    /// Runs a part of a step's work, within a timeout when one is given.
    pub(super) fn timed<T>(
        &self,
        timeout: Option<Duration>,
        path: &str,
        work: impl FnOnce(&Self) -> Result<T, Halt>,
    ) -> Result<T, Halt> {
        let Some(timeout) = timeout else {
            return work(self);
        };
        match work(&self.within(timeout)) {
            Err(Halt::Stopped) if !self.is_over() => Err(Halt::attempt_timed_out(
                path,
                format!("timeout after {} ms", timeout.as_millis()),
            )),
            result => result,
        }
    }

    /// Whether the scope was cancelled or its deadline has passed.
    pub(super) fn is_over(&self) -> bool {
        self.cancel.is_cancelled()
            || self
                .deadline
                .is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Fails when the scope was cancelled or its deadline has passed.
    pub(super) fn check(&self) -> Result<(), Halt> {
        if self.is_over() {
            Err(Halt::Stopped)
        } else {
            Ok(())
        }
    }
}

/// Cancels handles at their deadlines. A single thread starts with the first deadline, and ends with the timer.
#[derive(Default)]
pub(super) struct DeadlineTimer {
    clock: Arc<Clock>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Clock {
    times: Mutex<Times>,
    changed: Condvar,
}

#[derive(Default)]
struct Times {
    deadlines: BTreeMap<(Instant, u64), Cancel>,
    last_number: u64,
    is_over: bool,
}

/// A set deadline; removed when dropped.
struct DeadlineGuard<'a> {
    timer: &'a DeadlineTimer,
    at: (Instant, u64),
}

impl Drop for DeadlineGuard<'_> {
    fn drop(&mut self) {
        lock(&self.timer.clock.times).deadlines.remove(&self.at);
    }
}

impl DeadlineTimer {
    fn set(&self, when: Instant, cancel: &Cancel) -> DeadlineGuard<'_> {
        let at = {
            let mut times = lock(&self.clock.times);
            times.last_number += 1;
            let at = (when, times.last_number);
            times.deadlines.insert(at, cancel.clone());
            at
        };
        self.clock.changed.notify_one();
        let mut thread = lock(&self.thread);
        if thread.is_none() {
            let clock = Arc::clone(&self.clock);
            // If the thread cannot start, code that checks the deadline still stops in time.
            *thread = std::thread::Builder::new()
                .name("run-alarm".to_owned())
                .spawn(move || clock.watch())
                .ok();
        }
        DeadlineGuard { timer: self, at }
    }
}

impl Clock {
    fn watch(&self) {
        let mut times = lock(&self.times);
        while !times.is_over {
            let Some((&(when, number), _)) = times.deadlines.first_key_value() else {
                times = self
                    .changed
                    .wait(times)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let now = Instant::now();
            if when > now {
                (times, _) = self
                    .changed
                    .wait_timeout(times, when - now)
                    .unwrap_or_else(PoisonError::into_inner);
            } else if let Some(cancel) = times.deadlines.remove(&(when, number)) {
                cancel.cancel();
            }
        }
    }
}

impl Drop for DeadlineTimer {
    fn drop(&mut self) {
        lock(&self.clock.times).is_over = true;
        self.clock.changed.notify_one();
        if let Some(thread) = lock(&self.thread).take() {
            // A panic of the timer thread does not affect the run.
            let _ended = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{CancelScope, DeadlineTimer};
    use cleveragents_process::Cancel;
    use std::time::{Duration, Instant};

    #[test]
    fn a_part_times_out_and_the_whole_continues() {
        let (cancel, timer) = (Cancel::new(), DeadlineTimer::default());
        let whole = CancelScope::of_run(&cancel, &timer, Instant::now(), None);
        let part = whole.within(Duration::ZERO);
        let inside = part.part();
        while !inside.cancel.is_cancelled() {
            std::thread::yield_now();
        }
        assert!(part.is_over() && inside.is_over());
        assert!(!whole.is_over() && !cancel.is_cancelled());
    }

    #[test]
    fn a_part_never_has_more_time_than_the_whole() {
        let (cancel, timer) = (Cancel::new(), DeadlineTimer::default());
        let hour = Duration::from_hours(1);
        let whole = CancelScope::of_run(&cancel, &timer, Instant::now(), Some(hour));
        assert_eq!(whole.within(hour * 2).deadline, whole.deadline);
        assert_eq!(whole.within(Duration::MAX).deadline, whole.deadline);
        assert!(whole.within(Duration::ZERO).deadline < whole.deadline);
    }

    #[test]
    fn deadlines_of_finished_parts_are_removed() {
        let (cancel, timer) = (Cancel::new(), DeadlineTimer::default());
        let whole = CancelScope::of_run(&cancel, &timer, Instant::now(), None);
        drop(whole.within(Duration::from_hours(1)));
        assert!(super::lock(&timer.clock.times).deadlines.is_empty());
    }
}
