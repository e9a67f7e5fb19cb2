//! A path that changed on both sides, with the content of each side.

use cleveragents_domain::{FileState, TreePath};
use serde::Serialize;

/// Maximum number of bytes of text shown of each side.
const SHOWN: usize = 16 << 10;

/// State of a path on one side of a conflict.
#[derive(Debug, Clone, Serialize)]
pub struct Side {
    /// Size in bytes.
    pub size: u64,
    /// Kind and permissions, as git writes them.
    pub mode: String,
    /// Beginning of the content if it is text.
    pub text: Option<String>,
}

impl Side {
    pub(crate) fn new(mode: impl Into<String>, content: &[u8]) -> Self {
        let shown = &content[..content.len().min(SHOWN)];
        // The limit may cut a character in two; the content still counts as text.
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

    pub(crate) fn from_state(state: &FileState, content: Option<&[u8]>) -> Self {
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
    /// Alias of the sandbox member.
    pub alias: String,
    /// Path within the member.
    pub path: TreePath,
    /// Description of the change outside the sandbox.
    pub reason: String,
    /// State that the sandbox started from.
    pub base: Option<Side>,
    /// State in the real resource.
    pub yours: Option<Side>,
    /// State in the sandbox.
    pub sandbox: Option<Side>,
}

impl Conflict {
    /// Member alias and path as one text.
    pub fn label(&self) -> String {
        format!("{}/{}", self.alias, self.path)
    }
}
