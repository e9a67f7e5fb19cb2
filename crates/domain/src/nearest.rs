//! Finds the intended word for a misspelt one, for hints in errors.

/// Minimum similarity of a suggested word, from 0 to 1.
const MIN_SIMILARITY: f64 = 0.5;

/// Returns the known word that is most similar to a misspelt one.
pub fn best<'w>(word: &str, known: impl Iterator<Item = &'w str>) -> Option<String> {
    all(word, known, 1).into_iter().next()
}

/// Returns up to `limit` known words that are similar to a misspelt one, most similar first.
pub fn all<'w>(word: &str, known: impl Iterator<Item = &'w str>, limit: usize) -> Vec<String> {
    let word = word.to_lowercase();
    let own_name = last_segment(&word);
    let mut similar: Vec<(f64, &str)> = known
        .map(|known| {
            let similarity = [
                (&*word, known),
                (&*word, last_segment(known)),
                (own_name, last_segment(known)),
            ]
            .into_iter()
            .map(|(left, right)| strsim::normalized_damerau_levenshtein(left, right))
            .fold(0.0, f64::max);
            (similarity, known)
        })
        .filter(|(similarity, _)| *similarity >= MIN_SIMILARITY)
        .collect();
    // The sort is stable, so equally similar words keep their order.
    similar.sort_by(|left, right| right.0.total_cmp(&left.0));
    similar
        .into_iter()
        .take(limit)
        .map(|(_, known)| known.to_owned())
        .collect()
}

/// The part after the namespace.
fn last_segment(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::{all, best};

    #[test]
    fn the_most_similar_word_comes_first_and_dissimilar_words_are_left_out() {
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
