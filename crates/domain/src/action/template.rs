//! Placeholders in the texts of an action: `{name}`, and doubled braces for literal braces. There
//! is no further syntax: no expressions, no conditions, and a value is never interpreted as a
//! template.

/// A token of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece<'t> {
    /// Literal text.
    Text(&'t str),
    /// A doubled brace, which renders as a single one.
    Brace(char),
    /// A placeholder for the value of an argument.
    Place(&'t str),
    /// A brace that is neither doubled nor part of a placeholder.
    Stray(char),
}

/// Whether a text is a valid argument name.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
}

/// Splits a text into tokens, from left to right.
pub(super) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        if at > 0 {
            tokens.push(Piece::Text(&rest[..at]));
        }
        rest = &rest[at..];
        let brace = if rest.starts_with('{') { '{' } else { '}' };
        let place = rest[1..].split_once('}').map(|(name, _)| name);
        let (piece, length) = match place {
            _ if rest[1..].starts_with(brace) => (Piece::Brace(brace), 2),
            Some(name) if brace == '{' && is_name(name) => (Piece::Place(name), name.len() + 2),
            _ => (Piece::Stray(brace), 1),
        };
        tokens.push(piece);
        rest = &rest[length..];
    }
    if !rest.is_empty() {
        tokens.push(Piece::Text(rest));
    }
    tokens
}

/// Fills the placeholders of a text. A placeholder without a value stays unchanged.
pub(super) fn render(text: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut rendered = String::with_capacity(text.len());
    for piece in pieces(text) {
        match piece {
            Piece::Text(text) => rendered.push_str(text),
            Piece::Brace(brace) | Piece::Stray(brace) => rendered.push(brace),
            Piece::Place(name) => match value(name) {
                Some(value) => rendered.push_str(&value),
                None => rendered.extend(["{", name, "}"]),
            },
        }
    }
    rendered
}

/// Doubles braces, so that rendering returns the original text.
pub(super) fn literal(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

#[cfg(test)]
mod tests {
    use super::{Piece, literal, pieces, render};
    use proptest::prelude::*;

    #[test]
    fn a_text_is_split_into_literals_braces_and_placeholders() {
        assert_eq!(
            pieces("a {b-1}{{c}} } {d e}"),
            [
                Piece::Text("a "),
                Piece::Place("b-1"),
                Piece::Brace('{'),
                Piece::Text("c"),
                Piece::Brace('}'),
                Piece::Text(" "),
                Piece::Stray('}'),
                Piece::Text(" "),
                Piece::Stray('{'),
                Piece::Text("d e"),
                Piece::Stray('}'),
            ]
        );
        let filled = render("{{{b}}} {1} {c}", |name| (name == "b").then(|| "x".into()));
        assert_eq!(filled, "{x} {1} {c}");
    }

    proptest! {
        #[test]
        fn rendering_undoes_the_escaping_of_braces(text in "\\PC{0,60}") {
            prop_assert_eq!(render(&literal(&text), |_| Some("never".into())), text);
        }

        #[test]
        fn a_value_is_never_parsed_as_a_template(before in "[a-z {}]{0,12}", value in "[a-z{}]{0,20}", after in "[a-z {}]{0,12}") {
            let text = format!("{}{{x}}{}", literal(&before), literal(&after));
            let filled = render(&text, |name| (name == "x").then(|| value.clone()));
            prop_assert_eq!(filled, format!("{before}{value}{after}"));
        }

        #[test]
        fn joined_tokens_equal_the_text(text in "[a-z{}é]{0,40}") {
            let joined: String = pieces(&text).into_iter().map(|piece| match piece {
                Piece::Text(text) => text.to_owned(),
                Piece::Brace(brace) => format!("{brace}{brace}"),
                Piece::Place(name) => format!("{{{name}}}"),
                Piece::Stray(brace) => brace.to_string(),
            }).collect();
            prop_assert_eq!(joined, text);
        }
    }
}
