//! Step boundaries at which a test can let the process die, to prove that the next one copes.
//!
//! Only in development builds; in a release nothing is left of it.

/// A step is done and the next has not begun.
#[cfg(debug_assertions)]
pub(crate) fn boundary() {
    use std::sync::atomic::{AtomicU64, Ordering};
    static PASSED: AtomicU64 = AtomicU64::new(0);
    let passed = PASSED.fetch_add(1, Ordering::Relaxed) + 1;
    let fatal = std::env::var("CLEVERAGENTS_DIE_AT_STEP")
        .ok()
        .and_then(|step| step.parse().ok());
    if fatal == Some(passed) {
        let _never =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

/// A step is done and the next has not begun.
#[cfg(not(debug_assertions))]
pub(crate) const fn boundary() {}
