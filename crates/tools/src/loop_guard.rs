//! [`LoopGuard`]: notices a model that does the same thing again and again and gets the same answer.

use std::collections::HashMap;

use cleveragents_domain::ContentHash;
use serde_json::Value;

/// What to do about a call that was just answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Go on.
    Fine,
    /// Tell the model that it repeats itself.
    Repeating {
        /// How often it did the same.
        times: u32,
    },
    /// End the turn: telling did not help.
    Stuck {
        /// How often it did the same.
        times: u32,
    },
}

/// Counts equal calls with equal answers within one turn.
#[derive(Debug)]
pub struct LoopGuard {
    warn_at: u32,
    stop_at: u32,
    seen: HashMap<ContentHash, u32>,
}

impl LoopGuard {
    /// Warns at so many repetitions and stops at so many.
    pub fn new(warn_at: u32, stop_at: u32) -> Self {
        Self {
            warn_at: warn_at.max(2),
            stop_at: stop_at.max(warn_at.max(2) + 1),
            seen: HashMap::new(),
        }
    }

    /// Counts a call. Arguments that are the same JSON are the same, however they are written; what
    /// the answer says counts, not the number of its row or mark.
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
        let times = self.seen.entry(key).or_insert(0);
        *times += 1;
        match *times {
            times if times >= self.stop_at => Verdict::Stuck { times },
            times if times >= self.warn_at => Verdict::Repeating { times },
            _ => Verdict::Fine,
        }
    }
}

impl Default for LoopGuard {
    /// Told at the third time, stopped at the fifth.
    fn default() -> Self {
        Self::new(3, 5)
    }
}

/// The same value with the fields of every object in the order of their names.
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
    fn the_same_call_with_the_same_answer_is_told_and_then_stopped() {
        let mut guard = LoopGuard::default();
        let mut say = |arguments| guard.answered("builtin/file-read", arguments, "no such file");
        assert_eq!(say(r#"{"path":"a","limit":1}"#), Verdict::Fine);
        assert_eq!(say(r#"{"limit":1, "path":"a"}"#), Verdict::Fine);
        assert_eq!(
            say(r#"{"path":"a","limit":1}"#),
            Verdict::Repeating { times: 3 }
        );
        assert_eq!(
            say(r#"{"path":"a","limit":1}"#),
            Verdict::Repeating { times: 4 }
        );
        assert_eq!(
            say(r#"{"path":"a","limit":1}"#),
            Verdict::Stuck { times: 5 }
        );
    }

    #[test]
    fn another_answer_or_another_argument_is_progress() {
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
    fn arguments_that_are_no_json_count_as_written() {
        let mut guard = LoopGuard::new(2, 3);
        assert_eq!(guard.answered("t/x", "{oops", "bad"), Verdict::Fine);
        assert_eq!(
            guard.answered("t/x", "{oops", "bad"),
            Verdict::Repeating { times: 2 }
        );
    }
}
