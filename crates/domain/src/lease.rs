//! Leases: the right of one owner to work on a plan or project for a while.
//!
//! Every acquisition raises the fencing token of its subject. A write made under a lease names its
//! token and is refused once another owner has taken over, however late it arrives.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{ProcessId, Timestamp};

/// What a lease is for, such as `plan` and its id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LeaseSubject {
    /// The kind of thing.
    pub kind: String,
    /// Its id or name.
    pub id: String,
}

impl LeaseSubject {
    /// A subject of a kind.
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

/// The fencing token: grows with each acquisition of one subject and is never given out twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeaseToken(pub u64);

impl fmt::Display for LeaseToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

/// Who holds a lease: one run of the program, and where to look whether it still lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Owner {
    /// The run.
    pub process: ProcessId,
    /// The machine, boot and process space it runs in; process numbers mean nothing elsewhere.
    pub host: String,
    /// The operating system's process number there.
    pub pid: u32,
    /// When that process started, in the operating system's ticks, since numbers are reused.
    pub pid_started: u64,
}

impl fmt::Display for Owner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "process {} ({})", self.pid, self.process)
    }
}

/// A lease that was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// What it is for.
    pub subject: LeaseSubject,
    /// Who has it.
    pub owner: Owner,
    /// Its fencing token.
    pub token: LeaseToken,
    /// Since when.
    pub acquired_at: Timestamp,
    /// Until when, unless renewed.
    pub expires_at: Timestamp,
}

/// A duration out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a lease of {0} seconds is out of range: from {minimum} to {maximum}", minimum = Ttl::MINIMUM, maximum = Ttl::MAXIMUM)]
pub struct TtlError(u32);

/// How long a lease lasts without renewal: 5 seconds to 1 hour, 5 minutes by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ttl(u32);

impl Ttl {
    /// The shortest, in seconds.
    pub const MINIMUM: u32 = 5;
    /// The longest, in seconds.
    pub const MAXIMUM: u32 = 3600;

    /// A duration in seconds.
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
