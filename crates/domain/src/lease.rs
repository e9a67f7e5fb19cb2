//! Leases: the exclusive right of one owner to work on something, such as a plan, run or session, for a limited time.
//!
//! Every acquisition increments the fencing token of its subject. A write made under a lease names
//! its token and is refused once another owner has taken over, however late it arrives.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{ProcessId, Timestamp};

/// Subject of a lease, such as `plan` and its id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LeaseSubject {
    /// Kind of entity.
    pub kind: String,
    /// Id or name of the entity.
    pub id: String,
}

impl LeaseSubject {
    /// Creates a subject.
    pub fn new(kind: impl Into<String>, id: impl fmt::Display) -> Self {
        Self {
            kind: kind.into(),
            id: id.to_string(),
        }
    }
}

impl fmt::Display for LeaseSubject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.kind, self.id)
    }
}

/// Fencing token: grows with each acquisition of one subject and is never issued twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeaseToken(pub u64);

impl fmt::Display for LeaseToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

/// Holder of a lease: one run of the program, with the data to check whether it is alive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Owner {
    /// Run of the program.
    pub process: ProcessId,
    /// Machine, boot and process namespace of the owner; its process number is meaningless elsewhere.
    pub host: String,
    /// Process number in the operating system.
    pub pid: u32,
    /// Start time of that process in operating system ticks, since numbers are reused.
    pub pid_started: u64,
}

impl fmt::Display for Owner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "process {} ({})", self.pid, self.process)
    }
}

/// A granted lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub subject: LeaseSubject,
    /// Owner that holds the lease.
    pub owner: Owner,
    /// Fencing token.
    pub token: LeaseToken,
    /// Time of acquisition.
    pub acquired_at: Timestamp,
    /// Time of expiry, unless renewed.
    pub expires_at: Timestamp,
}

/// The duration is out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a lease of {0} seconds is out of range: from {minimum} to {maximum}", minimum = Ttl::MINIMUM, maximum = Ttl::MAXIMUM)]
pub struct TtlError(u32);

/// Duration of a lease without renewal: 5 seconds to 1 hour, 5 minutes by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ttl(u32);

impl Ttl {
    /// Minimum, in seconds.
    pub const MINIMUM: u32 = 5;
    /// Maximum, in seconds.
    pub const MAXIMUM: u32 = 3600;

    /// Creates a duration from seconds.
    pub const fn seconds(seconds: u32) -> Result<Self, TtlError> {
        if seconds < Self::MINIMUM || seconds > Self::MAXIMUM {
            return Err(TtlError(seconds));
        }
        Ok(Self(seconds))
    }

    /// The duration in seconds.
    pub const fn as_seconds(self) -> u32 {
        self.0
    }
}

impl Default for Ttl {
    fn default() -> Self {
        Self(300)
    }
}

#[cfg(test)]
mod tests {
    use super::Ttl;

    #[test]
    fn a_duration_lies_between_five_seconds_and_an_hour() {
        assert!(Ttl::seconds(4).is_err() && Ttl::seconds(3601).is_err());
        assert!(Ttl::seconds(5).is_ok() && Ttl::seconds(3600).is_ok());
        assert_eq!(Ttl::default().as_seconds(), 300);
    }
}
