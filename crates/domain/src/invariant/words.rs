//! Approximates the meaning of a sentence from its words: enough to detect that two sentences are equal, or that one
//! negates the other.
//!
//! The detection is conservative on purpose. A missed contradiction is left to the invariant actor; a wrongly detected
//! one would disable a user's rule.

/// Characters that are stripped from both ends of a word.
const PUNCTUATION: &[char] = &[
    '.', ',', ';', ':', '!', '?', '"', '\'', '`', '(', ')', '[', ']', '…', '“', '”', '‘', '’', '«',
    '»',
];

/// Words that do not change the meaning of a sentence.
const EMPHASIS: &[&str] = &["always", "must", "shall", "should"];

/// Words that start a subordinate clause: a `not` there negates only a part.
const SUBORDINATE: &[&str] = &[
    "because", "if", "that", "unless", "until", "when", "where", "which", "while", "who", "whose",
];

/// Contracted negations and their long forms.
const CONTRACTIONS: &[(&str, &[&str])] = &[
    ("can't", &["can", "not"]),
    ("cannot", &["can", "not"]),
    ("doesn't", &["does", "not"]),
    ("don't", &["do", "not"]),
    ("isn't", &["is", "not"]),
    ("aren't", &["are", "not"]),
    ("mustn't", &["must", "not"]),
    ("shouldn't", &["should", "not"]),
    ("won't", &["will", "not"]),
];

/// Token for a negation; no word is spelled like this.
const NEGATION: &str = "!";

/// A sentence split into words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Words {
    plain: String,
    meaning: String,
    denied: Option<String>,
}

impl Words {
    /// Splits a sentence.
    pub(super) fn parse(text: &str) -> Self {
        let lower = text.to_lowercase().replace(['’', '‘'], "'");
        let plain: Vec<&str> = lower
            .split_whitespace()
            .map(|word| word.trim_matches(PUNCTUATION))
            .filter(|word| !word.is_empty())
            .collect();
        let meaning = meaning(&plain);
        let denied = denied(&meaning).map(|words| words.join(" "));
        Self {
            // A text of punctuation only is compared as it is.
            plain: if plain.is_empty() {
                lower.clone()
            } else {
                plain.join(" ")
            },
            meaning: meaning.join(" "),
            denied,
        }
    }

    /// Words without case, punctuation and spaces: equal when two sentences are the same.
    pub(super) fn plain(&self) -> &str {
        &self.plain
    }

    /// Words without emphasis, and with one token for every form of negation.
    pub(super) fn meaning(&self) -> &str {
        &self.meaning
    }

    /// Meaning of the sentence that this one negates, if any.
    pub(super) fn denied(&self) -> Option<&str> {
        self.denied.as_deref()
    }
}

fn meaning<'w>(plain: &[&'w str]) -> Vec<&'w str> {
    let mut words: Vec<&str> = Vec::with_capacity(plain.len());
    for word in plain {
        match CONTRACTIONS.iter().find(|(short, _)| short == word) {
            Some((_, long)) => words.extend(*long),
            None => words.push(word),
        }
    }
    let mut meaning: Vec<&str> = Vec::with_capacity(words.len());
    for (index, word) in words.iter().enumerate() {
        let next = words.get(index + 1).copied();
        let is_negated_next = matches!(next, Some("not" | "never"));
        match *word {
            // "must never", "do not": one negation, however it is phrased.
            "not" | "never" => {
                if meaning.last() != Some(&NEGATION) {
                    meaning.push(NEGATION);
                }
            }
            word if EMPHASIS.contains(&word) => {}
            "do" | "does" if is_negated_next || index == 0 => {}
            word => meaning.push(word),
        }
    }
    meaning
}

/// The sentence without its negation; `None` when it has none, or one that negates only a part of the sentence.
fn denied<'w>(meaning: &[&'w str]) -> Option<Vec<&'w str>> {
    let at = meaning.iter().position(|word| *word == NEGATION)?;
    let (before, after) = (&meaning[..at], &meaning[at + 1..]);
    if before.iter().any(|word| SUBORDINATE.contains(word)) || before.len() + after.len() == 0 {
        return None;
    }
    Some([before, after].concat())
}

#[cfg(test)]
mod tests {
    use super::Words;

    fn opposite(left: &str, right: &str) -> bool {
        let (left, right) = (Words::parse(left), Words::parse(right));
        left.denied() == Some(right.meaning()) || right.denied() == Some(left.meaning())
    }

    #[test]
    fn negated_sentences_are_opposites() {
        for (left, right) in [
            ("Never push to main", "always push to main"),
            ("Do not touch `config.toml`.", "touch config.toml"),
            ("don’t touch config.toml", "Do touch config.toml!"),
            ("Tests must pass", "Tests must not pass"),
            (
                "tests must never be skipped",
                "Tests  must always be skipped.",
            ),
            ("The API cannot change", "the API can change"),
            ("We should not use C++", "we must use C++"),
            (
                "do not delete files that are not tracked",
                "delete files that are not tracked",
            ),
        ] {
            assert!(opposite(left, right), "{left} / {right}");
            assert!(opposite(right, left), "{right} / {left}");
        }
    }

    #[test]
    fn other_sentences_are_not_opposites() {
        for (left, right) in [
            ("never use C++", "always use C"),
            ("never push to main", "never push to main"),
            ("never push to main", "do not push to main"),
            ("keep the API", "keep the tests"),
            (
                "do not delete files that are not tracked",
                "do not delete files that are tracked",
            ),
            (
                "delete files that are not tracked",
                "delete files that are tracked",
            ),
            ("not", "always"),
            ("", "..."),
        ] {
            assert!(!opposite(left, right), "{left} / {right}");
        }
    }

    #[test]
    fn sentences_that_differ_in_case_and_punctuation_are_equal() {
        let plain = |text: &str| Words::parse(text).plain().to_owned();
        assert_eq!(plain("Keep  the API."), plain("keep the \"api\""));
        assert_ne!(plain("use C++"), plain("use C"));
        assert_ne!(plain("..."), plain("?!"));
    }
}
