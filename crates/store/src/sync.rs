//! The synchronization primitives that `cache.rs` and `group.rs` use.
//!
//! The model-checking tests compile those two files a second time with primitives whose
//! interleavings a checker controls, under the same module name.

pub(crate) use std::sync::atomic::{AtomicUsize, Ordering};
pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
