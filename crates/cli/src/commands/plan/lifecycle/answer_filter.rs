//! [`AnswerFilter`]: hides streamed answers that are JSON, which the program parses.

/// Filter of a streamed answer. Hides JSON answers: the program parses them and reports their
/// content.
#[derive(Debug, Default)]
pub(super) enum AnswerFilter {
    #[default]
    Empty,
    /// The text so far, which is too short to distinguish JSON from other text.
    Undecided(String),
    Text,
    Json,
}

impl AnswerFilter {
    /// Adds a piece and returns the text to show.
    pub(super) fn push(&mut self, piece: &str) -> String {
        let text = match std::mem::take(self) {
            Self::Text => {
                *self = Self::Text;
                return piece.to_owned();
            }
            Self::Json => {
                *self = Self::Json;
                return String::new();
            }
            Self::Empty => piece.to_owned(),
            Self::Undecided(text) => text + piece,
        };
        match is_json(&text) {
            None => *self = Self::Undecided(text),
            Some(true) => *self = Self::Json,
            Some(false) => {
                *self = Self::Text;
                return text;
            }
        }
        String::new()
    }

    /// Ends the answer and returns the withheld text.
    pub(super) fn finish(self) -> String {
        match self {
            Self::Undecided(text) => text,
            _ => String::new(),
        }
    }
}

/// Whether an answer with this prefix is JSON, bare or in a code block; `None` while undecided.
fn is_json(text: &str) -> Option<bool> {
    const FENCE: &str = "```";
    let text = text.trim_start();
    let inside = match text.strip_prefix(FENCE) {
        Some(rest) => match rest.split_once('\n') {
            Some((language, inside)) => match language.trim() {
                "json" => return Some(true),
                "" => inside.trim_start(),
                _ => return Some(false),
            },
            // The line with the language is incomplete.
            None => return None,
        },
        None if FENCE.starts_with(text) => return None,
        None => text,
    };
    let first = inside.chars().next()?;
    Some(matches!(first, '{' | '['))
}

#[cfg(test)]
mod tests {
    use super::AnswerFilter;

    /// Text that the filter shows when an answer arrives in these pieces.
    fn shown(pieces: &[&str]) -> String {
        let mut filter = AnswerFilter::default();
        let mut shown: String = pieces.iter().map(|piece| filter.push(piece)).collect();
        shown.push_str(&filter.finish());
        shown
    }

    #[test]
    fn answers_in_json_are_not_shown() {
        for pieces in [
            &["{\"summary\": ", "\"x\"}"][..],
            &[" \n", "[1,", "2]"],
            &["`", "``js", "on\n{\"a\"", ": 1}\n```"],
            &["```\n", " {}\n```"],
        ] {
            assert_eq!(shown(pieces), "", "{pieces:?}");
        }
    }

    #[test]
    fn other_answers_are_shown_completely() {
        for pieces in [
            &["It is", " {done}", "\n{really}\n"][..],
            &["```", "rust\n{ }\n```"],
            &["``", "x`` is a name"],
            &["```\nls\n```"],
            &["``"],
            &["```rust"],
            &[],
        ] {
            assert_eq!(shown(pieces), pieces.concat());
        }
    }
}
