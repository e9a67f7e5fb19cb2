//! Search queries, parsed in the same way for every database: all words are required, a quoted phrase must occur as
//! such, and a word that ends in `*` matches as a prefix.

/// Maximum number of characters of a filter or a search query. Databases reject much longer patterns with their own
/// errors.
pub const MAX_FILTER_CHARACTERS: usize = 1_000;

/// A filter has more than [`MAX_FILTER_CHARACTERS`] characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the filter has {0} characters, more than the maximum of {MAX_FILTER_CHARACTERS}")]
pub struct FilterTooLong(pub usize);

/// Checks the length of a filter or a search query.
pub fn check_filter(text: &str) -> Result<(), FilterTooLong> {
    let count = text.chars().count();
    if count > MAX_FILTER_CHARACTERS {
        return Err(FilterTooLong(count));
    }
    Ok(())
}

/// The text is not a valid search query.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SearchQueryError {
    /// The query has no letter and no digit.
    #[error("the query `{0}` contains no word to search for")]
    Empty(String),
    #[error(transparent)]
    TooLong(#[from] FilterTooLong),
}

/// One required term of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// Words; several when quoted as a phrase.
    pub words: Vec<String>,
    /// Whether the last word matches as a prefix.
    pub prefix: bool,
}

/// A query with at least one term.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchQuery {
    terms: Vec<Term>,
}

impl SearchQuery {
    /// Parses user input. Everything except letters and digits only separates words.
    pub fn parse(text: &str) -> Result<Self, SearchQueryError> {
        check_filter(text)?;
        let mut terms = Vec::new();
        for (index, part) in text.split('"').enumerate() {
            if index % 2 == 1 {
                terms.extend(Term::from_words(part, false));
            } else {
                for word in part.split_whitespace() {
                    terms.extend(Term::from_words(word, word.ends_with('*')));
                }
            }
        }
        if terms.is_empty() {
            return Err(SearchQueryError::Empty(text.to_owned()));
        }
        Ok(Self { terms })
    }

    /// The terms, all of which must match.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }
}

impl Term {
    fn from_words(text: &str, prefix: bool) -> Option<Self> {
        let words: Vec<String> = text
            .split(|character: char| !character.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect();
        (!words.is_empty()).then_some(Self { words, prefix })
    }
}

#[cfg(test)]
mod tests {
    use super::SearchQuery;
    use proptest::prelude::*;

    #[test]
    fn words_phrases_and_prefixes_are_parsed() {
        let query = SearchQuery::parse(r#"race "engine cache" mess* don't"#).expect("a query");
        let shape: Vec<_> = query
            .terms()
            .iter()
            .map(|term| (term.words.join(" "), term.prefix))
            .collect();
        assert_eq!(
            shape,
            [
                ("race".to_owned(), false),
                ("engine cache".to_owned(), false),
                ("mess".to_owned(), true),
                ("don t".to_owned(), false),
            ]
        );
    }

    #[test]
    fn punctuation_alone_is_not_a_query() {
        for text in ["", "  ", "\"\"", "* ( ) \" OR:"] {
            assert_eq!(
                SearchQuery::parse(text).is_err(),
                !text.contains("OR"),
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn words_contain_no_operator(text in "\\PC{0,60}") {
            if let Ok(query) = SearchQuery::parse(&text) {
                for word in query.terms().iter().flat_map(|term| &term.words) {
                    prop_assert!(!word.is_empty() && word.chars().all(char::is_alphanumeric));
                }
            }
        }
    }
}
