//! [`StreamRedactor`]: removes secrets from a text that arrives piece by piece.

use super::Redactor;

/// Forwards a text as it arrives, without secrets. Holds back only a possible beginning of a secret,
/// until further text shows whether it is a secret, so that other text is not delayed.
pub struct StreamRedactor {
    redactor: Redactor,
    held: String,
}

impl StreamRedactor {
    /// Creates a redactor for a stream that has not started.
    pub const fn new(redactor: Redactor) -> Self {
        Self {
            redactor,
            held: String::new(),
        }
    }

    /// Adds the next piece and returns the text that can be shown now.
    pub fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        let safe = self.held.len() - self.redactor.unfinished(&self.held);
        let rest = self.held.split_off(safe);
        let safe = std::mem::replace(&mut self.held, rest);
        self.redactor.text(&safe).into_owned()
    }

    /// Ends the text and returns what was held back.
    pub fn finish(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        self.redactor.text(&held).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::StreamRedactor;
    use crate::redact::{MASK, Redactor};
    use crate::secret::Secret;
    use proptest::prelude::*;

    fn stream() -> StreamRedactor {
        StreamRedactor::new(Redactor::new(
            ["zz-key-zz-key-1", "key-1-and-more"].map(|key| Secret::new(key.to_owned())),
        ))
    }

    #[test]
    fn text_without_secrets_is_forwarded_immediately() {
        let mut stream = stream();
        assert_eq!(stream.push("Good "), "Good ");
        assert_eq!(stream.push("morn"), "morn");
        assert_eq!(stream.push("z"), "", "a possible beginning of a secret");
        assert_eq!(stream.push("y."), "zy.");
        assert_eq!(stream.finish(), "");
    }

    #[test]
    fn a_key_is_redacted_for_every_size_of_pieces() {
        let key = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
        for size in 1..=key.len() {
            let mut stream = StreamRedactor::new(Redactor::new([Secret::new(key)]));
            let text = format!("it is {key}, fine");
            let pieces: Vec<String> = text
                .as_bytes()
                .chunks(size)
                .map(|piece| stream.push(std::str::from_utf8(piece).expect("ASCII")))
                .collect();
            let shown = pieces.concat() + &stream.finish();
            assert_eq!(shown, format!("it is {MASK}, fine"), "pieces of {size}");
        }
    }

    proptest! {
        /// For every split of a text, known secrets are redacted and all other text is kept.
        #[test]
        fn secrets_are_redacted_for_every_split(
            words in prop::collection::vec(
                prop::sample::select(vec!["zz-key-zz-key-1", "key-1-and-more", "zz-", "key-", "é", " ", "1"]),
                0..12,
            ),
            cuts in prop::collection::vec(0..200_usize, 0..20),
        ) {
            let text = words.concat();
            let mut stream = stream();
            let mut shown = String::new();
            let mut from = 0;
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| text.floor_char_boundary(cut)).collect();
            cuts.sort_unstable();
            for cut in cuts {
                shown.push_str(&stream.push(&text[from..cut]));
                from = cut;
            }
            shown.push_str(&stream.push(&text[from..]));
            shown.push_str(&stream.finish());
            prop_assert_eq!(shown, stream.redactor.text(&text));
        }
    }
}
