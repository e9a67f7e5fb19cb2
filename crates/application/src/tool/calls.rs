//! Queries on recorded tool calls: their rows, output and logs.

use cleveragents_domain::{ContentHash, ToolInvocation};
use cleveragents_store::invocations::{InvocationFilter, InvocationPage};
use cleveragents_store::{blobs, invocations};
use cleveragents_tools::ToolSpec;

use super::service::ToolError;
use crate::definition::DefinitionService;
use crate::reference::{find_referenced, unnamed};

/// A part of stored content, cut at character boundaries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// Content of the part.
    pub bytes: Vec<u8>,
    /// Offset of the part, in bytes.
    pub from: u64,
    /// Total number of bytes.
    pub total: u64,
}

impl Excerpt {
    /// Offset of the next part; `None` for the last part.
    pub fn next(&self) -> Option<u64> {
        let end = self.from + self.bytes.len() as u64;
        (end < self.total).then_some(end)
    }

    /// The part that starts at about `from` and has about `length` bytes: both ends move to the next
    /// character boundary. Parts at multiples of `length` therefore cover the content without gaps.
    fn slice(content: &[u8], from: u64, length: usize) -> Self {
        let char_boundary = |mut at: usize| {
            // Continuation byte of a UTF-8 character, which has at most three of them.
            let is_continuation =
                |at: usize| content.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
            for _ in 0..3 {
                at += usize::from(is_continuation(at));
            }
            at
        };
        let requested = usize::try_from(from)
            .unwrap_or(usize::MAX)
            .min(content.len());
        let start = char_boundary(requested);
        let end = char_boundary(requested.saturating_add(length).min(content.len())).max(start);
        Self {
            bytes: content[start..end].to_vec(),
            from: start as u64,
            total: content.len() as u64,
        }
    }
}

impl DefinitionService<ToolSpec> {
    /// Recorded calls that match the filter, newest first.
    pub fn calls(&self, filter: &InvocationFilter) -> Result<InvocationPage, ToolError> {
        Ok(self
            .engine()
            .read(|reader| invocations::list(reader, filter))?)
    }

    /// A call by its id, or by a prefix of at least six characters.
    pub fn call(&self, reference: &str) -> Result<ToolInvocation, ToolError> {
        self.engine().read(|reader| {
            find_referenced(
                reader,
                reference,
                unnamed,
                |reader, prefix, limit| Ok(invocations::with_prefix(reader, prefix, limit)?),
                |found| ToolError::NoCall {
                    reference: reference.to_owned(),
                    candidates: found.iter().map(|call| call.id).collect(),
                },
            )
        })
    }

    /// A part of the stored output or log of a call. `None` when the content does not exist.
    pub fn excerpt(
        &self,
        stored: Option<ContentHash>,
        from: u64,
        length: usize,
    ) -> Result<Option<Excerpt>, ToolError> {
        let Some(hash) = stored else {
            return Ok(None);
        };
        let content = self.engine().read(|reader| blobs::get(reader, hash))?;
        Ok(content.map(|content| Excerpt::slice(&content, from, length)))
    }
}

#[cfg(test)]
mod tests {
    use super::Excerpt;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_follow_each_other_and_split_no_character(text in "[a-zé€😀]{0,60}", length in 4..20_usize) {
            let mut joined = String::new();
            for number in 0..=text.len() / length {
                let part = Excerpt::slice(text.as_bytes(), (number * length) as u64, length);
                prop_assert_eq!(part.from, joined.len() as u64);
                joined.push_str(std::str::from_utf8(&part.bytes).expect("complete characters"));
                prop_assert_eq!(part.next(), (joined.len() < text.len()).then_some(joined.len() as u64));
            }
            prop_assert_eq!(joined, text);
        }
    }

    #[test]
    fn binary_output_is_returned_too() {
        let content = vec![0x80; 10];
        let part = Excerpt::slice(&content, 4, 2);
        assert_eq!((part.from, part.bytes.len(), part.next()), (7, 2, Some(9)));
        assert!(Excerpt::slice(&content, 99, 5).bytes.is_empty());
    }
}
