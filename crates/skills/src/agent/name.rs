//! Names of agent skills: their validation by the standard, and the names under which they are registered.

use cleveragents_domain::{ContentHash, Name};
use unicode_general_category::{GeneralCategory, get_general_category};
use unicode_normalization::UnicodeNormalization as _;

/// Maximum length of a name.
const MAX_LENGTH: usize = 64;

/// The Unicode-normalised form of a name, for comparisons.
pub(crate) fn normal(name: &str) -> String {
    name.trim().nfkc().collect()
}

/// Problems of a name with their fixes; empty for a valid name.
pub(crate) fn problems(name: &str) -> Vec<(String, &'static str)> {
    let mut problems = Vec::new();
    let count = name.chars().count();
    if count > MAX_LENGTH {
        let message = format!("the name has {count} characters; the maximum is {MAX_LENGTH}");
        problems.push((message, "choose a shorter name"));
    }
    if name != name.to_lowercase() {
        problems.push((
            format!("the name `{name}` contains a capital letter"),
            "write it in lower case",
        ));
    }
    if name.starts_with('-') || name.ends_with('-') || name.contains("--") {
        problems.push((
            format!("the name `{name}` has a leading, trailing or double hyphen"),
            "use single hyphens between words",
        ));
    }
    if !name
        .chars()
        .all(|letter| letter == '-' || is_letter_or_digit(letter))
    {
        problems.push((
            format!("the name `{name}` contains a character that is not allowed"),
            "use letters, digits and hyphens",
        ));
    }
    problems
}

/// Whether a character is a letter or digit by its Unicode category. Combining marks are not letters, as in the
/// reference validator.
fn is_letter_or_digit(letter: char) -> bool {
    use GeneralCategory::{
        DecimalNumber, LetterNumber, LowercaseLetter, ModifierLetter, OtherLetter, OtherNumber,
        TitlecaseLetter, UppercaseLetter,
    };
    matches!(
        get_general_category(letter),
        DecimalNumber
            | LetterNumber
            | LowercaseLetter
            | ModifierLetter
            | OtherLetter
            | OtherNumber
            | TitlecaseLetter
            | UppercaseLetter
    )
}

/// The name under which a skill with a valid name is registered: `local/` and the name. A name that is not ASCII is
/// replaced by its ASCII characters and a part of its hash.
pub(crate) fn registered(name: &str) -> Option<Name> {
    if name.is_ascii() {
        return format!("local/{name}").parse().ok();
    }
    let plain: String = name.chars().filter(char::is_ascii).collect();
    let plain = plain.trim_matches('-');
    let hash = ContentHash::of_bytes(name.as_bytes()).to_string();
    let hash = hash.rsplit(':').next().unwrap_or_default();
    let hash = hash.get(..10).unwrap_or(hash);
    let plain = if plain.is_empty() { "skill" } else { plain };
    format!("local/{plain}-{hash}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{normal, problems, registered};
    use proptest::prelude::*;

    #[test]
    fn non_ascii_names_have_distinct_registered_names() {
        assert_eq!(
            registered("pdf-tools").expect("a name").to_string(),
            "local/pdf-tools"
        );
        let (one, other) = (registered("天气"), registered("天候"));
        assert_ne!(one, other);
        let one = one.expect("a name").to_string();
        assert!(one.starts_with("local/skill-") && one.is_ascii(), "{one}");
        assert!(problems("天气").is_empty() && problems("é").is_empty());
        assert_eq!(normal(" ﬁle "), "file");
    }

    proptest! {
        #[test]
        fn every_valid_name_can_be_registered(name in "\\PC{1,20}") {
            let name = normal(&name);
            if !name.is_empty() && problems(&name).is_empty() {
                let registered = registered(&name).expect("a name");
                prop_assert_eq!(registered.namespace(), "local");
            }
        }
    }
}
