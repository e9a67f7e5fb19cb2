//! [`ItemBrief`]: the facts about an item that a role receives, as the text of its task.

use std::fmt::Write as _;

use cleveragents_domain::ContentHash;

/// A work item as roles see it. Its texts were written by others and are data, never instructions.
#[derive(Debug, Clone, Default)]
pub(crate) struct ItemBrief {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) body: String,
    /// `path:first-last` with the quoted code.
    pub(crate) locations: Vec<(String, String)>,
}

impl ItemBrief {
    /// The item between tags that its own text cannot imitate.
    pub(crate) fn to_data(&self) -> String {
        let mut text = format!("{}\n\n{}\n", self.title, self.body.trim());
        for (place, quote) in &self.locations {
            let _written = write!(text, "\nAt {place}:\n{}\n", quote.trim_end());
        }
        data_block("item", &text)
    }
}

/// A text as data, between tags that contain a hash of the text.
pub(crate) fn data_block(name: &str, text: &str) -> String {
    let hash = ContentHash::of_bytes(text.as_bytes()).hex();
    let tag = format!("{name}-{}", hash.get(..16).unwrap_or(&hash));
    format!("<{tag}>\n{}\n</{tag}>\n", text.trim_end())
}

/// The end of a text, at most `length` bytes, cut at a line.
pub(crate) fn tail(text: &str, length: usize) -> &str {
    if text.len() <= length {
        return text;
    }
    let mut start = text.len() - length;
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text[start..]
        .find('\n')
        .map_or(&text[start..], |line| &text[start + line + 1..])
}
