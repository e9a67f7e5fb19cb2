//! The word that a misspelt one probably stands for, so that errors can say what was meant.

/// Words that are less alike than this have nothing to do with each other.
const ALIKE: f64 = 0.5;

/// The word among those known that a misspelt one probably stands for.
pub fn best<'w>(word: &str, known: impl Iterator<Item = &'w str>) -> Option<String> {
    all(word, known, 1).into_iter().next()
}

/// The words among those known that a misspelt one may stand for, the likeliest first.
pub fn all<'w>(word: &str, known: impl Iterator<Item = &'w str>, most: usize) -> Vec<String> {
    let word = word.to_lowercase();
    let own_name = last(&word);
    let mut found: Vec<(f64, &str)> = known
        .map(|known| {
            let likeness = [
                (&*word, known),
                (&*word, last(known)),
                (own_name, last(known)),
            ]
            .into_iter()
            .map(|(left, right)| strsim::normalized_damerau_levenshtein(left, right))
            .fold(0.0, f64::max);
            (likeness, known)
        })
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .collect();
    // Stable: of equally likely ones the first known comes first.
    found.sort_by(|left, right| right.0.total_cmp(&left.0));
    found
        .into_iter()
        .take(most)
        .map(|(_, known)| known.to_owned())
        .collect()
}

/// What follows the namespace.
fn last(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::{all, best};

    #[test]
    fn the_likeliest_comes_first_and_the_unlike_not_at_all() {
        let known = ["builtin/file-read", "builtin/file-write", "builtin/shell"];
        assert_eq!(
            best("builtin/file-raed", known.into_iter()).as_deref(),
            Some("builtin/file-read")
        );
        assert_eq!(
            best("shel", known.into_iter()).as_deref(),
            Some("builtin/shell")
        );
        assert_eq!(
            best("local/shell", known.into_iter()).as_deref(),
            Some("builtin/shell")
        );
        assert_eq!(best("zzzzzzzzzz", known.into_iter()), None);
        assert_eq!(all("builtin/file", known.into_iter(), 2).len(), 2);
    }
}
