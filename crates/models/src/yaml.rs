//! Strict YAML parsing: an error contains the file, the line, the column and the expected value.

use serde::de::DeserializeOwned;

use crate::error::{ErrorKind, ModelError};

/// Parses the content of a file; `file` is its name in errors.
pub(crate) fn read<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, ModelError> {
    serde_saphyr::from_str(text).map_err(|error| malformed(file, &error))
}

/// Creates an error for an invalid definition, without a position.
pub(crate) fn broken(file: &str, message: impl Into<String>) -> ModelError {
    ModelError::about(ErrorKind::MalformedFile, file, message)
}

fn malformed(file: &str, error: &serde_saphyr::Error) -> ModelError {
    let error = error.without_snippet();
    let text = error.to_string();
    let mut message = text
        .lines()
        .next()
        .unwrap_or("it cannot be read")
        .to_owned();
    let mut place = file.to_owned();
    if let Some(location) = error.location() {
        let (line, column) = (location.line(), location.column());
        place = format!("{file}:{line}:{column}");
        for phrase in [
            format!(" at line {line}, column {column}"),
            format!("error: line {line} column {column}: "),
            format!("line {line} column {column}: "),
        ] {
            message = message.replace(&phrase, "");
        }
    }
    let mut hint = None;
    if let Some((_, rest)) = message.split_once("unknown field `")
        && let Some((field, known)) = rest.split_once('`')
    {
        let known = known.rsplit("expected ").next().unwrap_or_default();
        let known: Vec<&str> = known
            .trim_start_matches("one of ")
            .split(", ")
            .map(|word| word.trim_matches('`'))
            .collect();
        let similarity = |word: &str| strsim::normalized_damerau_levenshtein(field, word);
        let nearest = known
            .iter()
            .copied()
            .max_by(|left, right| similarity(left).total_cmp(&similarity(right)));
        hint = Some(match nearest.filter(|word| similarity(word) >= 0.5) {
            Some(word) => format!("write `{word}` instead of `{field}`"),
            None => format!("the fields here are {}", known.join(", ")),
        });
        message = format!("there is no field `{field}`");
    }
    if let Some((_, rest)) = message.split_once("duplicate mapping key: ") {
        let key = rest.split(", set ").next().unwrap_or_default();
        message = format!("the field `{key}` occurs twice");
        hint = Some("remove one of them".to_owned());
    }
    let error = ModelError::about(ErrorKind::MalformedFile, place, message);
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::read;

    #[test]
    fn a_duplicate_field_is_reported() {
        let error = read::<BTreeMap<String, u8>>("f.yaml", "a: 1\na: 2\n").expect_err("twice");
        assert_eq!(error.to_string(), "f.yaml:2:1: the field `a` occurs twice");
    }
}
