//! [`Reach`]: what stops a part of a run, and [`Alarm`], which stops it when its time is over.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cleveragents_process::Cancel;

use super::halt::Halt;

/// What stops a part of a run: a handle of its own, cancelled with those above and when time is over.
pub(super) struct Reach<'a> {
    pub(super) cancel: Cancel,
    pub(super) deadline: Option<Instant>,
    alarm: &'a Alarm,
    /// Kept so that the alarm forgets it in the end.
    _armed: Option<Armed<'a>>,
}

impl<'a> Reach<'a> {
    /// That of a whole run.
    pub(super) fn of_run(
        cancel: &Cancel,
        alarm: &'a Alarm,
        begun: Instant,
        timeout: Option<Duration>,
    ) -> Self {
        Self::new(
            cancel.child(),
            alarm,
            timeout.and_then(|timeout| begun.checked_add(timeout)),
        )
    }

    fn new(cancel: Cancel, alarm: &'a Alarm, deadline: Option<Instant>) -> Self {
        Self {
            _armed: deadline.map(|deadline| alarm.set(deadline, &cancel)),
            cancel,
            deadline,
            alarm,
        }
    }

    /// One inside this one that can be cancelled alone.
    pub(super) fn part(&self) -> Self {
        Self {
            cancel: self.cancel.child(),
            deadline: self.deadline,
            alarm: self.alarm,
            _armed: None,
        }
    }

    /// One inside this one that is over after a time.
    pub(super) fn within(&self, timeout: Duration) -> Self {
        let own = Instant::now().checked_add(timeout);
        match (own, self.deadline) {
            (Some(own), above) if above.is_none_or(|above| own < above) => {
                Self::new(self.cancel.child(), self.alarm, Some(own))
            }
            _ => self.part(),
        }
    }

    /// Does a part of the work of a step within a time, when one is given.
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
            Err(Halt::Stopped) if !self.is_over() => Err(Halt::late(
                path,
                format!("it took longer than {} ms", timeout.as_millis()),
            )),
            worked => worked,
        }
    }

    /// Whether it was cancelled, or its time is over.
    pub(super) fn is_over(&self) -> bool {
        self.cancel.is_cancelled()
            || self
                .deadline
                .is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Halts what is to begin when it is over.
    pub(super) fn check(&self) -> Result<(), Halt> {
        if self.is_over() {
            Err(Halt::Stopped)
        } else {
            Ok(())
        }
    }
}

/// Cancels handles when their time is over. Its one thread begins with the first time that is set, and
/// ends with the alarm.
#[derive(Default)]
pub(super) struct Alarm {
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
    set: BTreeMap<(Instant, u64), Cancel>,
    numbers: u64,
    is_over: bool,
}

/// A time that is set; forgotten when dropped.
struct Armed<'a> {
    alarm: &'a Alarm,
    at: (Instant, u64),
}

impl Drop for Armed<'_> {
    fn drop(&mut self) {
        lock(&self.alarm.clock.times).set.remove(&self.at);
    }
}

impl Alarm {
    fn set(&self, when: Instant, cancel: &Cancel) -> Armed<'_> {
        let at = {
            let mut times = lock(&self.clock.times);
            times.numbers += 1;
            let at = (when, times.numbers);
            times.set.insert(at, cancel.clone());
            at
        };
        self.clock.changed.notify_one();
        let mut thread = lock(&self.thread);
        if thread.is_none() {
            let clock = Arc::clone(&self.clock);
            // Without the thread the deadline still reaches everything that looks at it.
            *thread = std::thread::Builder::new()
                .name("run-alarm".to_owned())
                .spawn(move || clock.watch())
                .ok();
        }
        Armed { alarm: self, at }
    }
}

impl Clock {
    fn watch(&self) {
        let mut times = lock(&self.times);
        while !times.is_over {
            let Some((&(when, number), _)) = times.set.first_key_value() else {
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
            } else if let Some(cancel) = times.set.remove(&(when, number)) {
                cancel.cancel();
            }
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        lock(&self.clock.times).is_over = true;
        self.clock.changed.notify_one();
        if let Some(thread) = lock(&self.thread).take() {
            // A panic there has nothing to say about the run.
            let _ended = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{Alarm, Reach};
    use cleveragents_process::Cancel;
    use std::time::{Duration, Instant};

    #[test]
    fn a_part_ends_with_its_time_and_the_whole_goes_on() {
        let (cancel, alarm) = (Cancel::new(), Alarm::default());
        let whole = Reach::of_run(&cancel, &alarm, Instant::now(), None);
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
        let (cancel, alarm) = (Cancel::new(), Alarm::default());
        let hour = Duration::from_hours(1);
        let whole = Reach::of_run(&cancel, &alarm, Instant::now(), Some(hour));
        assert_eq!(whole.within(hour * 2).deadline, whole.deadline);
        assert_eq!(whole.within(Duration::MAX).deadline, whole.deadline);
        assert!(whole.within(Duration::ZERO).deadline < whole.deadline);
    }

    #[test]
    fn what_is_over_before_its_time_is_forgotten() {
        let (cancel, alarm) = (Cancel::new(), Alarm::default());
        let whole = Reach::of_run(&cancel, &alarm, Instant::now(), None);
        drop(whole.within(Duration::from_hours(1)));
        assert!(super::lock(&alarm.clock.times).set.is_empty());
    }
}
