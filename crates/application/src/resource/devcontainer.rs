//! Parses `devcontainer.json`, which is JSON with comments and trailing commas.

use cleveragents_domain::Properties;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::json;

/// The extensions that the format allows; the parser supports more.
const FORMAT: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// The name and the image of a development container, as far as the file specifies them.
pub(super) fn properties(text: &str) -> Result<Properties, String> {
    // Only this form of the parser limits the nesting depth.
    let parsed = parse_to_ast(text, &CollectOptions::default(), &FORMAT)
        .map_err(|error| format!("it is not JSON: {error}"))?;
    let value = parsed.value.as_ref();
    let object = value
        .and_then(|value| value.as_object())
        .ok_or("it is not a JSON object")?;
    let mut properties = Properties::new();
    for key in ["name", "image"] {
        if let Some(text) = object.get_string(key) {
            properties.insert(key.to_owned(), json!(text.value));
        }
    }
    Ok(properties)
}

#[cfg(test)]
mod tests {
    use super::properties;
    use serde_json::json;

    #[test]
    fn comments_and_trailing_commas_are_allowed() {
        let text = "// head\n{\n  \"name\": \"a // no comment\", /* in\n between */\n  \"list\": [1, 2, /* x */ ],\n  \"image\": \"\\\",}\", \"forward\": 3,\n}\n";
        let found = properties(text).expect("readable");
        assert_eq!(found["name"], json!("a // no comment"));
        assert_eq!(found["image"], json!("\",}"));
        assert_eq!(found.len(), 2);
        let others = properties("{\"name\": 1, \"image\": null}").expect("readable");
        assert!(others.is_empty(), "only string values are used");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "{",
            "{,,}",
            "[1,,]",
            "[1]",
            "nonsense",
            "{\"a\": }",
            "/* only",
            "{'name': 'a'}",
            "{name: \"a\"}",
            "{\"name\": \"a\" \"image\": \"b\"}",
            "{\"name\": 0x1F}",
            "{} {}",
        ] {
            assert!(properties(text).is_err(), "{text:?}");
        }
    }

    /// The file may come from a cloned repository, so it is not trusted.
    #[test]
    fn a_text_that_nests_too_deep_is_refused() {
        for open in ["[", "{\"a\":"] {
            let text = open.repeat(100_000);
            assert!(properties(&text).is_err(), "{open}");
        }
    }
}
