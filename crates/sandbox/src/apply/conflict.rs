//! A path that changed on both sides, with what each side holds.

use cleveragents_domain::{FileState, TreePath};
use serde::Serialize;

/// So much of a text is shown of each side.
const SHOWN: usize = 16 << 10;

/// What one side has at a path.
#[derive(Debug, Clone, Serialize)]
pub struct Side {
    /// How many bytes.
    pub size: u64,
    /// Kind and permissions, as git writes them.
    pub mode: String,
    /// The beginning of the content, when it is text.
    pub text: Option<String>,
}

impl Side {
    pub(crate) fn new(mode: impl Into<String>, content: &[u8]) -> Self {
        let shown = &content[..content.len().min(SHOWN)];
        // A cut may fall into a character; that is still text.
        let text = match std::str::from_utf8(shown) {
            Ok(text) => Some(text.to_owned()),
            Err(error) if error.error_len().is_none() => {
                Some(String::from_utf8_lossy(&shown[..error.valid_up_to()]).into_owned())
            }
            Err(_) => None,
        };
        Self {
            size: content.len() as u64,
            mode: mode.into(),
            text: text.filter(|text| !text.contains('\0')),
        }
    }

    pub(crate) fn of(state: &FileState, content: Option<&[u8]>) -> Self {
        let mut side = Self::new(state.mode.to_string(), content.unwrap_or_default());
        side.size = state.size;
        if content.is_none() {
            side.text = None;
        }
        side
    }
}

/// A path that cannot be applied because the real resource changed there too.
#[derive(Debug, Clone, Serialize)]
pub struct Conflict {
    /// The part of the sandbox.
    pub alias: String,
    /// The path in it.
    pub path: TreePath,
    /// What happened outside.
    pub reason: String,
    /// What the sandbox started from.
    pub base: Option<Side>,
    /// What the real resource holds.
    pub yours: Option<Side>,
    /// What the sandbox holds.
    pub sandbox: Option<Side>,
}

impl Conflict {
    /// Part and path in one word.
    pub fn label(&self) -> String {
        format!("{}/{}", self.alias, self.path)
    }
}
