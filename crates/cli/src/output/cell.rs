//! One value of a panel or a table, with its unit, and its text for users.
//!
//! Programs read the same facts from `data`, as numbers and RFC 3339 times in UTC; the texts made here are
//! for users only and show local times.

use std::sync::LazyLock;

use cleveragents_domain::{MicroUsd, Timestamp};

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::paint::Tone;
use super::visible::visible;

/// A value shown to users.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Cell {
    /// Ordinary text.
    Text(String),
    /// An id or a prefix of one.
    Id(String),
    Count(u64),
    /// A size in bytes.
    Bytes(u64),
    /// A duration in seconds.
    Seconds(f64),
    /// An amount of money.
    Money(MicroUsd),
    /// A point in time.
    Time(Timestamp),
    /// Less important text.
    Muted(String),
    /// Text that reports success.
    Good(String),
    /// Text that needs attention.
    Warn(String),
    /// Text that reports a failure.
    Bad(String),
}

impl Cell {
    /// The text on one line, safe for a terminal.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Text(text)
            | Self::Id(text)
            | Self::Muted(text)
            | Self::Good(text)
            | Self::Warn(text)
            | Self::Bad(text) => visible(text).into_owned(),
            Self::Count(count) => count.to_string(),
            Self::Bytes(bytes) => size(*bytes),
            Self::Seconds(seconds) => duration(*seconds),
            Self::Money(amount) => money(*amount),
            Self::Time(time) => moment(*time),
        }
    }

    /// True for numbers with or without a unit, and for times.
    pub(crate) const fn is_quantity(&self) -> bool {
        matches!(
            self,
            Self::Count(_) | Self::Bytes(_) | Self::Seconds(_) | Self::Money(_) | Self::Time(_)
        )
    }

    /// Colour of the text.
    pub(crate) const fn tone(&self) -> Tone {
        match self {
            Self::Id(_) => Tone::Id,
            Self::Muted(_) => Tone::Muted,
            Self::Good(_) => Tone::Good,
            Self::Warn(_) => Tone::Warn,
            Self::Bad(_) => Tone::Bad,
            _ => Tone::Plain,
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<usize> for Cell {
    fn from(count: usize) -> Self {
        Self::Count(count as u64)
    }
}

impl From<MicroUsd> for Cell {
    fn from(amount: MicroUsd) -> Self {
        Self::Money(amount)
    }
}

impl From<Timestamp> for Cell {
    fn from(time: Timestamp) -> Self {
        Self::Time(time)
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or_else(|| Self::Muted("(none)".to_owned()), Into::into)
    }
}

/// Formats a size in its largest binary unit.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut unit = 0;
    // Tenths of the unit, rounded; exact for every size.
    let mut tenths = (u128::from(bytes) * 10 + 512) / 1024;
    let mut divisor = 1024_u128;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        unit += 1;
        divisor *= 1024;
        tenths = (u128::from(bytes) * 10 + divisor / 2) / divisor;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}

/// A duration with at most two units.
fn duration(seconds: f64) -> String {
    if !seconds.is_finite() {
        return "unknown".to_owned();
    }
    if seconds < 0.0 {
        return format!("-{}", duration(-seconds));
    }
    if seconds < 0.9995 {
        return format!("{:.0} ms", seconds * 1000.0);
    }
    if seconds < 59.95 {
        return format!("{seconds:.1} s");
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive and finite; the cast saturates"
    )]
    let total = seconds.round() as u64;
    let (days, hours) = (total / 86_400, total / 3600 % 24);
    let (minutes, remainder) = (total / 60 % 60, total % 60);
    if days > 0 {
        format!("{days} d {hours:02} h")
    } else if hours > 0 {
        format!("{hours} h {minutes:02} min")
    } else {
        format!("{minutes} min {remainder:02} s")
    }
}

/// Dollars with four decimals; an amount that would round to zero becomes `<$0.0001`.
fn money(amount: MicroUsd) -> String {
    if (1..50).contains(&amount.0) {
        return "<$0.0001".to_owned();
    }
    let rounded = amount.0.saturating_add(50) / 100;
    format!("${}.{:04}", rounded / 10_000, rounded % 10_000)
}

/// The time zone of the user; UTC in unit tests.
static ZONE: LazyLock<TimeZone> = LazyLock::new(|| {
    if cfg!(test) {
        TimeZone::UTC
    } else {
        TimeZone::try_system().unwrap_or(TimeZone::UTC)
    }
});

/// A time to the second in the time zone of the user.
fn moment(time: Timestamp) -> String {
    moment_in(time, &ZONE)
}

fn moment_in(time: Timestamp, zone: &TimeZone) -> String {
    match jiff::Timestamp::from_microsecond(time.as_micros()) {
        Ok(instant) => instant
            .to_zoned(zone.clone())
            .strftime("%Y-%m-%d %H:%M:%S")
            .to_string(),
        Err(_) => time.to_string(),
    }
}

/// The part of a [`moment`] that ends with the minute.
pub(super) fn to_minute(moment: &str) -> Option<&str> {
    (moment.len() == "2026-01-31 12:00:00".len())
        .then(|| moment.get(..16))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::{Cell, moment_in, to_minute};
    use cleveragents_domain::{MicroUsd, Timestamp};

    #[test]
    fn values_have_units() {
        let cases = [
            (Cell::Bytes(0), "0 B"),
            (Cell::Bytes(1023), "1023 B"),
            (Cell::Bytes(1536), "1.5 KiB"),
            (Cell::Bytes(1024 * 1024 - 1), "1.0 MiB"),
            (Cell::Bytes(u64::MAX), "16.0 EiB"),
            (Cell::Seconds(0.35), "350 ms"),
            (Cell::Seconds(0.9999), "1.0 s"),
            (Cell::Seconds(59.99), "1 min 00 s"),
            (Cell::Seconds(7_384.0), "2 h 03 min"),
            (Cell::Seconds(-90.0), "-1 min 30 s"),
            (Cell::Seconds(180_000.0), "2 d 02 h"),
            (Cell::Seconds(f64::NAN), "unknown"),
            (Cell::Money(MicroUsd(0)), "$0.0000"),
            (Cell::Money(MicroUsd(49)), "<$0.0001"),
            (Cell::Money(MicroUsd(1_234_567)), "$1.2346"),
            (
                Cell::Time(Timestamp::from_micros(1_500_000)),
                "1970-01-01 00:00:01",
            ),
            (Cell::from(None::<u64>), "(none)"),
            (Cell::from(Some(3_u64)), "3"),
            (Cell::from("a\nb"), "a\\nb"),
        ];
        for (cell, expected) in cases {
            assert_eq!(cell.text(), expected);
        }
    }

    #[test]
    fn times_are_local() {
        let winter = Timestamp::from_micros(1_769_860_800_000_000);
        let zone = jiff::tz::TimeZone::fixed(jiff::tz::offset(-5));
        assert_eq!(moment_in(winter, &zone), "2026-01-31 07:00:00");
        assert_eq!(to_minute("2026-01-31 07:00:00"), Some("2026-01-31 07:00"));
        assert_eq!(to_minute("unknown"), None);
    }
}
