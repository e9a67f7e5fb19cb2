//! Repeats a test under stress and measures how often it fails.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};

/// The result of one run of a test command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TestRun {
    Passed,
    /// It failed. The text is its output.
    Failed(String),
    /// It could not run, or reached its time limit: this shows nothing about the test.
    CouldNotRun(String),
}

/// Failures of a repeated test.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FailureRate {
    pub(crate) runs: u32,
    /// Runs that failed for the stated reason.
    pub(crate) failures: u32,
    /// Runs that failed for another reason.
    pub(crate) other_failures: u32,
    /// Runs that could not run.
    pub(crate) not_run: u32,
}

/// The chance, in percent, that a test passes in all runs after a fix although the defect is still there.
const ACCEPTED_CHANCE_PERCENT: f64 = 1.0;

/// Maximum number of runs of a test on a fix.
const MAX_RUNS: u32 = 200;

impl FailureRate {
    /// The part of the runs that failed for the stated reason, from 0 to 1.
    pub(crate) fn rate(&self) -> f64 {
        if self.runs == 0 {
            return 0.0;
        }
        f64::from(self.failures) / f64::from(self.runs)
    }

    /// True if every run failed for the stated reason.
    pub(crate) const fn is_certain(&self) -> bool {
        self.runs > 0 && self.failures == self.runs
    }

    /// The number of runs without a failure that show that a defect with this rate is fixed: with fewer runs, the
    /// defect could stay undetected by chance.
    pub(crate) fn runs_to_confirm(&self) -> u32 {
        let rate = self.rate();
        if self.is_certain() {
            return self.runs.clamp(1, MAX_RUNS);
        }
        if rate <= 0.0 {
            return MAX_RUNS;
        }
        let needed = (ACCEPTED_CHANCE_PERCENT / 100.0).ln() / (1.0 - rate).ln();
        let mut runs = self.runs.max(1);
        while f64::from(runs) < needed && runs < MAX_RUNS {
            runs += 1;
        }
        runs.min(MAX_RUNS)
    }
}

/// Repeats a test, several runs at the same time, so that they compete for the processors. `is_expected` decides if a
/// failure has the stated reason. Returns the rate, and the output of the first failure for another reason.
pub(crate) fn repeat(
    runs: u32,
    parallel: usize,
    run: impl Fn() -> TestRun + Sync,
    is_expected: impl Fn(&str) -> bool + Sync,
) -> (FailureRate, Option<String>) {
    let next = AtomicU32::new(0);
    let collected = Mutex::new((FailureRate::default(), None::<String>));
    std::thread::scope(|scope| {
        for _ in 0..parallel.max(1) {
            scope.spawn(|| {
                while next.fetch_add(1, Ordering::Relaxed) < runs {
                    let result = run();
                    let mut collected = collected.lock().unwrap_or_else(PoisonError::into_inner);
                    let (rate, other) = &mut *collected;
                    rate.runs += 1;
                    match result {
                        TestRun::Passed => {}
                        TestRun::Failed(output) if is_expected(&output) => rate.failures += 1,
                        TestRun::Failed(output) => {
                            rate.other_failures += 1;
                            other.get_or_insert(output);
                        }
                        TestRun::CouldNotRun(reason) => {
                            rate.not_run += 1;
                            other.get_or_insert(reason);
                        }
                    }
                }
            });
        }
    });
    collected
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::{FailureRate, TestRun, repeat};

    fn rate(runs: u32, failures: u32) -> FailureRate {
        FailureRate {
            runs,
            failures,
            ..FailureRate::default()
        }
    }

    #[test]
    fn every_run_is_counted_by_its_result() {
        let number = AtomicU32::new(0);
        let run = || match number.fetch_add(1, Ordering::SeqCst) % 4 {
            0 => TestRun::Passed,
            1 => TestRun::Failed("two engines".to_owned()),
            2 => TestRun::Failed("ImportError".to_owned()),
            _ => TestRun::CouldNotRun("python3 not found".to_owned()),
        };
        let (rate, other) = repeat(40, 4, run, |output| output.contains("two engines"));
        let expected = FailureRate {
            runs: 40,
            failures: 10,
            other_failures: 10,
            not_run: 10,
        };
        assert_eq!(rate, expected);
        assert!(other.is_some());
        assert!((rate.rate() - 0.25).abs() < 1e-9);
    }

    #[test]
    fn a_rare_failure_needs_more_clean_runs() {
        assert_eq!(rate(20, 20).runs_to_confirm(), 20);
        // 0.5^7 < 1 %, so the 20 runs of the proof suffice.
        assert_eq!(rate(20, 10).runs_to_confirm(), 20);
        // 0.9^44 < 1 % ≤ 0.9^43.
        assert_eq!(rate(20, 2).runs_to_confirm(), 44);
        assert_eq!(rate(100, 1).runs_to_confirm(), 200);
        assert_eq!(rate(20, 0).runs_to_confirm(), 200);
        assert!(!rate(20, 19).is_certain());
    }
}
