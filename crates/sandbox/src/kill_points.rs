//! Step boundaries at which a test can kill the process, to verify that the next process recovers.
//!
//! Active only in development builds.

/// Marks the point between two steps.
#[cfg(debug_assertions)]
pub(crate) fn boundary() {
    use std::sync::atomic::{AtomicU64, Ordering};
    static PASSED: AtomicU64 = AtomicU64::new(0);
    let passed = PASSED.fetch_add(1, Ordering::Relaxed) + 1;
    let target_step = std::env::var("CLEVERAGENTS_DIE_AT_STEP")
        .ok()
        .and_then(|step| step.parse().ok());
    if target_step == Some(passed) {
        let _never =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

/// Marks the point between two steps.
#[cfg(not(debug_assertions))]
pub(crate) const fn boundary() {}
