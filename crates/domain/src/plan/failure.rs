//! [`FailureCategory`]: cause of the failure of a phase; [`AnswerVerdict`]: answer of the user.

use serde::{Deserialize, Serialize};

macro_rules! stored_words {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$doc])* #[serde(rename = $text)] $variant,)+ }

        impl $name {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Stored and printed name.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// Parses the stored name.
            pub fn from_stored(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.as_str() == text)
            }
        }
    };
}

stored_words! {
    /// Category of the failure of a plan's phase. It decides which recovery is proposed.
    FailureCategory {
        /// An actor or a tool failed permanently.
        Failure = "failure",
        /// An actor or a tool failed temporarily, for example by a timeout.
        Transient = "transient",
        /// The executor reported that it cannot do a step; it needs guidance.
        Blocked = "blocked",
        /// The strategy is unusable.
        Strategy = "strategy",
        /// The strategy or a step violates an invariant.
        Invariant = "invariant",
        /// A required validation failed.
        Validation = "validation",
        /// The target of the apply changed meanwhile.
        MergeConflict = "merge_conflict",
        /// A resource or the sandbox is unusable.
        Resource = "resource",
    }
}

stored_words! {
    /// Answer of the user to a gate, a tool call or a question.
    AnswerVerdict {
        /// The plan may pass the gate, or the call is allowed.
        Approved = "approved",
        /// The plan may not pass the gate, the call is refused, or the question is declined.
        Rejected = "rejected",
        /// A question is answered with text.
        Answered = "answered",
    }
}

#[cfg(test)]
mod tests {
    use super::{AnswerVerdict, FailureCategory};

    #[test]
    fn stored_texts_are_read_back() {
        for category in FailureCategory::ALL.iter().copied() {
            let text = category.as_str();
            assert_eq!(FailureCategory::from_stored(text), Some(category));
            assert_eq!(serde_json::json!(category), text);
        }
        for verdict in AnswerVerdict::ALL.iter().copied() {
            assert_eq!(AnswerVerdict::from_stored(verdict.as_str()), Some(verdict));
        }
        assert_eq!(AnswerVerdict::from_stored("maybe"), None);
    }
}
