//! Timestamps, stored as microseconds since the epoch, so that they compare by time, independent of the time zone in
//! which they were written.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The text is not a timestamp.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an RFC 3339 time such as 2026-01-31T12:00:00Z")]
pub struct TimestampError(String);

/// A point in time, in microseconds. Prints as RFC 3339 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The current time.
    pub fn now() -> Self {
        Self(jiff::Timestamp::now().as_microsecond())
    }

    /// From microseconds since the epoch, as stored.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the epoch, as stored.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Adds a number of seconds, which may be negative.
    #[must_use]
    pub const fn plus_seconds(self, seconds: i64) -> Self {
        Self(self.0.saturating_add(seconds.saturating_mul(1_000_000)))
    }

    /// Seconds from `earlier` to this time, negative when `earlier` is later.
    #[expect(clippy::cast_precision_loss, reason = "a duration for display")]
    pub fn seconds_since(self, earlier: Self) -> f64 {
        self.0.saturating_sub(earlier.0) as f64 / 1_000_000.0
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(instant) => write!(formatter, "{instant:.6}"),
            Err(_) => write!(formatter, "{}us", self.0),
        }
    }
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, TimestampError> {
        text.parse::<jiff::Timestamp>()
            .map(|instant| Self(instant.as_microsecond()))
            .map_err(|_| TimestampError(text.to_owned()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for Timestamp {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::Timestamp;
    use proptest::prelude::*;

    #[test]
    fn any_offset_names_the_same_instant() {
        let utc: Timestamp = "2026-01-31T12:00:00Z".parse().expect("utc");
        let east: Timestamp = "2026-01-31T14:30:00+02:30".parse().expect("east");
        assert_eq!(utc, east);
        assert_eq!(utc.to_string(), "2026-01-31T12:00:00.000000Z");
    }

    proptest! {
        #[test]
        fn a_time_round_trips_through_text(micros in -10_000_000_000_000_i64..10_000_000_000_000_000) {
            let time = Timestamp::from_micros(micros);
            prop_assert_eq!(time.to_string().parse::<Timestamp>().expect("printed"), time);
        }
    }
}
