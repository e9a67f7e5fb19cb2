//! [`LoopGuard`]: detects a model that repeats the same call and gets the same result.

use std::collections::HashMap;

use cleveragents_domain::ContentHash;
use serde_json::Value;

/// Decision after a call and its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Continue.
    Fine,
    /// Warn the model that it repeats itself.
    Repeating {
        /// Number of equal calls so far.
        times: u32,
    },
    /// End the turn: the warning did not help.
    Stuck {
        /// Number of equal calls so far.
        times: u32,
    },
}

/// Counts equal calls with equal results within one turn.
#[derive(Debug)]
pub struct LoopGuard {
    warn_at: u32,
    stop_at: u32,
    counts: HashMap<ContentHash, u32>,
}

impl LoopGuard {
    /// Warns at `warn_at` repetitions and stops the turn at `stop_at`.
    pub fn new(warn_at: u32, stop_at: u32) -> Self {
        Self {
            warn_at: warn_at.max(2),
            stop_at: stop_at.max(warn_at.max(2) + 1),
            counts: HashMap::new(),
        }
    }

    /// Counts a call. Arguments are compared as JSON values, not as text. `answer` must not contain
    /// ids that differ between calls ([`CallOutcome::fingerprint`](crate::CallOutcome::fingerprint)).
    pub fn answered(&mut self, tool: &str, arguments: &str, answer: &str) -> Verdict {
        let arguments = serde_json::from_str::<Value>(arguments)
            .map_or_else(|_| arguments.to_owned(), |value| sorted(value).to_string());
        let parts = [tool, &arguments, answer];
        let lengths = parts.map(|part| (part.len() as u64).to_le_bytes());
        let key = ContentHash::of_parts(
            lengths
                .iter()
                .zip(parts)
                .flat_map(|(length, part)| [length.as_slice(), part.as_bytes()]),
        );
        let times = self.counts.entry(key).or_insert(0);
        *times += 1;
        match *times {
            times if times >= self.stop_at => Verdict::Stuck { times },
            times if times >= self.warn_at => Verdict::Repeating { times },
            _ => Verdict::Fine,
        }
    }
}

impl Default for LoopGuard {
    /// Warns at the third repetition and stops at the fifth.
    fn default() -> Self {
        Self::new(3, 5)
    }
}

/// The value with the fields of all objects sorted by name.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.into_iter().collect();
            fields.sort_by(|left, right| left.0.cmp(&right.0));
            fields
                .into_iter()
                .map(|(name, value)| (name, sorted(value)))
                .collect()
        }
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::{LoopGuard, Verdict};

    #[test]
    fn repeated_calls_are_warned_about_and_then_stopped() {
        let mut guard = LoopGuard::default();
        let mut answered =
            |arguments| guard.answered("builtin/file-read", arguments, "no such file");
        assert_eq!(answered(r#"{"path":"a","limit":1}"#), Verdict::Fine);
        assert_eq!(answered(r#"{"limit":1, "path":"a"}"#), Verdict::Fine);
        assert_eq!(
            answered(r#"{"path":"a","limit":1}"#),
            Verdict::Repeating { times: 3 }
        );
        assert_eq!(
            answered(r#"{"path":"a","limit":1}"#),
            Verdict::Repeating { times: 4 }
        );
        assert_eq!(
            answered(r#"{"path":"a","limit":1}"#),
            Verdict::Stuck { times: 5 }
        );
    }

    #[test]
    fn different_results_or_arguments_are_progress() {
        let mut guard = LoopGuard::new(2, 3);
        for turn in 0..20 {
            assert_eq!(
                guard.answered("t/x", "{}", &turn.to_string()),
                Verdict::Fine
            );
            assert_eq!(
                guard.answered("t/x", &format!("[{turn}]"), "same"),
                Verdict::Fine
            );
        }
    }

    #[test]
    fn invalid_json_arguments_are_compared_as_text() {
        let mut guard = LoopGuard::new(2, 3);
        assert_eq!(guard.answered("t/x", "{oops", "bad"), Verdict::Fine);
        assert_eq!(
            guard.answered("t/x", "{oops", "bad"),
            Verdict::Repeating { times: 2 }
        );
    }
}
