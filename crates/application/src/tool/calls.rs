//! Queries on recorded tool calls: their rows, output and logs.

use cleveragents_domain::{ContentHash, ToolInvocation};
use cleveragents_store::invocations::{InvocationFilter, InvocationPage};
use cleveragents_store::{blobs, invocations};
use cleveragents_tools::ToolSpec;

use super::service::ToolError;
use crate::definition::DefinitionService;
use crate::reference::{find_referenced, unnamed};

/// A part of a stored content, at character boundaries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    /// Content of the part.
    pub bytes: Vec<u8>,
    /// Offset of the part.
    pub from: u64,
    /// Total number of bytes.
    pub total: u64,
}

impl Excerpt {
    /// Offset of the next part; `None` when this is the last.
    pub fn next(&self) -> Option<u64> {
        let end = self.from + self.bytes.len() as u64;
        (end < self.total).then_some(end)
    }

    /// The part from an offset on, of about this length. Parts with offsets that far apart follow
    /// each other without a gap, and no character is split.
    fn slice(content: &[u8], from: u64, length: usize) -> Self {
        let whole_letter = |mut at: usize| {
            // A byte of this form continues a UTF-8 character, which has at most three of them.
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

impl DefinitionService<ToolSpec> {
    /// Calls, newest first.
    pub fn calls(&self, filter: &InvocationFilter) -> Result<InvocationPage, ToolError> {
        Ok(self
            .engine()
            .read(|reader| invocations::list(reader, filter))?)
    }

    /// A call by its id, or by the first six or more characters of it.
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

    /// A part of the output or log of a call. `None` when it has none.
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
        fn parts_follow_each_other_and_tear_no_letter(text in "[a-zé€😀]{0,60}", length in 4..20_usize) {
            let mut whole = String::new();
            for number in 0..=text.len() / length {
                let part = Excerpt::slice(text.as_bytes(), (number * length) as u64, length);
                prop_assert_eq!(part.from, whole.len() as u64);
                whole.push_str(std::str::from_utf8(&part.bytes).expect("whole letters"));
                prop_assert_eq!(part.next(), (whole.len() < text.len()).then_some(whole.len() as u64));
            }
            prop_assert_eq!(whole, text);
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
