//! JSON as people write it in `devcontainer.json`: with comments and trailing commas.

/// The same text as plain JSON: comments become blanks, commas before a closing bracket go.
pub(super) fn plain_json(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    let mut in_string = false;
    // Where the last comma stands, when only blanks and comments came since.
    let mut comma: Option<usize> = None;
    while let Some(character) = characters.next() {
        if in_string {
            plain.push(character);
            match character {
                '\\' => plain.extend(characters.next()),
                '"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match (character, characters.peek()) {
            ('/', Some('/')) => while characters.next_if(|next| *next != '\n').is_some() {},
            ('/', Some('*')) => {
                characters.next();
                let mut last = ' ';
                for next in characters.by_ref() {
                    if last == '*' && next == '/' {
                        break;
                    }
                    last = next;
                }
                plain.push(' ');
            }
            _ => {
                match character {
                    ',' => comma = Some(plain.len()),
                    '}' | ']' => {
                        if let Some(at) = comma.take() {
                            plain.replace_range(at..=at, " ");
                        }
                    }
                    other if other.is_whitespace() => {}
                    _ => comma = None,
                }
                in_string = character == '"';
                plain.push(character);
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::plain_json;
    use serde_json::{Value, json};

    fn parse(text: &str) -> Option<Value> {
        serde_json::from_str(&plain_json(text)).ok()
    }

    #[test]
    fn comments_and_trailing_commas_are_read_over() {
        let text = "// head\n{\n  \"name\": \"a // no comment\", /* in\n between */\n  \"list\": [1, 2, /* x */ ],\n}\n";
        assert_eq!(
            parse(text),
            Some(json!({"name": "a // no comment", "list": [1, 2]}))
        );
        assert_eq!(parse("{\"a\": \"\\\",}\"}"), Some(json!({"a": "\",}"})));
    }

    #[test]
    fn what_is_wrong_stays_wrong() {
        for text in ["", "{", "{,,}", "[1,,]", "nonsense", "{\"a\": }", "/* only"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
