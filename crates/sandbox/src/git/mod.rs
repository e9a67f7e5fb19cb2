//! Git repositories: worktrees to work in, first content, and the result as a commit.
//!
//! Everything that decides what is applied is done against the user's repository with an index of
//! our own; the worktree's own git files are never trusted, since whatever ran in the sandbox could
//! write them.

mod base;
mod base_index;
mod import;
mod program;
mod result;
mod shared_objects;
mod staging;
mod updates;
mod worktree;

pub(crate) use base::CommittedContent;
pub(crate) use base_index::write_list;
pub(crate) use program::object_folder;
pub use program::{Answer, Git, Streamed};
pub use result::Landing;
pub(crate) use result::{Blob, GitPlan, GitRequest, plan_result};
pub(crate) use shared_objects::{shared_config, shared_objects};
pub(crate) use updates::Update;
pub use worktree::GitBase;
pub(crate) use worktree::{
    Checkout, create_worktree, is_read_by_git, open_checkout, remove_worktree, write_link,
};

/// Splits what git printed with `-z`.
pub(crate) fn records(printed: &[u8]) -> impl Iterator<Item = &[u8]> {
    printed
        .split(|byte| *byte == 0)
        .filter(|record| !record.is_empty())
}

/// Joins paths for a git that reads `-z`.
pub(crate) fn joined<'a>(
    paths: impl IntoIterator<Item = &'a cleveragents_domain::TreePath>,
) -> Vec<u8> {
    let mut input = Vec::new();
    for path in paths {
        input.extend_from_slice(path.as_bytes());
        input.push(0);
    }
    input
}
