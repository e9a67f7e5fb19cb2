//! Finds the intended word for a misspelt one, for hints in errors.

/// Minimum similarity of two words to count as alike.
const ALIKE: f64 = 0.5;

/// Returns the known word that is most similar to a misspelt one.
pub fn best<'w>(word: &str, known: impl Iterator<Item = &'w str>) -> Option<String> {
    all(word, known, 1).into_iter().next()
}

/// Returns the known words that are similar to a misspelt one, most similar first.
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
    // Stable sort: of equally similar words the first known comes first.
    found.sort_by(|left, right| right.0.total_cmp(&left.0));
    found
        .into_iter()
        .take(most)
        .map(|(_, known)| known.to_owned())
        .collect()
}

/// The part after the namespace.
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
