//! The synchronisation primitives that `plan/registry.rs` is written against; the model-checking
//! test compiles that file a second time with primitives whose interleavings a checker controls.

pub(crate) use std::sync::{Mutex, MutexGuard, PoisonError};
