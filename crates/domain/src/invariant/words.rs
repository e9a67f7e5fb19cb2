//! What a sentence says, as far as its words tell: enough to see that two are the same, or that one
//! denies the other.
//!
//! It is careful on purpose. An opposite that is overlooked is left to the invariant actor; one that is
//! imagined would put a person's rule out of force.

/// Not part of a word at its ends.
const PUNCTUATION: &[char] = &[
    '.', ',', ';', ':', '!', '?', '"', '\'', '`', '(', ')', '[', ']', '…', '“', '”', '‘', '’', '«',
    '»',
];

/// Words that say no more than the sentence says without them.
const EMPHASIS: &[&str] = &["always", "must", "shall", "should"];

/// Words behind which a sentence speaks of something else: a `not` there denies only a part.
const SUBORDINATE: &[&str] = &[
    "because", "if", "that", "unless", "until", "when", "where", "which", "while", "who", "whose",
];

/// Negations that are written as one word, and what they are short for.
const SHORT: &[(&str, &[&str])] = &[
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

/// The sign of a denial; no word can be spelled so.
const DENIAL: &str = "!";

/// A sentence taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Words {
    plain: String,
    meaning: String,
    denied: Option<String>,
}

impl Words {
    /// Takes a sentence apart.
    pub(super) fn of(text: &str) -> Self {
        let lower = text.to_lowercase().replace(['’', '‘'], "'");
        let plain: Vec<&str> = lower
            .split_whitespace()
            .map(|word| word.trim_matches(PUNCTUATION))
            .filter(|word| !word.is_empty())
            .collect();
        let meaning = meaning(&plain);
        let denied = denied(&meaning).map(|words| words.join(" "));
        Self {
            // Of nothing but punctuation the text itself is left.
            plain: if plain.is_empty() {
                lower.clone()
            } else {
                plain.join(" ")
            },
            meaning: meaning.join(" "),
            denied,
        }
    }

    /// The words without case, punctuation and spaces: equal when two sentences are the same.
    pub(super) fn plain(&self) -> &str {
        &self.plain
    }

    /// The words without emphasis, and with one sign for every way to deny.
    pub(super) fn meaning(&self) -> &str {
        &self.meaning
    }

    /// The meaning of the sentence that this one denies, if it denies one.
    pub(super) fn denied(&self) -> Option<&str> {
        self.denied.as_deref()
    }
}

fn meaning<'w>(plain: &[&'w str]) -> Vec<&'w str> {
    let mut words: Vec<&str> = Vec::with_capacity(plain.len());
    for word in plain {
        match SHORT.iter().find(|(short, _)| short == word) {
            Some((_, long)) => words.extend(*long),
            None => words.push(word),
        }
    }
    let mut meaning: Vec<&str> = Vec::with_capacity(words.len());
    for (place, word) in words.iter().enumerate() {
        let next = words.get(place + 1).copied();
        let is_denied_next = matches!(next, Some("not" | "never"));
        match *word {
            // "must never", "do not": one denial, however it is said.
            "not" | "never" => {
                if meaning.last() != Some(&DENIAL) {
                    meaning.push(DENIAL);
                }
            }
            word if EMPHASIS.contains(&word) => {}
            "do" | "does" if is_denied_next || place == 0 => {}
            word => meaning.push(word),
        }
    }
    meaning
}

/// The sentence without its denial, when the denial is of the sentence and not of a part of it.
fn denied<'w>(meaning: &[&'w str]) -> Option<Vec<&'w str>> {
    let at = meaning.iter().position(|word| *word == DENIAL)?;
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
        let (left, right) = (Words::of(left), Words::of(right));
        left.denied() == Some(right.meaning()) || right.denied() == Some(left.meaning())
    }

    #[test]
    fn one_sentence_denies_the_other() {
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
    fn what_is_no_denial_is_taken_for_none() {
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
    fn the_same_words_are_the_same_sentence() {
        let plain = |text: &str| Words::of(text).plain().to_owned();
        assert_eq!(plain("Keep  the API."), plain("keep the \"api\""));
        assert_ne!(plain("use C++"), plain("use C"));
        assert_ne!(plain("..."), plain("?!"));
    }
}
