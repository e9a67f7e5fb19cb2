//! Resolves a reference: an id, a prefix of at least 6 characters of one, or a name.

use cleveragents_domain::check_prefix;
use cleveragents_store::Reader;
use serde::Serialize;
use serde_json::{Value, json};

/// Maximum number of candidates in the error for an ambiguous reference.
pub(crate) const CANDIDATES: u64 = 20;

/// The length of a complete id.
const ID_LENGTH: usize = 26;

/// Finds the object of a reference. A complete id matches only as an id; a name takes precedence
/// over a prefix of an id.
///
/// `named` looks up names; callers pass [`unnamed`] for objects without names. `with_prefix` receives a
/// valid prefix in the stored spelling, which may be a complete id, and the limit of results.
/// `unresolved` creates the error from all matches; they are empty if nothing matches.
pub(crate) fn find_referenced<T, E>(
    reader: &mut dyn Reader,
    reference: &str,
    named: impl FnOnce(&mut dyn Reader) -> Result<Vec<T>, E>,
    with_prefix: impl FnOnce(&mut dyn Reader, &str, u64) -> Result<Vec<T>, E>,
    unresolved: impl FnOnce(Vec<T>) -> E,
) -> Result<T, E> {
    let prefix = check_prefix(reference).ok();
    let is_complete_id = prefix
        .as_ref()
        .is_some_and(|prefix| prefix.len() == ID_LENGTH);
    let mut found = if is_complete_id {
        Vec::new()
    } else {
        named(reader)?
    };
    if found.is_empty()
        && let Some(prefix) = prefix
    {
        found = with_prefix(reader, &prefix, CANDIDATES)?;
    }
    if found.len() == 1 {
        return Ok(found.remove(0));
    }
    Err(unresolved(found))
}

/// Finds nothing. Replaces the lookup of names for objects that have none.
#[expect(
    clippy::unnecessary_wraps,
    reason = "callers pass it in place of lookups that can fail"
)]
pub(crate) fn unnamed<T, E>(_: &mut dyn Reader) -> Result<Vec<T>, E> {
    Ok(Vec::new())
}

/// Details of the error for a reference that matches several objects, each with its id and name.
pub(crate) fn ambiguity_details(
    reference: &str,
    candidates: &[(impl Serialize, impl Serialize)],
) -> Value {
    let candidates: Vec<Value> = candidates
        .iter()
        .map(|(id, name)| json!({"id": id, "name": name}))
        .collect();
    json!({"reference": reference, "candidates": candidates})
}

#[cfg(test)]
mod tests {
    use super::{find_referenced, unnamed};
    use cleveragents_store::{Dialect, Error, Param, Reader, Row};

    const IDS: [&str; 3] = [
        "01J9ZCAAAAAAAAAAAAAAAAAAAA",
        "01J9ZCAAAAAAAAAAAAAAAAAAAB",
        "01J9ZDAAAAAAAAAAAAAAAAAAAA",
    ];

    /// The lookups of these tests use no database.
    struct NoDatabase;

    impl Reader for NoDatabase {
        fn dialect(&self) -> Dialect {
            Dialect::Sqlite
        }

        fn query_each(
            &mut self,
            _: &str,
            _: &[Param<'_>],
            _: &mut dyn FnMut(Row) -> Result<(), Error>,
        ) -> Result<(), Error> {
            Ok(())
        }
    }

    fn find(reference: &str) -> Result<&'static str, Vec<&'static str>> {
        find_referenced(
            &mut NoDatabase,
            reference,
            unnamed,
            |_, prefix, _| {
                Ok(IDS
                    .into_iter()
                    .filter(|id| id.starts_with(prefix))
                    .collect())
            },
            |candidates| candidates,
        )
    }

    #[test]
    fn an_id_or_a_unique_prefix_is_found_in_any_case() {
        assert_eq!(find(IDS[1]), Ok(IDS[1]));
        assert_eq!(find("01j9zd"), Ok(IDS[2]));
    }

    #[test]
    fn an_ambiguous_prefix_lists_the_candidates_and_a_short_one_none() {
        assert_eq!(find("01J9ZC"), Err(vec![IDS[0], IDS[1]]));
        assert_eq!(find("01J9Z"), Err(Vec::new()));
        assert_eq!(find("01J9ZE"), Err(Vec::new()));
    }

    #[test]
    fn a_name_takes_precedence_over_a_prefix_and_a_complete_id_over_a_name() {
        let find = |reference: &str| {
            find_referenced(
                &mut NoDatabase,
                reference,
                |_| Ok(vec!["named"]),
                |_, _, _| Ok(vec!["by id"]),
                |candidates: Vec<&str>| candidates.len(),
            )
        };
        assert_eq!(find("01J9ZC"), Ok("named"));
        assert_eq!(find(IDS[0]), Ok("by id"));
    }
}
