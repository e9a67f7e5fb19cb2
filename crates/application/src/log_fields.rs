//! Values of fields that log events of several modules share.

use std::time::Instant;

/// The field `duration_ms`: milliseconds since an instant.
pub(crate) fn milliseconds(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)
}
