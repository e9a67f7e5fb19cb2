//! Time, size and retry limits of a call.

use std::time::{Duration, SystemTime};

/// Time and size limits of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum wait for a connection.
    pub connect: Duration,
    /// Maximum wait for the first byte of a streamed answer.
    pub first_byte: Duration,
    /// Maximum silence within an answer.
    pub idle: Duration,
    /// Maximum duration of a call, pauses and retries included.
    pub total: Duration,
    /// Maximum size of an answer, in bytes as sent.
    pub response_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_mins(2),
            idle: Duration::from_mins(2),
            total: Duration::from_mins(30),
            response_bytes: 64 * 1024 * 1024,
        }
    }
}

/// Number of retries and the pauses between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Maximum number of attempts after the first.
    pub retries: u32,
    /// First pause; each following pause is twice as long.
    pub first_pause: Duration,
    /// Maximum pause. If the provider requests a longer pause, the call is not retried.
    pub longest_pause: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            retries: 4,
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_mins(1),
        }
    }
}

impl RetryPolicy {
    /// The pause before retry number `number` (from 0); `None` when no retry should be made.
    ///
    /// The wait requested by the provider takes precedence; otherwise the pause doubles each time,
    /// randomised between half and full length, so that many callers do not retry together.
    pub(crate) fn pause(&self, number: u32, requested: Option<Duration>) -> Option<Duration> {
        if number >= self.retries {
            return None;
        }
        if let Some(requested) = requested {
            return (requested <= self.longest_pause).then_some(requested);
        }
        let doubled = self
            .first_pause
            .saturating_mul(1_u32.checked_shl(number).unwrap_or(u32::MAX))
            .min(self.longest_pause);
        Some(doubled.mul_f64(0.5 + fastrand::f64() / 2.0))
    }
}

/// Parses `retry-after` and `retry-after-ms`: seconds, a date, or milliseconds.
pub(crate) fn retry_after<'a>(
    header: impl Fn(&str) -> Option<&'a str>,
    now: SystemTime,
) -> Option<Duration> {
    let number = |name: &str| -> Option<f64> {
        let value: f64 = header(name)?.trim().parse().ok()?;
        (value.is_finite() && value >= 0.0).then_some(value)
    };
    if let Some(milliseconds) = number("retry-after-ms") {
        return Duration::try_from_secs_f64(milliseconds / 1000.0).ok();
    }
    if let Some(seconds) = number("retry-after") {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = httpdate::parse_http_date(header("retry-after")?.trim()).ok()?;
    // A date in the past requests no pause.
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::{RetryPolicy, retry_after};
    use std::time::{Duration, SystemTime};

    #[test]
    fn every_form_of_a_retry_header_is_parsed() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let date = httpdate::fmt_http_date(now + Duration::from_secs(90));
        let past = httpdate::fmt_http_date(now - Duration::from_secs(90));
        let parsed = |name: &'static str, value: &str| {
            let value = value.to_owned();
            retry_after(|header| (header == name).then_some(value.as_str()), now)
        };
        assert_eq!(parsed("retry-after", "7"), Some(Duration::from_secs(7)));
        assert_eq!(
            parsed("retry-after", " 0.5 "),
            Some(Duration::from_millis(500))
        );
        assert_eq!(parsed("retry-after", &date), Some(Duration::from_secs(90)));
        assert_eq!(parsed("retry-after", &past), Some(Duration::ZERO));
        assert_eq!(
            parsed("retry-after-ms", "250"),
            Some(Duration::from_millis(250))
        );
        for nonsense in ["", "-1", "soon", "inf", "NaN", "1e300"] {
            assert_eq!(parsed("retry-after", nonsense), None, "{nonsense}");
        }
        assert_eq!(parsed("other", "1"), None);
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_end_with_the_retries() {
        let policy = RetryPolicy {
            retries: 40,
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(8),
        };
        for number in 0..40 {
            let full = Duration::from_secs(1 << number.min(3));
            let pause = policy.pause(number, None).expect("a pause");
            assert!(full / 2 <= pause && pause <= full, "{number}: {pause:?}");
        }
        assert_eq!(policy.pause(40, None), None);
        assert_eq!(
            policy.pause(0, Some(Duration::from_secs(8))),
            Some(Duration::from_secs(8))
        );
        assert_eq!(policy.pause(0, Some(Duration::from_secs(9))), None);
    }
}
