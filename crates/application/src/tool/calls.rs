//! Calls of tools that were made, to be looked at: their rows, and what they said and logged.

use cleveragents_domain::{ContentHash, ToolInvocation, ToolInvocationId, check_prefix};
use cleveragents_store::invocations::{InvocationFilter, InvocationPage};
use cleveragents_store::{blobs, invocations};

use super::service::{ToolError, ToolService};

/// So many candidates are named when a prefix means several.
const CANDIDATES: u64 = 5;

/// A part of something stored, from where to where, on whole letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Where it begins.
    pub from: u64,
    /// How much the whole has.
    pub total: u64,
}

impl Excerpt {
    /// Where the next part begins; nothing when this was the last.
    pub fn next(&self) -> Option<u64> {
        let end = self.from + self.bytes.len() as u64;
        (end < self.total).then_some(end)
    }

    /// The part from a place on, about so long. Parts whose places lie that far from each other
    /// follow each other without a gap, and no letter is torn.
    fn of(content: &[u8], from: u64, length: usize) -> Self {
        let whole_letter = |mut at: usize| {
            // A byte of this form continues a letter of UTF-8, which has at most three of them.
            let torn = |at: usize| content.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
            for _ in 0..3 {
                at += usize::from(torn(at));
            }
            at
        };
        let wanted = usize::try_from(from)
            .unwrap_or(usize::MAX)
            .min(content.len());
        let start = whole_letter(wanted);
        let end = whole_letter(wanted.saturating_add(length).min(content.len())).max(start);
        Self {
            bytes: content[start..end].to_vec(),
            from: start as u64,
            total: content.len() as u64,
        }
    }
}

impl ToolService {
    /// Calls, newest first.
    pub fn calls(&self, filter: &InvocationFilter) -> Result<InvocationPage, ToolError> {
        Ok(self
            .engine
            .read(|reader| invocations::list(reader, filter))?)
    }

    /// A call by its id, or by the first six or more characters of it.
    pub fn call(&self, reference: &str) -> Result<ToolInvocation, ToolError> {
        let missing = || ToolError::NoCall {
            reference: reference.to_owned(),
            candidates: Vec::new(),
        };
        if let Ok(id) = reference.parse::<ToolInvocationId>() {
            let found = self.engine.read(|reader| invocations::get(reader, id))?;
            return found.ok_or_else(missing);
        }
        let prefix = check_prefix(reference).map_err(|_| missing())?;
        let mut found = self
            .engine
            .read(|reader| invocations::with_prefix(reader, &prefix, CANDIDATES))?;
        match found.len() {
            1 => Ok(found.swap_remove(0)),
            _ => Err(ToolError::NoCall {
                reference: reference.to_owned(),
                candidates: found.iter().map(|call| call.id).collect(),
            }),
        }
    }

    /// A part of what a call said or logged. Nothing when it said nothing.
    pub fn excerpt(
        &self,
        stored: Option<ContentHash>,
        from: u64,
        length: usize,
    ) -> Result<Option<Excerpt>, ToolError> {
        let Some(hash) = stored else {
            return Ok(None);
        };
        let content = self.engine.read(|reader| blobs::get(reader, hash))?;
        Ok(content.map(|content| Excerpt::of(&content, from, length)))
    }
}

#[cfg(test)]
mod tests {
    use super::Excerpt;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_follow_each_other_and_tear_no_letter(text in "[a-zé€😀]{0,60}", length in 4..20_usize) {
            let mut whole = String::new();
            for number in 0..=text.len() / length {
                let part = Excerpt::of(text.as_bytes(), (number * length) as u64, length);
                prop_assert_eq!(part.from, whole.len() as u64);
                whole.push_str(std::str::from_utf8(&part.bytes).expect("whole letters"));
                prop_assert_eq!(part.next(), (whole.len() < text.len()).then_some(whole.len() as u64));
            }
            prop_assert_eq!(whole, text);
        }
    }

    #[test]
    fn bytes_that_are_no_text_come_too() {
        let content = vec![0x80; 10];
        let part = Excerpt::of(&content, 4, 2);
        assert_eq!((part.from, part.bytes.len(), part.next()), (7, 2, Some(9)));
        assert!(Excerpt::of(&content, 99, 5).bytes.is_empty());
    }
}
