//! [`Veil`]: secrets taken out of a text that comes piece by piece.

use super::Redactor;

/// Hands a text on as it comes, without secrets. Only what may be the beginning of one is held back
/// until that is known, so that nothing else comes later than it would.
pub struct Veil {
    redactor: Redactor,
    held: String,
}

impl Veil {
    /// A veil before a text that has not begun.
    pub const fn new(redactor: Redactor) -> Self {
        Self {
            redactor,
            held: String::new(),
        }
    }

    /// Takes the next piece and gives what can be shown now.
    pub fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        let certain = self.held.len() - self.redactor.unfinished(&self.held);
        let rest = self.held.split_off(certain);
        let certain = std::mem::replace(&mut self.held, rest);
        self.redactor.text(&certain).into_owned()
    }

    /// Gives what was held back: the text has ended.
    pub fn finish(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        self.redactor.text(&held).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::Veil;
    use crate::redact::{MASK, Redactor};
    use crate::secret::Secret;
    use proptest::prelude::*;

    fn veil() -> Veil {
        Veil::new(Redactor::new(
            ["zz-key-zz-key-1", "key-1-and-more"].map(|key| Secret::new(key.to_owned())),
        ))
    }

    #[test]
    fn what_is_no_secret_is_handed_on_at_once() {
        let mut veil = veil();
        assert_eq!(veil.push("Good "), "Good ");
        assert_eq!(veil.push("morn"), "morn");
        assert_eq!(veil.push("z"), "", "it could be the beginning");
        assert_eq!(veil.push("y."), "zy.");
        assert_eq!(veil.finish(), "");
    }

    #[test]
    fn a_key_is_not_shown_whatever_the_pieces() {
        let key = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
        for size in 1..=key.len() {
            let mut veil = Veil::new(Redactor::new([Secret::new(key)]));
            let text = format!("it is {key}, fine");
            let pieces: Vec<String> = text
                .as_bytes()
                .chunks(size)
                .map(|piece| veil.push(std::str::from_utf8(piece).expect("ASCII")))
                .collect();
            let shown = pieces.concat() + &veil.finish();
            assert_eq!(shown, format!("it is {MASK}, fine"), "pieces of {size}");
        }
    }

    proptest! {
        /// However a text is cut, no known secret comes through, and nothing else is lost.
        #[test]
        fn no_cut_lets_a_secret_through(
            words in prop::collection::vec(
                prop::sample::select(vec!["zz-key-zz-key-1", "key-1-and-more", "zz-", "key-", "é", " ", "1"]),
                0..12,
            ),
            cuts in prop::collection::vec(0..200_usize, 0..20),
        ) {
            let text = words.concat();
            let mut veil = veil();
            let mut shown = String::new();
            let mut from = 0;
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| text.floor_char_boundary(cut)).collect();
            cuts.sort_unstable();
            for cut in cuts {
                shown.push_str(&veil.push(&text[from..cut]));
                from = cut;
            }
            shown.push_str(&veil.push(&text[from..]));
            shown.push_str(&veil.finish());
            prop_assert_eq!(shown, veil.redactor.text(&text));
        }
    }
}
