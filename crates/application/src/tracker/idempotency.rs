//! [`IdempotencyKey`] and [`WriteAttempt`]: writes that can be repeated and have their effect once.
//!
//! The key is written with the text, in a comment that pages do not show. A repeated write looks for it before it
//! writes.

use std::fmt;
use std::time::{Duration, Instant};

use super::error::TrackerError;

/// Start of the marker in a text.
const PREFIX: &str = "<!-- cleveragents:write:";
const SUFFIX: &str = " -->";

/// The key of one write, such as a ULID. Keys that others cannot guess keep them from faking a finished write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// Accepts up to 64 letters and digits.
    pub fn parse(text: &str) -> Result<Self, TrackerError> {
        let is_valid =
            (8..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if is_valid {
            return Ok(Self(text.to_owned()));
        }
        Err(TrackerError::InvalidKey)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A text with the marker at its end. Markers that the text has are made ineffective.
    pub(super) fn mark(&self, text: &str) -> String {
        let text = text.replace(PREFIX, "<!-- cleveragents:quoted:");
        format!("{}\n\n{PREFIX}{}{SUFFIX}\n", text.trim_end(), self.0)
    }

    /// Whether a text carries the marker of this key.
    pub(super) fn is_in(&self, text: &str) -> bool {
        text.contains(&format!("{PREFIX}{}{SUFFIX}", self.0))
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Removes the marker that a text has at its end.
pub(super) fn without_marker(text: &str) -> &str {
    let trimmed = text.trim_end();
    let body = trimmed.strip_suffix(SUFFIX).and_then(|rest| {
        let (body, key) = rest.rsplit_once(PREFIX)?;
        let is_key = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric());
        is_key.then(|| body.trim_end())
    });
    body.unwrap_or(text)
}

/// The key that a text has at its end.
pub(super) fn marked_key(text: &str) -> Option<String> {
    let body = without_marker(text);
    let rest = text.get(body.len()..)?.trim();
    let key = rest.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    Some(key.to_owned())
}

/// One attempt at a write.
#[derive(Debug, Clone)]
pub struct WriteAttempt<'a> {
    pub key: &'a IdempotencyKey,
    /// Whether an earlier attempt may have had its effect.
    pub is_repeated: bool,
    /// End of the right to write: a request that could last longer does not start.
    pub until: Instant,
}

impl WriteAttempt<'_> {
    /// Fails unless a request of at most `duration` ends before the right to write does.
    pub(super) fn check_time(&self, duration: Duration) -> Result<(), TrackerError> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left > duration {
            return Ok(());
        }
        Err(TrackerError::OutOfTime)
    }
}

#[cfg(test)]
mod tests {
    use super::{IdempotencyKey, marked_key, without_marker};

    #[test]
    fn a_marker_is_found_removed_and_cannot_be_quoted() {
        let key = IdempotencyKey::parse("01J9ZC5V7Q8W9E0R1T2Y3V4X5Z").expect("a key");
        let other = IdempotencyKey::parse("01J9ZC5V7Q8W9E0R1T2Y3V4X50").expect("a key");
        let marked = key.mark("Attempt 1 failed.\n");
        assert!(key.is_in(&marked));
        assert!(!other.is_in(&marked));
        assert_eq!(without_marker(&marked), "Attempt 1 failed.");
        assert!(!key.is_in(&other.mark(&marked)), "a quoted marker counts");
        assert_eq!(marked_key(&marked).as_deref(), Some(key.as_str()));
        assert_eq!(marked_key("Attempt 1 failed."), None);
        assert_eq!(without_marker("no marker -->"), "no marker -->");
        for text in ["", "short", "with space 01J9ZC5V7Q", "-->-->-->"] {
            assert!(IdempotencyKey::parse(text).is_err(), "{text}");
        }
    }
}
