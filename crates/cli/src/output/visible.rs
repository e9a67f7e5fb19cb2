//! Makes text safe for a terminal: control characters are shown as escapes, such as `\x1b`.
//!
//! Every escape sequence begins with a control character, so replacing control characters prevents
//! colours, cursor movement, window titles and clipboard writes. The characters that change the
//! direction of text are replaced too, because they make a line look different from its content.

use std::borrow::Cow;
use std::fmt::Write as _;

/// True if a terminal may interpret this character.
fn is_harmful(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn replace(text: &str, is_kept: impl Fn(char) -> bool) -> Cow<'_, str> {
    let needs_escape = |character: char| is_harmful(character) && !is_kept(character);
    if !text.chars().any(needs_escape) {
        return Cow::Borrowed(text);
    }
    let mut result = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if !needs_escape(character) {
            result.push(character);
            continue;
        }
        match character {
            '\n' => result.push_str("\\n"),
            '\r' => result.push_str("\\r"),
            '\t' => result.push_str("\\t"),
            _ => {
                let number = u32::from(character);
                // Writing to a string cannot fail.
                let _written = if number <= 0xFF {
                    write!(result, "\\x{number:02x}")
                } else {
                    write!(result, "\\u{{{number:x}}}")
                };
            }
        }
    }
    Cow::Owned(result)
}

/// The text on one line, with every control character shown as an escape such as `\x1b` or `\n`.
pub fn visible(text: &str) -> Cow<'_, str> {
    replace(text, |_| false)
}

/// The text with every control character except line feeds and tabs shown as an escape.
///
/// A carriage return at the end of a line is part of the line ending and is dropped.
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") {
        let unified = text.replace("\r\n", "\n");
        return Cow::Owned(
            replace(&unified, |character| matches!(character, '\n' | '\t')).into_owned(),
        );
    }
    replace(text, |character| matches!(character, '\n' | '\t'))
}

#[cfg(test)]
mod tests {
    use super::{visible, visible_lines};
    use proptest::prelude::*;

    #[test]
    fn an_escape_sequence_is_shown() {
        assert_eq!(visible("\u{1b}[31mred\u{9b}0m\n"), "\\x1b[31mred\\x9b0m\\n");
        assert_eq!(
            visible_lines("a\r\n\tb\u{7}\u{202e}"),
            "a\n\tb\\x07\\u{202e}"
        );
        assert_eq!(visible("line\rover"), "line\\rover");
    }

    #[test]
    fn ordinary_text_stays_unchanged() {
        for text in ["", "naïve 日本語 👩‍👩‍👧 \\n", "C:\\x1b"] {
            assert_eq!(visible(text), text);
        }
    }

    proptest! {
        #[test]
        fn no_control_character_remains(text: String) {
            prop_assert!(!visible(&text).chars().any(char::is_control));
            let is_raw = |letter: char| letter.is_control() && letter != '\n' && letter != '\t';
            prop_assert!(!visible_lines(&text).contains(is_raw));
        }
    }
}
