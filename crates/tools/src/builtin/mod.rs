//! The tools that are part of the program.

use std::sync::Arc;

use crate::tool::Tool;

/// All of them.
pub fn all() -> Vec<Arc<dyn Tool>> {
    Vec::new()
}
