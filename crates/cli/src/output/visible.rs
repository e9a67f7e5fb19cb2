//! Makes text harmless to a terminal: every control character is shown in place of its effect.
//!
//! Escape sequences begin with a control character, so replacing those is enough to stop colours,
//! cursor movement, window titles and clipboard writes. The characters that change the direction of
//! text are replaced too: they make a line read differently from its content.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a terminal may interpret this character.
fn is_harmful(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn replace(text: &str, is_kept: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_shown = |character: char| is_harmful(character) && !is_kept(character);
    if !text.chars().any(is_shown) {
        return Cow::Borrowed(text);
    }
    let mut result = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if !is_shown(character) {
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

/// The text with its lines and tabs kept and every other control character shown as an escape.
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
    fn ordinary_text_is_left_alone() {
        for text in ["", "naïve 日本語 👩‍👩‍👧 \\n", "C:\\x1b"] {
            assert_eq!(visible(text), text);
        }
    }

    proptest! {
        #[test]
        fn no_control_character_remains(text: String) {
            prop_assert!(!visible(&text).chars().any(char::is_control));
            let is_raw = |one: char| one.is_control() && one != '\n' && one != '\t';
            prop_assert!(!visible_lines(&text).contains(is_raw));
        }
    }
}
